"""How often the search for bends is wrong, and what it finds: python benchmarks/analysis_segments.py.

On five grids of steps, the share of series in which it finds a bend, or with `--online` in which the online
detector raises an alarm. First plain curves of the kinds that were seen while it was built; then blind ones,
of kinds that were written down before it was run on any of them; then kinks, jumps and sigmoids, beside a
test that knows the noise (`oracle`, on the same trends and shapes). `--gentle` has instead curves that are
smooth but no falling trend (moving means, waves, humps, smooth random curves), then sigmoids of 1 to 10% of
the run, jumps and kinks in noise of .2 to 10% of their height. `--sharp` prints how often gradual and
sudden changes, and walks, are called sharp, on 51 even steps.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.linalg import toeplitz

from toposcope.core.progress import track
from toposcope.statistics.phases.bends import scans
from toposcope.statistics.phases.curves import design
from toposcope.statistics.phases.noise import MODELS, covariances
from toposcope.statistics.phases.online import plan
from toposcope.statistics.phases.reference import (
    COUNTS,
    FALSE_ALARMS,
    level_of,
    reference,
    simulated,
)
from toposcope.statistics.phases.simulated import autoregressions, curves
from toposcope.study.segments import segments

SIZES = (20, 25, 30, 35, 40, 50, 60, 75, 90, 110, 135)
"""Numbers of even steps with packaged references."""
JUDGED = 1000
"""The stated false-alarm rate is counted over this many series of each of the `curves`."""
EVEN = np.arange(100.0, 5101.0, 100.0)
GRIDS = {
    "26 even": EVEN[:26] * 2,
    "51 even": EVEN,
    "154 Pythia": np.r_[2.0 ** np.arange(10), np.arange(1000.0, 143_001.0, 1000.0)],
    "51, 12 missing": np.sort(np.random.default_rng(5).permutation(EVEN)[:39]),
    "48 log": np.unique(np.geomspace(1, 143_000, 51).round()),
}


def plain(steps: np.ndarray, draws: int) -> Iterator[tuple[str, np.ndarray]]:
    g, n = np.random.default_rng(8), len(steps)
    shape = (draws, n)
    t, part = (steps - steps[0]) / np.diff(steps).min() + 1.0, (steps - steps[0]) / np.ptp(steps)
    powers = t ** -g.uniform(0.1, 1.5, (draws, 1))
    powers = (powers - powers.min(axis=1, keepdims=True)) / np.ptp(powers, axis=1)[:, None]
    falls = np.exp(-part / g.uniform(0.05, 0.5, (draws, 1)))
    rises = 1.0 / (1.0 + np.exp(-(part - g.uniform(0.2, 0.8, (draws, 1))) / g.uniform(0.05, 0.2, (draws, 1))))

    def noise() -> np.ndarray:
        return g.standard_normal(shape)

    def drift(phi: float) -> np.ndarray:
        return autoregressions(noise(), np.full(draws, phi))

    for size in (0.1, 0.01, 0.001):
        yield f"power law + {size:.1%} noise", powers + size * noise()
    yield "straight line + 1% noise", part + 0.01 * noise()
    yield "random walk", noise().cumsum(1)
    yield "walk, t(3) steps", g.standard_t(3, shape).cumsum(1)
    yield "walk, steps AR(1) .5", drift(0.5).cumsum(1)
    yield "walk, steps AR(1) .8", drift(0.8).cumsum(1)
    yield "walk of whole numbers", np.round(0.7 * noise().cumsum(1))
    yield "walk of whole numbers, sparse", np.round(0.4 * noise().cumsum(1))
    yield "white noise", noise()
    yield "AR(1) .9", drift(0.9)
    yield "AR(1) -.8", drift(-0.8)
    yield "walk, cosine steps", (noise() * (0.51 + 0.5 * np.cos(np.pi * part))).cumsum(1)
    yield "walk, first fifth five times as large", (noise() * np.where(part < 0.2, 5.0, 1.0)).cumsum(1)
    yield "walk, steps wane like 1/t", (noise() / t).cumsum(1)
    yield "walk, steps grow like t^1/2", (noise() * t**0.5).cumsum(1)
    yield "white noise, wanes like 1/t", noise() / t
    yield "outside: exponential + 1% noise", falls + 0.01 * noise()
    yield "outside: sigmoid + 1% noise", rises + 0.01 * noise()


def blind(steps: np.ndarray, draws: int) -> Iterator[tuple[str, np.ndarray]]:
    g, n = np.random.default_rng(21), len(steps)
    shape = (draws, n)
    part, logs = (steps - steps[0]) / np.ptp(steps), np.log(steps / steps[0])
    slow = (part + np.exp(g.uniform(-4.0, 0.0, (draws, 1)))) ** -g.uniform(0.2, 1.5, (draws, 1))
    slow = (slow - slow.min(axis=1, keepdims=True)) / np.ptp(slow, axis=1)[:, None]
    fall = (steps / steps[0]) ** -g.uniform(0.1, 1.0, (draws, 1))

    def noise() -> np.ndarray:
        return g.standard_normal(shape)

    def kept(phi: float) -> np.ndarray:
        return autoregressions(noise(), np.full(draws, phi))

    def cycle() -> np.ndarray:
        out, push = np.zeros((draws, n + 50)), g.standard_normal((draws, n + 50))
        for i in range(2, n + 50):
            out[:, i] = 1.6 * np.cos(np.pi / 4) * out[:, i - 1] - 0.64 * out[:, i - 2] + push[:, i]
        return out[:, 50:]

    yield "late power law + 1% noise", slow + 0.01 * noise()
    yield "power law, 2% noise AR(1) .7", fall + 0.02 * kept(0.7)
    yield "line in log step + walk", 3.0 * logs + noise().cumsum(1)
    yield "counts of a falling rate", g.poisson(20.0 * np.exp(2.0 * fall)).astype(float)
    yield (
        "1/f noise",
        sum(kept(phi) / np.sqrt(1.0 / (1.0 - phi * phi)) for phi in (0.0, 0.5, 0.8, 0.93, 0.98)),
    )
    yield "walk of clustered steps", (np.exp(0.5 * kept(0.8)) * noise()).cumsum(1)
    yield "walk of Laplace steps", g.laplace(size=shape).cumsum(1)
    yield "cycles of 8", cycle()
    yield "white noise, spikes x 10 in 5%", noise() * np.where(g.random(shape) < 0.05, 10.0, 1.0)
    yield "walk + AR(1) .7", noise().cumsum(1) + 2.0 * kept(0.7)
    yield "walk of steps of one sign", g.exponential(size=shape).cumsum(1)
    yield "drift AR(1) .7 + as much white noise", kept(0.7).cumsum(1) + 2.0 * noise()


def changes(steps: np.ndarray, draws: int) -> Iterator[tuple[str, np.ndarray, bool]]:
    """Yield name, series and whether their noise is a walk, of series that do change."""
    g, n = np.random.default_rng(7), len(steps)
    at = n // 3
    hinge = np.where(steps < steps[at], 0.0, np.log(steps / steps[at]))
    index = np.arange(n)
    shapes = {f"kink of {size}": size * hinge for size in (10, 20, 30, 40)}
    shapes |= {f"jump of {size}": np.where(index < at, 0.0, size) for size in (3, 6, 12)}
    shapes |= {
        f"sigmoid of {size} over {width}": size / (1.0 + np.exp(-4.4 * (index - n // 2) / width))
        for size in (10, 30) for width in (6, 20)
    }  # fmt: skip
    for name, shape in shapes.items():
        yield f"{name} sd of white noise", shape + g.standard_normal((draws, n)), False
        yield f"{name} walk steps", shape + g.standard_normal((draws, n)).cumsum(1), True


def gentle(steps: np.ndarray, draws: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield smooth series without a change: the first seven are of the reference's kinds, the others not."""
    g, n = np.random.default_rng(34), len(steps)
    shape, one = (draws, n), (draws, 1)
    t, part = (steps - steps[0]) / np.diff(steps).min() + 1.0, np.linspace(0.0, 1.0, n)
    powers = t ** -g.uniform(0.1, 1.5, one)
    powers = (powers - powers.min(axis=1, keepdims=True)) / np.ptp(powers, axis=1)[:, None]

    def noise() -> np.ndarray:
        return g.standard_normal(shape)

    def smoothed(series: np.ndarray, keep: float) -> np.ndarray:
        out = series.copy()
        for i in range(1, n):
            out[:, i] = keep * out[:, i - 1] + (1.0 - keep) * series[:, i]
        return out

    def wave(periods: np.ndarray | float) -> np.ndarray:
        return np.sin(2.0 * np.pi * (periods * part + g.random(one)))

    def random_curve(length: float) -> np.ndarray:
        cov = np.exp(-0.5 * ((part[:, None] - part) / length) ** 2) + 1e-9 * np.eye(n)
        return noise() @ np.linalg.cholesky(cov).T

    for keep in (0.5, 0.9, 0.95):
        yield f"moving mean {keep} of a power law + 1% noise", smoothed(powers + 0.01 * noise(), keep)
    for periods in (1, 2, 3):
        yield f"wave of {periods} periods + 5% noise", 0.5 * wave(periods) + 0.05 * noise()
    yield "power law + waves, 1% noise", powers + 0.1 * wave(g.uniform(1, 3, one)) + 0.01 * noise()
    for size in (0.5, 0.1, 0.02):
        yield f"smooth random curve of length .3, noise {size}", random_curve(0.3) + size * noise()
    yield "smooth random curve of length .2, noise 0.1", random_curve(0.2) + 0.1 * noise()
    width = g.uniform(0.05, 0.3, one)
    hump = part / width * np.exp(1.0 - part / width)
    yield "warm-up hump + 1% noise", hump + 0.01 * noise()
    yield "warm-up hump, moving mean .9, 1% noise", smoothed(hump + 0.01 * noise(), 0.9)
    fading = np.exp(-part / g.uniform(0.2, 1.0, one)) * wave(g.uniform(0.5, 2.5, one))
    yield "fading wave + 2% noise", fading + 0.02 * noise()
    fall = np.exp(-part / g.uniform(0.02, 0.1, one)) + np.exp(-part / g.uniform(0.2, 1.0, one))
    yield "two exponentials + .5% noise", fall + 0.01 * noise()
    chirp = np.sin(2.0 * np.pi * (g.random(one) + 0.5 * part + 1.0 * part**2))
    yield "chirp of .5 to 2.5 periods + 2% noise", 0.5 * chirp + 0.02 * noise()
    yield "parabola + 1% noise", 4.0 * (part - g.uniform(0.2, 0.8, one)) ** 2 + 0.01 * noise()
    yield "wave of 2 periods on a walk", wave(2.0) + 0.1 * noise().cumsum(axis=1)
    errors = autoregressions(noise(), np.full(draws, 0.7))
    yield "wave of 1.5 periods, 3% noise AR(1) .7", 0.5 * wave(1.5) + 0.03 * errors


