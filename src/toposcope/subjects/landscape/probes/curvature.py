"""The Hessian at every checkpoint: top and lowest eigenvalue, trace, density, Gauss-Newton, layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toposcope.core.types import Feature, Role, Row, Scope, Status
from toposcope.models.curvature import GaussNewtonProduct, HessianProduct
from toposcope.subjects.base import Cost, Measured, Probe
from toposcope.subjects.labels import Label
from toposcope.subjects.landscape.cost import cost_of_shapes, seconds_with_products
from toposcope.subjects.landscape.features import CURVATURE, DECLARED
from toposcope.subjects.landscape.geometry.cost import FORWARDS, ComputeCost, refuse_above
from toposcope.subjects.landscape.geometry.lanczos import (
    Eigenpairs,
    SpectrumEnd,
    random_start,
    spectrum_ends,
    top_eigenpairs,
)
from toposcope.subjects.landscape.geometry.trace import hutchinson, spectral_density
from toposcope.subjects.landscape.options import LandscapeOptions
from toposcope.subjects.landscape.saved_densities import save_density
from toposcope.subjects.landscape.saved_files import place
from toposcope.subjects.landscape.source import ObjectiveSource
from toposcope.subjects.snapshot import Snapshot

if TYPE_CHECKING:
    from toposcope.models import Objective
    from toposcope.subjects.landscape.geometry.lanczos import Matvec

_TOLERANCE = 1e-3
"""Relative residual of an eigenpair."""
MODEL = Label("model")
Axes = dict[str, Any]


@dataclass(frozen=True)
class Curvature(Probe):
    """The ends of the spectrum, its largest eigenvalues with residual and convergence, and the trace.

    One draw per batch. The curvature along random directions is the null of the top eigenvalue. Values that
    have not converged have the status "unconverged", and no analysis reads them. With `folder`, the spectral
    density of the first batch is kept there. Since version 2 a top eigenvalue is the algebraically largest,
    not that of largest magnitude. `product_seconds` is the time of a product, if it was measured.
    """

    options: LandscapeOptions
    source: ObjectiveSource
    folder: Path | None = None
    product_seconds: float | None = None
    name: str = CURVATURE
    features: tuple[Feature, ...] = field(default=DECLARED[CURVATURE], repr=False)
    cost = Cost.COSTLY
    version = 2

    def work(self, shapes: Sequence[tuple[int, int]]) -> ComputeCost:
        """Return the largest number of products for one checkpoint, as forward passes and FLOP."""
        return cost_of_shapes(shapes, self.options, FORWARDS["hessian"] * self._products)

    @property
    def _products(self) -> int:
        chosen = self.options
        return chosen.batches * (4 * chosen.products + chosen.vectors) + chosen.vectors * chosen.steps

    def expected_seconds(self, shapes: Sequence[tuple[int, int]]) -> float:
        """Return the rough time of one checkpoint on two cores."""
        cost = self.work(shapes)
        return seconds_with_products(
            shapes, self.options, cost, self._products, self.product_seconds, self.source.slowness
        )

    def measure(self, snapshot: Snapshot) -> Measured:
        """Return the rows of one checkpoint."""
        rows: list[Row] = []
        with self.source.objectives(snapshot, self.options) as objectives:
            refuse_above(self.work([(1, objectives[0].n_parameters)]))
            for draw, objective in enumerate(objectives):
                rows += self._of_batch(snapshot, objective, draw)
            self._keep_density(snapshot, objectives[0])
        return Measured(rows)

    def _of_batch(self, snapshot: Snapshot, objective: Objective, draw: int) -> list[Row]:
        axes: Axes = {"run": snapshot.checkpoint.run, "step": snapshot.checkpoint.step, "batch": draw}
        hessian = HessianProduct(objective)
        pairs = self._top(hessian, objective, self.options.eigenvalues, axes)
        top, low = spectrum_ends(
            pairs, hessian, lambda matrix, end: self._top(matrix, objective, 1, {**axes, "end": end})
        )
        rows = self._eigenvalue(snapshot, MODEL, "top_eigenvalue", top, draw, hessian.method)
        rows += self._eigenvalue(snapshot, MODEL, "bottom_eigenvalue", low, draw, hessian.method)
        for rank, line in enumerate(pairs.rows(), 1):
            label = Label(f"rank {rank}", scope=Scope.SETTING)
            rows += self._rows(snapshot, label, "eigenvalue", float(pairs.values[rank - 1]), draw,
                               note=_words(line), ok=bool(line["converged"]))  # fmt: skip
        matrix = GaussNewtonProduct(objective)
        gauss = self._top(matrix, objective, 1, {**axes, "matrix": "gauss-newton"})
        rows += self._eigenvalue(snapshot, MODEL, "gauss_newton_top", SpectrumEnd(gauss), draw, matrix.method)
        rows += self._trace(snapshot, objective, hessian, draw, axes)
        return rows + self._layers(snapshot, objective, draw, axes)

    def _top(self, matrix: Matvec, objective: Objective, k: int, axes: Axes) -> Eigenpairs:
        here = objective.parameters
        start = random_start(len(here), here.dtype, **axes).to(here.device)
        return top_eigenpairs(
            matrix, start, k=min(k, len(here)), tolerance=_TOLERANCE, most=self.options.products, axes=axes
        )

    def _highest(self, matrix: Matvec, objective: Objective, axes: Axes) -> SpectrumEnd:
        """Return the algebraically largest eigenvalue; it is searched again where the first is negative."""
        pairs = self._top(matrix, objective, 1, axes)
        if pairs.values[0] >= 0:
            return SpectrumEnd(pairs)
        return spectrum_ends(
            pairs, matrix, lambda shifted, end: self._top(shifted, objective, 1, {**axes, "end": end})
        )[0]

    def _eigenvalue(
        self, snapshot: Snapshot, label: Label, feature: str, end: SpectrumEnd, draw: int, method: str = ""
    ) -> list[Row]:
        line = end.pairs.rows()[0]
        of = "of the largest"
        if end.shift:  # the largest of the shifted matrix
            of = f"({float(end.pairs.residuals[0]):.2g}) of the distance to the other end"
        note = f"{method + ', ' if method else ''}{end.pairs.products:,} products"
        remark = f"{_words(line, of)}; {note}"
        return self._rows(snapshot, label, feature, end.value, draw, note=remark, ok=bool(line["converged"]))

    def _trace(
        self, snapshot: Snapshot, objective: Objective, hessian: Matvec, draw: int, axes: Axes
    ) -> list[Row]:
        here = objective.parameters
        trace = hutchinson(hessian, here, vectors=self.options.vectors, **axes)
        note = f"{trace.level:.0%} [{trace.low:.4g}, {trace.high:.4g}] over {len(trace.samples):,} vectors"
        rows = self._rows(snapshot, MODEL, "hessian_trace", trace.value, draw, note=note)
        for number, sample in enumerate(trace.samples):
            rows += self._rows(
                snapshot, MODEL, "top_eigenvalue_null", float(sample) / len(here),
                draw * len(trace.samples) + number,
            )  # fmt: skip
        return rows

    def _layers(self, snapshot: Snapshot, objective: Objective, draw: int, axes: Axes) -> list[Row]:
        """Return each layer's own top eigenvalue, on the first batch only: one layer costs as much as all."""
        if draw or not self.options.layers:
            return []
        rows = []
        for name, block in objective.layer_blocks().items():
            top = self._highest(HessianProduct(block), block, {**axes, "block": name})
            layer = int(name.removeprefix("layer ")) if name.startswith("layer ") else None
            label = Label(name, Role.MODEL, layer, scope=Scope.SETTING if layer is None else Scope.LAYER)
            rows += self._eigenvalue(snapshot, label, "layer_top_eigenvalue", top, draw)
        return rows

    def _keep_density(self, snapshot: Snapshot, objective: Objective) -> None:
        if self.folder is None:
            return
        at = snapshot.checkpoint
        density = spectral_density(
            HessianProduct(objective), objective.parameters, vectors=self.options.vectors,
            steps=self.options.steps, run=at.run, step=at.step,
        )  # fmt: skip
        save_density(place(self.folder, at, "density", 0), density)

    def _rows(
        self, snapshot: Snapshot, label: Label, feature: str, value: float, draw: int, *, note: str = "",
        ok: bool = True,
    ) -> list[Row]:  # fmt: skip
        status = Status.OK if ok else Status.UNCONVERGED
        return label.rows(
            snapshot.checkpoint, self.name, {feature: value}, draw=draw, note=note, status=status
        )


def _words(line: dict[str, object], of: str = "of the largest") -> str:
    converged = "converged" if line["converged"] else "not converged"
    return f"residual {line['residual']:.1e} {of}, {converged}"
