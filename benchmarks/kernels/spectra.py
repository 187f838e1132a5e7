"""Baselines of large matrices beside numpy's SVD: seconds of one core, and the error of each value.

    python -m benchmarks.kernels.spectra [--side 2048] [--rows 2048] [--draws 3]

One line for each kind of spectrum. It has the processor time of `large_baselines` (everything it returns)
beside that of `numpy.linalg.svd` without vectors. Errors are relative, the largest over the draws; beside
each is the error that the value itself stated. One process, one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

from toposcope.topology.baselines import effective_rank, spectral_slope
from toposcope.topology.spectra import large_baselines

FEATURES = ("spectral_norm", "stable_rank", "rankme", "rankme_eigenvalues", "alpha_req")


def spectra(rows: int, side: int) -> dict[str, Callable[[], np.ndarray]]:
    """Return makers of matrices (rows, side), by kind of spectrum."""
    rng = np.random.default_rng(0)
    k = np.arange(1.0, side + 1)

    def noise() -> np.ndarray:
        return rng.standard_normal((rows, side)).astype(np.float32)

    def of(sigma: np.ndarray) -> np.ndarray:
        left, right = (np.linalg.qr(rng.standard_normal((n, len(sigma))))[0] for n in (rows, side))
        return ((left * sigma) @ right.T).astype(np.float32)

    return {
        "noise": noise,
        "power law 0.5": lambda: of(k**-0.5),
        "power law 1": lambda: of(1 / k),
        "flat": lambda: of(np.ones(side)),
        "rank 64 + noise": lambda: noise() + of(np.full(64, 5 * np.sqrt(rows))),
        "spiked": lambda: of(np.r_[30.0, 20.0, 10.0, np.ones(side - 3)]),
        "rank 8": lambda: of(np.linspace(1, 2, 8)),
    }


def exact(W: np.ndarray) -> tuple[dict[str, float], float]:
    """Return the values by full decompositions in float64, and the seconds of the one SVD of W."""
    start = time.thread_time()
    sigma = np.linalg.svd(W.astype(np.float64), compute_uv=False)
    seconds = time.thread_time() - start
    centred = np.linalg.svd(W.astype(np.float64) - W.mean(axis=0, dtype=np.float64), compute_uv=False)
    eigenvalues = centred**2 / (len(W) - 1)
    return {
        "spectral_norm": float(sigma[0]),
        "stable_rank": float((sigma**2).sum() / sigma[0] ** 2),
        "rankme": effective_rank(sigma, offset=1e-7),
        "rankme_eigenvalues": effective_rank(eigenvalues),
        "alpha_req": spectral_slope(eigenvalues, 1, 50),
    }, seconds


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--side", type=int, default=2048)
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--draws", type=int, default=3)
    options = parser.parse_args()
    print("| spectrum | SVD / ours | " + " | ".join(FEATURES) + " |")
    print("| --- | ---: |" + " ---: |" * len(FEATURES))
    with threadpool_limits(limits=1):
        for kind, make in spectra(options.rows, options.side).items():
            W = make()
            true, svd = exact(W)
            start = time.thread_time()
            found = [large_baselines(W, rng=np.random.default_rng(k)) for k in range(options.draws)]
            ours = (time.thread_time() - start) / options.draws
            cells = []
            for feature in FEATURES:
                off = max(abs(one[feature].value / true[feature] - 1) for one in found)
                stated = max(one[feature].error for one in found)
                cells.append(f"{off:.0e} ({stated:.0e})")
            print(
                f"| {kind} | {svd:.1f} s / {ours:.2f} s = {svd / ours:.0f} | {' | '.join(cells)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
