"""Measure a model of 1.1 billion weights, and plan one of 7 billion with 150 checkpoints.

    python benchmarks/llm_size.py --checkpoints 2

Writes a series in TinyLlama's shapes (bfloat16, two shards a checkpoint, random weights of unequal rows
that drift a little) into a temporary folder and runs `toposcope weights` with its default features on it in a
separate process. Prints what was announced beside what it took: seconds, processor time, peak memory and the
seconds of every probe. The announced memory is what the processes hold themselves; pages of files that they
share with the system's cache, mainly libraries, are given separately. The plan reads only headers: its files
are sparse. Prints a JSON line at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file


@dataclass(frozen=True)
class Shape:
    """The sizes of a Llama."""

    width: int
    hidden: int
    keys: int
    layers: int
    vocabulary: int

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every tensor by its name."""
        block = {
            "self_attn.q_proj.weight": (self.width, self.width),
            "self_attn.k_proj.weight": (self.keys, self.width),
            "self_attn.v_proj.weight": (self.keys, self.width),
            "self_attn.o_proj.weight": (self.width, self.width),
            "mlp.gate_proj.weight": (self.hidden, self.width),
            "mlp.up_proj.weight": (self.hidden, self.width),
            "mlp.down_proj.weight": (self.width, self.hidden),
            "input_layernorm.weight": (self.width,),
            "post_attention_layernorm.weight": (self.width,),
        }
        ends = (self.vocabulary, self.width)
        layers = {
            f"model.layers.{layer}.{name}": shape
            for layer in range(self.layers)
            for name, shape in block.items()
        }
        return {"model.embed_tokens.weight": ends, **layers, "lm_head.weight": ends}


TINY_LLAMA = Shape(2048, 5632, 256, 22, 32000)
LLAMA_7B = Shape(4096, 11008, 4096, 32, 32000)


