"""Where will it end: how far forecasts of the final loss are off, and whether topology makes them better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from toposcope.analysis.findings.base import Finding
from toposcope.analysis.forecast.compare import BY_RULE, BY_SIBLINGS, worth_of_features
from toposcope.analysis.statistics import holm

if TYPE_CHECKING:
    from toposcope.analysis.study import Study

TOPOLOGY = (f"{BY_SIBLINGS} + topology", f"{BY_SIBLINGS} + saturating topology")
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
    small = topology[holm(topology["t_p"].to_numpy(float)) < ALPHA]
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


def end(study: Study) -> Finding | None:
    """Strength: "better" or "no better" with topology, "unscored" where no forecast could be compared."""
    scores = study.forecasts
    if not len(scores):
        return None
    found = forecasts_of(scores)
    if found is None:
        return Finding("end", "unscored", {"reason": str(next(iter(scores["reason"]), ""))})
    auto = next((m for m in found.mae if m.startswith("auto")), BY_SIBLINGS)
    tested = found.worth[found.worth["method"].isin(TOPOLOGY) & (found.worth["status"] == "ok")]
    of_topology = tested[tested["method"] == TOPOLOGY[0]]
    numbers = {
        "cuts": list(found.cuts), "cuts_said": " / ".join(f"{100 * cut:.0f}%" for cut in found.cuts),
        "runs": found.runs, "auto": found.mae.get(auto, []),
        "last_value": found.mae.get("last value", []), "covered": found.covered, "bounded": found.bounded,
        "compared": len(tested), "effects": of_topology[["effect", "low", "high"]].to_numpy(float).tolist(),
        "clear": [list(pair) for pair in found.clear], "harmful": len(found.harmful),
        "rule": found.mae.get(RULE, []) if BY_RULE in found.mae else [],
        "rule_control": found.mae.get(BY_RULE, []), "rule_loss": found.mae.get(LOSS_RULE, []),
        "smallest_p": 2.0 ** (1 - found.runs),
    }  # fmt: skip
    left = tuple(dict.fromkeys(scores.loc[scores["status"] == "failed", "reason"].astype(str)))
    strength = "better" if found.clear else "no better"
    return Finding("end", strength, numbers, "paired t-test over runs, Holm over cuts and methods", left)


def go_on(study: Study) -> Finding | None:
    """Strength: "finished" (nothing to decide) or "begun"; None where no loss was logged."""
    scores = study.forecasts
    if not len(scores):
        return None
    reasons = scores.loc[scores["cut"].isna(), ["run", "reason"]].astype(str)
    begun = list(reasons.loc[reasons["reason"].str.startswith("not finished"), "run"])
    return Finding("on", "begun" if begun else "finished", {"begun": begun, "runs": len(study.runs)})