def transitions(steps: np.ndarray, draws: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield moves of height 1 within the run: logistic ones by their scale, others by their kind."""
    g, n = np.random.default_rng(35), len(steps)
    part, one, shape = np.linspace(0.0, 1.0, n), (draws, 1), (draws, n)
    t = (steps - steps[0]) / np.diff(steps).min() + 1.0
    powers = t ** -g.uniform(0.1, 1.5, one)
    powers = (powers - powers.min(axis=1, keepdims=True)) / np.ptp(powers, axis=1)[:, None]
    sizes = (0.002, 0.01, 0.02, 0.05, 0.1)
    for width in (0.01, 0.03, 0.05, 0.1):
        for size in sizes:
            move = 1.0 / (1.0 + np.exp(-(part - g.uniform(0.25, 0.75, one)) / width))
            yield f"sigmoid {width:.0%} wide, noise {size:.1%}", move + size * g.standard_normal(shape)
    for size in sizes:
        x = np.clip((part - g.uniform(0.2, 0.7, one)) / 0.15, 0.0, 1.0)
        yield f"smooth step over 15%, noise {size:.1%}", x * x * (3 - 2 * x) + size * g.standard_normal(shape)
        move = np.exp(-np.exp(-(part - g.uniform(0.25, 0.75, one)) / 0.03))
        yield f"Gompertz 3% on a power law, noise {size:.1%}", powers + move + size * g.standard_normal(shape)
        yield f"jump, noise {size:.1%}", (part > g.uniform(0.25, 0.75, one)) + size * g.standard_normal(shape)
        hinge = np.maximum(np.log(steps / steps[n // 3]), 0.0) / np.log(steps[-1] / steps[n // 3])
        yield f"kink at a third, noise {size:.1%}", hinge + size * g.standard_normal(shape)


def found(steps: np.ndarray, series: np.ndarray) -> float:
    known = reference(steps)
    return 100.0 * float(
        np.mean(known.p_values(scans(design(steps), np.diff(series, axis=1))) <= level_of(steps))
    )


def oracle(steps: np.ndarray, series: np.ndarray, *, walk: bool, trends: int = 4) -> float:
    """Return how often the best shape stands out, in percent, for one who knows the noise."""
    grid, n = design(steps), len(steps) - 1
    model = np.flatnonzero((((0.0, 1.0, 0.0) if walk else (0.0, 0.0, 1.0)) == MODELS).all(axis=1))[0]
    white = np.linalg.inv(np.linalg.cholesky(toeplitz(covariances(int(model), n))))
    basis, _ = np.linalg.qr(white @ grid.trend[:trends].T)
    rows = grid.shapes @ white.T
    rows = rows - (rows @ basis) @ basis.T
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    null = np.random.default_rng(3).standard_normal((4000, n))
    threshold = np.quantile(((null @ rows.T) ** 2).max(axis=1), 1.0 - FALSE_ALARMS)
    gains = ((np.diff(series, axis=1) @ white.T @ rows.T) ** 2).max(axis=1)
    return 100.0 * float(np.mean(gains > threshold))


def alarmed(steps: np.ndarray, series: np.ndarray) -> float:
    """Return how often the online detector raises an alarm, in percent: its tests of many series at once."""
    quiet = np.ones(len(series), bool)
    planned = plan(tuple(steps), FALSE_ALARMS)
    for count in planned.counts:
        test = planned.test(count)
        quiet &= ~test.alarms(scans(test.grid, np.diff(series[:, :count], axis=1)))
    return 100.0 * float(np.mean(~quiet))


def sharp(draws: int) -> None:
    """Print how many series bend, and how many have a change that is called sharp."""
    steps = EVEN[:50]
    n, g, index = len(steps), np.random.default_rng(31), np.arange(len(steps))
    at, shape = n // 3, (draws, n)

    def turn(width: int) -> np.ndarray:
        part = np.clip((index[1:] - at + width / 2) / width, 0.0, 1.0)
        return np.r_[0.0, np.cumsum(part * np.diff(np.log(steps)))]

    def rise(width: int) -> np.ndarray:
        return 1.0 / (1.0 + np.exp(-4.4 * (index - n // 2) / width))

    hinge = np.where(steps < steps[at], 0.0, np.log(steps / steps[at]))
    cases = {f"turn over {width}, white": (40.0 * turn(width), False) for width in (3, 6, 12)}
    cases |= {f"sigmoid over {width}, white": (30.0 * rise(width), False) for width in (6, 12, 20)}
    cases |= {"turn over 6, walk": (60.0 * turn(6), True), "sigmoid over 20, walk": (60.0 * rise(20), True)}
    cases |= {"walk": (np.zeros(n), True), "sharp: kink of 40, white": (40.0 * hinge, False)}
    cases |= {"sharp: kink of 100, white": (100.0 * hinge, False)}
    cases |= {"sharp: kink of 60, walk": (60.0 * hinge, True)}
    cases |= {"sharp: jump of 12, white": (np.where(index < at, 0.0, 12.0), False)}
    for name, (change, walk) in cases.items():
        noise = g.standard_normal(shape)
        found = [segments(steps, values) for values in change + (noise.cumsum(axis=1) if walk else noise)]
        bent = np.mean([len(rows) > 1 for rows in found])
        called = np.mean([any("sharp change" in row for row in rows) for rows in found])
        print(f"{name:28} bends {100 * bent:5.1f}  called sharp {100 * called:5.1f}", flush=True)


def package(n: int) -> np.ndarray:
    """Return what `bends.scans` says of the reference of n even steps, and a row for its false alarms."""
    steps = np.arange(1.0, n + 1.0)
    known = simulated(steps, COUNTS)
    rates = [
        known.p_values(scans(design(steps), np.diff(series, axis=1))) <= FALSE_ALARMS
        for series in curves(steps, JUDGED).values()
    ]
    worst = max(float(np.mean(rate)) for rate in rates)
    parts = [part.scanned for part in (known, *known.others)]
    return np.vstack([*parts, [worst, 0.0, 0.0]]).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--grids", nargs="*", choices=list(GRIDS), default=list(GRIDS))
    parser.add_argument("--online", action="store_true", help="the online detector instead")
    parser.add_argument("--noises", action="store_true", help="without the series that do change")
    parser.add_argument("--gentle", action="store_true", help="smooth curves and transitions instead")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--package", type=Path, help="write the references of even steps here, and stop")
    parser.add_argument("--sharp", action="store_true", help="how often a change is called sharp, and stop")
    options = parser.parse_args()
    if options.sharp:
        return sharp(options.draws)
    if options.package:
        np.savez_compressed(options.package, **{str(n): package(n) for n in track(SIZES, "sizes")})
        return
    rows = []
    for grid in options.grids:
        steps = GRIDS[grid]
        kinds = (gentle, transitions) if options.gentle else (plain, blind)
        kinds = kinds[:1] if options.gentle and options.noises else kinds
        cases = [(name, series, None) for kind in kinds for name, series in kind(steps, options.draws)]
        changing = [] if options.noises or options.gentle else [*changes(steps, options.draws)]
        for name, series, walk in track([*cases, *changing], grid):
            row: dict[str, str | float] = {"series": name, "steps": grid}
            if options.online:
                row["online"] = alarmed(steps, series)
            else:
                row["bends"] = found(steps, series)
                row["oracle"] = np.nan if walk is None else oracle(steps, series, walk=walk)
            rows.append(row)
            print(
                " ".join(f"{value:.1f}" if isinstance(value, float) else value for value in row.values()),
                flush=True,
            )
    table = pd.DataFrame(rows)
    for column in [
        name for name in ("online", "bends", "oracle") if name in table and table[name].notna().any()
    ]:
        wide = table.pivot(index="series", columns="steps", values=column)
        print(column, wide.loc[table["series"].unique(), options.grids].round(1).to_string(), sep="\n")
    print(f"{options.draws} series each: standard error {50.0 / options.draws**0.5:.1f} points at most")
    if options.json:
        table.to_json(options.json, orient="records", indent=1)


if __name__ == "__main__":
    main()
