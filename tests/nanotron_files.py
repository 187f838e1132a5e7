"""Checkpoints as nanotron 0.4 writes them: a file for every parameter and rank, its slices as metadata."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file


def slice_text(local: list[slice], whole: list[slice]) -> str:
    """Return one pair of slices as nanotron's `SlicesPair` spells it."""

    def spelt(slices: list[slice]) -> str:
        return "|".join(f"{one.start},{one.stop},{one.step}" for one in slices)

    return f"{spelt(local)}#{spelt(whole)}"


def nanotron_parameter(
    step: Path,
    name: str,
    value: np.ndarray,
    *,
    ranks: int = 1,
    axis: int = 0,
    chunks: tuple[int, ...] = (),
    stage: tuple[int, int] = (0, 1),
) -> list[Path]:
    """Write a parameter spread along `axis`, each of its contiguous chunks on its own; ranks=0: unspread."""
    *place, last = name.split(".")
    folder = step / "model" / Path(*place)
    folder.mkdir(parents=True, exist_ok=True)
    if not ranks:
        save_file({"data": value}, folder / f"model_{last}.safetensors")
        return [folder / f"model_{last}.safetensors"]
    chunks = chunks or (value.shape[axis],)
    starts = np.cumsum((0, *chunks))
    made = []
    for rank in range(ranks):
        parts, pairs, at = [], [], 0
        for start, length in zip(starts, chunks, strict=False):
            size = length // ranks
            whole = [slice(None)] * value.ndim
            local = [slice(None)] * value.ndim
            whole[axis] = slice(int(start) + rank * size, int(start) + (rank + 1) * size)
            local[axis] = slice(at, at + size)
            parts.append(value[tuple(whole)])
            pairs.append(slice_text(local, whole))
            at += size
        metadata = {
            "version": "1.2", "local_global_slices_pairs": ";".join(pairs),
            "unsharded_shape": str(tuple(value.shape)),
        }  # fmt: skip
        file = f"model_{last}_pp-rank-{stage[0]}-of-{stage[1]}_tp-rank-{rank}-of-{ranks}.safetensors"
        save_file({"data": np.concatenate(parts, axis)}, folder / file, metadata=metadata)
        made.append(folder / file)
    return made


def nanotron_rest(step: Path, *, layers: int, **config: object) -> list[Path]:
    """Write what lies beside the weights, in nanotron's order."""
    number = int(step.name)
    metadata = {"version": "1.2", "tp": 2, "dp": 1, "metas": {"last_train_step": number}}
    (step / "checkpoint_metadata.json").write_text(json.dumps(metadata))
    (step / "model_config.json").write_text(json.dumps({"num_hidden_layers": layers, **config}))
    return [step / "checkpoint_metadata.json", step / "model_config.json"]
