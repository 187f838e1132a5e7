"""The opening answer on representations, worded from the tables: what holds, and what does not."""

from __future__ import annotations

import numpy as np
import pandas as pd

from toposcope.analysis.catalogue import is_baseline
from toposcope.analysis.trends.replicates import POOLED
from toposcope.figures.series import sizes
from toposcope.figures.style import short
from toposcope.report.cells import listed, span
from toposcope.report.counts import Verdicts, first_last, verdict_counts
from toposcope.report.representations.facts import beside_null, spearman, strengths, strongest
from toposcope.report.representations.rows import COUNT, ENTROPY, PROBE, QUALITY, RANK, TOP, TOTAL
from toposcope.report.representations.study import Representations
from toposcope.report.representations.words_more import across, phases, settings, size_order

LEAST_VALUES = 4
"""Fewer points than this put into the same order say nothing: three do so by chance in one case of three."""

Answers = tuple[tuple[str, str], ...]


def answers(study: Representations) -> tuple[str, Answers]:
    """Return the headline, and a paragraph for each question that the store can say something about."""
    verdicts = verdict_counts(study.trends, study.target, study.series.catalogue)
    said = (
        ("What changed", changed(study)),
        (f"Does topology follow {_the(study)} more closely than the spectrum?", compared(study)),
        ("Does it tell anything beyond the trend?", beyond(study, verdicts)),
        ("Are there phases?", phases(study)),
        ("Do the models differ at the end?", size_order(study)),
        ("What happens from layer to layer?", across(study)),
        ("How far do the settings move it?", settings(study)),
    )
    return headline(study, verdicts), tuple((question, words) for question, words in said if words)


def target_name(study: Representations) -> str:
    """Return what the target is called in a sentence."""
    return study.series.label(study.target) if study.target else "perplexity"


def target_counts(study: Representations) -> pd.Series:
    """Return how many checkpoints of each run have a finite value of the target."""
    values = study.series.values[["run", study.target]].replace([np.inf, -np.inf], np.nan)
    return values.groupby("run")[study.target].count()


def _the(study: Representations) -> str:
    return f"the {target_name(study)}"


def headline(study: Representations, verdicts: Verdicts) -> str:
    """Return the one line that the numbers allow."""
    if not study.target:
        return "These models have no perplexity or other target: their topology is described, not judged."
    if not verdicts.tested:
        return (
            f"Whether the topology of these representations tells more than {_the(study)} cannot be "
            "concluded."
        )
    n = f"{verdicts.found} of {verdicts.tested} tests"
    if not verdicts.found:
        return (
            "The topology of these representations tells nothing that can be seen beyond the trend: "
            f"{n} find that it moves with {_the(study)} for any reason but time."
        )
    also = (
        f"and so does the spectrum ({verdicts.baselines_found} of {verdicts.baselines_tested})"
        if verdicts.baselines_found
        else "and the spectrum does not"
    )
    return f"Some topology moves with {_the(study)} beyond their shared trend ({n}), {also}."


def changed(study: Representations) -> str:
    """Say who was measured, and how perplexity, H1 and the effective rank moved."""
    parts = [_who(study), _quality(study)]
    for column, name, form in (
        (COUNT, "The number of H1 bars", "{:.0f}"),
        (TOTAL, "H1 total persistence", "{:.3g}"),
        (RANK, "The effective rank", "{:.1f}"),
        (TOP, "The top covariance eigenvalue", "{:.3g}"),
    ):
        parts.append(_moved(study, column, name, form))
    parts.append(_null(study))
    return " ".join(part for part in parts if part)


def _who(study: Representations) -> str:
    groups, n = sizes(study.runs), len(study.runs)
    counts = study.series.values.groupby("run")["step"].agg(["count", "min", "max"])
    known = [group.parameters for group in groups if group.parameters > 0]
    of = f" of {short(min(known))} to {short(max(known))} parameters" if len(set(known)) > 1 else ""
    models = f"{n} model{'s' if n != 1 else ''}{of}"
    return (
        f"{models} with {span(counts['count'], '{:.0f}')} checkpoints {'each' if n > 1 else ''} from step "
        f"{counts['min'].min():,} to step {counts['max'].max():,} read the same texts; the last hidden state "
        "is meant where no layer is named."
    ).replace("  ", " ")


