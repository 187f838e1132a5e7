"""The tables behind the research plan's hypotheses: one function for each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.stats import spearmanr

from toposcope.core.forms import interval
from toposcope.published.forecast_rules import CONTROLS, RIECK
from toposcope.studies.sections import Section
from toposcope.studies.seed001.hypotheses import (
    COMBINED,
    LOSS_ONLY,
    TDA_ONLY,
    coincidences,
    compared_courses,
    diminishing_step,
    rise_of,
    rule_errors,
    scaled,
)
from toposcope.studies.seed001.runs import BY_MATRIX, LABELS, LOSS, MeasuredFamily


def models(measured: MeasuredFamily) -> Section:
    """Return the sizes with their runs' last losses."""
    rows = []
    for run in measured.runs:
        last = measured.series.of_run(run).iloc[-1]
        rows.append(
            (run, measured.size_of(run), len(measured.series.of_run(run)), int(last["step"]),
             float(last[LOSS]), float(last["loss"]), float(last["loss_smooth"]))
        )  # fmt: skip
    return Section(
        "The runs",
        ("run", "parameters", "checkpoints", "last step", "held-out loss", "minibatch loss",
         "mean of the last 100"),
        tuple(rows),
        "Losses are in nats per token.",
    )  # fmt: skip


def persistence(measured: MeasuredFamily) -> Section:
    """Return how neural persistence moved in every run, by both conventions."""
    rows = []
    for run in measured.runs:
        for column, name in ((RIECK, "largest weight of the network"), (BY_MATRIX, "of each matrix")):
            rise = rise_of(measured, run, column)
            rows.append(
                (run, name, rise.first, rise.last, f"{rise.rises} of {rise.intervals}", rise.rate_rho,
                 rise.rate_p)
            )  # fmt: skip
    return Section(
        "H1: neural persistence during training",
        ("run", "in units of", "first", "last", "rises", "rho(rate, efficiency)", "p"),
        tuple(rows),
        "A rise is a checkpoint with a higher value than the one before. The rate is the size of the change "
        "per step; efficiency is minus the slope of the training loss on the logarithm of the tokens. Both "
        "fall during training, so their rank correlation and its usual p-value say little. The next table "
        "shows what is left beyond the drift.",
    )


def correlations(measured: MeasuredFamily) -> Section:
    """Return every feature's correlation with the efficiency: as planned, and beyond the drift."""
    rows = []
    for column, label in LABELS.items():
        if column not in measured.verdicts.index:
            continue
        mine = measured.trends[measured.trends["column"] == column]
        line = measured.verdicts.loc[[column]].to_dict("records")[0]
        below = int((mine["naive_bonferroni"] < 0.05).sum())
        rhos = mine["spearman"].to_numpy(float)
        rows.append((
            label, f"{np.nanmin(rhos):+.2f} to {np.nanmax(rhos):+.2f}", f"{below} of {len(mine)}",
            float(line["r"]), interval(line, "r_low", "r_high", "{:+.2f}"), float(line["p_holm"]),
            str(line["verdict"]), str(line["reason"]),
        ))  # fmt: skip
    return Section(
        "Criterion 1: topology and training efficiency",
        ("feature", "Spearman's rho, runs", "p < .05 as planned", "r beyond the drift", "95%", "p, Holm",
         "verdict", "reason"),
        tuple(rows),
        "As planned: Spearman's p-value in each run with Bonferroni's correction over the features, which "
        "treats checkpoints as independent. Beyond the drift: one test for each feature over all runs, on "
        "what a smooth trend and a series' own past do not explain.",
    )  # fmt: skip


def changes(measured: MeasuredFamily) -> Section:
    """Return the changes of every feature and run, beside the step of the loss's diminishing returns."""
    rows = []
    for run in measured.runs:
        at = diminishing_step(measured, run)
        for column, label in LABELS.items():
            mine = measured.bends[(measured.bends["run"] == run) & (measured.bends["column"] == column)]
            starts = mine[mine["segment"] > mine["segment"].min()]
            where = "; ".join(
                f"{line['start_step']:.0f} [{line['start_low']:.0f}, {line['start_high']:.0f}]"
                for line in starts.to_dict("records")
            )
            p = float(mine["boundary_holm"].iloc[0]) if len(mine) else None
            rows.append((run, label, where or "none", p, None if np.isnan(at) else int(at)))
    counted = coincidences(measured)
    return Section(
        "H2: changes of the topology and diminishing returns",
        ("run", "feature", "changes with 95% sets", "p, Holm", "diminishing returns of the loss"),
        tuple(rows),
        "A change is a step at which a series leaves every smooth trend by more than its noise (5% over the "
        "features of a run). Returns diminish at the first checkpoint after the largest fall of the "
        "held-out loss at which the loss falls by less than a tenth of that fall. "
        f"{counted.changed} of {counted.searched} series change; the 95% sets of {counted.met} of them "
        f"contain the step of diminishing returns, and those of {counted.expected:.1f} would contain a "
        f"random step (p {counted.p:.2g}).",
    )


