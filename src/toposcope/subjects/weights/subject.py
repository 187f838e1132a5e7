"""Weights as a subject."""

from __future__ import annotations

from toposcope.core.types import About, Scope
from toposcope.subjects.subject import SHUFFLED, SIZE, Subject
from toposcope.subjects.weights.features import DECLARED, RIPS
from toposcope.subjects.weights.options import WeightOptions

SUBJECT = Subject(
    name=About.WEIGHTS,
    heading="Weights",
    topology="the topology of the weights",
    title="Persistent homology of weights during training.",
    null=SHUFFLED.format("weights"),
    size=SIZE.format("the weights"),
    request=WeightOptions,
    measure="toposcope.subjects.weights.measurement:measured",
    preset="toposcope.subjects.weights.presets:preset",
    uses=("preset",),
    tables="toposcope.subjects.weights.tables.equivalents:TABLES",
    figures="toposcope.subjects.weights.page.part:FIGURES",
    page_tables="toposcope.subjects.weights.page.part:tables",
    declared=DECLARED,
    diagrams=(("probe", RIPS), ("scope", Scope.POOLED)),
    order=1,
)
