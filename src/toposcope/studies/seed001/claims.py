"""The research plan's hypotheses and success criteria: as it words them, and corrected for drift."""

from __future__ import annotations

import math

import numpy as np

from toposcope.published.forecast_rules import CONTROLS
from toposcope.studies.claims import Claim, Standing, beyond_drift, holds, of_verdict
from toposcope.studies.seed001.hypotheses import (
    COMBINED,
    EARLY,
    LOSS_ONLY,
    adjusted,
    coincidences,
    compared_courses,
    rise_of,
    rule_errors,
    scaled,
)
from toposcope.studies.seed001.runs import BY_MATRIX, LABELS, MeasuredFamily

_GAIN = 0.10
"""The improvement of the mean absolute error that the plan asks for."""
_STRONG = 0.7
"""The size of the rank correlation that the plan calls strong."""


def claims(measured: MeasuredFamily) -> list[Claim]:
    """Return H1 to H4 and the three criteria, each judged."""
    return [
        _monotone(measured),
        _rate(measured),
        _changes(measured),
        _scaling(measured),
        _gain(measured),
        _correlated(measured),
        _courses(measured),
        _beaten(measured),
    ]


def _monotone(measured: MeasuredFamily) -> Claim:
    rises = [rise_of(measured, run) for run in measured.runs]
    monotone = sum(rise.monotone for rise in rises)
    risen = sum(rise.last > rise.first for rise in rises)
    share = [rise.rises / rise.intervals for rise in rises]
    return Claim(
        text="H1: neural persistence increases monotonically during training",
        source="in every model (Rieck et al.)",
        here=f"{risen} of {len(rises):,} runs end above their start; {monotone} rise at every checkpoint",
        statistic=f"rises at {min(share):.0%} to {max(share):.0%} of a run's checkpoints",
        judgement=holds(monotone == len(rises)),
    )


def _rate(measured: MeasuredFamily) -> Claim:
    rises = [rise_of(measured, run) for run in measured.runs]
    there = sum(rise.rate_rho > 0 and rise.rate_p < 0.05 for rise in rises)
    line = measured.verdicts.loc[[BY_MATRIX]].to_dict("records")[0]
    return Claim(
        text="H1: its rate of change correlates with training efficiency",
        source="expected",
        here=f"rho {min(r.rate_rho for r in rises):+.2f} to {max(r.rate_rho for r in rises):+.2f}; "
        f"p < .05 as planned in {there} of {len(rises):,} runs",
        statistic=beyond_drift(line),
        judgement=of_verdict(there > len(rises) / 2, str(line["verdict"])),
    )


def _changes(measured: MeasuredFamily) -> Claim:
    counted = coincidences(measured)
    judgement = Standing.FAILS
    if counted.changed > counted.searched / 2 and counted.p < 0.05:
        judgement = Standing.HOLDS
    return Claim(
        text="H2: the topology has distinct phase transitions that coincide with diminishing returns",
        source="expected",
        here=f"{counted.changed} of {counted.searched} series change; {counted.met} of them where returns "
        "on the loss diminish",
        statistic=f"{counted.expected:.1f} expected by chance, p {counted.p:.2g}",
        judgement=judgement,
    )


def _scaling(measured: MeasuredFamily) -> Claim:
    laws = [scaled(measured, column) for column in _present(measured)]
    real = [law for law in laws if law.trained.low > 0 or law.trained.high < 0]
    learned = [
        law for law in real if not law.untrained.low <= law.trained.exponent <= law.untrained.high
    ]  # fmt: skip
    words = ", ".join(f"{LABELS[law.column]} N^{law.trained.exponent:.2f}" for law in real) or "none"
    return Claim(
        text="H3: topological features scale predictably with the model size",
        source="power-law or log-linear",
        here=f"{len(real):,} of {len(laws):,} features have an exponent other than 0: {words}",
        statistic=f"{len(learned)} of {len(real)} exponents differ from those before training (95% over all)",
        judgement=holds(2 * len(real) > len(laws)),
    )


