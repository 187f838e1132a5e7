"""Curvature and loss surfaces against what one would use otherwise, on the GPT family with random weights.

    python benchmarks/landscape.py [--repeats 3] [--points 25] [--only PART] [--json FILE]

Three comparisons, each with both sides alternating in one process:

- a Hessian-vector product against a training step (forward, backward, AdamW) of the same batch;
- the top five eigenvalues at a relative tolerance of 1e-4 against curvlinops' Hessian with ARPACK (needs
  `curvlinops-for-pytorch`; left out where it is not installed);
- per-sequence losses on a grid against the loop that sets the weights and evaluates (eager, `no_grad`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch.nn.utils import vector_to_parameters

from toposcope.landscape.directions import random_directions
from toposcope.landscape.lanczos import random_start, top_eigenpairs
from toposcope.landscape.surface import Evaluation, sample_surface
from toposcope.models import Batch, Objective
from toposcope.models.gpt import GPTModel
from toposcope.train.model import GPT
from toposcope.train.shapes import GPTShape

SIZES = {"2,936": (8, 1, 1), "10,688": (16, 2, 2), "97,200": (48, 3, 4)}


def objective_of(width: int, layers: int, heads: int, sequences: int) -> tuple[GPT, Objective]:
    """Return a model of the family with random weights, and its objective on random characters."""
    torch.manual_seed(0)
    module = GPT(GPTShape(vocabulary=128, context=128, width=width, layers=layers, heads=heads))
    rows = np.random.default_rng(0).integers(0, 128, (sequences, 129))
    return module, Objective(GPTModel(module), Batch.of(rows))


def alternating(sides: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median seconds of each side, called in turn after one call that does not count."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(repeats + 1):
        for name, call in sides.items():
            start = time.perf_counter()
            call()
            if turn:
                taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in taken.items()}


def products(repeats: int) -> list[dict[str, object]]:
    """Time a product beside a training step, with the graph built anew and with the graph kept."""
    found: list[dict[str, object]] = []
    for name, shape in SIZES.items():
        for sequences in (8, 64):
            _, objective = objective_of(*shape, sequences)
            trained, _ = objective_of(*shape, sequences)
            optimiser = torch.optim.AdamW(trained.parameters(), lr=1e-9)
            tokens = torch.tensor(objective.batch.rows)
            vector = random_start(objective.n_parameters, torch.float32)
            kept = objective.hessian()

            def step(
                model: GPT = trained, by: torch.optim.AdamW = optimiser, on: torch.Tensor = tokens
            ) -> None:
                by.zero_grad()
                model.loss(on).backward()
                by.step()

            sides = {
                "step": step,
                "product": lambda o=objective, v=vector: o.hvp(v),
                "kept": lambda k=kept, v=vector: k(v),
            }
            seconds = alternating(sides, 3 * repeats)
            found.append({
                "parameters": name, "tokens": 128 * sequences, "step_ms": 1e3 * seconds["step"],
                "product_steps": seconds["product"] / seconds["step"],
                "kept_steps": seconds["kept"] / seconds["step"],
            })  # fmt: skip
    return found


def eigenvalues(repeats: int) -> list[dict[str, object]]:
    """Time the top five eigenvalues beside curvlinops and ARPACK at the same tolerance."""
    try:
        import curvlinops
    except ImportError:
        print("curvlinops is not installed: pip install curvlinops-for-pytorch")
        return []
    from scipy.sparse.linalg import eigsh

    found: list[dict[str, object]] = []
    for name, shape in SIZES.items():
        module, objective = objective_of(*shape, 8)
        tokens = torch.tensor(objective.batch.rows)
        start = random_start(objective.n_parameters, torch.float32)
        ours: list[np.ndarray] = []
        theirs: list[np.ndarray] = []

        class Flat(torch.nn.Module):
            def __init__(self, inner: GPT) -> None:
                super().__init__()
                self.inner = inner

            def forward(self, ids: torch.Tensor) -> torch.Tensor:
                return self.inner(ids).flatten(0, 1)

        flat = Flat(module)

        def other(flat: Flat = flat, tokens: torch.Tensor = tokens, start: torch.Tensor = start,
                  into: list[np.ndarray] = theirs) -> None:  # fmt: skip
            from toposcope.models.curvature import attention_with_second_derivative

            data = [(tokens[:, :-1], tokens[:, 1:].flatten())]
            with attention_with_second_derivative():
                operator = curvlinops.HessianLinearOperator(
                    flat,
                    torch.nn.CrossEntropyLoss(),
                    list(flat.parameters()),
                    data,
                    check_deterministic=False,
                )
                into.append(
                    eigsh(
                        operator.to_scipy(),
                        k=5,
                        which="LM",
                        tol=1e-4,
                        v0=start.numpy(),
                        return_eigenvectors=False,
                    )
                )

        def own(objective: Objective = objective, start: torch.Tensor = start,
                into: list[np.ndarray] = ours) -> None:  # fmt: skip
            into.append(top_eigenpairs(objective.hessian(), start, k=5, tolerance=1e-4).values)

        seconds = alternating({"own": own, "other": other}, repeats)
        apart = np.abs(np.sort(ours[-1]) - np.sort(theirs[-1])).max() / np.abs(ours[-1]).max()
        found.append({
            "parameters": name, "own_s": seconds["own"], "curvlinops_s": seconds["other"],
            "times_faster": seconds["other"] / seconds["own"], "largest_difference": float(apart),
        })  # fmt: skip
    return found


def surfaces(repeats: int, points: int) -> list[dict[str, object]]:
    """Time a line of losses beside the loop that sets the weights, in one process and in two."""
    found: list[dict[str, object]] = []
    for name, shape in SIZES.items():
        for sequences in (1, 8, 64):
            module, objective = objective_of(*shape, sequences)
            directions = random_directions(objective, 1, seed=0)
            axis = np.linspace(-1.0, 1.0, points)
            looped: list[np.ndarray] = []

            def loop(module: GPT = module, objective: Objective = objective, axis: np.ndarray = axis,
                     vector: torch.Tensor = directions.vectors[0],
                     into: list[np.ndarray] = looped) -> None:  # fmt: skip
                here, tokens = objective.parameters.clone(), torch.tensor(objective.batch.rows)
                losses = []
                with torch.no_grad():
                    for step in axis:
                        vector_to_parameters(here + float(step) * vector, module.parameters())
                        losses.append(module.loss(tokens).item())
                    vector_to_parameters(here, module.parameters())
                into.append(np.array(losses))

            def own(together: int | None, objective: Objective = objective, axis: np.ndarray = axis,
                    directions=directions) -> np.ndarray:  # fmt: skip
                evaluation = Evaluation(together=together)
                return sample_surface(objective, directions, [axis], evaluation=evaluation).mean

            sides: dict[str, Callable[[], object]] = {"loop": loop, "own": lambda own=own: own(None)}
            if sequences < 64:
                sides["batched"] = lambda own=own: own(16)
            seconds = alternating(sides, repeats)
            found.append({
                "parameters": name, "tokens": 128 * sequences, "loop_ms": 1e3 * seconds["loop"] / points,
                "times_faster": seconds["loop"] / seconds["own"],
                "batched_times_faster": seconds["loop"] / seconds.get("batched", float("nan")),
                "largest_difference": float(np.abs(own(None) - looped[-1]).max()),
            })  # fmt: skip
    return found


def show(title: str, rows: list[dict[str, object]]) -> None:
    """Print a table."""
    print(f"\n{title}")
    if rows:
        print("  ".join(rows[0]))
    for row in rows:
        print(
            "  ".join(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()),
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--points", type=int, default=25)
    parser.add_argument("--only", choices=["products", "eigenvalues", "surfaces"])
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    parts: dict[str, tuple[str, Callable[[], list[dict[str, object]]]]] = {
        "products": ("A product in training steps of the same batch", lambda: products(chosen.repeats)),
        "eigenvalues": ("Top five eigenvalues, 1,024 tokens", lambda: eigenvalues(chosen.repeats)),
        "surfaces": ("Losses along a line", lambda: surfaces(chosen.repeats, chosen.points)),
    }
    results = {}
    for name, (title, measure) in parts.items():
        if chosen.only in (None, name):
            results[name] = measure()
            show(title, results[name])
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
