"""The content of a log: its runs as tables, and the columns that were used as step and loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from toposcope.core.answered import Tables, answered
from toposcope.core.forms import listed, step_text
from toposcope.logs.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from toposcope.core.observations import AuditFinding

_TABLES = ("table", "parquet")
_SAID = ("step", "loss", "heldout_loss")
_SIZES = 3
"""The largest number of model sizes to name."""
_LISTED = 12
"""The largest number of runs to print."""


@dataclass(frozen=True)
class Log:
    """The result of `read_log`: `runs` with a table each, the dialect, and the columns that were used.

    `path` is the file or folder, `dialect` its format, and `taken` maps meanings to the columns used for
    them. `notes` say what was split, replaced or left out, `assumed` what was assumed about its runs: which
    column is their size, and that the held-out loss is read as the loss.

    >>> rows = pd.DataFrame({"step": [1, 2], "loss": [6.9, 6.1]})
    >>> Log("train.csv", "table", (Run("train", rows),), {"step": "iter", "loss": "nll"})
    recognised as table: step from 'iter', loss from 'nll'
    train: 2 steps, loss 6.1 at step 2
    """

    path: str
    dialect: str
    runs: tuple[Run, ...]
    taken: Mapping[str, str]
    notes: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        """One line with the file, its dialect, and the columns that were used as step and loss."""
        words = [f"{name} from {column!r}" for name, column in self.taken.items() if name in _SAID]
        sizes = sorted({run.parameters for run in self.runs if run.parameters})
        if sizes:
            words.append(f"{' and '.join(f'{size:,}' for size in sizes[:_SIZES])} parameters")
        count = f", {len(self.runs):,} runs" if len(self.runs) > 1 else ""
        return "; ".join([f"recognised as {self.dialect}{count}: {', '.join(words)}", *self.notes])

    @property
    def plain(self) -> bool:
        """Whether it is a table with canonical column names, so that there is nothing to report."""
        return self.dialect in _TABLES and not self.notes and all(k == c for k, c in self.taken.items())

    @cached_property
    def table(self) -> pd.DataFrame:
        """All rows under canonical names; if there are several runs, with a first column `run`."""
        if len(self.runs) == 1:
            return self.runs[0].table
        tables = []
        for run in self.runs:
            run_rows = run.table.drop(columns="run", errors="ignore")
            run_rows.insert(0, "run", run.name)
            tables.append(run_rows)
        return pd.concat(tables, ignore_index=True)

    @property
    def metrics(self) -> pd.DataFrame:
        """The store's metrics of every run: run, step, loss and the other columns with known names."""
        from toposcope.logs.metrics import tidy

        tables = []
        for run in self.runs:
            groups = run.table.groupby("run", sort=False) if "run" in run.table else [(run.name, run.table)]
            tables += [tidy(rows, str(name)) for name, rows in groups]
        return pd.concat(tables, ignore_index=True)

    @property
    def records(self) -> pd.DataFrame:
        """What is stated about each run: run, parameters (0: unknown) and config."""
        rows = [(run.name, run.parameters, dict(run.config)) for run in self.runs]
        return pd.DataFrame(rows, columns=["run", "parameters", "config"])

    @property
    def tables(self) -> Tables:
        """Two tables by name: `table` as "log", and `metrics`."""
        return Tables(log=lambda: self.table, metrics=lambda: self.metrics)

    @property
    def findings(self) -> tuple[AuditFinding, ...]:
        """What was split, replaced or left out."""
        from toposcope.core.observations import AuditFinding

        return tuple(AuditFinding(self.path, None, "", note, fault="log") for note in self.notes)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the loss of every run, and return the axes."""
        from toposcope.core.drawing.loss_curves import draw_losses

        metrics = self.metrics
        runs = pd.DataFrame({"run": metrics["run"].unique(), "family": "", "parameters": 0})
        return draw_losses(metrics, runs, ax)

    def __repr__(self) -> str:
        """Return what was read, then each run's last loss."""
        ends = []
        for name, rows in self.metrics.groupby("run", sort=False):
            seen = rows[np.isfinite(rows["loss"])]
            last = (
                f"loss {seen['loss'].iloc[-1]:.4g} at step {step_text(seen['step'].iloc[-1])}"
                if len(seen)
                else "no loss"
            )
            ends.append(f"{name}: {len(rows):,} steps, {last}")
        return f"{self.said}\n" + listed(ends, "\n", most=_LISTED, last="\n", what="more runs")

    def _repr_html_(self) -> str:
        return answered(repr(self))