def _quality(study: Representations) -> str:
    ends = first_last(study.series, QUALITY) if QUALITY in study.series.values else pd.DataFrame()
    if ends.empty:
        return "No perplexity was measured (an encoder has none)."
    first, last = np.exp(ends["first"]), np.exp(ends["last"])
    return f"Perplexity went from {span(first, '{:,.0f}')} to {span(last, '{:,.1f}')}."


def _moved(study: Representations, column: str, name: str, form: str) -> str:
    ends = first_last(study.series, column) if column in study.series.values else pd.DataFrame()
    if ends.empty:
        return ""
    change = ends["last"] - ends["first"]
    ways = [f"{verb} in {k}" for verb, k in (("rose", (change > 0).sum()), ("fell", (change < 0).sum())) if k]
    first, last = span(ends["first"], form), span(ends["last"], form)
    return f"{name} {listed(ways) if ways else 'stayed in all'} of {len(ends)} (from {first} to {last})."


def _null(study: Representations) -> str:
    found = beside_null(study)
    if not found:
        return "No null of the clouds was measured, so how much of H1 is the covariance alone cannot be told."
    lines = []
    for one in found:
        where = [f"{word} it in {k}" for word, k in (("above", one.above), ("below", one.below)) if k]
        inside = one.sizes - one.above - one.below
        where += [f"inside it in {inside}"] if inside else []
        name = study.series.feature_label(PROBE, one.feature)
        lines.append(f"{name} lies {listed(where)} of {one.sizes} (median ratio {one.ratio:.2f})")
    return (
        "Against the 95% band of Gaussian clouds with the same covariance, at the last checkpoint: "
        f"{'; '.join(lines)}."
    )


def compared(study: Representations) -> str:
    """Set the strongest topological beside the strongest spectral feature, and entropy beside the count."""
    table = strengths(study)
    topology, spectrum = strongest(table, baseline=False), strongest(table, baseline=True)
    if topology is None or spectrum is None:
        return ""
    runs = int(table["runs"].max())
    text = (
        f"As means of |ρ| over {runs} model{'s' if runs != 1 else ''}: the strongest topological feature is "
        f"{study.series.label(topology[0])} ({topology[1]:.2f}), the strongest without topology "
        f"{study.series.label(spectrum[0])} ({spectrum[1]:.2f})"
    )
    top = table[table["column"] == TOP]
    if len(top) and spectrum[0] != TOP:
        text += f"; the top eigenvalue alone has {top['raw'].iloc[0]:.2f}"
    rank = table[table["column"] == RANK]
    if len(rank) and spectrum[0] != RANK:
        text += f", the effective rank {rank['raw'].iloc[0]:.2f}"
    margin = topology[1] - spectrum[1]
    text += (
        ". So topology follows it no more closely than a number that needs none."
        if margin <= 0
        else f". Topology is ahead by {margin:.2f}, the best of each kind being chosen after the fact."
    )
    return f"{text}{_chance(study)}{_entropy(study)}"


def _chance(study: Representations) -> str:
    if not np.isfinite(study.chance):
        return ""
    return f" Two independent random walks of this length reach |ρ| = {study.chance:.2f} in 5% of cases."


def _entropy(study: Representations) -> str:
    if not {ENTROPY, COUNT} <= set(study.series.values):
        return ""
    own = study.series.values.groupby("run")[[ENTROPY, COUNT]].apply(
        lambda rows: spearman(rows[ENTROPY], rows[COUNT])
    )
    own = own.dropna()
    if own.empty:
        return ""
    text = f" H1 entropy is nearly the log of the H1 count (ρ between them {span(own, '{:+.2f}')})"
    given = study.confounds[study.confounds["target"] == study.target] if study.target else study.confounds
    rest = (
        given.loc[given["column"] == ENTROPY, "given_count"].dropna() if "given_count" in given else own[:0]
    )
    if len(rest):
        text += f"; with the count taken out, its ρ with {_the(study)} is {span(rest, '{:+.2f}')}"
    return text + "."


