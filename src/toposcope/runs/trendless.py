"""A run whose loss has no trend, such as that of a policy: what judges it, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toposcope.core.errors import InputError
from toposcope.logs.curve import FINAL_SHARE
from toposcope.logs.described import last_step
from toposcope.logs.objective import Direction, companions, objective_of
from toposcope.logs.plans import stated_plan
from toposcope.rules.registry import assess
from toposcope.runs.curves import without_trend

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.logs.remarks import Remark
    from toposcope.logs.run import Run


@dataclass(frozen=True, slots=True)
class Trendless:
    """What the loss is (`objective`, and `sentence` with what judges the run), and the planned last step."""

    objective: str
    sentence: str
    horizon: int | None
    ended: bool
    seen: tuple[str, ...] = ()
    """What counts as examined, although no column has the usual name."""

    def remarks(self, rows: pd.DataFrame, column: str, error: str = "") -> tuple[Remark, ...]:
        """Return what the rules say of the run, up to its planned end; `error` is what its log ends with."""
        return assess(rows, column=column, horizon=self.horizon, ended=self.ended, error=error)


def trendless_of(run: Run, column: str, horizon: int | None) -> Trendless | None:
    """Return what a run without a trend is judged by, and its plan; None for a loss that should fall.

    `horizon` is the step at which the run will end, if its user gives it.
    """
    sentence = without_trend(run.table, column) if len(run.table) else ""
    if not sentence:
        return None
    try:
        end = horizon or stated_plan(run.config, run.table).end or run.planned_steps
    except InputError:
        end = None
    last = last_step(run.table)
    ended = end is not None and last is not None and last >= end * (1 - FINAL_SHARE)
    norm = any(companion.direction is Direction.GRADIENT for companion in companions(run.table, column))
    seen = ("gradient norm (not logged)",) if norm else ()
    return Trendless(objective_of(run.table, column).value, sentence, end, ended, seen)
