"""How well did they train? The model that ends best, and whether all of them got there without a fault."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from toposcope.core.forms import extent
from toposcope.study.finals import FINISHED, finals_table
from toposcope.study.findings.base import Finding

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.study.tables import StudyTables


def trained(study: StudyTables, answers: Iterable[Finding]) -> Finding:
    """Strength: "healthy" (logs without a fault, at their end), "unfinished", "measured" (no log shows it).

    `answers` are the findings on the measurements and on the logs. Runs are ranked by the loss at their last
    checkpoint, those at the end of their family alone.
    """
    findings_by_question = {answer.question: answer for answer in answers}
    on, gaps = findings_by_question.get("on"), int(findings_by_question["sound"].numbers["gaps"])
    counts = study.series.values.groupby("run")["step"].nunique()
    numbers = {
        "runs": len(study.runs), "ran": len(study.runs), "sizes": len(study.sizes),
        "run": next(iter(study.ordered), ""), "checkpoints": int(counts.max()), "gaps": gaps,
        "audited": bool(findings_by_question["sound"].numbers.get("audited")), "running": [], "undecided": 0,
        "unknown_ends": 0,
        **_ranked(study),
    }  # fmt: skip
    if on is None or not on.numbers["read"]:
        return Finding("trained", "measured", numbers)
    every = int(on.numbers["runs"])  # a run that is followed has a log before a checkpoint is measured
    undecided = every - int(on.numbers["read"]) + int(on.numbers["few"])
    numbers |= {"running": list(on.numbers["running"]), "runs": every, "undecided": undecided}
    numbers |= {"unknown_ends": int(on.numbers["unknown_ends"])}
    if on.strength == "running":
        return Finding("trained", "unfinished", numbers)
    return Finding("trained", "measured" if gaps or on.strength == "too few" else "healthy", numbers)


def _ranked(study: StudyTables) -> dict[str, object]:
    """Return the size (of one size: the run) with the lowest final loss, and the range of the others."""
    nothing: dict[str, object] = {"label": "", "best": None, "others": [], "several": 0}
    nothing |= {"largest": False, "early": []}
    lower = (*study.subject.targets, *study.series.losses)  # what is better where it is smaller
    usable = [name for name in (study.target, *lower) if name in lower and name in study.series.targets]
    ends = finals_table(study.series, usable[:1])
    ends = ends[ends["finished"].astype(bool) & np.isfinite(ends["value"].astype(float))]
    if ends.empty:
        return nothing
    column, values = usable[0], ends.set_index("run")["value"].astype(float)
    label = study.labels.label(column)
    if column in study.series.losses:
        values, label = values.map(math.exp), study.series.losses[column][0]
    several = len(study.sizes) > 1
    groups = [(g.label, g.runs) for g in study.sizes] if several else [(run, (run,)) for run in values.index]
    rows: list[dict[str, Any]] = []
    for name, runs in groups:
        mine = values[values.index.isin(runs)]
        if len(mine):
            spread = extent(mine) if len(mine) > 1 else []
            rows.append({"label": name, "value": float(mine.mean()), "range": spread, "seeds": len(mine)})
    best = min(rows, key=lambda row: row["value"])
    alone = several and study.sizes[-1].parameters > study.sizes[-2].parameters
    largest = alone and best["label"] == study.sizes[-1].label
    others = extent(float(row["value"]) for row in rows if row is not best)
    return {
        "label": label,
        "best": best,
        "others": others,
        "several": len(rows),
        "largest": largest,
        "early": _early(study, ends.set_index("run")["step"]),
    }


def _early(study: StudyTables, measured: pd.Series) -> list[float]:
    """Return the first and last step of the ranked losses where a log goes on after them, else nothing.

    `measured` has the step of each run: a loss there is no final one, if training went on.
    """
    if study.log is None:
        return []
    last = study.log.metrics.groupby("run")["step"].max().reindex(measured.index)
    return extent(measured.astype(int)) if (measured < FINISHED * last).any() else []
