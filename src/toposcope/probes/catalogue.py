"""What the package's own probes declare, for rows that no store holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposcope.probes.base import Probe
from toposcope.probes.gradients import gradient_probes
from toposcope.probes.landscape.features import CURVATURE, PATHS, RETRAIN, SHARPNESS, SURFACE
from toposcope.probes.registry import weight_probes
from toposcope.probes.representations.features import FEATURES as REPRESENTATIONS
from toposcope.probes.representations.features import SETTINGS
from toposcope.probes.weights.options import WeightOptions
from toposcope.store import catalogue_table
from toposcope.types import Feature

if TYPE_CHECKING:
    import pandas as pd


_WEIGHTS: list[Probe] = weight_probes(["all"], WeightOptions())

DECLARED: dict[str, tuple[Feature, ...]] = {
    **{probe.name: probe.features for probe in (*_WEIGHTS, *gradient_probes(_WEIGHTS))},
    "representations": REPRESENTATIONS,
    "sensitivity": SETTINGS,
    "sharpness": SHARPNESS,
    "curvature": CURVATURE,
    "surface": SURFACE,
    "paths": PATHS,
    "retrain": RETRAIN,
}
"""Probe -> what it declares."""


def own_catalogue() -> pd.DataFrame:
    """Return the catalogue of every probe of the package, as a store of them would hold it.

    >>> table = own_catalogue().set_index(["probe", "feature"])
    >>> table.loc[("rips", "h0_total"), "label"], table.loc[("gradient_rips", "h0_total"), "label"]
    ('H0 total', 'gradients: H0 total')
    """
    return catalogue_table(DECLARED)
