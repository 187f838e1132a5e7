"""The part of the page that is about weights, from its study."""

from __future__ import annotations

from toposcope.analysis.groups import size_list
from toposcope.report.parts import Part
from toposcope.report.weights.pictures import pictures
from toposcope.report.weights.study import Study
from toposcope.report.weights.tables import tables
from toposcope.report.weights.words import answer


def weights_part(study: Study) -> Part:
    """Word, tabulate and draw a study of weights."""
    said = answer(study)
    return Part(
        name="weights",
        heading="Weights",
        subject=f"Persistent homology of weights during training. Model sizes: {size_list(study.runs)}.",
        headline=said.headline,
        answers=(
            ("What changed", said.changed),
            ("When", said.when),
            ("Does topology add anything to the loss curve?", said.adds),
        ),
        pictures=tuple(pictures(study)),
        tables=tables(study),
        lead="runs",
    )