def scaling(measured: MeasuredFamily) -> Section:
    """Return the power laws of the features with the size, at the end of training and before it."""
    rows = []
    for column, label in {**LABELS, LOSS: "held-out loss"}.items():
        if not any(column in table.values for table, _ in measured.parts):
            continue
        law = scaled(measured, column)
        rows.append((
            label, law.trained.exponent, f"[{law.trained.low:.3f}, {law.trained.high:.3f}]", law.trained.r2,
            law.trained.spearman, law.trained.spearman_p,
            f"{law.untrained.exponent:.3f} [{law.untrained.low:.3f}, {law.untrained.high:.3f}]",
            f"{np.expm1(law.missed):.1%}", f"{np.expm1(law.by_mean):.1%}",
        ))  # fmt: skip
    return Section(
        "H3: features and the number of parameters",
        ("quantity", "exponent", "99% interval", "R2", "rho", "exact p", "before training",
         "error for a size left out", "error of the others' mean"),
        tuple(rows),
        "A straight line in log-log through the mean over the seeds of each size. The intervals are "
        "Student's, 95% over all features together. If a feature scales in the same way before training, the "
        "law comes from the shapes of the matrices, not from what was learned.",
    )  # fmt: skip


def forecasts(measured: MeasuredFamily) -> Section:
    """Return the errors of forecasts of the last held-out loss with and without topology."""
    rows = [*_by_rules(measured), *_by_siblings(measured)]
    return Section(
        "H4: forecasts of the last held-out loss",
        ("after", "method", "mean absolute error", "better than loss-only", "runs", "rank correlation"),
        tuple(rows),
        "The rules are the weight-space paper's: a power law of the loss, a rule on the rate of neural "
        "persistence, their mixture, and two controls, which use the last loss or the neural persistence of "
        "the other runs instead of the run's own neural persistence. The other methods leave out every run "
        "in turn; 'sibling transfer + ...' adds features to the loss, and norms are the counterpart without "
        "topology. Errors are in nats.",
    )


def _by_rules(measured: MeasuredFamily) -> Iterator[tuple[object, ...]]:
    """Yield the rules' errors at each share of training, and how many runs they forecast better."""
    for fraction, mine in rule_errors(measured).groupby("fraction"):
        for method in (LOSS_ONLY, TDA_ONLY, COMBINED, *CONTROLS):
            error = mine[method].to_numpy(float)
            better = None if method == LOSS_ONLY else int((error < mine[LOSS_ONLY]).sum())
            name = f"rule: {method}" + (f" ({CONTROLS[method]})" if method in CONTROLS else "")
            yield f"{float(str(fraction)):.0%}", name, float(np.nanmean(error)), better, len(mine), None


def _by_siblings(measured: MeasuredFamily) -> Iterator[tuple[object, ...]]:
    """Yield the errors of the methods that learn from the other runs, and their order of the runs."""
    scores = measured.weights.forecasts
    usable = scores[scores["cut"].notna() & scores["error"].notna()]
    for (cut, method), mine in usable.groupby(["cut", "method"]):
        rho = float(spearmanr(mine["predicted"], mine["actual"]).statistic) if len(mine) > 2 else None
        error = float(mine["error"].abs().mean())
        yield f"{float(str(cut)):.0%}", str(method), error, None, len(mine), rho


def sizes_and_seeds(measured: MeasuredFamily) -> Section:
    """Return whether the features' curves differ more between sizes than between seeds of a size."""
    rows = []
    for column, label in LABELS.items():
        if any(column in table.values for table, _ in measured.parts):
            courses = compared_courses(measured, column)
            rows.append(
                (
                    label,
                    f"{courses.positive} rise, {courses.negative} fall",
                    courses.within,
                    courses.between,
                    courses.p,
                )
            )
    return Section(
        "Criterion 2: curves of different sizes",
        ("feature", "runs", "similarity of two seeds", "similarity of two sizes", "p"),
        tuple(rows),
        "Similarity is the mean rank correlation of two runs' curves over the checkpoints. p is the share of "
        "assignments of runs to sizes that separate the sizes at least as well; with one seed of a size "
        "there is none.",
    )
