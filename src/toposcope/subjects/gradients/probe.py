"""Gradients: the probes of weights, applied to the gradients of a fixed batch, matrix by matrix."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from toposcope.core.errors import InputError, SourceError
from toposcope.core.types import Checkpoint
from toposcope.core.wording import option
from toposcope.models import Batch, LanguageModel, ModelLoader, Objective, Texts
from toposcope.models.loading import run_folder_of
from toposcope.sources.layout import RunFolder
from toposcope.sources.series import Series
from toposcope.subjects.base import Probe
from toposcope.subjects.weights.features import GRADIENT, of_gradients
from toposcope.subjects.weights.probes.baselines import Baselines


@dataclass(frozen=True)
class GradientBatch:
    """The batch on which a checkpoint's gradients are computed, and how its model is opened.

    A run folder has its own batch: the gradients that training kept, else those of the first held-out
    batch. Any other model needs `texts`; the batch is the first `size` of them, cut at `length` tokens.
    """

    loader: ModelLoader = field(default_factory=ModelLoader)
    texts: Texts | None = None
    size: int = 16
    length: int = 128

    def digest(self, checkpoint: Checkpoint) -> str:
        """Return the identity of the batch of a checkpoint."""
        folder = run_folder_of(checkpoint)
        if folder is not None:
            return _file_digest(folder.heldout_file)
        return f"{self.texts.digest if self.texts else None} {self.size} {self.length}"

    def of(self, model: LanguageModel, checkpoint: Checkpoint) -> Batch:
        """Return the batch as the checkpoint's model reads it.

        Raises
        ------
        InputError
            If the model is not in a run folder and there are no texts.
        """
        folder = run_folder_of(checkpoint)
        if folder is not None:
            return Batch.of(_held_out(folder)[0], last_only=model.last_only)
        if self.texts is None:
            raise InputError(
                f"{checkpoint.uri}: the gradients of this model need texts; give {option('texts')} FILE"
            )
        return Batch.of_texts(model, self.texts.items[: self.size], length=self.length)


def held_out_tokens(folder: RunFolder) -> np.ndarray:
    """Return the token ids that a run's training held out, int64 of shape (sequences, length).

    Raises
    ------
    SourceError
        When the file is missing or damaged.
    """
    tokens = _held_out(folder)
    return tokens.reshape(-1, tokens.shape[-1]).astype(np.int64)


def _held_out(folder: RunFolder) -> np.ndarray:
    return _read(folder.heldout_file)["tokens"]


def gradient_series(series: Series, batch: GradientBatch | None = None) -> Series:
    """Return the series whose tensors are the loss gradients on one fixed batch, under the weights' names."""
    batch = batch or GradientBatch()

    def gradients(checkpoint: Checkpoint) -> dict[str, np.ndarray]:
        folder = run_folder_of(checkpoint)
        if folder is not None and folder.gradients(checkpoint.step).is_file():
            return _read(folder.gradients(checkpoint.step))
        with batch.loader.model(series, checkpoint) as model:
            return Objective(model, batch.of(model, checkpoint)).gradient_arrays()

    def key(checkpoint: Checkpoint) -> str:
        return f"{series.content_hash(checkpoint)} {batch.digest(checkpoint)}"

    return series.derived(gradients, key, what="gradients")


def gradient_probes(probes: Sequence[Probe]) -> list[Probe]:
    """Return the probes under names for gradients: `gradient_rips`, ...

    The baselines have the mean and the standard deviation of the gradients' norms over the matrices.
    """
    wide = [replace(probe, spread=True) if isinstance(probe, Baselines) else probe for probe in probes]
    return [_renamed(probe) for probe in wide]


def _renamed(probe: Probe) -> Probe:
    features = tuple(map(of_gradients, probe.features))
    try:
        return replace(probe, name=f"{GRADIENT}{probe.name}", features=features)  # type: ignore[type-var]
    except TypeError as error:
        raise InputError(
            f"probe {probe.name!r} cannot measure gradients; make it a dataclass with fields `name` and "
            "`features`"
        ) from error


def has_own_batch(checkpoint: Checkpoint) -> bool:
    """Return whether a checkpoint is in a run folder, which has its own batch for gradients."""
    return run_folder_of(checkpoint) is not None


def _read(path: Path) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise SourceError(f"{path} cannot be read ({error}): train the run again") from error


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "none"
