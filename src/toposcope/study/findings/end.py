"""Where will it end: the errors of forecasts of the final loss, and whether topology lowers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from toposcope.core.wording import runnable
from toposcope.forecasting import Curve, Forecast
from toposcope.forecasting.ends import split_runs
from toposcope.forecasting.unplanned import UNSURE, may_go_on
from toposcope.logs.described import last_step, loss_column
from toposcope.logs.remarks import STOP, Remark
from toposcope.rules.judgement import LEVELS, TOO_EARLY, Judgement, judge
from toposcope.rules.registry import place
from toposcope.study.findings.base import Finding
from toposcope.study.forecasts.compare import BY_SIBLINGS, NOT_FINISHED, worth_of_features
from toposcope.study.forecasts.gather import gather_curves

if TYPE_CHECKING:
    from toposcope.study.tables import StudyTables

TOPOLOGY = (f"{BY_SIBLINGS} + topology", f"{BY_SIBLINGS} + saturating topology")
ALPHA = 0.05
"""Level of the paired test, after Holm, at which topology adds to a forecast."""
_LOSSES = ("loss", "heldout_loss")
"""The training loss comes first."""
_POINTS = 40
"""Points of a forecast's path: enough for a figure of so smooth a curve."""
MOST_AHEAD = 2
"""Unfinished runs that are forecast here; `toposcope forecast` takes all."""


@dataclass(frozen=True, slots=True)
class ForecastCounts:
    """The forecasts in numbers, each over the cuts in `cuts`: what the words and captions need.

    `mae` maps a method to its mean absolute error at each cut. `worth` is the table of paired effects.
    `clear` lists (method, cut) where topology lowers the error with a t-test's p below .05 after Holm's
    correction over all rows of `worth`; `harmful` likewise where it raises it.
    """

    cuts: tuple[float, ...]
    runs: int
    mae: dict[str, list[float]]
    covered: int
    bounded: int
    worth: pd.DataFrame
    clear: tuple[tuple[str, float], ...]
    harmful: tuple[tuple[str, float], ...]


def forecasts_of(study: StudyTables) -> ForecastCounts | None:
    """Summarise a study's table of forecasts; None if it has no forecast."""
    scores = study.forecasts
    good = scores[scores["status"] != "failed"] if len(scores) else scores
    good = good[np.isfinite(good["error"].to_numpy(float))] if len(good) else good
    if not len(good):
        return None
    cuts = tuple(sorted(good["cut"].unique()))
    means = good.assign(size=good["error"].abs()).pivot_table(index="method", columns="cut", values="size")
    worth = worth_of_features(good, controls=study.published.controls)
    topology = worth[worth["method"].isin(TOPOLOGY) & (worth["status"] == "ok")]
    small = topology[topology["t_holm"] < ALPHA]
    named = [(str(m), float(c), float(e)) for m, c, e in small[["method", "cut", "effect"]].to_numpy()]
    default = good[good["method"].str.startswith("auto")]
    held = default["covered"].dropna()
    return ForecastCounts(
        cuts,
        int(good["run"].nunique()),
        {str(m): [float(row.get(c, np.nan)) for c in cuts] for m, row in means.iterrows()},
        int(held.sum()),
        len(held),
        worth,
        tuple((m, c) for m, c, effect in named if effect < 0),
        tuple((m, c) for m, c, effect in named if effect > 0),
    )


def end(study: StudyTables) -> Finding | None:
    """Strength: "better" or "no better" with topology, "unscored" where no forecast could be compared."""
    scores = study.forecasts
    if not len(scores):
        return None
    score = forecasts_of(study)
    if score is None:
        scored = scores.loc[~scores["reason"].astype(str).str.startswith(NOT_FINISHED), "reason"]
        reasons = scored if len(scored) else scores["reason"]
        return Finding("end", "unscored", {"reason": str(next(iter(reasons), ""))})
    auto = next((m for m in score.mae if m.startswith("auto")), BY_SIBLINGS)
    if auto not in score.mae:
        why = scores.loc[scores["method"].str.startswith("auto") & (scores["status"] == "failed"), "reason"]
        return Finding("end", "unscored", {"reason": str(next(iter(why), ""))})
    tested = score.worth[score.worth["method"].isin(TOPOLOGY) & (score.worth["status"] == "ok")]
    of_topology = tested[tested["method"] == TOPOLOGY[0]]
    rule, of_loss = study.published.leading
    control = study.published.controls.get(rule, "")
    numbers = {
        "cuts": list(score.cuts), "cuts_said": " / ".join(f"{100 * cut:.0f}%" for cut in score.cuts),
        "runs": score.runs, "auto": score.mae.get(auto, []),
        "last_value": score.mae.get("last value", []), "covered": score.covered, "bounded": score.bounded,
        "compared": int(score.worth["t_p"].notna().sum()) if len(tested) else 0,
        "effects": of_topology[["effect", "low", "high"]].to_numpy(float).tolist(),
        "clear": [list(pair) for pair in score.clear], "harmful": len(score.harmful),
        "rule": score.mae.get(rule, []) if control in score.mae else [],
        "rule_control": score.mae.get(control, []), "rule_loss": score.mae.get(of_loss, []),
        "smallest_p": 2.0 ** (1 - score.runs),
    }  # fmt: skip
    left = tuple(dict.fromkeys(scores.loc[scores["status"] == "failed", "reason"].astype(str)))
    strength = "better" if score.clear else "no better"
    return Finding("end", strength, numbers, "paired t-test over runs, Holm over cuts and methods", left)


