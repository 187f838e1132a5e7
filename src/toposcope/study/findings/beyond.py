"""Does topology add anything: one test for each primary feature, or column of a table, over all runs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from toposcope.core.forms import extent
from toposcope.core.types import Status, Use
from toposcope.statistics.trends.basis import crowded_drops
from toposcope.statistics.trends.innovations import LEAST_LENGTH
from toposcope.study.findings.base import Finding
from toposcope.study.findings.changed import trendless
from toposcope.study.findings.end import forecasts_of
from toposcope.study.trends.replicates import POOLED
from toposcope.study.trends.verdicts import lag_words

if TYPE_CHECKING:
    from toposcope.study.tables import StudyTables

ADDS, TREND, CANNOT = "adds", "trend only", "cannot tell"
TEST = "correlation of innovations, one test for each feature over all runs"
LEAST_VALUES = 4
"""Fewer points in the same order say nothing: three are in order by chance in one case in three."""


def beyond(study: StudyTables) -> Finding:
    """Strength: "adds", "trend only", "cannot tell" (this design cannot), or "no target"."""
    if not study.target:
        return Finding("beyond", "no target", {"target": ""})
    mine = study.families[study.families["target"] == study.target]
    chosen = mine[mine["confirmatory"].astype(bool)]
    chosen = chosen if len(chosen) else mine  # a table made elsewhere declares nothing: all its columns count
    plain = chosen["column"].map(study.labels.baseline).astype(bool)
    if len(chosen) and plain.all():
        plain = ~plain
    topology, other = chosen[~plain], chosen[plain]
    tested = topology[topology["verdict"] != CANNOT]
    added = tested[tested["verdict"] == ADDS]
    explored = mine[~mine["confirmatory"].astype(bool)] if len(topology) < len(mine) else mine.iloc[:0]
    detectable = tested["detectable_r"].astype(float)
    numbers = {
        "judged": study.judged, "trendless": trendless(study), "columns": len(mine),
        "left_out_columns": [{"column": c, "why": why} for c, why in study.series.left_out.items()],
        "tested": len(tested), "found": len(added), "cannot": len(topology) - len(tested),
        "names": [study.labels.label(str(c)) for c in added["column"]],
        "r": [_estimate(study, line) for line in added.to_dict("records")],
        "baselines_tested": int((other["verdict"] != CANNOT).sum()),
        "baselines_found": int((other["verdict"] == ADDS).sum()),
        "family_size": _largest(chosen["family_size"]), "checkpoints": _largest(mine["n"]),
        "detectable_r": extent(detectable.dropna()), "reasons": _reasons(topology),
        "runs": len(study.runs), "seeds": max(len(g) for _, g in study.runs.groupby("parameters")),
        "ahead": int((added["first"] == "feature").sum()), "behind": int((added["first"] == "target").sum()),
        "rate_known": bool(chosen["rate_known"].astype(bool).all()),
        "crowded_drops": _crowded_drops(study.series.values),
        "explored": len(explored), "explored_found": int((explored["q"].astype(float) <= 0.05).sum()),
        "open": _open(study, topology), "forecast": _forecast(study), "lead": _lead(study),
        "across": _across(study), "clock": _clock(study),
    }  # fmt: skip
    strength = CANNOT if not len(tested) else ADDS if len(added) else TREND
    left = tuple(f"{n} {study.judged}s: {why}" for why, n in _reasons(topology))
    left += tuple(f"{column} ({why})" for column, why in study.series.left_out.items())
    return Finding("beyond", strength, numbers, TEST, left)


def _crowded_drops(values: pd.DataFrame) -> int:
    """Return the most drops that a run's learning rate has with too few checkpoints for each; 0 for none."""
    if "learning_rate" not in values:
        return 0
    runs = (rows.sort_values("step")["learning_rate"].dropna() for _, rows in values.groupby("run"))
    return max((crowded_drops(rate.to_numpy(float)) for rate in runs), default=0)


def _estimate(study: StudyTables, line: dict) -> dict[str, object]:
    low, high = (float(line[name]) for name in ("r_low", "r_high"))
    interval = [low, high] if np.isfinite(low) and np.isfinite(high) else []
    p = float(line["p_holm"]) if np.isfinite(line["p_holm"]) else None
    return {
        "label": study.labels.label(str(line["column"])), "r": float(line["r"]), "interval": interval,
        "p_holm": p, "lag": int(line["lag"]), "first": str(line["first"]),
        "lag_words": lag_words(int(line["lag"]), float(line["lag_steps"])) if line["first"] else "",
    }  # fmt: skip


def _largest(values: pd.Series) -> int:
    finite = values.astype(float).dropna()
    return int(finite.max()) if len(finite) else 0