def _shards(shape: Shape, count: int) -> list[dict[str, tuple[int, ...]]]:
    tensors = list(shape.tensors().items())
    return [dict(tensors[len(tensors) * k // count : len(tensors) * (k + 1) // count]) for k in range(count)]


def _index(folder: Path, shards: list[dict[str, tuple[int, ...]]]) -> list[Path]:
    """Write the index of a sharded checkpoint; return the paths of its shards."""
    folder.mkdir(parents=True)
    names = [f"model-{k:05d}-of-{len(shards):05d}.safetensors" for k in range(1, len(shards) + 1)]
    table = {tensor: name for name, shard in zip(names, shards, strict=True) for tensor in shard}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": table}))
    return [folder / name for name in names]


def write_series(place: Path, shape: Shape, checkpoints: int) -> int:
    """Write checkpoints that drift; return the bytes of one."""
    size = 0
    for number in range(checkpoints):
        shards = _shards(shape, 2)
        for path, shard in zip(_index(place / f"step_{1000 * number}", shards), shards, strict=True):
            save_file({name: _weights(name, shape, number) for name, shape in shard.items()}, path)
            size += path.stat().st_size
    return size // checkpoints


def _weights(name: str, shape: tuple[int, ...], number: int) -> np.ndarray:
    """Return weights at one checkpoint: the first is drawn anew each time, a later one goes off a little."""
    if len(shape) == 1:
        return np.ones(shape, ml_dtypes.bfloat16)
    first, later = np.random.default_rng(list(name.encode())), np.random.default_rng(number)
    values = first.standard_normal(shape, dtype=np.float32)
    values *= 0.02 * first.lognormal(0.0, 0.3, (shape[0], 1)).astype(np.float32)
    if number:
        values *= 1.0 + 0.02 * number * later.standard_normal(shape[1], dtype=np.float32)
    return values.astype(ml_dtypes.bfloat16)


def write_headers(place: Path, shape: Shape, checkpoints: int) -> int:
    """Write a series whose files have headers and holes; return the bytes of one checkpoint."""
    size = 0
    for number in range(checkpoints):
        shards = _shards(shape, 4)
        for path, shard in zip(_index(place / f"step_{1000 * number}", shards), shards, strict=True):
            at, header = 0, {}
            for name, sides in shard.items():
                end = at + 2 * int(np.prod(sides))
                header[name] = {"dtype": "BF16", "shape": list(sides), "data_offsets": [at, end]}
                at = end
            text = json.dumps(header).encode()
            text += b" " * (-len(text) % 8)
            with path.open("wb") as file:
                file.write(len(text).to_bytes(8, "little") + text)
                file.truncate(8 + len(text) + at)
            size += at
    return size // checkpoints


def held(process: int) -> tuple[int, int]:
    """Return the bytes that a process and its children hold now: of their own, and as pages of files.

    What the system calls the greatest resident set of a child is no measure: it begins with its parent's.
    """
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    found = [process, *(int(child) for task in tasks for child in _text(task).split())]
    own = files = 0
    for pid in found:
        sizes = dict(re.findall(r"^(Rss\w+):\s+(\d+) kB", _text(Path(f"/proc/{pid}/status")), re.MULTILINE))
        own += int(sizes.get("RssAnon", 0)) * 1024
        files += int(sizes.get("RssFile", 0)) * 1024
    return own, files


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process has just ended
        return ""


def measure(series: Path, store: Path, features: str, jobs: int) -> dict[str, object]:
    """Run `toposcope weights` and return what it announced, took and held."""
    main = "from toposcope.cli.main import main; main()"
    line = [sys.executable, "-c", main, "weights", str(series), "--out", str(store)]
    line += [*(("--features", features) if features else ()), "--jobs", str(jobs), "--yes"]
    start = time.monotonic()
    with tempfile.TemporaryFile("w+") as heard:
        process = subprocess.Popen(line, stderr=heard)
        own = files = 0
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            own, files = (max(pair) for pair in zip((own, files), held(process.pid), strict=True))
            time.sleep(0.05)
        _, status, used = ended
        heard.seek(0)
        announced = next((text for text in heard if "expecting" in text), "").strip()
    from toposcope.store import Store

    rows = Store.open(store).features()
    per_unit = rows.groupby(["probe", "step"])["seconds"].first()
    return {
        "exit": os.waitstatus_to_exitcode(status),
        "announced": announced,
        "seconds": time.monotonic() - start,
        "processor": used.ru_utime + used.ru_stime,
        "own_gb": own / 1e9,
        "files_gb": files / 1e9,
        "by_probe": {str(name): float(value) for name, value in per_unit.groupby("probe").mean().items()},
        "rows_without_value": int(rows["value"].isna().sum()),
    }


def plan(series: Path) -> dict[str, object]:
    """Return what the planner expects of a series."""
    from toposcope.sources import open_series
    from toposcope.subjects.registry import weight_probes
    from toposcope.subjects.weights.presets import preset
    from toposcope.sweep.expect import expect
    from toposcope.sweep.plan import by_run

    opened = open_series([str(series)])
    found = expect(opened, by_run(opened), weight_probes(["cheap"], preset("default")))
    hours = {name: seconds / 3600 for name, seconds in found.by_probe.items()}
    return {"sentence": found.sentence(), "hours": found.seconds / 3600, "by_probe": hours}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoints", type=int, default=2)
    parser.add_argument("--features", default="", help="as `toposcope weights` takes them; its default")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--place", type=Path, help="a folder with room; the series in it is made once and kept"
    )
    parser.add_argument("--plan-only", action="store_true")
    options = parser.parse_args()
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="toposcope-llm-size-", dir=options.place) as name:
        write_headers(Path(name) / "headers", LLAMA_7B, 150)
        found["plan"] = planned = plan(Path(name) / "headers")
        print(f"7B x 150: {planned['sentence']}", flush=True)
        if not options.plan_only:
            series = (options.place or Path(name)) / "series"
            if not series.exists():
                write_series(series, TINY_LLAMA, options.checkpoints)
            found["measured"] = took = measure(series, Path(name) / "store", options.features, options.jobs)
            print(f"1.1B x {options.checkpoints}: {took['announced']}")
            for key in (
                "exit",
                "seconds",
                "processor",
                "own_gb",
                "files_gb",
                "rows_without_value",
            ):
                print(f"  {key:20s} {took[key]:.2f}")
            for probe, seconds in took["by_probe"].items():
                print(f"  {probe:20s} {seconds:.1f} s a checkpoint")
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
