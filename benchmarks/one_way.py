"""A trial: could the search find one gentle rise between two levels? python -m benchmarks.one_way.

The statistic is the log of a Bayes factor. The change is a logistic move between two flat levels of at least
eight checkpoints each, in the noise models of `phases.noise`. The alternatives without a change are the
falling curves and gentle waves of the search, each of seven amplitudes, in the same noise, and cosine
schedules that begin in the first fifth. The search's own simulated series without a change give the
threshold: the largest of the three references' quantiles. Prints the share of series beyond those for 5, 2.5
and 1%, on 51 even steps: of rises, of schedules, and of the nulls of `analysis_segments`. `--no-schedules`
leaves cosines out of the null.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from scipy.linalg import toeplitz
from scipy.special import logsumexp

from benchmarks.analysis_segments import EVEN, blind, gentle, plain
from toposcope.statistics.phases.bends import AMPLITUDES
from toposcope.statistics.phases.curves import _principal, design, falling_curves
from toposcope.statistics.phases.noise import VARIANCE, covariances
from toposcope.statistics.phases.simulated import autoregressions, gentle_series, plain_series, unkind_series

STEPS = EVEN
N = len(STEPS) - 1
PART = np.linspace(0.0, 1.0, N + 1)
LEAST = 8
"""Checkpoints of either level."""
RATES = (0.05, 0.025, 0.01)
COUNTS = (1500, 1000, 1000)
_AT_ONCE = 200
_HEIGHTS = AMPLITUDES[2:]
"""Of a move, in standard deviations of one change."""


def logistic(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return moves (d, N + 1), a tenth done at the starts and nine tenths at the ends, in checkpoints."""
    part = 2.0 * (np.arange(N + 1.0) - starts[:, None]) / (ends - starts)[:, None] - 1.0
    return np.asarray(1.0 / (1.0 + np.exp(-np.log(9.0) * np.clip(part, -50.0, 50.0))))


def moves() -> np.ndarray:
    starts, ends = np.triu_indices(N + 1, 3)
    kept = (starts >= LEAST) & (ends <= N - LEAST) & (starts % 2 == 0) & (ends % 2 == 0)
    return np.diff(logistic(starts[kept], ends[kept]), axis=1)


def schedules() -> np.ndarray:
    """Return the changes of half cosines from some share of the run to its end."""
    part = np.clip(
        (PART - np.linspace(0.0, 0.2, 9)[:, None]) / (1.0 - np.linspace(0.0, 0.2, 9)[:, None]), 0, 1
    )
    return np.diff(0.5 * (1.0 - np.cos(np.pi * part)), axis=1)


