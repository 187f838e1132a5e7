"""Does topology follow the target more closely than plain numbers: strengths of correlation side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from toposcope.core.forms import extent, lag_cell
from toposcope.statistics.correlations import correlation, ranks
from toposcope.study.findings.base import Finding

if TYPE_CHECKING:
    from toposcope.study.tables import StudyTables


def rivals(study: StudyTables) -> Finding | None:
    """Strength: "ahead" or "not ahead"; None where there are not both kinds of features."""
    table = strengths(study) if study.target else pd.DataFrame(columns=["baseline", "raw"])
    topology, plain = strongest(table, baseline=False), strongest(table, baseline=True)
    if topology is None or plain is None:
        return None
    numbers = {
        "runs": int(table["runs"].max()),
        "topology_name": study.labels.label(topology[0]), "rho": topology[1],
        "plain": study.labels.label(plain[0]), "plain_rho": plain[1], "margin": topology[1] - plain[1],
        "chance": study.chance if np.isfinite(study.chance) else None, "entropy": _entropy(study),
    }  # fmt: skip
    strength = "ahead" if topology[1] > plain[1] else "not ahead"
    return Finding("rivals", strength, numbers, "mean over runs of Spearman's |rho|, no test")


def worth(study: StudyTables, rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of a trend table with their correlation given each confound."""
    if study.confounds.empty:
        return rows
    return rows.merge(study.confounds, on=["run", "column", "target"], how="left")


def strengths(study: StudyTables) -> pd.DataFrame:
    """Return, per leading feature, means over the runs of |correlation|.

    Columns column, baseline, runs, raw (mean of |rho|), raw_low (the smallest over the runs), usual_p (runs
    with p < .05 as if checkpoints were independent), given_top, given_count, verdict.
    """
    mine = study.families[study.families["target"] == study.target]
    verdicts = {str(line["column"]): _verdict(line) for line in mine.to_dict("records")}
    lines = []
    trends = study.strengths
    mine = worth(study, trends[trends["target"] == study.target] if len(trends) else trends)
    for column, rows in mine.groupby("column", sort=False):
        finite = rows["spearman"].dropna().abs()
        if finite.empty:
            continue
        lines.append(
            {
                "column": str(column), "baseline": study.labels.baseline(str(column)), "runs": len(finite),
                "raw": finite.mean(), "raw_low": finite.min(), "usual_p": int((rows["naive_p"] < 0.05).sum()),
                **{n: rows[n].abs().mean() if n in rows else np.nan for n in ("given_top", "given_count")},
                "verdict": verdicts.get(str(column), ""),
            }
        )  # fmt: skip
    names = ["column", "baseline", "runs", "raw", "raw_low", "usual_p", "given_top", "given_count", "verdict"]
    return pd.DataFrame(lines, columns=names)


def _verdict(line: dict) -> str:
    """Return the verdict of a row with the lag at which it was found, if that is not 0."""
    verdict, lag = str(line["verdict"]), lag_cell(line)
    return f"{verdict} ({lag})" if verdict == "adds" and lag != "0" else verdict


def strongest(table: pd.DataFrame, *, baseline: bool) -> tuple[str, float] | None:
    """Return the feature of `strengths` with the largest mean |rho| among topology or among baselines."""
    rows = table[table["baseline"] == baseline].dropna(subset=["raw"])
    if rows.empty:
        return None
    best = rows.sort_values("raw", kind="stable").iloc[-1]
    return str(best["column"]), float(best["raw"])


def spearman(one: pd.Series, other: pd.Series) -> float:
    """Return the rank correlation over the rows that both know; NaN where one of them is constant."""
    both = pd.concat([one, other], axis=1).dropna().to_numpy(float)
    if len(both) < 2:
        return float("nan")
    placed = ranks(both)
    return float(correlation(placed[:, :1], placed[:, 1:])[0])


def _entropy(study: StudyTables) -> dict[str, object] | None:
    """Return how closely the subject's entropy follows its count, and its correlation given the count."""
    if not study.subject.counted:
        return None
    probe, *features = study.subject.counted
    entropy, count = (study.column(probe, feature) for feature in features)
    if not entropy or not count:
        return None
    correlations = [spearman(rows[entropy], rows[count]) for _, rows in study.series.values.groupby("run")]
    given = study.confounds
    rest: list[float] = []
    if {"given_count", "target"} <= set(given):
        mine = given[(given["target"] == study.target) & (given["column"] == entropy)]
        rest = extent(mine["given_count"])
    name, of = (feature.label for feature in features)
    return (
        {"name": name, "count": of, "own": extent(correlations), "rest": rest}
        if extent(correlations)
        else None
    )
