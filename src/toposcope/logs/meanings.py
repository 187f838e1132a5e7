"""Reads tables of losses in any form; one table lists the known column names."""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Mapping
from pathlib import Path

import pandas as pd

from toposcope.core.errors import InputError
from toposcope.logs.dialects.phrases import HELD_OUT

ALIASES: Mapping[str, tuple[str, ...]] = {
    "run": ("run_name", "run_id"),
    "step": (
        "steps", "iter", "iteration", "iter_num", "global_step", "train_global_step", "trainer_global_step",
        "training_global_step", "train_step", "training_step", "trainer_step", "iterations", "num_updates",
        "update", "current_steps", "train_num_updates", "valid_num_updates", "time_total_timesteps",
        "total_timesteps", "misc_total_timesteps", "num_timesteps", "timesteps_total", "record",
    ),
    "tokens": ("tokens_seen", "num_tokens", "num_input_tokens_seen", "total_tokens"),
    "loss": (
        "train_loss", "training_loss", "loss_train", "lm_loss", "train_lm_loss", "train_loss_step",
        "loss_step", "train_ce_loss", "train_crossentropyloss", "train_cross_entropy_loss",
        "loss_metrics_global_avg_loss", "train_loss_epoch", "total_loss", "train_total_loss", "loss_total",
    ),
    "heldout_loss": (
        "val_loss", "valid_loss", "validation_loss", "eval_loss", "val_loss_epoch",
        "validation_lm_loss_value",
        "validation_lm_loss", "lm_loss_validation", "eval_lm_loss", "eval_ce_loss", "validation_ce_loss",
        "validation_metrics_loss", "dev_loss", "loss_val", "loss_valid", "loss_eval", "evaluation_loss",
        "test_loss", "loss_test",
    ),
    "learning_rate": (
        "lr", "train_learning_rate", "train_lr", "optim_learning_rate", "optim_learning_rate_group0",
        "optim_lr_group_0", "optim0_lr0", "lr_0", "cur_lr", "current_lr", "learning_current_learning_rate",
        "actor_lr",
    ),
    "parameters": ("params", "n_params", "num_params"),
    "grad_norm": (
        "gradient_norm", "train_grad_norm", "optim_total_grad_norm", "total_grad_norm", "global_grad_norm",
        "grad_norm_total", "grad_2_0_norm_total", "l2_norm_grad_global", "learning_grad_norm", "gradnorm",
        "gnorm", "train_gnorm", "actor_grad_norm",
    ),
    "weight_norm": ("weight_norm_total", "params_norm"),
    "seconds": ("elapsed_seconds", "runtime"),
    "flop": ("flops", "total_flos"),
}  # fmt: skip
"""Meaning of a column -> other names with this meaning, as `plain` writes them."""
SCALES = ("lr_scale", "lr_multiplier", "lr_factor")
"""Columns with the learning rate up to a factor, which is enough to see that it rose or ended."""
_LAST_RESORT = ("actor_loss", "act_loss", "actor_pg_loss")
"""A policy's loss; it is the loss if there is no other."""
_PERIODS = ("epoch", "episode", "epoca", "época", "epoche", "epoque", "round", "tick", "progress_tick")
"""What is the step of a log that counts nothing shorter."""
_BITS = {"bpb": "bits per byte", "bpc": "bits per character", "bits_per_byte": "bits per byte"}
"""Held-out losses in another unit; one of them is the held-out loss if there is no other."""
_NORM = "norm"
"""The gradient's norm beside a loss and a learning rate, as llm.c and build-nanogpt write it."""
_OF_A_SET = ("runtime", "samples_per_second")
_COUNTERS = ("_step",)
"""Columns that count records, under their original names; they are the step if there is no other."""
_LIGHTNING_RATE = re.compile(r"lr-[A-Za-z]\w*(?:/pg\d+)?$")
"""Lightning's LearningRateMonitor's names for the learning rate of an optimizer, or of its first group."""
_JOINED = re.compile(r"(?<=[a-z])(?=Loss)")
_UNDERSCORES = re.compile("_+")
_DECIMAL_COMMA = re.compile(r'(?:^|;)"?[-+]?\d+,\d+(?:[eE][-+]?\d+)?"?(?=;|\s*$)', re.MULTILINE)
_DECIMAL_POINT = re.compile(r'(?:^|;)"?[-+]?\d*\.\d', re.MULTILINE)
"""Numbers between semicolons: with a decimal comma, as in many languages, and with a decimal point."""
SUFFIXES = (".csv", ".tsv", ".parquet", ".jsonl")


def plain(name: object) -> str:
    """Return a column's name without meaningless differences.

    >>> plain("Train/Learning-Rate "), plain("_step"), plain("ValLoss")
    ('train_learning_rate', 'step', 'val_loss')
    """
    text = _JOINED.sub("_", str(name).strip()).lower()
    for mark in "/- .(":
        text = text.replace(mark, "_")
    return _UNDERSCORES.sub("_", text.replace(")", "")).lstrip("_")


