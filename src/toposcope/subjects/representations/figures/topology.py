"""Loops and components of the cloud of texts against the step."""

from __future__ import annotations

from dataclasses import replace

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
    sampled,
    titles,
)

PANELS = (
    TrajectoryPanel(of.H1_COUNT.name, "H1 bars", "count"),
    TrajectoryPanel(of.H1_TOTAL.name, "H1 total persistence", "distance"),
    TrajectoryPanel(of.H1_ENTROPY.name, "H1 persistent entropy", "nats"),
    TrajectoryPanel(of.H1_MAX.name, "H1 longest bar", "distance"),
    TrajectoryPanel(of.H0_TOTAL.name, "H0 total persistence", "distance"),
    TrajectoryPanel(of.H1_SCALED.name, "H1 total, distances / median", "ratio"),
)
LONE = PANELS[1:2]
"""The leading panel, which is drawn alone and open."""


def _caption(study: Study) -> Caption:
    can = "How the number, the length and the concentration of the loops change."
    scaled = "How much of it is only the scale of the cloud. Distances over their median were not measured."
    if study.has(of.H1_SCALED.name, probe=of.REPRESENTATIONS):
        can = "How much of H1's growth remains when the scale of the cloud is removed (last panel)."
        scaled = (
            "That the shape changed, if the raw totals grow and the last panel does not. Then only the cloud "
            "grew."
        )
    return Caption(
        drift(study, PANELS, "Topology of the hidden states"),
        f"Loops (H1) and components (H0) of the cloud of texts: {titles(study, PANELS)}. "
        + sampled(study)
        + bent(study, PANELS),
        can,
        scaled
        + (
            " Clouds of different models have different dimensions, so levels are not comparable."
            if len(study.runs) > 1
            else ""
        )
        + " And "
        + of_seeds(study)
        + ".",
        "Panels of H1 and H0 summaries against the optimiser step on a log axis, one line per model.",
    )


def _alone(study: Study) -> Caption:
    return replace(
        _caption(study),
        title=drift(study, LONE, "H1 of the hidden states"),
        shows="Total persistence of the loops (H1) of the cloud of texts, in the last hidden state. "
        + sampled(study)
        + bent(study, LONE),
        can="Whether the loops grow with training, and when.",
        alt="H1 total persistence against the optimiser step on a log axis, one line per model.",
    )


ALONE = OnPage(
    "h1_of_representations",
    questions={"changed": 4},
    needs=lambda study: moves(study, LONE),
    draw=lambda study: draw_study(study, LONE),
    caption=_alone,
    means=True,
)
ON_PAGE = OnPage(
    "topology_of_representations",
    questions={"changed": 8},
    needs=lambda study: moves(study, PANELS),
    draw=lambda study: draw_study(study, PANELS),
    caption=_caption,
    means=True,
)
