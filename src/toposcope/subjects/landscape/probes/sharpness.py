"""Critical sharpness of every update between checkpoints: forward passes only, for models of any size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from toposcope.core.seeding import rng
from toposcope.core.types import Feature, Row
from toposcope.subjects.base import Measured, Probe, Reads
from toposcope.subjects.labels import Label
from toposcope.subjects.landscape.cost import cost_of_shapes, seconds_of
from toposcope.subjects.landscape.features import DECLARED, SHARPNESS
from toposcope.subjects.landscape.geometry.cost import ComputeCost
from toposcope.subjects.landscape.geometry.sharpness import PASSES, CriticalStep, along_update
from toposcope.subjects.landscape.options import LandscapeOptions
from toposcope.subjects.landscape.source import ObjectiveSource
from toposcope.subjects.snapshot import Snapshot, unless_unreadable

if TYPE_CHECKING:
    import torch

    from toposcope.models import Objective

MODEL = Label("model")


@dataclass(frozen=True)
class Sharpness(Probe):
    """Critical sharpness along the update from the previous checkpoint to this one, with one draw per batch.

    Step 0 is the previous checkpoint and step 1 is this one. A batch takes at most 8 forward passes. The null
    is the same search along random directions of the update's length, with the sign that descends.
    """

    options: LandscapeOptions
    source: ObjectiveSource
    name: str = SHARPNESS
    features: tuple[Feature, ...] = field(default=DECLARED[SHARPNESS], repr=False)
    reads = Reads.PREVIOUS

    def work(self, shapes: Sequence[tuple[int, int]]) -> ComputeCost:
        """Return the largest number of forward passes for one checkpoint, and their FLOP."""
        forwards = self.options.batches * (1 + PASSES * (1 + 2 * self.options.nulls))
        return cost_of_shapes(shapes, self.options, forwards)

    def expected_seconds(self, shapes: Sequence[tuple[int, int]]) -> float:
        """Return the rough time of one checkpoint on two cores."""
        return self.source.slowness * seconds_of(self.work(shapes))

    def measure(self, snapshot: Snapshot) -> Measured:
        """Return the rows of one checkpoint."""
        with self.source.objectives(snapshot, self.options) as objectives:
            rows = [
                row
                for draw, objective in enumerate(objectives)
                for row in self._rows(snapshot, {"batch_loss": objective.loss()}, draw)
            ]
            before = snapshot.previous
            if before is None:
                return Measured(rows)
            here = objectives[0].parameters
            start = unless_unreadable(lambda: self.source.parameters(before, objectives[0]))
            if start is None:
                return Measured(rows, alone=True)
            start = start.to(here.device, here.dtype)
            for draw, objective in enumerate(objectives):
                rows += self._along(snapshot, objective.at(start), here - start, draw)
        return Measured(rows)

    def _along(self, snapshot: Snapshot, start: Objective, update: torch.Tensor, draw: int) -> list[Row]:
        at = snapshot.checkpoint
        axes: dict[str, Any] = {"run": at.run, "step": at.step, "batch": draw}
        step = along_update(start, update, **axes)
        values = {
            "critical_sharpness": step.sharpness, "critical_step": step.step,
            "update_length": float(update.norm()),
        }  # fmt: skip
        rows = self._rows(snapshot, values, draw, note=_note(step))
        for number in range(self.options.nulls):
            null = _downhill(start, _random(update, number=number, **axes), **axes)
            numbered = draw * self.options.nulls + number
            rows += self._rows(
                snapshot, {"critical_sharpness_null": null.sharpness}, numbered, note=_note(null)
            )
        return rows

    def _rows(self, snapshot: Snapshot, values: dict[str, float], draw: int, *, note: str = "") -> list[Row]:
        return MODEL.rows(snapshot.checkpoint, self.name, values, draw=draw, note=note)


def _random(update: torch.Tensor, **axes: int | str) -> torch.Tensor:
    """Return a Gaussian direction of the update's length."""
    import torch

    drawn = torch.from_numpy(rng(name="update null", **axes).standard_normal(len(update))).to(update)
    return drawn * (update.norm() / drawn.norm())


def _downhill(start: Objective, direction: torch.Tensor, **axes: Any) -> CriticalStep:
    """Return the critical step along a direction or, if the loss rises along it at once, against it."""
    step = along_update(start, direction, **axes)
    return step if step.status != "no descent" else along_update(start, -direction, **axes)


def _note(critical: CriticalStep) -> str:
    if critical.status != "ok":
        smallest, largest = np.min(critical.steps[1:]), np.max(critical.steps)
        return f"{critical.status} between steps {smallest:.3g} and {largest:.3g}"
    return (
        f"step {critical.step:.4g} [{critical.low:.4g}, {critical.high:.4g}] over sequences, "
        f"{critical.passes} passes"
    )
