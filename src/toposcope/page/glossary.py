"""The words of a page that a reader may not know, each in one sentence; a page lists those it uses."""

from __future__ import annotations

import re
from collections.abc import Mapping

from markupsafe import Markup, escape

from toposcope.page.parts import Caption, Page

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
    "beyond trend": "More than two unrelated curves share that drift with the step: their innovations move "
    "together.",
    "too smooth to test": "Smooth curves explain both series almost completely: what is left may be trend.",
    "swinging": "Both curves are waves whose period changes: two such waves agree by chance.",
    "a few decide everything": "So few checkpoints carry the test that no correlation, however large, could "
    "pass.",
    "Holm": "A correction of p-values for how many tests were made.",
    "Spearman": "A correlation of ranks, +1 or −1 where one curve rises or falls whenever the other rises.",
    "changepoint": "A step at which a curve's slope on log step changes beyond every smooth trend.",
    "bend": "A step at which a curve's slope on log step changes beyond every smooth trend.",
    "interval": "A range that would hold the true value in the stated share of repetitions.",
    "perplexity": "Exp of the mean loss per predicted token: among how many tokens the model hesitates.",
    "Gaussian cloud": "Random points of the same mean and covariance: what is as large there is a matter of "
    "the spectrum alone.",
    "trajectory": "The checkpoints of a run as points, with the distances between their weights.",
    "PH dimension": "How the length of the shortest tree through a cloud grows with its points, as a "
    "dimension.",
    "TwoNN": "A dimension from the ratio of the distances to the two nearest neighbours.",
    "CROCKER": "A map of how many loops are alive at each scale and checkpoint.",
    "participation ratio": "Squared sum over sum of squares of the eigenvalues: among how many directions "
    "the variance is shared.",
    "alpha-ReQ": "The power with which the eigenvalues of a covariance fall off.",
    "critical sharpness": "Two over the step, in updates, at which the loss along the last update is back at "
    "its start.",
    "Hessian": "The second derivatives of the loss in the parameters: its curvature in every direction.",
    "merge tree": "Which minima of a surface join at which saddle, as ever higher losses are let in.",
    "CKA": "Centred kernel alignment: how alike two layers arrange the same inputs, 0 to 1.",
    "RankMe": "How many directions a cloud or a matrix uses in effect: exp of its spectrum's entropy.",
    "stable rank": "Squared Frobenius norm over squared spectral norm: how many directions carry a matrix.",
}


class FirstUses:
    """Marks each word of `WORDS` where a page uses it first: what it means on it, a link to all of them.

    >>> mark = FirstUses()
    >>> print(mark("H0 of <b>"), "|", mark("H0"))
    <a class="word" href="#words-h0" title="Connected components of a cloud of points as the distance at \
which points are joined grows.">H0</a> of &lt;b&gt; | H0
    """

    def __init__(self) -> None:
        self._left = dict(WORDS)

    def __call__(self, text: str) -> Markup:
        """Return a sentence as HTML, the words that no sentence before it used marked."""
        found = sorted(filter(None, (self._first(word, text) for word in list(self._left))))
        parts, at = [], 0
        for start, end, word in found:
            if start >= at and (meaning := self._left.pop(word, "")):
                parts += [escape(text[at:start]), _marked(text[start:end], word, meaning)]
                at = end
        return Markup("").join([*parts, escape(text[at:])])

    @staticmethod
    def _first(word: str, text: str) -> tuple[int, int, str] | None:
        used = re.search(rf"(?<!\w){re.escape(word)}", text, re.IGNORECASE)
        if used is None:
            return None
        rest = re.match(r"\w*", text[used.end() :])
        return used.start(), used.end() + (rest.end() if rest else 0), word


def anchor(word: str) -> str:
    """Return what the place of a word's definition is called on the page.

    >>> anchor("stable rank")
    'words-stable-rank'
    """
    return "words-" + word.lower().replace(" ", "-")


def _marked(text: str, word: str, meaning: str) -> Markup:
    return Markup('<a class="word" href="#{}" title="{}">{}</a>').format(anchor(word), meaning, text)


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
            if table.columns[-1:] == ("why",):
                found += [row[-1] for row in table.rows]
    return found


def _said(caption: Caption) -> tuple[str, ...]:
    return caption.title, caption.shows, caption.can, caption.cannot
