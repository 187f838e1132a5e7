"""Processor time and memory of `check` on long logs, and of `audit` on checkpoints of very many tensors.

    python -m benchmarks.size [--rows 1000000] [--tensors 100000]

Each command runs in a process of its own; its processor time is that of user and system.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file


def logs(folder: Path, rows: int) -> list[Path]:
    """Write one loss curve with its rate and gradient norm as CSV, as JSON lines and as text."""
    random = np.random.default_rng(0)
    files = [folder / f"train.{end}" for end in ("csv", "jsonl", "log")]
    table, lines, text = (file.open("w") for file in files)
    table.write("step,loss,lr,grad_norm\n")
    for step, noise, norm in zip(
        range(1, rows + 1), random.normal(0, 0.03, rows), random.random(rows), strict=True
    ):
        loss = round(1.8 + 4 * (step + 50) ** -0.15 + noise, 4)
        rate, norm = round(3e-4 * (1 - 0.9 * step / rows), 8), round(0.5 + 0.1 * norm, 4)
        table.write(f"{step},{loss},{rate:.4e},{norm}\n")
        lines.write(json.dumps({"step": step, "loss": loss, "lr": rate, "grad_norm": norm}) + "\n")
        text.write(f"step {step} | loss {loss:.4f} | lr {rate:.4e} | grad_norm {norm:.4f}\n")
    for file in (table, lines, text):
        file.close()
    return files


def mixture(folder: Path, tensors: int) -> Path:
    """Write two checkpoints of a mixture of experts with matrices of 8 x 8."""
    random = np.random.default_rng(0)
    weights = random.standard_normal((tensors, 8, 8)).astype(np.float32)
    for step in (0, 100):
        named = {
            f"model.layers.{place // 512}.mlp.experts.{place % 512}.up_proj.weight": one
            for place, one in enumerate(weights)
        }
        (folder / f"step_{step}").mkdir(parents=True)
        save_file(named, folder / f"step_{step}" / "model.safetensors")
        weights = weights * (1 + 0.01 * random.standard_normal(weights.shape)).astype(np.float32)
    return folder


def cost(*words: object) -> tuple[float, float]:
    """Return the processor time of a command in seconds, and its largest resident memory in MB."""
    command = [sys.executable, "-m", "toposcope", *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, used = os.wait4(process.pid, 0)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    """Print a line for each command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--tensors", type=int, default=100_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        commands = [("check", file) for file in logs(Path(place), chosen.rows)]
        commands.append(("audit", mixture(Path(place) / "experts", chosen.tensors)))
        for command, target in commands:
            seconds, memory = cost(command, target)
            print(f"{command} {target.name:12} {seconds:6.1f} s {memory:6.0f} MB")


if __name__ == "__main__":
    main()
