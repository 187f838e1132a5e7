"""The papers behind the words of a page: author, title and, where one exists, a link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toposcope.page.glossary import used_words
from toposcope.page.parts import Page


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper: who, what, where; `link` is empty where it was not published."""

    authors: str
    title: str
    place: str
    link: str = ""


PAPERS: Mapping[str, Paper] = {
    "neural persistence": Paper(
        "Bastian Rieck and others",
        "Neural Persistence: A Complexity Measure for Deep Neural Networks Using Algebraic Topology",
        "ICLR 2019",
        "https://arxiv.org/abs/1812.09764",
    ),
    "shuffled": Paper(
        "Leander Girrbach and others",
        "Addressing caveats of neural persistence with deep graph persistence",
        "TMLR 2023",
        "https://arxiv.org/abs/2307.10865",
    ),
    "weight-space paper": Paper(
        "anonymous authors",
        "Topological Persistence of Transformer Weight Spaces Tracks Training Dynamics and Improves Scaling "
        "Prediction",
        "manuscript, not published: there is no link",
    ),
    "embedding report": Paper(
        "no author named",
        "Topological Signatures of Resource-Constrained Language Model Training",
        "report, not published: there is no link",
    ),
    "h1": Paper(
        "Ulrich Bauer",
        "Ripser: efficient computation of Vietoris-Rips persistence barcodes",
        "Journal of Applied and Computational Topology 5 (2021)",
        "https://arxiv.org/abs/1908.02518",
    ),
    "rankme": Paper(
        "Quentin Garrido and others",
        "RankMe: Assessing the Downstream Performance of Pretrained Self-Supervised Representations by Their "
        "Rank",
        "ICML 2023",
        "https://arxiv.org/abs/2210.02885",
    ),
    "cka": Paper(
        "Simon Kornblith and others",
        "Similarity of Neural Network Representations Revisited",
        "ICML 2019",
        "https://arxiv.org/abs/1905.00414",
    ),
}
"""Words of a page, and the paper that each comes from."""


def cited(page: Page) -> list[Paper]:
    """Return the papers whose terms the page uses, in the order of `PAPERS`."""
    used = used_words(page)
    return [paper for word, paper in PAPERS.items() if word in used]
