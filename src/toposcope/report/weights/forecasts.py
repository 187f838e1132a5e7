"""What the report says about forecasts of the final loss: a paragraph, a table and a caption."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from toposcope.analysis.forecast.compare import BY_RULE, BY_SIBLINGS, worth_of_features
from toposcope.analysis.forms import NONE, interval, number
from toposcope.report.parts import Caption, Table

TOPOLOGY = (f"{BY_SIBLINGS} + topology", f"{BY_SIBLINGS} + saturating topology")
NORMS = f"{BY_SIBLINGS} + norms"
RULE = "published: combined"
LOSS_RULE = "published: loss only"
ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Forecasts:
    """The forecasts in numbers, each over the cuts in `cuts`: what the words and captions need.

    `mae` maps a method to its mean absolute error at each cut. `worth` is the table of paired effects.
    `clear` lists (method, cut) where topology lowers the error with a t-test's p below .05 after Holm's
    correction over all its rows; `harmful` likewise where it raises it.
    """

    cuts: tuple[float, ...]
    runs: int
    mae: dict[str, list[float]]
    covered: int
    bounded: int
    worth: pd.DataFrame
    clear: tuple[tuple[str, float], ...]
    harmful: tuple[tuple[str, float], ...]


def forecasts_of(scores: pd.DataFrame) -> Forecasts | None:
    """Count what a table of `forecast_table` says; None where it has no forecast."""
    good = scores[scores["status"] != "failed"] if len(scores) else scores
    good = good[np.isfinite(good["error"].to_numpy(float))] if len(good) else good
    if not len(good):
        return None
    cuts = tuple(sorted(good["cut"].unique()))
    means = good.assign(size=good["error"].abs()).pivot_table(index="method", columns="cut", values="size")
    worth = worth_of_features(good)
    topology = worth[worth["method"].isin(TOPOLOGY) & (worth["status"] == "ok")]
    small = topology[_holm(topology["t_p"].to_numpy(float)) < ALPHA]
    named = [(str(m), float(c), float(e)) for m, c, e in small[["method", "cut", "effect"]].to_numpy()]
    default = good[good["method"].str.startswith("auto")]
    held = default["covered"].dropna()
    return Forecasts(
        cuts,
        int(good["run"].nunique()),
        {str(m): [float(row.get(c, np.nan)) for c in cuts] for m, row in means.iterrows()},
        int(held.sum()),
        len(held),
        worth,
        tuple((m, c) for m, c, effect in named if effect < 0),
        tuple((m, c) for m, c, effect in named if effect > 0),
    )


def _holm(p: np.ndarray) -> np.ndarray:
    """Return p-values adjusted by Holm's step-down."""
    order = np.argsort(p)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return adjusted


def sentence(scores: pd.DataFrame) -> str:
    """Say how far forecasts are off, and whether topology makes them better."""
    found = forecasts_of(scores)
    if found is None:
        why = next(iter(scores["reason"]), "") if len(scores) else ""
        return "The final loss could not be forecast from other runs" + (f": {why}." if why else ".")
    auto = next((m for m in found.mae if m.startswith("auto")), BY_SIBLINGS)
    text = (
        f"With {_cuts(found.cuts)} of a run seen, its final loss forecast from the other runs is off by "
        f"{_errors(found, auto)} nats on average over {found.runs} runs, against "
        f"{_errors(found, 'last value')} when the last value is kept; {found.covered} of {found.bounded} "
        "intervals of 90% held. "
    )
    text += _worth_sentence(found)
    if {RULE, BY_RULE} <= set(found.mae):
        text += (
            f" The published rule that mixes in neural persistence is off by {_errors(found, RULE)}, with "
            f"the last loss in its place by {_errors(found, BY_RULE)}, and its part from the loss alone "
            f"by {_errors(found, LOSS_RULE)}."
        )
    smallest = 2.0 ** (1 - found.runs)
    if smallest > ALPHA:
        text += (
            f" A rank test over {found.runs} runs cannot reach p < .05 (its smallest p is {smallest:.3g}): "
            "it settles no order of methods."
        )
    return text


