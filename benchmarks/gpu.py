"""Everything that runs on a GPU, in one go: python -m benchmarks.gpu --out gpu.json --csv gpu.csv.

Equality of every GPU path with the CPU's; neural persistence and H0 of matrices of a 7B model against a copy
and a product of the same matrix; a sweep of two checkpoints of .7 billion parameters in bfloat16; a training
step and a Hessian product of the GPT family; and what a monitor costs a training loop. On one H100 or H200 it
ends within eight minutes: a part that would begin after `--seconds` is left out and named. Without a GPU,
`--device cpu --tiny` runs the same code on small sizes, as the test of this script does: those times say
nothing.
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import toposcope as ts
from toposcope.models import Batch, Objective
from toposcope.models.curvature import HessianProduct
from toposcope.models.gpt import GPTModel
from toposcope.topology import components
from toposcope.training.model import GPT
from toposcope.training.shapes import GPTShape

TOLERANCE = {"neural persistence": 0.0, "H0": 1e-6, "losses": 1e-4, "gradient": 1e-3, "Hessian product": 5e-3}
"""The largest relative difference from the CPU; other orders of sums give the last three theirs."""


@dataclass(frozen=True)
class Sizes:
    """What is measured: matrices, a cloud, a GPT and its batch (rows, length), layers, steps of a loop."""

    matrices: tuple[tuple[int, int], ...]
    cloud: tuple[int, int]
    shape: GPTShape
    batch: tuple[int, int]
    layers: int
    width: int
    steps: int


FULL = Sizes(
    ((4096, 4096), (11008, 4096)),
    (32_000, 4096),
    GPTShape(50_304, 1024, 768, 12, 12),
    (8, 1024),
    22,
    2048,
    60,
)
TINY = Sizes(((96, 64),), (200, 16), GPTShape(64, 16, 16, 2, 2), (4, 16), 2, 32, 12)


class Bench:
    """The parts in order, each with its result, or with why it was left out."""

    def __init__(self, device: str, sizes: Sizes, seconds: float) -> None:
        self.device, self.sizes = torch.device(device), sizes
        self._end = time.monotonic() + seconds
        self.results: dict[str, Any] = {"machine": machine_of(self.device)}

    def part(self, name: str, measure: Callable[[Bench], dict[str, Any]]) -> None:
        """Run a part unless the time is over; an error is its result, and the others still run."""
        if time.monotonic() > self._end:
            self.results[name] = {"left out": "the time was over"}
            return
        started = time.monotonic()
        try:
            self.results[name] = measure(self)
        except Exception as error:
            self.results[name] = {"failed": f"{type(error).__name__}: {error}"}
        self.results[name]["took"] = round(time.monotonic() - started, 2)

    def seconds(self, call: Callable[[], object], repeats: int = 5) -> float:
        """Return the median time of a call, with the device idle before and after."""
        call()
        times = []
        for _ in range(repeats):
            self.wait()
            started = time.perf_counter()
            call()
            self.wait()
            times.append(time.perf_counter() - started)
        return float(np.median(times))

    def wait(self) -> None:
        """Wait for the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def machine_of(device: torch.device) -> dict[str, str]:
    """Return what the figures were measured on."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "cpu"
    return {
        "device": name,
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
    }


def model_of(shape: GPTShape, device: str) -> GPTModel:
    """Return the same random model on any device."""
    torch.manual_seed(0)
    return GPTModel(GPT(shape), device=device)


def batch_of(sizes: Sizes) -> Batch:
    """Return random tokens."""
    return Batch.of(np.random.default_rng(0).integers(0, sizes.shape.vocabulary, sizes.batch))


def difference(found: Any, wanted: Any) -> float:
    """Return the largest difference relative to the largest value."""
    found, wanted = np.asarray(found, float), np.asarray(wanted, float)
    return float(np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-300))


def equality(bench: Bench) -> dict[str, Any]:
    """Compare every path on the device with the same on the CPU."""
    sizes, generator = bench.sizes, np.random.default_rng(0)
    matrix = torch.from_numpy(generator.standard_normal(sizes.matrices[0], dtype=np.float32))
    points = torch.from_numpy(
        generator.standard_normal((min(2000, sizes.cloud[0]), sizes.cloud[1]), dtype=np.float32)
    )
    small = Sizes(sizes.matrices, sizes.cloud, GPTShape(64, 16, 16, 2, 2), (4, 16), 1, 16, 1)
    here, there = (
        Objective(model_of(small.shape, name), batch_of(small)) for name in (str(bench.device), "cpu")
    )
    vector = torch.from_numpy(generator.standard_normal(there.n_parameters)).float()
    differences = {
        "neural persistence": difference(
            ts.neural_persistence(matrix.to(bench.device)), ts.neural_persistence(matrix.numpy())
        ),
        "H0": difference(
            components(points.to(bench.device)).death[:-1], components(points.numpy()).death[:-1]
        ),
        "losses": difference(here.per_sequence_losses(), there.per_sequence_losses()),
        "gradient": difference(here.gradient().cpu(), there.gradient()),
        "Hessian product": difference(
            HessianProduct(here)(vector.to(bench.device)).cpu(), HessianProduct(there)(vector)
        ),
    }
    return {
        name: {"difference": value, "allowed": TOLERANCE[name], "equal": value <= TOLERANCE[name]}
        for name, value in differences.items()
    }


def matrices(bench: Bench) -> dict[str, Any]:
    """Time neural persistence and H0 of matrices of a 7B model against a copy and a product of them."""
    rows = {}
    for shape in bench.sizes.matrices:
        matrix = torch.randn(shape, device=bench.device, dtype=torch.bfloat16)
        copy = bench.seconds(matrix.clone)
        product = bench.seconds(partial(torch.matmul, matrix, matrix.T))
        persistence = bench.seconds(partial(ts.neural_persistence, matrix), 3)
        rows["x".join(map(str, shape))] = {
            "copy": copy, "product": product, "neural persistence": persistence,
            "in copies": persistence / copy, "in products": persistence / product,
        }  # fmt: skip
    points = torch.randn(bench.sizes.cloud, device=bench.device, dtype=torch.bfloat16)
    rows["H0 of " + "x".join(map(str, bench.sizes.cloud))] = {
        "product": (product := bench.seconds(lambda: points @ points.T, 3)),
        "H0": (h0 := bench.seconds(lambda: components(points), 1)),
        "in products": h0 / product,
    }
    return rows


def sweep(bench: Bench) -> dict[str, Any]:
    """Measure the cheap features of two checkpoints in bfloat16: .7 billion parameters in full size."""
    from safetensors.torch import save_file

    width, layers = bench.sizes.width, bench.sizes.layers
    with tempfile.TemporaryDirectory() as place:
        for step in (0, 100):
            generator = torch.Generator().manual_seed(step)
            tensors = {
                f"model.layers.{layer}.{name}.weight": torch.randn(shape, generator=generator).bfloat16()
                for layer in range(layers)
                for name, shape in {
                    "self_attn.q_proj": (width, width), "self_attn.o_proj": (width, width),
                    "mlp.up_proj": (11 * width // 4, width), "mlp.down_proj": (width, 11 * width // 4),
                }.items()
            }  # fmt: skip
            save_file(tensors, Path(place) / f"step_{step:06d}.safetensors")
        started = time.monotonic()
        store = ts.measure(place, Path(place) / "store", features="cheap")
        return {
            "parameters": sum(tensor.numel() for tensor in tensors.values()), "checkpoints": 2,
            "seconds": time.monotonic() - started, "rows": len(store.features()),
        }  # fmt: skip


def training(bench: Bench) -> dict[str, Any]:
    """Time a training step, a Hessian product against it, and the same loop with and without a monitor."""
    sizes = bench.sizes
    module = model_of(sizes.shape, str(bench.device)).module.train()
    ids = torch.randint(0, sizes.shape.vocabulary, sizes.batch, device=bench.device)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(bench.device.type, dtype=torch.bfloat16):
            logits = module(ids)
            loss = torch.nn.functional.cross_entropy(
                logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten()
            )
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    one = bench.seconds(step)
    objective = Objective(GPTModel(module, device=str(bench.device)), batch_of(sizes))
    vector = torch.randn(objective.n_parameters, device=bench.device)
    hessian = HessianProduct(objective)
    product = bench.seconds(lambda: hessian(vector), 3)
    plain = _loop(bench, step, None)
    with tempfile.TemporaryDirectory() as place:
        monitor = ts.Monitor(Path(place) / "watched", every=max(sizes.steps // 4, 1))
        watched = _loop(bench, step, lambda at, loss: monitor.observe(module, at, loss=loss))
        monitor.close()
    return {
        "step": one, "Hessian product": product, "in steps": product / one,
        "loop": plain, "loop with a monitor": watched, "share of the monitor": watched / plain - 1,
    }  # fmt: skip


def _loop(bench: Bench, step: Callable[[], float], observe: Callable[[int, float], None] | None) -> float:
    bench.wait()
    started = time.perf_counter()
    for at in range(bench.sizes.steps):
        loss = step()
        if observe is not None:
            observe(at, loss)
    bench.wait()
    return time.perf_counter() - started


def run(device: str, sizes: Sizes, seconds: float, out: Path) -> dict[str, Any]:
    """Run every part, write the results by name after each, and return them."""
    bench = Bench(device, sizes, seconds)
    for measure in (equality, matrices, training, sweep):
        bench.part(measure.__name__, measure)
        out.write_text(json.dumps(bench.results, indent=1) + "\n", encoding="utf-8")
    return bench.results


def rows_of(results: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, str, Any]]:
    """Return every number as part, quantity and value (seconds, ratios, differences)."""
    rows = []
    for name, value in results.items():
        if isinstance(value, dict):
            rows += rows_of(value, (*path, name))
        else:
            rows.append((path[0], ": ".join((*path[1:], name)), value))
    return rows


def write_csv(results: dict[str, Any], path: Path) -> None:
    """Write the table of the docs: three significant digits."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("part", "quantity", "value"))
        for part, quantity, value in rows_of(results):
            writer.writerow((part, quantity, f"{value:.3g}" if isinstance(value, float) else value))


def main() -> None:
    """Run the parts on a device, and write one JSON and the table of the docs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tiny", action="store_true", help="small sizes: a test, no measurement")
    parser.add_argument("--seconds", type=float, default=420.0)
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    parser.add_argument("--csv", type=Path, help="the numbers as a table, too")
    given = parser.parse_args()
    results = run(given.device, TINY if given.tiny else FULL, given.seconds, given.out)
    if given.csv is not None:
        write_csv(results, given.csv)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
