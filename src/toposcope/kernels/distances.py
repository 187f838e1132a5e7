"""Pairwise distances of a point cloud, accurate under cancellation.

|x|^2 + |y|^2 - 2 x.y loses all precision if x and y are close compared with their norms. Clouds are therefore
centred if that helps, and every squared distance that is small compared with the norms is recomputed in
float64 from the difference of the points themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from toposcope.core.compiling import inner_kernel, kernel
from toposcope.core.threads import row_blocks, run_blocks
from toposcope.kernels.selection import COMFORTABLE_SINGLE

CANCELLATION, _CANCELLATION_64 = 1e-2, 1e-6
"""Squared distances below this share of |x|^2 + |y|^2 are recomputed from differences: float32, float64."""
_TINY = 1e-30
"""Squared norms below which float32 products underflow, in units where the largest entry is near 1."""
_OFFSET = 0.25
"""Centring pays off if the mean itself has more than this share of the mean squared norm."""
# Entries prepared at a time, to bound memory.
_CHUNK = 1 << 20
# Entries below which starting threads costs more than it saves. Changes speed only.
_SERIAL_BELOW = 1_000_000


@dataclass(frozen=True, slots=True)
class PreparedCloud:
    """A cloud ready for float32 products, with the data for exact recomputation.

    `work` (n, d) float32 has the squared norms `norms`; its distances are those of the rows of `rows` times
    `row_scale`, which are `scale` times the requested distances.
    """

    work: np.ndarray
    norms: np.ndarray
    rows: np.ndarray
    row_scale: np.ndarray
    scale: float

    def exact_squares(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the squared lengths of the edges (u, v) in float64."""
        serial = u.size * self.rows.shape[1] < _SERIAL_BELOW
        parts = run_blocks(
            lambda block: _squares_of_edges(self.rows, self.row_scale, u[slice(*block)], v[slice(*block)]),
            row_blocks(u.size, serial=serial),
            serial=serial,
        )
        return np.concatenate(parts)


def prepared(X: np.ndarray, *, unit: bool = False) -> PreparedCloud:
    """Return `X` scaled by a power of two (with `unit`, every row scaled to norm 1) and centred if needed.

    A float32 cloud of moderate values around 0 is used unchanged, without a copy.
    """
    rows, row_scale, scale = _scaled(X, unit=unit)
    center = _mean(rows, row_scale)
    norms = squared_norms(rows, row_scale=row_scale)
    if (center**2).sum() <= _OFFSET * norms.mean():
        center[:] = 0.0
        if rows.dtype == np.float32 and scale == 1.0 and not unit:
            return PreparedCloud(rows, norms, rows, row_scale, scale)
    work = np.empty(rows.shape, np.float32)
    for start, stop in _chunks(rows):
        work[start:stop] = rows[start:stop].astype(np.float64) * row_scale[start:stop, None] - center
    return PreparedCloud(work, squared_norms(work), rows, row_scale, scale)


def _raised(rows: np.ndarray) -> np.ndarray:
    """Return rows whose norm has no inverse in float64 times 2^600: only their direction is needed."""
    low = np.abs(rows).max(axis=1) < 2.0**-500
    if low.any():
        rows = rows.copy()
        rows[low] *= 2.0**600
    return rows


