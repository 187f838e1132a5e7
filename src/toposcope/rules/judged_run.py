"""One run of a log as the rules read it: its rows under canonical names, its loss, and its plan."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from toposcope.logs.meanings import SCALES, chosen, meaning, plain
from toposcope.logs.objective import LossKind, objective_of
from toposcope.logs.run import all_different, by_step, nan_column, wanted_rows, written_nan
from toposcope.rules.rises import Scale, scaled

if TYPE_CHECKING:
    from toposcope.logs.curve import Curve

CANONICAL = ("loss", "heldout_loss", "learning_rate", "grad_norm")
"""The columns that a rule finds under these names whatever the trainer calls them."""
_BY_COMPANIONS = (LossKind.POLICY, LossKind.PREFERENCE, LossKind.SIGNED)
"""A loss of these kinds is judged by the columns beside it; an auxiliary loss is not the run's."""


@dataclass(frozen=True)
class JudgedRun:
    """One run of a log; `JudgedRun.of` makes it from rows with any known names.

    `rows` ascend by `step` and hold every logged column but `run`, with those of `CANONICAL` under their
    names and as numbers. `column` is the loss that is judged. `horizon` is the step at which the run will end
    (None: unknown), `ended` says that a stated end was reached, `anneals` that the planned learning rate will
    still fall. `curve` is the loss curve; None if the log is too short for one, or if it is not made yet.
    `replaced` are the rows that a restart replaced, in the order of the log; None if there are none.
    `restarts` are the steps of the first rows after the log says that the training was resumed. `error` is
    the error with which the log ends; "" if it ends with none.

    >>> run = JudgedRun.of(pd.DataFrame({"iter": [2, 1], "train_loss": [2.5, 3.0], "lr": [0.1, 0.2]}).rename(
    ...     columns={"iter": "step"}))
    >>> run.losses["loss"].tolist(), run.values("learning_rate")[1].tolist()
    ([3.0, 2.5], [0.2, 0.1])
    """

    rows: pd.DataFrame
    column: str = "loss"
    horizon: float | None = None
    anneals: bool = False
    ended: bool = False
    curve: Curve | None = None
    replaced: pd.DataFrame | None = None
    restarts: tuple[float, ...] = ()
    error: str = ""

    @classmethod
    def of(
        cls,
        metrics: pd.DataFrame,
        *,
        column: str = "loss",
        horizon: float | None = None,
        anneals: bool = False,
        ended: bool = False,
        curve: Curve | None = None,
        replaced: pd.DataFrame | None = None,
        restarts: tuple[float, ...] = (),
        error: str = "",
    ) -> JudgedRun:
        """Return the run of some rows: column `step`, the loss `column`, and others under any name."""
        rows = by_step(wanted_rows(metrics, np.isfinite(metrics["step"].to_numpy(float))))
        # a rule judges one run, whatever it is called: some logs name it in each row
        rows = rows.drop(columns="run") if "run" in rows else rows
        gone = None if replaced is None else _named(replaced.drop(columns="run", errors="ignore"), column)[0]
        rows, column = _named(rows, column)
        return cls(rows, column, horizon, anneals, ended, curve, gone, restarts, error)

    @cached_property
    def losses(self) -> pd.DataFrame:
        """Step, loss and, if logged, rate of every row with a finite loss that is not below 0, by step."""
        return self.losses_of(self.column)

    @cached_property
    def scale(self) -> Scale:
        """The losses on the scale of rises; there must be some."""
        return scaled(self.losses["loss"].to_numpy(float))

    def losses_of(self, column: str) -> pd.DataFrame:
        """Return what `losses` is, of another loss; empty if it is not logged."""
        if column not in self.rows:
            return pd.DataFrame({"step": [], "loss": []}, dtype=float)
        loss = self.rows[column].astype(float)
        step = self.rows["step"] if self.rows["step"].dtype == np.int64 else self.rows["step"].astype(float)
        table = pd.DataFrame({"step": step, "loss": loss}, copy=False)
        if "learning_rate" in self.rows and self.rows["learning_rate"].notna().any():
            rate = self.rows["learning_rate"].astype(float)
            table["rate"] = rate.ffill() if rate.isna().any() else rate
        values = loss.to_numpy(float)
        table = wanted_rows(table, np.isfinite(values) & (values >= 0))
        if all_different(table["step"]):  # they ascend already
            return table.reset_index(drop=True)
        return table.groupby("step", as_index=False).mean()

    @cached_property
    def training(self) -> np.ndarray:
        """Which rows log training, bool of shape (n,); rows with only a held-out loss do not."""
        return trained(self.rows, self.column)

    def values(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return step and value of every row in which a column has a number, infinite ones included."""
        if name not in self.rows:
            return np.empty(0), np.empty(0)
        value = pd.to_numeric(self.rows[name], errors="coerce").to_numpy(float, na_value=np.nan)
        step, finite = self.rows["step"].to_numpy(float), ~np.isnan(value)
        return (step, value) if finite.all() else (step[finite], value[finite])

    @cached_property
    def objective(self) -> LossKind:
        """What the loss is, by the names of the columns and its values."""
        return objective_of(self.rows, self.column)

    @property
    def by_companions(self) -> bool:
        """Whether the columns beside the loss judge the run, such as a reward."""
        return self.objective in _BY_COMPANIONS

    @property
    def policy(self) -> bool:
        """Whether the loss has no trend, as that of a policy; it may then be exactly 0."""
        return not self.objective.has_trend


def trained(rows: pd.DataFrame, column: str = "loss") -> np.ndarray:
    """Return which rows log training, bool of shape (n,); rows with only a held-out loss do not.

    Where a log says in which rows its loss was written as NaN (`logs.run`), a row without a loss logs none.
    A store cannot tell: there a row counts if it has another number of training, or no held-out loss.
    """
    if nan_column(column) in rows:
        return rows[column].notna().to_numpy() | written_nan(rows, column)

    def known(*names: str) -> np.ndarray:
        return rows.reindex(columns=list(names)).notna().any(axis=1).to_numpy()

    other = "heldout_loss" if column == "loss" else "loss"
    beside = ("learning_rate", "grad_norm") if column == "loss" else ()
    return known(column, *beside) | ~known(other)


def _named(rows: pd.DataFrame, column: str) -> tuple[pd.DataFrame, str]:
    """Return the rows with the columns of `CANONICAL` under these names, and the new name of the loss."""
    names, taken = chosen(rows.columns), set(map(str, rows.columns))
    if "learning_rate" not in names and (
        scales := [column for column in rows.columns if plain(column) in SCALES]
    ):
        names["learning_rate"] = scales[0]
    wanted = set(CANONICAL) - taken
    if meaning(column) in ("loss", "heldout_loss") and meaning(column) in wanted and column in rows:
        names[meaning(column)] = column
    renamed = {names[column]: column for column in wanted if column in names}
    rows = rows.rename(
        columns=renamed | {nan_column(str(old)): nan_column(new) for old, new in renamed.items()}
    )
    texts = (column for column in CANONICAL if column in rows and rows[column].dtype.kind not in "fi")
    numbers = {column: pd.to_numeric(rows[column], errors="coerce") for column in texts}
    return rows.assign(**numbers), renamed.get(column, column)
