"""Curvature and loss surfaces against the usual alternatives, on the GPT family with random weights.

    python benchmarks/landscape.py [--repeats 3] [--points 25] [--grid 41] [--only PART] [--json FILE]

Five comparisons, each with its sides alternating in one process:

- a Hessian-vector product against a training step (forward, backward, AdamW) of the same batch;
- the top five eigenvalues at a relative tolerance of 1e-4 against curvlinops' Hessian with ARPACK (needs
  `curvlinops-for-pytorch`; left out if it is not installed);
- per-sequence losses along a line against the loop that sets the weights and evaluates (eager, `no_grad`),
  and how many times longer that loop takes than its matrix products: the limit that equal arithmetic sets;
- the five models on a whole grid against that loop and Landscaper's own (needs `landscaper`, without its
  dependencies, because only its evaluation is loaded; left out if it is not installed);
- the merge tree of a million places, smooth and noise, against gudhi's H0 of the same cubical complex.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import io
import json
import statistics
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch.nn.utils import vector_to_parameters

from toposcope.models import Batch, Objective
from toposcope.models.curvature import HessianProduct
from toposcope.models.gpt import GPTModel
from toposcope.subjects.landscape.geometry.directions import random_directions
from toposcope.subjects.landscape.geometry.lanczos import random_start, top_eigenpairs
from toposcope.subjects.landscape.geometry.surface import sample_surface
from toposcope.topology.merge_tree import merge_tree
from toposcope.training.model import GPT
from toposcope.training.shapes import GPTShape

SIZES = {
    "2,936": (8, 1, 1), "7,408": (16, 1, 2), "20,640": (24, 2, 2), "46,368": (32, 3, 4), "97,200": (48, 3, 4),
}  # fmt: skip
"""The five models of the recipe seed004: width, layers, heads."""
ENDS = ("2,936", "20,640", "97,200")


def objective_of(width: int, layers: int, heads: int, sequences: int) -> tuple[GPT, Objective]:
    """Return a model of the family with random weights, and its objective on random characters."""
    torch.manual_seed(0)
    module = GPT(GPTShape(vocabulary=128, context=128, width=width, layers=layers, heads=heads))
    rows = np.random.default_rng(0).integers(0, 128, (sequences, 129))
    return module, Objective(GPTModel(module), Batch.of(rows))


def alternating(sides: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median seconds of each side, called in turn after one call that does not count.

    A key with "cpu " before the name has the processor's seconds, which other work on the machine leaves
    nearly as they are (but not where threads wait for each other by spinning).
    """
    taken: dict[str, list[float]] = {}
    for turn in range(repeats + 1):
        for name, call in sides.items():
            start, used = time.perf_counter(), time.process_time()
            call()
            if turn:
                taken.setdefault(name, []).append(time.perf_counter() - start)
                taken.setdefault(f"cpu {name}", []).append(time.process_time() - used)
    return {name: statistics.median(values) for name, values in taken.items()}


