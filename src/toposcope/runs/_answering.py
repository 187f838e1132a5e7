"""The answer for one run that was read: its judgement, its forecast, and what was not seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from toposcope.runs.run_check import Logged, RunCheck

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.forecasting import Curve, Forecast
    from toposcope.rules.judgement import Judgement
    from toposcope.runs.contents import Contents
    from toposcope.runs.reading import Reading
    from toposcope.runs.trendless import Trendless

WITHOUT_LOSS = "without a finite loss left out"
"""The note of a curve about rows that have a held-out loss and no training loss."""


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """How runs are read and forecast: `column` is None where the loss is chosen for each run."""

    reading: Reading
    siblings: tuple[Curve, ...]
    level: float
    column: str | None
    curves: dict[str, Curve] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadRun:
    """One run as it was read: its name in the answer and at its place, its rows, its loss and its curve."""

    place: Contents
    run: str
    name: str
    rows: pd.DataFrame
    column: str
    curve: Curve | None
    wrong: Sequence[str]
    trendless: Trendless | None = None
    planned: int | None = None
    """The steps that its files plan, which count where too few losses are logged for a curve."""
    error: str = ""
    """The error with which its log ends."""


def answer_of(one: ReadRun, settings: CheckSettings, siblings: Sequence[Curve]) -> RunCheck:
    """Return the answer for one run from the rows of its log."""
    from toposcope.rules.judgement import NO_LOSS
    from toposcope.runs.judging import counted, judged
    from toposcope.runs.log_results import remarks_of

    place, run, rows, column = one.place, one.run, one.rows, one.column
    steps, audit = place.steps.get(run, ()), place.audit_of(run)
    count = counted(rows, column, of_log=not place.steps)
    seen, forecast = _ahead(one.curve, siblings, settings.level)
    if seen is not None:
        settings.curves[one.name] = seen
    ended = seen is not None and (seen.ended or seen.over)
    without = one.trendless
    remarks = (
        remarks_of(one.curve, rows, column, error=one.error)
        if without is None
        else without.remarks(rows, column, one.error)
    )
    judgement = judged(
        rows, column, one.curve, remarks, count=count, audit=audit.findings,
        last_checkpoint=audit.last, wrong=one.wrong, replays=place.replays,
    )  # fmt: skip
    if place.to_add:
        judgement = judgement.with_remedy(NO_LOSS, place.to_add)
    step, loss = _last(rows, column, judgement)
    has_end = seen is not None and (seen.stated or forecast is not None) and not seen.endless
    horizon = seen.horizon if seen is not None and has_end else one.planned
    answer = RunCheck(
        one.name, place.name, run, judgement, step, loss,
        horizon, ended, forecast, count.finite, len(steps),
        place.said, tuple(_unseen(place, rows, column, count.finite)),
        (*_limits(seen, forecast, count.lost), *_held_out(one, settings), *place.repaired),
        _logged(rows, column),
        resume=next((state for state in place.resume if state.run == run), None),
    )  # fmt: skip
    return answer if without is None else _without_trend(answer, without)


def _without_trend(answer: RunCheck, without: Trendless) -> RunCheck:
    """Return the answer for a run whose loss has no trend: what the loss is, and how far the run is."""
    from toposcope.forecasting.one_run import not_applicable

    none = None if without.ended else not_applicable(answer.name, without.sentence)
    judging = tuple(name for name in answer.unseen if name not in without.seen)
    return replace(
        answer, horizon=without.horizon, ended=without.ended, forecast=none, unseen=judging,
        objective=without.objective, without_trend=without.sentence,
    )  # fmt: skip


def _held_out(run: ReadRun, settings: CheckSettings) -> list[str]:
    """Return the note that the held-out loss of a run was read, as `forecast` has it; empty if it was not."""
    from toposcope.logs.described import HELD_OUT

    if settings.column or run.column != "heldout_loss":
        return []
    noted = (note for note in run.place.log.assumed if note.startswith(HELD_OUT))
    return [next(noted, f"{HELD_OUT} is used")]


def _logged(rows: pd.DataFrame, column: str) -> Logged | None:
    """Return the losses of a run in the order of their steps, as they were logged."""
    if column not in rows or not len(rows):
        return None
    from toposcope.logs.run import by_step, wanted_rows

    logged_rows = by_step(wanted_rows(rows[["step", column]], np.isfinite(rows["step"].to_numpy(float))))
    return Logged(logged_rows["step"].to_numpy(float), logged_rows[column].to_numpy(float, na_value=np.nan))


def _ahead(
    curve: Curve | None, siblings: Sequence[Curve], level: float
) -> tuple[Curve | None, Forecast | None]:
    """Return the curve with its end, and the forecast of `toposcope forecast`; None where it has ended."""
    from toposcope.forecasting import forecast
    from toposcope.forecasting.auto import Auto
    from toposcope.forecasting.ends import split_runs

    if curve is None or not (curve.step == np.floor(curve.step)).all():  # epochs: forecasts count steps
        return curve, None
    ended, unfinished = split_runs([curve], siblings)
    if not unfinished or curve.over:
        return curve, None
    return unfinished[0], forecast(Auto(), unfinished[0], ended, level=level)


def _last(rows: pd.DataFrame, column: str, judgement: Judgement) -> tuple[float | None, float | None]:
    """Return the last step, and the loss there: NaN where the last ones are not finite."""
    from toposcope.logs.described import last_step
    from toposcope.logs.remarks import NOT_FINITE
    from toposcope.logs.run import by_step

    last = last_step(rows)
    if last is None:
        return None, None
    ordered = by_step(rows)
    values = ordered[column].to_numpy(float, na_value=np.nan) if column in ordered else np.empty(0)
    finite = values[np.isfinite(values)]
    lost = len(values) and (not len(finite) or any(ground.kind == NOT_FINITE for ground in judgement.grounds))
    return last, math.nan if lost else float(finite[-1]) if len(finite) else None


def _unseen(place: Contents, rows: pd.DataFrame, column: str, losses: int) -> list[str]:
    """Return the parts of the run that were not read, and why."""
    from toposcope.rules.overfitting import FEWEST
    from toposcope.rules.rises import LEAST
    from toposcope.statistics.alarms.residuals import FIRST

    wanted = (("grad_norm", "gradient norm"), ("learning_rate", "learning rate"))
    not_seen = [
        f"{label} (not logged)" for name, label in wanted if name not in rows or rows[name].isna().all()
    ]
    held = int(rows["heldout_loss"].notna().sum()) if "heldout_loss" in rows else 0
    if column == "loss" and 0 < held < FEWEST:
        not_seen.append(f"overfitting (needs {FEWEST} held-out losses)")
    if not losses:
        none = "finite" if len(rows) and column in rows else "logged"
        return [f"losses (none is {none})", *([place.unseen] if place.unseen else [])]
    if losses < FIRST:
        not_seen.append(f"loss spikes (need {FIRST} losses)")
    if losses < LEAST:
        not_seen.append(f"plateaus and small rises (need {LEAST} losses)")
    return [*not_seen, place.unseen] if place.unseen else not_seen


def _limits(curve: Curve | None, forecast: Forecast | None, lost: int) -> list[str]:
    """Return the limits of an answer."""
    from toposcope.logs.plan_beside import BESIDE

    limits = []
    if curve is not None and forecast is not None:
        if not curve.endless:
            limits.append(f"the forecast assumes that the run goes on to step {curve.horizon:,}")
        limits += [part for part in forecast.reason.split("; ") if part and forecast.status != "failed"]
        limits += [note for note in curve.notes if lost or not note.endswith(WITHOUT_LOSS)]
    elif curve is not None:
        limits += [note for note in curve.notes if BESIDE in note]
    return limits
