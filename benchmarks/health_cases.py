"""What is said of logs whose state is known: python -m benchmarks.health_cases DATA [--draws N].

DATA holds seed_runs/ and curves/. A row for each case: readings, how many of them are called grave and how
many give "look", with their share and its 95% interval by Wilson, and the kinds. First healthy language
models, every second run of each set (the other half was used to set constants), at 10, 20, ... 100% of their
steps; then simulated runs that are healthy, need a look, or are broken, from draw 6000 on (constants were set
on draws below 1000). With --grokking RUNS also the training losses of `toposcope train --recipe grokking
--out RUNS`, read in the same way. --half even and --first 0 show the data that constants were set on.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from benchmarks.watch_curves import tables
from toposcope.core.seeding import rng
from toposcope.logs.remarks import Remark
from toposcope.rules.registry import assess

FIRST = 6000
LENGTHS = (60, 200, 1000)
NOISES = (0.005, 0.02)
Random = np.random.Generator
Draw = Callable[[Random, int, float], pd.DataFrame]


def _law(random: Random, n: int, noise: float) -> pd.DataFrame:
    """Return a falling law on even steps, as a language model's, with independent noise."""
    step = np.arange(1, n + 1) * 20_000 / n
    floor, won = random.uniform(1.5, 3.0), random.uniform(2.0, 8.0)
    loss = floor + won * (1 + step / random.uniform(50, 500)) ** -random.uniform(0.3, 0.6)
    return pd.DataFrame({"step": step, "loss": loss * np.exp(noise * random.standard_normal(n))})


def _place(random: Random, n: int, low: float, high: float) -> int:
    return int(random.uniform(low, high) * n)


def _times(log: pd.DataFrame, first: int, factor: np.ndarray | float) -> pd.DataFrame:
    """Multiply the losses from `first` on."""
    loss = log["loss"].to_numpy(copy=True)
    loss[first:] *= factor
    return log.assign(loss=loss)


# -- healthy


