"""The bars of a cloud of texts at the last hidden state: its persistence diagrams and barcodes."""

from __future__ import annotations

from matplotlib.figure import Figure

from toposcope.core.drawing import barcode
from toposcope.page.figures.bars import caption, drawn_run
from toposcope.page.on_page import OnPage
from toposcope.study.study import Study
from toposcope.subjects.representations.figures.crocker import of_last_layer


def _drawn(study: Study) -> Figure:
    return barcode.draw(of_last_layer(study.diagrams), drawn_run(study))


ON_PAGE = OnPage(
    "barcode_of_texts",
    needs=lambda study: len(study.diagrams) > 0,
    draw=_drawn,
    caption=lambda study: caption(study, of_last_layer(study.diagrams), "texts"),
)
