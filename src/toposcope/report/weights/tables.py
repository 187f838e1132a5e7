"""The report's tables: which columns are shown and what they are called."""

from __future__ import annotations

import numpy as np
import pandas as pd

from toposcope.analysis.catalogue import leading
from toposcope.figures.series import sizes
from toposcope.report.cells import NONE, interval, number, step_and_part, trend_cell, whole
from toposcope.report.counts import NOTHING, first_last
from toposcope.report.parts import Table
from toposcope.report.replicates import replicates_table
from toposcope.report.weights.forecasts import forecasts_table
from toposcope.report.weights.study import H0, H1, NP, Study


def tables(study: Study) -> dict[str, Table]:
    """Return the report's tables by name, those that have something to say."""
    made = (
        runs_table(study),
        trends_table(study, headline=True),
        trends_table(study, headline=False),
        replicates_table(study.replicates, study.target, study.series.catalogue),
        phases_table(study),
        segments_table(study),
        scaling_table(study),
        forecasts_table(study.forecasts),
    )
    return {table.name: table for table in made if table.rows}


def runs_table(study: Study) -> Table:
    """Return what was measured: a line per run with its first and last values."""
    forms = {
        study.target: "{:.3f}",
        study.column(NP): "{:.4f}",
        study.column(H0): "{:.1f}",
        study.column(H1): "{:.2f}",
    }
    counts = study.series.values.groupby("run")["step"].agg(["count", "max"])
    frame = study.runs[["run", "parameters", "seed"]].set_index("run").join(counts)
    frame = frame.rename(columns={"count": "checkpoints", "max": "last step"})
    for column in forms:
        ends = first_last(study.series, column).set_index("run")[["first", "last"]]
        frame = frame.join(ends.rename(columns={end: f"{column} {end}" for end in ends}))
    frame = frame.loc[_ordered_runs(study)]
    rows = []
    for run, line in frame.iterrows():
        moved = [
            f"{number(line[f'{column} first'], form)} → {number(line[f'{column} last'], form)}"
            for column, form in forms.items()
        ]
        size = f"{int(line['parameters']):,}" if line["parameters"] else "unknown"
        steps = number(line["last step"], "{:,.0f}")
        rows.append((str(run), size, whole(line["seed"]), whole(line["checkpoints"]), steps, *moved))
    return Table(
        "runs",
        "What was measured",
        "First and last checkpoint of every run.",
        (
            "run",
            "parameters",
            "seed",
            "checkpoints",
            "last step",
            *(study.series.label(name) for name in forms),
        ),
        tuple(rows),
        frame=frame.reset_index(),
    )


_TREND_COLUMNS = (
    ("n", "n", "{:.0f}"),
    ("spearman", "ρ", "{:+.2f}"),
    ("seed_p", "p", "{:.1g}"),
    ("seed_low seed_high", "iid 95%", "{:+.2f}"),
    ("effective_n", "effective n", "{:.1f}"),
    ("block_low block_high", "block 95%", "{:+.2f}"),
    ("partial_step", "given log step", "{:+.2f}"),
    ("partial_norm", "given step, norm", "{:+.2f}"),
    ("walk_p", "p, random walks", "{:.2g}"),
    ("innovation_r", "r of innovations", "{:+.2f}"),
    ("innovation_low innovation_high", "95%", "{:+.2f}"),
    ("innovation_holm", "p, Holm", "{:.2g}"),
)
_TREND_GROUPS = (
    ("", 1),
    ("as usually reported, as if checkpoints were independent", 4),
    ("what drift leaves of it (true error rates differ from 5%)", 5),
    ("the test behind the verdict", 4),
)


