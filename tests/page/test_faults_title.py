"""The title over the audit's findings is as strong as they are: a remark is no fault."""

from __future__ import annotations

import pandas as pd
import pytest

from toposcope.core.drawing.checkpoints import draw_checkpoints
from toposcope.core.observations import REMARKS, AuditFinding
from toposcope.page.figures.faults import title

VALUES = pd.DataFrame({"run": "a", "step": range(0, 100, 10)})
REMARK = sorted(REMARKS)[0]


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ([REMARK, REMARK], "The audit found no fault; it has a remark on 2 of 10 checkpoints"),
        (["identical"], "The audit found something wrong in 1 of 10 checkpoints"),
        (["identical", REMARK, REMARK], "The audit found something wrong in 1 of 10 checkpoints"),
    ],
)
def test_remarks_are_no_faults(faults: list[str], expected: str) -> None:
    audit = pd.DataFrame({"run": "a", "step": range(0, 10 * len(faults), 10), "fault": faults})
    assert title(audit, VALUES) == expected


def test_no_total_is_named_where_the_audit_looked_at_more_than_was_measured() -> None:
    audit = pd.DataFrame({"run": "a", "step": [5, 15], "fault": REMARK})
    assert title(audit, VALUES) == "The audit found no fault; it has a remark on 2 checkpoints"


@pytest.mark.parametrize(
    ("faults", "said"), [([REMARK], "1 remark"), ([REMARK, "identical"], "2 findings"), ([], "Checkpoints")]
)
def test_the_picture_counts_remarks_as_its_title_does(faults, said):
    found = [AuditFinding("a", 10, "", "seen", fault=fault) for fault in faults]
    assert draw_checkpoints({"a": [0, 10, 20]}, found).get_title("left") == said
