r"""The ring test: whether the longest H1 bar of a cloud is longer than those of clouds without a ring.

Length is death/birth, :math:`\pi`, which depends neither on the scale nor on the density of the points
(Bobrowski, Skraba 2023). There are two statistics. The ratio is :math:`\pi` of the longest bar. The contrast
is how far its :math:`\ln\ln\pi` lies above the mean of the cloud's other bars, to which `PRIOR_BARS` bars of
a cloud in the plane are added. The contrast is needed because a cloud that is locally a surface has longer
chance bars than its covariance suggests; its other bars show this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from toposcope.clouds.nulls import NULLS, Draw, null_draws
from toposcope.core.progress import Progress
from toposcope.core.threads import thread_count
from toposcope.core.types import Diagram
from toposcope.kernels.blas import one_blas_thread
from toposcope.topology.rips import rips, rips_batch

LEVEL = 0.05
"""A ring is reported if the largest p-value is at most this."""
PLANE = -2.2
"""Mean ln ln(death/birth) of the H1 bars of 59 to 512 uniform points in a square: -2.25 to -2.15."""
PRIOR_BARS = 10.0
"""The number of bars of the plane that are added to a cloud's own bars: a clean ring has only one bar."""
BLOCK = 20
"""The number of clouds of a null that are drawn at once."""
STATISTICS = ("ratio", "contrast")
_TIE = 1e-9
"""Statistics this close count as equal: the diagrams of a lattice repeat up to rounding."""


@dataclass(frozen=True, slots=True)
class RingTest:
    """The result of the test: the longest bar, and its rank among `draws` clouds of each null.

    `birth` and `death` are NaN if the cloud has no H1 bar. `ratio` and `contrast` are the statistics. By
    (null, statistic), `p` has the p-value and `allowed` the value that one in twenty clouds of the null
    exceeds. `reached` has the ratios of all clouds. `complete` is False if the verdict was clear before all
    were drawn.
    """

    birth: float
    death: float
    ratio: float
    contrast: float
    bars: int
    draws: int
    p: Mapping[tuple[str, str], float]
    allowed: Mapping[tuple[str, str], float]
    reached: Mapping[str, np.ndarray]
    complete: bool = True

    @property
    def largest_p(self) -> float:
        """The largest p-value, over all nulls and both statistics."""
        return max(self.p.values())

    @property
    def hardest(self) -> tuple[str, str]:
        """The null and the statistic with the largest p-value; of several, the one that allows most."""
        return max(self.p, key=lambda key: (self.p[key], self.allowed[key] - self._of(key[1])))

    @property
    def most_allowed(self) -> float:
        """The largest death/birth that one in twenty clouds of a null exceeds."""
        return max(self.allowed[null, "ratio"] for null in NULLS)

    @property
    def found(self) -> bool:
        """Whether the bar is longer than all nulls allow."""
        return self.largest_p <= LEVEL

    def _of(self, statistic: str) -> float:
        return self.ratio if statistic == "ratio" else self.contrast


def statistics_of(h1: Diagram) -> tuple[float, float]:
    r"""Return the ratio and the contrast of an H1 diagram; (1, -inf) for one without bars.

    >>> bars = Diagram(1, np.array([1.0, 1.0]), np.array([np.e, np.exp(0.1)]))
    >>> ratio, contrast = statistics_of(bars)
    >>> round(ratio, 3), round(contrast, 3)
    (2.718, 2.209)
    """
    logs = log_log(h1)
    if not len(logs):
        return 1.0, -np.inf
    longest = int(logs.argmax())
    others = float(logs.sum() - logs[longest])
    expected = (others + PRIOR_BARS * PLANE) / (len(logs) - 1 + PRIOR_BARS)
    return float(np.exp(np.exp(logs[longest]))), float(logs[longest] - expected)


def log_log(h1: Diagram) -> np.ndarray:
    """Return ln ln(death/birth) of the finite bars of positive length."""
    positive = np.isfinite(h1.death) & (h1.death > h1.birth) & (h1.birth > 0)
    birth, death = h1.birth[positive], h1.death[positive]
    return np.log(np.log1p((death - birth) / birth))


