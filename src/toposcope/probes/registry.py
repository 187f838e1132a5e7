"""The weight probes by name: what `--features` chooses from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toposcope.errors import InputError, did_you_mean
from toposcope.probes.base import Probe, Tier
from toposcope.probes.weights.baselines import Baselines
from toposcope.probes.weights.distances import Distances
from toposcope.probes.weights.neural_persistence import NeuralPersistence
from toposcope.probes.weights.options import WeightOptions
from toposcope.probes.weights.rips import Rips
from toposcope.probes.weights.trajectory import Trajectory

WEIGHT_PROBES: dict[str, Callable[[WeightOptions], Probe]] = {
    "neural_persistence": NeuralPersistence,
    "rips": Rips,
    "baselines": Baselines,
    "trajectory": Trajectory,
    "distances": Distances,
}
"""A probe of your own joins here, or goes to `toposcope.sweep.sweep` directly."""


def weight_probes(features: Sequence[str], options: WeightOptions) -> list[Probe]:
    """Return the probes that `features` names: probe names, `cheap`, or `all`.

    >>> [probe.name for probe in weight_probes(["cheap"], WeightOptions())]
    ['neural_persistence', 'rips', 'baselines', 'trajectory']
    """
    probes = {name: make(options) for name, make in WEIGHT_PROBES.items()}
    wanted: set[str] = set()
    for feature in features:
        if feature == "all":
            wanted |= set(probes)
        elif feature == "cheap":
            wanted |= {name for name, probe in probes.items() if probe.tier == Tier.CHEAP}
        elif feature in probes:
            wanted.add(feature)
        else:
            near = did_you_mean(feature, ["cheap", "all", *probes])
            raise InputError(
                f"--features {feature}: no such probe; use cheap, all, or {', '.join(probes)}{near}"
            )
    return [probe for name, probe in probes.items() if name in wanted]
