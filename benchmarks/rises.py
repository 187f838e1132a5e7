"""How the positive control's statistic was chosen, and its intervals: python -m benchmarks.rises.

Series of 51 checkpoints in persistent noise with a smooth rise over 15 to 25 of them, 2.5 standard deviations
high. First the share of series that each statistic ranks at 5% among 39 draws of the same noise. The
statistics are the height of the highest step up (`studies.grokking.rises`, the one in use), the sum of
squares of the best rising curve, the last quarter minus the first, and the gain of the search for changes
without its waves.
Then how often the 95% sets of `studies.grokking.rises.place` contain the start and the middle of a logistic
rise, to half a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.stats import binomtest
from sklearn.isotonic import IsotonicRegression

from toposcope.statistics.phases.bends import scan
from toposcope.statistics.phases.curves import design
from toposcope.statistics.phases.simulated import autoregressions
from toposcope.studies.grokking.rises import height, place, rank

STEPS = 60.0 * np.arange(1, 52)
SERIES, SLOW_SERIES, DRAWS = 100, 40, 39
"""The gain takes some thousand times as long, so it has fewer series."""


def noise(g: np.random.Generator, phi: float, count: int) -> np.ndarray:
    """Return autoregressions of variance 1, (count, 51); walks of about as much where phi is 1."""
    normal = g.standard_normal((count, len(STEPS)))
    if phi == 1.0:
        return normal.cumsum(axis=1) / 7.0
    return autoregressions(normal, np.full(count, phi)) * np.sqrt(1.0 - phi * phi)


def rising_curve(values: np.ndarray) -> float:
    fitted = IsotonicRegression().fit_transform(np.arange(len(values)), values)
    return float(np.sum((fitted - values.mean()) ** 2))


def ends(values: np.ndarray) -> float:
    quarter = len(values) // 4
    return float(values[-quarter:].mean() - values[:quarter].mean())


def gain(values: np.ndarray) -> float:
    return scan(design(STEPS), np.diff(values)).bare


STATISTICS: dict[str, tuple[Callable[[np.ndarray], float], int]] = {
    "highest step up": (height, SERIES),
    "best rising curve": (rising_curve, SERIES),
    "last quarter less first": (ends, SERIES),
    "gain without waves": (gain, SLOW_SERIES),
}


def share(count: int, total: int) -> str:
    held = binomtest(count, total).proportion_ci(method="exact")
    return f"{100 * count / total:.0f}% ({100 * held.low:.0f} to {100 * held.high:.0f})"


def power(phi: float) -> None:
    for name, (statistic, count) in STATISTICS.items():
        g, found = np.random.default_rng(int(100 * phi)), 0
        for _ in range(count):
            series, width = noise(g, phi, DRAWS + 1), g.uniform(15, 25)
            part = np.clip((np.arange(len(STEPS)) - g.uniform(8, 43 - width)) / width, 0.0, 1.0)
            own = statistic(series[0] + 2.5 * part * part * (3.0 - 2.0 * part))
            found += rank(own, (statistic(draw) for draw in series[1:])) <= 0.05
        print(f"noise AR(1) {phi:4g}  {name:24} found in {share(found, count)}", flush=True)


def coverage(phi: float, size: float) -> None:
    g, held = np.random.default_rng(int(100 * phi)), np.zeros(2, int)
    for _ in range(SERIES):
        width, middle = 60 * g.uniform(8, 25), 60 * g.uniform(16, 36)
        start = middle - width / 2
        values = size / (1.0 + 9.0 ** (-2.0 * (STEPS - middle) / width)) + noise(g, phi, 1)[0]
        found = place(STEPS, values, 1)
        if found is not None:
            held[0] += found.start_low - 30 <= start <= found.start_high + 30
            held[1] += found.middle_low - 15 <= middle <= found.middle_high + 15
    start_share, middle_share = (share(int(one), SERIES) for one in held)
    print(
        f"noise AR(1) {phi:4g}, rise of {size:2g} sd: start in {start_share}, middle in {middle_share}",
        flush=True,
    )


if __name__ == "__main__":
    for persistence in (0.0, 0.6, 0.9, 1.0):
        for rise in (4.0, 10.0):
            coverage(persistence, rise)
    for persistence in (0.5, 0.8, 0.95):
        power(persistence)
