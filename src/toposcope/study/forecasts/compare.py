"""Every forecast of a set of finished runs, side by side: the table behind `analyze` and the report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import pandas as pd

from toposcope.core.types import CUTS
from toposcope.core.wording import runnable
from toposcope.forecasting.auto import Auto, one_schedule
from toposcope.forecasting.base import Forecaster
from toposcope.forecasting.ends import split_runs
from toposcope.forecasting.evaluate import ablate, score_forecasts
from toposcope.forecasting.families import LastValue
from toposcope.forecasting.siblings import SiblingTransfer
from toposcope.forecasting.unplanned import may_go_on
from toposcope.logs.curve import Curve
from toposcope.runs.log_results import LogResults
from toposcope.statistics.correlations import holm
from toposcope.study.forecasts.gather import gather_curves, topological_methods
from toposcope.study.study_rows import StudyRows

LEAST_RUNS = 3
"""Finished runs, at least: each is forecast from two others."""
MOST_RUNS = 8
"""Finished runs that are compared, evenly over sizes: the cost of leaving each out grows with their cube."""
NOT_FINISHED = "not finished"
"""The beginning of the reason why an unfinished run is not used to score forecasts."""

COLUMNS = (
    "method", "run", "cut", "parameters", "predicted", "low", "high", "actual", "error", "relative",
    "covered", "interval_from", "status", "reason",
)  # fmt: skip
WORTH = (
    "cut", "method", "base", "n", "effect", "low", "high", "t_p", "t_holm", "wilcoxon_p",
    "smallest_wilcoxon_p", "status", "reason",
)  # fmt: skip
BY_SIBLINGS = SiblingTransfer().name


def forecast_table(
    log: StudyRows,
    *,
    cuts: Sequence[float] = CUTS,
    published: Callable[[Collection[str]], Sequence[Forecaster]] = lambda columns: (),
    results: LogResults | None = None,
) -> pd.DataFrame:
    """Forecast every finished run from the others at each of `cuts` of its training, by every method.

    The methods: `auto`, sibling transfer, the same with topology or norms added to the loss, the last value,
    and what `published` returns for the features that were measured. What cannot be forecast is a row with
    status "failed" and its reason: a run without usable losses, an unfinished one, all where fewer than three
    are finished, and those beyond `MOST_RUNS`. `results` has what was computed from the logs already.

    Returns
    -------
    DataFrame
        Columns `COLUMNS`: those of `score_forecasts`.
    """
    results = results or LogResults()
    curves, problems = gather_curves(
        log.judged,
        log.runs,
        features=log.features,
        diagrams=log.diagrams,
        wide=log.wide,
        catalogue=log.catalogue,
        replaced=log.replaced,
        assess=results.assess,
    )
    finished, unfinished = split_runs(curves)
    failed = [_failed(problem.run, problem.reason) for problem in problems if problem.left_out]
    for curve in unfinished:
        ends = f"{NOT_FINISHED}, seen to step {curve.last:,} of {curve.horizon:,}"
        failed.append(_failed(curve.run, curve.endless or ends, curve))
    if len(finished) < LEAST_RUNS:
        reason = f"{_ended(finished)}; forecasts are compared over at least {LEAST_RUNS}"
        failed += [_failed(curve.run, reason, curve) for curve in finished]
        return pd.DataFrame(failed or [_failed("", reason)], columns=list(COLUMNS))
    by_size = sorted(finished, key=lambda curve: curve.parameters)
    selected = [
        by_size[i] for i in np.unique(np.linspace(0, len(by_size) - 1, MOST_RUNS).round().astype(int))
    ]
    reason = (
        f"left out: {MOST_RUNS} of {len(finished):,} runs are compared here, "
        f"`{runnable('forecast')}` takes all"
    )
    failed += [_failed(curve.run, reason, curve) for curve in finished if curve not in selected]
    scores = score_forecasts(selected, _methods(selected, published), cuts, make=results.forecast)
    return pd.concat([scores, pd.DataFrame(failed, columns=list(COLUMNS))]) if failed else scores


def _ended(finished: Sequence[Curve]) -> str:
    """Return how many runs are finished, and of how many others the last step is unknown."""
    unknown = sum(map(may_go_on, finished))
    count = len(finished) - unknown
    ended_text = f"{count:,} finished run{'s' * (count != 1)}"
    more = f"{unknown:,} run{'s' * (unknown != 1)} whose last step is unknown"
    return f"{ended_text}, and {more}" if count and unknown else more if unknown else ended_text


def worth_of_features(
    scores: pd.DataFrame, *, controls: Mapping[str, str] | None = None, level: float = 0.95
) -> pd.DataFrame:
    """Return what features add to a forecast: its |error| minus its control's, paired by run.

    The control of sibling transfer with features is sibling transfer; `controls` maps further methods with
    features, such as published rules, to theirs. Negative effects favour the features.
    Columns `WORTH`; see `ablate`. `t_holm` is the t-test's p after Holm's correction for all rows of the
    table: each is one more test of the same question.
    """
    sides = [(scores["method"].str.startswith((BY_SIBLINGS + " + ",)), BY_SIBLINGS)]
    for base in dict.fromkeys((controls or {}).values()):
        sides.append((scores["method"].map(controls or {}) == base, base))
    tables = [
        ablate(scores[chosen | (scores["method"] == base)], base, level=level)
        for chosen, base in sides
        if chosen.any() and (scores["method"] == base).any()
    ]
    if not tables:
        return pd.DataFrame(columns=list(WORTH))
    worth = pd.concat(tables, ignore_index=True)
    return worth.assign(t_holm=holm(worth["t_p"].to_numpy(float)))[list(WORTH)]


def _methods(
    finished: Sequence[Curve], published: Callable[[Collection[str]], Sequence[Forecaster]]
) -> list[Forecaster]:
    auto = Auto() if one_schedule(finished) else Auto.without_laws()
    return [auto, SiblingTransfer(), *topological_methods(list(finished), published), LastValue()]


def _failed(run: str, reason: str, curve: Curve | None = None) -> dict[str, object]:
    missing = dict.fromkeys(("cut", "predicted", "low", "high", "actual", "error", "relative"), np.nan)
    return {
        "run": run, **missing, "method": "auto", "parameters": curve.parameters if curve else 0,
        "covered": None, "interval_from": "nothing", "status": "failed", "reason": reason,
    }  # fmt: skip
