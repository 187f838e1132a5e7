"""The verdict's rate when both series answer the learning rate: python benchmarks/analysis_schedule.py.

Pairs are independent power laws (range 1) with independent white noise. Each also answers the same schedule:
a power of the learning rate that relaxes over a lag. Power and lag are random for each series, the amplitude
is at most the stated one. 51 even checkpoints, or `--checkpoints`. If the learning rate is unknown, a
rejection is due to a shared cause; if it is known, the test should not reject. `--nulls` prints instead how
often pairs of the judging nulls, which answer no learning rate, are found beside each of four known rates.
`--drops` prints how often pairs are found that answer one to three drops of a known rate, each with a lag of
its own, and in brackets pairs whose noise has r = .5.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from toposcope.core.seeding import rng
from toposcope.statistics.trends import simulators as sim
from toposcope.statistics.trends._nulls import NULLS
from toposcope.statistics.trends.held_out_nulls import HELD_OUT_NULLS
from toposcope.statistics.trends.innovations import innovation_test
from toposcope.statistics.trends.whitening import whiten


def series(
    generator: np.random.Generator, draws: int, amplitude: float, noise: float, share: np.ndarray
) -> np.ndarray:
    """Return the columns (n, draws) of one side of the pairs, at these shares of the run."""
    n = len(share)
    trend = np.arange(1.0, n + 1.0)[:, None] ** -generator.uniform(0.1, 1.5, draws)
    trend = (trend - trend.min(axis=0)) / np.ptp(trend, axis=0) * generator.choice([-1.0, 1.0], draws)
    wave = 0.5 * (1.0 + np.cos(np.pi * share))[:, None] * generator.uniform(0, amplitude, draws)
    signed = wave * generator.choice([-1.0, 1.0], draws)
    return trend + signed + noise * generator.standard_normal((n, draws))


def rates(share: np.ndarray) -> dict[str, np.ndarray]:
    """Return learning rates at these shares of the run."""
    return {
        "cosine": 0.5 * (1.0 + np.cos(np.pi * share)),
        "linear decay of the last fifth": np.minimum(1.0, (1.0 - share) / 0.2),
        "two drops by ten": np.where(share < 0.5, 1.0, np.where(share < 0.8, 0.1, 0.01)),
    }


def response(rate: np.ndarray, power: float, lag: float) -> np.ndarray:
    """Return what a series makes of a learning rate: rate^power, relaxing over `lag` checkpoints."""
    out = rate**power
    for i in range(1, len(out)):
        out[i] += (out[i - 1] - out[i]) * np.exp(-1.0 / lag)
    return out / np.ptp(out)


def shared_drop(
    generator: np.random.Generator, draws: int, rate: np.ndarray, amplitude: float, noise: float
) -> np.ndarray:
    """Return power laws plus a response to the learning rate: size, power and lag of its own."""
    left = [
        response(rate, generator.uniform(0.5, 2.0), generator.uniform(0.3, 5.0))
        * generator.uniform(0.2, 1.0) * generator.choice([-1.0, 1.0]) * amplitude
        for _ in range(draws)
    ]  # fmt: skip
    share = np.linspace(0.0, 1.0, len(rate))
    return series(generator, draws, 0.0, noise, share) + np.stack(left, axis=1)


def own_answers(generator: np.random.Generator, draws: int, n: int, places: Sequence[float]) -> np.ndarray:
    """Return power laws (n, draws) that answer each drop with a size and a lag of its own.

    An answer is the mean of two relaxations, the second three times as slow, so that no single lag fits it.
    """
    trend = np.arange(1.0, n + 1.0)[:, None] ** -generator.uniform(0.1, 1.5, draws)
    out = (trend - trend.min(axis=0)) / np.ptp(trend, axis=0)
    for place in places:
        since = np.maximum(np.arange(n) - place * (n - 1), 0.0)[:, None]
        lag = np.exp(generator.uniform(np.log(0.5), np.log(5.0), draws)) * n / 51
        answer = 1 - (np.exp(-since / lag) + np.exp(-since / (3 * lag))) / 2
        out = out - generator.uniform(0.02, 0.3, draws) * answer
    return out


def of_drops(draws: int) -> None:
    """Print what is found of pairs that answer one to three drops by 70%, at 51 and 26 checkpoints."""
    for places in ((0.55,), (0.35, 0.7), (0.25, 0.5, 0.75)):
        for noise in (0.002, 0.01):
            cells = []
            for n in (51, 26):
                steps, at = np.arange(n) * 100.0, np.arange(n) / (n - 1)
                rate = 0.3 ** np.sum([at > place for place in places], axis=0)
                found = []
                for r in (0.0, 0.5):
                    g = rng(name="own lags", step=len(places), draw=round(1000 * noise), n=n)
                    first, second = (own_answers(g, draws, n, places) for _ in range(2))
                    white = g.standard_normal((2, n, draws))
                    white[1] = r * white[0] + np.sqrt(1 - r * r) * white[1]
                    x, y = (
                        whiten(first + noise * white[0], steps, rate),
                        whiten(second + noise * white[1], steps, rate),
                    )
                    found.append(np.mean(innovation_test(x, y, intervals=False, rate_known=True).found))
                cells.append(f"{n}: {found[0]:6.1%} ({found[1]:.1%})")
            print(f"{len(places)} drops, noise {noise:.1%}  ", *cells, flush=True)


def of_nulls(draws: int, steps: np.ndarray) -> None:
    """Print what is found of pairs of each null beside a known learning rate, on average and at most."""
    share = steps / steps[-1]
    known = rates(share) | {"warmup and cosine": rates(share)["cosine"] * np.minimum(share / 0.1, 1.0)}
    for name, rate in known.items():
        found = {}
        for case, simulate in (NULLS | HELD_OUT_NULLS).items():
            g = rng(name=f"{name} beside nulls", null=case, n=len(steps), draw=draws)
            x, y = (whiten(sim.at_steps(simulate, g, steps, draws), steps, rate) for _ in range(2))
            found[case] = 100 * float(np.mean(innovation_test(x, y, intervals=False, rate_known=True).found))
        most = sorted(found, key=found.__getitem__)[:-4:-1]
        worst = ", ".join(f"{case} {found[case]:.1f}" for case in most)
        print(f"{name:32} {np.mean(list(found.values())):.1f}% on average; most: {worst}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nulls", action="store_true")
    parser.add_argument("--drops", action="store_true")
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--checkpoints", type=int, default=51)
    options = parser.parse_args()
    draws, steps = options.draws, np.arange(options.checkpoints) * 100.0
    if options.drops:
        return of_drops(draws)
    if options.nulls:
        return of_nulls(draws, steps)
    print(
        f"rejections at a nominal 5%, {draws:,} pairs: rate not known, rate known (in brackets: no verdict)"
    )
    for name, rate in rates(steps / steps[-1]).items():
        for amplitude in (0.1, 0.5):
            for noise in (0.05, 0.01):
                generator = rng(name=f"{name} pairs", step=round(amplitude * 100), draw=round(noise * 100))
                x, y = (shared_drop(generator, draws, rate, amplitude, noise) for _ in range(2))
                cells = []
                for given in (None, rate):
                    test = innovation_test(
                        whiten(x, steps, given), whiten(y, steps, given),
                        intervals=False, rate_known=given is not None,
                    )  # fmt: skip
                    cells.append(f"{np.mean(test.found):8.1%} ({np.mean(test.silent):.0%})")
                print(f"{name:32} up to {amplitude:.1f}, noise {noise:.0%} {cells[0]:>16}{cells[1]:>16}")


if __name__ == "__main__":
    main()
