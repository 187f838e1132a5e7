"""Vectors of persistence diagrams on grids; give a grid if a whole series must share one range.

All take a `Diagram` or an (n, 2) array, sublevel or superlevel; grids are 1-D, ascending, in the unit of the
filtration. The default is `common_grid` of the given diagrams: 100 values over the range of their finite
bars. Essential classes count in the Betti and Euler curves, because they never die, and are left out of
everything that needs a length.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.types import Diagram
from toposcope.kernels.vectors import top_tents, weighted_tents
from toposcope.topology.validation import check_diagram

PIXELS = 20
"""Pixels on each side of a persistence image without grids, as in Adams et al. 2017."""


def common_grid(diagrams: Iterable[Any], resolution: int = 100) -> np.ndarray:
    """Return `resolution` evenly spaced values from the smallest to the largest end of all finite bars.

    Raises InputError if no diagram has a finite bar, or `resolution` is below 2.

    >>> common_grid([[[0.0, 1.0]], [[0.5, 3.0]]], resolution=4)
    array([0., 1., 2., 3.])
    """
    if resolution < 2:
        raise InputError(f"resolution is {resolution}; a grid needs at least 2 values")
    ends = [end for diagram in diagrams for end in _finite(check_diagram(diagram))]
    values = np.concatenate([*ends, np.empty(0)])
    if len(values) == 0:
        raise InputError("diagrams have no finite bar, so they define no range; give the grid explicitly")
    return np.linspace(values.min(), values.max(), resolution)


def betti_curve(diagram: Any, grid: np.ndarray | None = None) -> np.ndarray:
    r"""Return :math:`\beta(t)`, the number of bars alive at each t: birth <= t < death.

    For superlevel diagrams death < t <= birth. Float64, shape of the grid; the unit is bars (Edelsbrunner,
    Letscher and Zomorodian 2002).

    >>> betti_curve([[0.0, 2.0], [1.0, np.inf]], np.array([0.0, 1.0, 2.0, 3.0]))
    array([1., 2., 1., 1.])
    """
    diagram = check_diagram(diagram)
    grid = _grid_of([diagram], grid)
    if (diagram.death < diagram.birth).any():
        born = len(diagram) - np.searchsorted(np.sort(diagram.birth), grid, side="left")
        dead = len(diagram) - np.searchsorted(np.sort(diagram.death), grid, side="left")
    else:
        born = np.searchsorted(np.sort(diagram.birth), grid, side="right")
        dead = np.searchsorted(np.sort(diagram.death), grid, side="right")
    return (born - dead).astype(np.float64)


def euler_curve(diagrams: Sequence[Any], grid: np.ndarray | None = None) -> np.ndarray:
    r"""Return :math:`\chi(t) = \sum_k (-1)^k \beta_k(t)` of the diagrams in dimensions 0, 1, ...

    A `Diagram` has its dimension; for arrays it is their index. For a Rips filtration cut at dimension k, the
    result is the alternating sum of the computed Betti curves, not of all simplices. The unit is bars
    (Turner, Mukherjee and Boyer 2014, for the curve as a statistic).

    >>> euler_curve([[[0.0, np.inf]], [[1.0, 2.0]]], np.array([0.0, 1.0, 2.0]))
    array([1., 0., 1.])
    """
    grid = _grid_of(diagrams, grid)
    total = np.zeros(len(grid))
    for place, diagram in enumerate(diagrams):
        dim = diagram.dim if isinstance(diagram, Diagram) else place
        total += (-1.0) ** dim * betti_curve(diagram, grid)
    return total


def landscape(diagram: Any, grid: np.ndarray | None = None, levels: int = 5) -> np.ndarray:
    r"""Return the persistence landscape, shape (levels, grid).

    :math:`\lambda_k(t)` is the k-th largest of :math:`\min(t - b_i, d_i - t)_+` (Bubenik 2015). Some
    libraries rotate the diagram, which makes their values larger by :math:`\sqrt 2`. The unit is that of
    the filtration.

    >>> landscape([[0.0, 2.0]], np.array([0.0, 1.0, 1.5]), levels=1)
    array([[0. , 1. , 0.5]])
    """
    if levels < 1:
        raise InputError(f"levels is {levels}; give at least one")
    low, high = _finite(check_diagram(diagram))
    grid = _grid_of([diagram], grid)
    out = np.empty((levels, len(grid)))
    top_tents(low, high, grid, out)
    return out


def silhouette(diagram: Any, grid: np.ndarray | None = None, power: float = 1.0) -> np.ndarray:
    r"""Return the weighted mean of the bars' tents, shape of the grid (Chazal et al. 2014).

    :math:`\phi(t) = \sum_i l_i^p \min(t - b_i, d_i - t)_+ / \sum_i l_i^p` with lengths :math:`l_i`; 0 for
    an empty diagram. The unit is that of the filtration.

    >>> silhouette([[0.0, 2.0], [0.0, 2.0]], np.array([0.0, 1.0]))
    array([0., 1.])
    """
    low, high = _finite(check_diagram(diagram))
    grid = _grid_of([diagram], grid)
    out = np.zeros(len(grid))
    positive = high > low
    length = high[positive] - low[positive]
    if len(length):
        weight = (length / length.max()) ** power
        weighted_tents(low[positive], high[positive], weight / weight.sum(), grid, out)
    return out


def entropy_curve(diagram: Any, grid: np.ndarray | None = None) -> np.ndarray:
    r"""Return :math:`-\sum p_i \ln p_i` over the bars alive at each t, in nats, shape of the grid.

    :math:`p_i` is the share of bar i in the total length of the whole diagram (Atienza et al. 2020).

    >>> bool(np.isclose(entropy_curve([[0.0, 1.0], [0.0, 1.0]], np.array([0.5]))[0], np.log(2)))
    True
    """
    low, high = _finite(check_diagram(diagram))
    grid = _grid_of([diagram], grid)
    positive = high > low
    low, high = low[positive], high[positive]
    if len(low) == 0:
        return np.zeros(len(grid))
    share = (high - low) / (high - low).sum()
    share = np.maximum(share, np.finfo(np.float64).tiny)
    term = -share * np.log(share)
    born, dead = np.argsort(low), np.argsort(high)
    gained = np.append(0.0, np.cumsum(term[born]))[np.searchsorted(low[born], grid, side="right")]
    lost = np.append(0.0, np.cumsum(term[dead]))[np.searchsorted(high[dead], grid, side="right")]
    return np.maximum(gained - lost, 0.0)


def persistence_image(
    diagram: Any,
    birth_grid: np.ndarray | None = None,
    length_grid: np.ndarray | None = None,
    *,
    bandwidth: float | None = None,
    power: float = 1.0,
) -> np.ndarray:
    r"""Return the persistence image, shape (length_grid, birth_grid) (Adams et al. 2017).

    The sum over bars of :math:`l_i^p` times a normal density of standard deviation `bandwidth` centred at
    (birth, length), sampled on the grids. Its unit is that of the filtration to the power `power` - 2.
    `power` = 0 weighs all bars equally, 1 in proportion to their lengths. Without grids, an image has
    `PIXELS` by `PIXELS` values, over the range of the finite bars' births and from 0 to the largest length.
    The default bandwidth is the larger spacing of the grids. Give grids and bandwidth to compare several
    images.

    Raises InputError for a bandwidth that is not positive, and if a grid is missing and the diagram has no
    finite bar.

    >>> axis = np.linspace(0.0, 1.0, 3)
    >>> persistence_image([[0.0, 0.5]], axis, axis, bandwidth=0.1).argmax()
    np.int64(3)
    """
    if bandwidth is not None and not bandwidth > 0:
        raise InputError(f"bandwidth is {bandwidth}; give a positive length")
    low, high = _finite(check_diagram(diagram))
    positive = high > low
    low, length = low[positive], high[positive] - low[positive]
    births, lengths = _pixels("birth_grid", birth_grid, low), _pixels("length_grid", length_grid, length, 0.0)
    if bandwidth is None:
        steps = [np.diff(grid).max(initial=0.0) for grid in (births, lengths)]
        bandwidth = float(max(steps)) or 1.0
    across, up = _bumps(low, births, bandwidth), _bumps(length, lengths, bandwidth)
    image = (up * (length / bandwidth) ** power) @ across.T / (2.0 * np.pi)
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(image * np.power(float(bandwidth), power - 2.0))


def crocker(series: Sequence[Any], grid: np.ndarray | None = None) -> np.ndarray:
    r"""Return the CROCKER matrix of a series of diagrams, shape (len(series), len(grid)).

    Row s is the Betti curve :math:`\beta(\varepsilon, t_s)` of diagram s on one grid of scales, in the unit
    bars (Topaz, Ziegelmeier and Halverson 2015).

    >>> crocker([[[0.0, 1.0]], [[0.0, 2.0]]], np.array([0.5, 1.5]))
    array([[1., 0.],
           [1., 1.]])
    """
    if len(series) == 0:
        raise InputError("series is empty; give at least one diagram")
    grid = _grid_of(series, grid)
    return np.stack([betti_curve(diagram, grid) for diagram in series])


def _finite(diagram: Diagram) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends of the finite bars."""
    finite = np.isfinite(diagram.death)
    birth, death = diagram.birth[finite], diagram.death[finite]
    return np.minimum(birth, death), np.maximum(birth, death)


def _grid_of(diagrams: Sequence[Any], grid: np.ndarray | None) -> np.ndarray:
    """Return the given grid, checked, or else the common grid of these diagrams."""
    return common_grid(diagrams) if grid is None else _checked_grid(grid)


def _pixels(name: str, grid: np.ndarray | None, values: np.ndarray, *low: float) -> np.ndarray:
    """Return one side of an image: the given grid, or `PIXELS` values from the smallest to the largest."""
    if grid is not None:
        return _checked_grid(grid)
    if not len(values):
        raise InputError(
            f"{name} is not given, and the diagram has no finite bar that would define it; give the grid"
        )
    return np.linspace(min([*low, values.min()]), values.max(), PIXELS)


def _checked_grid(grid: np.ndarray) -> np.ndarray:
    grid = np.asarray(grid, np.float64)
    if grid.ndim != 1 or len(grid) == 0 or not np.isfinite(grid).all() or (np.diff(grid) < 0).any():
        raise InputError(f"grid has shape {grid.shape}; give finite ascending values in one dimension")
    return grid


def _bumps(centre: np.ndarray, grid: np.ndarray, bandwidth: float) -> np.ndarray:
    return np.exp(-(((grid[:, None] - centre) / bandwidth) ** 2) / 2.0)
