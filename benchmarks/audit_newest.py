"""How long `audit --newest` takes, for a billion parameters.

    python -m benchmarks.audit_newest FOLDER --parameters 2e8

Writes two checkpoints of random weights in a Llama's shapes into FOLDER (removed at the end), judges the
newer one, and prints the seconds for the parameters that were written and, in proportion, for a billion.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

from toposcope.sources import open_series
from toposcope.sources.audit import audited

WIDTH, VOCABULARY = 1024, 16_000
LAYER = {
    "self_attn.q_proj": (WIDTH, WIDTH),
    "self_attn.k_proj": (WIDTH, WIDTH),
    "self_attn.v_proj": (WIDTH, WIDTH),
    "self_attn.o_proj": (WIDTH, WIDTH),
    "mlp.gate_proj": (3 * WIDTH, WIDTH),
    "mlp.up_proj": (3 * WIDTH, WIDTH),
    "mlp.down_proj": (WIDTH, 3 * WIDTH),
    "input_layernorm": (WIDTH,),
}


def write(folder: Path, parameters: float, dtype: str) -> int:
    """Write two checkpoints, and return how many parameters each has."""
    draw, kind = np.random.default_rng(0), np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    tensors = {"model.embed_tokens.weight": draw.normal(size=(VOCABULARY, WIDTH)).astype(np.float32)}
    layer = 0
    while sum(value.size for value in tensors.values()) < parameters:
        for name, shape in LAYER.items():
            values = draw.standard_normal(shape, np.float32)
            tensors[f"model.layers.{layer}.{name}.weight"] = np.float32(0.02) * values
        layer += 1
    for step in (1000, 2000):
        save_file({k: v.astype(kind) for k, v in tensors.items()}, folder / f"step_{step}.safetensors")
        for value in tensors.values():
            value *= np.float32(1.001)
            value += np.float32(1e-4) * draw.standard_normal(value.shape, np.float32)
    return sum(value.size for value in tensors.values())


def main() -> None:
    """Write, judge, print and remove."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parameters", type=float, default=2e8)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16")
    given = parser.parse_args()
    folder = given.folder / "audit_newest"
    folder.mkdir(parents=True)
    try:
        size = write(folder, given.parameters, given.dtype)
        began, cpu = time.perf_counter(), time.process_time()
        answer = audited(open_series(folder), newest=True)
        wall, used = time.perf_counter() - began, time.process_time() - cpu
    finally:
        shutil.rmtree(folder)
    scale = 1e9 / size
    print(f"{size / 1e6:.0f} M parameters, {given.dtype}: {wall:.2f} s, {used:.2f} s of processor time")
    print(f"in proportion for 1,000 M: {scale * wall:.1f} s, {scale * used:.1f} s of processor time")
    print(f"{answer.coverage.line}; findings: {len(answer.findings)}")


if __name__ == "__main__":
    main()
