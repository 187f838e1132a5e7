"""Values from the rows of hidden states: one layer, pairs of layers, perplexity, stated intervals."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from toposcope.core.types import Scope
from toposcope.store.draws import over_draws
from toposcope.study.rows import select
from toposcope.subjects.representations.features import CARRIED_H1, CKA, PERPLEXITY, REPRESENTATIONS

PROBE = REPRESENTATIONS
QUALITY = PERPLEXITY.target
_INTERVAL = re.compile(r"(?:95% interval|band) (\S+) to (\S+)")


def perplexities(features: pd.DataFrame) -> pd.DataFrame:
    """Return the perplexity at every checkpoint: columns run, step, value."""
    rows = features[(features["probe"] == PROBE) & (features["feature"] == PERPLEXITY.name)]
    return over_draws(rows)[["run", "step", "value"]].sort_values(["run", "step"], ignore_index=True)


def of_layer(features: pd.DataFrame, layer: int | None) -> pd.DataFrame:
    """Return the rows of one hidden state (None: each run's last one), and those of the whole model."""
    hidden = features["scope"] == Scope.LAYER
    if layer is None:
        last = features[hidden].groupby("run")["layer"].transform("max")
        chosen = features[hidden][features[hidden]["layer"] == last]
    else:
        chosen = features[hidden & (features["layer"] == layer)]
    return pd.concat([chosen, features[features["scope"] == Scope.MODEL]], ignore_index=True)


def pairs(features: pd.DataFrame, *, probe: str = REPRESENTATIONS) -> pd.DataFrame:
    """Return columns run, step, layer, cka, carried: draws averaged, rows with both numbers."""
    keys = ["run", "step", "layer"]
    of = {"cka": CKA, "carried": CARRIED_H1}
    means = {
        name: over_draws(select(features, feature.name, probe=probe), keys).set_index(keys)["value"]
        for name, feature in of.items()
    }
    return pd.DataFrame(means).dropna().sort_index().reset_index()


def noted_interval(note: object) -> tuple[float, float]:
    """Return the band that a dimension's note states; NaN where it states none.

    >>> noted_interval("band 16.9 to 21.9")
    (16.9, 21.9)
    """
    match = _INTERVAL.search(str(note))
    return (float(match[1]), float(match[2])) if match else (np.nan, np.nan)