def _solved(random: Random, n: int, noise: float) -> pd.DataFrame:
    """Return a task that is solved: the loss wanders over orders of magnitude, and peaks come and go."""
    step = np.arange(1, n + 1) * 20_000 / n
    walk = np.zeros(n)
    for at in range(1, n):
        walk[at] = 0.9 * walk[at - 1] + random.normal(0, random.uniform(0.3, 0.8))
    depth = random.uniform(7, 14)
    when = random.uniform(1000, 5000)
    log = np.log(random.uniform(2, 5)) - depth / (1 + np.exp(-(step - when) / (when / 4)))
    settled = 1 / (1 + np.exp(-(step - when) / (when / 4)))
    loss = np.exp(log + walk * settled + 4 * noise * random.standard_normal(n))
    for at in random.integers(n // 2, n, random.poisson(2)):
        last = max(1, int(0.01 * n))
        peak = random.uniform(0.01, 0.3) * np.exp(-3 * np.arange(n - at) / last)
        loss[at:] += peak
    return pd.DataFrame({"step": step, "loss": np.minimum(loss, 5.0)})


def _cycles(random: Random, n: int, noise: float) -> pd.DataFrame:
    """Return a law whose loss follows a rate that goes up and down; the log has the rate."""
    log = _law(random, n, noise)
    turns, share = random.integers(2, 6), random.uniform(0.02, 0.08)
    phase = np.arange(n) / n * turns % 1
    rate = 0.1 + 0.9 * (1 - np.abs(2 * phase - 1))
    return _times(log.assign(lr=3e-4 * rate), 0, 1 + share * (rate - 0.55))


def _outliers(random: Random, n: int, noise: float) -> pd.DataFrame:
    log = _law(random, n, noise)
    loss = log["loss"].to_numpy(copy=True)
    at = random.choice(np.arange(n // 10, n - 2, 3), max(2, n // 40), replace=False)
    loss[at] *= random.uniform(1.2, 1.66, len(at))
    return log.assign(loss=loss)


# -- to be looked at


def _restart(random: Random, n: int, noise: float) -> pd.DataFrame:
    """Return a run whose annealed rate went back up within the last tenth."""
    log, at = _law(random, n, noise), n - max(4, _place(random, n, 0.03, 0.1))
    rate = 3e-4 * (0.02 + 0.98 * (1 + np.cos(np.pi * np.arange(n) / at)) / 2)
    rate[at:] = 3e-4 * random.uniform(0.5, 1.0)
    gain = 1 - 0.1 * np.clip(np.arange(n) / at, 0, 1) ** 4
    since = 1 + random.uniform(0.1, 0.25) * (1 - np.exp(-np.arange(n - at) / max(1, (n - at) / 3)))
    name = ("lr", "learning_rate", "lr_scale")[random.integers(3)]
    loss = log["loss"].to_numpy() * np.r_[gain[:at], gain[at - 1] * since]
    return log.assign(loss=loss, **{name: rate / 3e-4 if name == "lr_scale" else rate})


def _switch(random: Random, n: int, noise: float) -> pd.DataFrame:
    """Return a run whose data changed: the loss jumps and falls again."""
    log, at = _law(random, n, noise), _place(random, n, 0.6, 0.85)
    fall = np.exp(-np.arange(n - at) / (random.uniform(0.1, 0.3) * n))
    return _times(log, at, 1 + random.uniform(0.3, 0.8) * fall)


def _shift(random: Random, n: int, noise: float) -> pd.DataFrame:
    return _times(_law(random, n, noise), _place(random, n, 0.6, 0.9), 1.1)


def _back(random: Random, n: int, noise: float) -> pd.DataFrame:
    """Return a run that spiked and has won back a fifth to four fifths of it."""
    left, width = random.uniform(0.2, 0.8), max(4, _place(random, n, 0.04, 0.1))
    height = random.uniform(0.5, 2.0)
    return _times(_law(random, n, noise), n - width, 1 + height * np.linspace(1, left, width))


def _turned(random: Random, n: int, noise: float) -> pd.DataFrame:
    """Return a run that climbed over a tenth of its steps, and falls since as long."""
    half = max(4, n // 10)
    rise = random.uniform(0.3, 1.0) * np.r_[np.linspace(0, 1, half), np.linspace(1, 0.4, half)]
    return _times(_law(random, n, noise), n - 2 * half, 1 + rise)


def _overfit(random: Random, n: int, noise: float) -> pd.DataFrame:
    log = _law(random, n, noise)
    every = max(1, n // 30)
    held = log["loss"].to_numpy() + 0.1
    best = _place(random, n, 0.4, 0.7)
    low, rise = held[max(0, best - 3) : best + 1].mean(), random.uniform(1.1, 1.4)
    held[best:] = low * np.linspace(1, rise, n - best)
    held[best:] *= np.exp(noise * random.standard_normal(n - best))
    return log.assign(val_loss=np.where(np.arange(n) % every == 0, held, np.nan))


def _accuracy(random: Random, n: int, noise: float) -> pd.DataFrame:
    step = np.arange(1, n + 1)
    top, start = random.uniform(0.5, 0.99), random.uniform(0.0, 0.2)
    value = start + (top - start) * (1 - np.exp(-step / (random.uniform(0.1, 0.4) * n)))
    value = np.clip(value + noise * random.standard_normal(n), 0, 1)
    return pd.DataFrame({"step": step, "loss": value * (100 if random.random() < 0.5 else 1)})


# -- broken


def _grow(random: Random, n: int, noise: float) -> pd.DataFrame:
    log, last = _law(random, n, noise), max(4, _place(random, n, 0.05, 0.3))
    return _times(log, n - last, np.geomspace(1, random.uniform(1.3, 4), last))


def _climb(random: Random, n: int, noise: float) -> pd.DataFrame:
    log, last = _law(random, n, noise), _place(random, n, 0.1, 0.4)
    return _times(log, n - last, np.linspace(1, random.uniform(1.2, 2), last))


def _collapse(random: Random, n: int, noise: float) -> pd.DataFrame:
    """Return a run that falls to guessing: near its first loss, and stays there."""
    log, at = _law(random, n, noise), _place(random, n, 0.5, 0.95)
    loss = log["loss"].to_numpy(copy=True)
    loss[at:] = random.uniform(0.8, 1.1) * loss[:3].mean() * np.exp(noise * random.standard_normal(n - at))
    return log.assign(loss=loss)


def _double(random: Random, n: int, noise: float) -> pd.DataFrame:
    return _times(_law(random, n, noise), n - max(4, n // 10), 2.0)


def _chaos(random: Random, n: int, noise: float) -> pd.DataFrame:
    log, last = _law(random, n, noise), _place(random, n, 0.1, 0.3)
    rough = np.exp(0.2 * random.standard_normal(last))
    return _times(log, n - last, np.linspace(1, random.uniform(2, 4), last) * rough)


def _half_back(random: Random, n: int, noise: float) -> pd.DataFrame:
    """Return a run that jumped, came half back, and stands there."""
    log, at = _law(random, n, noise), _place(random, n, 0.5, 0.7)
    fall = np.exp(-np.arange(n - at) / (0.02 * n))
    return _times(log, at, 1 + random.uniform(0.6, 1.2) * (1 + fall) / 2)


def _warming(random: Random, n: int, noise: float) -> pd.DataFrame:
    """Return a run that diverges while its rate warms up."""
    log, last = _law(random, n, noise), max(5, n // 8)
    return _times(log.assign(lr=np.linspace(1e-6, 3e-3, n)), n - last, np.geomspace(1, 2.5, last))


def _at_once(random: Random, n: int, noise: float) -> pd.DataFrame:
    step = np.arange(1, n + 1)
    loss = random.uniform(3, 9) * np.geomspace(1, random.uniform(2, 20), n)
    return pd.DataFrame({"step": step, "loss": loss * np.exp(noise * random.standard_normal(n))})


def _swings(random: Random, n: int, noise: float) -> pd.DataFrame:
    log = _law(random, n, noise)
    period, growth = max(3, random.uniform(0.01, 0.1) * n), np.geomspace(1e-3, random.uniform(0.2, 0.6), n)
    return _times(log, 0, 1 + growth * np.sin(2 * np.pi * np.arange(n) / period))


def _unlearnt(random: Random, n: int, noise: float) -> pd.DataFrame:
    """Return a task that was solved, and is lost for good."""
    log, last = _solved(random, n, noise), max(5, _place(random, n, 0.05, 0.2))
    loss = log["loss"].to_numpy(copy=True)
    loss[n - last :] += np.linspace(0.2, random.uniform(1, 4), last)
    return log.assign(loss=loss)


def _tenth_of_sixty(random: Random, n: int, noise: float) -> pd.DataFrame:
    return _times(_law(random, 60, 0.005), 48, np.linspace(1, 1.1, 13)[1:])


def _end_of_sixty(random: Random, n: int, noise: float) -> pd.DataFrame:
    return _times(_law(random, 60, noise), 60 - int(random.integers(2, 4)), 5.0)


def _last_of_sixty(random: Random, n: int, noise: float) -> pd.DataFrame:
    return _times(_law(random, 60, noise), 59, 5.0)


HEALTHY: Mapping[str, Draw] = {
    "falling law": _law, "solved task, jitters": _solved, "rate up and down": _cycles,
    "single outliers, 1.2 to 1.66 x": _outliers,
}  # fmt: skip
LOOK: Mapping[str, Draw] = {
    "warm restart just begun": _restart, "data switched, falls again": _switch,
    "level 10% higher for good": _shift, "spike on its way back": _back, "climbed, falls since": _turned,
    "held-out loss rises": _overfit, "accuracy given as a loss": _accuracy,
    "x 5 in the last of 60 alone": _last_of_sixty,
}  # fmt: skip
GRAVE: Mapping[str, Draw] = {
    "exponential growth": _grow, "climb": _climb, "falls back to guessing": _collapse,
    "twice as high in the last tenth": _double, "rough climb": _chaos, "jump, half back, stands": _half_back,
    "diverges in warm-up": _warming, "diverges at once": _at_once, "swings that grow": _swings,
    "solved task, lost": _unlearnt, "10% over the last fifth of 60": _tenth_of_sixty,
    "x 5 in the last two or three of 60": _end_of_sixty,
}  # fmt: skip


def language_models(data: Path, half: int) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the set and the log of every second healthy run of a language model, as it was logged."""
    golf = pd.read_csv(data / "curves" / "parameter_golf" / "curves.csv.gz")
    sets: dict[str, list[pd.DataFrame]] = {}
    for name, log in tables(data):
        sets.setdefault("gemstones" if "Gemma" in name else "others", []).append(log)
    sets["parameter_golf"] = [log for _, log in golf.groupby("run")]
    for name, logs in sets.items():
        yield from ((name, log) for log in logs[half::2])


def grokking(runs: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the logs of trained runs."""
    from toposcope.sources import open_series

    series = open_series(str(runs))
    for run in series.runs:
        yield "grokking recipe", series.metrics(run.run).reset_index(drop=True)


def readings(log: pd.DataFrame) -> Iterator[tuple[float, list[Remark]]]:
    """Yield what is said at each tenth of a run's steps."""
    last = float(log["step"].max())
    column = "loss" if "loss" in log else "train_loss"
    for part in np.arange(1, 11) / 10:
        seen = log[log["step"] <= part * last]
        if seen[column].notna().any():
            yield part, list(assess(seen, column=column, horizon=last, anneals=bool(part < 1), noticed=False))


def share(found: int, of: int) -> str:
    """Return a share with its 95% interval by Wilson."""
    low, high = binomtest(found, of).proportion_ci(method="wilson")
    return f"{found:5d} {found / of:6.1%} [{low:5.1%}, {high:5.1%}]"


def row(case: str, said: list[list[Remark]]) -> str:
    """Return the line of one case, and which kinds were said."""
    grave = sum(any(one.useless_on for one in found) for found in said)
    look = sum(bool(found) and not any(one.useless_on for one in found) for found in said)
    kinds = sorted({one.kind for found in said for one in found})
    of = {kind: sum(any(one.kind == kind for one in found) for found in said) for kind in kinds}
    return f"{case:36s} {len(said):6d}  {share(grave, len(said))}  {share(look, len(said))}  {json.dumps(of)}"


def simulated(cases: Mapping[str, Draw], first: int, draws: int) -> Iterator[str]:
    """Yield a line for each case."""
    for case, draw in cases.items():
        said = []
        for count in LENGTHS:
            for noise in NOISES:
                for seed in range(first, first + draws):
                    random = rng(name="health cases", case=case, count=count, noise=noise, draw=seed)
                    said.append(list(assess(draw(random, count, noise), noticed=False)))
        yield row(case, said)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--draws", type=int, default=25, help="of each case, length and noise")
    parser.add_argument("--first", type=int, default=FIRST, help="the first draw")
    parser.add_argument("--half", choices=("even", "odd"), default="odd")
    parser.add_argument("--grokking", type=Path, help="folder of runs of the recipe grokking")
    options = parser.parse_args()
    print(f"{'case':36s} {'n':>6s}  {'grave':27s}  {'look':27s}  kinds")
    found: dict[str, list[list[Remark]]] = {}
    logs = list(language_models(options.data, int(options.half == "odd")))
    for name, log in [*logs, *(grokking(options.grokking) if options.grokking else ())]:
        found.setdefault(name, []).extend(said for _, said in readings(log))
    for name, said in found.items():
        print(row(name, said), flush=True)
    for title, cases in (("healthy", HEALTHY), ("to be looked at", LOOK), ("broken", GRAVE)):
        print(title)
        for line in simulated(cases, options.first, options.draws):
            print(line, flush=True)


if __name__ == "__main__":
    main()
