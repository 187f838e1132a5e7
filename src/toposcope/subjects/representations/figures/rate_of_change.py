"""The distance between the diagrams of consecutive checkpoints, against the step."""

from __future__ import annotations

from toposcope.page.notes import of_seeds
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.study import Study
from toposcope.subjects.representations import features as of
from toposcope.subjects.representations.figures.trajectories import (
    TrajectoryPanel,
    bent,
    draw_study,
    drift,
    moves,
)

PANELS = (
    TrajectoryPanel(of.H1_MOVED.name, "H1: W1 to the previous checkpoint", "distance"),
    TrajectoryPanel(of.H0_MOVED.name, "H0: W1 to the previous checkpoint", "distance"),
    TrajectoryPanel(of.H1_RATE.name, "H1: the same per unit of log step", "distance / ln step"),
    TrajectoryPanel(of.H0_RATE.name, "H0: the same per unit of log step", "distance / ln step"),
)


def _caption(study: Study) -> Caption:
    return Caption(
        drift(study, PANELS, "Rate of topological change"),
        "Upper panels: the Wasserstein distance (order 1) between the diagrams of consecutive checkpoints. "
        "Lower panels: the same divided by the log of the ratio of their steps." + bent(study, PANELS),
        "Between which checkpoints the diagrams differ most. All points of the lower panels can be compared; "
        "in the upper panels, only those of checkpoints that are equally far apart.",
        "That topology reorganises. A cloud that only grows also moves its diagram. No noise floor is drawn. "
        "And " + of_seeds(study) + ".",
        "Wasserstein distances between consecutive diagrams against the optimiser step, H1 and H0, raw and "
        "per unit of log step.",
    )


ON_PAGE = OnPage(
    "rate_of_change",
    questions={"when": 2},
    needs=lambda study: moves(study, PANELS),
    draw=lambda study: draw_study(study, PANELS),
    caption=_caption,
    means=True,
)
