"""A downstream score that needs no download: the accuracy of a linear classifier on the states."""

from __future__ import annotations

import csv
import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from toposcope.core.errors import InputError

_LABELS = ("label", "Quality")
_TEXTS = (("sentence",), ("text",), ("sentence1", "sentence2"), ("#1 String", "#2 String"))
_FOLDS = 5
"""Folds of the cross-validation; each needs a text of every label."""


@dataclass(frozen=True, slots=True)
class LabelledTexts:
    """Texts with one label each; pairs are joined by a space."""

    source: str
    items: tuple[str, ...]
    labels: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Return the first 16 hexadecimal digits of the SHA-256 of texts and labels."""
        return hashlib.sha256("\0".join((*self.items, *self.labels)).encode()).hexdigest()[:16]

    @property
    def majority(self) -> float:
        """Return the share of the commonest label: the accuracy of always giving the same answer."""
        return Counter(self.labels).most_common(1)[0][1] / len(self.labels)


def load_labelled(path: Path, *, limit: int | None = None) -> LabelledTexts:
    """Return the labelled texts of a tab- or comma-separated file in GLUE's format, in the file's order.

    The label is in a column `label` or `Quality`; the text in `sentence`, `text`, or a pair of columns
    (`sentence1` and `sentence2`, or `#1 String` and `#2 String`).

    Raises
    ------
    InputError
        When a column is missing, or a label has fewer than five texts.
    """
    delimiter = "," if path.suffix.lower() == ".csv" else "\t"
    quoting = csv.QUOTE_MINIMAL if delimiter == "," else csv.QUOTE_NONE
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} cannot be read as UTF-8 text: {error}", remedy="save it as UTF-8"
        ) from error
    reader = csv.DictReader(lines, delimiter=delimiter, quoting=quoting)  # type: ignore[call-overload]
    rows = [row for row in reader if None not in row.values()][:limit]
    names = set(rows[0]) if rows else set()
    label = next((name for name in _LABELS if name in names), None)
    columns = next((group for group in _TEXTS if names.issuperset(group)), None)
    if label is None or columns is None:
        raise InputError(
            f"{path} needs a column 'label' and one of 'sentence', 'text' or a pair of sentences"
        )
    texts = tuple(" ".join(row[name] for name in columns) for row in rows)
    labels = tuple(row[label] for row in rows)
    rare = [value for value, count in Counter(labels).items() if count < _FOLDS]
    if rare or len(set(labels)) < 2:
        raise InputError(
            f"{path}: the linear probe needs at least two labels with {_FOLDS} texts each; give more "
            "labelled texts"
        )
    return LabelledTexts(str(path), texts, labels)


def probe_accuracy(states: np.ndarray, labels: tuple[str, ...]) -> tuple[float, float]:
    """Return mean and standard deviation over five stratified folds of a logistic regression's accuracy.

    Parameters
    ----------
    states : array of shape (n, width)
        Standardised inside each fold; the regression's penalty is scikit-learn's default.
    labels : tuple of n str
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=0)
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    scores = cross_val_score(classifier, states, np.asarray(labels), cv=folds)
    return float(scores.mean()), float(scores.std())
