"""Are the measurements sound? What the audit of the checkpoints found, and what could not be measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from toposcope.core.observations import REMARKS
from toposcope.study.findings.base import Finding

if TYPE_CHECKING:
    from toposcope.study.tables import StudyTables


def sound(study: StudyTables) -> Finding:
    """Strength: "faults" (the audit found some), "gaps" (numbers are missing), "clean" (neither)."""
    audit, features = study.audit, study.features
    if audit is not None and "fault" in audit:  # an empty audit may have no columns
        audit = audit[~audit["fault"].isin(REMARKS)]
    faults = 0 if audit is None else len(audit)
    gaps = features[features["status"] == "failed"] if "status" in features else features
    units = len(gaps.drop_duplicates(["run", "step", "probe"])) if len(gaps) else 0
    seen = features if len(features) else study.series.values
    numbers: dict[str, object] = {
        "faults": faults, "gaps": units, "audited": audit is not None,
        "checkpoints": len(seen.drop_duplicates(["run", "step"])),
    }  # fmt: skip
    if faults and audit is not None:
        numbers["kinds"] = [[str(kind), int(n)] for kind, n in audit["fault"].value_counts().items()]
        numbers["runs"] = [str(run) for run in audit["run"].dropna().unique()]
        first = audit.iloc[0]
        at = "" if pd.isna(first["step"]) else f" step {int(first['step']):,}"
        numbers["place"] = f"{first['run']}{at}"
        numbers["first"] = f"{first['run']}{at}: {first['message']}"
    strength = "faults" if faults else "gaps" if units else "clean"
    left = tuple(line for line in study.series.problems)
    return Finding("sound", strength, numbers, "audit of the checkpoints", left)
