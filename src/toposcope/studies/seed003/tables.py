"""The tables of the embedding report for your own series, beside the report's numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.stats import t as student

from toposcope.statistics.correlations import partial_correlation, ranks
from toposcope.store import over_draws
from toposcope.studies.claims import claims_section
from toposcope.studies.sections import Section
from toposcope.studies.seed003.claims import claims
from toposcope.studies.seed003.report import BESIDE, FEATURES, SPECTRUM, TOPOLOGY, printed
from toposcope.studies.seed003.report_files import results
from toposcope.studies.seed003.stored_rows import (
    correlation_section,
    final_section,
    noise_section,
    phase_section,
    worth_section,
)
from toposcope.study import from_frame, trend_table
from toposcope.subjects.representations import null_name, sensitivity_table

if TYPE_CHECKING:
    from toposcope.store import Store

_NULLED = {
    "h1_n_features": "h1_count",
    "h1_total_persistence": "h1_total",
    "h1_persistence_entropy": "h1_entropy",
}
_GROUPS = {
    "topology (the report's four)": TOPOLOGY,
    "spectrum (the report's three)": SPECTRUM,
    "left out": BESIDE,
}
_CONTROLS = ("step", "top_eigenvalue", "h1_n_features")
_TRAJECTORY = (
    "perplexity", "h1_n_features", "h1_total_persistence", "h1_persistence_entropy", "effective_rank",
)  # fmt: skip
SENSITIVITY_COLUMNS = (
    "feature", "run", "settings", "components_spread",
    "texts_spread", "draw_spread", "rho", "rho_low", "rho_high", "order",
    "order_share",
)  # fmt: skip


def study_rows(store: Store) -> pd.DataFrame:
    """Return one row per run and step under the report's names, smallest model first.

    Beside the report's columns: `log_perplexity`, `h1_entropy_normalized`, and for the H1 count, total
    and entropy the mean and standard deviation over the Gaussian nulls, `..._null` and `..._null_sd`.
    """
    rows = results(store).rename(columns={"model": "run"})
    rows["log_perplexity"] = np.log(rows["perplexity"])
    features = _last_layer(store.features(probe="representations"))
    means = over_draws(features, ["run", "step", "feature"])
    wide = means.pivot(index=["run", "step"], columns="feature", values=["value", "sd"])
    at = pd.MultiIndex.from_frame(rows[["run", "step"]])
    rows["h1_entropy_normalized"] = wide["value"]["h1_entropy_normalized"].reindex(at).to_numpy()
    for theirs, ours in _NULLED.items():
        if null_name(ours) in wide["value"]:
            rows[f"{theirs}_null"] = wide["value"][null_name(ours)].reindex(at).to_numpy()
            rows[f"{theirs}_null_sd"] = wide["sd"][null_name(ours)].reindex(at).to_numpy()
    size = dict(zip(store.runs()["run"], store.runs()["parameters"], strict=True))
    order = rows["run"].map(lambda run: size.get(run) or 0)
    return (
        rows.assign(_size=order)
        .sort_values(["_size", "run", "step"], ignore_index=True)
        .drop(columns="_size")
    )


def _last_layer(features: pd.DataFrame) -> pd.DataFrame:
    hidden = features[features["scope"] == "layer"]
    return hidden[hidden["layer"] == hidden.groupby("run")["layer"].transform("max")]


def tables(store: Store) -> list[Section]:
    """Return the report's tables for the measured series, with tests of each."""
    rows = study_rows(store)
    table = from_frame(rows, features=list(FEATURES), targets=("log_perplexity",))
    trends = trend_table(table, targets=["log_perplexity"], every=True)
    sections = [
        claims_section(claims(rows, trends)),
        trajectory_section(rows),
        final_section(rows),
        seeds_section(rows, trends, store.runs()),
        null_section(rows),
        correlation_section(trends, same_data=False),
        group_section(trends),
        confound_section(rows),
        worth_section(trends),
        noise_section(rows),
        phase_section(rows),
    ]
    features = store.features()
    if (features["probe"] == "sensitivity").any():
        sections.append(sensitivity_section(sensitivity_table(features)))
    return [section for section in sections if section.rows]


def trajectory_section(rows: pd.DataFrame) -> Section:
    """Return every checkpoint's numbers, with the report's H1 total where it has that run and step."""
    names = printed()["columns"]
    stated = {
        (run, entry[0]): dict(zip(names, entry, strict=True))["h1_total_persistence"]
        for run, table in printed()["trajectory"].items()
        for entry in table
    }
    lines = []
    for row in rows.to_dict("records"):
        report = stated.get((row["run"], row["step"]))
        values = [float(row[name]) for name in _TRAJECTORY]
        lines.append((row["run"], int(row["step"]), *values, None if report is None else float(report)))
    columns = (
        "model",
        "step",
        "perplexity",
        "H1 bars",
        "H1 total",
        "H1 entropy",
        "effective rank",
        "H1 total (report)",
    )
    note = "The last layer, as in the report; the report's number is shown if it has that model and step."
    return Section("Trajectories", columns, tuple(lines), note)


