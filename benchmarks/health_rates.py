"""How often a healthy log is called unhealthy, and a fault found: python -m benchmarks.health_rates DATA.

DATA holds seed_runs/ and curves/. Four tables: real runs, each read at 20, 35, 50, 75 and 100% of its steps,
with its plan of the learning rate; simulated families, read in the same way; falling laws with kinds of noise
on which no constant of `toposcope.rules` was set (correlated, heavy tails, waves,
levels that neighbours share, a walk); faults planted in healthy logs.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.signal import lfilter
from scipy.stats import binomtest

from benchmarks.forecast_families import simulated
from benchmarks.forecast_laws import LAWS
from benchmarks.watch_curves import tables
from toposcope.core.seeding import rng
from toposcope.rules.registry import assess, rules

FIRST = 900
"""The first draw of a family: none that the rule was set on."""
READ = (0.2, 0.35, 0.5, 0.75, 1.0)
LENGTHS = (8, 12, 20, 39, 60, 150, 600, 3000)
Noise = Callable[[np.random.Generator, int], np.ndarray]


def _kept(memory: float, shocks: float) -> Noise:
    return lambda random, n: lfilter([1.0], [1.0, -memory], shocks * random.standard_normal(n))


NOISES: Mapping[str, Noise] = {
    "independent, 1%": lambda random, n: 0.01 * random.standard_normal(n),
    "independent, 10%": lambda random, n: 0.1 * random.standard_normal(n),
    "memory .9, 7%": _kept(0.9, 0.03),
    "memory .99, 7%": _kept(0.99, 0.01),
    "Student's t of two, x 2%": lambda random, n: 0.02 * random.standard_t(2, n),
    "Laplace, 7%": lambda random, n: 0.05 * random.laplace(size=n),
    "walk, .3% a loss": lambda random, n: np.cumsum(0.003 * random.standard_normal(n)),
    "3.3 waves of 5%": lambda random, n: (
        0.05 * np.sin(np.arange(n) * 2 * np.pi * 3.3 / n + random.uniform(0, 2 * np.pi))
    ),
    "tens share a level, 5%": lambda random, n: 0.05 * np.repeat(random.standard_normal(n // 10 + 1), 10)[:n],
}


def falling(random: np.random.Generator, count: int, noise: Noise, *, even: bool) -> pd.DataFrame:
    """Return a log of `count` losses that fall as a power of the step, times exp(noise)."""
    places = np.linspace(1, 20_000, count) if even else np.geomspace(1, 20_000, count)
    step = np.unique(places.astype(int))
    loss = (2 + 6 * step**-0.35) * np.exp(noise(random, len(step)))
    return pd.DataFrame({"step": step, "loss": loss})


def _jump(log: pd.DataFrame, share: float) -> None:
    log.loc[len(log) - max(3, int(share * len(log))) :, "loss"] *= 2.0


def _climb(log: pd.DataFrame, share: float) -> None:
    last = max(4, int(share * len(log)))
    log.loc[len(log) - last :, "loss"] *= np.geomspace(1, 2, last)


def _lost(log: pd.DataFrame, count: int) -> None:
    log.loc[len(log) - count :, "loss"] = np.nan
    log["learning_rate"] = 1e-3


FAULTS: Mapping[str, tuple[str, Callable[[pd.DataFrame], None]]] = {
    "the last 2% twice as high": ("diverging", lambda log: _jump(log, 0.02)),
    "the last tenth twice as high": ("diverging", lambda log: _jump(log, 0.1)),
    "climbs to twice over the last tenth": ("diverging", lambda log: _climb(log, 0.1)),
    "climbs to twice over the last quarter": ("diverging", lambda log: _climb(log, 0.25)),
    "the last loss is NaN": ("not finite", lambda log: _lost(log, 1)),
}


def readings(log: pd.DataFrame) -> Iterator[list[str]]:
    """Yield what is said of a run at each of its readings."""
    last, rate = float(log["step"].max()), np.empty(0)
    if "learning_rate" in log:
        rate = log["learning_rate"].to_numpy(float)
    falls = len(rate) > 0 and rate[-1] < 0.9 * rate.max()
    for part in READ:
        seen = log[log["step"] <= part * last]
        yield [symptom.kind for symptom in assess(seen, horizon=last, anneals=falls and part < 1)]


def share(found: int, of: int) -> str:
    """Return a share with its 95% interval by Wilson."""
    low, high = binomtest(found, of).proportion_ci(method="wilson")
    return f"{found} of {of} = {found / of:.1%} [{low:.1%}, {high:.1%}]"


def families(draws: int) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the law and the log of every run of simulated families."""
    for kind in LAWS:
        for draw in range(FIRST, FIRST + draws):
            for curve in simulated(kind, draw):
                yield (
                    kind,
                    pd.DataFrame({"step": curve.step, "loss": curve.loss, "learning_rate": curve.rate}),
                )


def of_curves(runs: Iterable[tuple[str, pd.DataFrame]], what: str) -> None:
    """Print what is said of whole runs and their beginnings."""
    said = [(name, kinds) for name, log in runs for kinds in readings(log)]
    print(f"{what}: {len(said) // len(READ)} runs")
    for kind in (kind for rule in rules() for kind in rule.kinds or (rule.name,)):
        where = Counter(name for name, kinds in said if kind in kinds)
        of = ", ".join(f"{name} {count}" for name, count in where.most_common())
        print(f"  {kind:22s} {share(where.total(), len(said)):38s} {of}")


def logs(name: str, count: int, draws: int, **axes: str) -> Iterator[pd.DataFrame]:
    """Yield healthy logs of `count` losses with the noise `name`, on even steps and on log-spaced ones."""
    for draw in range(draws):
        random = rng(name="health noise", noise=name, count=count, draw=draw, **axes)
        yield falling(random, count, NOISES[name], even=bool(draw % 2)).reset_index(drop=True)


def called(some: Iterable[pd.DataFrame], kind: str) -> int:
    """Return in how many logs `kind` is found."""
    return sum(any(symptom.kind == kind for symptom in assess(log)) for log in some)


def row(cells: Mapping[int, int], draws: int) -> str:
    """Return the share of each length."""
    return " ".join(f"{count}: {found / draws:.0%}" for count, found in cells.items())


def of_falling(draws: int) -> None:
    """Print how often a law that only falls is called diverging."""
    print("\nfalling laws, called diverging")
    for name in NOISES:
        cells = {count: called(logs(name, count, draws), "diverging") for count in LENGTHS}
        every = share(sum(cells.values()), draws * len(cells))
        print(f"  {name:24s} {every:38s} {row(cells, draws)}")


def of_faults(draws: int) -> None:
    """Print how often a planted fault is found."""
    print("\nfaults, found")
    for fault, (kind, hurt) in FAULTS.items():
        for name in ("independent, 1%", "independent, 10%"):
            cells = {}
            for count in LENGTHS[1:]:
                hit = list(logs(name, count, draws, fault=fault))
                for log in hit:
                    hurt(log)
                cells[count] = called(hit, kind)
            print(f"  {fault:38s} {name:16s} {row(cells, draws)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--families", type=int, default=6, help="drawn of each law")
    options = parser.parse_args()
    of_curves(tables(options.data), "real")
    of_curves(families(options.families), "\nsimulated")
    of_falling(options.draws)
    of_faults(options.draws)


if __name__ == "__main__":
    main()
