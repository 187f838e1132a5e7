"""Neural persistence of the gradients beside the same entries in random order."""

from __future__ import annotations

from toposcope.page.on_page import OnPage
from toposcope.subjects.weights.features import GRADIENT, NEURAL_PERSISTENCE, PERSISTENCE
from toposcope.subjects.weights.figures.neural_persistence import caption, draw_study

PROBE = GRADIENT + NEURAL_PERSISTENCE

ON_PAGE = OnPage(
    "gradient_persistence",
    questions={"when": 1},
    needs=lambda study: study.has_curves and study.has(PERSISTENCE.name, probe=PROBE),
    draw=lambda study: draw_study(study, probe=PROBE),
    caption=lambda study: caption(study, PROBE, "gradients"),
    means=True,
)
