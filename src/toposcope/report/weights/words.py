"""The first paragraph: what changed, when, and whether topology adds anything, worded from the tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from toposcope.analysis.table import SeriesTable
from toposcope.figures.series import sizes
from toposcope.figures.style import short
from toposcope.report.cells import listed, span, steps_span
from toposcope.report.counts import Verdicts, first_last, half_steps, verdict_counts
from toposcope.report.weights import forecasts
from toposcope.report.weights.facts import above_null
from toposcope.report.weights.study import H0, H0_SCALED, NP, Study

FEW_CHECKPOINTS = 10
"""Below it no series is long enough to separate a relation from a shared drift."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The report in words: one line, then a paragraph for each of the three questions."""

    headline: str
    changed: str
    when: str
    adds: str


def answer(study: Study) -> Answer:
    """Word the findings of `study`; every sentence is computed, and says where nothing can be concluded."""
    verdicts = verdict_counts(study.trends, study.target, study.series.catalogue)
    return Answer(headline(study, verdicts), changed(study), when(study), adds(study, verdicts))


def headline(study: Study, verdicts: Verdicts) -> str:
    """Return the one line that the numbers allow."""
    if not verdicts.tested:
        return "Whether topology tells more than the loss curve cannot be concluded from these runs."
    if not verdicts.found:
        return "Topology moved during training, but nothing shows that it tells more than the loss curve."
    found = forecasts.forecasts_of(study.forecasts)
    forecast = (
        "and forecasts with topology beat their control"
        if found and found.clear
        else "but forecasts do not profit from it"
    )
    if found is None:
        forecast = "and forecasts could not be compared"
    share = f"{verdicts.found} of {verdicts.tested}"
    return f"Some topology moves with the loss beyond their shared trend ({share} tests), {forecast}."


def changed(study: Study) -> str:
    """Say who was measured, how the loss fell, and how H0 and neural persistence moved."""
    parts = [_who(study), _loss_change(study)]
    for column, name in (
        (H0, "H0 total persistence of the weight cloud"),
        (H0_SCALED, "With distances divided by their median it"),
    ):
        parts.append(_feature_change(study, study.column(column), name))
    parts.append(_feature_change(study, study.column(NP), "Mean neural persistence"))
    parts.append(_null_sentence(study))
    return " ".join(part for part in parts if part)


def _who(study: Study) -> str:
    groups = sizes(study.runs)
    n = len(study.runs)
    known = [group.parameters for group in groups if group.parameters > 0]
    counts = study.series.values.groupby("run")["step"].agg(["count", "min", "max"])
    runs = f"{n} run" + ("s" if n != 1 else "")
    if len(known) > 1:
        runs += f" of {len(known)} model sizes ({short(min(known))} to {short(max(known))} parameters)"
    elif known:
        runs += f" of one model size ({short(known[0])} parameters)"
    checkpoints = span(counts["count"], "{:.0f}")
    steps = f"from step {counts['min'].min():,} to step {counts['max'].max():,}"
    were = "each were" if n != 1 else "was"
    return f"{runs} with {checkpoints} checkpoints {were} measured, {steps}."


def _loss_change(study: Study) -> str:
    ends = first_last(study.series, study.target)
    if ends.empty:
        return "No loss is recorded in this store, so nothing below relates topology to it."
    kind = study.series.label(study.target)
    rose = int((ends["last"] >= ends["first"]).sum())
    text = (
        f"The {kind} went from {span(ends['first'], '{:.2f}')} to {span(ends['last'], '{:.2f}')} nats "
        "per token"
    )
    return text + (f" (it did not fall in {rose} of {len(ends)} runs)." if rose else ".")


def _feature_change(study: Study, column: str, name: str) -> str:
    ends = first_last(study.series, column)
    if ends.empty:
        return ""
    noise = _draw_noise(study.series, column, ends)
    change = ends["last"] - ends["first"]
    clear = change.abs() > 2 * noise
    rose, fell = int((clear & (change > 0)).sum()), int((clear & (change < 0)).sum())
    n = len(ends)
    directions = [f"{verb} in {k} of {n} runs" for verb, k in (("rose", rose), ("fell", fell)) if k]
    if rose + fell < n:
        directions.append(f"did not move beyond the noise of its random subsamples in {n - rose - fell}")
    ratio = ends["last"] / ends["first"].where(ends["first"] > 0)
    by = f" (last over first checkpoint: {span(ratio, '{:.2f}')})" if ratio.notna().all() else ""
    return f"{name} {listed(directions)}{by}."


def _draw_noise(series: SeriesTable, column: str, ends: pd.DataFrame) -> np.ndarray:
    """Return the standard error of last minus first over the draws; 0 where nothing was drawn."""
    draws = dict(zip(series.catalogue["column"], series.catalogue["draws"], strict=True)).get(column, 1)
    spread = series.spread.set_index(["run", "step"])[column]
    out = []
    for run, first, last in ends[["run", "first_step", "last_step"]].itertuples(index=False):
        sd = spread.reindex([(run, first), (run, last)]).fillna(0.0).to_numpy(dtype=np.float64)
        out.append(float(np.sqrt((sd**2).sum() / max(int(draws), 1))))
    return np.array(out)


