"""The tables that every part of the page and the terminal share: verdicts, correlations, replicates, ends."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from toposcope.core.forms import NONE, interval, number, trend_cell, whole
from toposcope.core.tabular import Table
from toposcope.core.wording import runnable
from toposcope.store.parts import slug
from toposcope.study.findings.rivals import worth
from toposcope.study.own import SubjectTable
from toposcope.study.study import Study

Spec = tuple[str, str, str]
_FAMILY: tuple[Spec, ...] = (
    ("n", "n", "{:.0f}"),
    ("r", "r of innovations", "{:+.2f}"),
    ("r_low r_high", "95%", "{:+.2f}"),
    ("lag", "lag", ""),
    ("p_holm", "p, Holm", "{:.2g}"),
    ("detectable_r", "r found in 80%", "{:.2f}"),
    ("departure_rho", "ρ of departures", "{:+.2f}"),
)
_FAMILY_NOTES = (
    ("lag", " The lag says how many checkpoints before or after the target the feature moves."),
    ("p_holm", " p is adjusted by Holm's method over {size} rows."),
    ("detectable_r", " “r found in 80%” is the correlation that this design would find in 80% of cases."),
    ("departure_rho", " Departures from the smooth trend are correlated without a test."),
)
"""The clause in the caption for each column that is shown."""
_TREND: tuple[Spec, ...] = (
    ("n", "n", "{:.0f}"),
    ("spearman", "ρ", "{:+.2f}"),
    ("naive_p", "p", "{:.1g}"),
    ("block_low block_high", "block 95%", "{:+.2f}"),
    ("departure_rho", "departures", "{:+.2f}"),
    ("partial_step", "log step", "{:+.2f}"),
    ("given_top", "top eigenvalue", "{:+.2f}"),
    ("given_count", "H1 count", "{:+.2f}"),
    ("r", "r of innovations", "{:+.2f}"),
    ("r_low r_high", "95%", "{:+.2f}"),
    ("lag", "lag", ""),
    ("p", "p", "{:.2g}"),
)
_GROUPS = (
    ("", ""), ("n naive_p", "as if checkpoints were independent"),
    ("block_low departure_rho", "without the drift"),
    ("partial_step given_count", "ρ given"),
    ("r p", "the verdict's test, this run alone"),
)  # fmt: skip


def shown(specs: tuple[Spec, ...], frame: pd.DataFrame) -> list[Spec]:
    """Return the columns that the frame has a value for."""
    present = set(frame.columns[frame.notna().any()]) if len(frame) else set()
    return [spec for spec in specs if all(part in present for part in spec[0].split())]


def families_table(study: Study) -> Table:
    """Return the verdict of every primary feature, or column of a table: one test each over all runs."""
    mine = study.families[study.families["target"] == study.target]
    mine = mine[mine["confirmatory"].astype(bool)]
    specs = shown(_FAMILY, mine)
    rows = [
        (
            study.labels.label(str(line["column"])),
            *(trend_cell(line, spec, form) for spec, _, form in specs),
            str(line["verdict"]),
            in_brief(str(line["reason"] or "")),
        )
        for line in mine.to_dict("records")
    ]
    size = int(np.nan_to_num(mine["family_size"].astype(float).max())) if len(mine) else 0
    notes = [
        text.format(size=size) for column, text in _FAMILY_NOTES if column in {spec[0] for spec in specs}
    ]
    return Table(
        "families",
        f"The verdict on every {study.judged}, with the {study.labels.label(study.target)}",
        f"One test for each {study.judged.split()[-1]} over all runs: do its innovations move with those of "
        "the target? Innovations are what a smooth trend and a series' own past do not explain."
        f"{''.join(notes)}{_beside(study)}",
        (study.judged.split()[-1], *(heading for _, heading, _ in specs), "verdict", "why"),
        tuple(rows),
        frame=study.families,
    )


_BRIEF = {
    "too few": "too few checkpoints",
    "checkpoints are missing": "gaps, waves of one period",
    "both change": "one sharp change in both",
    "both turn at": "both turn, rate unknown",
    "both are waves": "waves whose period drifts",
    "nothing remains": "a smooth trend explains all",
    "exploratory": "significant, but not confirmed",
    "constant series": "a constant series",
}
_MOST_WORDS = 5
"""The most words of a reason in a row of the page: a longer cell would be a paragraph."""


def in_brief(reason: str) -> str:
    """Return the reason of a verdict in at most five words.

    >>> in_brief("too few: 7 checkpoints, the test needs 12"), in_brief("moves with the loss beyond trend")
    ('too few checkpoints', 'moves beyond a shared trend')
    >>> in_brief("moves 1 checkpoint (16 steps) before the loss; the learning rate is unknown")
    'moves before it'
    """
    first = re.sub(r" \([^)]*\)", "", reason.split(";")[0])
    for begins, brief in _BRIEF.items():
        if first.startswith(begins):
            return brief
    if first.startswith("moves "):
        if "spike" in first:
            return "both spike together"
        way = next((way for way in ("before", "after") if f" {way} " in first), "")
        return f"moves {way} it" if way else "moves beyond a shared trend"
    words = first.split()
    return first if len(words) <= _MOST_WORDS else " ".join(words[:_MOST_WORDS]) + "…"


def _beside(study: Study) -> str:
    """Return a sentence on what the table of verdicts leaves out: exploratory features or columns."""
    if study.judged != "column":
        return " The exploratory features, and each reason in full, are in the CSV file."
    named = ", ".join(f"{column} ({why})" for column, why in study.series.left_out.items())
    return f" Left out: {named}." if named else ""


def correlation_table(study: Study, target: str, name: str) -> Table:
    """Return the correlation of every leading feature with `target` in every run, with its tests."""
    every = study.leading[study.leading["target"] == target]
    mine = worth(study, every)
    order = list(dict.fromkeys(study.leading["column"]))
    places = {run: i for i, run in enumerate(study.ordered)}
    if len(mine):
        mine = mine.iloc[np.lexsort((mine["run"].map(places), mine["column"].map(order.index)))]
    specs = shown(_TREND, mine)
    rows = [
        (
            study.labels.label(str(line["column"])),
            str(line["run"]),
            *(trend_cell(line, spec, form) for spec, _, form in specs),
        )
        for line in mine.to_dict("records")
    ]
    return Table(
        name + ("" if target == study.target else f"_{slug(target)}"),
        f"Correlation with the {study.labels.label(target)}, run by run",
        "Spearman's rho over the checkpoints of a run, as it is usually reported, and what remains of it "
        "without the drift. Only the last group tests for more than a shared drift. The verdict is over all "
        "runs together. Every other column is in the CSV file.",
        ("feature", "run", *(heading for _, heading, _ in specs)),
        tuple(rows),
        _groups(specs),
        every,
        grouped=True,
    )


def _groups(specs: list[Spec]) -> tuple[tuple[str, int], ...]:
    """Return the headings over the columns that are there; the first stands over the run."""
    every = [spec[0].split()[0] for spec in _TREND]
    here = [spec[0].split()[0] for spec in specs]
    header = [("", 1)]
    for span, text in _GROUPS[1:]:
        first, last = (every.index(name) for name in span.split())
        count = sum(first <= every.index(name) <= last for name in here)
        header += [(text, count)] if count else []
    return tuple(header)


def replicates_table(study: Study) -> Table:
    """Return the results across seeds, for sizes that were trained more than once."""
    mine = study.replicates
    mine = mine[mine["target"] == study.target] if len(mine) else mine
    rows = [
        (
            study.labels.label(column),
            str(line["family"]),
            whole(line["seeds"]),
            number(line["mean_rho"], "{:+.2f}"),
            interval(line, "low", "high", "{:+.2f}"),
            number(line.get("own_minus_other"), "{:+.3f}"),
            number(line["pairing_p"], "{:.2g}"),
            number(line.get("pairing_holm"), "{:.2g}"),
            number(line.get("smallest_p"), "{:.2g}"),
        )
        for column in (study.labels.leading(mine["column"]) if len(mine) else [])
        for line in mine[mine["column"] == column].to_dict("records")
    ]
    return Table(
        "replicates",
        "Across seeds",
        f"Mean rank correlation with the {study.labels.label(study.target)} over the seeds of a size, with "
        "Student's interval over seeds. It says how reproducible the drift is. The pairing test asks whether "
        "a run's feature follows the target of its own run more than that of another seed. Seeds that differ "
        "in speed pass it, too. The last column is the smallest p that this many seeds can give, sizes "
        "pooled where several have seeds.",
        (
            "feature", "sizes", "seeds", "mean ρ", "95%", "own minus other", "p, pairing", "p, Holm",
            "smallest p",
        ),
        tuple(rows),
        frame=study.replicates,
        grouped=True,
    )  # fmt: skip


def forecasts_table(study: Study) -> Table:
    """Return mean errors by cut and method, each paired by run with its control where it has one."""
    scores = study.forecasts
    pairs = {(line["cut"], line["method"]): line for line in study.forecast_effects.to_dict("records")}
    grouped: Any = scores.groupby(["cut", "method"], sort=False) if len(scores) else ()
    called = study.published.called
    rows = [
        _scored(cut, called.get(method, method), mine, pairs.get((cut, method)))
        for (cut, method), mine in grouped
    ]
    whole_runs = scores[scores["cut"].isna()] if len(scores) else scores
    for run, reason in zip(whole_runs["run"], whole_runs["reason"], strict=True) if len(whole_runs) else ():
        rows.append((NONE, str(run), NONE, NONE, NONE, NONE, "0", str(reason)))
    return Table(
        "forecasts",
        "Forecasts of the final loss",
        "Every finished run is forecast from the others. The table gives the mean absolute error (MAE, in "
        "units of the loss) by the part of the run that was used, and how many nominal 90% intervals contain "
        f"the final loss. The method auto is that of `{runnable('forecast')}`. Minus its control: "
        "the change of the error against the same forecast without topology (for the published rules, with "
        "the last loss instead of topology), paired by run, with Student's 95% interval. This interval is "
        "not corrected for the number of comparisons. The answer in words is corrected. A negative number is "
        "better.",
        ("after", "method", "MAE", "mean error", "in the interval", "minus its control", "runs", "note"),
        tuple(rows),
        frame=scores,
    )


def _scored(cut: float, method: str, mine: pd.DataFrame, pair: dict | None) -> tuple[str, ...]:
    good = mine[np.isfinite(mine["error"].to_numpy(float))]
    effect = NONE
    if pair is not None and pair["status"] == "ok":
        effect = f"{number(pair['effect'], '{:+.4f}')} {interval(pair, 'low', 'high', '{:+.4f}')}"
    held = good["covered"].dropna()
    covered = f"{int(held.sum())} of {len(held)}" if len(held) else NONE
    mae, bias = number(good["error"].abs().mean(), "{:.4f}"), number(good["error"].mean(), "{:+.4f}")
    why = next(iter(mine.loc[mine["status"] == "failed", "reason"]), "")
    return (f"{100 * cut:.0f}%", str(method), mae, bias, covered, effect, str(len(good)), str(why))


def scaling_table(study: Study) -> Table:
    """Return the power laws in the number of parameters."""
    rows = []
    for line in study.fits.to_dict("records"):
        rho, p = number(line["spearman"], "{:+.2f}"), number(line["spearman_p"], "{:.2g}")
        rows.append(
            (
                study.labels.label(str(line["quantity"])),
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
        "The mean of each size at the last checkpoint. A loss has a floor E, so its law is a N^b + E with a "
        "profile interval of b. If the sizes do not determine E, there is no exponent, and the note says "
        "which exponents fit. A feature's law is a N^b, by least squares in log-log with Student's interval. "
        "The p-value of rho is exact up to eight points and Student's approximation beyond. Sizes is the "
        "number of distinct model sizes behind the law.",
        ("quantity", "exponent", "95%", "R²", "ρ (p)", "sizes", "note"),
        tuple(rows),
        frame=study.fits,
    )


def subject_table(study: Study, declared: SubjectTable) -> Table:
    """Return a table that the study's subject declares, with its columns and rows as they are."""
    frame = study.own[declared.name]
    rows = tuple(tuple(map(_plain_cell, line)) for line in frame.itertuples(index=False, name=None))
    return Table(
        declared.name,
        declared.title or declared.name,
        declared.note,
        tuple(map(str, frame)),
        rows,
        frame=frame,
    )


def _plain_cell(value: object) -> str:
    """Return a cell as text: a count with its separators, a number with 4 digits.

    >>> _plain_cell(12000), _plain_cell(0.123456), _plain_cell("a"), _plain_cell(None)
    ('12,000', '0.1235', 'a', '–')
    """
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return f"{int(value):,}"
    return number(value, "{:.4g}") if value is None or isinstance(value, float) else str(value)
