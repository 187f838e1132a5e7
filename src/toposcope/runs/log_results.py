"""What follows from logs alone: health, judgements, and forecasts of unfinished runs, each computed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
import pandas as pd

from toposcope.forecasting.auto import Auto
from toposcope.forecasting.base import LEVEL, Forecast, Forecaster
from toposcope.forecasting.ends import split_runs
from toposcope.forecasting.one_run import forecast
from toposcope.logs.curve import Curve
from toposcope.logs.remarks import Remark
from toposcope.logs.run import digest
from toposcope.rules.judgement import Judgement, JudgeOfLog
from toposcope.rules.registry import assess


@dataclass(frozen=True)
class LogResults:
    """Assesses, judges and forecasts the runs of logs, each of them once.

    A run that is requested again, with the same losses and plan, has the result that was made first. So the
    studies of one store, which share a log, and the parts of one answer of the live page do no work twice.

    Examples
    --------
    >>> import numpy as np
    >>> step = np.arange(1.0, 101.0)
    >>> curve = Curve("a", step, 2 + 5 / step, np.full(100, np.nan), 400)
    >>> results = LogResults()
    >>> [(_, first)], [(_, again)] = results.forecasts([curve]), results.forecasts([curve])
    >>> first is again, first.run
    (True, 'a')
    """

    _remarks: dict[Hashable, tuple[Remark, ...]] = field(default_factory=dict, repr=False, compare=False)
    _judgements: dict[Hashable, Judgement] = field(default_factory=dict, repr=False, compare=False)
    _forecasts: dict[Hashable, Forecast] = field(default_factory=dict, repr=False, compare=False)
    # A study forecasts finished runs in a thread while its findings are made: both assess the same logs,
    # and so do the threads of several studies.
    _assessing: Lock = field(default_factory=Lock, repr=False, compare=False)
    _forecasting: Lock = field(default_factory=Lock, repr=False, compare=False)

    def assess(
        self,
        rows: pd.DataFrame,
        *,
        column: str = "loss",
        horizon: float | None = None,
        anneals: bool = False,
        ended: bool = False,
        replaced: pd.DataFrame | None = None,
        restarts: tuple[float, ...] = (),
        error: str = "",
    ) -> tuple[Remark, ...]:
        """Return what the rules say of the log of a run (`rules.registry.assess`)."""
        gone = None if replaced is None else content_of(replaced)
        key = (content_of(rows), column, horizon, anneals, ended, gone, restarts, error)
        with self._assessing:
            if key not in self._remarks:
                self._remarks[key] = assess(
                    rows, column=column, horizon=horizon, anneals=anneals, ended=ended, replaced=replaced,
                    restarts=restarts, error=error,
                )  # fmt: skip
            return self._remarks[key]

    def judgement(self, judge: JudgeOfLog, rows: pd.DataFrame, column: str, curve: Curve | None) -> Judgement:
        """Return what `judge` says about the log of a run; `curve` is None if it is too short for one."""
        remarks = remarks_of(curve, rows, column, self.assess)
        # two runs with the same losses may have been watched with other settings
        key = (judge, run_of(rows), content_of(rows), column, remarks)
        if key not in self._judgements:
            self._judgements[key] = judge(rows, column, curve, remarks)
        return self._judgements[key]

    def forecasts(self, curves: Sequence[Curve], most: int | None = None) -> list[tuple[Curve, Forecast]]:
        """Return each unfinished run, or the first `most`, with its forecast from the finished runs."""
        finished, unfinished = split_runs(curves)
        return [
            (curve, self.forecast(Auto(), curve, [sibling for sibling in finished if sibling.akin(curve)]))
            for curve in unfinished[:most]
        ]

    def forecast(
        self, method: Forecaster, seen: Curve, siblings: Sequence[Curve], *, level: float = LEVEL
    ) -> Forecast:
        """Return the forecast of a run by one method; if the method reads no features, it is made once."""
        if "features" in method.needs:
            return forecast(method, seen, siblings, level=level)
        key = (type(method), method.name, level, *map(_read_by_forecast, (seen, *siblings)))
        with self._forecasting:
            if key not in self._forecasts:
                self._forecasts[key] = forecast(method, seen, siblings, level=level)
            return self._forecasts[key]


def remarks_of(
    curve: Curve | None,
    rows: pd.DataFrame,
    column: str,
    assess: Callable[..., Sequence[Remark]] = assess,
    error: str = "",
) -> tuple[Remark, ...]:
    """Return what the rules say of a run; `curve` is None where the log is too short for one.

    `error` is the error with which the log ends.
    """
    if curve is not None:
        return curve.remarks
    has_values = column in rows and np.isfinite(rows[column].to_numpy(float, na_value=np.nan)).any()
    return tuple(assess(rows, column=column, error=error)) if has_values else ()


def run_of(rows: pd.DataFrame) -> str:
    """Return the name of the run of a log; "run" if the rows do not name it."""
    return str(rows["run"].iloc[0]) if "run" in rows and len(rows) else "run"


def content_of(rows: pd.DataFrame) -> Hashable:
    """Return what distinguishes the rows of two logs: columns, and a hash of each row."""
    columns_of_run = rows.drop(columns="run", errors="ignore")
    return tuple(columns_of_run.columns), len(columns_of_run), digest(columns_of_run)


def _read_by_forecast(curve: Curve) -> Hashable:
    """Return everything of a curve that a forecast without features depends on."""
    plan = curve.schedule
    arrays = (curve.step, curve.loss, curve.rate, *(() if plan is None else (plan.step, plan.rate)))
    return (
        curve.run, curve.group, curve.horizon, curve.parameters, curve.endless, curve.remarks,
        tuple(sorted(curve.covariates.items())), *(array.tobytes() for array in arrays),
    )  # fmt: skip