def go_on(study: StudyTables) -> Finding | None:
    """Strength: "broken", "faulty" (the log overrides any forecast), "too few", "finished" or "running".

    A broken run should be stopped; a faulty one needs a look. "too few": no run has enough losses to be
    judged. None without a loss.
    """
    columns = _columns(study)
    curves = _curves(study, columns)
    column = next((name for name in _LOSSES if name in columns.values()), "")
    judgements = _judgements(study, columns, curves)
    grounds = [(run, ground) for run, judgement in judgements for ground in judgement.grounds]
    symptoms = _symptoms(grounds)
    finished, going = split_runs(curves)
    if not curves and not symptoms:
        return None
    few = {run for run, ground in grounds if ground.kind == TOO_EARLY}
    broken = any(symptom["level"] == STOP for symptom in symptoms)
    undecided = all(curve.run in few for curve in curves)
    strength = (
        "broken"
        if broken
        else "faulty"
        if symptoms
        else "too few"
        if undecided
        else "running"
        if going
        else "finished"
    )
    numbers = {
        "running": [curve.run for curve in going], "runs": max(len(study.runs), len(curves)),
        "unknown_ends": sum(map(may_go_on, finished)),
        "faulty": symptoms, "finished": len(finished), "read": len(curves), "fell": sum(map(_fell, curves)),
        "passed": _passed(judgements), "few": len(few),
        "most_losses": max((len(curve.loss) for curve in curves), default=0),
        "loss": _called(study, column),
        "ahead": _ahead(study, columns, curves) if strength == "running" else [],
        "endless": [{"run": curve.run, "reason": curve.endless} for curve in going if curve.endless],
        "command": "" if strength == "finished" else _command(study, column, going, advise=not symptoms),
    }  # fmt: skip
    return Finding("on", strength, numbers, "health of the logs")


def _called(study: StudyTables, column: str) -> str:
    """Return the name of the forecast loss if the runs log two losses, else ""."""
    if study.log is None or column != "loss" or "heldout_loss" not in study.log.metrics:
        return ""
    return "training loss" if study.log.metrics["heldout_loss"].notna().any() else ""


def _command(study: StudyTables, column: str, going: Sequence[Curve], *, advise: bool) -> str:
    """Return the command that says more about unfinished or faulty runs; "" for a table in memory.

    It compares continuing with a larger model if the size and the tokens of every run are known. The budget
    is twice the most FLOP that a run still needs, so that either can be paid.
    """
    if not study.places or not column:
        return ""
    read = {"column": column if column != "loss" else None,
            "rename": [f"{old}={new}" for old, new in study.renamed.items()] or None,
            "pattern": study.pattern, "without": list(study.without) or None}  # fmt: skip
    flop = [_flop_left(curve) for curve in going]
    if not advise or not flop or not np.isfinite(flop).all():
        every = "all" if advise else None  # the first lines name all that is wrong with a faulty run
        return runnable("forecast", *study.places, **read, methods=every)
    budget = f"{2 * max(flop):.2g}"
    return runnable("forecast", *study.places, **read, advise=True, budget=budget)


_SHARE = 0.05
"""The first and the last level of a log are medians over this share of its losses, against noise."""


def _fell(curve: Curve) -> bool:
    """Return whether the loss of a run ends below where it began."""
    some = max(int(_SHARE * len(curve.loss)), 1)
    return bool(np.median(curve.loss[-some:]) < np.median(curve.loss[:some]))


def _flop_left(curve: Curve) -> float:
    """Return the FLOP until a run's end, 6 for each parameter and token; NaN where one is unknown."""
    tokens = curve.covariates.get("tokens_per_step", 0.0)
    if curve.endless or curve.parameters <= 0 or not tokens > 0:
        return float("nan")
    return 6.0 * curve.parameters * tokens * (curve.horizon - curve.last)


