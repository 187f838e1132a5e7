"""What the package's own probes declare, for rows that no store holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposcope.probes.base import Probe
from toposcope.probes.gradients import gradient_probes
from toposcope.probes.registry import weight_probes
from toposcope.probes.representations.features import FEATURES
from toposcope.probes.weights.options import WeightOptions
from toposcope.store import catalogue_table

if TYPE_CHECKING:
    import pandas as pd


def own_catalogue() -> pd.DataFrame:
    """Return the catalogue of weights, gradients and representations, as a store of them would hold it.

    >>> table = own_catalogue().set_index(["probe", "feature"])
    >>> table.loc[("rips", "h0_total"), "label"], table.loc[("gradient_rips", "h0_total"), "label"]
    ('H0 total', 'gradients: H0 total')
    """
    weights: list[Probe] = weight_probes(["all"], WeightOptions())
    declared = {probe.name: probe.features for probe in (*weights, *gradient_probes(weights))}
    return catalogue_table(declared | {"representations": FEATURES})
