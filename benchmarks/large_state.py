"""Plan a model of 7 billion weights with Adam's state: time and memory of `--plan`.

    python -m benchmarks.large_state [FORM]

FORM is transformers (shards of safetensors, `optimizer.pt`), dcp (PyTorch's distributed checkpoint with
torchtitan's keys) or mastered (as transformers, with a copy of the weights in full precision). Writes two
checkpoints of 94 GB each whose files are sparse: a few rows of each tensor have values, all others are holes.
Prints what the plan says, its seconds, and the peak memory of its process without pages of files.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import ml_dtypes
import numpy as np
import torch

from benchmarks.llm_size import LLAMA_7B, Shape, held

FORMS = ("transformers", "dcp", "mastered")
STEPS = (1000, 1100)
RATE, BETAS = 1e-4, (0.9, 0.95)
MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Hole:
    """A tensor whose values are given for some rows; all others are zero and take no place on a disk."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    rows: Mapping[int, np.ndarray] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The number of its bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def put(self, file: IO[bytes], start: int) -> None:
        """Write the rows that have values."""
        width = self.size // max(1, self.shape[0])
        for row, values in self.rows.items():
            file.seek(start + row * width)
            file.write(values.astype(self.dtype).tobytes())
        file.seek(start + self.size)


class _Pickler(pickle.Pickler):
    """Pickles holes as PyTorch does tensors, each with a storage of its own."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file, 2)
        self.holes: list[Hole] = []

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, Hole):
            return NotImplemented
        strides = tuple(math.prod(obj.shape[at + 1 :]) for at in range(len(obj.shape)))
        self.holes.append(obj)
        stored = _Storage(len(self.holes) - 1, obj)
        return torch._utils._rebuild_tensor_v2, (stored, 0, obj.shape, strides, False, OrderedDict())

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, _Storage):
            return None
        kind = torch.BFloat16Storage if obj.hole.dtype.itemsize == 2 else torch.FloatStorage
        return "storage", kind, str(obj.key), "cpu", math.prod(obj.hole.shape)


@dataclass(frozen=True)
class _Storage:
    key: int
    hole: Hole


class _Part:
    """The rest of a file as a file of its own: the zip of a distributed checkpoint's chunk."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._start = file, file.tell()
        self.write, self.flush = file.write, file.flush

    def tell(self) -> int:
        return self._file.tell() - self._start

    def seek(self, at: int, whence: int = 0) -> int:
        return self._file.seek(at + (0 if whence else self._start), whence)


def write_archive(file: IO[bytes], tree: Any) -> None:
    """Write what `torch.save` writes of a tree with holes, from the file's place on."""
    with tempfile.TemporaryFile() as pickled:
        pickler = _Pickler(pickled)
        pickler.dump(tree)
        pickled.seek(0)
        text = pickled.read()
    part: Any = _Part(file)
    with zipfile.ZipFile(part, "w") as archive:
        archive.writestr("archive/data.pkl", text)
        archive.writestr("archive/byteorder", "little")
        for key, hole in enumerate(pickler.holes):
            entry = zipfile.ZipInfo(f"archive/data/{key}")
            entry.file_size = entry.compress_size = hole.size
            entry.CRC = 0  # readers take 0 for "not stated"
            entry.header_offset = part.tell()
            part.write(entry.FileHeader(zip64=False))
            hole.put(part, part.tell())
            archive.filelist.append(entry)
            archive.NameToInfo[entry.filename] = entry
            archive.start_dir = part.tell()
        archive.writestr("archive/version", "3\n")