def _reasons(topology: pd.DataFrame) -> list[tuple[str, int]]:
    undecided = topology[topology["verdict"] == CANNOT]
    counted = undecided["reason"].replace("", "no test could be made").value_counts()
    return [(str(why), int(n)) for why, n in counted.items()]


_EVEN = 0.8
"""Checkpoints count as evenly saved if at least this share of their gaps is equal: the last often differs."""


def _open(study: StudyTables, topology: pd.DataFrame) -> dict[str, object] | None:
    """Return how many features have too few values for the test, and how often they should be measured.

    None where every feature has enough, or none has a value. `every` is 0 where steps are not even. More
    checkpoints do not help a feature that has too few because it did not converge: `stuck` names those.
    """
    values = study.series.values
    undecided = topology.loc[topology["verdict"] == CANNOT, "column"].astype(str)
    columns = [c for c in undecided if c in values]
    lost = _unconverged(study)
    stuck = [c for c in columns if c.rpartition("/")[2] in lost and _most(study, c) < LEAST_LENGTH]
    few = [n for c in columns if c not in stuck and 0 < (n := _most(study, c)) < LEAST_LENGTH]
    names = [study.labels.label(c) for c in stuck]
    if not few:
        return {"features": 0, "stuck": names} if names else None
    factor = math.ceil(LEAST_LENGTH / min(few))
    gaps = values.sort_values("step").groupby("run")["step"].diff().dropna()
    gap = int(gaps.median()) if len(gaps) else 0
    even = gap >= factor and float((gaps == gap).mean()) >= _EVEN
    every = gap // factor if even else 0
    return {"features": len(few), "known": min(few), "least": LEAST_LENGTH, "factor": factor,
            "gap": gap, "every": every, "stuck": names}  # fmt: skip


def _most(study: StudyTables, column: str) -> int:
    """Return the largest number of values that any run has."""
    values = study.series.values
    return int(values[column].notna().groupby(values["run"]).sum().max())


def _unconverged(study: StudyTables) -> set[str]:
    """Return the features that have an unconverged value."""
    rows = study.features
    return set(rows.loc[rows["status"] == Status.UNCONVERGED, "feature"]) if "status" in rows else set()


def _forecast(study: StudyTables) -> str:
    """Return whether forecasts with topology beat their control: better, no better, or unknown."""
    forecasts = forecasts_of(study)
    return "unknown" if forecasts is None else "better" if forecasts.clear else "no better"


def _lead(study: StudyTables) -> dict[str, object]:
    """Return the raw correlation of the leading feature over the runs, and the part beyond the trend."""
    strengths = study.strengths
    mine = strengths[strengths["target"] == study.target] if len(strengths) else strengths
    for column in study.leads(Use.CHANGE):
        rows = mine[mine["column"] == column]
        raw = extent(rows["spearman"].astype(float)) if len(rows) else []
        if raw:
            departures = study.families
            rho = departures.loc[
                (departures["target"] == study.target) & (departures["column"] == column), "departure_rho"
            ]
            return {
                "label": study.labels.label(column), "raw": raw, "departures": extent(rho.astype(float)),
            }  # fmt: skip
    return {}


def _clock(study: StudyTables) -> dict[str, object]:
    """Return how closely the step itself ranks the target: the rank correlation over the runs."""
    from toposcope.study.findings.rivals import spearman

    if study.target not in study.series.values:
        return {"known": 0, "rho": []}
    values = study.series.values[["run", "step", study.target]].replace([np.inf, -np.inf], np.nan).dropna()
    counts = values.groupby("run")["step"].count()
    enough = counts.index[counts >= LEAST_VALUES]
    rho = [spearman(rows["step"], rows[study.target]) for run, rows in values.groupby("run") if run in enough]
    return {"known": int(counts.max()) if len(counts) else 0, "rho": extent(rho)}


def _across(study: StudyTables) -> dict[str, object] | None:
    """Return whether a run's features follow its own target more closely than another seed's."""
    rows = study.replicates
    if not len(rows) or "pairing_holm" not in rows:
        return None
    mine = rows[(rows["target"] == study.target) & (rows["status"] == "ok")]
    mine = mine[mine["column"].isin(study.labels.primary())]
    mine = mine[~mine["column"].map(study.labels.baseline).astype(bool)]
    if mine.empty:
        return None
    pooled = mine[mine["family"] == POOLED]
    shown = pooled if len(pooled) else mine
    beyond_pairing = shown[shown["pairing_holm"] < 0.05]
    return {
        "tested": len(shown), "found": len(beyond_pairing), "smallest_p": float(shown["smallest_p"].min()),
        "names": [study.labels.label(str(column)) for column in beyond_pairing["column"].head(4)],
    }  # fmt: skip