def _scaled(X: np.ndarray, *, unit: bool) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the rows (float32 or float64), the factor of each, and how much they enlarge distances."""
    rows = np.ascontiguousarray(X if X.dtype.itemsize > 2 else X.astype(np.float32))
    top = max(abs(float(rows.max())), abs(float(rows.min())))
    scale = 1.0
    if unit and rows.dtype == np.float64:
        rows = _raised(rows)
    if top > 0 and not COMFORTABLE_SINGLE[0] < top < COMFORTABLE_SINGLE[1]:
        scale = 2.0 ** -float(np.clip(np.frexp(top)[1], -1000, 1000))
    row_scale = np.full(len(rows), scale)
    if unit:
        row_scale = np.concatenate(_over_chunks(rows, _inverse_norms))
        scale = 1.0
    return rows, row_scale, scale


def euclidean_distances(X: np.ndarray, *, unit: bool = False) -> np.ndarray:
    """Return the (n, n) float64 matrix of Euclidean distances of the rows of `X`, zero on the diagonal.

    Products are in float64 here, because every entry is a result; the relative error is below 1e-9. With
    `unit`, every row is divided by its norm first.
    """
    # One type of rows, so that the kernels are compiled for one.
    rows, row_scale, scale = _scaled(X.astype(np.float64, copy=False), unit=unit)
    wide = rows * row_scale[:, None] - _mean(rows, row_scale)
    norms = squared_norms(wide)
    out = wide @ wide.T
    serial = out.size < _SERIAL_BELOW

    def fill(block: tuple[int, int]) -> None:
        _fill(out, norms, rows, row_scale, 1.0 / scale, *block)

    run_blocks(fill, row_blocks(len(out), per_thread=16, serial=serial), serial=serial)
    return out


@inner_kernel
def squares_of_row(
    products: np.ndarray,
    i: int,
    norms: np.ndarray,
    rows: np.ndarray,
    row_scale: np.ndarray,
    stop: int,
    cancellation: float,
    out: np.ndarray,
) -> None:
    """Write the squared distances of point i to points 0 to `stop` - 1, from its row of products."""
    if _squared_distances(products, norms[i], norms, stop, cancellation, out):
        for j in range(stop):
            size = norms[i] + norms[j]
            if out[j] < cancellation * size or size < _TINY:
                out[j] = square(rows[i], rows[j], row_scale[i], row_scale[j])


@inner_kernel
def _squared_distances(
    products: np.ndarray, norm: float, norms: np.ndarray, stop: int, cancellation: float, out: np.ndarray
) -> bool:
    """Write |x|^2 + |y|^2 - 2 x.y for one point and `stop` others; return whether any lost its digits."""
    lost = 0  # an integer, so that the loop has no branch
    for j in range(stop):
        size = norm + norms[j]
        out[j] = size - 2.0 * products[j]
        lost |= (out[j] < cancellation * size) | (size < _TINY)
    return lost != 0


@inner_kernel(fastmath={"reassoc"})
def square(x: np.ndarray, y: np.ndarray, x_scale: float, y_scale: float) -> float:
    """Return the squared distance of x * x_scale and y * y_scale in float64."""
    total = 0.0
    for k in range(x.size):
        gap = np.float64(x[k]) * x_scale - np.float64(y[k]) * y_scale
        total += gap * gap
    return total


@kernel
def direct_squares(rows: np.ndarray, row_scale: np.ndarray) -> np.ndarray:
    """Return the (n, n) squared distances of the scaled rows in float64, from differences."""
    n = len(rows)
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            out[i, j] = square(rows[i], rows[j], row_scale[i], row_scale[j])
            out[j, i] = out[i, j]
    return out


@kernel
def _squares_of_edges(rows: np.ndarray, row_scale: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    out = np.empty(u.size)
    for e in range(u.size):
        out[e] = square(rows[u[e]], rows[v[e]], row_scale[u[e]], row_scale[v[e]])
    return out


@kernel
def _fill(
    products: np.ndarray,
    norms: np.ndarray,
    rows: np.ndarray,
    row_scale: np.ndarray,
    unscale: float,
    first: int,
    last: int,
) -> None:
    """Turn rows of products into distances in place; only the entries below the diagonal are read."""
    squares = np.empty(len(norms))
    for i in range(first, last):
        squares_of_row(products[i], i, norms, rows, row_scale, i, _CANCELLATION_64, squares)
        products[i, i] = 0.0
        for j in range(i):
            length = math.sqrt(squares[j]) * unscale
            products[i, j] = length
            products[j, i] = length


def _chunks(X: np.ndarray) -> list[tuple[int, int]]:
    step = max(1, _CHUNK // X.shape[1])
    return [(start, min(start + step, len(X))) for start in range(0, len(X), step)]


def _over_chunks(X, function):
    return run_blocks(lambda span: function(X[slice(*span)]), _chunks(X), serial=X.size < _SERIAL_BELOW)


def _inverse_norms(part: np.ndarray) -> np.ndarray:
    wide = part.astype(np.float64)
    largest = np.abs(wide).max(axis=1)
    return 1.0 / (np.sqrt(((wide / largest[:, None]) ** 2).sum(axis=1)) * largest)


def _mean(rows: np.ndarray, row_scale: np.ndarray) -> np.ndarray:
    def sums(span: tuple[int, int]) -> np.ndarray:
        total = np.zeros(rows.shape[1])
        _add_rows(rows[slice(*span)], row_scale[slice(*span)], total)
        return total

    parts = run_blocks(sums, _chunks(rows), serial=rows.size < _SERIAL_BELOW)
    return np.sum(parts, axis=0) / len(rows)


@kernel
def _add_rows(rows: np.ndarray, row_scale: np.ndarray, total: np.ndarray) -> None:
    for i in range(rows.shape[0]):
        for k in range(total.size):
            total[k] += rows[i, k] * row_scale[i]


def squared_norms(
    rows: np.ndarray, *, row_scale: np.ndarray | None = None, center: np.ndarray | None = None
) -> np.ndarray:
    """Return |x s - center|^2 in float64 for every row x with its scale s."""
    scales = np.ones(len(rows)) if row_scale is None else row_scale
    origin = np.zeros(rows.shape[1]) if center is None else center
    serial = rows.size < _SERIAL_BELOW
    norms = np.empty(len(rows))

    def measure(block: tuple[int, int]) -> None:
        part = slice(*block)
        _squared_norms(rows[part], scales[part], origin, norms[part])

    run_blocks(measure, row_blocks(len(rows), serial=serial), serial=serial)
    return norms


@kernel
def _squared_norms(rows: np.ndarray, row_scale: np.ndarray, center: np.ndarray, norms: np.ndarray) -> None:
    for i in range(len(rows)):
        norms[i] = square(rows[i], center, row_scale[i], 1.0)