def seeds_section(rows: pd.DataFrame, trends: pd.DataFrame, runs: pd.DataFrame) -> Section:
    """Return, for every size with several seeds, means over seeds with Student's 95% intervals.

    For each feature: its last value and its correlation with the log perplexity. Empty without several seeds.
    """
    size = dict(zip(runs["run"], runs["parameters"], strict=True))
    last = rows.groupby("run", sort=False).tail(1).set_index("run")
    rho = trends.pivot(index="run", columns="column", values="spearman")
    lines: list[tuple[object, ...]] = []
    for parameters, members in last.groupby(last.index.map(size), sort=True):
        if len(members) < 2:
            continue
        for name in ("perplexity", *FEATURES):
            correlations = rho[name].reindex(members.index) if name in rho else pd.Series(dtype=float)
            lines.append(
                (
                    int(parameters),
                    len(members),
                    name,
                    *_mean_interval(members[name]),
                    *_mean_interval(correlations),
                )
            )
    note = (
        "Means over seeds of the last value, and of the rank correlation with the log perplexity over "
        "checkpoints, with Student's 95% intervals. The interval of a correlation shows how reproducible the "
        "drift is, not that the relation is more than drift."
    )
    columns = ("parameters", "seeds", "quantity", "last", "low", "high", "rho", "rho low", "rho high")
    return Section("Across seeds", columns, tuple(lines), note)


def _mean_interval(values: pd.Series) -> tuple[float | None, float | None, float | None]:
    finite = values.dropna().to_numpy(float)
    if len(finite) < 2:
        return None, None, None
    half = float(student.ppf(0.975, len(finite) - 1) * finite.std(ddof=1) / np.sqrt(len(finite)))
    return float(finite.mean()), float(finite.mean() - half), float(finite.mean() + half)


def null_section(rows: pd.DataFrame) -> Section:
    """Return H1 at the first and last checkpoint beside Gaussian clouds of the same mean and covariance."""
    lines = []
    for run, mine in rows.groupby("run", sort=False):
        for place in (0, -1):
            row = mine.iloc[place]
            for name in (name for name in _NULLED if f"{name}_null" in rows):
                value, null, sd = (float(row[f"{name}{end}"]) for end in ("", "_null", "_null_sd"))
                away = (value - null) / sd if sd > 0 else float("nan")
                lines.append((run, int(mine["step"].to_numpy()[place]), name, value, null, sd, away))
    note = (
        "The null has exactly the cloud's mean and covariance, so all their spectral numbers are equal; sd "
        "is over the draws of the null. If a measured value is within a few sd of the null, H1 adds nothing "
        "to the covariance."
    )
    columns = ("model", "step", "quantity", "measured", "Gaussian null", "sd", "distance in sd")
    return Section("H1 beside a Gaussian cloud of the same covariance", columns, tuple(lines), note)


def group_section(trends: pd.DataFrame) -> Section:
    """Return topology against spectrum: the best and the mean |rho| of each group, per model."""
    lines = []
    for run, mine in trends.groupby("run", sort=False):
        rho = mine.set_index("column")["spearman"].abs()
        for group, names in _GROUPS.items():
            correlations = rho.reindex(list(names)).dropna()
            if len(correlations):
                lines.append(
                    (run, group, correlations.idxmax(), float(correlations.max()), float(correlations.mean()))
                )
    note = (
        "The report concludes that topology beats the spectrum. The third group was not compared there: "
        "the top covariance eigenvalue, H0's total persistence, and entropy over the log of the count."
    )
    return Section(
        "Topology against spectrum", ("model", "group", "best", "|rho|", "mean |rho|"), tuple(lines), note
    )


def confound_section(rows: pd.DataFrame) -> Section:
    """Return each topological feature's correlation with log perplexity, given other explanations."""
    lines = [line for _, mine in rows.groupby("run", sort=False) for line in _confounds(mine)]
    note = (
        "Partial Spearman correlations with the log perplexity, given the log step, the top covariance "
        "eigenvalue, the number of H1 bars, and all three. A cell is empty if a control leaves no variation. "
        "A count is not its own control."
    )
    columns = ("model", "feature", "rho", "given step", "given eigenvalue", "given count", "given all")
    return Section("What explains the correlations", columns, tuple(lines), note)


def _confounds(mine: pd.DataFrame) -> Iterator[tuple[object, ...]]:
    complete = mine[["log_perplexity", *TOPOLOGY, *BESIDE, "step"]].dropna()
    if len(complete) < 6:
        return
    y = ranks(complete[["log_perplexity"]].to_numpy(float))
    control = {name: ranks(complete[[name]].to_numpy(float)) for name in _CONTROLS}
    nothing = np.empty((len(complete), 0))
    for name in (*TOPOLOGY, "h1_entropy_normalized", "h0_total_persistence"):
        x = ranks(complete[[name]].to_numpy(float))
        other_parts = [part for key, part in control.items() if key != name]
        given = [nothing, control["step"], control["top_eigenvalue"]]
        given += [nothing if name == "h1_n_features" else control["h1_n_features"], np.hstack(other_parts)]
        values = [float(partial_correlation(x, y, part)[0][0]) for part in given]
        if name == "h1_n_features":
            values[3] = float("nan")
        yield (mine["run"].iloc[0], name, *values)


def sensitivity_section(table: pd.DataFrame) -> Section:
    """Return how far each finding depends on the settings."""
    shown = table.loc[table["status"] == "ok", list(SENSITIVITY_COLUMNS)]
    note = (
        "components_spread: standard deviation over the numbers of components, in units of that over "
        "checkpoints. texts_spread, draw_spread: the same for the number and the choice of texts. rho: "
        "Spearman's rho with log perplexity at the report's setting, then its range over settings and draws. "
        "order: of the models at their last step, and the share of settings and draws that give it."
    )
    lines = tuple(tuple(line) for line in shown.itertuples(index=False))
    return Section("How far the findings depend on the settings", SENSITIVITY_COLUMNS, lines, note)
