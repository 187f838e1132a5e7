"""The loss surface as a subject."""

from __future__ import annotations

from toposcope.core.types import About
from toposcope.subjects.landscape.features import BATCH_LOSS, DECLARED, FOLDER
from toposcope.subjects.landscape.options import LandscapeOptions
from toposcope.subjects.subject import LOSSES, Subject

SUBJECT = Subject(
    name=About.LANDSCAPE,
    heading="Loss surface",
    topology="the shape of the loss surface",
    title="Curvature and persistent homology of the loss around the parameters during training.",
    null="the quadratic model of the same point",
    targets=(*LOSSES, BATCH_LOSS.target),
    request=LandscapeOptions,
    features=tuple(DECLARED),
    part="toposcope.subjects.landscape.page.part:landscape_part",
    figures="toposcope.subjects.landscape.page.part:FIGURES",
    folder=FOLDER,
    order=3,
)
