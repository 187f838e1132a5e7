"""The rows from which the weight-space paper's claims are judged: a CSV line per checkpoint, no weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd

from toposcope.core.errors import InputError
from toposcope.core.tabular import write_csv
from toposcope.published.forecast_rules import NEURAL_PERSISTENCE, RIECK
from toposcope.studies.columns import SCHEMA_DIALECT, Column, read_table, rounded, row_schema
from toposcope.studies.seed004.runs import H0, H1, TEXT_H0, TEXT_H1, MeasuredRuns, joined, printed
from toposcope.study import SeriesTable, from_frame

FILE = "rows.csv"
_DIGITS = 7
"""Significant digits of a number: float32 weights and losses hold no more."""


_DRAWS = (
    "200 rows of all weight matrices pooled, bars above 2.0 dropped, mean of 20 draws (1 if no more rows)"
)
_LAYERS = "every weight matrix its own cloud of rows, no threshold, totals added up"
_BY_MATRIX = "mean over matrices, each divided by its own largest weight, p = 1"
_BY_NETWORK = "mean over matrices, divided by the largest weight of the network, p = 2 (Rieck et al. 2019)"
COLUMNS = (
    Column("corpus", "string", "", "text that the run was trained on", empty=True),
    Column("tokenizer", "string", "", "characters (code point modulo 128) or bpe (128 subwords)", empty=True),
    Column("model", "string", "", "the paper's name of a model of this size"),
    Column("run", "string", "", "name of the run; unique in a file"),
    Column("parameters", "integer", "", "number of trainable parameters"),
    Column("seed", "integer", "", "seed of the initial weights and of the order of the text", empty=True),
    Column("step", "integer", "optimiser steps", "step of the checkpoint; 0 is before training"),
    Column("tokens", "integer", "tokens", "tokens seen up to the checkpoint", empty=True),
    Column("loss", "number", "nats per token", "cross-entropy on the training minibatch of this step"),
    Column("loss_smooth", "number", "nats per token", "mean minibatch loss of the last 100 steps"),
    Column("heldout_loss", "number", "nats per token", "loss on fixed held-out batches", empty=True),
    Column("learning_rate", "number", "", "learning rate of the step", empty=True),
    Column("weight_norm", "number", "", "Euclidean norm of all weights", empty=True),
    Column("neural_persistence", "number", "", _BY_MATRIX),
    Column("h0_total", "number", "distance", f"total persistence of H0: {_DRAWS}"),
    Column("h0_total_sd", "number", "distance", "standard deviation of h0_total over draws", empty=True),
    Column("h1_total", "number", "distance", f"total persistence of H1: {_DRAWS}"),
    Column("h1_total_sd", "number", "distance", "standard deviation of h1_total over draws", empty=True),
    Column("neural_persistence_network", "number", "", _BY_NETWORK),
    Column("h0_total_layers", "number", "distance", f"total persistence of H0: {_LAYERS}"),
    Column("h1_total_layers", "number", "distance", f"total persistence of H1: {_LAYERS}"),
)
"""The columns of a file of rows, in the order of data/seed004/README.md; its schema is made from them."""
_PRESET = {"neural_persistence": NEURAL_PERSISTENCE, "h0_total": H0, "h1_total": H1}
_SPREAD = {"h0_total_sd": H0, "h1_total_sd": H1}
_TEXT = {"neural_persistence_network": RIECK, "h0_total_layers": TEXT_H0, "h1_total_layers": TEXT_H1}
_LOSSES = ("loss", "loss_smooth", "heldout_loss")
_OF_RUN = ("run", "parameters", "seed", "corpus")


def rows_of(measured: MeasuredRuns) -> pd.DataFrame:
    """Return one row for each checkpoint of all seeds, with the columns of `COLUMNS`."""
    table = measured.replicates
    keys = ["run", "step"]
    spread = table.spread[keys].copy()
    for name, column in _SPREAD.items():
        spread[name] = table.spread.get(column)
    by_text = measured.text.values[[*keys, *_TEXT.values()]].rename(columns={v: k for k, v in _TEXT.items()})
    rows = table.values.rename(columns={column: name for name, column in _PRESET.items()})
    rows = rows.merge(spread, on=keys).merge(by_text, on=keys).merge(_facts(table.runs), on="run")
    rows = rows.reindex(columns=[column.name for column in COLUMNS])
    order = ["parameters", "seed", "run", "step"]
    return rows.sort_values(order, kind="stable").reset_index(drop=True)


def _facts(runs: pd.DataFrame) -> pd.DataFrame:
    """Return what is known about each run: a row per run."""
    run_rows = runs[["run", "parameters", *(name for name in ("seed", "corpus") if name in runs)]].copy()
    names = printed()["models"]
    run_rows["model"] = [names[str(size)]["name"] for size in run_rows["parameters"]]
    configs = runs["config"] if "config" in runs else pd.Series("{}", index=runs.index)
    run_rows["tokenizer"] = [json.loads(text or "{}").get("tokenizer", "") for text in configs]
    return run_rows


def write_rows(measured: MeasuredRuns, folder: Path) -> list[Path]:
    """Write the rows and their JSON schema into a folder, and return the two files."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    write_csv(rounded(rows_of(measured), COLUMNS, _DIGITS), path)
    described = path.with_suffix(".schema.json")
    described.write_text(json.dumps(schema(), indent=2) + "\n", encoding="utf-8")
    return [path, described]


def read_rows(path: Path) -> MeasuredRuns:
    """Return the runs of a file that `write_rows` wrote; such a file has no draws.

    Raises
    ------
    InputError
        If the file is absent, is not such a table, or has a model size that the paper has not.
    """
    rows = _checked(path)
    runs = rows[[*_OF_RUN, "tokenizer"]].drop_duplicates("run").reset_index(drop=True)
    configs = [json.dumps({"tokenizer": name}) for name in runs["tokenizer"].fillna("")]
    runs = runs.drop(columns="tokenizer").assign(config=configs, corpus=runs["corpus"].fillna(""))
    replicates = _series(rows, _PRESET, runs)
    spread = rows[["run", "step", *_SPREAD]].rename(columns=_SPREAD)
    return joined(replace(replicates, spread=spread), _series(rows, _TEXT, runs))


def _series(rows: pd.DataFrame, names: Mapping[str, str], runs: pd.DataFrame) -> SeriesTable:
    losses = [name for name in _LOSSES if rows[name].notna().any()]
    return from_frame(rows.rename(columns=names), features=list(names.values()), targets=losses, runs=runs)


def _checked(path: Path) -> pd.DataFrame:
    """Return the rows of a file, sorted by run and step, or say what is wrong with it."""
    rows = read_table(path, COLUMNS)
    if rows.empty:
        raise InputError(f"{path} has no rows")
    if rows.duplicated(["run", "step"]).any():
        twice = rows[rows.duplicated(["run", "step"])].iloc[0]
        raise InputError(f"{path} has two rows of run {twice['run']} step {twice['step']:,}")
    return rows.sort_values(["run", "step"], kind="stable").reset_index(drop=True)


def schema() -> dict[str, object]:
    """Return the JSON schema of one row; an empty cell is null."""
    title = "One checkpoint of a run of the recipe seed004"
    return {"$schema": SCHEMA_DIALECT, **row_schema(title, COLUMNS)}
