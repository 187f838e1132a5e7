"""The part of the page that is about representations, from its study."""

from __future__ import annotations

from toposcope.analysis.groups import size_list
from toposcope.report.parts import Part
from toposcope.report.representations.pictures import pictures
from toposcope.report.representations.study import Representations
from toposcope.report.representations.tables import tables
from toposcope.report.representations.words import answers


def representations_part(study: Representations) -> Part:
    """Word, tabulate and draw a study of representations."""
    headline, said = answers(study)
    return Part(
        name="representations",
        heading="Representations",
        subject="Persistent homology of the hidden states that a fixed set of texts gets during training. "
        f"Model sizes: {size_list(study.runs)}.",
        headline=headline,
        answers=said,
        pictures=tuple(pictures(study)),
        tables=tables(study),
        lead="last_checkpoint",
    )