def _gain(measured: MeasuredFamily) -> Claim:
    errors = rule_errors(measured)
    mine = errors[errors["fraction"] == EARLY]
    means = {name: float(mine[name].mean()) for name in (LOSS_ONLY, COMBINED, *CONTROLS)}
    best = min(CONTROLS, key=lambda name: means[name])
    gained = (mine[best] - mine[COMBINED]).to_numpy(float)
    gain, half = 1.0 - means[COMBINED] / means[LOSS_ONLY], _half(gained)
    judgement = Standing.FAILS
    if gain > _GAIN:
        judgement = Standing.HOLDS if gained.mean() - half > 0 else Standing.DRIFT
    return Claim(
        text=f"H4: topology improves forecasts of the last loss after {EARLY:.0%} of training",
        source="error lower by more than 10%",
        here=f"error {means[LOSS_ONLY]:.4f} from the loss alone, {means[COMBINED]:.4f} with topology "
        f"({100 * gain:+.0f}% gain)",
        statistic=f"{means[best]:.4f} with {CONTROLS[best]} instead; gain over that "
        f"{gained.mean():+.4f} [{gained.mean() - half:+.4f}, {gained.mean() + half:+.4f}]",
        judgement=judgement,
    )


def _half(values: np.ndarray) -> float:
    """Return half of Student's 95% interval of the mean."""
    from toposcope.core.distributions import student_quantile

    if len(values) < 2:
        return math.inf
    return float(student_quantile(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values)))


def _correlated(measured: MeasuredFamily) -> Claim:
    trends = measured.trends
    strong = trends[(trends["naive_bonferroni"] < 0.05) & (trends["spearman"].abs() > _STRONG)]
    everywhere = [
        LABELS[str(column)]
        for column, rows in strong.groupby("column")
        if rows["run"].nunique() == len(measured.runs)
    ]
    verdicts = measured.verdicts["verdict"]
    adds = [LABELS[str(column)] for column in verdicts.index[verdicts == "adds"]]
    best = "adds" if adds else "trend only" if (verdicts == "trend only").any() else "cannot tell"
    smallest = float(measured.verdicts["p_holm"].min())
    return Claim(
        text="Criterion 1: a feature correlates significantly with training efficiency across sizes",
        source="p < .05, |rho| > .7",
        here=f"in every run: {', '.join(everywhere) or 'none'}",
        statistic=f"beyond the drift: {', '.join(adds) or 'none'} (smallest p {smallest:.2g}, Holm)",
        judgement=of_verdict(bool(everywhere), best),
    )


def _courses(measured: MeasuredFamily) -> Claim:
    courses = [compared_courses(measured, column) for column in _present(measured)]
    mixed = [LABELS[course.column] for course in courses if course.negative and course.positive]
    p = adjusted(courses)
    distinct = [LABELS[course.column] for course, value in zip(courses, p, strict=True) if value < 0.05]
    is_known = bool(np.isfinite(p).all())
    return Claim(
        text="Criterion 2: the features develop differently in models of different size",
        source="expected",
        here=f"rise in some runs and fall in others: {', '.join(mixed) or 'none'}",
        statistic=f"sizes differ more than seeds: {', '.join(distinct) or 'none'} (Holm)"
        if is_known
        else "one seed of a size: another seed may differ as much",
        judgement=holds(bool(distinct)) if is_known else Standing.UNTESTED,
    )


def _beaten(measured: MeasuredFamily) -> Claim:
    errors = rule_errors(measured)
    mine = errors[errors["fraction"] == EARLY].copy()
    mine["size"] = [measured.size_of(run) for run in mine["run"]]
    means = mine.groupby("size")[[LOSS_ONLY, COMBINED, *CONTROLS]].mean()
    over = int((means[COMBINED] < means[LOSS_ONLY]).sum())
    real = int((means[COMBINED] < means[list(CONTROLS)].min(axis=1)).sum())
    needed = math.ceil(0.6 * len(means))
    judgement = Standing.FAILS
    if over >= needed:
        judgement = Standing.HOLDS if real >= needed else Standing.DRIFT
    return Claim(
        text="Criterion 3: forecasts with topology beat the loss alone in most sizes",
        source=f"in {needed} of {len(means):,} or more",
        here=f"in {over} of {len(means):,} sizes, at {EARLY:.0%} of training",
        statistic=f"in {real} of {len(means):,} against the better of its two controls",
        judgement=judgement,
    )


def _present(measured: MeasuredFamily) -> list[str]:
    return [column for _, columns in measured.parts for column in columns]
