"""Representations as a subject."""

from __future__ import annotations

from toposcope.core.types import About
from toposcope.subjects.representations.features import (
    FEATURES,
    H1_COUNT,
    H1_ENTROPY,
    REPRESENTATIONS,
    SENSITIVITY,
    SETTINGS,
)
from toposcope.subjects.representations.options import RepresentationOptions
from toposcope.subjects.subject import SIZE, Subject

SUBJECT = Subject(
    name=About.REPRESENTATIONS,
    heading="Representations",
    topology="the topology of these representations",
    title="Persistent homology of the hidden states that a fixed set of texts gets during training.",
    null="Gaussian clouds with the same covariance",
    entries="",
    no_target="No perplexity was measured (an encoder has none).",
    counted=(REPRESENTATIONS, H1_ENTROPY, H1_COUNT),
    by_itself=True,
    size=SIZE.format("these representations"),
    request=RepresentationOptions,
    needs=("texts", "model"),
    measure="toposcope.subjects.representations.measurement:measured",
    preset="toposcope.subjects.representations.presets:preset",
    uses=(
        "texts",
        "limit",
        "min_chars",
        "split",
        "labelled",
        "grid",
        "save_states",
        "tokenizer",
        "device",
        "preset",
    ),
    uses_saved=("limit", "grid", "preset"),
    keeps_diagrams=True,
    features=(REPRESENTATIONS, SENSITIVITY),
    figures="toposcope.subjects.representations.page.part:FIGURES",
    page_tables="toposcope.subjects.representations.page.part:tables",
    tables="toposcope.subjects.representations.tables.sensitivity:TABLES",
    questions="toposcope.subjects.representations.findings.layers:QUESTIONS",
    declared={REPRESENTATIONS: FEATURES, SENSITIVITY: SETTINGS},
    never_alone=(SENSITIVITY,),
    diagrams=(("probe", REPRESENTATIONS),),
    order=2,
)
