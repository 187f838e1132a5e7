"""Converts diagrams from and to the formats of other packages: gudhi, ripser, persim, giotto-tda and akriti.

Every `from_` returns a list of `Diagram`, one for each dimension from 0 to the highest that occurs; every
`to_` takes such a list. giotto-tda's arrays hold several clouds, so there it is one such list for each cloud.
Bars keep their order within a dimension, and essential classes die at infinity. Each costs O(bars).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.types import Diagram
from toposcope.topology.validation import check_diagram


def from_gudhi(persistence: Iterable[tuple[int, tuple[float, float]]]) -> list[Diagram]:
    """Return the diagrams of what gudhi's `SimplexTree.persistence()` returns: (dimension, (birth, death)).

    Raises InputError for rows of another form, NaN, or an infinite birth.

    >>> h0, h1 = from_gudhi([(1, (1.0, 2.0)), (0, (0.0, float("inf")))])
    >>> h0.pairs.tolist(), h1.pairs.tolist()
    ([[0.0, inf]], [[1.0, 2.0]])
    """
    dims: list[int] = []
    pairs: list[tuple[float, float]] = []
    for at, row in enumerate(persistence):
        try:
            dim, (birth, death) = row
            dims.append(int(dim))
            pairs.append((float(birth), float(death)))
        except (TypeError, ValueError):
            raise InputError(
                f"persistence[{at}] is {row!r:.60}; give gudhi's rows: (dimension, (birth, death))"
            ) from None
    return _by_dimension(np.array(dims, int), np.array(pairs, float).reshape(-1, 2))


def to_gudhi(diagrams: Iterable[Any]) -> list[tuple[int, tuple[float, float]]]:
    """Return diagrams as gudhi's list of (dimension, (birth, death)), for its functions that draw.

    >>> to_gudhi([Diagram(1, np.array([1.0]), np.array([2.0]))])
    [(1, (1.0, 2.0))]
    """
    return [
        (diagram.dim, (float(birth), float(death)))
        for diagram in _checked(diagrams)
        for birth, death in diagram.pairs
    ]


def from_ripser(found: Mapping[str, Any] | Sequence[Any]) -> list[Diagram]:
    """Return the diagrams of ripser's result, or of its or persim's list of (n, 2) arrays.

    The position in the list is the dimension. Raises InputError for arrays of another shape, NaN, or an
    infinite birth.

    >>> [len(diagram) for diagram in from_ripser({"dgms": [np.array([[0.0, np.inf]]), np.empty((0, 2))]})]
    [1, 0]
    """
    if isinstance(found, Mapping):
        if "dgms" not in found:
            raise InputError(f"found has the keys {sorted(map(str, found))}; ripser's result has 'dgms'")
        found = found["dgms"]
    return [_of_pairs(pairs, dim) for dim, pairs in enumerate(found)]


def to_ripser(diagrams: Iterable[Any]) -> list[np.ndarray]:
    """Return diagrams as a list of (n, 2) arrays by dimension: what ripser returns and persim takes.

    Dimensions that are missing below the highest are empty arrays.

    >>> [pairs.tolist() for pairs in to_ripser([Diagram(1, np.array([1.0]), np.array([2.0]))])]
    [[], [[1.0, 2.0]]]
    """
    given = _checked(diagrams)
    return [
        np.concatenate([np.empty((0, 2)), *(diagram.pairs for diagram in given if diagram.dim == dim)])
        for dim in range(max((diagram.dim for diagram in given), default=-1) + 1)
    ]


def from_giotto(clouds: Any) -> list[list[Diagram]]:
    """Return the diagrams of each cloud in giotto-tda's array of shape (clouds, bars, 3).

    A row is (birth, death, dimension). Rows of length zero are left out: giotto-tda fills up with them until
    all clouds have equally many rows. Raises InputError for an array of another shape, NaN, an infinite
    birth, or a dimension that is no whole number.

    >>> [[h0, h1]] = from_giotto([[[0.0, 1.0, 0], [0.0, 0.0, 0], [1.0, 2.0, 1]]])
    >>> h0.pairs.tolist(), h1.pairs.tolist()
    ([[0.0, 1.0]], [[1.0, 2.0]])
    """
    array = np.asarray(clouds, float)
    if array.ndim != 3 or array.shape[2] != 3:
        raise InputError(
            f"clouds has shape {array.shape}; giotto-tda's has (clouds, bars, 3): birth, death, dimension"
        )
    if (wrong := array[:, :, 2] % 1 != 0).any():
        raise InputError(
            f"clouds has the dimension {array[:, :, 2][wrong][0]:g}; dimensions are whole numbers"
        )
    return [_of_giotto(bars[:, :2], bars[:, 2].astype(int)) for bars in array]


def to_giotto(clouds: Iterable[Iterable[Any]]) -> np.ndarray:
    """Return the diagrams of several clouds as giotto-tda's array of shape (clouds, bars, 3).

    `clouds` has one list of diagrams for each cloud. Every cloud gets the same number of rows of a dimension:
    those that are missing have length zero. Most of giotto-tda's transformers need finite bars, so drop the
    essential classes first; its own H0 has none.

    >>> to_giotto([[[[0.0, 1.0]]], [[[0.0, 2.0], [0.0, 3.0]]]])[0].tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    by_dimension = [to_ripser(diagrams) for diagrams in clouds]
    blocks = [np.empty((len(by_dimension), 0, 3))]
    for dim in range(max(map(len, by_dimension), default=0)):
        pairs = [bars[dim] if dim < len(bars) else np.empty((0, 2)) for bars in by_dimension]
        blocks.append(_filled_up(pairs, dim))
    return np.concatenate(blocks, axis=1)


