"""When: half-way steps, the step of the largest change, and bends whose position has an interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from toposcope.core.forms import extent
from toposcope.core.observations import Deferred
from toposcope.core.types import Use
from toposcope.study.findings.base import Finding
from toposcope.study.findings.changed import move_of
from toposcope.study.net_change import half_steps

if TYPE_CHECKING:
    from toposcope.study.tables import StudyTables


def when(study: StudyTables) -> Finding:
    """Strength: "known" up to the spacing of checkpoints, or "too few" checkpoints.

    The search for bends is done when its numbers are read: at uneven steps its null is simulated, which
    takes ten seconds, and the terminal shows the half-way steps alone.
    """
    counts = study.series.values.groupby("run")["step"].count()
    if counts.max() < 3:
        return Finding("when", "too few", {"checkpoints": int(counts.max())})
    lead = next(iter(study.leads(Use.CHANGE)), "")
    target = study.target if study.target in study.series.values else ""
    loss = half_steps(study.series, target) if target else pd.Series(dtype=float)
    own_half = half_steps(study.series, lead) if lead and _moved(study, lead) else pd.Series(dtype=float)
    both = pd.concat([loss.rename("loss"), own_half.rename("own")], axis=1).dropna()
    gap = study.series.values.groupby("run")["step"].apply(lambda steps: steps.diff().median()).median()
    numbers = {
        "target": study.labels.label(target) if target else "",
        "lead": study.labels.label(lead) if lead else "",
        "half_target": extent(loss), "half_lead": extent(own_half), "both": len(both),
        "later": int((both["own"] > both["loss"]).sum()), "earlier": int((both["own"] < both["loss"]).sum()),
        "gap": float(gap), "fixed": _fixed(study),
        "fixed_by": study.published.fixed.source, "fixed_of": study.published.fixed.words,
    }  # fmt: skip
    searched = Deferred(numbers, lambda: _bends(study, lead))
    return Finding("when", "known", searched, "segments on log step against smooth curves")


def _moved(study: StudyTables, column: str) -> bool:
    """Return whether a column moved beyond its noise in any run: what did not has no half-way step."""
    move = move_of(study, column)
    return move is not None and bool(move["rose"] or move["fell"])


def _bends(study: StudyTables, lead: str) -> dict[str, object]:
    rows = study.bends
    mine = rows[(rows["column"] == lead) & (rows["status"] == "ok")] if "status" in rows else rows.iloc[:0]
    if mine.empty:
        return {"searched": 0, "bent": 0, "undecided": 0, "gentle": 0, "bends": [], "rate": None}
    counts = mine.groupby("run")["segment"].count()
    rate = float(mine["false_alarm_rate"].median())
    listing = [
        {
            "run": str(line["run"]), "step": float(line["start_step"]),
            "low": float(line["start_low"]), "high": float(line["start_high"]),
        }
        for line in mine[mine["segment"] > 0].to_dict("records")
    ]  # fmt: skip
    return {
        "searched": len(counts), "bent": int((counts > 1).sum()),
        "undecided": int(mine["reason"].str.startswith("cannot tell").sum()),
        "gentle": int(mine["reason"].str.startswith("no verdict").sum()), "bends": listing,
        "rate": rate if np.isfinite(rate) else None,
    }  # fmt: skip


def fixed_phases(study: StudyTables, column: str) -> pd.DataFrame:
    """Return the change of a feature over each phase that a publication fixed, one row per run and phase.

    Columns run, column, phase, start_step, end_step, first, last: the values at the first and the last
    checkpoint inside the phase's steps. `agrees`: whether the sign of the change is what the label says;
    None for a phase of which any change is one.
    """
    rows = []
    for run in study.series.run_names:
        frame = study.series.of_run(run)
        measured_rows = frame[["step", column]].dropna() if column in frame else frame.iloc[:0]
        for phase in study.published.fixed.phases:
            high = np.inf if phase.high is None else phase.high
            inside = measured_rows[(measured_rows["step"] >= phase.low) & (measured_rows["step"] <= high)]
            if len(inside) < 2:
                continue
            first, last = inside.iloc[0], inside.iloc[-1]
            change = float(last[column] - first[column])
            agrees = change * phase.sign > 0 if phase.sign else None
            rows.append(
                (run, column, phase.name, int(first["step"]), int(last["step"]), float(first[column]),
                 float(last[column]), agrees)
            )  # fmt: skip
    names = ["run", "column", "phase", "start_step", "end_step", "first", "last", "agrees"]
    return pd.DataFrame(rows, columns=names)


def _fixed(study: StudyTables) -> list[dict[str, object]]:
    published = study.published.fixed
    column = "" if published.feature is None else study.column(published.probe, published.feature)
    if not column:
        return []
    judged = fixed_phases(study, column).dropna(subset=["agrees"])
    phases = []
    for phase in published.phases:
        mine = judged[judged["phase"] == phase.name]
        if len(mine):
            verb = "rises" if phase.sign > 0 else "falls"
            steps = [int(mine["start_step"].min()), int(mine["end_step"].max())]
            right = int(mine["agrees"].astype(bool).sum())
            phases.append(
                {"phase": phase.name, "verb": verb, "steps": steps, "right": right, "of": len(mine)}
            )
    return phases
