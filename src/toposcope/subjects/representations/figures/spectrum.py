"""The spectrum of the hidden states against the step: the baseline that a topological feature must beat."""

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
    sampled,
    titles,
)

PANELS = (
    TrajectoryPanel(of.RANK.name, "Effective rank (eigenvalues)", "dimensions"),
    TrajectoryPanel(of.PARTICIPATION.name, "Participation ratio", "dimensions"),
    TrajectoryPanel(of.DECAY.name, "Eigenspectrum decay", "exponent"),
    TrajectoryPanel(of.TOP.name, "Top covariance eigenvalue", "distance squared", log=True),
)


def _caption(study: Study) -> Caption:
    return Caption(
        drift(study, PANELS, "Spectrum of the hidden states"),
        f"The baseline that a topological feature must beat: {titles(study, PANELS)} of "
        "the covariance. " + sampled(study) + bent(study, PANELS),
        "When the spectrum collapses and widens, and whether H1 moves at the same checkpoints.",
        "That one of them explains the perplexity. All of them drift. Also, " + of_seeds(study) + ".",
        "Panels of spectral numbers against the optimiser step on a log axis, one line per model.",
    )


ON_PAGE = OnPage(
    "spectrum_of_representations",
    needs=lambda study: moves(study, PANELS),
    draw=lambda study: draw_study(study, PANELS),
    caption=_caption,
    means=True,
)