def meaning(name: object) -> str:
    """Return the meaning of a column by `ALIASES`, or its plain name.

    >>> meaning("val/loss"), meaning("params"), meaning("mine")
    ('heldout_loss', 'parameters', 'mine')
    """
    text = plain(name)
    return next((role for role, aliases in ALIASES.items() if text == role or text in aliases), text)


def chosen(columns: Collection[object]) -> dict[str, object]:
    """Return the column used for each meaning: the canonical name first, then its aliases in their order.

    Every reader of a table or a log asks here. W&B's record counter is the step only if no other column is.
    If no loss has a known name, the only column that ends in "loss" and is not held out is used; if there is
    no training loss at all, the only held-out one is the held-out loss. Lightning names a learning rate after
    its optimizer.

    >>> chosen(["_step", "train/global_step", "train/loss", "eval/loss"])
    {'step': 'train/global_step', 'loss': 'train/loss', 'heldout_loss': 'eval/loss'}
    >>> chosen(["epoch", "nll_loss"])
    {'step': 'epoch', 'loss': 'nll_loss'}
    >>> chosen(["step", "my_loss", "my_val_loss"])
    {'step': 'step', 'loss': 'my_loss', 'heldout_loss': 'my_val_loss'}
    >>> chosen(["step", "test_loss"])
    {'step': 'step', 'heldout_loss': 'test_loss'}
    >>> chosen(["step", "lr-AdamW/pg1", "lr-AdamW/pg2"])
    {'step': 'step', 'learning_rate': 'lr-AdamW/pg1'}
    >>> chosen(["step", "loss", "lr", "norm"])
    {'step': 'step', 'loss': 'loss', 'learning_rate': 'lr', 'grad_norm': 'norm'}
    """
    by_name: dict[str, object] = {}
    for column in sorted(columns, key=lambda column: str(column) in _COUNTERS):
        by_name.setdefault(plain(column), column)
    counted = by_name.get("step") if str(by_name.get("step")) in _COUNTERS else None
    columns_by_name: dict[str, object] = {}
    for role, aliases in ALIASES.items():
        names = (role, *aliases) if role != "step" or counted is None else (*aliases, role)
        if column := next((by_name[name] for name in names if name in by_name), None):
            columns_by_name[role] = column
    if "step" not in columns_by_name and (
        long := next((period for period in _PERIODS if period in by_name), None)
    ):
        columns_by_name["step"] = by_name[long]
    if "loss" not in columns_by_name:
        columns_by_name |= {role: by_name[name] for role, name in _alike(by_name, columns_by_name).items()}
    if "heldout_loss" not in columns_by_name and (held := _held_out(by_name, columns_by_name)):
        columns_by_name["heldout_loss"] = by_name[held]
    if "learning_rate" not in columns_by_name:
        monitored = [column for column in columns if _LIGHTNING_RATE.match(str(column))]
        columns_by_name |= {"learning_rate": monitored[0]} if monitored else {}
    if _NORM in by_name and {"loss", "learning_rate"} <= columns_by_name.keys():
        columns_by_name.setdefault("grad_norm", by_name[_NORM])
    order = {role: place for place, role in enumerate(ALIASES)}
    return dict(sorted(columns_by_name.items(), key=lambda item: order[item[0]]))


def _alike(names: Collection[str], names_before: Collection[str]) -> dict[str, str]:
    """Return the losses among plain names of which none is known, if each is the only one of its kind."""
    losses = [name for name in names if name.endswith("loss")]
    trained = [name for name in losses if not _opens_held_out(name)]
    if len(trained) > 1:  # my_loss beside my_val_loss; alone, my_val_loss is the only loss of a run
        trained = [name for name in trained if not _says_held_out(name)] or trained
    known_last = [name for name in _LAST_RESORT if name in names]
    if len(trained) == 1 and any(_is_part(name) for name in names if name not in losses):
        trained = []  # kl_loss beside loss_gen and loss_disc
        losses = [name for name in losses if _opens_held_out(name)]
    if taken := trained if len(trained) == 1 else known_last[:1]:
        return {"loss": taken[0]}
    if not trained and len(losses) == 1 and "heldout_loss" not in names_before:
        return {"heldout_loss": losses[0]}
    return {}


def _is_part(name: str) -> bool:
    """Return whether a plain name such as loss_gen is a loss of training.

    >>> _is_part("loss_gen"), _is_part("loss_scale"), _is_part("loss_val")
    (True, False, False)
    """
    from toposcope.logs.dialects.phrases import LOSS, phrase

    meant = phrase(name)
    return name.startswith("loss_") and meant.kind == LOSS and not meant.held_out


