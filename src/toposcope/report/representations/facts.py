"""What the tables of representations say, counted: strengths of correlation, nulls, phases, layers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from toposcope.analysis.catalogue import is_baseline, leading
from toposcope.analysis.statistics import correlation, ranks
from toposcope.figures.across_layers import pairs
from toposcope.figures.cloud_null import measured_nulls
from toposcope.figures.series import curve, null_band, select, sizes
from toposcope.figures.trajectories import of_layer
from toposcope.report.representations.rows import PROBE
from toposcope.report.representations.study import Representations

_MOST = 60

PHASES = (("collapse", 0, 32), ("reorganisation", 32, 1000), ("refinement", 1000, None))
"""The embedding report's phases, by step: it read them off a figure of H1 total persistence."""


def worth(study: Representations, target: str) -> pd.DataFrame:
    """Return the trend table of one target with what is left of it given each confound."""
    mine = study.trends[study.trends["target"] == target]
    if study.confounds.empty:
        return mine
    return mine.merge(study.confounds, on=["run", "column", "target"], how="left")


def strengths(study: Representations) -> pd.DataFrame:
    """Return, per feature, means over the runs of |correlation|: columns column, baseline, runs, raw, ...

    `raw` and `given_step` are means of absolute values; `raw_low` is the smallest over the runs; `usual_p`
    counts runs with p < .05 as if checkpoints were independent; `adds` and `tested` count verdicts.
    """
    mine = worth(study, study.target)
    lines = []
    for column, rows in mine.groupby("column", sort=False):
        known = rows["spearman"].dropna().abs()
        if known.empty:
            continue
        lines.append(
            {
                "column": str(column),
                "baseline": is_baseline(str(column), study.series.catalogue),
                "runs": len(known),
                "raw": known.mean(),
                "raw_low": known.min(),
                "usual_p": int((rows["seed_p"] < 0.05).sum()),
                **{
                    name: rows[name].abs().mean() if name in rows else np.nan
                    for name in ("partial_step", "given_top", "given_count")
                },
                "adds": int((rows["verdict"] == "adds").sum()),
                "tested": int((rows["verdict"] != "cannot tell").sum()),
            }
        )
    columns = ["column", "baseline", "runs", "raw", "raw_low", "usual_p", "partial_step", "given_top",
               "given_count", "adds", "tested"]  # fmt: skip
    return pd.DataFrame(lines, columns=columns)


def strongest(table: pd.DataFrame, *, baseline: bool) -> tuple[str, float] | None:
    """Return the feature of `strengths` with the largest mean |rho| among topology or among baselines."""
    rows = table[table["baseline"] == baseline].dropna(subset=["raw"])
    if rows.empty:
        return None
    best = rows.sort_values("raw", kind="stable").iloc[-1]
    return str(best["column"]), float(best["raw"])


@dataclass(frozen=True, slots=True)
class BesideNull:
    """In how many sizes a feature's last value lies above and below the band of its Gaussian clouds."""

    feature: str
    above: int
    below: int
    sizes: int
    ratio: float
    """Median over sizes of the measured value over the null's mean."""


def beside_null(study: Representations) -> list[BesideNull]:
    """Return the comparison of every feature that has a null, at the last checkpoint."""
    rows = of_layer(study.features[study.features["probe"] == PROBE], None)
    found = []
    for panel in measured_nulls(rows):
        measured, nulls = (
            select(rows, panel.feature, probe=PROBE),
            select(rows, f"{panel.feature}_null", probe=PROBE),
        )
        above = below = n = 0
        ratios = []
        for group in sizes(study.runs):
            line, null = curve(measured, group.runs), null_band(nulls, group.runs)
            both = line.merge(null, on="step", suffixes=("", "_null")).dropna(
                subset=["low_null", "high_null"]
            )
            if both.empty:
                continue
            last = both.iloc[-1]
            n += 1
            above += bool(last["mean"] > last["high_null"])
            below += bool(last["mean"] < last["low_null"])
            ratios.append(last["mean"] / last["mean_null"] if last["mean_null"] else np.nan)
        if n:
            found.append(BesideNull(panel.feature, above, below, n, float(np.nanmedian(ratios))))
    return found


def fixed_phases(study: Representations, column: str) -> pd.DataFrame:
    """Return the change of a feature over each of the embedding report's phases, one row per run and phase.

    Columns run, column, phase, start_step, end_step, first, last: the values at the first and the last
    checkpoint inside the phase's steps. `agrees`: whether the sign of the change is what the label says;
    None for reorganisation, of which any change is one.
    """
    rows = []
    for run in study.series.run_names:
        frame = study.series.of_run(run)
        known = frame[["step", column]].dropna() if column in frame else frame.iloc[:0]
        for phase, low, high in PHASES:
            inside = known[(known["step"] >= low) & (known["step"] <= (np.inf if high is None else high))]
            if len(inside) < 2:
                continue
            first, last = inside.iloc[0], inside.iloc[-1]
            change = float(last[column] - first[column])
            agrees = {"collapse": change < 0, "refinement": change > 0}.get(phase)
            rows.append(
                (run, column, phase, int(first["step"]), int(last["step"]), float(first[column]),
                 float(last[column]), agrees)
            )  # fmt: skip
    names = ["run", "column", "phase", "start_step", "end_step", "first", "last", "agrees"]
    return pd.DataFrame(rows, columns=names)


def last_values(study: Representations, columns: list[str]) -> pd.DataFrame:
    """Return the values of every run's last checkpoint: columns run, parameters, step, then `columns`."""
    parameters = study.series.parameters()
    rows = []
    for run in study.series.run_names:
        last = study.series.of_run(run).iloc[-1]
        rows.append({"run": run, "parameters": parameters.get(run, 0), "step": int(last["step"]),
                     **{name: last.get(name, np.nan) for name in columns}})  # fmt: skip
    return pd.DataFrame(rows, columns=["run", "parameters", "step", *columns])


def settings(study: Representations) -> pd.DataFrame:
    """Return the sensitivity table's rows of the leading features, in their order."""
    table = study.sensitivity
    if table.empty:
        return table
    catalogue = study.series.catalogue
    own = catalogue[catalogue["probe"] == PROBE].set_index("column")["feature"]
    known = list(own[leading(own.index, catalogue, most=_MOST)])
    places = table["feature"].map({name: i for i, name in enumerate(known)})
    return (
        table[places.notna()].assign(place=places).sort_values("place", kind="stable").drop(columns="place")
    )


def carried(study: Representations) -> pd.DataFrame:
    """Return CKA and carried H1 of every pair of consecutive layers: run, step, layer, cka, carried."""
    return pairs(study.features)


def spearman(one: pd.Series, other: pd.Series) -> float:
    """Return the rank correlation over the rows that both know; NaN where one of them is constant."""
    both = pd.concat([one, other], axis=1).dropna().to_numpy(float)
    if len(both) < 2:
        return float("nan")
    placed = ranks(both)
    return float(correlation(placed[:, :1], placed[:, 1:])[0])