class Test:
    """The statistic on 51 even steps, and what it is without a change."""

    def __init__(self, *, schedules_too: bool = True) -> None:
        grid, (shape, size) = design(STEPS), _principal(falling_curves(STEPS))
        line = PART - 0.5
        trend = np.column_stack([shape * size / np.sqrt(np.sum(size**2)), line / np.linalg.norm(line)])
        trend = np.diff(trend * np.sqrt(N + 1), axis=0).T
        self.moves, self.schedules = moves(), schedules() if schedules_too else None
        self.null, self.noise = [], []
        for model, variance in enumerate(VARIANCE):
            cov = toeplitz(covariances(model, N))
            self.noise.append(_white(cov))
            waves, trends = variance * grid.gentle.T @ grid.gentle, variance * trend.T @ trend
            self.null += [
                _white(cov + a * a * waves + b * b * trends) for a in AMPLITUDES for b in AMPLITUDES
            ]
        sorts = zip((plain_series, unkind_series, gentle_series), COUNTS, strict=True)
        known = [self.of(make(STEPS, count)) for make, count in sorts]
        self.thresholds = [max(float(np.quantile(one, 1.0 - rate)) for one in known) for rate in RATES]

    def of(self, series: np.ndarray) -> np.ndarray:
        """Return the statistic of many series (m, N + 1)."""
        parts = [series[at : at + _AT_ONCE] for at in range(0, len(series), _AT_ONCE)]
        return np.concatenate([self._of(np.diff(part, axis=1)) for part in parts])

    def _of(self, changes: np.ndarray) -> np.ndarray:
        changes = changes / np.sqrt(np.mean(changes**2, axis=1, keepdims=True))
        null = np.stack([
            -0.5 * (log_det + N * np.log(np.sum((changes @ white.T) ** 2, axis=1)))
            for white, log_det in self.null
        ])  # fmt: skip
        against = _mean(null, (0,))
        if self.schedules is not None:
            against = np.logaddexp(against, self._with(changes, self.schedules)) - np.log(2.0)
        return self._with(changes, self.moves) - against

    def _with(self, changes: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the log likelihood of one of the rows, of any height, in any of the noises."""
        out = []
        for (white, log_det), variance in zip(self.noise, VARIANCE, strict=True):
            z, made = changes @ white.T, rows @ white.T
            whole, room = np.sum(z * z, axis=1)[:, None], np.sum(made * made, axis=1)
            taken = (z @ made.T) ** 2 / room
            for height in _HEIGHTS:
                known = height**2 * variance * room
                left = np.maximum(whole - taken * known / (1.0 + known), 1e-13 * whole)
                out.append(-0.5 * (log_det + np.log(1.0 + known) + N * np.log(left)))
        return _mean(np.stack(out), (0, 2))


def _white(cov: np.ndarray) -> tuple[np.ndarray, float]:
    factor = np.linalg.cholesky(cov)
    return np.linalg.inv(factor), float(2.0 * np.log(np.diag(factor)).sum())


def _mean(logs: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return np.asarray(logsumexp(logs, axis=axes) - np.log(np.prod([logs.shape[axis] for axis in axes])))


def scheduled(draws: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield what a schedule does to a series: plain cosines, and a warm-up before one, had been seen."""
    g, one = np.random.default_rng(93), (draws, 1)

    def noise() -> np.ndarray:
        return g.standard_normal((draws, N + 1))

    def averaged(series: np.ndarray, keep: float) -> np.ndarray:
        out = series.copy()
        for i in range(1, N + 1):
            out[:, i] = keep * out[:, i - 1] + (1.0 - keep) * series[:, i]
        return out

    cosine = 0.5 * (1.0 + np.cos(np.pi * PART))
    power = (1.0 + N * PART) ** -g.uniform(0.2, 1.0, one)
    power = power / np.ptp(power, axis=1)[:, None]
    for size in (0.1, 0.02, 0.005):
        yield f"cosine schedule + {size:.1%} noise", cosine + size * noise()
    yield "cosine schedule, moving mean .9, 2% noise", averaged(cosine + 0.02 * noise(), 0.9)
    yield "cosine schedule + power law, 2% noise", g.uniform(0.2, 1.0, one) * cosine + power + 0.02 * noise()
    yield "cosine schedule + 3% noise AR(1) .7", cosine + 0.03 * autoregressions(noise(), np.full(draws, 0.7))
    yield (
        "warm-up, then cosine, 2% noise",
        np.minimum(PART / g.uniform(0.02, 0.1, one), 1) * cosine + 0.02 * noise(),
    )
    yield "polynomial schedule + 2% noise", (1.0 - PART) ** g.uniform(0.5, 3.0, one) + 0.02 * noise()
    yield (
        "linear schedule to a floor, 2% noise",
        np.maximum(1 - PART / g.uniform(0.6, 1, one), 0) + 0.02 * noise(),
    )
    yield "square of a power law + 2% noise", power**2 + 0.02 * noise()
    yield (
        "cosine of half a period, any phase, 2% noise",
        np.cos(np.pi * (PART + g.uniform(0, 2, one))) + 0.02 * noise(),
    )
    yield (
        "wave of .75 periods + 5% noise",
        0.5 * np.sin(2 * np.pi * (0.75 * PART + g.random(one))) + 0.05 * noise(),
    )


def rises(draws: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield moves of height 1 over 15 to 25 checkpoints (10 to 90%) about the middle."""
    g = np.random.default_rng(92)
    for size in (0.01, 0.05, 0.1, 0.2):
        for phi in (0.0, 0.7):
            width, middle = g.uniform(15, 25, draws), g.uniform(22, 28, draws)
            noise = autoregressions(g.standard_normal((draws, N + 1)), np.full(draws, phi))
            move = logistic(middle - width / 2, middle + width / 2)
            yield (
                f"rise over 15 to 25, noise {size:.0%} AR(1) {phi:g}",
                move + size * np.sqrt(1 - phi**2) * noise,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--no-schedules", action="store_true")
    options = parser.parse_args()
    draws, test = options.draws, Test(schedules_too=not options.no_schedules)
    print("thresholds", *(f"{rate:.1%}: {at:.2f}" for rate, at in zip(RATES, test.thresholds, strict=True)))
    cases = [
        *rises(draws),
        *scheduled(draws),
        *gentle(STEPS, draws),
        *plain(STEPS, draws),
        *blind(STEPS, draws),
    ]
    for name, series in cases:
        value = test.of(series)
        shares = "".join(f"{100.0 * np.mean(value > at):7.1f}" for at in test.thresholds)
        print(f"{name:52}{shares}", flush=True)


if __name__ == "__main__":
    main()