def from_akriti(diagram: Any) -> list[Diagram]:
    """Return the diagrams of an akriti `PersistenceDiagram`: its arrays `dims`, `births` and `deaths`.

    Its metadata are dropped. Raises InputError for an object without these arrays.

    >>> from types import SimpleNamespace
    >>> found = SimpleNamespace(dims=np.array([0]), births=np.array([0.0]), deaths=np.array([np.inf]))
    >>> from_akriti(found)[0].pairs.tolist()
    [[0.0, inf]]
    """
    try:
        dims, births, deaths = (np.asarray(getattr(diagram, name)) for name in ("dims", "births", "deaths"))
    except AttributeError:
        raise InputError(
            f"diagram is a {type(diagram).__name__}; an akriti diagram has dims, births and deaths"
        ) from None
    if not dims.shape == births.shape == deaths.shape or dims.ndim != 1:
        raise InputError(f"diagram has dims {dims.shape}, births {births.shape} and deaths {deaths.shape}")
    return _by_dimension(dims.astype(int), np.column_stack([births, deaths]).astype(float))


def to_akriti(diagrams: Iterable[Any]) -> Any:
    """Return diagrams as one akriti `PersistenceDiagram` (tried with version 0.2.0).

    Raises InputError if akriti is not installed.

    >>> to_akriti(rips(points))  # doctest: +SKIP
    PersistenceDiagram(...)
    """
    given = _checked(diagrams)
    try:
        from akriti.diagrams import PersistenceDiagram
    except ImportError as error:
        raise InputError(
            f"akriti cannot be imported ({error}); install it with: pip install akriti"
        ) from error
    bars = np.concatenate([np.empty((0, 3)), *(diagram.triples() for diagram in given)])
    return PersistenceDiagram(
        dims=bars[:, 2].astype(np.int32), births=bars[:, 0].copy(), deaths=bars[:, 1].copy()
    )


def _checked(diagrams: Iterable[Any]) -> list[Diagram]:
    return [check_diagram(diagram, name=f"diagrams[{at}]", dim=at) for at, diagram in enumerate(diagrams)]


def _of_pairs(pairs: Any, dim: int) -> Diagram:
    return check_diagram(np.asarray(pairs, float).reshape(-1, 2) if len(pairs) == 0 else pairs, dim=dim)


def _filled_up(pairs: Sequence[np.ndarray], dim: int) -> np.ndarray:
    """Return giotto-tda's rows of one dimension, at least one a cloud; rows of length zero fill up."""
    births = np.concatenate(pairs)[:, 0]
    start = births.min() if len(births) else 0.0  # as giotto-tda fills up: at the smallest birth
    block = np.full((len(pairs), max(1, *map(len, pairs)), 3), start)
    block[:, :, 2] = dim
    for rows, bars in zip(block, pairs, strict=True):
        rows[: len(bars), :2] = bars
    return block


def _of_giotto(pairs: np.ndarray, dims: np.ndarray) -> list[Diagram]:
    """Return the bars of positive length; a dimension that has only rows of length zero is empty."""
    diagrams = _by_dimension(dims, pairs)
    lasting = [diagram.death != diagram.birth for diagram in diagrams]
    return [
        Diagram(diagram.dim, diagram.birth[keep], diagram.death[keep])
        for diagram, keep in zip(diagrams, lasting, strict=True)
    ]


def _by_dimension(dims: np.ndarray, pairs: np.ndarray) -> list[Diagram]:
    if (dims < 0).any():
        raise InputError(f"a bar has the dimension {int(dims.min())}; dimensions are 0 or more")
    return [_of_pairs(pairs[dims == dim], dim) for dim in range(int(dims.max(initial=-1)) + 1)]
