"""One checkpoint, matrix by matrix: neural persistence of the gradients beside their random order."""

from __future__ import annotations

from toposcope.page.on_page import OnPage
from toposcope.subjects.gradients.figures.gradient_persistence import PROBE
from toposcope.subjects.weights.features import PERSISTENCE
from toposcope.subjects.weights.figures.neural_persistence import persistences_of
from toposcope.subjects.weights.figures.snapshot import caption, draw

ON_PAGE = OnPage(
    "gradient_snapshot",
    questions={"changed": 7},
    needs=lambda study: not study.has_curves and study.has(PERSISTENCE.name, probe=PROBE),
    draw=lambda study: draw(persistences_of(study, study.features, probe=PROBE)),
    caption=lambda study: caption(persistences_of(study, study.features, probe=PROBE), "gradients"),
)
