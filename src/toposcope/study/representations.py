"""Values from the rows of hidden states: one layer, pairs of layers, perplexity, stated intervals."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from toposcope.core.lines import select
from toposcope.core.types import Scope
from toposcope.subjects.representations.features import CARRIED_H1, CKA, PERPLEXITY, REPRESENTATIONS

PROBE = REPRESENTATIONS
QUALITY = PERPLEXITY.target
_INTERVAL = re.compile(r"(?:95% interval|band) (\S+) to (\S+)")


def perplexities(features: pd.DataFrame) -> pd.DataFrame:
    """Return the perplexity at every checkpoint: columns run, step, value."""
    rows = features[(features["probe"] == PROBE) & (features["feature"] == PERPLEXITY.name)]
    return rows.groupby(["run", "step"])["value"].mean().reset_index()


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
    cka = select(features, CKA.name, probe=probe).groupby(keys)["value"].mean().rename("cka")
    carried = select(features, CARRIED_H1.name, probe=probe).groupby(keys)["value"].mean().rename("carried")
    return pd.concat([cka, carried], axis=1).dropna().reset_index()


def noted_interval(note: object) -> tuple[float, float]:
    """Return the band that a dimension's note states; NaN where it states none.

    >>> noted_interval("band 16.9 to 21.9")
    (16.9, 21.9)
    """
    found = _INTERVAL.search(str(note))
    return (float(found[1]), float(found[2])) if found else (np.nan, np.nan)
