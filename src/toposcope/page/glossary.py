"""The terms of a page, each explained in one sentence; a page lists those it uses."""

from __future__ import annotations

import re
from collections.abc import Mapping

from markupsafe import Markup, escape

from toposcope.page.on_page import Caption
from toposcope.page.parts import Page

WORDS: Mapping[str, str] = {
    "H0": "The connected parts of a cloud of points, as the distance at which points are joined grows.",
    "H1": "The loops of a cloud of points: each appears at one distance and is filled at a larger one.",
    "total persistence": "The sum of the lifetimes (death minus birth) of all components or all loops.",
    "neural persistence": "A number from 0 to 1 for a matrix: how far the weights that best connect its "
    "units lie below its largest weight. It is 0 if all weights are equally large, and near 1 if a single "
    "one is far larger than those that connect the other units.",
    "Wasserstein": "A distance between two diagrams: how far all bars of one must move to become those of "
    "the other.",
    "shuffled": "The same weights in random order. A feature that is as large on them says nothing about "
    "the arrangement of the weights.",
    "null": "The same number where there is nothing to find, for example for shuffled weights.",
    "draws": "Repeated random subsamples of a cloud, or repeated shuffles: each draw gives the number once.",
    "siblings": "Other runs of the same size, task, corpus and tokenizer; usually other seeds.",
    "primary feature": "A feature that was chosen for the test before any run was seen.",
    "exploratory": "Any other feature: it is screened at a false-discovery rate and never decides a verdict.",
    "innovation": "The part of a series' next value that its smooth trend and its own past do not explain.",
    "departure": "What remains of a series after its smooth trend in the step is removed.",
    "beyond trend": "Two series are related beyond trend if their innovations move together. Two unrelated "
    "curves that only drift with the step are not.",
    "too smooth to test": "Smooth curves explain both series almost completely, so what is left may be "
    "trend.",
    "waves whose period drifts": "Both curves are waves whose period changes. Two such waves can agree by "
    "chance.",
    "Holm": "A correction of p-values for the number of tests.",
    "Spearman": "A correlation of ranks: +1 if one curve rises whenever the other rises, −1 if it falls.",
    "changepoint": "Another word for a bend.",
    "bend": "A step at which the slope of a curve on log step changes more than any smooth trend does.",
    "interval": "A range that would contain the true value in the stated share of repetitions.",
    "perplexity": "Exp of the mean loss per predicted token: the number of tokens that the model chooses "
    "between.",
    "Gaussian cloud": "Random points with the same mean and covariance. A feature that is as large on them "
    "follows from the spectrum alone.",
    "trajectory": "The checkpoints of a run as points, with the distances between their weights.",
    "PH dimension": "A dimension from how fast the length of the shortest tree through a cloud grows with "
    "the number of points.",
    "TwoNN": "A dimension from the ratio of the distances to the two nearest neighbours.",
    "CROCKER": "A map of the number of loops at each scale and checkpoint.",
    "participation ratio": "Squared sum over sum of squares of the eigenvalues: the number of "
    "directions that share the variance.",
    "alpha-ReQ": "The exponent of the power law by which the eigenvalues of a covariance decrease.",
    "critical sharpness": "Two divided by the distance along the last update, in units of that update, at "
    "which the loss is as high again as at its start.",
    "Hessian": "The second derivatives of the loss in the parameters: its curvature in every direction.",
    "merge tree": "A tree that shows which minima of a surface join at which saddle as the level of the "
    "loss rises.",
    "CKA": "Centred kernel alignment: how similarly two layers arrange the same inputs, from 0 to 1.",
    "RankMe": "The effective number of directions of a cloud or a matrix: exp of the entropy of its "
    "spectrum.",
    "stable rank": "Squared Frobenius norm over squared spectral norm: the number of directions that carry "
    "a matrix.",
}


class FirstUses:
    """Marks each word of `WORDS` where a page uses it first, with its meaning and a link to all words.

    >>> mark = FirstUses()
    >>> print(mark("H0 of <b>"), "|", mark("H0"))
    <a class="word" href="#words-h0" title="The connected parts of a cloud of points, as the distance at \
which points are joined grows.">H0</a> of &lt;b&gt; | H0
    """

    def __init__(self) -> None:
        self._left = dict(WORDS)

    def __call__(self, text: str) -> Markup:
        """Return a sentence as HTML; words that appear for the first time are marked."""
        uses = sorted(filter(None, (self._first(word, text) for word in list(self._left))))
        parts, at = [], 0
        for start, end, word in uses:
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
    """Return the anchor of a word's definition on the page.

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
    """Return the sentences, captions and headings of a page in lower case."""
    return " ".join(_texts(page)).lower()


def _texts(page: Page) -> list[str]:
    texts = []
    for part in page.parts:
        texts += [part.first.as_text(), *(answer.said.text for answer in part.answers)]
        texts += [text for p in (part.opening, *part.pictures) if p for text in _said(p.caption)]
        for table in part.tables.values():
            texts += [table.title, table.caption, *table.columns, *(row[0] for row in table.rows)]
            if table.columns[-1:] == ("why",):
                texts += [row[-1] for row in table.rows]
    return texts


def _said(caption: Caption) -> tuple[str, ...]:
    return caption.title, caption.shows, caption.can, caption.cannot
