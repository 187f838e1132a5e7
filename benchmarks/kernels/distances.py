"""Wasserstein and bottleneck distances beside POT, gudhi (its hera) and persim, same ground distance."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy as np

from benchmarks.kernels.harness import Case
from toposcope.topology import bottleneck, rips, wasserstein

SIZES = (100, 500, 1000)
SLOW_MOST = 500
"""Bars above which hera and persim are left out."""

Pair = tuple[np.ndarray, np.ndarray]


def pair(kind: str, n: int) -> Pair:
    """Two diagrams of n bars: H0 and H1 of gaussian clouds, or bars spread over the plane."""
    random = np.random.default_rng(n)
    found = []
    for _ in range(2):
        if kind == "spread":
            birth = random.uniform(0, 1, n)
            found.append(np.column_stack([birth, birth + random.exponential(0.3, n)]))
            continue
        points = n + 1 if kind == "H0" else n + 60
        diagram = rips(random.standard_normal((points, 20)))[0 if kind == "H0" else 1]
        bars = np.column_stack([diagram.birth, diagram.death])
        found.append(bars[np.isfinite(bars[:, 1])][:n])
    return found[0], found[1]


def with_pot(order: int, diagrams: Pair) -> float:
    """Compute the distance as one transport problem with a diagonal point on each side."""
    os.environ.setdefault("POT_BACKEND_DISABLE_PYTORCH", "1")  # importing POT would otherwise import torch
    import ot

    one, other = diagrams
    cost = np.zeros((len(one) + 1, len(other) + 1))
    cost[:-1, :-1] = np.linalg.norm(one[:, None] - other[None], axis=2) ** order
    cost[:-1, -1] = (np.diff(one)[:, 0] * np.sqrt(0.5)) ** order
    cost[-1, :-1] = (np.diff(other)[:, 0] * np.sqrt(0.5)) ** order
    mass = np.append(np.ones(len(one)), len(other)), np.append(np.ones(len(other)), len(one))
    return float(ot.emd2(*mass, cost, numItermax=10**7) ** (1 / order))


def with_hera(order: int, diagrams: Pair) -> float:
    import gudhi.hera

    return float(gudhi.hera.wasserstein_distance(*diagrams, order=order, internal_p=2.0))


def with_persim(diagrams: Pair) -> float:
    import persim

    return float(persim.wasserstein(*diagrams))


def gudhi_bottleneck(diagrams: Pair) -> float:
    import gudhi

    return float(gudhi.bottleneck_distance(*diagrams, 0.0))


def persim_bottleneck(diagrams: Pair) -> float:
    import persim

    return float(persim.bottleneck(*diagrams))


def cases(quick: bool) -> list[Case]:
    """Return all comparisons, ours first; the quick ones have 100 bars."""
    found = []
    for kind in ("H0", "H1", "spread"):
        for n in SIZES[:1] if quick else SIZES:
            for order in (1, 2):
                methods: list[tuple[str, Any]] = [
                    ("toposcope", partial(lambda order, pair: wasserstein(*pair, order=order), order)),
                    ("POT", partial(with_pot, order)),
                ]
                if n <= SLOW_MOST:
                    methods.append(("gudhi hera", partial(with_hera, order)))
                    methods += [("persim", with_persim)] if order == 1 else []
                found += _contest(f"Wasserstein {order}, {kind}", kind, n, methods)
            methods = [("toposcope", lambda pair: bottleneck(*pair)), ("gudhi", gudhi_bottleneck)]
            methods += [("persim", persim_bottleneck)] if n <= SLOW_MOST else []
            found += _contest(f"bottleneck, {kind}", kind, n, methods)
    return found


def _contest(group: str, kind: str, n: int, methods: list[tuple[str, Any]]) -> list[Case]:
    make = partial(pair, kind, n)
    return [Case(group, f"{n} bars", n, method, make, run) for method, run in methods]
