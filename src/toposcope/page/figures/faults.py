"""The checkpoints in which the audit found something wrong."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from toposcope.core.drawing.checkpoints import draw_checkpoints
from toposcope.core.observations import AuditFinding
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.study import Study


def _drawn(study: Study) -> Figure:
    assert study.audit is not None
    found = [
        AuditFinding(
            str(line["run"]), None if pd.isna(line["step"]) else int(line["step"]), "", str(line["message"]),
            fault=str(line["fault"]),
        )
        for line in study.audit.to_dict("records")
    ]  # fmt: skip
    steps = {str(run): sorted(map(int, its)) for run, its in study.series.values.groupby("run")["step"]}
    figure = draw_checkpoints(steps, found).get_figure()
    assert isinstance(figure, Figure)
    return figure


def _caption(study: Study) -> Caption:
    assert study.audit is not None
    at = study.audit.dropna(subset=["step"])[["run", "step"]].drop_duplicates()
    every = study.series.values[["run", "step"]]
    known = len(pd.concat([every, at]).drop_duplicates())
    return Caption(
        f"The audit found something wrong in {len(at):,} of {known:,} checkpoints",
        "Each tick is a measured checkpoint of a run. A sign marks a checkpoint in which the audit found "
        "something wrong.",
        "Which checkpoints to look at before anything else on this page.",
        "What went wrong there. The list of findings says what was seen; only the files can tell the cause.",
        "A line of ticks for each run against the optimiser step, with signs where the audit found faults.",
    )


ON_PAGE = OnPage(
    "faults_{subject}",
    questions={"sound": 1},
    needs=lambda study: study.audit is not None and not study.audit.empty,
    draw=_drawn,
    caption=_caption,
)