def trends_table(study: Study, *, headline: bool) -> Table:
    """Return correlations with the loss: of H0, neural persistence and H1, or of the other features."""
    first = [study.column(column) for column in (H0, NP, H1)]
    mine = study.trends[study.trends["target"] == study.target]
    others = [
        column for column in leading(mine["column"], study.series.catalogue, most=40) if column not in first
    ]
    columns = first if headline else others
    mine = mine[mine["column"].isin(columns)]
    places = {run: i for i, run in enumerate(_ordered_runs(study))}
    mine = mine.iloc[np.lexsort((mine["run"].map(places), mine["column"].map(columns.index)))]
    shown = [spec for spec in _TREND_COLUMNS if all(part in mine for part in spec[0].split())]
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
        "trends" if headline else "trends_more",
        f"Correlation with the {study.series.label(study.target)}"
        + ("" if headline else ": the other features"),
        "Spearman's rho over checkpoints and what remains of it. Only the last group tests for more than "
        "a shared drift; the columns before it are there because they are usually reported.",
        ("feature", "run", *(heading for _, heading, _ in shown), "verdict"),
        tuple(rows),
        _TREND_GROUPS if len(shown) == len(_TREND_COLUMNS) else (),
        study.trends if headline else mine,
        folded=not headline,
        grouped=True,
    )


def phases_table(study: Study) -> Table:
    """Return the weight-space paper's phase rules for neural persistence and H0."""
    wanted = [study.column(NP), study.column(H0)]
    rows = [
        (
            study.series.label(str(line["column"])),
            str(line["run"]),
            str(line["rule"]),
            step_and_part(line, "peak"),
            step_and_part(line, "diminishing"),
        )
        for column in wanted
        for line in study.phases[study.phases["column"] == column].to_dict("records")
    ]
    return Table(
        "phases",
        "Phases by the weight-space paper's rules",
        "Step of the largest change and of diminishing returns, by the rule as its code has it (moving "
        "average) and as its text has it. Neither rule has an error rate: on noise they name a step as "
        "well. Roles are in the CSV file.",
        ("feature", "run", "rule", "largest change", "diminishing returns"),
        tuple(rows),
        frame=study.phases,
        grouped=True,
    )


def segments_table(study: Study) -> Table:
    """Return the segments between changepoints of neural persistence and H0."""
    wanted = [study.column(NP), study.column(H0)]
    rows = []
    shown = pd.concat([study.segments[study.segments["column"] == column] for column in wanted])
    for line in shown.to_dict("records"):
        start = (
            f"{number(line['start_step'], '{:,.0f}')} {interval(line, 'start_low', 'start_high', '{:,.0f}')}"
        )
        slope = (
            f"{number(line.get('slope'), '{:+.3g}')} {interval(line, 'slope_low', 'slope_high', '{:+.2g}')}"
        )
        rows.append(
            (
                study.series.label(str(line["column"])),
                str(line["run"]),
                whole(line["segment"]),
                start.strip(),
                number(line["end_step"], "{:,.0f}"),
                slope.strip(),
                str(line.get("direction", "")),
                number(line.get("false_alarm_rate"), "{:.2f}"),
            )
        )
    return Table(
        "segments",
        "Segments between changepoints",
        "Bends: where the slope on log step leaves every smooth trend, with the interval of each. False "
        "alarms are simulated for these steps: the highest share in which one of five kinds of plain curve "
        "shows a bend.",
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
        frame=study.segments,
        folded=True,
        grouped=True,
    )


def scaling_table(study: Study) -> Table:
    """Return the power laws in the number of parameters."""
    rows = []
    for line in study.fits.to_dict("records"):
        rho, p = number(line["spearman"], "{:+.2f}"), number(line["spearman_p"], "{:.2g}")
        rows.append(
            (
                study.series.label(str(line["quantity"])),
                number(line["exponent"], "{:+.3f}"),
                interval(line, "low", "high", "{:+.3f}"),
                number(line["r2"], "{:.3f}"),
                rho if rho == NONE else f"{rho} ({p})",
                whole(line["n_sizes"]),
                str(line["reason"]) or "ok",
            )
        )
    return Table(
        "scaling",
        "Power laws in the number of parameters",
        "Each size's mean at the last checkpoint. A loss has a floor E, so its law is a N^b + E with a "
        "profile interval of b; where the sizes cannot tell E there is no exponent, and the note says which "
        "go with it. A feature's law is a N^b, by least squares in log-log with Student's interval. The "
        "p-value of rho is exact up to eight points, Student's approximation beyond. Sizes is how many "
        "distinct model sizes carry it.",
        ("quantity", "exponent", "95%", "R²", "ρ (p)", "sizes", "note"),
        tuple(rows),
        frame=study.fits,
    )


def _ordered_runs(study: Study) -> list[str]:
    return [run for group in sizes(study.runs) for run in group.runs]