def _ahead(
    study: StudyTables, columns: Mapping[str, str], curves: Sequence[Curve]
) -> list[dict[str, object]]:
    """Return where the first runs that are not finished will end, of those that can be forecast yet.

    A run is forecast from runs whose loss is of the same kind.
    """
    alike = [[curve for curve in curves if columns[curve.run] == name] for name in _LOSSES]
    forecasts_ahead = [forecast for some in alike for forecast in study.from_logs.forecasts(some, MOST_AHEAD)]
    logged = {} if study.log is None else dict(iter(study.log.metrics.groupby("run")))
    return [
        {
            "run": one.run, "step": last_step(logged[one.run]), "horizon": curve.horizon, "final": one.final,
            "interval": [one.low, one.high],
            "level": one.level, "sure": one.status not in UNSURE and one.measured,
            "coverage": one.coverage, "reason": one.reason, "path": _path(one),
        }
        for curve, one in forecasts_ahead[:MOST_AHEAD]
        if one.bounded
    ]  # fmt: skip


def _path(forecast: Forecast) -> list[list[float]]:
    """Return the forecast path: at most `_POINTS` of step, loss, low and high; empty without an interval."""
    if not len(forecast.curve_low):
        return []
    path = np.column_stack([forecast.step, forecast.loss, forecast.curve_low, forecast.curve_high])
    path = path[np.isfinite(path).all(axis=1)]
    at = np.unique(np.linspace(0, len(path) - 1, min(len(path), _POINTS)).round().astype(int))
    return path[at].tolist() if len(path) else []


def _columns(study: StudyTables) -> dict[str, str]:
    """Return the loss of each run, as `check` takes it; that of the others for a run without any.

    It is empty where no loss is logged.
    """
    metrics = pd.DataFrame() if study.log is None else study.log.metrics
    if not (main := loss_column(metrics, "")):
        return {}
    return {str(run): loss_column(rows, main) for run, rows in metrics.groupby("run", sort=False)}


def _curves(study: StudyTables, columns: Mapping[str, str]) -> list[Curve]:
    """Return the curve of each run's loss, in the order of the log."""
    if study.log is None:
        return []
    metrics = study.log.metrics
    curves_by_name: dict[str, Curve] = {}
    for name in dict.fromkeys(columns.values()):
        run_metrics = metrics[metrics["run"].astype(str).map(columns) == name]
        curves, _ = gather_curves(
            run_metrics,
            study.log.runs,
            column=name,
            replaced=study.log.replaced,
            assess=study.from_logs.assess,
        )
        curves_by_name |= {curve.run: curve for curve in curves}
    return [curves_by_name[run] for run in columns if run in curves_by_name]


def _judgements(
    study: StudyTables, columns: Mapping[str, str], curves: Sequence[Curve]
) -> list[tuple[str, Judgement]]:
    """Return the judgement of each run by its log."""
    if study.log is None or not columns:
        return []
    curves_by_run = {
        curve.run: curve for curve in curves
    }  # runs whose plan contradicts the log are judged, too
    judge_log = study.judge or _by_remarks
    return [
        (
            str(run),
            study.from_logs.judgement(judge_log, rows, columns[str(run)], curves_by_run.get(str(run))),
        )
        for run, rows in study.log.judged.groupby("run", sort=False)
        if str(run) in columns
    ]


def _passed(judgements: Sequence[tuple[str, Judgement]]) -> list[dict[str, object]]:
    """Return what stood out in the logs and came back, with its run, by step."""
    passed: list[dict[str, object]] = [
        {"run": run, "kind": remark.kind, "step": _counted(remark.step)}
        for run, judgement in judgements
        for remark in judgement.noticed
        if remark.passed is not None
    ]
    return sorted(passed, key=lambda entry: float(str(entry["step"])))


def _symptoms(grounds: Sequence[tuple[str, Remark]]) -> list[dict[str, object]]:
    """Return a line for each ground that has a step, the gravest first.

    Too few losses to judge a run have no step: they are not a sign of trouble.
    """
    symptoms = [(run, ground) for run, ground in grounds if ground.step is not None]
    symptoms.sort(key=lambda pair: (-LEVELS.index(pair[1].level), place(pair[1].kind)))
    return [
        {"run": run, "kind": g.kind, "step": _counted(g.step), "ground": g.sentence, "remedy": g.remedy,
         "level": g.level}
        for run, g in symptoms
    ]  # fmt: skip


def _counted(step: float | None) -> float | None:
    """Return a step as a number of steps where it is whole; an epoch may be fractional."""
    return int(step) if step is not None and float(step).is_integer() else step


def _by_remarks(rows: pd.DataFrame, column: str, curve: Curve | None, remarks: Sequence[Remark]) -> Judgement:
    """Return the judgement of a run by its log alone, without the alarms of `watch`."""
    return judge(remarks, losses=len(rows))