def longest_bar(h1: Diagram) -> int | None:
    """Return the index of the bar of the largest death/birth; None without a bar.

    >>> longest_bar(Diagram(1, np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0])))
    1
    """
    positive = np.flatnonzero(np.isfinite(h1.death) & (h1.death > h1.birth) & (h1.birth > 0))
    if not len(positive):
        return None
    return int(positive[(h1.death[positive] / h1.birth[positive]).argmax()])


def ring_test(
    points: np.ndarray,
    *,
    draws: int = 99,
    seed: int = 0,
    h1: Diagram | None = None,
    stop: bool = False,
    progress: Progress | None = None,
) -> RingTest:
    """Test a cloud (n, d) for a ring: its longest H1 bar against `draws` clouds of each of `NULLS`.

    The p-value among the clouds of one null is (1 + how many reach the cloud's statistic) / (1 + draws), and
    the result is the largest of all. For Gaussian clouds, and for independent columns, the level is at most
    `LEVEL` by construction, because the null is drawn conditionally on all unknown parameters. With `stop`,
    drawing ends once the verdict is clear.

    Examples
    --------
    >>> angles = np.arange(40) * 2 * np.pi / 40
    >>> ring_test(np.column_stack([np.cos(angles), np.sin(angles)]), draws=19).largest_p
    0.05
    """
    if h1 is None:
        h1 = rips(points)[1]
    statistics = np.array(statistics_of(h1))
    reached: dict[str, list[tuple[float, float]]] = {null: [] for null in NULLS}
    complete = True
    for null in NULLS:
        for block in _blocks(points, null, draws, seed):
            reached[null] += block
            if progress is not None:
                progress.advance(len(block))
            if stop and _hopeless(np.array(reached[null]), statistics, draws):
                complete = False
                break
        if not complete:
            break
    p: dict[tuple[str, str], float] = {}
    allowed: dict[tuple[str, str], float] = {}
    for null, values in reached.items():
        for column, statistic in enumerate(STATISTICS):
            null_values = np.array([pair[column] for pair in values])
            p[null, statistic] = float(
                (1 + (null_values >= statistics[column] - _TIE).sum()) / (1 + len(null_values))
            )
            allowed[null, statistic] = allowed_by(null_values)
    ratios = {null: np.array([pair[0] for pair in values]) for null, values in reached.items()}
    at = longest_bar(h1)
    birth, death = (np.nan, np.nan) if at is None else map(float, h1[at])
    return RingTest(
        birth,
        death,
        float(statistics[0]),
        float(statistics[1]),
        len(log_log(h1)),
        draws,
        p,
        allowed,
        ratios,
        complete,
    )


def allowed_by(values: np.ndarray) -> float:
    """Return the value that a statistic must exceed for p <= `LEVEL` among these; infinite if too few.

    >>> allowed_by(np.arange(99.0)), allowed_by(np.arange(5.0))
    (94.0, inf)
    """
    may_reach = int(LEVEL * (1 + len(values)) + _TIE) - 1
    return float(np.sort(values)[::-1][may_reach]) if 0 <= may_reach < len(values) else float("inf")


def null_statistics(draw: Draw, numbers: Sequence[int]) -> list[tuple[float, float]]:
    """Return the statistics of the clouds of one null with these numbers."""
    # One thread for each core and one cloud at a time in each, as in `rips_batch`.
    with one_blas_thread(), ThreadPoolExecutor(thread_count()) as threads:
        clouds = list(threads.map(draw, numbers))
    return [statistics_of(h1) for _, h1 in rips_batch(clouds)]


def _blocks(points: np.ndarray, null: str, draws: int, seed: int) -> Iterator[list[tuple[float, float]]]:
    draw = null_draws(points, null, seed)
    for start in range(0, draws, BLOCK):
        yield null_statistics(draw, range(start, min(start + BLOCK, draws)))


def _hopeless(values: np.ndarray, statistics: np.ndarray, draws: int) -> bool:
    """Return whether p is already above `LEVEL`, whatever the remaining clouds give."""
    return bool(((values >= statistics - _TIE).sum(axis=0) + 1 > LEVEL * (1 + draws)).any())
