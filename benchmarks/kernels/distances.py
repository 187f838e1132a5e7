"""Wasserstein and bottleneck distances beside POT, gudhi (its hera) and persim, same ground distance."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

import numpy as np
from case import Case

from toposcope.topology import bottleneck, rips, wasserstein

SIZES = (100, 500, 1000)
HERA_MOST = PERSIM_MOST = 500


def pair(kind: str, n: int) -> tuple[np.ndarray, np.ndarray]:
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


def ours(kind: str, n: int, order: int) -> Callable[[], object]:
    one, other = pair(kind, n)
    wasserstein(one[:2], other[:2], order=order)
    return functools.partial(wasserstein, one, other, order=order)


def with_pot(kind: str, n: int, order: int) -> Callable[[], object]:
    os.environ.setdefault("POT_BACKEND_DISABLE_PYTORCH", "1")  # importing POT would otherwise import torch
    import ot

    one, other = pair(kind, n)

    def call() -> float:
        cost = np.zeros((len(one) + 1, len(other) + 1))
        cost[:-1, :-1] = np.linalg.norm(one[:, None] - other[None], axis=2) ** order
        cost[:-1, -1] = (np.diff(one)[:, 0] * np.sqrt(0.5)) ** order
        cost[-1, :-1] = (np.diff(other)[:, 0] * np.sqrt(0.5)) ** order
        mass = np.append(np.ones(len(one)), len(other)), np.append(np.ones(len(other)), len(one))
        return ot.emd2(*mass, cost, numItermax=10**7) ** (1 / order)

    return call


def with_hera(kind: str, n: int, order: int) -> Callable[[], object]:
    import gudhi.hera

    one, other = pair(kind, n)
    return lambda: gudhi.hera.wasserstein_distance(one, other, order=order, internal_p=2.0)


def with_persim(kind: str, n: int) -> Callable[[], object]:
    import persim

    one, other = pair(kind, n)
    return lambda: persim.wasserstein(one, other)


def our_bottleneck(kind: str, n: int) -> Callable[[], object]:
    one, other = pair(kind, n)
    bottleneck(one[:2], other[:2])
    return functools.partial(bottleneck, one, other)


def gudhi_bottleneck(kind: str, n: int) -> Callable[[], object]:
    import gudhi

    one, other = pair(kind, n)
    return lambda: gudhi.bottleneck_distance(one, other, 0.0)


def cases() -> list[Case]:
    """Return all comparisons, ours first."""
    found = []
    for kind in ("H0", "H1", "spread"):
        for n in SIZES:
            for order in (1, 2):
                task = f"Wasserstein of order {order}, {kind} diagrams"
                found.append(Case(task, n, "toposcope", functools.partial(ours, kind, n, order)))
                found.append(Case(task, n, "POT", functools.partial(with_pot, kind, n, order)))
                if n <= HERA_MOST:
                    found.append(Case(task, n, "gudhi hera", functools.partial(with_hera, kind, n, order)))
                if order == 1 and n <= PERSIM_MOST:
                    found.append(Case(task, n, "persim", functools.partial(with_persim, kind, n)))
            task = f"Bottleneck, {kind} diagrams"
            found.append(Case(task, n, "toposcope", functools.partial(our_bottleneck, kind, n)))
            found.append(Case(task, n, "gudhi", functools.partial(gudhi_bottleneck, kind, n)))
    return found