def _held_out(names: Collection[str], names_before: Mapping[str, object]) -> str:
    """Return the only held-out loss beside a loss of training, or else a held-out one in bits per byte.

    >>> _held_out(["main_loss", "validation_main_loss"], {"loss": ""}), _held_out(["loss", "val_bpb"], {})
    ('validation_main_loss', 'val_bpb')
    """
    ended = [name for name in names if name.endswith("_loss") and _says_held_out(name)]
    if len(ended) == 1 and "loss" in names_before:
        return ended[0]
    sets = [name.removesuffix("_loss") for name in ended]
    if ended and all(any(f"{of}_{other}" in names for other in _OF_A_SET) for of in sets):
        return ended[0]  # transformers evaluates several sets, each with its own time
    bits = (f"{word}_{unit}" for unit in _BITS for word in HELD_OUT)
    return next((name for name in bits if name in names), "")


def _opens_held_out(name: str) -> bool:
    """Return whether a plain name begins with a word of what is held out.

    >>> [_opens_held_out(name) for name in ("valloss", "val2_loss", "held_out_loss", "value_loss")]
    [True, True, True, False]
    """
    first = name.partition("_")[0].removesuffix("loss").rstrip("0123456789")
    return first in HELD_OUT or name.startswith("held_out_")


def _says_held_out(name: str) -> bool:
    return any(f"_{part}_" in f"_{name}_" for part in HELD_OUT)


def losses_among(columns: Collection[object]) -> list[str]:
    """Return the columns that are called a loss, whichever kind, or else those of networks that compete.

    >>> losses_among(["epoch", "train/box_loss", "loss_G", "glossary"])
    ['train/box_loss', 'loss_G']
    """
    from toposcope.logs.measures import parts_among

    called = [str(column) for column in columns if {"loss", "losses"} & {*plain(column).split("_")}]
    called.sort(key=lambda column: "loss" not in column.lower().rpartition("/")[2])
    return called or parts_among([*map(str, columns)])


def twins(columns: Collection[object], taken: Mapping[str, object]) -> dict[str, list[str]]:
    """Return the columns with the same meaning as one that was chosen; a second step is no choice of numbers.

    >>> twins(["iter", "global_step", "train_loss", "lm_loss"], {"step": "iter", "loss": "train_loss"})
    {'loss': ['lm_loss']}
    """
    used = {str(column) for column in taken.values()}
    others = [str(column) for column in columns if str(column) not in used]
    alike_names = {
        role: [column for column in others if meaning(column) == role] for role in taken if role != "step"
    }
    return {role: alike for role, alike in alike_names.items() if alike}


def units(taken: Mapping[str, str]) -> list[str]:
    """Return a note where the held-out loss is in another unit than the loss.

    >>> units({"loss": "loss", "heldout_loss": "val_bpb"})
    ["'val_bpb' is in bits per byte, not in the unit of 'loss'"]
    """
    held, loss = taken.get("heldout_loss", ""), taken.get("loss", "")
    unit = next((words for name, words in _BITS.items() if plain(held).endswith(name)), "")
    if not unit or plain(loss).endswith(plain(held)[-3:]):
        return []
    return [f"{held!r} is in {unit}" + (f", not in the unit of {loss!r}" if loss else "")]


def canonical(frame: pd.DataFrame, *, keep: Collection[str] = ()) -> pd.DataFrame:
    """Return the table under canonical column names, except for those in `keep` and names already in use.

    >>> list(canonical(pd.DataFrame({"iter": [1], "params": [2], "loss": [3.0], "train_loss": [4.0]})))
    ['step', 'parameters', 'loss', 'train_loss']
    """
    free = [column for column in frame if column not in keep]
    return frame.rename(columns={old: new for new, old in chosen(free).items() if new not in frame})


def separated(text: str) -> pd.DataFrame:
    r"""Read a table with the separator (comma, tab or semicolon) that splits its first line into most names.

    With semicolons, a comma is the decimal mark, unless a number has a decimal point.

    >>> separated("step;loss\n1;2.5").to_dict("list"), separated("step;loss\n1;2,5").to_dict("list")
    ({'step': [1], 'loss': [2.5]}, {'step': [1], 'loss': [2.5]})
    """
    body = text.lstrip("\ufeff")
    between = max(",\t;", key=body.partition("\n")[0].count)
    comma = between == ";" and _DECIMAL_COMMA.search(body) and not _DECIMAL_POINT.search(body)
    return pd.read_csv(io.StringIO(body), sep=between, decimal="," if comma else ".")


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a table from a .csv, .tsv, .parquet or .jsonl file, with its original columns.

    Raises
    ------
    InputError
        When it is another kind of file, or cannot be read.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            f"{path}: neither a store nor a {' or '.join(SUFFIXES)} table", remedy="give one of these"
        )
    try:
        if suffix == ".parquet":
            return pd.read_parquet(path)
        if suffix == ".jsonl":
            return pd.read_json(path, lines=True)
        return separated(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InputError(
            f"{path} cannot be read as a table: {str(error).splitlines()[0]}", remedy="check the file"
        ) from error
