"""Small run folders on disk, and what it means for two stores to be equal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from toposcope.core.seeding import rng
from toposcope.core.types import RunRecord
from toposcope.sources.layout import RunFolder, write_run
from toposcope.store import Store

SHAPES = {
    "token_emb.weight": (20, 6),
    "layers.0.attn.qkv.weight": (18, 6),
    "layers.0.attn.proj.weight": (6, 6),
    "layers.0.mlp.fc1.weight": (24, 6),
    "layers.0.mlp.fc2.weight": (6, 24),
    "layers.0.ln1.weight": (6,),
    "head.weight": (20, 6),
}


def tensors(run: str, step: int) -> dict[str, np.ndarray]:
    """Return weights that drift with the step."""
    return {
        name: (
            rng(name=name, run=run).standard_normal(shape)
            + step / 100 * rng(name=name, run=run, step=step).standard_normal(shape)
        ).astype(np.float32)
        for name, shape in SHAPES.items()
    }


def write_checkpoint(folder: Path, step: int, weights: dict[str, np.ndarray] | None = None) -> Path:
    path = RunFolder(folder).checkpoint(step)
    path.parent.mkdir(parents=True, exist_ok=True)
    weights = tensors(folder.name, step) if weights is None else weights
    save_file(weights, path, metadata={"step": str(step), "tokens": str(step * 8)})
    return path


def write_run_folder(folder: Path, steps: range) -> None:
    layout = RunFolder(folder)
    folder.mkdir(parents=True)
    write_run(layout, RunRecord(folder.name, "gpt", 720, 1, uri=str(folder)), extra={})
    for step in steps:
        write_checkpoint(folder, step)
    part = layout.metrics_part(0, steps[-1] + 1)
    part.parent.mkdir()
    at = np.arange(steps[-1] + 1)
    frame = pd.DataFrame({"run": folder.name, "step": at, "tokens": at * 8, "loss": 4.0 - 0.001 * at})
    frame.to_parquet(part, index=False)


def same_stores(left: Path, right: Path) -> None:
    """Two stores hold the same: everything but timings."""
    a, b = Store.open(left), Store.open(right)
    pd.testing.assert_frame_equal(a.features().drop(columns="seconds"), b.features().drop(columns="seconds"))
    pd.testing.assert_frame_equal(a.diagrams(), b.diagrams())
    pd.testing.assert_frame_equal(a.metrics(), b.metrics())
    pd.testing.assert_frame_equal(a.runs(), b.runs())
    names = [sorted(p.relative_to(s).as_posix() for p in s.rglob("*.parquet")) for s in (left, right)]
    assert names[0] == names[1]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    for name in ("one", "two"):
        write_run_folder(folder / name, range(0, 100, 10))
    return folder


@pytest.fixture
def checkpoint() -> Callable[..., Path]:
    return write_checkpoint


@pytest.fixture
def weights() -> Callable[[str, int], dict[str, np.ndarray]]:
    return tensors


@pytest.fixture
def same() -> Callable[[Path, Path], None]:
    return same_stores
