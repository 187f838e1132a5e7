"""The objectives of a checkpoint: its model on several disjoint batches of the same texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toposcope.core.errors import InputError
from toposcope.core.threads import steady_threads
from toposcope.core.types import Checkpoint
from toposcope.core.wording import option
from toposcope.models import Batch, LanguageModel, ModelLoader, Objective, Texts
from toposcope.models.loading import run_folder_of
from toposcope.models.protocol import full_precision
from toposcope.subjects.gradients.probe import held_out_tokens
from toposcope.subjects.landscape.options import LandscapeOptions
from toposcope.subjects.snapshot import Snapshot

if TYPE_CHECKING:
    import torch


_SMALL = 1_000_000
"""Parameters below which one thread computes.

The threads of torch wait for one another in every operation. If other processes use the cores, most of
the time is spent waiting: a product with the Hessian of GPT-2 (43,904 parameters, 512 tokens) took 125 ms
with two threads and 12 ms with one, on two cores at a load of 4.
"""


def _threads(model: LanguageModel) -> int | None:
    """Return how many threads compute with a model; None for as many as the kernels use."""
    return 1 if sum(parameter.numel() for parameter in model.module.parameters()) < _SMALL else None


@dataclass(frozen=True)
class ObjectiveSource:
    """Opens the model of a checkpoint with its batches.

    Without texts, a checkpoint of a run folder reads the sequences that its training held out. `slowness` is
    the time of a pass through the model over the time that its size predicts, if one was timed.
    """

    texts: Texts | None
    loader: ModelLoader = field(default_factory=ModelLoader)
    slowness: float = 1.0

    @contextmanager
    def objectives(self, snapshot: Snapshot, options: LandscapeOptions) -> Iterator[list[Objective]]:
        """Yield an objective for each batch.

        Raises
        ------
        InputError
            If a batch has fewer than four sequences of at least two tokens, or there are no texts.
        """
        with snapshot.model(self.loader) as model, steady_threads(_threads(model)):
            rows = self._rows(model, snapshot.checkpoint, options)
            model = full_precision(model)  # once for all batches
            size, batch_objectives = options.sequences, []
            for number in range(options.batches):
                batch = Batch.of(rows[number * size : (number + 1) * size], last_only=model.last_only)
                if len(batch) < 4:
                    raise InputError(
                        f"batch {number} has {len(batch):,} sequences of two tokens or more, but an "
                        "interval needs at least 4; give more or longer texts"
                    )
                batch_objectives.append(Objective(model, batch))
            yield batch_objectives

    @property
    def digest(self) -> str:
        """The identity of the texts."""
        return "held out" if self.texts is None else self.texts.digest

    def _rows(
        self, model: LanguageModel, at: Checkpoint, options: LandscapeOptions
    ) -> Sequence[Sequence[int]]:
        """Return the token ids of all batches, one after the other."""
        if self.texts is not None:
            return model.encode(self.texts.items[: options.texts], options.length)
        folder = run_folder_of(at)
        if folder is None:
            raise InputError(
                f"{at.uri}: the loss surface of this model needs texts; give {option('texts')} FILE"
            )
        held = held_out_tokens(folder)
        if len(held) < options.texts:
            raise InputError(
                f"{folder.heldout_file} has {len(held):,} sequences, but {options.texts} are needed: give "
                f"fewer {option('batches')} or {option('sequences')}, or give {option('texts')}"
            )
        length = held.shape[1] if model.last_only else options.length
        return [row[:length] for row in held[: options.texts].tolist()]

    def parameters(self, snapshot: Snapshot, like: Objective) -> torch.Tensor:
        """Return the flat parameters of another checkpoint of the run, cached while it is in use.

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
                f"step {snapshot.checkpoint.step:,} is not a checkpoint of the same model: parameter "
                f"{differs!r} "
                "has another shape or is missing; leave it out"
            )
        return values

    def first_loss(self, snapshot: Snapshot, options: LandscapeOptions) -> list[float]:
        """Return each batch's loss at the run's first checkpoint, computed once in a run."""
        first = snapshot.prefix[0]

        def read() -> list[float]:
            with self.objectives(first, options) as objectives:
                return [objective.loss() for objective in objectives]

        return first.remember_for_run(("first loss", self.digest, options), read)
