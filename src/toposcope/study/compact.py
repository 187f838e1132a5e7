"""The tables that a terminal gets: the verdict in few columns, and any table of an analysis as it is."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from toposcope.core.forms import capital, interval, lag_cell, listed, number
from toposcope.core.tabular import Table, of_cells
from toposcope.core.wording import option
from toposcope.study.study import Study
from toposcope.study.trends.verdicts import NOTHING_SHARED

_TITLES: Mapping[str, str] = {
    "families": "Every feature over all runs: the test behind the verdict, the smallest p first "
    "(lag above 0: the feature moves first)",
    "trends": "Trends, run by run, the smallest p of the verdict's test first",
    "replicates": "Across training replicates",
    "lags": "Leads and lags of innovations (positive: the feature moves first)",
    "phases": "Phases by the weight-space paper's two rules",
    "segments": "Segments of constant slope on log(step)",
    "saturation": "Saturating fits",
    "scaling": "Power laws of last values with model size",
    "exponents": "Exponents predicted from features, each family (or run) left out in turn",
    "forecasts": "Final loss of every finished run, forecast from the others",
    "forecast_effects": "What features add to a forecast: |error| minus its control's (negative: better)",
}
_SHOWN: Mapping[str, Mapping[str, str]] = {
    "families": {
        "target": "target", "column": "feature", "n": "n", "r": "r", "r_low": "2.5%", "r_high": "97.5%",
        "lag": "lag", "p": "p", "p_holm": "Holm", "q": "q", "detectable_r": "r found in 80%",
        "departure_rho": "departures",
        "verdict": "verdict", "reason": "why",
    },
    "trends": {
        "run": "run", "target": "target", "column": "feature", "n": "n", "spearman": "rho", "naive_p": "p",
        "effective_n": "eff. n", "block_low": "block 2.5%", "block_high": "97.5%",
        "partial_step": "given step", "partial_norm": "given norm too", "walk_p": "walk p",
        "departure_rho": "departures", "r": "innov. r", "lag": "lag", "p": "innov. p",
        "verdict": "verdict", "reason": "why",
    },
    "phases": {
        "run": "run", "column": "feature", "rule": "rule", "peak_step": "largest change",
        "diminishing_step": "diminishing", "diminishing_fraction": "share", "status": "status",
    },
}  # fmt: skip
_ORDER = {"families": "p", "trends": "p"}


def verdict_table(study: Study) -> Table:
    """Return the judged features with their tests, 80 characters wide; norms and spectra below a line."""
    mine = study.families[study.families["target"] == study.target]
    mine = mine[mine["confirmatory"].astype(bool)]
    mine = mine.assign(plain=mine["column"].map(study.labels.baseline).astype(bool))
    rows = tuple(
        (
            study.labels.label(str(line["column"])),
            number(line["r"], "{:+.2f}"),
            interval(line, "r_low", "r_high", "{:+.2f}"),
            lag_cell(line),
            number(line["p_holm"], "{:.2g}"),
            str(line["verdict"]),
        )
        for line in mine.sort_values("plain", kind="stable").to_dict("records")
    )
    topology = int((~mine["plain"]).sum())
    over = "all runs" if study.group is None else f"the runs of {study.group.label}"
    title = f"{capital(study.judged)}s and the {study.labels.label(study.target)}, over {over}"
    head = (study.judged.split()[-1], "r", "95%", "lag", "Holm p", "verdict")
    return Table("families", title, "", head, rows, sections=(topology,))


def lines_of_reasons(study: Study) -> list[str]:
    """Return a line for each reason why rows have no verdict, or for the rule that decided it."""
    mine = study.families[study.families["target"] == study.target]
    mine = mine[mine["confirmatory"].astype(bool)]
    decided = mine["reason"].str.startswith(f"{NOTHING_SHARED}; ")
    lines = []
    for (why, by_rule), rows in mine[decided | (mine["verdict"] == "cannot tell")].groupby(
        ["reason", decided], sort=False
    ):
        named = listed([study.labels.label(str(column)) for column in rows["column"]])
        end = " (without this rule the verdict would differ)" if by_rule else ""
        lines.append(f"{rows['verdict'].iloc[0]}: {named}: {why}{end}")
    return lines


def of_frame(name: str, part: pd.DataFrame, rows: int, *, title: str = "") -> Table:
    """Return at most `rows` rows of a table of the analysis, the smallest p first where it has one.

    `title` is that of a table which a subject declares.
    """
    order = _ORDER.get(name)
    if order is not None and order in part:
        part = part.sort_values(order, kind="stable", na_position="last")
    names = {"group": "group"} | dict(_SHOWN.get(name, {str(column): str(column) for column in part}))
    columns = [column for column in names if column in part and part[column].notna().any()]
    cut = part[columns].head(rows)
    whole = f"{option('json')} and {option('out')} have all"
    more = f" ({len(cut):,} of {len(part):,} rows; {whole})" if len(cut) < len(part) else ""
    cells = ([_value(value) for value in row] for row in cut.itertuples(index=False, name=None))
    return of_cells((title or _TITLES[name]) + more, [names[column] for column in columns], cells)


def _value(value: object) -> object:
    if isinstance(value, str | bool):
        return value
    return None if pd.isna(value) else float(value) if hasattr(value, "dtype") else value  # type: ignore[call-overload, arg-type]
