"""The checkpoints in which the audit found something wrong."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from toposcope.core.drawing.checkpoints import draw_checkpoints
from toposcope.core.observations import REMARKS, AuditFinding
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.study import Study


def _drawn(study: Study) -> Figure:
    assert study.audit is not None
    located = [
        AuditFinding(
            str(line["run"]), None if pd.isna(line["step"]) else int(line["step"]), "", str(line["message"]),
            fault=str(line["fault"]),
        )
        for line in study.audit.to_dict("records")
    ]  # fmt: skip
    steps = {str(run): sorted(map(int, its)) for run, its in study.series.values.groupby("run")["step"]}
    figure = draw_checkpoints(steps, located).get_figure()
    assert isinstance(figure, Figure)
    return figure


def _caption(study: Study) -> Caption:
    assert study.audit is not None
    return Caption(
        title(study.audit, study.series.values),
        "Each tick is a measured checkpoint of a run. A sign marks a checkpoint on which the audit says "
        "something.",
        "Which checkpoints to look at before anything else on this page.",
        "What went wrong there. The list of findings says what was seen; only the files can tell the cause.",
        "A line of ticks for each run against the optimiser step, with signs where the audit found faults.",
    )


def title(audit: pd.DataFrame, values: pd.DataFrame) -> str:
    """Return in how many checkpoints the audit found a fault, or that it has only remarks.

    `audit` has the columns run, step and fault, `values` run and step of what was measured. If the audit
    looked at checkpoints that were not measured, their number is not known, so none is given.
    """
    at = audit.dropna(subset=["step"])
    measured = values[["run", "step"]].drop_duplicates()
    places = at[["run", "step"]].drop_duplicates()
    elsewhere = len(places.merge(measured, on=["run", "step"])) < len(places)
    remarks = at["fault"].isin(REMARKS)
    faulty, noted = (len(rows[["run", "step"]].drop_duplicates()) for rows in (at[~remarks], at[remarks]))
    if faulty or not noted:
        return f"The audit found something wrong in {_share(faulty, measured, elsewhere)}"
    return f"The audit found no fault; it has a remark on {_share(noted, measured, elsewhere)}"


def _share(count: int, measured: pd.DataFrame, elsewhere: bool) -> str:
    if elsewhere:
        return f"{count:,} checkpoint{'s' * (count != 1)}"
    return f"{count:,} of {len(measured):,} checkpoints"


ON_PAGE = OnPage(
    "faults_{subject}",
    questions={"sound": 1},
    needs=lambda study: study.audit is not None and not study.audit.empty,
    draw=_drawn,
    caption=_caption,
)
