"""`cloud`: whether a cloud of points has a ring, and other properties of its shape."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from toposcope.core.errors import InputError

if TYPE_CHECKING:
    from toposcope.api.cloud_answer import RingAnswer
    from toposcope.topology.dimension import DimensionEstimate

LEAST_DRAWS = 19
"""Fewer draws of a null cannot give a p-value of .05."""
MOST_POINTS = 512
"""The default number of points: the most for which the error rates were measured."""
NOISE = 0.3
"""Noise, in radii, of the circles for which the power is computed if no ring was found."""
CIRCLES = 99
"""The number of these circles: the power then has a standard error of at most .05."""
_WORTH_SAYING = 5.0
"""The cost is announced before the work if it takes at least this many seconds."""
_TIMED, _CLOUDS_TIMED, _GROWTH = 256, 8, 2.3
"""Points of each timed cloud, the number of timed clouds, and the power of n by which the cost grows."""


def cloud(
    X: Any,
    *,
    tensor: str | None = None,
    columns: Sequence[str] = (),
    draws: int = 99,
    seed: int = 0,
    max_points: int = MOST_POINTS,
    noise: float | None = None,
    out: str | Path | None = None,
    quiet: bool = False,
) -> RingAnswer:
    r"""Say whether a cloud of points has a ring, with an error rate; also its diagrams and its dimension.

    The longest H1 bar of the Vietoris-Rips filtration, by :math:`\pi` = death/birth, is compared with those
    of four kinds of clouds without a ring: Gaussian with the same covariance, every column shuffled, clusters
    at random places, and heavy tails. Two statistics have to exceed these: :math:`\pi`, and :math:`\ln\ln\pi`
    above the mean of the cloud's other bars. The p-value of one is (1 + the number of draws that reach it) /
    (1 + draws). The p-value of the answer is the largest of all eight, and a ring is reported at .05.

    Parameters
    ----------
    X : array of shape (n, d), or path
        Points of any float type, or a file of them: .npy, .npz, .safetensors or .parquet.
    tensor : str, optional
        Which array of a .npz or .safetensors file; needed where it holds several with two dimensions.
    columns : sequence of str
        Which columns of a .parquet file are coordinates; by default all. A column of vectors counts.
    draws : int
        Clouds of each null, at least 19.
    seed : int
        Seed of all random draws; the same seed gives the same answer.
    max_points : int
        A larger cloud is subsampled to this many rows. Twice as many take about five times as long.
    noise : float, optional
        Noise, in radii, of the circles for which the power is computed: the root mean squared distance of the
        points from the circle. By default the noise of the ring that was found, or else .3.
    out : path, optional
        A folder that ring.png, ring.svg, diagrams.parquet and answer.json are written to.
    quiet : bool
        Show no cost and no progress.

    Returns
    -------
    RingAnswer
        `verdict` is "ring", "no ring shown" or "cannot tell" (the power is below 80%); births and deaths are
        in the unit of the points, float64.

    Raises
    ------
    InputError
        When a file or an array is not a cloud of finite numbers, or an option is out of its range.

    References
    ----------
    Bobrowski and Skraba, "A universal null-distribution for topological data analysis", Scientific Reports 13
    (2023), for death/birth and its scale.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> angles = generator.uniform(0, 2 * np.pi, 80)
    >>> circle = np.column_stack([np.cos(angles), np.sin(angles)]) + generator.normal(0, 0.05, (80, 2))
    >>> cloud(circle, draws=19, quiet=True).verdict
    'ring'
    """
    from toposcope.api.cloud_answer import RingAnswer
    from toposcope.clouds.cycle import plane_of
    from toposcope.clouds.power import ring_power
    from toposcope.clouds.reading import LEAST_POINTS, read_cloud
    from toposcope.clouds.ring import longest_bar, ring_test
    from toposcope.core.progress import Progress
    from toposcope.topology.clouds import subsample
    from toposcope.topology.rips import rips
    from toposcope.topology.units import binary_exponent, scaled

    _check(draws, max_points, noise, LEAST_POINTS)
    points, name = read_cloud(X, tensor=tensor, columns=columns)
    rows = subsample(len(points), max_points, draw=seed, purpose="cloud")
    taken = points[rows].astype(np.float64)
    exponent = binary_exponent(taken)
    taken = scaled(taken, -exponent)  # squares neither overflow nor vanish

    distinct = len(np.unique(taken, axis=0))  # a repeated row adds nothing to a circle
    nulls, width = 4 * draws, min(distinct - 1, taken.shape[1])
    work = nulls + (nulls + CIRCLES) * (width > 1)
    if not quiet:
        _say_cost(taken, work)
    diagrams = rips(taken, cycles=True, name=name)
    with Progress("diagrams", work, quiet=quiet) as progress:
        test = ring_test(taken, draws=draws, seed=seed, h1=diagrams[1], progress=progress)
        at, cycles = longest_bar(diagrams[1]), diagrams[1].cycles or ()
        plane = plane_of(taken, np.array([] if at is None else cycles[at], np.int64))
        if noise is None:
            noise = plane.noise if test.found else NOISE
        power = None
        if width > 1:
            power = ring_power(
                distinct, width, noise, draws=draws, circles=CIRCLES, seed=seed, progress=progress
            )
    dimensions, refused = _dimensions(taken)
    answer = RingAnswer(
        name, (len(points), points.shape[1]), rows, seed,
        tuple(_in_units(diagram, exponent, "birth", "death") for diagram in diagrams),
        _in_units(test, exponent, "birth", "death"), power,
        _in_units(plane, exponent, "places", "origin", "radius"), dimensions, refused,
    )  # fmt: skip
    if out is not None:
        answer.write(out)
    return answer


def _check(draws: int, max_points: int, noise: float | None, least: int) -> None:
    if draws < LEAST_DRAWS:
        raise InputError(
            f"a p-value of .05 needs at least {LEAST_DRAWS} draws", argument="draws", value=draws
        )
    if max_points < least:
        raise InputError(f"a ring needs at least {least:,} points", argument="max_points", value=max_points)
    if noise is not None and not 0 <= noise < np.inf:
        raise InputError(
            "a noise in units of the radius is at least 0",
            argument="noise",
            value=noise,
            remedy="give 0 or more",
        )


def _say_cost(points: np.ndarray, work: int) -> None:
    """Announce the time of all clouds and diagrams, estimated from a few with fewer points."""
    from toposcope.clouds.nulls import null_draws
    from toposcope.clouds.ring import null_statistics
    from toposcope.core.progress import duration

    part = points[:_TIMED]
    draw = null_draws(part, "gaussian", 0)
    null_statistics(draw, range(1))  # loads what was compiled
    started = time.monotonic()
    null_statistics(draw, range(_CLOUDS_TIMED))
    each = (time.monotonic() - started) / _CLOUDS_TIMED
    seconds = each * work * (len(points) / len(part)) ** _GROWTH
    if seconds > _WORTH_SAYING:
        message = f"{work} diagrams of {len(points):,} points: about {duration(seconds)}"
        print(message, file=sys.stderr, flush=True)


def _dimensions(points: np.ndarray) -> tuple[dict[str, DimensionEstimate], dict[str, str]]:
    """Return the estimates of the intrinsic dimension, and why others are impossible for this cloud."""
    from toposcope.topology.dimension import mle_dimension, ph_dimension, twonn

    estimates: dict[str, DimensionEstimate] = {}
    refused: dict[str, str] = {}
    for name, estimate in (("TwoNN", twonn), ("MLE", mle_dimension), ("PH", ph_dimension)):
        try:
            estimates[name] = estimate(points)
        except InputError as error:
            refused[name] = str(error)
    return estimates, refused


def _in_units(answer: Any, exponent: int, *names: str) -> Any:
    """Return a record with the named lengths converted back to the unit of the points."""
    from toposcope.topology.units import scaled

    if not exponent:
        return answer
    return replace(
        answer, **{name: scaled(np.asarray(getattr(answer, name)), exponent)[()] for name in names}
    )
