"""The words of a page that a reader may not know, each in one sentence; a page lists those it uses."""

from __future__ import annotations

from collections.abc import Mapping

from toposcope.report.parts import Caption, Page

WORDS: Mapping[str, str] = {
    "H0": "Connected components of a cloud of points as the distance at which points are joined grows.",
    "H1": "Loops of a cloud of points that appear at one distance and are filled at a larger one.",
    "total persistence": "The sum of the lifetimes (death minus birth) of all components or all loops.",
    "neural persistence": "How far below its largest weight the weights lie that connect a matrix's graph, "
    "let in from the largest down: lifetimes max|w| − w over its maximum spanning tree, normalised.",
    "shuffled": "The same weights in random order: what is as large there is no arrangement of weights.",
    "primary feature": "A feature that its probe declared, before any run was seen, to be what is tested.",
    "exploratory": "Any other feature: screened at a false-discovery rate, never a verdict.",
    "innovation": "What a series' smooth trend and its own past do not explain of its next value.",
    "departure": "What is left of a series when its smooth trend in the step is taken out.",
    "Holm": "A correction of p-values for how many tests were made.",
    "Spearman": "A correlation of ranks, +1 or −1 where one curve rises or falls whenever the other rises.",
    "changepoint": "A step at which a curve's slope on log step changes beyond every smooth trend.",
    "bend": "A step at which a curve's slope on log step changes beyond every smooth trend.",
    "interval": "A range that would hold the true value in the stated share of repetitions.",
    "CKA": "Centred kernel alignment: how alike two layers arrange the same inputs, 0 to 1.",
    "RankMe": "How many directions a cloud or a matrix uses in effect: exp of its spectrum's entropy.",
    "stable rank": "Squared Frobenius norm over squared spectral norm: how many directions carry a matrix.",
}


def defined(page: Page) -> list[tuple[str, str]]:
    """Return the words of `WORDS` that the page's sentences and headings use, in this order."""
    used = used_words(page)
    return [(word, meaning) for word, meaning in WORDS.items() if word.lower() in used]


def used_words(page: Page) -> str:
    """Return the sentences, captions and headings of a page in small letters."""
    return " ".join(_texts(page)).lower()


def _texts(page: Page) -> list[str]:
    found = []
    for part in page.parts:
        found += [part.said.text, *(answer.said.text for answer in part.answers)]
        found += [text for p in part.pictures for text in _said(p.caption)]
        for table in part.tables.values():
            found += [table.title, table.caption, *table.columns, *(row[0] for row in table.rows)]
    return found


def _said(caption: Caption) -> tuple[str, ...]:
    return caption.title, caption.shows, caption.can, caption.cannot
