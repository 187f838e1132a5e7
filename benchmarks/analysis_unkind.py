"""The verdict's test on series written to break it: python benchmarks/analysis_unkind.py [--set | --power].

Percentage of independent pairs that "add" at a nominal 5%, and in brackets of those without a verdict; with
`--power` the percentage of related pairs that are found, and of these the share at the right lag.

- The judges (the default) were written after the rules, and no constant was set on them. `--set` prints the
  generators on which the rules were set, with other random numbers.
- `--known`: the learning rate is known and constant; otherwise it is known only in the cases that say so.
- `--draws N` pairs a cell; `--only GRID`; `--case TEXT` the cases whose name has this text.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from toposcope.core.seeding import rng
from toposcope.statistics.trends import simulators as sim
from toposcope.statistics.trends.innovations import innovation_test
from toposcope.statistics.trends.row_means import RowMean
from toposcope.statistics.trends.whitening import whiten

GRIDS = {
    "51 even": np.arange(51) * 100,
    "154 even": np.arange(154) * 100,
    "154 Pythia": np.r_[0, 2 ** np.arange(10), np.arange(1000, 143_001, 1000)],
    "48 log": np.unique(np.r_[0, np.geomspace(1, 143_000, 50).round()].astype(int)),
    "300 even": np.arange(300) * 100,
}
Pairs = Callable[[np.random.Generator, np.ndarray, int], tuple[np.ndarray, np.ndarray]]


def apart(one: sim.Simulator) -> Pairs:
    """Return pairs of independent series of the same kind."""
    return lambda g, steps, draws: (one(g, steps, draws), one(g, steps, draws))


def fall(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return power laws of range 1."""
    return sim.curve(sim.power_law, 0.0)(g, steps, draws)


