"""The tables on representations that the embedding report has, with the honest columns beside its own."""

from __future__ import annotations

import numpy as np

from toposcope.figures.series import sizes
from toposcope.report.cells import number, trend_cell
from toposcope.report.counts import NOTHING
from toposcope.report.parts import Table
from toposcope.report.replicates import replicates_table
from toposcope.report.representations.facts import last_values, strengths, worth
from toposcope.report.representations.rows import COUNT, ENTROPY, HIDDEN, QUALITY, RANK, TOP, TOTAL
from toposcope.report.representations.study import Representations
from toposcope.report.representations.tables_more import (
    attention_table,
    dimensions_table,
    layers_table,
    phases_table,
    probing_table,
    sensitivity_table,
)
from toposcope.store.parts import slug

_SHOWN = (
    ("hidden/explained", "variance kept", "{:.0%}"),
    (COUNT, "H1 bars", "{:.0f}"),
    (TOTAL, "H1 total", "{:.3g}"),
    (ENTROPY, "H1 entropy", "{:.2f}"),
    (f"{HIDDEN}h1_entropy_normalized", "entropy / ln n", "{:.3f}"),
    (f"{HIDDEN}h0_total", "H0 total", "{:.4g}"),
    (RANK, "effective rank", "{:.1f}"),
    (TOP, "top eigenvalue", "{:.3g}"),
)
_TREND = (
    ("n", "n", "{:.0f}"),
    ("spearman", "ρ", "{:+.2f}"),
    ("seed_p", "p", "{:.1g}"),
    ("effective_n", "effective n", "{:.1f}"),
    ("block_low block_high", "block 95%", "{:+.2f}"),
    ("walk_p", "p, random walks", "{:.2g}"),
    ("partial_step", "log step", "{:+.2f}"),
    ("given_top", "top eigenvalue", "{:+.2f}"),
    ("given_count", "H1 count", "{:+.2f}"),
    ("innovation_r", "r of innovations", "{:+.2f}"),
    ("innovation_low innovation_high", "95%", "{:+.2f}"),
    ("innovation_holm", "p, Holm", "{:.2g}"),
)
_GROUPS = (
    ("", 1),
    ("as if checkpoints were independent", 3),
    ("what drift leaves of it", 3),
    ("ρ given", 3),
    ("the test behind the verdict", 4),
)


def tables(study: Representations) -> dict[str, Table]:
    """Return the tables of the part by name, those that have something to say."""
    made = (
        last_table(study),
        correlation_table(study, study.target),
        against_table(study),
        replicates_table(study.replicates, study.target, study.series.catalogue),
        phases_table(study),
        trajectory_table(study),
        layers_table(study),
        attention_table(study),
        dimensions_table(study),
        probing_table(study),
        sensitivity_table(study),
        *(correlation_table(study, name) for name in study.further),
    )
    return {table.name: table for table in made if table.rows}


def _shown(study: Representations) -> list[tuple[str, str, str]]:
    found = [(key if "/" in key and not key.startswith("hidden") else f"representations/{key}", *rest)
             for key, *rest in _SHOWN]  # fmt: skip
    return [(column, heading, form) for column, heading, form in found if column in study.series.values]


def last_table(study: Representations) -> Table:
    """Return the models side by side at their last checkpoint."""
    shown = _shown(study)
    frame = last_values(study, [column for column, _, _ in shown])
    quality = last_values(study, [QUALITY])[QUALITY]
    frame.insert(3, "perplexity", np.exp(quality.astype(float)))
    rows = tuple(
        (
            str(line["run"]),
            f"{int(line['parameters']):,}" if line["parameters"] else "unknown",
            number(line["step"], "{:,.0f}"),
            number(line["perplexity"], "{:,.1f}"),
            *(number(line[column], form) for column, _, form in shown),
        )
        for line in frame.to_dict("records")
    )
    return Table(
        "last_checkpoint",
        "The models at their last checkpoint",
        "The last hidden state of every model at its last checkpoint. "
        + ("" if len(study.replicates) else "One run of a size says nothing about another seed of it."),
        ("model", "parameters", "step", "perplexity", *(heading for _, heading, _ in shown)),
        rows,
        frame=frame,
    )


