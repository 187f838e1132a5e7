"""The tables on weights: what was measured, and its segments between changepoints."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import chain
from typing import Any

import pandas as pd

from toposcope.core.forms import interval, number, whole
from toposcope.core.tabular import Table
from toposcope.core.types import Normalization, Use
from toposcope.study.net_change import first_last
from toposcope.study.study import Study
from toposcope.subjects.weights.features import H0_TOTAL, H1_TOTAL, NEURAL_PERSISTENCE, PERSISTENCE, RIPS
from toposcope.subjects.weights.tables.equivalents import EQUIVALENTS, EQUIVALENTS_TABLE


def runs_table(study: Study) -> Table:
    """Return what was measured: a line per run with its first and last values."""
    forms = {
        study.target: "{:.3f}",
        study.column(NEURAL_PERSISTENCE, PERSISTENCE): "{:.4f}",
        study.column(RIPS, H0_TOTAL): "{:.1f}",
        study.column(RIPS, H1_TOTAL): "{:.2f}",
    }
    forms |= dict.fromkeys(study.brought(Use.END), "{:.4g}")
    forms = {column: form for column, form in forms.items() if _values(study, column).notna().any()}
    counts = study.series.values.groupby("run")["step"].agg(["count", "max"])
    frame = study.runs[["run", "parameters", "seed"]].set_index("run").join(counts)
    frame = frame.rename(columns={"count": "checkpoints", "max": "last step"})
    for column in forms:
        ends = first_last(study.series, column).set_index("run")[["first", "last"]]
        frame = frame.join(ends.rename(columns={end: f"{column} {end}" for end in ends}))
    frame = frame.loc[study.ordered]
    rows = []
    for run, line in frame.iterrows():
        moved = [
            _moved(line, column, form, _values(study, column, str(run))) for column, form in forms.items()
        ]
        size = f"{int(line['parameters']):,}" if line["parameters"] else "unknown"
        steps = number(line["last step"], "{:,.0f}")
        rows.append((str(run), size, whole(line["seed"]), whole(line["checkpoints"]), steps, *moved))
    return Table(
        "runs",
        "What was measured",
        "First and last checkpoint of every run." if study.has_curves else "The checkpoint of every run.",
        (
            "run",
            "parameters",
            "seed",
            "checkpoints",
            "last step",
            *(study.labels.label(name) for name in forms),
        ),
        tuple(rows),
        frame=frame.reset_index(),
    )


def equivalents_table(study: Study) -> Table:
    """Return how much of each feature a simpler number explains: a line per run, under its feature."""
    declared, frame = EQUIVALENTS_TABLE, study.own[EQUIVALENTS_TABLE.name]
    labels = {equivalent.feature.name: equivalent.feature.label for equivalent in EQUIVALENTS}
    rows = []
    for (feature, normalization), lines in _by_feature(frame):
        several = frame.loc[frame["feature"] == feature, "filtration"].nunique() > 1
        by = f", by {Normalization(normalization).name.lower()}" if several else ""
        rows += [(labels[feature] + by, *_equivalent(line)) for line in lines.to_dict("records")]
    return Table(
        declared.name,
        declared.title,
        declared.note,
        (
            "feature", "run", "simpler number", "matrices", "R²", "95%", "over matrices", "R² of changes",
            "R², shuffled", "excess",
        ),
        tuple(rows),
        frame=frame,
        grouped=True,
    )  # fmt: skip


def _by_feature(frame: pd.DataFrame) -> list[tuple[tuple[str, str], pd.DataFrame]]:
    if frame.empty:
        return []
    return [
        ((str(feature), str(normalization)), lines)
        for (feature, normalization), lines in frame.groupby(["feature", "filtration"], sort=False)
    ]


def _equivalent(line: Mapping[Hashable, Any]) -> tuple[str, ...]:
    return (
        str(line["run"]),
        str(line["simpler"]),
        whole(line["matrices"]),
        number(line["r2"], "{:.2f}"),
        interval(line, "low", "high", "{:.2f}"),
        f"{number(line['least'], '{:.2f}')} to {number(line['most'], '{:.2f}')}",
        number(line["r2_changes"], "{:.2f}"),
        number(line["r2_shuffled"], "{:.2f}"),
        number(line["excess"], "{:.1%}"),
    )


def _led(study: Study) -> list[str]:
    """Return the columns whose phases and segments are listed: two of the package, and other probes'."""
    ours = (study.column(NEURAL_PERSISTENCE, PERSISTENCE), study.column(RIPS, H0_TOTAL))
    return [*filter(None, ours), *study.brought(Use.CHANGE)]


def _values(study: Study, column: str, run: str | None = None) -> pd.Series:
    """Return the values of a column, of one run or of all."""
    table = study.series.values if run is None else study.series.of_run(run)
    return table[column] if column in table else pd.Series(dtype=float)


def _moved(line: pd.Series, column: str, form: str, values: pd.Series) -> str:
    """Return the first and last value of a run, or the only one."""
    if pd.isna(line[f"{column} first"]):
        return number(values.dropna().iloc[0] if values.notna().any() else None, form)
    return f"{number(line[f'{column} first'], form)} → {number(line[f'{column} last'], form)}"


def segments_table(study: Study) -> Table:
    """Return the segments between changepoints of neural persistence and H0."""
    wanted = _led(study)
    rows = []
    bends = (study.bends[study.bends["column"] == column].to_dict("records") for column in wanted)
    for line in chain.from_iterable(bends):
        start = (
            f"{number(line['start_step'], '{:,.0f}')} {interval(line, 'start_low', 'start_high', '{:,.0f}')}"
        )
        slope = (
            f"{number(line.get('slope'), '{:+.3g}')} {interval(line, 'slope_low', 'slope_high', '{:+.2g}')}"
        )
        rows.append(
            (
                study.labels.label(str(line["column"])),
                str(line["run"]),
                whole(line["segment"]),
                start.strip(),
                number(line["end_step"], "{:,.0f}"),
                slope.strip(),
                "; ".join(str(line[name]) for name in ("direction", "reason") if line.get(name)),
                number(line.get("false_alarm_rate"), "{:.2f}"),
            )
        )
    return Table(
        "segments",
        "Segments between changepoints",
        "A bend is a step at which the slope on log step departs from every smooth trend. Each bend has an "
        "interval. False alarms are simulated for these steps. Their rate is the highest share in which one "
        "of five kinds of plain curve shows a bend. If noise of uneven size can cause as much of a bend, the "
        "row says so.",
        (
            "feature",
            "run",
            "segment",
            "from step",
            "to step",
            "slope per ln step",
            "direction",
            "false alarms",
        ),
        tuple(rows),
        frame=study.bends,
        grouped=True,
    )
