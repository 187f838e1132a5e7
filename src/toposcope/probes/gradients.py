"""Gradient space: the same probes on the gradients of a fixed batch, matrix by matrix."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from toposcope.errors import InputError, SourceError
from toposcope.probes.base import Probe
from toposcope.probes.representations.gpt import RunModel
from toposcope.probes.representations.loading import ModelLoader, run_folder_of
from toposcope.probes.representations.texts import Texts
from toposcope.probes.weights.baselines import WEIGHT_NORM, Baselines
from toposcope.sources.matrices import stream_matrices
from toposcope.sources.reader import Facts, TensorInfo, check_rows, find
from toposcope.sources.series import Series
from toposcope.types import Checkpoint, Feature, Matrix, Run

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class GradientSeries:
    """A series whose matrices are the loss gradients on one fixed batch, under the weights' names.

    A run folder brings its batch: the gradients that training kept, else those of the first held-out
    batch. Any other model needs `texts`; the batch is the first `size` of them, cut at `length` tokens.
    """

    series: Series
    loader: ModelLoader = field(default_factory=ModelLoader)
    texts: Texts | None = None
    size: int = 16
    length: int = 128

    def __iter__(self) -> Iterator[Checkpoint]:
        """Iterate over the checkpoints, by run and step."""
        return iter(self.series)

    def __len__(self) -> int:
        """Return the number of checkpoints."""
        return len(self.series)

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs of the series."""
        return self.series.runs

    def metrics(self, run: str) -> pd.DataFrame:
        """Return a run's per-step metrics."""
        return self.series.metrics(run)

    def content_hash(self, checkpoint: Checkpoint) -> str:
        """Return the hash of the weights and of the batch."""
        folder = run_folder_of(checkpoint)
        batch = self._batch_digest() if folder is None else _file_digest(folder.heldout_file)
        return hashlib.sha256(f"{self.series.content_hash(checkpoint)} {batch}".encode()).hexdigest()

    def matrices(self, checkpoint: Checkpoint) -> Iterator[Matrix]:
        """Yield the gradients of the 2-D weights.

        Raises
        ------
        InputError
            When the model is no run folder and no texts were given, or a gradient is not finite.
        """
        reader = _Arrays(self._gradients(checkpoint), f"{checkpoint.uri} (gradients)")
        for matrix in stream_matrices(reader, checkpoint, config=self._config(checkpoint)):
            if not np.isfinite(matrix.values).all():
                where = f"run {checkpoint.run!r} step {checkpoint.step}"
                raise InputError(f"{where}: the gradient of {matrix.name!r} is not finite; leave it out")
            yield matrix

    def _config(self, checkpoint: Checkpoint) -> Mapping[str, Any]:
        return next((dict(run.config) for run in self.runs if run.run == checkpoint.run), {})

    def _gradients(self, checkpoint: Checkpoint) -> dict[str, np.ndarray]:
        folder = run_folder_of(checkpoint)
        if folder is not None and folder.gradients(checkpoint.step).is_file():
            return _read(folder.gradients(checkpoint.step))
        with self.loader.open(checkpoint) as model:
            if isinstance(model, RunModel) and folder is not None:
                return model.gradients(_read(folder.heldout_file)["tokens"][0])
            return model.gradients(model.encode(self._texts(checkpoint), self.length))

    def _texts(self, checkpoint: Checkpoint) -> Sequence[str]:
        if self.texts is None:
            raise InputError(f"{checkpoint.uri}: gradients of this model need texts; give --texts FILE")
        return self.texts.items[: self.size]

    def _batch_digest(self) -> str:
        return f"{self.texts.digest if self.texts else None} {self.size} {self.length}"


def gradient_probes(probes: Sequence[Probe]) -> list[Probe]:
    """Return the probes under names that say they measured gradients: `gradient_rips`, ...

    The baselines have the mean of the gradients' norms over the matrices, and its standard deviation.
    """
    wide = [replace(probe, spread=True) if isinstance(probe, Baselines) else probe for probe in probes]
    return [_renamed(probe) for probe in wide]


def _renamed(probe: Probe) -> Probe:
    features = tuple(map(_of_gradients, probe.features))
    try:
        return replace(probe, name=f"gradient_{probe.name}", features=features)  # type: ignore[type-var]
    except TypeError as error:
        raise InputError(
            f"probe {probe.name!r} cannot measure gradients; make it a dataclass with the fields name and "
            "features"
        ) from error


def _of_gradients(feature: Feature) -> Feature:
    """Return the declaration of the same number, measured on gradients."""
    label = "norm" if feature == WEIGHT_NORM else feature.label
    of_null = None if feature.null_of is None else _of_gradients(feature.null_of)
    unit = feature.unit.replace("weight", "loss per weight")
    return replace(feature, label=f"gradients: {label}", unit=unit, null_of=of_null)


def has_own_batch(checkpoint: Checkpoint) -> bool:
    """Return whether a checkpoint lies in a run folder, which brings the batch of its gradients."""
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


class _Arrays:
    """Arrays at hand behind the face of a checkpoint's reader."""

    def __init__(self, arrays: Mapping[str, np.ndarray], label: str) -> None:
        self.label = label
        self._arrays = arrays

    def infos(self) -> dict[str, TensorInfo]:
        return {name: TensorInfo(name, array.shape, array.dtype) for name, array in self._arrays.items()}

    def read(self, name: str) -> np.ndarray:
        find(self.infos(), self.label, name)
        return self._arrays[name]

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        check_rows(find(self.infos(), self.label, name), self.label, start, stop)
        return self._arrays[name][start:stop]

    def facts(self) -> Facts:
        return Facts()
