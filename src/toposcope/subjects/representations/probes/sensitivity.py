"""How far the numbers of a cloud change with settings that are partly arbitrary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.seeding import rng
from toposcope.core.types import Feature, Role, Scope, Status
from toposcope.kernels.blas import SMALL_PRODUCT, one_blas_thread
from toposcope.subjects.base import Cost, Measured, Probe
from toposcope.subjects.labels import Label
from toposcope.subjects.representations.cost import seconds_of_cloud
from toposcope.subjects.representations.features import SENSITIVITY, SETTINGS, SPECTRUM
from toposcope.subjects.representations.options import RepresentationOptions
from toposcope.subjects.representations.probes.clouds import SPECTRAL_RANGE
from toposcope.subjects.representations.probes.reduce import reduce_cloud
from toposcope.subjects.representations.source import StateSource
from toposcope.subjects.shapes import FILTRATION, measure_shapes
from toposcope.subjects.snapshot import Snapshot
from toposcope.topology import baselines
from toposcope.topology.clouds import distance_matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class SensitivityOptions:
    """The grid: principal components (None keeps all), numbers of texts, and draws of the smaller ones."""

    components: tuple[int | None, ...] = (25, 50, 100, None)
    texts: tuple[int, ...] = (200, 800)
    draws: int = 5

    def __post_init__(self) -> None:
        """Refuse a grid that cannot be measured."""
        if min(self.texts, default=0) < 4 or self.draws < 2:
            raise InputError(
                f"sensitivity: texts {self.texts} and {self.draws:,} draws; give at least 4 texts and 2 draws"
            )


@dataclass(frozen=True)
class Sensitivity(Probe):
    """The Rips summaries of the last chosen layer under every setting of a grid, from one forward pass.

    Rows have the probe "sensitivity" and the feature names of the representation probe. Their `name` is
    the setting: "pca50/texts200", "none/texts800", ... for the diagrams' summaries, and "texts200" for the
    spectrum (`rankme_eigenvalues`, `participation_ratio`, `alpha_req`, `top_eigenvalue`), which is taken
    before the reduction. `draw` numbers the random choice of texts, which is the same at every checkpoint and
    in every run; it is empty if a setting uses all texts that were read.
    """

    options: RepresentationOptions
    source: StateSource
    grid: SensitivityOptions = field(default_factory=SensitivityOptions)
    name: str = SENSITIVITY
    features: tuple[Feature, ...] = field(default=SETTINGS, repr=False)
    cost = Cost.COSTLY

    def expected_seconds(self, shapes: Sequence[tuple[int, int]]) -> float:
        """Return the rough time of one checkpoint; the pass is the representation probe's."""
        each = [seconds_of_cloud(texts) for texts in self.grid.texts]
        return len(self.grid.components) * self.grid.draws * sum(each)

    def measure(self, snapshot: Snapshot) -> Measured:
        """Return the rows of one checkpoint."""
        states = self.source.states(snapshot, self.options).states
        layer = max(states)
        measured = Measured()
        for texts in self.grid.texts:
            for draw, chosen in self._draws(len(states[layer]), texts):
                self._add(measured, snapshot, states[layer][chosen], layer, texts, draw)
        return measured

    def _draws(self, total: int, texts: int) -> Iterator[tuple[int | None, np.ndarray]]:
        if texts > total:
            raise InputError(
                f"only {total:,} texts were read",
                argument="sensitivity_texts",
                value=texts,
                remedy="give smaller numbers or more texts",
            )
        if texts == total:
            yield None, np.arange(total)
            return
        for draw in range(self.grid.draws):
            generator = rng(purpose="sensitivity texts", total=total, texts=texts, draw=draw)
            yield draw, np.sort(generator.choice(total, texts, replace=False))

    def _add(
        self,
        measured: Measured,
        snapshot: Snapshot,
        states: np.ndarray,
        layer: int,
        texts: int,
        draw: int | None,
    ) -> None:
        status = Status.OK if draw is None else Status.SUBSAMPLED
        with one_blas_thread(2.0 * min(states.shape) * states.size < SMALL_PRODUCT):
            spectrum = baselines(states, alpha_range=SPECTRAL_RANGE, name=f"layer {layer}")
            # every component: the first k of them are the PCA to k
            scores = reduce_cloud(states, "pca", max(states.shape)).points
        values = {name: spectrum[name] for name in SPECTRUM}
        label = Label(f"texts{texts}", Role.MODEL, layer, scope=Scope.SETTING)
        measured.rows += label.rows(snapshot.checkpoint, self.name, values, draw=draw, status=status)
        clouds = [scores[:, :components] for components in self.grid.components]
        distances = [distance_matrix(cloud, FILTRATION) for cloud in clouds]
        shapes = measure_shapes(distances, [draw] * len(clouds), maxdim=self.options.maxdim)
        for components, shape in zip(self.grid.components, shapes, strict=True):
            setting = "none" if components is None else f"pca{components}"
            measured.rows += Label(f"{setting}/texts{texts}", Role.MODEL, layer, scope=Scope.SETTING).rows(
                snapshot.checkpoint,
                self.name,
                shape.features(),
                filtration=FILTRATION,
                draw=draw,
                status=status,
            )
