"""Validation before every kernel: shapes, types, emptiness, NaN and infinity, in one-line errors.

Libraries react differently to bad input (silent infinite bars, a hang, a crash), so nothing reaches one of
them unchecked. The functions return the array that the kernels use.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.types import Diagram
from toposcope.kernels.selection import largest_magnitude

_HALF_TYPES = ("float16", "bfloat16")
_FLOAT_TYPES = (*_HALF_TYPES, "float32", "float64")
# Relative to the largest entry: a few float32 roundings (1.2e-7 each) are not an error of the caller.
_SYMMETRY_TOLERANCE = 1e-6


def check_matrix(W: Any, *, name: str = "W", finite: bool = True) -> np.ndarray:
    """Return `W` as a two-dimensional, non-empty array of a floating type.

    float16, bfloat16 (of `ml_dtypes`), float32 and float64 keep their type; integers become float64.

    Parameters
    ----------
    W : array_like, shape (n_out, n_in)
    name : str
        Name of the array in errors: that of the tensor.
    finite : bool
        Check for NaN and infinity (one pass). False if the caller's kernel checks.

    Raises
    ------
    InputError
        Wrong rank, no entries, a type that is not real, NaN or infinity.

    Examples
    --------
    >>> check_matrix([[1, 2], [3, 4]]).dtype
    dtype('float64')
    """
    array = _real_array(W, name)
    if array.ndim != 2:
        raise InputError(
            f"{name} has shape {array.shape}; a weight matrix has two dimensions (n_out, n_in): "
            "leave 1-D parameters out, reshape the others"
        )
    if array.size == 0:
        raise InputError(f"{name} is empty (shape {array.shape}); give at least one row and one column")
    if finite:
        require_finite(array, name)
    return array


def check_points(X: Any, *, name: str = "X", finite: bool = True) -> np.ndarray:
    """Return `X` as a cloud of shape (n, d), n >= 1 points in d >= 1 dimensions, of a floating type.

    Raises
    ------
    InputError
        Wrong rank, no points, no coordinates, a type that is not real, NaN or infinity.

    Examples
    --------
    >>> check_points([[0.0, 1.0]]).shape
    (1, 2)
    """
    array = _real_array(X, name)
    if array.ndim != 2:
        raise InputError(
            f"{name} has shape {array.shape}; a point cloud has two dimensions (points, coordinates): "
            "use X.reshape(n, d), for one point X[None, :]"
        )
    if array.shape[0] == 0:
        raise InputError(f"{name} has no points (shape {array.shape}); give at least one")
    if array.shape[1] == 0:
        raise InputError(f"{name} has points without coordinates (shape {array.shape}); give at least one")
    if finite:
        require_finite(array, name)
    return array


def check_distance_matrix(D: Any, *, name: str = "D") -> np.ndarray:
    """Return `D` as a float64 matrix of distances: square, symmetric, zero diagonal, non-negative, finite.

    Raises
    ------
    InputError
        If any of these fails; asymmetry up to 1e-6 of the largest distance counts as rounding.

    Examples
    --------
    >>> check_distance_matrix([[0, 2], [2, 0]])[0, 1]
    np.float64(2.0)
    """
    array = _real_array(D, name)
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise InputError(
            f"{name} has shape {array.shape}; a distance matrix is square: for points, choose another metric"
        )
    if array.size == 0:
        raise InputError(f"{name} is empty; give at least one point")
    require_finite(array, name)
    array = array.astype(np.float64, copy=False)
    slack = _SYMMETRY_TOLERANCE * float(np.abs(array).max())
    _require(
        array.min() >= 0, array, np.argmin(array), f"{name} has a negative distance", "distances are >= 0"
    )
    off = np.abs(np.diagonal(array))
    if off.max() > 0:
        i = int(off.argmax())
        raise InputError(
            f"{name}[{i}, {i}] = {array[i, i]:g}; the diagonal of a distance matrix is 0: use fill_diagonal"
        )
    skew = np.abs(array - array.T)
    _require(skew.max() <= slack, array, np.argmax(skew), f"{name} is not symmetric", "use (D + D.T) / 2")
    return array


def check_diagram(D: Any, *, name: str = "diagram", dim: int = 0, finite: bool = False) -> Diagram:
    """Return `D` as a `Diagram` with float64 births and deaths; an empty diagram is valid.

    Parameters
    ----------
    D : Diagram or array_like of shape (n, 2)
        An array's columns are birth and death.
    name : str
        Name of the diagram in errors.
    dim : int
        Homology dimension given to an array.
    finite : bool
        Refuse essential classes (deaths at +inf or -inf) instead of passing them on.

    Raises
    ------
    InputError
        NaN, an infinite birth, columns of different lengths, bars in both directions (a diagram is
        either sublevel, death >= birth, or superlevel, death <= birth), or an essential class when
        `finite`.

    Examples
    --------
    >>> len(check_diagram([[0.0, 1.0], [0.0, float("inf")]]))
    2
    """
    diagram = D if isinstance(D, Diagram) else _diagram_of(D, name, dim)
    birth = np.asarray(diagram.birth, np.float64)
    death = np.asarray(diagram.death, np.float64)
    if birth.ndim != 1 or birth.shape != death.shape:
        raise InputError(
            f"{name} has births {birth.shape} and deaths {death.shape}; give two 1-D arrays of one length"
        )
    for what, bad in (("birth", ~np.isfinite(birth)), ("death", np.isnan(death))):
        if bad.any():
            i = int(bad.argmax())
            raise InputError(
                f"{name} bar {i} is ({birth[i]:g}, {death[i]:g}); its {what} must be a number: drop the bar"
            )
    if (death > birth).any() and (death < birth).any():
        raise InputError(
            f"{name} has bars in both directions; split it into a sublevel and a superlevel diagram"
        )
    if finite and not np.isfinite(death).all():
        count = int((~np.isfinite(death)).sum())
        raise InputError(
            f"{name} has {count} essential classes (infinite death); drop them or give them a finite death"
        )
    return Diagram(diagram.dim, birth, death, diagram.filtration, diagram.n_vertices, diagram.truncated_at)


def require_finite(array: np.ndarray, name: str) -> None:
    """Raise `InputError` naming the first entry of `array` that is NaN or infinite."""
    if array.dtype.name in _HALF_TYPES:
        if math.isfinite(largest_magnitude(array)):
            return
        exponent = np.uint16(0x7C00 if array.dtype.name == "float16" else 0x7F80)
        bad = (array.view(np.uint16) & exponent) == exponent
    else:
        # A finite sum proves all entries finite without a temporary; overflow only costs the second look.
        with np.errstate(all="ignore"):
            if np.isfinite(array.sum()):
                return
        bad = ~np.isfinite(array)
    if not bad.any():
        return
    where = np.unravel_index(int(bad.argmax()), array.shape)
    place = ", ".join(str(int(i)) for i in where)
    raise InputError(
        f"{name}[{place}] is {float(array[where]):g} ({int(bad.sum()):,} of {array.size:,} entries not "
        "finite); drop or repair this tensor"
    )


def _real_array(values: Any, name: str) -> np.ndarray:
    if is_tensor(values):
        values = _tensor_array(values, name)
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(
            f"{name} is ragged and cannot be an array: {error}", remedy="give rows of one length"
        ) from error
    if array.dtype.name in _FLOAT_TYPES:
        return array
    if array.dtype.kind in "iu":
        return array.astype(np.float64)
    raise InputError(
        f"{name} has type {array.dtype}; give real numbers: float16, bfloat16, float32, float64 or integers"
    )


def is_tensor(values: Any) -> bool:
    """Return whether `values` is a torch tensor, without importing torch."""
    return type(values).__module__.partition(".")[0] == "torch"


def on_device(values: Any) -> bool:
    """Return whether `values` is a torch tensor outside the host's memory."""
    return is_tensor(values) and values.device.type != "cpu"


