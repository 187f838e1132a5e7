"""The perplexity of the texts against the step."""

from __future__ import annotations

from toposcope.page.figures.losses import ahead_of
from toposcope.page.notes import fell, of_seeds
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.study import Study
from toposcope.subjects.representations import features as of
from toposcope.subjects.representations.figures.trajectories import TrajectoryPanel, draw_study, moves
from toposcope.subjects.representations.tables.rows import perplexities

PANELS = (TrajectoryPanel(of.PERPLEXITY.name, "Perplexity", "per token", log=True),)


def _title(study: Study) -> str:
    by_run = perplexities(study.features).sort_values("step", kind="stable").groupby("run")["value"]
    return fell(
        of.PERPLEXITY.label, by_run.agg(["first", "last"]), so_far=bool(ahead_of(study)), form="{:,.1f}"
    )


def _caption(study: Study) -> Caption:
    return Caption(
        _title(study),
        "Perplexity per predicted token on the same texts at every checkpoint, on log axes.",
        "How far and how fast each model learned these texts.",
        "How the models compare on other texts, or where they have different tokenizers. And "
        + of_seeds(study)
        + ".",
        "Perplexity against the optimiser step, both on log axes, one line per model.",
    )


ON_PAGE = OnPage(
    "perplexity",
    questions={"when": 1, "on": 2, "end": 3},
    needs=lambda study: moves(study, PANELS),
    draw=lambda study: draw_study(study, PANELS),
    caption=_caption,
    means=True,
)
