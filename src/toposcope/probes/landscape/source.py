"""The objectives of a checkpoint: its model on several disjoint batches of the same texts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toposcope.errors import InputError
from toposcope.models import Batch, ModelLoader, Objective, Texts
from toposcope.probes.landscape.options import LandscapeOptions
from toposcope.probes.snapshot import Snapshot

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class ObjectiveSource:
    """Opens the model of a checkpoint and lets it read the batches."""

    texts: Texts
    loader: ModelLoader = field(default_factory=ModelLoader)

    @contextmanager
    def objectives(self, snapshot: Snapshot, options: LandscapeOptions) -> Iterator[list[Objective]]:
        """Yield an objective for each batch.

        Raises
        ------
        InputError
            When a batch keeps fewer than four sequences of two tokens or more.
        """
        with snapshot.model(self.loader) as model:
            size, found = options.sequences, []
            for number in range(options.batches):
                texts = self.texts.items[number * size : (number + 1) * size]
                batch = Batch.of_texts(model, texts, length=options.length)
                if len(batch) < 4:
                    raise InputError(
                        f"batch {number} has {len(batch)} texts of two tokens or more, at least 4 are needed "
                        "for an interval: give longer texts"
                    )
                found.append(Objective(model, batch))
            yield found

    def parameters(self, snapshot: Snapshot, like: Objective) -> torch.Tensor:
        """Return the flat parameters of another checkpoint of the run, remembered while it is at hand.

        Raises
        ------
        InputError
            When its parameters have other shapes.
        """

        def read() -> tuple[dict[str, tuple[int, ...]], torch.Tensor]:
            with snapshot.model(self.loader) as model:
                objective = Objective(model, like.batch)
                return objective.shapes, objective.parameters.cpu()

        shapes, values = snapshot.remember("parameters", read)
        if shapes != like.shapes:
            differs = sorted(set(shapes.items()) ^ set(like.shapes.items()))[0][0]
            raise InputError(
                f"step {snapshot.checkpoint.step} is no checkpoint of the same model: parameter {differs!r} "
                "has another shape or is missing; leave it out"
            )
        return values

    def first_loss(self, snapshot: Snapshot, options: LandscapeOptions) -> list[float]:
        """Return each batch's loss at the run's first checkpoint, computed once in a run."""
        first = snapshot.prefix[0]

        def read() -> list[float]:
            with self.objectives(first, options) as objectives:
                return [objective.loss() for objective in objectives]

        return first.remember_for_run(("first loss", self.texts.digest, options), read)