def sample_rows(shape: tuple[int, ...]) -> list[int]:
    """Return the rows that get values: the first, a middle and the last, and those that follow them."""
    count = shape[0]
    if len(shape) == 1:
        return list(range(count))
    return sorted({0, 1, (count - 2) // 2, (count - 1) // 2, count // 2, count - 2, count - 1})


@dataclass(frozen=True)
class LargeStep:
    """One checkpoint as holes, by the names of the weights."""

    weights: dict[str, Hole]
    state: dict[str, dict[str, Any]]


def steps_of(shape: Shape, *, mastered: bool) -> list[LargeStep]:
    """Return two checkpoints between which the weights moved along their moments."""
    steps: list[LargeStep] = [LargeStep({}, {}) for _ in STEPS]
    single, half = np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16)
    for number, (name, sides) in enumerate(shape.tensors().items()):
        random = np.random.default_rng(number)
        width = math.prod(sides[1:])
        rows = sample_rows(sides)
        values = random.normal(0, 0.02, (len(rows), width)).astype(np.float32)
        for at, step in enumerate(steps):
            first = random.normal(0, 1e-4, values.shape).astype(np.float32)
            second = np.square(random.normal(0, 1e-3, values.shape)).astype(np.float32) + np.float32(1e-6)
            values = values - np.float32(at * 100 * RATE) * first / np.sqrt(second)
            parts = {"exp_avg": first, "exp_avg_sq": second, **({"master_param": values} if mastered else {})}
            kept = {key: Hole(sides, single, dict(zip(rows, part, strict=True)))
                    for key, part in parts.items()}  # fmt: skip
            step.weights[name] = Hole(sides, half, dict(zip(rows, values, strict=True)))
            step.state[name] = {"step": torch.tensor(float(STEPS[at])), **kept}
    return steps


def _write_safetensors(path: Path, weights: Mapping[str, Hole]) -> None:
    at, header = 0, {}
    for name, hole in weights.items():
        offsets = [at, at + hole.size]
        header[name] = {"dtype": "BF16", "shape": list(hole.shape), "data_offsets": offsets}
        at += hole.size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, hole in weights.items():
            hole.put(file, 8 + len(text) + header[name]["data_offsets"][0])
        file.truncate(8 + len(text) + at)


def write_transformers(place: Path, step: int, one: LargeStep) -> None:
    """Write a folder as transformers' Trainer does, the weights in four shards."""
    place.mkdir(parents=True)
    names = list(one.weights)
    table: dict[str, str] = {}
    for shard in range(4):
        file = f"model-{shard + 1:05d}-of-00004.safetensors"
        inside = names[len(names) * shard // 4 : len(names) * (shard + 1) // 4]
        table |= dict.fromkeys(inside, file)
        _write_safetensors(place / file, {name: one.weights[name] for name in inside})
    (place / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": table}))
    decayed = [name for name in names if len(one.weights[name].shape) > 1]
    others = [name for name in names if len(one.weights[name].shape) == 1]
    state = {number: _saved(one.state[name]) for number, name in enumerate([*decayed, *others])}
    groups = [_group(range(len(decayed)), 0.1), _group(range(len(decayed), len(names)), 0.0)]
    with (place / "optimizer.pt").open("wb") as file:
        write_archive(file, {"state": state, "param_groups": groups})
    schedule = {"last_epoch": step, "_step_count": step + 1, "_last_lr": [RATE, RATE]}
    torch.save(schedule, place / "scheduler.pt")
    torch.save({"cpu": torch.get_rng_state()}, place / "rng_state.pth")
    trainer = {"global_step": step, "epoch": step / 1e4, "max_steps": 10_000, "log_history": []}
    (place / "trainer_state.json").write_text(json.dumps(trainer))


def _saved(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a parameter, its count as a hole of one value."""
    count = Hole((1,), np.dtype(np.float32), {0: fields["step"].numpy()})
    return {**fields, "step": count}


def _group(keys: range, decay: float) -> dict[str, Any]:
    return {"lr": RATE, "betas": BETAS, "eps": 1e-8, "weight_decay": decay, "params": list(keys)}


def write_dcp(place: Path, step: int, one: LargeStep) -> None:
    """Write a distributed checkpoint with torchtitan's keys: `.metadata` and one file of chunks."""
    from torch.distributed.checkpoint import metadata as dcp
    from torch.distributed.checkpoint.filesystem import _StorageInfo

    place.mkdir(parents=True)
    entries: dict[str, Any] = dict(one.weights)
    for name, fields in one.state.items():
        for key, value in _saved(fields).items():
            entries[f"optimizer.state.{name}.{key}"] = value
        for key, setting in _group(range(0), 0.1).items():
            if key != "params":
                entries[f"optimizer.param_groups.{name}.{key}"] = setting
    entries |= {
        "lr_scheduler.last_epoch": step,
        "train_state.step": Hole((1,), np.dtype(np.float32), {0: np.float32([step])}),
        "dataloader.dp_rank_0": pickle.dumps({"_num_yielded": step}),
    }
    table: dict[str, Any] = {}
    storage: dict[Any, Any] = {}
    with (place / "__0_0.distcp").open("wb") as file:
        for name, value in entries.items():
            start = file.tell()
            write_archive(file, value)
            where = _StorageInfo("__0_0.distcp", start, file.tell() - start)
            if isinstance(value, Hole):
                kind = torch.bfloat16 if value.dtype.itemsize == 2 else torch.float32
                sides = torch.Size(value.shape)
                zero = torch.Size([0] * len(sides))
                table[name] = dcp.TensorStorageMetadata(
                    dcp.TensorProperties(kind), sides, [dcp.ChunkStorageMetadata(zero, sides)]
                )
                storage[dcp.MetadataIndex(name, zero, 0)] = where
            else:
                table[name] = dcp.BytesStorageMetadata()
                storage[dcp.MetadataIndex(name)] = where
    with (place / ".metadata").open("wb") as file:
        pickle.dump(dcp.Metadata(table, {}, storage), file)


def write_series(form: str, folder: Path, shape: Shape = LLAMA_7B) -> None:
    """Write two checkpoints of a run in a form."""
    for step, one in zip(STEPS, steps_of(shape, mastered=form == "mastered"), strict=True):
        if form == "dcp":
            write_dcp(folder / f"step-{step}", step, one)
        else:
            write_transformers(folder / f"checkpoint-{step}", step, one)


def plan(subject: str, series: Path) -> dict[str, Any]:
    """Run the plan of a subject in a process, and return what it says, took and held."""
    main = "from toposcope.cli.main import main; main()"
    line = [sys.executable, "-c", main, subject, str(series), "--out", str(series.parent / "store"), "--plan"]
    with tempfile.TemporaryFile("w+") as printed:
        start = time.monotonic()
        process = subprocess.Popen(line, stdout=printed, stderr=subprocess.STDOUT)
        own = 0
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            own = max(own, held(process.pid)[0])
            time.sleep(0.02)
        seconds = time.monotonic() - start
        printed.seek(0)
        text = re.sub(re.escape(str(series.parent)) + "/", "", printed.read())
    used = ended[2]
    return {"exit": os.waitstatus_to_exitcode(ended[1]), "seconds": seconds, "text": text,
            "processor": used.ru_utime + used.ru_stime, "own_mb": own / 1e6}  # fmt: skip


def main() -> None:
    """Measure both plans of one form, or of all."""
    for form in sys.argv[1:] or FORMS:
        with tempfile.TemporaryDirectory() as place:
            series = Path(place) / "run"
            write_series(form, series)
            files = [one for one in series.rglob("*") if one.is_file()]
            bytes_of = sum(one.stat().st_size for one in files)
            on_disk = sum(one.stat().st_blocks * 512 for one in files)
            print(f"{form}: {bytes_of / 1e9:.0f} GB in files that take {on_disk / 1e6:.0f} MB")
            for subject in ("weights", "optimizer"):
                took = plan(subject, series)
                print(f"{subject} --plan: exit {took['exit']}, {took['seconds']:.1f} s "
                      f"({took['processor']:.1f} of processor), {took['own_mb']:.0f} MB")  # fmt: skip
                print(took["text"])


if __name__ == "__main__":
    main()
