"""Stream a 7B-shaped sharded checkpoint: neural persistence against a plain safetensors read.

    python benchmarks/streaming.py --gigabytes 4

Random bfloat16 weights in the shapes of a 7B Llama (width 4096, MLP 11008, vocabulary 32000), as many
layers as the size allows, one shard per layer, made in a temporary folder and removed afterwards. Both
sides run in separate processes on the same files. Each process reports seconds, and peak memory beyond what
its imports took. Prints a table and a JSON line; exits with 1 when a bound does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ml_dtypes
import numpy as np

WIDTH, HIDDEN, VOCABULARY = 4096, 11008, 32000
BLOCK = {
    "self_attn.q_proj.weight": (WIDTH, WIDTH),
    "self_attn.k_proj.weight": (WIDTH, WIDTH),
    "self_attn.v_proj.weight": (WIDTH, WIDTH),
    "self_attn.o_proj.weight": (WIDTH, WIDTH),
    "mlp.gate_proj.weight": (HIDDEN, WIDTH),
    "mlp.up_proj.weight": (HIDDEN, WIDTH),
    "mlp.down_proj.weight": (WIDTH, HIDDEN),
    "input_layernorm.weight": (WIDTH,),
}
ENDS = {"model.embed_tokens.weight": (VOCABULARY, WIDTH), "lm_head.weight": (VOCABULARY, WIDTH)}
LARGEST = 2 * VOCABULARY * WIDTH


def make(folder: Path, size: float) -> int:
    """Write the checkpoint; return its bytes."""
    from safetensors.numpy import save_file

    per_layer = 2 * sum(int(np.prod(shape)) for shape in BLOCK.values())
    layers = max(1, -(-int(size - 2 * LARGEST) // per_layer))
    rng = np.random.default_rng(0)
    shards = [dict(ENDS)] + [
        {f"model.layers.{i}.{name}": shape for name, shape in BLOCK.items()} for i in range(layers)
    ]
    table = {}
    for number, shapes in enumerate(shards, 1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        tensors = {}
        for tensor, shape in shapes.items():
            values = rng.standard_normal(shape, dtype=np.float32)
            values *= 0.02
            tensors[tensor] = values.astype(ml_dtypes.bfloat16)
        save_file(tensors, folder / name)
        table |= dict.fromkeys(shapes, name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": table}))
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def _peak() -> int:
    """Return the largest resident size so far (getrusage would count that of the parent process too)."""
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    return int(line.split()[1]) * 1024


def plain(folder: Path) -> dict[str, float]:
    """Read every tensor with the safetensors library into memory of its own."""
    import torch
    from safetensors import safe_open

    torch.set_num_threads(os.cpu_count() or 1)
    before, start = _peak(), time.perf_counter()
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - a file cannot be iterated over
                file.get_tensor(name).clone()
    return {"seconds": time.perf_counter() - start, "memory": _peak() - before}


def persistence(folder: Path) -> dict[str, float]:
    """Compute the neural persistence of every weight matrix."""
    from toposcope.sources import open_series
    from toposcope.topology import neural_persistence

    neural_persistence(np.eye(64, dtype=np.float32))  # load the compiled kernels
    neural_persistence(np.random.default_rng(0).normal(size=(2048, 2048)).astype(np.float32))
    series = open_series(folder)
    (checkpoint,) = series
    before, start = _peak(), time.perf_counter()
    values = [neural_persistence(matrix.values) for matrix in series.matrices(checkpoint)]
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "memory": _peak() - before,
        "mean": float(np.mean(values)),
        "matrices": len(values),
    }


def reading(folder: Path) -> dict[str, float]:
    """Stream every matrix without measuring anything."""
    from toposcope.sources import open_series

    series = open_series(folder)
    (checkpoint,) = series
    before, start = _peak(), time.perf_counter()
    count = sum(1 for _ in series.matrices(checkpoint))
    return {"seconds": time.perf_counter() - start, "memory": _peak() - before, "matrices": count}


SIDES = {"plain": plain, "reading": reading, "persistence": persistence}


def _run(side: str, folder: Path, cold: bool) -> dict[str, float]:
    if cold:
        for path in folder.glob("*.safetensors"):
            with open(path, "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    command = [sys.executable, __file__, "--side", side, "--folder", str(folder)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--cold", action="store_true", help="drop the files from the page cache before each pass"
    )
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--side", choices=list(SIDES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(SIDES[options.side](options.folder)))
        return 0
    with tempfile.TemporaryDirectory(prefix="toposcope-streaming-") as name:
        folder = Path(name)
        size = make(folder, options.gigabytes * 1e9)
        passes = [{side: _run(side, folder, options.cold) for side in SIDES} for _ in range(options.repeats)]
    best = {side: min(run[side]["seconds"] for run in passes) for side in SIDES}
    memory = {side: max(run[side]["memory"] for run in passes) for side in SIDES}
    for side in SIDES:
        print(
            f"{side:12s} {best[side]:7.2f} s  {size / best[side] / 1e9:6.2f} GB/s  "
            f"{memory[side] / 1e6:8.0f} MB extra"
        )
    bound = 3 * LARGEST + 300 * 10**6
    ratio = best["plain"] / best["persistence"]
    print(f"throughput of neural persistence / plain read: {ratio:.2f} (at least 0.5)")
    print(f"extra memory {memory['persistence'] / 1e6:.0f} MB (at most {bound / 1e6:.0f})")
    print(
        json.dumps(
            {
                "bytes": size,
                "cold": options.cold,
                "ratio": ratio,
                "memory": memory,
                "bound": bound,
                "passes": passes,
            }
        )
    )
    return 0 if ratio >= 0.5 and memory["persistence"] <= bound else 1


if __name__ == "__main__":
    sys.exit(main())
