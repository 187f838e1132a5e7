"""The time of a pass, and of a Hessian product of unusual models, measured before the plan is printed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from toposcope.core.errors import InputError
from toposcope.models.curvature import TWICE, HessianProduct
from toposcope.models.loading import local_path, run_folder_of
from toposcope.subjects.landscape.cost import cost_of_shapes, seconds_of
from toposcope.subjects.landscape.geometry.cost import FORWARDS
from toposcope.subjects.landscape.geometry.lanczos import random_start
from toposcope.subjects.snapshot import RunReader

if TYPE_CHECKING:
    from toposcope.sources.series import Series
    from toposcope.subjects.landscape.options import LandscapeOptions
    from toposcope.subjects.landscape.source import ObjectiveSource


_MOST_SECONDS = 10.0
"""A product that is expected to take longer is not timed."""


@dataclass(frozen=True, slots=True)
class HessianProducts:
    """Whether the model of a series was `opened`; the seconds of a product, if by finite differences."""

    opened: bool = False
    seconds: float | None = None

    def sentence(self) -> str:
        """Describe the cost of products if it is unusual, else return nothing."""
        if not self.opened:
            return "If a module has no second derivative, curvature takes up to five times as long."
        if self.seconds is None:
            return ""
        return (
            "The model has no second derivative. A Hessian-vector product, timed here, takes "
            f"{self.seconds:.2g} s; the estimated time includes this."
        )


def timed_pass(
    series: Series, source: ObjectiveSource, options: LandscapeOptions, shapes: Sequence[tuple[int, int]]
) -> float:
    """Return the time of a pass through the first checkpoint's model over what its size predicts.

    1 for what is not timed: models of the hub, of which nothing is fetched for this; models whose pass would
    take more than some seconds; and models that do not open, which the sweep reports.
    """
    expected = seconds_of(cost_of_shapes(shapes, options, 1))
    first = next(iter(series))
    if expected > _MOST_SECONDS or not (run_folder_of(first) is not None or local_path(first).is_dir()):
        return 1.0
    snapshot = RunReader(series, series.of_run(first.run))[0]
    try:
        with source.objectives(snapshot, replace(options, batches=1)) as (objective,):
            objective.loss()  # the first pass compiles and fills caches
            start = time.perf_counter()
            objective.loss()
            return (time.perf_counter() - start) / expected
    except (InputError, OSError):
        return 1.0


def timed_products(
    series: Series, source: ObjectiveSource, options: LandscapeOptions, shapes: Sequence[tuple[int, int]]
) -> HessianProducts:
    """Return the time of Hessian-vector products for a series, from the first checkpoint's model.

    The project's own models can be differentiated twice and are not opened. Not checked are: models of the
    hub, of which nothing is fetched for this; models whose `shapes` make two products take more than some
    seconds; and models that do not open, which the sweep reports.
    """
    first = next(iter(series))
    if run_folder_of(first) is not None:
        return HessianProducts(opened=True)
    expected = seconds_of(cost_of_shapes(shapes, options, 2 * FORWARDS["hessian"]))
    if expected > _MOST_SECONDS or not local_path(first).is_dir():
        return HessianProducts()
    snapshot = RunReader(series, series.of_run(first.run))[0]
    try:
        with source.objectives(snapshot, replace(options, batches=1)) as (objective,):
            here, product = objective.parameters, HessianProduct(objective)
            vector = random_start(len(here), here.dtype, purpose="timed product").to(here.device)
            product(vector)  # the first call chooses the method and compiles
            if product.method == TWICE:
                return HessianProducts(opened=True)
            start = time.perf_counter()
            product(vector)
            return HessianProducts(opened=True, seconds=time.perf_counter() - start)
    except (InputError, OSError):
        return HessianProducts()
