"""Finds runs that have left the common curve of siblings with the same schedule and tokens per parameter.

Divided by its own scale, the loss of every such run is the same function of the completed share of training
("collapse": arXiv 2507.02119, 2509.25087). Each run is described by the median log losses of `BLOCKS`
stretches of equal length, from a fifth of its training so far to the present. Its scale is the mean of the
first two thirds of them, which does not need the end of the run; its residual is the height of the last third
above the mean curve of its siblings. The siblings' residuals, each against the others, set the usual size:

    t = (r - r_hat) / (s sqrt(1 + h))

is compared with Student's t. If sizes differ and there are enough siblings, r_hat is a line in log size,
because the curves of larger models differ a little in one direction; otherwise it is the siblings' mean.

`benchmarks.collapse_rates` judges the limits: 9 of 422 healthy runs of simulated families are flagged, at a
nominal 2% (docs/check.md, "Has a run left the curve of its siblings?"). Half and double of each are judged
in docs/evidence/benchmarks-limits.csv (`python -m benchmarks.limits collapse`): none finds more runs whose
loss is 5% higher, and none but half of `BLOCKS` and double of `_LEAST_SPREAD` flags fewer healthy ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from toposcope.core.distributions import student_quantile, student_two_sided
from toposcope.logs.curve import Curve
from toposcope.logs.remarks import LOOK, Remark

BLOCKS = 12
"""Number of stretches, each a median of several losses: eight set the scale, four are the end."""
FEWEST = 3
"""The fewest siblings for a comparison."""
LEVEL = 0.02
"""How often a healthy run may leave its siblings' curve in one test."""
LEAST_SHARE = 0.1
"""A run is compared with its siblings once it has done this share of its steps."""
_SETTLED = 2 / 3
"""Share of the stretches that set a run's scale."""
_LEAST_SPREAD = 1e-3
"""The smallest spread of residuals, in log loss."""
_SAME_RATIO = 1.1
"""Tokens per parameter, or steps, that differ by at most this factor count as equal."""
_SAME_RATE = 0.05
"""The largest difference in learning rate between two runs of one schedule, relative to the peak."""
OFF = "off its siblings"


@dataclass(frozen=True, slots=True)
class CollapseResidual:
    """How far a run lies above its siblings' common curve, in log loss, and the usual range.

    `low` and `high` bound the residual of a healthy run at the requested level; `p` is two-sided. `since` is
    the step from which the run stays outside (None if it does not); `share` is the completed share of
    training.
    """

    run: str
    siblings: tuple[str, ...]
    residual: float
    low: float
    high: float
    p: float
    since: int | None
    share: float
    level: float

    @property
    def off(self) -> bool:
        """Whether the run has left its siblings' curve."""
        return not self.low <= self.residual <= self.high

    @property
    def sentence(self) -> str:
        """What is unusual about the run, without its name."""
        side = "above" if self.residual > 0 else "below"
        since = "" if self.since is None else f"since step {self.since:,} "
        return (
            f"{since}its loss is {abs(math.expm1(self.residual)):.1%} {side} the common curve of its "
            f"{len(self.siblings):,} siblings (a healthy run: {math.expm1(self.low):+.1%} to "
            f"{math.expm1(self.high):+.1%}; 1 healthy run in {1 / self.level:.0f} is outside)"
        )

    @property
    def ground(self) -> Remark:
        """The reason to look at the run."""
        remedy = "check what changed there: the data, the learning rate or the batch"
        return Remark(LOOK, OFF, self.since, self.sentence, remedy)


def collapse_residual(
    curve: Curve, siblings: Sequence[Curve], *, level: float = LEVEL
) -> CollapseResidual | None:
    """Return how far a run lies off the common curve of its siblings; None if there are too few.

    Parameters
    ----------
    curve
        The run so far; its horizon is the step at which it will end.
    siblings
        Finished runs. Runs with another schedule or other tokens per parameter, and broken runs, are left
        out.
    level
        How often a healthy run may count as having left its siblings.

    Examples
    --------
    >>> g, step = np.random.default_rng(0), np.arange(1.0, 1001.0)
    >>> def run(name, scale, rise=0.0, last=1000):
    ...     loss = scale * (2 + 5 * step**-0.5) * np.exp(0.01 * g.standard_normal(1000))
    ...     loss[400:] *= 1 + rise
    ...     return Curve(name, step[:last], loss[:last], np.full(last, np.nan), 1000)
    >>> known = [run(f"s{i}", 1 + i / 10) for i in range(5)]
    >>> collapse_residual(run("a", 1.2, last=600), known).off
    False
    >>> found = collapse_residual(run("b", 1.2, rise=0.05, last=600), known)
    >>> found.off, round(found.residual, 2)
    (True, 0.04)
    """
    if curve.endless or not curve.horizon or curve.last < LEAST_SHARE * curve.horizon:
        return None
    alike = [sibling for sibling in siblings if sibling.run != curve.run and comparable(curve, sibling)]
    if len(alike) < FEWEST:
        return None
    share = min(curve.last / curve.horizon, 1.0)
    edges = np.linspace(share / 5, share, BLOCKS + 1)
    rows = [_blocks(each_curve, edges) for each_curve in (curve, *alike)]
    if any(row is None for row in rows):
        return None
    mine, *theirs = (row for row in rows if row is not None)
    shapes = np.array(theirs)
    distances = _distance(mine, shapes)
    residual = _late(distances)
    residuals = np.array([_late(_distance(shape, np.delete(shapes, i, 0))) for i, shape in enumerate(shapes)])
    centre, spread, free = _predicted(curve, alike, residuals)
    half = float(student_quantile(1 - level / 2, free)) * spread
    p = float(student_two_sided((residual - centre) / spread, free))
    steps = edges[:-1] * curve.horizon
    outside = np.abs(distances - centre) > half
    stays = len(outside) - int(np.argmin(outside[::-1])) if not outside.all() else 0
    since = math.ceil(steps[stays]) if stays < len(steps) else None
    names = tuple(sibling.run for sibling in alike)
    return CollapseResidual(curve.run, names, residual, centre - half, centre + half, p, since, share, level)


