"""The rows of the study: one for each checkpoint, and one for each matrix of a checkpoint; no weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from toposcope.studies.columns import SCHEMA_DIALECT, Column, read_table, rounded, row_schema
from toposcope.studies.scale.families import FinishedRun

FILE, MATRICES, SCHEMA = "rows.csv", "matrices.csv.gz", "schema.json"
_DIGITS = 6
"""Significant digits of a number: float32 weights hold no more after a sum."""
_POOLED = "200 rows of all matrices pooled, mean of 20 draws"
COLUMNS = (
    Column("corpus", "string", "", "text that the run was trained on, and the start of its hash"),
    Column("tokenizer", "string", "", "kind and number of subwords"),
    Column("device", "string", "", "cpu or cuda; on cuda the training is in bfloat16"),
    Column("model", "string", "", "name of the size"),
    Column("run", "string", "", "name of the run; unique in a file"),
    Column("parameters", "integer", "", "number of trainable parameters"),
    Column("seed", "integer", "", "seed of the initial weights and of the order of the text"),
    Column("steps", "integer", "optimiser steps", "steps of the whole run"),
    Column("step", "integer", "optimiser steps", "step of the checkpoint; 0 is before training"),
    Column("tokens", "integer", "tokens", "tokens seen up to the checkpoint"),
    Column("loss", "number", "nats per token", "cross-entropy on the training minibatch of this step"),
    Column("loss_smooth", "number", "nats per token", "mean minibatch loss of the last 100 steps"),
    Column("heldout_loss", "number", "nats per token", "loss on fixed held-out batches"),
    Column("learning_rate", "number", "", "learning rate of the step"),
    Column("weight_norm", "number", "", "Euclidean norm of all weights"),
    Column("neural_persistence", "number", "", "mean over matrices, each divided by its largest, p = 1"),
    Column("neural_persistence_shuffled", "number", "", "the same of shuffled weights, mean of 3 shuffles"),
    Column("spread", "number", "", "standard deviation of |w| over its maximum, mean over matrices"),
    Column("neural_persistence_network", "number", "", "divided by the largest of the network, p = 2"),
    Column("h0_total", "number", "distance", f"total persistence of H0: {_POOLED}, bars above 2.0 dropped"),
    Column("h0_total_sd", "number", "distance", "standard deviation of h0_total over draws"),
    Column("h0_total_free", "number", "distance", f"total persistence of H0: {_POOLED}, bars of any length"),
    Column("h1_total", "number", "distance", f"total persistence of H1: {_POOLED}, bars above 2.0 dropped"),
    Column("h1_total_sd", "number", "distance", "standard deviation of h1_total over draws"),
    Column("h1_total_free", "number", "distance", f"total persistence of H1: {_POOLED}, bars of any length"),
    Column("mean_distance", "number", "distance", f"mean distance of two points: {_POOLED}"),
    Column("deep", "number", "", "deep graph persistence of an MLP (up, down), mean over blocks", empty=True),
    Column("deep_shuffled", "number", "", "the same with each factor shuffled alone", empty=True),
    Column("h0_total_layers", "number", "distance", "total persistence of H0 of each matrix, added up", True),
    Column("seconds", "number", "seconds", "time since the first checkpoint of the run"),
)  # fmt: skip
"""The columns of a file of rows, in the order of data/scale/README.md; its schema is made from them."""
OF_MATRICES = (
    Column("run", "string", "", "name of the run"),
    Column("step", "integer", "optimiser steps", "step of the checkpoint"),
    Column("matrix", "string", "", "name of the matrix, or of the MLP"),
    Column("role", "string", "", "qkv, proj, fc1, fc2; mlp: deep graph persistence of fc1, then fc2"),
    Column("layer", "integer", "", "number of the block, from 0"),
    Column("rows", "integer", "", "rows of the matrix"),
    Column("columns", "integer", "", "columns of the matrix"),
    Column("neural_persistence", "number", "", "divided by the matrix's largest weight, p = 1"),
    Column("shuffled", "number", "", "the same of shuffled weights"),
    Column("spread", "number", "", "standard deviation of |w| over its maximum", empty=True),
)
"""The columns of the file of matrices."""


def write_rows(runs: Sequence[FinishedRun], folder: Path) -> list[Path]:
    """Write the rows of all runs so far, those of their matrices, and the schema; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = rounded(pd.DataFrame([row for run in runs for row in run.rows]), COLUMNS, _DIGITS)
    matrices = rounded(pd.DataFrame([row for run in runs for row in run.matrices]), OF_MATRICES, _DIGITS)
    rows.to_csv(folder / FILE, index=False)
    matrices.to_csv(folder / MATRICES, index=False, compression={"method": "gzip", "mtime": 0})
    (folder / SCHEMA).write_text(json.dumps(schema(), indent=2) + "\n", encoding="utf-8")
    return [folder / FILE, folder / MATRICES, folder / SCHEMA]


def read_runs(folder: Path) -> list[FinishedRun]:
    """Return the finished runs of a folder of rows; none if there is no such file.

    Raises
    ------
    InputError
        If a file is not such a table.
    """
    path = folder / FILE
    if not path.is_file():
        return []
    rows, matrices = read_table(path, COLUMNS), read_table(folder / MATRICES, OF_MATRICES)
    ended = rows.groupby("run", sort=False)["step"].max() >= rows.groupby("run", sort=False)["steps"].max()
    return [
        FinishedRun(
            str(run),
            rows[rows["run"] == run].to_dict("records"),
            matrices[matrices["run"] == run].to_dict("records"),
        )
        for run in ended.index[ended]
    ]


def schema() -> dict[str, object]:
    """Return the JSON schema of a row of each file; an empty cell is null."""
    return {
        "$schema": SCHEMA_DIALECT,
        **row_schema("One checkpoint of a run of the recipe scale", COLUMNS),
        "$defs": {"matrix": row_schema("One matrix of a checkpoint", OF_MATRICES)},
    }
