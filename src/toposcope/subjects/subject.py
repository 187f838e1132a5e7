"""What a study is about: weights, gradients, representations, the loss surface, or a table made elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from toposcope.core.types import About, Scope
from toposcope.subjects.catalogue import completed
from toposcope.subjects.landscape.features import BATCH_LOSS


@dataclass(frozen=True, slots=True)
class Subject:
    """One kind of measured object, and what its findings lead with.

    `name` is what its features are declared to be `About`; which of them lead they say themselves (`leads`).
    `topology` is what is judged, in words, and `size` what is where no topology was measured; `null` what the
    nulls of its features are; `targets` are preferred in this order, behind the losses that the rows
    themselves give where these are read `by_itself`, not beside a training log.
    """

    name: str
    heading: str
    topology: str
    title: str
    null: str
    targets: tuple[str, ...]
    by_itself: bool = False
    size: str = ""


_LOSSES = ("heldout_loss", "loss")
_SHUFFLED = "the same {} in random order"
_SIZE = "the size of {} (norms and spectra)"

WEIGHTS = Subject(
    About.WEIGHTS, "Weights", "the topology of the weights",
    "Persistent homology of weights during training.", _SHUFFLED.format("weights"), _LOSSES,
    size=_SIZE.format("the weights"),
)  # fmt: skip
GRADIENTS = Subject(
    About.GRADIENTS, "Gradients", "the topology of the gradients",
    "Persistent homology of the loss gradients on a fixed batch during training.",
    _SHUFFLED.format("gradients"), _LOSSES, size=_SIZE.format("the gradients"),
)  # fmt: skip
REPRESENTATIONS = Subject(
    About.REPRESENTATIONS, "Representations", "the topology of these representations",
    "Persistent homology of the hidden states that a fixed set of texts gets during training.",
    "Gaussian clouds with the same covariance", _LOSSES, by_itself=True,
    size=_SIZE.format("these representations"),
)  # fmt: skip
LANDSCAPE = Subject(
    About.LANDSCAPE, "Loss surface", "the shape of the loss surface",
    "Curvature and persistent homology of the loss around the parameters during training.",
    "the quadratic model of the same point", (*_LOSSES, BATCH_LOSS.target),
)  # fmt: skip
TABLE = Subject(
    "table", "Table", "this table", "Columns of a table of training runs.",
    _SHUFFLED.format("weights"), _LOSSES,
)  # fmt: skip


def about(features: pd.DataFrame, catalogue: pd.DataFrame | None = None) -> pd.Series:
    """Return what each of some rows is about, as `catalogue` (of a store) or the package's probes declare it.

    >>> about(pd.DataFrame({"probe": ["rips", "mine"], "feature": ["h0_total", "x"]})).tolist()
    ['weights', 'weights']
    """
    lines = completed(catalogue)[["probe", "feature", "about"]].drop_duplicates(["probe", "feature"])
    found = features[["probe", "feature"]].merge(lines, on=["probe", "feature"], how="left")["about"]
    return found.fillna(str(About.WEIGHTS)).set_axis(features.index)


def rows_of(
    features: pd.DataFrame, catalogue: pd.DataFrame | None = None
) -> list[tuple[Subject, pd.DataFrame]]:
    """Return which subjects a store's rows are about, each with the rows that its study reads.

    Gradients in a store of weights or of representations are listed with these.
    """
    of = about(features, catalogue)
    gradients, hidden = of == About.GRADIENTS, of == About.REPRESENTATIONS
    if len(features) and gradients.all():
        return [(GRADIENTS, features)]
    around = of == About.LANDSCAPE
    found = []
    if not (hidden | gradients | around).all():
        found.append((WEIGHTS, features[~hidden & ~around]))
    if (hidden & (features["scope"] != Scope.SETTING)).any():
        found.append((REPRESENTATIONS, features[hidden | gradients]))
    if around.any():
        found.append((LANDSCAPE, features[around]))
    return found
