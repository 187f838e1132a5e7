"""What a study is about: weights, gradients, representations, the loss surface, or a table made elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from toposcope.analysis.hidden import COUNT, ENTROPY, PROBE, RANK, SENSITIVITY, TOP, TOTAL

H0 = "rips/euclidean/pooled/h0_total"
H0_SCALED = "rips/euclidean/pooled/h0_total_scaled"
H1 = "rips/euclidean/pooled/h1_total"
NP = "neural_persistence/{}/neural_persistence"
NP_EXCESS = "neural_persistence/{}/neural_persistence_excess"
_GRADIENTS = "gradient_"
SURFACES = ("sharpness", "curvature", "surface", "paths", "retrain")
"""The probes of the loss surface."""
MINIMA, AVERAGE = "surface/minima", "surface/average_persistence"
SHARPEST, CRITICAL = "curvature/top_eigenvalue", "sharpness/critical_sharpness"
BATCH_LOSS = "batch_loss"
"""The loss of the batches that the surface was sampled on: the target where a run logged none."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One kind of measured object, and what its findings lead with.

    `topology` is what is judged, in words; `moved` are the columns whose change is told, `leads` those that
    stand for the whole in a sentence on time; `targets` are preferred in this order, behind the losses that
    the rows themselves give where these are read `by_itself`, not beside a training log.
    """

    name: str
    heading: str
    topology: str
    title: str
    targets: tuple[str, ...]
    moved: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    by_itself: bool = False


_LOSSES = ("heldout_loss", "loss")

WEIGHTS = Subject(
    "weights", "Weights", "the topology of the weights",
    "Persistent homology of weights during training.", _LOSSES, (H0, H0_SCALED, NP),
    (H0, NP, H1, H0_SCALED, NP_EXCESS),
)  # fmt: skip
GRADIENTS = Subject(
    "gradients", "Gradients", "the topology of the gradients",
    "Persistent homology of the loss gradients on a fixed batch during training.", _LOSSES,
    tuple(_GRADIENTS + column for column in (H0, H0_SCALED, NP)),
)  # fmt: skip
REPRESENTATIONS = Subject(
    "representations", "Representations", "the topology of these representations",
    "Persistent homology of the hidden states that a fixed set of texts gets during training.",
    _LOSSES, (TOTAL, COUNT, RANK, TOP), (COUNT, TOTAL, ENTROPY, RANK), by_itself=True,
)  # fmt: skip
LANDSCAPE = Subject(
    "landscape", "Loss surface", "the shape of the loss surface",
    "Curvature and persistent homology of the loss around the parameters during training.",
    (*_LOSSES, BATCH_LOSS), (MINIMA, AVERAGE, SHARPEST, CRITICAL), (MINIMA, AVERAGE, SHARPEST, CRITICAL),
)  # fmt: skip
TABLE = Subject(
    "table", "Table", "the feature set of this table", "Features of training runs, from a table.", _LOSSES
)


def rows_of(features: pd.DataFrame) -> list[tuple[Subject, pd.DataFrame]]:
    """Return which subjects a store's rows are about, each with the rows that its study reads.

    Gradients in a store of weights or of representations are listed with these.
    """
    probe = features["probe"].astype(str)
    gradients, hidden = probe.str.startswith(_GRADIENTS), probe.isin((PROBE, SENSITIVITY))
    if len(features) and gradients.all():
        return [(GRADIENTS, features)]
    around = probe.isin(SURFACES)
    found = []
    if not (hidden | gradients | around).all():
        found.append((WEIGHTS, features[~hidden & ~around]))
    if (probe == PROBE).any():
        found.append((REPRESENTATIONS, features[hidden | gradients]))
    if around.any():
        found.append((LANDSCAPE, features[around]))
    return found
