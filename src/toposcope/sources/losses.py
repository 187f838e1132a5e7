"""Tables of losses, however they are written: one reader, and one table of what their columns are called."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pandas as pd

from toposcope.errors import InputError

ALIASES: Mapping[str, tuple[str, ...]] = {
    "run": ("run_name", "run_id"),
    "step": ("steps", "iter", "iteration", "iter_num", "global_step"),
    "tokens": ("tokens_seen", "num_tokens", "num_input_tokens_seen", "total_tokens"),
    "loss": ("train_loss", "training_loss", "lm_loss", "train_lm_loss"),
    "heldout_loss": ("val_loss", "valid_loss", "validation_loss", "eval_loss"),
    "learning_rate": ("lr", "train_learning_rate", "train_lr"),
    "parameters": ("params", "n_params", "num_params"),
    "grad_norm": ("gradient_norm", "train_grad_norm"),
    "weight_norm": ("weight_norm_total", "params_norm"),
    "seconds": ("elapsed_seconds", "runtime"),
    "flop": ("flops", "total_flos"),
}
"""What a column means -> the names it is also understood by, as `plain` writes them."""

SUFFIXES = (".csv", ".tsv", ".parquet", ".jsonl")


def plain(name: object) -> str:
    """Return a column's name without the differences that mean nothing.

    >>> plain("Train/Learning-Rate "), plain("_step")
    ('train_learning_rate', 'step')
    """
    text = str(name).strip().lower()
    for mark in "/- ":
        text = text.replace(mark, "_")
    return text.lstrip("_")


def meaning(name: object) -> str:
    """Return what a column is by `ALIASES`; its plain name where that is none of them.

    >>> meaning("val/loss"), meaning("params"), meaning("mine")
    ('heldout_loss', 'parameters', 'mine')
    """
    text = plain(name)
    return next((known for known, aliases in ALIASES.items() if text == known or text in aliases), text)


def meanings(columns: Collection[object]) -> dict[object, str]:
    """Return the columns that `ALIASES` knows and what they mean; a column of epochs alone is the step.

    >>> meanings(["iter", "lr", "h0"])
    {'iter': 'step', 'lr': 'learning_rate'}
    >>> meanings(["epoch", "loss"])
    {'epoch': 'step', 'loss': 'loss'}
    """
    found = {column: known for column in columns if (known := meaning(column)) in ALIASES}
    if "step" not in found.values():
        epochs = [column for column in columns if plain(column) == "epoch"]
        found = {**dict.fromkeys(epochs, "step"), **found}
    return found


def canonical(frame: pd.DataFrame, *, keep: Collection[str] = ()) -> pd.DataFrame:
    """Return the table under canonical column names, but for those in `keep` and names already taken.

    >>> list(canonical(pd.DataFrame({"iter": [1], "params": [2], "loss": [3.0], "train_loss": [4.0]})))
    ['step', 'parameters', 'loss', 'train_loss']
    """
    new: dict[object, str] = {}
    for column, known in meanings(list(frame.columns)).items():
        if column not in keep and known not in frame and known not in new.values():
            new[column] = known
    return frame.rename(columns=new)


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a table from a .csv, .tsv, .parquet or .jsonl file, columns as they are written.

    Raises
    ------
    InputError
        When it is another kind of file or cannot be read.
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise InputError(f"{path}: neither a store nor a {' or '.join(SUFFIXES)} table")
    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path)
        if path.suffix == ".jsonl":
            return pd.read_json(path, lines=True)
        return pd.read_csv(path, sep="\t" if path.suffix == ".tsv" else ",")
    except (ValueError, OSError) as error:
        raise InputError(f"{path} cannot be read as a table: {str(error).splitlines()[0]}") from error
