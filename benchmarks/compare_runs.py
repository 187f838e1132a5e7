"""How often `compare` calls one of two sets of repeats better, and how often it finds a planted difference.

Run: python -m benchmarks.compare_runs DATA [--splits 1000] [--draws 2000]. DATA holds
curves/parameter_golf/{runs,curves}.csv.gz.

- Repeats are runs of one folder with the same planned steps and parameters. A folder counts if it has at
  least three stated seeds, last steps within 3% of its median, at least 15 common training losses, and no two
  runs with the same losses; folders whose names state different trainings are left out. The constants
  `STRETCH_ON_THE_WAY`, `INTERIM` and `SPENDING` were set on the pull requests whose number is a multiple of
  four; the others are scored. (All numbers in the data are even.) Of the constants that were tried, these
  need the fewest steps for a difference that exists from the start, among those with at least the power of
  Welch's test with three, four and six seeds.
- Splits: a random folder is split at random into k and m runs, k + m of three or more. Splits of one folder
  overlap and are not independent, so the interval is from a bootstrap over folders. Folders of four or more
  are printed separately, each with its own rate: one of four has only three splits into two and two.
- Joined: most folders have three seeds. From each run's losses the folder's mean is subtracted; they are
  multiplied by root n / (n - 1), in units of the folder's noise over the last half, and drawn from k + m
  folders, one of each. This gives the noise between real seeds over the steps, in groups of any size.
- Crossing: of all pairs of folders of three whose losses begin within 2%, how often the recipe that is better
  at the first interim test is better at the end.
- Planted: a difference of the size that Welch's test on the final values finds in 80%: from the start, from
  the middle, or growing up to the end.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binomtest, ttest_ind

from toposcope.core.seeding import rng
from toposcope.statistics.seeds import (
    INTERIM,
    LEVEL,
    STRETCH_ON_THE_WAY,
    difference,
    interim_tests,
    stretch_means,
    thresholds,
)

NEAR, FEWEST_LOSSES = 0.03, 15
OTHER_TRAINING = (144, 152, 486, 874, 894, 1166, 1180, 1512)
"""Pull requests in which runs of one folder, size and length state different trainings in their names."""
SIZES = ((2, 2), (3, 3), (4, 4), (6, 6), (2, 6))
SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "from the start": np.ones_like,
    "from the middle on": lambda part: (part >= 0.5).astype(float),
    "growing to the end": lambda part: part,
}
Repeats = tuple[np.ndarray, np.ndarray]


def repeats(data: Path) -> dict[tuple[int, str], Repeats]:
    """Return the common steps and the losses (runs, steps) of every folder of repeats."""
    folder = data / "curves" / "parameter_golf"
    runs, curves = (pd.read_csv(folder / f"{name}.csv.gz") for name in ("runs", "curves"))
    runs["folder"] = runs["path"].str.rpartition("/")[0]
    logged = curves.dropna(subset=["train_loss"]).drop_duplicates(["run", "step"], keep="last")
    by_run = {run: rows.set_index("step")["train_loss"] for run, rows in logged.groupby("run")}
    found = {}
    keys = ["pr", "folder", "planned_steps", "parameters"]
    for (pr, place, *_), group in runs[runs["seed"].notna()].groupby(keys):
        near = group[(group["last_step"] / group["last_step"].median() - 1).abs() < NEAR]
        logs = [by_run[run] for run in near["run"] if run in by_run and len(by_run[run]) >= FEWEST_LOSSES]
        if pr in OTHER_TRAINING or len(logs) < 3 or near["seed"].nunique() < 3:
            continue
        steps = logs[0].index
        for log in logs[1:]:
            steps = steps.intersection(log.index)
        losses = np.unique([log.loc[sorted(steps)].to_numpy() for log in logs], axis=0)
        if len(steps) >= FEWEST_LOSSES and len(losses) >= 3 and np.isfinite(losses).all():
            found[(int(pr), str(place))] = (np.sort(steps.to_numpy(float)), losses)
    return found


def rate(found: int, of: int) -> str:
    """Return a rate with its interval."""
    low, high = binomtest(found, of).proportion_ci(method="wilson")
    return f"{found} of {of} = {100 * found / of:.1f}% [{100 * low:.1f}, {100 * high:.1f}]"


def splits(groups: Mapping[tuple[int, str], Repeats], draws: int, least: int) -> None:
    """Print how often one part of a folder's repeats is called better than the rest, k and m of `least`."""
    names = [key for key, group in groups.items() if len(group[1]) >= max(2 * least, 3)]
    counts = [len(groups[name][1]) for name in names]
    print(f"{draws} splits of {len(names)} folders of {min(counts)} to {max(counts)} repeats")
    g = rng(name="compare splits", least=least)
    hits: dict[tuple[int, str], list[tuple[bool, bool]]] = {name: [] for name in names}
    for _ in range(draws):
        name = names[g.integers(len(names))]
        steps, losses = groups[name]
        order = g.permutation(len(losses))
        k = int(g.integers(least, len(losses) - least + 1))
        first, second = losses[order[:k]], losses[order[k:]]
        made = difference(*(stretch_means(steps, part, steps[-1]) for part in (first, second)))
        way = interim_tests(steps, first, second, float(steps[-1]))
        hits[name].append((made is not None and made.p <= LEVEL, any(one.passed for one in way)))
    for at, what in enumerate(("at the end", "on the way")):
        shares = [[h[at] for h in one] for one in hits.values() if one]
        print(f"  {what}: false better {rate(sum(map(sum, shares)), draws)} {redrawn(shares, g)}")
    if len(names) < 20:
        for name, one in hits.items():
            ends, ways = (100 * np.mean([h[at] for h in one]) for at in (0, 1))
            print(
                f"    {name[0]} {name[1][-44:]:46}{len(groups[name][1]):3} runs {len(one):4} splits "
                f"end {ends:4.1f}% way {ways:4.1f}%"
            )


