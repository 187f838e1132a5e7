"""Tiny checkpoints in every format, made by the libraries that own the formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

Tensors = dict[str, np.ndarray]


def gpt_tensors(seed: int = 0, width: int = 8) -> Tensors:
    rng = np.random.default_rng(seed)
    shapes = {
        "token_emb.weight": (20, width),
        "pos_emb.weight": (6, width),
        "layers.0.ln1.weight": (width,),
        "layers.0.attn.qkv.weight": (3 * width, width),
        "layers.0.attn.qkv.bias": (3 * width,),
        "layers.0.attn.proj.weight": (width, width),
        "layers.0.mlp.fc1.weight": (4 * width, width),
        "layers.0.mlp.fc2.weight": (width, 4 * width),
        "ln_f.weight": (width,),
    }
    tensors = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return tensors | {"head.weight": tensors["token_emb.weight"]}


@pytest.fixture
def tensors() -> Tensors:
    return gpt_tensors()


@pytest.fixture
def series_of_files(tmp_path: Path) -> Callable[[str], Path]:
    """Return a maker of a folder with three steps as safetensors files."""

    def make(name: str = "run") -> Path:
        folder = tmp_path / name
        folder.mkdir()
        for step in (0, 100, 200):
            save_file(
                gpt_tensors(step), folder / f"step_{step:06d}.safetensors", metadata={"step": str(step)}
            )
        return folder

    return make
