"""A healthy synthetic series and the catalogue of faults that can be planted in it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors.numpy import load_file, save_file

Tensors = dict[str, np.ndarray]
STEPS = tuple(range(0, 2000, 100))
MIDDLE = 1000


def walk(seed: int, kind: str, steps: int = len(STEPS)) -> list[Tensors]:
    """Return a model's weights along a path: a random walk, a decaying drift, or noise about a point."""
    rng = np.random.default_rng(seed)
    shapes = {"token_emb.weight": (40, 16), "head.weight": (40, 16), "ln_f.weight": (16,)}
    for layer in range(2):
        shapes |= {
            f"layers.{layer}.attn.qkv.weight": (48, 16),
            f"layers.{layer}.attn.proj.weight": (16, 16),
            f"layers.{layer}.mlp.fc1.weight": (64, 16),
            f"layers.{layer}.mlp.fc2.weight": (16, 64),
            f"layers.{layer}.mlp.fc2.bias": (16,),
        }
    start = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    aim = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    out = []
    now = {name: value.copy() for name, value in start.items()}
    for step in range(steps):
        noise = {name: rng.normal(size=shape) for name, shape in shapes.items()}
        if kind == "walk" and step:
            now = {name: now[name] + 0.05 * noise[name] for name in shapes}
        elif kind == "decay":
            fraction = 1 - np.exp(-step / 6)
            now = {n: start[n] + fraction * aim[n] + 0.01 * noise[n] * (1 - step / steps) for n in shapes}
        elif kind == "stationary":
            now = {name: aim[name] + 0.05 * noise[name] for name in shapes}
        out.append({name: value.astype(np.float32) for name, value in now.items()})
    return out


def write(folder: Path, path: list[Tensors], steps: tuple[int, ...] = STEPS) -> None:
    folder.mkdir(parents=True)
    for step, tensors in zip(steps, path, strict=True):
        save_file(tensors, folder / f"step_{step:06d}.safetensors", metadata={"step": str(step)})
    log = [{"step": step, "loss": 3.0 - index / 20} for index, step in enumerate(steps)]
    (folder / "training_log.json").write_text(json.dumps(log))


def file(folder: Path, step: int = MIDDLE) -> Path:
    return folder / f"step_{step:06d}.safetensors"


def edit(change: Callable[[Tensors], None], step: int = MIDDLE) -> Callable[[Path], None]:
    """Return a fault that changes the tensors of one step in place."""

    def plant(folder: Path) -> None:
        tensors = {name: value.copy() for name, value in load_file(file(folder, step)).items()}
        change(tensors)
        save_file(tensors, file(folder, step), metadata={"step": str(step)})

    return plant


FC1, PROJ, EMB, HEAD = (
    "layers.0.mlp.fc1.weight",
    "layers.1.attn.proj.weight",
    "token_emb.weight",
    "head.weight",
)


def _put(name: str, make: Callable[[np.ndarray], np.ndarray], step: int = MIDDLE) -> Callable[[Path], None]:
    def change(tensors: Tensors) -> None:
        tensors[name] = np.ascontiguousarray(make(tensors[name]))

    return edit(change, step)


def _swap(tensors: Tensors) -> None:
    tensors[EMB], tensors[HEAD] = tensors[HEAD], tensors[EMB]


def _copy(tensors: Tensors) -> None:
    tensors[HEAD] = tensors[EMB].copy()


def _block(value: np.ndarray) -> np.ndarray:
    value[:8] = 0
    return value


def _one(number: float) -> Callable[[np.ndarray], np.ndarray]:
    def make(value: np.ndarray) -> np.ndarray:
        value[3, 5] = number
        return value

    return make


def _relabel(folder: Path) -> None:
    """Exchange the contents of two neighbouring steps, and their inner labels with them."""
    a, b = load_file(file(folder, 900)), load_file(file(folder, 1000))
    save_file(b, file(folder, 900), metadata={"step": "900"})
    save_file(a, file(folder, 1000), metadata={"step": "1000"})


def _other_run(folder: Path, first: int = MIDDLE, last: int = MIDDLE) -> None:
    for step, tensors in zip(STEPS, walk(99, "walk"), strict=True):
        if first <= step <= last:
            save_file(tensors, file(folder, step), metadata={"step": str(step)})


def _copy_step(source: int, target: int) -> Callable[[Path], None]:
    def plant(folder: Path) -> None:
        save_file(load_file(file(folder, source)), file(folder, target), metadata={"step": str(target)})

    return plant


def _log(change: Callable[[list[dict[str, float]]], object]) -> Callable[[Path], None]:
    def plant(folder: Path) -> None:
        path = folder / "training_log.json"
        rows = json.loads(path.read_text())
        change(rows)
        path.write_text(json.dumps(rows))

    return plant