def redrawn(shares: Sequence[Sequence[bool]], g: np.random.Generator) -> str:
    """Return the 95% interval of a rate over folders drawn anew."""
    many = np.array([len(one) for one in shares])
    found = np.array([sum(one) for one in shares])
    at = g.integers(len(shares), size=(2000, len(shares)))
    low, high = np.quantile(found[at].sum(axis=1) / many[at].sum(axis=1), [0.025, 0.975])
    return f"(over folders [{100 * low:.1f}, {100 * high:.1f}])"


def values(steps: np.ndarray, losses: np.ndarray) -> np.ndarray:
    """Return what is tested of runs (runs, parts + 1): at the parts of `INTERIM`, then at the end."""
    end = steps[-1]
    way = [stretch_means(steps, losses, part * end, STRETCH_ON_THE_WAY) for part in INTERIM]
    return np.stack([*way, stretch_means(steps, losses, end)], axis=1)


def noise(groups: Mapping[tuple[int, str], Repeats]) -> list[np.ndarray]:
    """Return of every folder the noise of its runs in what is tested of them."""
    found = []
    for steps, losses in groups.values():
        late = losses[:, steps > steps[-1] / 2]
        free = len(losses) - 1
        scale = np.sqrt(((late - late.mean(axis=0)) ** 2).sum() / (free * late.shape[1]))
        means = values(steps, losses)
        found.append((means - means.mean(axis=0)) * np.sqrt(len(losses) / free) / scale)
    return found


def shifts(groups: Mapping[tuple[int, str], Repeats]) -> dict[str, np.ndarray]:
    """Return each shape of a difference as what is tested of it, at the steps of the folders at the mean."""
    found = {}
    for name, shape in SHAPES.items():
        of_folders = [values(steps, shape(steps / steps[-1])[None])[0] for steps, _ in groups.values()]
        found[name] = np.mean(of_folders, axis=0)
    return found


def drawn(noises: Sequence[np.ndarray], k: int, m: int, draws: int) -> np.ndarray:
    """Return groups (draws, k + m, parts) of one run each of k + m folders."""
    g = rng(name="compare joined", k=k, m=m)
    out = np.empty((draws, k + m, len(INTERIM) + 1))
    for i in range(draws):
        for j, place in enumerate(g.choice(len(noises), k + m, replace=False)):
            runs = noises[place]
            out[i, j] = runs[g.integers(len(runs))] * g.choice([-1.0, 1.0])
    return out