def products(repeats: int) -> list[dict[str, object]]:
    """Time a product beside a training step, with the graph built anew and with the graph kept."""
    found: list[dict[str, object]] = []
    for name in ENDS:
        shape = SIZES[name]
        for sequences in (8, 64):
            _, objective = objective_of(*shape, sequences)
            trained, _ = objective_of(*shape, sequences)
            optimiser = torch.optim.AdamW(trained.parameters(), lr=1e-9)
            tokens = torch.tensor(objective.batch.rows)
            vector = random_start(objective.n_parameters, torch.float32)
            kept = HessianProduct(objective)

            def step(
                model: GPT = trained, by: torch.optim.AdamW = optimiser, on: torch.Tensor = tokens
            ) -> None:
                by.zero_grad()
                model.loss(on).backward()
                by.step()

            sides = {
                "step": step,
                "product": lambda o=objective, v=vector: HessianProduct(o, keep_bytes=0)(v),
                "kept": lambda k=kept, v=vector: k(v),
            }
            seconds = alternating(sides, 3 * repeats)
            found.append({
                "parameters": name, "tokens": 128 * sequences, "step_ms": 1e3 * seconds["step"],
                "product_steps": seconds["product"] / seconds["step"],
                "kept_steps": seconds["kept"] / seconds["step"],
                "kept_cpu_steps": seconds["cpu kept"] / seconds["cpu step"],
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
    for name in ENDS:
        module, objective = objective_of(*SIZES[name], 8)
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
            from torch.nn.attention import SDPBackend, sdpa_kernel

            data = [(tokens[:, :-1], tokens[:, 1:].flatten())]
            with sdpa_kernel(SDPBackend.MATH):
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
            into.append(top_eigenpairs(HessianProduct(objective), start, k=5, tolerance=1e-4).values)

        seconds = alternating({"own": own, "other": other}, repeats)
        apart = np.abs(np.sort(ours[-1]) - np.sort(theirs[-1])).max() / np.abs(ours[-1]).max()
        found.append({
            "parameters": name, "own_s": seconds["own"], "curvlinops_s": seconds["other"],
            "times_faster": seconds["other"] / seconds["own"],
            "cpu_times_faster": seconds["cpu other"] / seconds["cpu own"], "largest_difference": float(apart),
        })  # fmt: skip
    return found


def eager(module: GPT, objective: Objective, points: np.ndarray, vectors: torch.Tensor) -> np.ndarray:
    """Set the weights and evaluate, one point after the other."""
    here, tokens = objective.parameters.clone(), torch.tensor(objective.batch.rows)
    losses = []
    with torch.no_grad():
        for steps in points:
            moved = here + sum(float(step) * vector for step, vector in zip(steps, vectors, strict=True))
            vector_to_parameters(moved, module.parameters())
            losses.append(module.loss(tokens).item())
        vector_to_parameters(here, module.parameters())
    return np.array(losses)


def products_of_a_pass(shape: tuple[int, int, int], sequences: int) -> Callable[[], None]:
    """Return a call that makes the matrix products of one forward pass and nothing else."""
    width, layers, _ = shape
    block = [(width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)]
    pairs = [*block * layers, (width, 128)]
    sides = [(torch.randn(128 * sequences, a), torch.randn(a, b)) for a, b in pairs]

    def call() -> None:
        for x, w in sides:
            torch.mm(x, w)

    return call


def surfaces(repeats: int, points: int) -> list[dict[str, object]]:
    """Time a line of losses beside the loop that sets the weights, and that loop's matrix products alone."""
    found: list[dict[str, object]] = []
    for name, shape in SIZES.items():
        for sequences in (1, 8, 64):
            module, objective = objective_of(*shape, sequences)
            directions = random_directions(objective, 1, seed=0)
            axis = np.linspace(-1.0, 1.0, points if sequences < 64 else min(points, 9))
            alone = products_of_a_pass(shape, sequences)
            losses: dict[str, np.ndarray] = {}

            def loop(module: GPT = module, objective: Objective = objective, axis: np.ndarray = axis,
                     directions=directions, into=losses) -> None:  # fmt: skip
                into["loop"] = eager(module, objective, axis[:, None], directions.vectors)

            def own(objective: Objective = objective, axis: np.ndarray = axis, directions=directions,
                    into=losses) -> None:  # fmt: skip
                into["own"] = sample_surface(objective, directions, [axis]).mean

            seconds = alternating({"loop": loop, "own": own, "products": alone}, repeats)
            found.append({
                "parameters": name, "tokens": 128 * sequences, "loop_ms": 1e3 * seconds["loop"] / len(axis),
                "times_faster": seconds["loop"] / seconds["own"],
                "cpu_times_faster": seconds["cpu loop"] / seconds["cpu own"],
                "limit": seconds["loop"] / len(axis) / seconds["products"],
                "largest_difference": float(np.abs(losses["own"] - losses["loop"]).max()),
            })  # fmt: skip
    return found


def landscaper_loop() -> Callable[..., tuple[np.ndarray, object]] | None:
    """Return Landscaper's evaluation of a grid, without the rest of its package; None where it is missing."""
    found = importlib.util.find_spec("landscaper")
    if found is None or not found.submodule_search_locations:
        print("landscaper is not installed: pip install --no-deps landscaper")
        return None
    package = types.ModuleType("landscaper")
    package.__path__ = list(found.submodule_search_locations)
    sys.modules["landscaper"] = package  # its own __init__ imports Morse-Smale and plotting libraries
    return importlib.import_module("landscaper.compute").compute_loss_landscape


def grids(size: int, sequences: int = 8) -> list[dict[str, object]]:
    """Time the five models on a whole grid: own and the eager loop row by row in turn, then Landscaper's."""
    theirs, found = landscaper_loop(), []
    for name, shape in SIZES.items():
        module, objective = objective_of(*shape, sequences)
        directions = random_directions(objective, 2, seed=0)
        axis = np.linspace(-1.0, 1.0, size)
        tokens = torch.tensor(objective.batch.rows)
        split = [list(objective.named(vector.clone()).values()) for vector in directions.vectors]

        def own(row: np.ndarray, o: Objective = objective, d=directions, axis=axis) -> np.ndarray:
            return sample_surface(o, d, [row, axis]).mean.ravel()

        def loop(
            row: np.ndarray, m: GPT = module, o: Objective = objective, d=directions, axis=axis
        ) -> np.ndarray:
            points = np.stack(np.meshgrid(row, axis, indexing="ij"), axis=-1).reshape(-1, 2)
            return eager(m, o, points, d.vectors)

        def by_landscaper(row: np.ndarray, module=module, tokens=tokens, split=split) -> np.ndarray:
            assert theirs is not None
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                return theirs(
                    module, tokens, split, lambda m, t: m.loss(t).item(), len(row), 0.01, 2, device="cpu"
                )[0]

        sides: dict[str, Callable[[np.ndarray], np.ndarray]] = {"own": own, "loop": loop}
        for call in sides.values():
            call(axis[:1])
        taken = {key: 0.0 for side in (*sides, "landscaper") for key in (f"{side}_s", f"{side}_cpu_s")}
        work = [(side, call, axis[i : i + 1]) for i in range(size) for side, call in sides.items()]
        if theirs is not None:
            work.append(("landscaper", by_landscaper, axis))
        losses: dict[str, list[np.ndarray]] = {"own": [], "loop": [], "landscaper": []}
        for side, call, row in work:
            start, used = time.perf_counter(), time.process_time()
            losses[side].append(call(row))
            taken[f"{side}_s"] += time.perf_counter() - start
            taken[f"{side}_cpu_s"] += time.process_time() - used
        apart = np.abs(np.concatenate(losses["own"]) - np.concatenate(losses["loop"])).max()
        found.append(
            {
                "parameters": name,
                "tokens": 128 * sequences,
                **taken,
                **_times(taken),
                "difference": float(apart),
            }
        )
    sums = {key: sum(float(str(row[key])) for row in found) for key in found[0] if key.endswith("_s")}
    worst = max(float(str(row["difference"])) for row in found)
    return [
        *found,
        {"parameters": "all five", "tokens": 128 * sequences, **sums, **_times(sums), "difference": worst},
    ]


def _times(taken: dict[str, float]) -> dict[str, float]:
    """Return how many times longer the others took, by the clock and by the processor."""
    sides = [(side, unit) for side in ("loop", "landscaper") for unit in ("s", "cpu_s")]
    return {f"{side}/own {unit}": taken[f"{side}_{unit}"] / taken[f"own_{unit}"] for side, unit in sides}


def trees(repeats: int) -> list[dict[str, object]]:
    """Time the merge tree of a million places beside gudhi's H0; processor time, best of the repeats."""
    from gudhi import CubicalComplex

    x = np.linspace(-3, 3, 1000)
    noise = np.random.default_rng(0).normal(size=(1000, 1000))
    fields = {"smooth": np.cos(4 * x)[:, None] * np.cos(5 * x) + 0.1 * x[:, None] ** 2, "noise": noise}
    found: list[dict[str, object]] = []
    for name, field in fields.items():

        def by_gudhi(field: np.ndarray = field) -> int:
            cubical = CubicalComplex(vertices=field)
            cubical.compute_persistence(min_persistence=0)
            return len(cubical.persistence_intervals_in_dimension(0))

        tree = merge_tree(field)
        best = {"own": np.inf, "gudhi": np.inf}
        for _ in range(repeats):
            for side, call in {"own": lambda f=field: merge_tree(f), "gudhi": by_gudhi}.items():
                used = time.process_time()
                call()
                best[side] = min(best[side], time.process_time() - used)
        agree = by_gudhi() == int((tree.persistence > 0).sum())
        found.append({
            "field": name, "minima": len(tree), "own_cpu_s": best["own"], "gudhi_cpu_s": best["gudhi"],
            "same_number_of_bars": agree,
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
    parser.add_argument("--grid", type=int, default=41)
    parser.add_argument("--only", choices=["products", "eigenvalues", "surfaces", "grids", "trees"])
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    parts: dict[str, tuple[str, Callable[[], list[dict[str, object]]]]] = {
        "products": ("A product in training steps of the same batch", lambda: products(chosen.repeats)),
        "eigenvalues": ("Top five eigenvalues, 1,024 tokens", lambda: eigenvalues(chosen.repeats)),
        "surfaces": ("Losses along a line", lambda: surfaces(chosen.repeats, chosen.points)),
        "grids": (f"Five models at {chosen.grid} x {chosen.grid}", lambda: grids(chosen.grid)),
        "trees": ("Merge trees of a million places", lambda: trees(chosen.repeats)),
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
