"""Odd runs that a mean over the whole curve hides, and healthy seeds: python -m benchmarks.odd_ends.

Losses of seeds by three laws that no test of the package uses (two relaxations, a logarithm, a power with a
knee), at even or at random steps. Seeds differ by an offset, by a slow wander (an AR process over a fifth of
the run), by their pace and by white noise. In every group of the odd kinds one run has: an end that leaves
the others by 2% over the last 15% (at once, or as a ramp), noise five times as large there, six spikes, or a
pace 10% slower. For each kind: how often that run is found, and how often another one is called odd.

--pace prints how often the run that is 10% slower would be found by one that knows the curve of the recipe
and the size of the noise: paces by weighted least squares with a free offset for each run, and Fisher's F of
`statistics.odd` with the whole level. No comparison of paces can find more.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.special import fdtrc

from toposcope.core.seeding import rng
from toposcope.statistics.odd import LEVEL, MOST_PART, odd_runs

HEALTHY = ("seeds", "heavy tails", "wander", "spikes now and then", "random steps", "unequal noise")
ODD = (
    "end 2% apart",
    "end 2% apart, a ramp",
    "end 4% apart",
    "noise x 5 at the end",
    "six spikes",
    "10% slower",
)


def law(g: np.random.Generator, t: np.ndarray) -> np.ndarray:
    """Return the losses of one recipe at shares t of the run, for every run's own t: (runs, steps)."""
    kind = int(g.integers(3))
    if kind == 0:
        times, heights = np.exp(g.uniform(-4, 0.5, 2)), g.uniform(0.3, 1.5, 2)
        return 2.2 + sum(h * np.exp(-t / tau) for h, tau in zip(heights, times, strict=True))
    if kind == 1:
        return 4.5 - g.uniform(0.15, 0.4) * np.log1p(t / np.exp(g.uniform(-7, -4)))
    knee, early, late = np.exp(g.uniform(-2.5, -0.5)), g.uniform(0.08, 0.2), g.uniform(0.03, 0.15)
    return 3.0 * np.where(t < knee, (t / knee) ** -early, (t / knee) ** -late)


def wander(g: np.random.Generator, runs: int, t: np.ndarray) -> np.ndarray:
    """Return AR processes of standard deviation 1 that forget over a fifth of the run."""
    at, found = g.standard_normal(runs), []
    for gap in np.diff(t, prepend=t[0]):
        keep = np.exp(-gap / 0.2)
        at = keep * at + np.sqrt(1 - keep**2) * g.standard_normal(runs)
        found.append(at)
    return np.stack(found, axis=1)


def group(kind: str, runs: int, draw: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the losses (runs, steps) of one group, whose first run is the odd one, and the steps."""
    g = rng(name="odd ends", kind=kind, runs=runs, draw=draw)
    count = int(g.choice([60, 120, 300]))
    t = np.sort(g.uniform(0.003, 1, count)) if kind == "random steps" else np.linspace(1 / count, 1, count)
    pace = np.exp(g.normal(0, 0.01, (runs, 1)))
    if kind == "10% slower":
        pace[0] /= 1.1
    loss = law(g, t * pace)
    offset = (
        g.standard_t(3, (runs, 1)) / np.sqrt(3) if kind == "heavy tails" else g.standard_normal((runs, 1))
    )
    size = np.exp(g.normal(0, 0.1, (runs, 1))) if kind == "unequal noise" else np.ones((runs, 1))
    noise = 0.004 * size * g.standard_normal(loss.shape)
    slow = 0.003 if kind == "wander" else 0.001
    end = np.clip((t - 0.85) / 0.15, 0, 1) if kind.endswith("ramp") else (t > 0.85).astype(float)
    if kind.startswith("noise x 5"):
        noise[0] *= 1 + 4 * end
    loss = loss * np.exp(0.004 * offset + slow * wander(g, runs, t) + noise)
    if kind.startswith("end"):
        loss[0] *= 1 + (0.04 if "4%" in kind else 0.02) * end
    if kind == "six spikes":
        loss[0, g.choice(np.arange(10, count), 6, replace=False)] *= g.uniform(1.2, 1.6, 6)
    if kind == "spikes now and then":
        hit = g.random(loss.shape) < 1.0 / count
        loss = np.where(hit, loss * g.uniform(1.2, 1.6, loss.shape), loss)
    return loss, np.round(t * 1e7)


def best_pace(runs: int, draw: int, *, noise: bool) -> tuple[float, list[bool]]:
    """Return the spread of the healthy runs' paces, and which runs an exact comparison of paces calls odd.

    Without noise, the paces are those that the runs have.
    """
    g = rng(name="odd ends", kind="10% slower", runs=runs, draw=draw)
    count = int(g.choice([60, 120, 300]))
    paces = g.normal(0, 0.01, runs)
    paces[0] -= np.log(1.1)
    if noise:
        losses, _ = group("10% slower", runs, draw)
        state = g.bit_generator.state
        at = []
        for shift in (0.0, 1e-3, -1e-3):
            g.bit_generator.state = state  # the same law, at another pace
            at.append(law(g, np.linspace(1 / count, 1, count)[None] * np.exp(shift))[0])
        known, slope = at[0], (at[1] - at[2]) / 2e-3
        weighed = np.stack([np.ones(count), slope], axis=1) / known[:, None]
        paces = np.linalg.lstsq(weighed, ((losses - known) / known).T, rcond=None)[0][1]
    chances = []
    for run in range(runs):
        others = np.delete(paces, run)
        far = (paces[run] - others.mean()) ** 2 / (1 + 1 / len(others)) / others.var(ddof=1)
        chances.append(fdtrc(1, len(others) - 1, far))
    rounds = max(runs // MOST_PART, 1)
    return float(paces[1:].std(ddof=1)), [bool(p * rounds * runs <= LEVEL) for p in chances]


def paces(sizes: list[int], draws: int) -> None:
    """Print what an exact comparison of paces finds."""
    for noise in (True, False):
        for runs in sizes:
            made = [best_pace(runs, draw, noise=noise) for draw in range(draws)]
            found = np.array([odd for _, odd in made])
            print(
                f"{runs:2} runs, {'with' if noise else 'without'} noise: healthy paces "
                f"{np.median([spread for spread, _ in made]):.1%} apart, 10% slower found "
                f"{found[:, 0].mean():.0%}, another {found[:, 1:].any(axis=1).mean():.0%}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--sizes", type=int, nargs="+", default=[4, 5, 10])
    parser.add_argument("--pace", action="store_true", help="the most that a comparison of paces could find")
    options = parser.parse_args()
    if options.pace:
        paces(options.sizes, options.draws)
        return
    print("healthy groups with an odd run, %, by runs:", *options.sizes)
    for kind in (*HEALTHY, *ODD):
        cells = []
        for runs in options.sizes:
            hits = wrong = 0
            for draw in range(options.draws):
                losses, steps = group(kind, runs, draw)
                found = {one.run for one in odd_runs({"loss": losses}, steps)}
                hits += 0 in found
                wrong += bool(found - {0}) if kind in ODD else bool(found)
            cells.append((100 * hits / options.draws, 100 * wrong / options.draws))
        shown = (f"{wrong:5.1f}" if kind in HEALTHY else f"{hit:5.1f} ({wrong:.1f})" for hit, wrong in cells)
        print(f"{kind:24}", *shown, flush=True)


if __name__ == "__main__":
    main()