def trajectory_table(study: Representations) -> Table:
    """Return every model's trajectory, a line per checkpoint."""
    shown = _shown(study)
    wanted = [column for column, _, _ in shown]
    values = study.series.values
    frame = values[["run", "step", *([QUALITY] if QUALITY in values else []), *wanted]].copy()
    if QUALITY in frame:
        frame.insert(2, "perplexity", np.exp(frame.pop(QUALITY)))
    else:
        frame.insert(2, "perplexity", np.nan)
    places = {run: i for i, run in enumerate(ordered_runs(study))}
    frame = frame.iloc[np.lexsort((frame["step"], frame["run"].map(places)))]
    rows = tuple(
        (
            str(line["run"]),
            number(line["step"], "{:,.0f}"),
            number(line["perplexity"], "{:,.1f}"),
            *(number(line[column], form) for column, _, form in shown),
        )
        for line in frame.to_dict("records")
    )
    return Table(
        "trajectories",
        "Trajectory of every model",
        "The last hidden state at every checkpoint; means over subsamples where the cloud was subsampled.",
        ("model", "step", "perplexity", *(heading for _, heading, _ in shown)),
        rows,
        frame=frame,
        folded=True,
        grouped=True,
    )


def correlation_table(study: Representations, target: str) -> Table:
    """Return the correlation of every feature with `target`, and what it is worth."""
    mine = worth(study, target)
    places = {run: i for i, run in enumerate(ordered_runs(study))}
    order = list(dict.fromkeys(mine["column"]))
    if len(mine):
        mine = mine.iloc[np.lexsort((mine["run"].map(places), mine["column"].map(order.index)))]
    shown = [spec for spec in _TREND if all(part in mine for part in spec[0].split())]
    rows = [
        (
            study.series.label(str(line["column"])),
            str(line["run"]),
            *(trend_cell(line, spec, form) for spec, _, form in shown),
            "trend only" if line["verdict"] == NOTHING else str(line["verdict"]),
        )
        for line in mine.to_dict("records")
    ]
    return Table(
        "representation_trends" + ("" if target == study.target else f"_{slug(target)}"),
        f"Correlation with the {study.series.label(target)}",
        "Spearman's rho over the checkpoints of a model. The first group is what is usually reported; the "
        "second says what two drifting curves do by themselves; the third takes out the step, the top "
        "covariance eigenvalue or the number of H1 bars, each alone. Only the last group tests for more than "
        "a shared drift, and the verdict is its own, after Holm's correction over all rows.",
        ("feature", "model", *(heading for _, heading, _ in shown), "verdict"),
        tuple(rows),
        _GROUPS if len(shown) == len(_TREND) else (),
        mine,
        folded=True,
        grouped=True,
    )


def against_table(study: Representations) -> Table:
    """Return topological beside spectral features: mean strength over the models, raw and corrected."""
    frame = strengths(study)
    runs = int(frame["runs"].max()) if len(frame) else 0
    rows = []
    for kind, baseline in (("topology", False), ("spectrum, size, dimension", True)):
        mine = frame[frame["baseline"] == baseline].sort_values("raw", ascending=False, kind="stable")
        rows += [
            (
                kind,
                study.series.label(str(line["column"])),
                number(line["raw"], "{:.3f}"),
                number(line["raw_low"], "{:.2f}"),
                f"{line['usual_p']} of {line['runs']}",
                *(number(line[name], "{:.2f}") for name in ("partial_step", "given_top", "given_count")),
                f"{line['adds']} of {line['tested']}",
            )
            for line in mine.to_dict("records")
        ]
    return Table(
        "spectral_against_topological",
        f"Topological against spectral features as companions of the {study.series.label(study.target)}",
        f"Means of |ρ| over {runs} models, strongest first. Partial correlations are means of absolute "
        "values too, so noise alone does not give 0. p < .05 counts models as if checkpoints were "
        "independent, which they are not; the last column counts verdicts.",
        ("kind", "feature", "mean |ρ|", "smallest", "p < .05", "given log step", "given top eigenvalue",
         "given H1 count", "beyond the trend"),
        tuple(rows),
        frame=frame,
        grouped=True,
    )  # fmt: skip


def ordered_runs(study: Representations) -> list[str]:
    """Return the runs, smallest model first."""
    return [run for group in sizes(study.runs) for run in group.runs]