def off_siblings(curves: Sequence[Curve], siblings: Sequence[Curve]) -> dict[str, Remark]:
    """Return, by run, the reason to look at a run that has left the curve of its finished siblings.

    Finished and broken runs are not compared: `check` judges them by their own logs.
    """
    grounds = {}
    for curve in curves:
        if curve.finished or curve.broke:
            continue
        residual = collapse_residual(
            curve, [other for other in siblings if other.finished and other.akin(curve)]
        )
        if residual is not None and residual.off:
            grounds[curve.run] = residual.ground
    return grounds


def comparable(curve: Curve, other: Curve) -> bool:
    """Return whether a finished, sound run has the same schedule and tokens per parameter as another.

    Rates are compared at equal shares of training, relative to their peaks, as far as both were logged.
    Without tokens, steps are compared instead, and sizes must be equal.
    """
    if not other.finished or other.broke:
        return False
    return _same_tokens(curve, other) and _same_rate(curve, other)


def _same_tokens(curve: Curve, other: Curve) -> bool:
    tokens = [member.covariates.get("tokens_per_step", 0.0) for member in (curve, other)]
    sizes = [member.parameters for member in (curve, other)]
    if min(tokens) > 0 and min(sizes) > 0:
        ratios = [t * member.horizon / n for t, n, member in zip(tokens, sizes, (curve, other), strict=True)]
        return max(ratios) <= _SAME_RATIO * min(ratios)
    steps = (curve.horizon, other.horizon)
    same_size = sizes[0] == sizes[1] or max(sizes) <= _SAME_RATIO * min(sizes)
    return same_size and max(steps) <= _SAME_RATIO * min(steps)


def _same_rate(curve: Curve, other: Curve) -> bool:
    plans = [member.plan() for member in (curve, other)]
    if plans[0] is None or plans[1] is None:
        return plans[0] is None and plans[1] is None
    shares = np.linspace(0.02, min(curve.last / curve.horizon, 1.0), 60)
    mine, theirs = (
        plan.at(shares * member.horizon)
        for plan, member in zip(plans, (curve, other), strict=True)
        if plan is not None
    )
    if not (mine.max() > 0 and theirs.max() > 0):
        return False
    gap = np.abs(mine / mine.max() - theirs / theirs.max())
    return bool(np.mean(gap > _SAME_RATE) <= 0.05)


def _blocks(curve: Curve, edges: np.ndarray) -> np.ndarray | None:
    """Return the median log loss of each stretch; None if one has no loss."""
    at = np.searchsorted(curve.step, edges * curve.horizon, side="right")
    if (np.diff(at) < 1).any():
        return None
    log = np.log(curve.loss)
    return np.array([float(np.median(log[a:b])) for a, b in pairwise(at)])


def _distance(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Return how far a run lies above the mean shape of the others, each scaled by its first stretches."""
    first = int(_SETTLED * len(mine))
    shape = (theirs - theirs[:, :first].mean(axis=1, keepdims=True)).mean(axis=0)
    return mine - mine[:first].mean() - shape


def _late(distances: np.ndarray) -> float:
    return float(distances[int(_SETTLED * len(distances)) :].mean())


def _predicted(curve: Curve, alike: Sequence[Curve], residuals: np.ndarray) -> tuple[float, float, int]:
    """Return the residual expected from the siblings', its standard error, and the degrees of freedom."""
    sizes = [member.parameters for member in (curve, *alike)]
    columns = [np.ones(len(residuals))]
    at = [1.0]
    if min(sizes) > 0 and len(residuals) >= FEWEST + 2 and len(set(sizes[1:])) >= FEWEST:
        columns.append(np.log(np.array(sizes[1:]) / sizes[0]))
        at.append(0.0)
    design, new = np.stack(columns, axis=1), np.array(at)
    inverse = np.linalg.pinv(design.T @ design)
    slopes = inverse @ design.T @ residuals
    free = len(residuals) - design.shape[1]
    left = residuals - design @ slopes
    spread = max(math.sqrt(float(left @ left) / free), _LEAST_SPREAD)
    return float(new @ slopes), spread * math.sqrt(1 + float(new @ inverse @ new)), free
