"""Pooled states kept on disk: one safetensors file for each checkpoint, a tensor for each layer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from toposcope.errors import SourceError
from toposcope.sources.layout import write_aside
from toposcope.types import Checkpoint


def states_path(folder: Path, checkpoint: Checkpoint) -> Path:
    """Return where the states of a checkpoint lie."""
    return folder / checkpoint.run / f"step_{checkpoint.step:06d}.safetensors"


def keep_states(folder: Path, checkpoint: Checkpoint, states: Mapping[int, np.ndarray]) -> None:
    """Write the states, float32 of shape (n_points, width) per layer, aside and renamed."""
    from safetensors.numpy import save_file

    path = states_path(folder, checkpoint)
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {f"layer.{layer}": np.ascontiguousarray(values) for layer, values in states.items()}
    facts = {"run": checkpoint.run, "step": str(checkpoint.step)}
    write_aside(path, lambda aside: save_file(tensors, aside, metadata=facts))


def read_states(folder: Path, checkpoint: Checkpoint) -> dict[int, np.ndarray]:
    """Return the states that were kept of a checkpoint, by layer.

    Raises
    ------
    SourceError
        When none were kept, or the file is damaged.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    path = states_path(folder, checkpoint)
    try:
        tensors = load_file(path)
    except FileNotFoundError as error:
        raise SourceError(f"{path} does not exist: measure the series with --keep {folder}") from error
    except SafetensorError as error:
        raise SourceError(f"{path} is damaged: delete it and measure the series again") from error
    return {int(name.removeprefix("layer.")): values for name, values in tensors.items()}
