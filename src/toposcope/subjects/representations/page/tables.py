"""The tables of the embedding report, with corrected columns beside its own."""

from __future__ import annotations

import numpy as np
import pandas as pd

from toposcope.core.forms import interval, minus, number
from toposcope.core.tabular import Table
from toposcope.study.findings.rivals import strengths
from toposcope.study.findings.scale import last_values
from toposcope.study.findings.when import fixed_phases
from toposcope.study.published import FixedPhases
from toposcope.study.study import Study
from toposcope.subjects.representations import features as of
from toposcope.subjects.representations.tables.rows import PROBE, QUALITY

_SHOWN = (
    (of.EXPLAINED, "variance kept", "{:.0%}"),
    (of.H1_COUNT, "H1 bars", "{:.0f}"),
    (of.H1_TOTAL, "H1 total", "{:.3g}"),
    (of.H1_ENTROPY, "H1 entropy", "{:.2f}"),
    (of.H1_ENTROPY_NORMALIZED, "entropy / ln n", "{:.3f}"),
    (of.H0_TOTAL, "H0 total", "{:.4g}"),
    (of.RANK, "effective rank", "{:.1f}"),
    (of.TOP, "top eigenvalue", "{:.3g}"),
)


def _shown(study: Study) -> list[tuple[str, str, str]]:
    columns = [(study.column(PROBE, feature), heading, form) for feature, heading, form in _SHOWN]
    return [line for line in columns if line[0]]


def last_table(study: Study) -> Table:
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
        + ("" if len(study.replicates) else "There is one run per size; another seed may differ."),
        ("model", "parameters", "step", "perplexity", *(heading for _, heading, _ in shown)),
        rows,
        frame=frame,
    )


def trajectory_table(study: Study) -> Table:
    """Return every model's trajectory, a line per checkpoint."""
    shown = _shown(study)
    wanted = [column for column, _, _ in shown]
    values = study.series.values
    frame = values[["run", "step", *([QUALITY] if QUALITY in values else []), *wanted]].copy()
    if QUALITY in frame:
        frame.insert(2, "perplexity", np.exp(frame.pop(QUALITY)))
    else:
        frame.insert(2, "perplexity", np.nan)
    places = {run: i for i, run in enumerate(study.ordered)}
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
        "The last hidden state at every checkpoint. If the cloud was subsampled, the numbers are means over "
        "subsamples.",
        ("model", "step", "perplexity", *(heading for _, heading, _ in shown)),
        rows,
        frame=frame,
        grouped=True,
    )


def against_table(study: Study) -> Table:
    """Return topological beside spectral features: mean strength over the models, raw and corrected."""
    frame = strengths(study)
    runs = int(frame["runs"].max()) if len(frame) else 0
    rows = []
    for kind, baseline in (("topology", False), ("spectrum, size, dimension", True)):
        mine = frame[frame["baseline"] == baseline].sort_values("raw", ascending=False, kind="stable")
        rows += [
            (
                kind,
                study.labels.label(str(line["column"])),
                number(line["raw"], "{:.3f}"),
                number(line["raw_low"], "{:.2f}"),
                f"{line['usual_p']} of {line['runs']}",
                *(number(line[name], "{:.2f}") for name in ("given_top", "given_count")),
                str(line["verdict"]),
            )
            for line in mine.to_dict("records")
        ]
    return Table(
        "spectral_against_topological",
        f"Topological against spectral features: correlation with the {study.labels.label(study.target)}",
        f"Means of |ρ| over {runs} models, strongest first. Partial correlations are also means of absolute "
        "values, so noise alone does not give 0. p < .05 counts models as if checkpoints were "
        "independent, which they are not. The verdict is over all models.",
        ("kind", "feature", "mean |ρ|", "smallest", "p < .05", "given top eigenvalue", "given H1 count",
         "verdict"),
        tuple(rows),
        frame=frame,
        grouped=True,
    )  # fmt: skip


def phases_table(study: Study) -> Table:
    """Return the phases that a publication fixed beside the segments of a calibrated changepoint search."""
    rows, frames = [], []
    published = study.published.fixed
    for column in filter(None, (study.column(PROBE, feature) for feature in (of.H1_TOTAL, of.RANK))):
        name = study.labels.label(column)
        fixed = fixed_phases(study, column)
        bends_found = study.bends[study.bends["column"] == column]
        frames += [fixed.assign(rule="fixed steps"), bends_found.assign(rule="changepoints")]
        for run in study.series.run_names:
            rows += [_fixed(name, line) for line in fixed[fixed["run"] == run].to_dict("records")]
            rows += [
                _segment(name, line) for line in bends_found[bends_found["run"] == run].to_dict("records")
            ]
    return Table(
        "representation_phases",
        f"Phases: {published.source}'s fixed steps beside a calibrated search"
        if published.phases
        else "Phases: a calibrated search",
        _of_fixed(published) + "The false-alarm rate of the search was simulated on plain curves. Each "
        "boundary has its likelihood interval. A segment's label is the sign of its slope per unit of log "
        "step, if that differs clearly from zero.",
        ("feature", "model", "rule", "label", "from step", "to step", "change", "false alarms"),
        tuple(rows),
        frame=pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(),
        grouped=True,
    )


def _of_fixed(published: FixedPhases) -> str:
    if not published.phases:
        return ""
    return f"Its {published.sentence()} were read off a figure. Such a rule finds phases on any curve. "


def _fixed(name: str, line: dict) -> tuple[str, ...]:
    agreement = {True: ", as stated", False: ", not as stated"}.get(line["agrees"], "")
    change = minus(f"{line['first']:.3g} → {line['last']:.3g}{agreement}")
    return (
        name, str(line["run"]), "fixed steps", str(line["phase"]), f"{line['start_step']:,}",
        f"{line['end_step']:,}", change, "unknown",
    )  # fmt: skip


def _segment(name: str, line: dict) -> tuple[str, ...]:
    if line["status"] != "ok":
        return (name, str(line["run"]), "changepoints", str(line["reason"]), "–", "–", "–", "–")
    around = interval(line, "start_low", "start_high", "{:,.0f}") if line["segment"] else ""
    slope = f"{number(line['slope'], '{:+.3g}')} {interval(line, 'slope_low', 'slope_high', '{:+.2g}')}"
    return (
        name, str(line["run"]), "changepoints",
        "; ".join(str(line[key]) for key in ("embedding_label", "reason") if line[key]),
        f"{number(line['start_step'], '{:,.0f}')} {around}".strip(), number(line["end_step"], "{:,.0f}"),
        f"{slope} per ln step", number(line["false_alarm_rate"], "{:.2f}"),
    )  # fmt: skip