def _null_sentence(study: Study) -> str:
    above, below, n = above_null(study)
    if not n:
        return (
            "Its weight-shuffle null was not measured, so structure and mere sizes of weights are not "
            "told apart."
        )
    at = "at the last checkpoint"
    if not above and not below:
        return (
            f"In none of {n} sizes does it leave the band of the same weights in random order {at}: what "
            "it shows there is the distribution of the weights, not their arrangement."
        )
    text = f"It lies above the band of the same weights in random order in {above} of {n} sizes {at}"
    text += f" and below it in {below}" if below else ""
    text += ": there the arrangement of the weights counts, not only their sizes"
    return text + ("." if above + below == n else ", and elsewhere nothing beyond their sizes shows.")


def when(study: Study) -> str:
    """Say by which step half of the change was done, and where neural persistence changed most."""
    counts = study.series.values.groupby("run")["step"].count()
    if counts.max() < 3:
        return "With fewer than three checkpoints per run, nothing can be said about when it happened."
    loss, h0 = half_steps(study.series, study.target), half_steps(study.series, study.column(H0))
    parts = []
    if len(loss):
        parts.append(f"Half of the loss's change was done by step {steps_span(loss)}")
    if len(h0):
        lead = "half of H0's" if parts else "Half of H0's change was done"
        parts.append(f"{lead} by step {steps_span(h0)}")
    text = ", ".join(parts) + "." if parts else ""
    both = pd.concat([loss.rename("loss"), h0.rename("h0")], axis=1).dropna()
    if len(both):
        later, earlier = int((both["h0"] > both["loss"]).sum()), int((both["h0"] < both["loss"]).sum())
        text += f" H0 was later than the loss in {later} and earlier in {earlier} of {len(both)} runs."
    text += _peak_sentence(study)
    gap = study.series.values.groupby("run")["step"].apply(lambda steps: steps.diff().median()).median()
    return f"{text} Checkpoints are {gap:,.0f} steps apart, and no moment is known more closely than that."


def _peak_sentence(study: Study) -> str:
    phases = study.phases
    column = study.column(NP)
    rows = phases[(phases["column"] == column) & (phases["rule"] == "written")] if len(phases) else phases
    if not len(rows) or rows["peak_step"].isna().all():
        return ""
    return (
        f" Neural persistence changed most between two checkpoints at step {steps_span(rows['peak_step'])}."
    )


def adds(study: Study, verdicts: Verdicts) -> str:
    """Say what is left of the correlations once the shared drift is taken out, and of the forecasts."""
    parts = [
        _raw_sentence(study),
        _verdict_sentence(study, verdicts),
        forecasts.sentence(study.forecasts),
        _seed_sentence(study),
    ]
    return " ".join(part for part in parts if part)


def _raw_sentence(study: Study) -> str:
    column = study.column(H0)
    trends = study.trends
    rows = trends[(trends["target"] == study.target) & (trends["column"] == column)]
    rows = rows[np.isfinite(rows["spearman"].to_numpy(dtype=np.float64))]
    if rows.empty:
        return ""
    kind = study.series.label(study.target)
    text = (
        f"H0 total and the {kind} are correlated with ρ = {span(rows['spearman'], '{:+.2f}')} over the "
        "checkpoints"
    )
    text += ", but both drift with the step"
    known = rows["partial_step"].dropna()
    if len(known):
        text += f", and with log step taken out ρ is {span(known, '{:+.2f}')}"
    return text + "."


def _verdict_sentence(study: Study, verdicts: Verdicts) -> str:
    if not verdicts.tested:
        counts = study.series.values.groupby("run")["step"].count()
        why = "no run has enough checkpoints" if counts.max() < FEW_CHECKPOINTS else "no test could be made"
        return f"Whether topology adds anything to the loss cannot be concluded: {why}."
    test = "the test that holds its error rate on drifting curves (the correlation of innovations)"
    if not verdicts.found:
        text = f"In none of {verdicts.tested} feature-run pairs does {test} find anything beyond the trend."
        if np.isfinite(verdicts.detectable):
            text += (
                f" Correlations of innovations below about {verdicts.detectable:.2f} would not have been "
                "seen."
            )
        return text
    named = listed([study.series.label(column) for column in verdicts.features_found[:4]])
    text = (
        f"{test[0].upper()}{test[1:]} finds something in {verdicts.found} of {verdicts.tested} "
        f"feature-run pairs ({named})."
    )
    if verdicts.baselines_found:
        text += (
            f" So do {verdicts.baselines_found} of {verdicts.baselines_tested} pairs of plain norms and "
            "spectra, which cost less."
        )
    elif verdicts.baselines_tested:
        text += f" None of {verdicts.baselines_tested} pairs of plain norms and spectra does."
    return text


def _seed_sentence(study: Study) -> str:
    most = max((len(group.runs) for group in sizes(study.runs)), default=1)
    if most > 1:
        return ""
    return "Every size was trained once: how another seed would have turned out is unknown."
