"""The bars of one cloud of points: its persistence diagrams and barcodes."""

from __future__ import annotations

from toposcope.core.drawing import barcode
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.study import Study


def drawn_run(study: Study) -> str:
    """Return the run whose bars are drawn: the largest model that kept them."""
    with_diagrams = set(study.diagrams["run"])
    return [run for run in study.ordered if run in with_diagrams][-1]


def caption(study: Study, cloud: str, points: str) -> Caption:
    """Return the words under a persistence diagram and its barcode; `points` are those of the cloud."""
    at = "at the last checkpoint and at the first" if study.has_curves else "at this checkpoint"
    return Caption(
        f"Bars of the {cloud}: diagram and barcode",
        f"Every component (H0) and loop (H1) of one cloud of one run's {points}: where it appears and where "
        f"it ends, {at}. A point far from the diagonal, or a long bar, lasts long.",
        f"At which distances the {points} join, and whether any loop lasts much longer than the others.",
        "That a long bar is structure. A cloud without structure has long bars, too. This is one cloud of "
        "one run.",
        "Persistence diagrams, death against birth, beside barcodes with a line for each bar.",
    )


ON_PAGE = OnPage(
    "barcode",
    needs=lambda study: len(study.diagrams) > 0,
    draw=lambda study: barcode.draw(study.diagrams, drawn_run(study)),
    caption=lambda study: caption(study, "weight cloud", "weight rows"),
)
