"""Norms and spectra of every matrix: what topology has to beat."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from toposcope.probes.base import Measured, Probe
from toposcope.probes.declarations import spectral_features
from toposcope.probes.snapshot import Snapshot
from toposcope.probes.weights.labels import Label, groups
from toposcope.probes.weights.options import WeightOptions
from toposcope.topology import baselines
from toposcope.types import Feature, Kind, Scope

_SCOPES = (Scope.MODEL, Scope.ROLE, Scope.MATRIX)
WEIGHT_NORM = Feature(
    "weight_norm", "weight norm", "weight", Kind.BASELINE, scopes=(Scope.MODEL,),
    description="Euclidean norm of all matrices together",
)  # fmt: skip
FEATURES = (
    WEIGHT_NORM,
    *spectral_features(unit="weight", scopes=_SCOPES),
    Feature("frobenius_norm_sd", "Frobenius norm, sd over matrices", "weight", Kind.BASELINE, scopes=_SCOPES),
)


@dataclass(frozen=True)
class Baselines(Probe):
    """The baselines of `toposcope.topology.baselines` per matrix, their means, and the weight norm.

    Rows: each matrix under its own name; the mean over the matrices of a role as `role`, over all matrices
    as `layers`; and `weight_norm`, the Euclidean norm of all matrices together, as `model`. With `spread`,
    the standard deviation of the matrices' norms stands beside their mean, as `frobenius_norm_sd`.
    """

    options: WeightOptions
    spread: bool = False
    name: str = "baselines"
    features: tuple[Feature, ...] = field(default=FEATURES, repr=False)

    def expected_seconds(self, shapes: Sequence[tuple[int, int]]) -> float:
        """Return a rough cost on one core: a Gram matrix and two spectra of the smaller side."""
        return sum(1e-3 + 2e-10 * min(s) ** 2 * max(s) + 2e-9 * min(s) ** 3 for s in shapes)

    def measure(self, snapshot: Snapshot) -> Measured:
        """Return the baselines of one checkpoint."""
        at, found = snapshot.checkpoint, Measured()
        values: dict[Label, dict[str, float]] = {}
        for matrix in snapshot.matrices():
            if self.options.keeps(matrix.name):
                label = Label.of(matrix)
                values[label] = baselines(matrix.values, name=matrix.name)
                found.rows += label.rows(at, self.name, values[label])
        for group, has in groups(values, "layers").items():
            members = [value for label, value in values.items() if has(label)]
            means = (
                {feature: _mean([m[feature] for m in members]) for feature in members[0]} if members else {}
            )
            if self.spread and members:
                means["frobenius_norm_sd"] = statistics.pstdev([m["frobenius_norm"] for m in members])
            found.rows += group.rows(at, self.name, means)
        norm = math.sqrt(sum(value["frobenius_norm"] ** 2 for value in values.values()))
        found.rows += Label("model").rows(at, self.name, {WEIGHT_NORM.name: norm})
        return found


def _mean(values: list[float]) -> float:
    """Mean of the values that are defined; nan when none is."""
    defined = [value for value in values if math.isfinite(value)]
    return sum(defined) / len(defined) if defined else math.nan
