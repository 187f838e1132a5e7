"""Gradients as a subject: the probes of weights, on the loss gradients of one batch."""

from __future__ import annotations

from toposcope.core.types import About
from toposcope.subjects.subject import SHUFFLED, SIZE, Subject
from toposcope.subjects.weights.features import DECLARED, EXPERTS, GRADIENT, UPDATES, of_gradients
from toposcope.subjects.weights.options import WeightOptions

SUBJECT = Subject(
    name=About.GRADIENTS,
    heading="Gradients",
    topology="the topology of the gradients",
    title="Persistent homology of the loss gradients on a fixed batch during training.",
    null=SHUFFLED.format("gradients"),
    entries="gradients",
    size=SIZE.format("the gradients"),
    request=WeightOptions,
    needs=("batch",),
    measure="toposcope.subjects.gradients.measurement:measured",
    preset="toposcope.subjects.weights.presets:preset",
    uses=("texts", "preset"),
    figures="toposcope.subjects.gradients.page.part:FIGURES",
    page_tables="toposcope.subjects.gradients.page.part:tables",
    declared={
        GRADIENT + probe: tuple(map(of_gradients, features))
        for probe, features in DECLARED.items()
        if probe not in (UPDATES, EXPERTS)  # gradients have no updates, and choose no expert
    },
    prefix=GRADIENT,
    within=(About.WEIGHTS, About.REPRESENTATIONS),
    order=0,
)
