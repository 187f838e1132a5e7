"""Which of the clouds of weights that were measured speaks for the model."""

from __future__ import annotations

import pandas as pd

from toposcope.core.types import Scope

CLOUDS = (Scope.POOLED, Scope.MODEL)
"""The scopes of a cloud of the whole model, the one that speaks for it first: as the probe declares them."""


def leading_cloud(rows: pd.DataFrame) -> Scope:
    """Return the scope of the cloud that leads in some rows: of all weight rows together, else of the layers.

    >>> leading_cloud(pd.DataFrame({"scope": ["model", "role"]})).value
    'model'
    >>> leading_cloud(pd.DataFrame({"scope": ["model", "pooled"]})).value
    'pooled'
    """
    measured = set(rows["scope"]) if "scope" in rows else set()
    return next((scope for scope in CLOUDS if scope in measured), CLOUDS[0])