def check_tensor(tensor: Any, *, name: str, rank: str) -> None:
    """Check a device tensor like `check_matrix` and `check_points`; `rank` is its name in errors.

    Raises
    ------
    InputError
        Not two-dimensional, empty, a type that is not floating, NaN or infinity.
    """
    shape, dtype = tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
    if len(shape) != 2 or 0 in shape:
        raise InputError(f"{name} has shape {shape}; {rank} has two dimensions, both of them at least 1")
    if dtype not in _FLOAT_TYPES:
        raise InputError(f"{name} has type {dtype}; give one of {', '.join(_FLOAT_TYPES)}")
    # Extremes are finite exactly where everything is: they propagate NaN, and need no temporary.
    low, high = (float(edge) for edge in tensor.detach().aminmax())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise InputError(f"{name} has entries that are not finite; drop or repair this tensor")


def _tensor_array(tensor: Any, name: str) -> np.ndarray:
    """Return a host tensor as an array on the same memory."""
    if on_device(tensor):
        raise InputError(f"{name} is on {tensor.device}; pass tensor.cpu() here")
    host = tensor.detach()
    if str(host.dtype) != "torch.bfloat16":
        return host.numpy()
    import ml_dtypes
    import torch

    return host.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)


def _diagram_of(values: Any, name: str, dim: int) -> Diagram:
    if isinstance(values, Sequence) and len(values) == 0:
        return Diagram(dim, np.empty(0), np.empty(0))
    array = _real_array(values, name)
    if array.ndim != 2 or array.shape[1] != 2:
        raise InputError(
            f"{name} has shape {array.shape}; a diagram is a Diagram or an (n, 2) array of birth and death"
        )
    pairs = array.astype(np.float64)
    return Diagram(dim, pairs[:, 0].copy(), pairs[:, 1].copy())


def _require(ok: Any, array: np.ndarray, flat: Any, what: str, remedy: str) -> None:
    if not ok:
        i, j = (int(k) for k in np.unravel_index(int(flat), array.shape))
        raise InputError(f"{what} at [{i}, {j}] = {array[i, j]:g}; {remedy}")