def welch(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the p of Welch's test for every row of (draws, k) and (draws, m)."""
    return np.asarray(ttest_ind(first, second, axis=1, equal_var=False).pvalue)


def outcomes(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for every draw whether one is better at the end, and since which part on the way (NaN)."""
    ends = np.zeros(len(first), bool)
    since = np.full(len(first), np.nan)
    for i, (one, other) in enumerate(zip(first, second, strict=True)):
        made = [difference(one[:, at], other[:, at]) for at in range(len(INTERIM) + 1)]
        ps = np.array([1.0 if test is None else test.p for test in made])
        passed = np.flatnonzero(ps[:-1] <= np.array(thresholds()))
        ends[i] = ps[-1] <= LEVEL
        since[i] = INTERIM[passed[0]] if len(passed) else np.nan
    return ends, since


def joined(groups: Mapping[tuple[int, str], Repeats], draws: int) -> None:
    """Print false calls and power of both tests beside Welch's, for every number of seeds."""
    noises, shapes = noise(groups), shifts(groups)
    print(f"joined from {len(noises)} folders, {draws} comparisons each; one rate is off by up to", end=" ")
    print(f"{196 * np.sqrt(0.05 * 0.95 / draws):.1f} points (95%)")
    for k, m in SIZES:
        runs = drawn(noises, k, m, draws)
        first, second = runs[:, :k], runs[:, k:]
        ends, since = outcomes(first, second)
        plain = welch(first[..., -1], second[..., -1]) <= LEVEL
        print(
            f"  {k} against {m}: false better at the end {100 * ends.mean():.1f}%, on the way "
            f"{100 * np.isfinite(since).mean():.1f}%, Welch at the end {100 * plain.mean():.1f}%"
        )
        size = planted(first[..., -1], second[..., -1])
        for name, shape in shapes.items():
            moved = second + size * shape
            ends, since = outcomes(first, moved)
            plain = welch(first[..., -1], moved[..., -1]) <= LEVEL
            steps = np.nan_to_num(since, nan=1.0)
            print(
                f"    {size:.2f} sd {name:20} found: Welch {100 * plain.mean():.1f}%, at the end "
                f"{100 * ends.mean():.1f}%, on the way {100 * np.isfinite(since).mean():.1f}% with 1 / "
                f"{1 / steps.mean():.2f} of the steps"
            )


def planted(first: np.ndarray, second: np.ndarray) -> float:
    """Return the difference that Welch's test finds in 80%."""
    low, high = 0.0, 30.0
    for _ in range(30):
        middle = (low + high) / 2
        enough = (welch(first, second + middle) <= LEVEL).mean() >= 0.8
        low, high = (low, middle) if enough else (middle, high)
    return high


def unequal(draws: int) -> None:
    """Print false calls where one recipe scatters three times as much, and both have one mean."""
    print("normal values, one recipe with 3 times the noise: false better at the end")
    g = rng(name="compare unequal")
    for k, m in (*SIZES, (6, 2)):
        first, second = g.standard_normal((draws, k)), 3 * g.standard_normal((draws, m))
        made = [difference(one, other) for one, other in zip(first, second, strict=True)]
        mine = np.mean([test is not None and test.p <= LEVEL for test in made])
        plain = np.mean(welch(first, second) <= LEVEL)
        print(f"  {k} against {m} noisy: {100 * mine:.1f}%, Welch {100 * plain:.1f}%")


def crossing(groups: Mapping[tuple[int, str], Repeats]) -> None:
    """Print how often the recipe that is better at the first test on the way is so at the end, too.

    Pairs of folders of three, whose first losses are within 2% and which share 15 steps: two real recipes.
    """
    found = {"the same": 0, "none shown": 0, "the other": 0}
    folders = [group for group in groups.values() if len(group[1]) == 3]
    for i, (steps, losses) in enumerate(folders):
        for others, theirs in folders[:i]:
            shared = np.intersect1d(steps, others)
            one, two = losses[:, np.isin(steps, shared)], theirs[:, np.isin(others, shared)]
            if len(shared) < FEWEST_LOSSES or abs(one[:, 0].mean() / two[:, 0].mean() - 1) > 0.02:
                continue
            way = interim_tests(shared, one, two, float(shared[-1]))
            end = difference(*(stretch_means(shared, part, shared[-1]) for part in (one, two)))
            if way and way[0].passed and end is not None:
                same = (way[0].difference.value < 0) == (end.value < 0)
                found["none shown" if end.p > LEVEL else "the same" if same else "the other"] += 1
    total = sum(found.values())
    print(
        f"{total} pairs of recipes of which one is better at {INTERIM[0]:.0%} of the common steps; at the end"
    )
    for what, many in found.items():
        print(f"  {what}: {rate(many, total)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--splits", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=2000)
    options = parser.parse_args()
    every = repeats(options.data)
    scored = {key: group for key, group in every.items() if key[0] % 4}
    print(f"{len(every)} folders of repeats, {len(scored)} of them scored")
    splits(scored, options.splits, 1)
    splits(scored, options.splits, 2)
    print("all folders, those that constants were set on among them:")
    splits(every, 4 * options.splits, 1)
    splits(every, options.splits, 2)
    joined(scored, options.draws)
    crossing(every)
    unequal(options.draws)


if __name__ == "__main__":
    main()