def beyond(study: Representations, verdicts: Verdicts) -> str:
    """Say what the step leaves of the correlations, and what the test on innovations finds."""
    if not study.target:
        return ""
    parts = [_given_step(study), _verdict(study, verdicts)]
    if max((len(group.runs) for group in sizes(study.runs)), default=1) == 1:
        parts.append("Every model was trained once: how another seed would have turned out is unknown.")
    parts.append(_across_seeds(study))
    return " ".join(part for part in parts if part)


def _across_seeds(study: Representations) -> str:
    """Say whether a run's topology goes with its own perplexity more than with another seed's."""
    mine = study.replicates[study.replicates["target"] == study.target]
    baseline = [is_baseline(column, study.series.catalogue) for column in mine["column"]]
    mine = mine[~np.array(baseline, dtype=bool) & (mine["status"] == "ok")]
    if mine.empty:
        return ""
    pooled = mine[mine["family"] == POOLED]
    shown = pooled if len(pooled) else mine
    found = shown[shown["pairing_holm"] < 0.05]
    named = [study.series.label(str(column)) for column in found["column"].head(4)]
    which = f" ({listed(named)})" if named else ""
    return (
        f"Across seeds, where the shared trend cancels exactly, {len(found)} of {len(shown)} features go "
        f"with {_the(study)} of their own run more than with another seed's{which}. With these seeds no p "
        f"below {shown['smallest_p'].min():.2g} is possible, before the correction for the number of tests."
    )


def _given_step(study: Representations) -> str:
    known_values = target_counts(study)
    enough = known_values.index[known_values >= LEAST_VALUES]
    if not len(enough):
        return f"No model has the {LEAST_VALUES} values of {_the(study)} that a rank correlation takes."
    values = study.series.values[study.series.values["run"].isin(enough)]
    clock = values.groupby("run")[["step", study.target]].apply(
        lambda rows: spearman(rows["step"], rows[study.target])
    )
    text = f"The step itself has ρ = {span(clock.dropna(), '{:+.2f}')} with {_the(study)}"
    of_target = study.trends[study.trends["target"] == study.target]
    mine = of_target[of_target["column"].isin((ENTROPY, COUNT, TOTAL))]
    known = mine.groupby("column", sort=False)["partial_step"].apply(lambda rows: list(rows.dropna()))
    given = [
        f"{span(pd.Series(values), '{:+.2f}')} ({study.series.label(str(column))})"
        for column, values in known.items()
        if values
    ]
    if given:
        return f"{text}; with log step taken out ρ is {listed(given)}."
    exact = int((clock.abs() > 1 - 1e-9).sum())
    if exact:
        return (
            f"{text}: in {exact} of {len(clock)} models it ranks the checkpoints exactly as the step does, "
            "so no rank correlation given the step can be computed."
        )
    return text + "."


def _verdict(study: Representations, verdicts: Verdicts) -> str:
    if not verdicts.tested:
        most = int(target_counts(study).max())
        return (
            f"No run has enough checkpoints with {_the(study)} for the test on innovations ({most} are the "
            "most)."
        )
    test = "the test that holds its error rate on drifting curves (the correlation of innovations)"
    if not verdicts.found:
        text = f"In none of {verdicts.tested} feature-model pairs does {test} find anything beyond the trend."
        if np.isfinite(verdicts.detectable):
            most = int(study.trends["n"].max())
            text += (
                f" With {most} checkpoints it is weak: correlations of innovations below about "
                f"{min(verdicts.detectable, 1.0):.2f} would not have been seen."
            )
        return text + (_plain(verdicts) if verdicts.baselines_found else "")
    named = listed([study.series.label(column) for column in verdicts.features_found[:4]])
    where = f"{verdicts.found} of {verdicts.tested} pairs ({named})"
    text = f"{test[0].upper()}{test[1:]} finds something in {where}."
    return text + (_plain(verdicts) if verdicts.baselines_tested else "")


def _plain(verdicts: Verdicts) -> str:
    return f" Plain spectra and sizes pass it in {verdicts.baselines_found} of {verdicts.baselines_tested}."