def spiked(share: float, high: float, noise: float = 0.02, stay: float = 0.0) -> sim.Simulator:
    """Return power laws + noise with spikes upwards at random checkpoints, exponential sizes.

    `high` is the mean height in units of the noise, `stay` what of a spike is left at the next checkpoint.
    """

    def simulate(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
        shape = (len(steps), draws)
        up = np.where(g.random(shape) < share, g.exponential(high, shape), 0.0)
        for i in range(1, len(up)):
            up[i] += stay * up[i - 1]
        return np.abs(fall(g, steps, draws)) + noise * (up + g.standard_normal(shape))

    return simulate


def skewed(power: float, noise: float = 0.03) -> sim.Simulator:
    """Return power laws + noise that is a gamma variable of this shape, less its mean."""
    return lambda g, steps, draws: (
        fall(g, steps, draws) + noise * (g.gamma(power, size=(len(steps), draws)) / power**0.5)
    )


def chirp(slow: float, fast: float, noise: float, *, power: float = 1.0) -> sim.Simulator:
    """Return waves whose period goes from `slow` to `fast` checkpoints, a phase of its own, under noise."""

    def simulate(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
        n = len(steps)
        at = np.linspace(0.0, 1.0, n) ** power
        phase = 2.0 * np.pi * np.cumsum(1.0 / slow + (1.0 / fast - 1.0 / slow) * at)[:, None]
        return np.sin(phase + g.uniform(0.0, 2.0 * np.pi, draws)) + noise * g.standard_normal((n, draws))

    return simulate


def there_and_back(fast: float, slow: float, noise: float) -> sim.Simulator:
    """Return waves whose period goes from `fast` to `slow` checkpoints by half the run, and back."""

    def simulate(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
        n = len(steps)
        away = 1.0 - np.abs(np.linspace(-1.0, 1.0, n))
        phase = 2.0 * np.pi * np.cumsum(1.0 / fast + (1.0 / slow - 1.0 / fast) * away)[:, None]
        return np.sin(phase + g.uniform(0.0, 2.0 * np.pi, draws)) + noise * g.standard_normal((n, draws))

    return simulate


def stepped(places: tuple[float, ...], noise: float, *, most_lag: float = 5.0, spread: float = 0.0) -> Pairs:
    """Return pairs that answer one learning rate: it drops tenfold at these shares of the run.

    Each series answers with a size, a power and a lag of its own. `spread` moves the drops of a pair.
    """

    def simulate(g: np.random.Generator, steps: np.ndarray, draws: int) -> tuple[np.ndarray, np.ndarray]:
        n, out = len(steps), []
        u = np.linspace(0.0, 1.0, n)
        moved = [np.array(places) + g.uniform(-spread, spread, len(places)) for _ in range(draws)]
        for _ in range(2):
            x = fall(g, steps, draws)
            for j in range(draws):
                rate = 10.0 ** -np.sum(u[:, None] >= moved[j], axis=1).astype(float)
                x[:, j] += answer(g, rate, most_lag)
            out.append(x + noise * g.standard_normal((n, draws)))
        return out[0], out[1]

    return simulate


def answer(g: np.random.Generator, rate: np.ndarray, most_lag: float) -> np.ndarray:
    """Return what a series makes of a rate: rate^power, relaxing over a lag, up to half its range."""
    out, keep = rate ** g.uniform(0.3, 2.0), np.exp(-1.0 / g.uniform(0.3, most_lag))
    for i in range(1, len(out)):
        out[i] += (out[i - 1] - out[i]) * keep
    return out / np.ptp(out) * g.uniform(0.1, 0.5) * g.choice([-1.0, 1.0])


def wild(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return power laws + log-normal noise of a wide spread, all of it upwards."""
    return fall(g, steps, draws) + 0.01 * g.lognormal(0.0, 1.5, (len(steps), draws))


def pareto(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return exponentials + 2% noise with spikes of Pareto's law (exponent 1.2) at 4% of checkpoints."""
    shape = (len(steps), draws)
    up = np.where(g.random(shape) < 0.04, 4.0 * (1.0 + g.pareto(1.2, shape)), 0.0)
    return sim.curve(sim.exponential, 0.0)(g, steps, draws) + 0.02 * (up + g.standard_normal(shape))


def log_fall(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return curves that fall as a power of one plus the steps in units of the first, of range up to 1."""
    return (1.0 + steps[:, None] / steps[1]) ** -g.uniform(0.15, 0.6, draws)


def clustered(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return power laws + 3% noise whose size follows the noise before it, GARCH(1, 1)."""
    out, size = np.zeros((len(steps), draws)), np.ones(draws)
    for i in range(len(steps)):
        size = 0.05 + 0.25 * (out[i - 1] if i else 0.0) ** 2 + 0.7 * size
        out[i] = np.sqrt(size) * g.standard_normal(draws)
    return log_fall(g, steps, draws) + 0.03 * out


def quickening(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return power laws + 1.5% noise with waves of 5% whose frequency grows by exp(1.2), from period 10."""
    n = len(steps)
    phase = 2.0 * np.pi * n / 10.0 * np.expm1(1.2 * np.linspace(0.0, 1.0, n))[:, None] / 1.2
    waves = 0.05 * np.sin(phase + g.uniform(0.0, 2.0 * np.pi, draws))
    return log_fall(g, steps, draws) + waves + 0.015 * g.standard_normal((n, draws))


def dropped(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return power laws + 1% noise that all drop at once at .62 of the run, by .18 to .42."""
    late = np.linspace(0.0, 1.0, len(steps))[:, None] > 0.62
    drop = late * 0.3 * g.uniform(0.6, 1.4, draws)
    return log_fall(g, steps, draws) - drop + 0.01 * g.standard_normal((len(steps), draws))


def running(kind: sim.Simulator, width: int) -> sim.Simulator:
    """Return running means over the last `width` rows, fewer at the start."""
    mean = RowMean(width=width)
    return lambda g, steps, draws: mean.of(kind(g, steps, draws).T).T


def restarts(noise: float) -> Pairs:
    """Return pairs that answer one cosine rate with two warm restarts at places of their own."""

    def simulate(g: np.random.Generator, steps: np.ndarray, draws: int) -> tuple[np.ndarray, np.ndarray]:
        n = len(steps)
        u, x, y = np.linspace(0.0, 1.0, n), fall(g, steps, draws), fall(g, steps, draws)
        for j in range(draws):
            ends = np.r_[0.0, np.sort(g.uniform(0.2, 0.9, 2)), 1.0 + 1e-9]
            at = np.searchsorted(ends, u, side="right") - 1
            part = (u - ends[at]) / (ends[at + 1] - ends[at])
            rate = 0.05 + 0.475 * (1.0 + np.cos(np.pi * part))
            for z in (x, y):
                z[:, j] += answer(g, rate, 3.0)
        x, y = (z + noise * g.standard_normal((n, draws)) for z in (x, y))
        return x, y

    return simulate


SET: dict[str, Pairs] = {
    "spikes up at 3%, x 10": apart(spiked(0.03, 10.0)),
    "spikes up at 8%, x 20": apart(spiked(0.08, 20.0)),
    "skewed noise, gamma 1": apart(skewed(1.0)),
    "EMA .9 of power laws + 10%": apart(sim.exponential_mean(0.9, sim.curve(sim.power_law, 0.1))),
    "power laws without noise": apart(sim.curve(sim.power_law, 0.0)),
    "exponentials without noise": apart(sim.curve(sim.exponential, 0.0)),
    "chirps of 20 to 4": apart(chirp(20.0, 4.0, 0.3)),
    "chirps of 12 to 5": apart(chirp(12.0, 5.0, 0.1)),
    "rate drops at .5, noise 1%": stepped((0.5,), 0.01, spread=0.2),
    "rate drops at .5, noise .2%": stepped((0.5,), 0.002, spread=0.2),
    "rate drops at .4 and .75, noise 1%": stepped((0.4, 0.75), 0.01, spread=0.05),
    "rate drops at .4 and .75, noise .2%": stepped((0.4, 0.75), 0.002, spread=0.05),
}


def lead(r: float, lag: int, kind: str = "white") -> Pairs:
    """Return power laws whose noise, 5%, is correlated by r, the first's `lag` checkpoints before."""

    def simulate(g: np.random.Generator, steps: np.ndarray, draws: int) -> tuple[np.ndarray, np.ndarray]:
        n, reach = len(steps), abs(lag)
        a, b = g.standard_normal((2, n + 2 * reach, draws))
        b = r * a + np.sqrt(1.0 - r * r) * b
        a, b = a[reach : reach + n], b[reach - lag : reach - lag + n]
        if kind == "walk":
            a, b = (z / z.std() for z in (np.cumsum(a, axis=0), np.cumsum(b, axis=0)))
        return fall(g, steps, draws) + 0.05 * a, fall(g, steps, draws) + 0.05 * b

    return simulate


def first_third(r: float) -> Pairs:
    """Return power laws whose noise, 5%, is correlated by r in the first third of the checkpoints alone."""

    def simulate(g: np.random.Generator, steps: np.ndarray, draws: int) -> tuple[np.ndarray, np.ndarray]:
        n = len(steps)
        a, b = g.standard_normal((2, n, draws))
        early = (np.arange(n) < n / 3)[:, None]
        b = np.where(early, r * a + np.sqrt(1.0 - r * r) * b, b)
        return fall(g, steps, draws) + 0.05 * a, fall(g, steps, draws) + 0.05 * b

    return simulate


def transitions(wide: float, noise: float = 0.01) -> Pairs:
    """Return power laws with one sigmoid at the same place, `wide` checkpoints, sizes of their own."""

    def simulate(g: np.random.Generator, steps: np.ndarray, draws: int) -> tuple[np.ndarray, np.ndarray]:
        n = len(steps)
        at = g.uniform(0.2, 0.85, draws) * n
        up = 1.0 / (1.0 + np.exp(-np.clip((np.arange(n)[:, None] - at) / (wide / 4.0), -50, 50)))
        x, y = (
            fall(g, steps, draws)
            + g.uniform(0.2, 0.6, draws) * g.choice([-1.0, 1.0], draws) * up
            + noise * g.standard_normal((n, draws))
            for _ in range(2)
        )
        return x, y

    return simulate


def both_spike(share: float, high: float) -> Pairs:
    """Return power laws + 2% noise with common spikes upwards."""

    def simulate(g: np.random.Generator, steps: np.ndarray, draws: int) -> tuple[np.ndarray, np.ndarray]:
        shape = (len(steps), draws)
        up = np.where(g.random(shape) < share, high, 0.0)
        x, y = (fall(g, steps, draws) + 0.02 * (up + g.standard_normal(shape)) for _ in range(2))
        return x, y

    return simulate


POWER: dict[str, tuple[Pairs, int]] = {
    **{
        f"r = {r}, {kind} noise": (lead(r, 0, kind), 0)
        for r in (0.3, 0.5, 0.7) for kind in ("white", "walk")
    },
    **{f"r = {r}, {lag} ahead": (lead(r, lag), lag) for r in (0.5, 0.7, 0.9) for lag in (1, 2)},
    "r = 0.9, 1 behind": (lead(0.9, -1), -1),
    "r = 0.9, walk noise, 1 ahead": (lead(0.9, 1, "walk"), 1),
    "r = 0.9 in the first third": (first_third(0.9), 0),
    "one transition over 3": (transitions(3.0), 0),
    "one transition over 8": (transitions(8.0), 0),
    "common spikes of 8 sigma at 5%": (both_spike(0.05, 8.0), 0),
    "common spikes of 8 sigma at 10%": (both_spike(0.1, 8.0), 0),
}  # fmt: skip
JUDGES: dict[str, Pairs] = {
    "spikes of Pareto's law at 4%": apart(pareto),
    "spikes up at 5%, x 15, half stays": apart(spiked(0.05, 15.0, stay=0.5)),
    "log-normal noise": apart(wild),
    "gamma noise, shape .3": apart(skewed(0.3)),
    "EMA .95 of exponentials + 5%": apart(sim.exponential_mean(0.95, sim.curve(sim.exponential, 0.05))),
    "means of 10 rows, power laws + 3%": apart(running(sim.curve(sim.power_law, 0.03), 10)),
    "EMA .8 of power laws + 1%": apart(sim.exponential_mean(0.8, sim.curve(sim.power_law, 0.01))),
    "two exponentials without noise": apart(sim.curve(sim.two_exponentials, 0.0)),
    "late power laws without noise": apart(sim.curve(sim.shifted_power_law, 0.0)),
    "log sigmoids without noise": apart(sim.curve(sim.log_sigmoid, 0.0)),
    "chirps of 5 to 25": apart(chirp(5.0, 25.0, 0.2)),
    "chirps of 16 to 6, late": apart(chirp(16.0, 6.0, 0.5, power=2.0)),
    "chirps of 30 to 3, early": apart(chirp(30.0, 3.0, 0.2, power=0.5)),
    "swings of 6 to 15 and back": apart(there_and_back(6.0, 15.0, 0.3)),
    "chirps of 10 to 3, exponential": apart(quickening),
    "noise of clustered sizes, GARCH": apart(clustered),
    "one sharp drop at .62, noise 1%": apart(dropped),
    "rate drops thrice, noise .5%": stepped((0.3, 0.6, 0.85), 0.005, spread=0.08),
    "rate drops late, slow answer, noise 1%": stepped((0.8,), 0.01, most_lag=12.0, spread=0.1),
    "warm restarts, noise 1%": restarts(0.01),
    "warm restarts, noise .2%": restarts(0.002),
}
KNOWN: dict[str, tuple[Pairs, tuple[float, ...]]] = {
    "rate drops at .55, known, noise 1%": (stepped((0.55,), 0.01), (0.55,)),
    "rate drops at .55, known, noise .2%": (stepped((0.55,), 0.002), (0.55,)),
    "rate drops at .35 and .7, known, noise .5%": (stepped((0.35, 0.7), 0.005), (0.35, 0.7)),
}
"""The same rate for all pairs, which the test is told."""


def cell(
    name: str, make: Pairs, steps: np.ndarray, draws: int, drops: tuple[float, ...] = (), known: bool = False
) -> str:
    """Return the percent of pairs that add, in brackets that have no verdict, and the lags of those found.

    With `known` the learning rate is, and is constant.
    """
    g = rng(name="unkind", case=name, n=len(steps), draw=draws)
    x, y = make(g, steps, draws)
    rate = None
    if drops:
        u = np.linspace(0.0, 1.0, len(steps))
        rate = 10.0 ** -np.sum(u[:, None] >= np.array(drops), axis=1).astype(float)
    test = innovation_test(
        whiten(x, steps, rate), whiten(y, steps, rate), intervals=False, rate_known=known or bool(drops)
    )
    adds, unsaid = test.found, test.silent
    lags = np.bincount(test.lag[adds] + 2, minlength=5) / max(adds.sum(), 1)
    said = "" if not adds.any() else " ".join(f"{100 * part:.0f}" for part in lags)
    return f"{100 * adds.mean():.1f} ({100 * unsaid.mean():.0f}) {said}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--only", choices=list(GRIDS))
    parser.add_argument("--case", default="")
    parser.add_argument("--set", action="store_true")
    parser.add_argument("--power", action="store_true")
    parser.add_argument("--known", action="store_true")
    options = parser.parse_args()
    grids = GRIDS if options.only is None else {options.only: GRIDS[options.only]}
    cases: dict[str, tuple[Pairs, tuple[float, ...]]] = {name: (make, ()) for name, make in JUDGES.items()}
    cases |= KNOWN
    if options.set:
        cases = {name: (make, ()) for name, make in SET.items()}
    if options.power:
        cases = {name: (make, ()) for name, (make, _) in POWER.items()}
    print(f"{options.draws} pairs a cell: percent that add (no verdict), of these at lags -2 -1 0 1 2")
    for name, (make, drops) in cases.items():
        if options.case in name:
            cells = (
                cell(name, make, steps.astype(float), options.draws, drops, options.known)
                for steps in grids.values()
            )
            for grid, text in zip(grids, cells, strict=True):
                print(f"{name:44}{grid:12}{text}", flush=True)


if __name__ == "__main__":
    main()
