"""The embedding report's four-panel summary."""

from __future__ import annotations

from toposcope.page.notes import of_seeds
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.study import Study
from toposcope.subjects.representations import features as of
from toposcope.subjects.representations.figures import perplexity, rate_of_change, spectrum, topology
from toposcope.subjects.representations.figures.trajectories import bent, draw_study, sampled, titles

PANELS = (*perplexity.PANELS, topology.PANELS[1], spectrum.PANELS[0], rate_of_change.PANELS[0])


def _caption(study: Study) -> Caption:
    shown = titles(study, PANELS)
    n = len(study.runs)
    order = ", when, and in which order the models end." if n > 1 else ", and when."
    return Caption(
        "Representations on one page",
        f"{shown}, for {n} model{'s' * (n != 1)}, of the last hidden state. {sampled(study)}"
        + bent(study, PANELS),
        "Which quantities move" + order,
        "Whether they move together for any reason but time. Also, " + of_seeds(study) + ".",
        f"Panels against the optimiser step: {shown}.",
    )


ON_PAGE = OnPage(
    "representations",
    questions={"changed": 3},
    needs=lambda study: study.has_curves and study.has(of.PERPLEXITY.name),
    draw=lambda study: draw_study(study, PANELS),
    caption=_caption,
    means=True,
)