def _worth_sentence(found: Forecasts) -> str:
    tested = found.worth[found.worth["method"].isin(TOPOLOGY) & (found.worth["status"] == "ok")]
    if tested.empty:
        return "No topological feature could be added to that forecast."
    changes = [
        f"{number(line['effect'], '{:+.3f}')} {interval(line, 'low', 'high', '{:+.3f}')}"
        for line in tested[tested["method"] == TOPOLOGY[0]].to_dict("records")
    ]
    text = (
        "Topological features beside the loss change the error by " + " / ".join(changes) if changes else ""
    )
    if found.clear:
        where = ", ".join(f"{_seen(cut)} ({method})" for method, cut in found.clear)
        return f"{text}: clear of zero, all cuts taken together, at {where}."
    lead = text + ": " if text else ""
    more = " (it makes it worse in places)" if found.harmful else ""
    return f"{lead}topology adds nothing to the forecast that these runs could show{more}."


def _errors(found: Forecasts, method: str) -> str:
    return " / ".join(number(error, "{:.3f}") for error in found.mae.get(method, [np.nan] * len(found.cuts)))


def _cuts(cuts: tuple[float, ...]) -> str:
    return " / ".join(_seen(cut) for cut in cuts)


def _seen(cut: float) -> str:
    return f"{100 * cut:.0f}%"


def forecasts_table(scores: pd.DataFrame) -> Table:
    """Return mean errors by cut and method, each paired by run with its control where it has one."""
    worth = worth_of_features(scores) if len(scores) else pd.DataFrame()
    pairs = {(line["cut"], line["method"]): line for line in worth.to_dict("records")}
    rows = []
    for (cut, method), mine in scores.groupby(["cut", "method"], sort=False) if len(scores) else ():
        good = mine[np.isfinite(mine["error"].to_numpy(float))]
        line = pairs.get((cut, method), {"status": "failed"})
        effect = NONE
        if line["status"] == "ok":
            effect = f"{number(line['effect'], '{:+.4f}')} {interval(line, 'low', 'high', '{:+.4f}')}"
        held = good["covered"].dropna()
        covered = f"{int(held.sum())} of {len(held)}" if len(held) else NONE
        mae, bias = number(good["error"].abs().mean(), "{:.4f}"), number(good["error"].mean(), "{:+.4f}")
        why = next(iter(mine.loc[mine["status"] == "failed", "reason"]), "")
        seen = _seen(float(cut))  # type: ignore[arg-type]
        rows.append((seen, str(method), mae, bias, covered, effect, str(len(good)), why))
    whole = scores[scores["cut"].isna()] if len(scores) else scores
    for run, reason in zip(whole["run"], whole["reason"], strict=True) if len(whole) else ():
        rows.append((NONE, str(run), NONE, NONE, NONE, NONE, "0", str(reason)))
    return Table(
        "forecasts",
        "Forecasts of the final loss",
        "Every finished run forecast from the others: mean absolute error (MAE, nats per token) by the part "
        "of the run that was seen, and how many intervals of 90% held; auto is what toposcope forecast uses. "
        "Minus its control: the change of the error against the same forecast without topology (for the "
        "published rules: with the last loss in its place), paired by run, with Student's 95% interval; "
        "negative is better.",
        ("seen", "method", "MAE", "mean error", "held", "minus its control", "runs", "note"),
        tuple(rows),
        frame=scores,
    )


def caption(scores: pd.DataFrame) -> Caption:
    """Return the words under the figure of forecast errors."""
    found = forecasts_of(scores)
    can = "Nothing: no forecast could be made."
    limit = ""
    if found is not None:
        best = [
            min((m for m in found.mae if np.isfinite(found.mae[m][i])), key=lambda m, i=i: found.mae[m][i])  # type: ignore[misc]
            for i in range(len(found.cuts))
        ]
        can = f"For these {found.runs} runs the smallest mean error at {_cuts(found.cuts)} had " + (
            " / ".join(best) + ". "
        )
        can += (
            "Topology lowers the error of sibling transfer beyond chance in places: see the text."
            if found.clear
            else "Topology beside the loss lowers the error of sibling transfer nowhere beyond chance."
        )
        least = 2.0 ** (1 - found.runs)
        limit = f" With {found.runs} runs, a paired rank test cannot give a p below {least:.3g}."
    return Caption(
        "Error of forecasts of the final loss",
        "Absolute error of every run (dots) and its mean (diamonds), by method and by the part of the run "
        "that was seen; each run is forecast from the others. Published rules are the weight-space paper's; "
        "the dashed line is its combined rule with the last loss in place of the topology.",
        can,
        "How well any of these does elsewhere: which of many comes out best is itself a matter of chance, "
        f"and the published rules' constants were chosen by their authors on runs of this kind.{limit}",
        "Dot plot of forecast errors by method, one panel per part of the run that was seen, with the "
        "control without topology as a dashed line.",
    )
