"""Paths between checkpoints: of one run, and of two seeds, as they are and with heads and neurons matched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from toposcope.core.errors import InputError
from toposcope.core.types import Checkpoint, Feature, Row, RunRecord, Scope
from toposcope.models.gpt import GPTModel
from toposcope.subjects.base import Cost, Measured, Probe, Reads
from toposcope.subjects.labels import Label
from toposcope.subjects.landscape.cost import cost_of_shapes, seconds_of
from toposcope.subjects.landscape.features import DECLARED, PATHS
from toposcope.subjects.landscape.geometry.cost import FORWARDS, ComputeCost
from toposcope.subjects.landscape.geometry.paths import (
    PathLosses,
    aligned,
    barrier,
    bent_control,
    bezier_path,
    linear_path,
)
from toposcope.subjects.landscape.options import LandscapeOptions
from toposcope.subjects.landscape.source import ObjectiveSource
from toposcope.subjects.snapshot import Snapshot

if TYPE_CHECKING:
    import torch

    from toposcope.models import Objective

_POINTS = 11
_STEPS = 30
_RATE = 1e-3
"""Points of a path, and the steps and learning rate that train its control point."""

Partners = Mapping[str, tuple[Checkpoint, ...]]
"""Run -> the checkpoints of another seed of the same size."""


class _Start(NamedTuple):
    """The start of a path to this checkpoint, its label in a row, and the note about it."""

    label: Label
    parameters: torch.Tensor
    note: str


def partners_of(runs: Iterable[RunRecord], checkpoints: Sequence[Checkpoint]) -> Partners:
    """Return, for every run but the first of its size, the checkpoints of that first run."""
    first: dict[tuple[str, int], str] = {}
    partners = {}
    for run in runs:
        if run.seed is None:
            continue
        other = first.setdefault((run.family, run.parameters), run.run)
        if other != run.run:
            partners[run.run] = tuple(at for at in checkpoints if at.run == other)
    return partners


@dataclass(frozen=True)
class Paths(Probe):
    """Barriers on the straight line and on a bent curve to this checkpoint, with one draw per batch.

    Paths start at the previous checkpoint (the rows of the model), at the run's first checkpoint, and at the
    same step of another seed, once as it is and once with its heads and neurons matched. The bent curve is
    trained on another batch if there is one.
    """

    options: LandscapeOptions
    source: ObjectiveSource
    partners: Partners = field(default_factory=dict, repr=False)
    name: str = PATHS
    features: tuple[Feature, ...] = field(default=DECLARED[PATHS], repr=False)
    reads = Reads.PREFIX
    cost = Cost.COSTLY

    def work(self, shapes: Sequence[tuple[int, int]]) -> ComputeCost:
        """Return the largest number of forward passes for one checkpoint, and their FLOP."""
        each = 2 * _POINTS + FORWARDS["gradient"] * _STEPS
        return cost_of_shapes(shapes, self.options, 4 * self.options.batches * each)

    def expected_seconds(self, shapes: Sequence[tuple[int, int]]) -> float:
        """Return the rough time of one checkpoint on two cores."""
        return self.source.slowness * seconds_of(self.work(shapes))

    def measure(self, snapshot: Snapshot) -> Measured:
        """Return the rows of one checkpoint."""
        rows: list[Row] = []
        with self.source.objectives(snapshot, self.options) as objectives:
            for start in self._starts(snapshot, objectives[0]):
                for draw in range(len(objectives)):
                    rows += self._barriers(snapshot, objectives, draw, start)
        return Measured(rows)

    def _starts(self, snapshot: Snapshot, objective: Objective) -> list[_Start]:
        starts, before, first = [], snapshot.previous, snapshot.prefix[0]
        here = objective.parameters
        if before is not None:
            values = self.source.parameters(before, objective).to(here)
            starts.append(_Start(Label("model"), values, f"from step {before.checkpoint.step:,}"))
        if before is not None and first.checkpoint != before.checkpoint:
            label = Label("from the first checkpoint", scope=Scope.SETTING)
            note = f"from step {first.checkpoint.step:,}"
            starts.append(_Start(label, self.source.parameters(first, objective).to(here), note))
        return starts + self._from_another_seed(snapshot.checkpoint, objective)

    def _from_another_seed(self, at: Checkpoint, objective: Objective) -> list[_Start]:
        other = next(
            (checkpoint for checkpoint in self.partners.get(at.run, ()) if checkpoint.step == at.step), None
        )
        if other is None:
            return []
        with self.source.loader.open(other) as model:
            there = type(objective)(model, objective.batch)
            if there.shapes != objective.shapes:
                raise InputError(
                    f"{other.uri} is not a seed of the same model as {at.uri}; measure them separately"
                )
            named = there.named(there.parameters)
            as_it_is = Label(f"from {other.run}", scope=Scope.SETTING)
            plain = _Start(as_it_is, there.parameters, f"from {other.run}; no alignment was done")
            if not isinstance(model, GPTModel):
                return [plain]
            heads = model.module.shape.heads
            mine = objective.named(objective.parameters)
            matched = objective.flat(aligned(mine, named, heads=heads))
        label = Label(f"from {other.run}, aligned", scope=Scope.SETTING)
        return [plain, _Start(label, matched, f"from {other.run}; heads and neurons matched, by layer")]

    def _barriers(
        self, snapshot: Snapshot, objectives: Sequence[Objective], draw: int, start: _Start
    ) -> list[Row]:
        objective, other = objectives[draw], objectives[(draw + 1) % len(objectives)]
        end, at = objective.parameters, snapshot.checkpoint
        control = bent_control(
            other, start.parameters, end, steps=_STEPS, rate=_RATE, run=at.run, step=at.step, path=start.note
        )
        paths = {
            "barrier": linear_path(objective, start.parameters, end, points=_POINTS),
            "barrier_bezier": bezier_path(objective, start.parameters, control, end, points=_POINTS),
        }
        return [
            row
            for feature, path in paths.items()
            for row in self._row(snapshot, start, feature, path, draw)
        ]  # fmt: skip

    def _row(self, snapshot: Snapshot, start: _Start, feature: str, path: PathLosses, draw: int) -> list[Row]:
        height = barrier(path)
        note = (
            f"{start.note}; {path.note}; at {height.at:.2f} of the way, {height.level:.0%} "
            f"[{height.low:.4g}, {height.high:.4g}] over sequences"
        )
        return start.label.rows(
            snapshot.checkpoint, self.name, {feature: height.height}, draw=draw, note=note
        )
