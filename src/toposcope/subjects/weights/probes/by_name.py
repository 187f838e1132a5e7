"""The probes of weights by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toposcope.subjects.base import Cost, Probe
from toposcope.subjects.weights.options import WeightOptions
from toposcope.subjects.weights.probes.baselines import Baselines
from toposcope.subjects.weights.probes.distances import Distances
from toposcope.subjects.weights.probes.experts import Experts
from toposcope.subjects.weights.probes.graph_persistence import DeepGraphPersistence
from toposcope.subjects.weights.probes.neural_persistence import NeuralPersistence
from toposcope.subjects.weights.probes.rips import Rips
from toposcope.subjects.weights.probes.trajectory import Trajectory
from toposcope.subjects.weights.probes.updates import Updates

WEIGHT_PROBES: dict[str, Callable[[WeightOptions], Probe]] = {
    "neural_persistence": NeuralPersistence,
    "deep_graph_persistence": DeepGraphPersistence,
    "rips": Rips,
    "baselines": Baselines,
    "trajectory": Trajectory,
    "distances": Distances,
    "updates": Updates,
    "experts": Experts,
}
ON_REQUEST = frozenset({"updates", "experts"})
"""Probes that `all` leaves out: the comparison of consecutive checkpoints, by which `watch` names a cause,
and what only mixtures of experts have."""


def named(features: Sequence[str], options: WeightOptions) -> tuple[list[Probe], list[str]]:
    """Return the probes of weights that `features` names, and the names that are not theirs.

    >>> [probe.name for probe in named(["all"], WeightOptions())[0]]
    ['neural_persistence', 'deep_graph_persistence', 'rips', 'baselines', 'trajectory', 'distances']
    """
    probes = {name: make(options) for name, make in WEIGHT_PROBES.items()}
    wanted: set[str] = set()
    others: list[str] = []
    for feature in features:
        if feature == "all":
            wanted |= set(probes) - ON_REQUEST
        elif feature == "cheap":
            wanted |= {name for name, probe in probes.items() if probe.cost == Cost.CHEAP}
        elif feature in probes:
            wanted.add(feature)
        else:
            others.append(feature)
    return [probe for name, probe in probes.items() if name in wanted], others
