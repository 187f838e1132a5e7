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
    inside_band="A surface inside the band is explained by a gradient and a Hessian.",
    iterations="products",
    targets=(*LOSSES, BATCH_LOSS.target),
    request=LandscapeOptions,
    needs=("model", "batch"),
    measure="toposcope.subjects.landscape.measurement:measured",
    uses=("texts", "min_chars", "split", "tokenizer", "device", "recipe"),
    features=tuple(DECLARED),
    figures="toposcope.subjects.landscape.page.part:FIGURES",
    page_tables="toposcope.subjects.landscape.page.part:tables",
    view="toposcope.subjects.landscape.page.view:surface_view",
    tables="toposcope.subjects.landscape.tables.surfaces:TABLES",
    questions="toposcope.subjects.landscape.findings.surfaces:QUESTIONS",
    declared=DECLARED,
    folder=FOLDER,
    order=3,
)