def _cut(size: int | None) -> Callable[[Path], None]:
    def plant(folder: Path) -> None:
        data = file(folder).read_bytes()
        file(folder).write_bytes(data[: len(data) // 2 if size is None else size])

    return plant


def _flip_header(folder: Path) -> None:
    data = bytearray(file(folder).read_bytes())
    data[0:8] = (2**62).to_bytes(8, "little")
    file(folder).write_bytes(bytes(data))


def _shards(missing: bool) -> Callable[[Path], None]:
    def plant(folder: Path) -> None:
        tensors = load_file(file(folder))
        file(folder).unlink()
        target = folder / f"step_{MIDDLE:06d}"
        target.mkdir()
        names = sorted(tensors)
        parts = {"model-00001-of-00002.safetensors": names[:5], "model-00002-of-00002.safetensors": names[5:]}
        for shard, inside in parts.items():
            save_file({name: tensors[name] for name in inside}, target / shard)
        index = {"weight_map": {name: shard for shard, inside in parts.items() for name in inside}}
        (target / "model.safetensors.index.json").write_text(json.dumps(index))
        if missing:
            (target / "model-00002-of-00002.safetensors").unlink()

    return plant


@dataclass(frozen=True)
class Fault:
    """A planted fault: what it does, and the fault, step and tensor that must be found."""

    name: str
    plant: Callable[[Path], None]
    fault: str
    step: int | None = MIDDLE
    tensor: str = ""
    cheap: bool = True
    """Whether the cheap audit must find it too."""


_F, _P = np.float32, np.float16

CATALOGUE: tuple[Fault, ...] = (
    Fault("truncated file", _cut(None), "unreadable"),
    Fault("empty file", _cut(0), "unreadable"),
    Fault("broken header", _flip_header, "unreadable"),
    Fault("missing shard", _shards(missing=True), "unreadable"),
    Fault("step equal to the one before", _copy_step(900, 1000), "identical"),
    Fault("step 0 equal to step 100", _copy_step(100, 0), "identical", 100),
    Fault("step equal to the final one", _copy_step(STEPS[-1], 1000), "equals-final"),
    Fault("last two steps equal", _copy_step(STEPS[-1], STEPS[-2]), "equals-final", STEPS[-2]),
    Fault("missing tensor", edit(lambda t: t.__delitem__(FC1)), "missing-tensor", tensor=FC1),
    Fault("extra tensor", edit(lambda t: t.update(more=np.ones((2, 2), _F))), "extra-tensor", tensor="more"),
    Fault("other shape", _put(FC1, lambda w: w[:32]), "shape-change", tensor=FC1),
    Fault("transposed rectangle", _put(FC1, lambda w: w.T), "shape-change", tensor=FC1),
    Fault("other dtype", _put(FC1, lambda w: w.astype(_P)), "dtype-change", tensor=FC1),
    Fault("one NaN", _put(FC1, _one(np.nan)), "non-finite", tensor=FC1, cheap=False),
    Fault("one infinity", _put(FC1, _one(np.inf)), "non-finite", tensor=FC1, cheap=False),
    Fault("all NaN", _put(FC1, lambda w: np.full_like(w, np.nan)), "non-finite", tensor=FC1),
    Fault("all zero", _put(FC1, np.zeros_like), "zero-tensor", tensor=FC1),
    Fault("one value", _put(FC1, lambda w: np.full_like(w, 0.5)), "constant-tensor", tensor=FC1),
    Fault("block of zeros", _put(FC1, _block), "zero-block", tensor=FC1),
    Fault(
        "rounded to bfloat16",
        _put(FC1, lambda w: w.astype(ml_dtypes.bfloat16).astype(_F)),
        "precision-loss",
        tensor=FC1,
    ),
    Fault("copied tensor", edit(_copy), "copied-tensor", tensor=HEAD),
    Fault("swapped tensors", edit(_swap), "swapped-tensors", tensor=EMB, cheap=False),
    Fault("permuted rows", _put(FC1, lambda w: w[::-1]), "permuted-tensor", tensor=FC1, cheap=False),
    Fault("transposed square", _put(PROJ, lambda w: w.T), "transposed-tensor", tensor=PROJ, cheap=False),
    Fault("changed sign", _put(FC1, lambda w: -w), "negated-tensor", tensor=FC1, cheap=False),
    Fault("scaled", _put(FC1, lambda w: 8 * w), "rescaled-tensor", tensor=FC1, cheap=False),
    Fault("flipped exponent bit", _put(FC1, _one(1e30)), "off-path", tensor=FC1, cheap=False),
    Fault(
        "noise added",
        _put(FC1, lambda w: w + np.random.default_rng(0).normal(size=w.shape).astype(_F)),
        "off-path",
        tensor=FC1,
        cheap=False,
    ),
    Fault("step of another run", _other_run, "other-weights"),
    Fault("another run from here on", lambda folder: _other_run(folder, MIDDLE, 9999), "other-weights"),
    Fault("two steps exchanged", _relabel, "out-of-order", 900),
    Fault("stale tensor", edit(lambda t: None), "stale-tensor", tensor=FC1),
    Fault(
        "step label twice",
        lambda f: shutil.copy(file(f), f / "step_1000.safetensors") and None,
        "duplicate-step",
    ),
    Fault(
        "label against contents",
        lambda f: save_file(load_file(file(f)), file(f), metadata={"step": "700"}),
        "step-mismatch",
    ),
    Fault("step left out", lambda folder: file(folder).unlink(), "missing-step"),
    Fault("log out of order", _log(lambda rows: rows.reverse()), "unsorted-metrics", None),
    Fault(
        "log with a step twice", _log(lambda rows: rows.insert(5, dict(rows[5]))), "duplicate-metrics", None
    ),
    Fault("infinite loss", _log(lambda rows: rows[10].update(loss=float("inf"))), "non-finite-loss"),
    Fault(
        "broken log", lambda f: (f / "training_log.json").write_text("{") and None, "unreadable-metrics", None
    ),
)


def _stale(folder: Path) -> None:
    before = load_file(file(folder, 900))
    edit(lambda tensors: tensors.update({FC1: before[FC1]}))(folder)


CATALOGUE = tuple(
    Fault(f.name, _stale, f.fault, f.step, f.tensor, f.cheap) if f.fault == "stale-tensor" else f
    for f in CATALOGUE
)
