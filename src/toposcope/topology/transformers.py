"""The vectors of diagrams as scikit-learn transformers: learn one range in `fit`, keep it in `transform`.

A sample is a diagram, and X one of

- a list of diagrams (`Diagram` or arrays of shape (bars, 2));
- an array (samples, bars, 2);
- a table (samples, bars) of deaths >= 0, the births being 0: H0 diagrams of clouds of one size.

Importing this module imports scikit-learn.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from toposcope.core.errors import InputError
from toposcope.core.types import Diagram
from toposcope.topology import vectors
from toposcope.topology.summaries import SUMMARIES, summaries
from toposcope.topology.validation import check_diagram


class _DiagramTransformer(TransformerMixin, BaseEstimator):
    """What the transformers share: reading X, the fitted range, names, and one vector a sample."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the range of the finite bars of the diagrams in X; `y` is ignored."""
        diagrams = self._read(X, reset=True)
        self._learn(diagrams)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return one row of float64 for each diagram in X, on the range learnt by `fit`."""
        check_is_fitted(self)
        diagrams = self._read(X, reset=False)
        rows = [self._vector(diagram) for diagram in diagrams]
        return np.stack(rows) if rows else np.empty((0, len(self.get_feature_names_out())))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns of `transform`; `input_features` is only checked."""
        check_is_fitted(self)
        named = getattr(self, "feature_names_in_", None)
        if input_features is not None and named is not None and not np.array_equal(named, input_features):
            raise InputError("input_features is not equal to feature_names_in_; leave it out")
        return np.asarray(self._names(), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.three_d_array = True
        tags.requires_fit = True
        return tags

    def _read(self, X: Any, *, reset: bool) -> list[Diagram]:
        if _holds_diagrams(X):
            if len(X) == 0:
                raise InputError("X has no diagrams; give at least one")
            return [check_diagram(item, name=f"X[{i}]") for i, item in enumerate(X)]
        table = validate_data(self, X, reset=reset, dtype=np.float64, ensure_min_samples=1)
        if (table < 0).any():
            raise InputError(
                f"Negative values in data passed to {type(self).__name__}: a table contains deaths >= 0 of "
                "bars "
                "born at 0; pass other diagrams as a list of (bars, 2) arrays"
            )
        return [Diagram(0, np.zeros(len(deaths)), deaths) for deaths in table]

    def _learn(self, diagrams: list[Diagram]) -> None:
        """Set the fitted attributes."""
        self.grid_ = _grid(diagrams, self.resolution, self.value_range)  # type: ignore[attr-defined]

    @abstractmethod
    def _vector(self, diagram: Diagram) -> np.ndarray:
        """Return the vector of one diagram."""

    @abstractmethod
    def _names(self) -> list[str]:
        """Return the name of each entry of a vector."""


class BettiCurves(_DiagramTransformer):
    """Betti curves on a grid learnt from the diagrams (`value_range` None) or given as (low, high).

    >>> BettiCurves(resolution=3).fit_transform([np.array([[0.0, 2.0], [0.0, 1.0]])])
    array([[2., 1., 0.]])
    """

    def __init__(self, resolution: int = 100, value_range: tuple[float, float] | None = None) -> None:
        self.resolution = resolution
        self.value_range = value_range

    def _vector(self, diagram: Diagram) -> np.ndarray:
        return vectors.betti_curve(diagram, self.grid_)

    def _names(self) -> list[str]:
        return [f"betti_{i}" for i in range(len(self.grid_))]


class EntropyCurves(_DiagramTransformer):
    """Entropy curves in nats on a grid learnt from the diagrams or given as (low, high)."""

    def __init__(self, resolution: int = 100, value_range: tuple[float, float] | None = None) -> None:
        self.resolution = resolution
        self.value_range = value_range

    def _vector(self, diagram: Diagram) -> np.ndarray:
        return vectors.entropy_curve(diagram, self.grid_)

    def _names(self) -> list[str]:
        return [f"entropy_{i}" for i in range(len(self.grid_))]


class Landscapes(_DiagramTransformer):
    """The first `levels` persistence landscapes, level by level, on a grid learnt or given as (low, high)."""

    def __init__(
        self, levels: int = 5, resolution: int = 100, value_range: tuple[float, float] | None = None
    ) -> None:
        self.levels = levels
        self.resolution = resolution
        self.value_range = value_range

    def _vector(self, diagram: Diagram) -> np.ndarray:
        return vectors.landscape(diagram, self.grid_, self.levels).ravel()

    def _names(self) -> list[str]:
        return [f"landscape{k + 1}_{i}" for k in range(self.levels) for i in range(len(self.grid_))]


class Silhouettes(_DiagramTransformer):
    """Silhouettes with weights length ** `power`, on a grid learnt or given as (low, high)."""

    def __init__(
        self,
        power: float = 1.0,
        resolution: int = 100,
        value_range: tuple[float, float] | None = None,
    ) -> None:
        self.power = power
        self.resolution = resolution
        self.value_range = value_range

    def _vector(self, diagram: Diagram) -> np.ndarray:
        return vectors.silhouette(diagram, self.grid_, self.power)

    def _names(self) -> list[str]:
        return [f"silhouette_{i}" for i in range(len(self.grid_))]


class PersistenceImages(_DiagramTransformer):
    """Persistence images, row by row of the length axis, on ranges learnt from the diagrams or given.

    `bandwidth` None takes a tenth of the longest bar seen in `fit`. Ranges are (low, high) of the births and
    of the lengths. A range without extent is widened to the bandwidth on both sides.
    """

    def __init__(
        self,
        bandwidth: float | None = None,
        resolution: int = 20,
        power: float = 1.0,
        birth_range: tuple[float, float] | None = None,
        length_range: tuple[float, float] | None = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.resolution = resolution
        self.power = power
        self.birth_range = birth_range
        self.length_range = length_range

    def _learn(self, diagrams: list[Diagram]) -> None:
        finite = [diagram for diagram in map(_finite_part, diagrams) if len(diagram)]
        births = np.concatenate([np.minimum(item.birth, item.death) for item in finite] or [np.zeros(1)])
        lengths = np.concatenate([np.abs(item.death - item.birth) for item in finite] or [np.zeros(1)])
        longest = float(lengths.max()) or 1.0
        self.bandwidth_ = longest / 10.0 if self.bandwidth is None else self.bandwidth
        self.birth_grid_ = _spaced(births, self.resolution, self.birth_range, self.bandwidth_)
        self.length_grid_ = _spaced(lengths, self.resolution, self.length_range, self.bandwidth_)

    def _vector(self, diagram: Diagram) -> np.ndarray:
        return vectors.persistence_image(
            diagram, self.birth_grid_, self.length_grid_, bandwidth=self.bandwidth_, power=self.power
        ).ravel()

    def _names(self) -> list[str]:
        return [f"image_{i}_{j}" for i in range(self.resolution) for j in range(self.resolution)]


class DiagramSummaries(_DiagramTransformer):
    """The scalar summaries of `toposcope.topology.summaries`, one column each."""

    def _learn(self, diagrams: list[Diagram]) -> None:
        self.n_diagrams_ = len(diagrams)

    def _vector(self, diagram: Diagram) -> np.ndarray:
        values = summaries(diagram)
        return np.array([values[key] for key in SUMMARIES])

    def _names(self) -> list[str]:
        return list(SUMMARIES)


def _holds_diagrams(X: Any) -> bool:
    """Whether X is a sequence of diagrams rather than a table of deaths."""
    if isinstance(X, np.ndarray):
        return X.ndim == 3
    if not isinstance(X, Sequence) or isinstance(X, str):
        return False
    return len(X) == 0 or isinstance(X[0], Diagram) or np.ndim(X[0]) == 2 or np.size(X[0]) == 0


def _finite_part(diagram: Diagram) -> Diagram:
    finite = np.isfinite(diagram.death)
    return Diagram(diagram.dim, diagram.birth[finite], diagram.death[finite])


def _grid(diagrams: list[Diagram], resolution: int, value_range: tuple[float, float] | None) -> np.ndarray:
    if value_range is None:
        return vectors.common_grid(diagrams, resolution)
    low, high = value_range
    if not low <= high:
        raise InputError(f"value_range is {value_range}; give (low, high) with low <= high")
    return np.linspace(low, high, resolution)


def _spaced(
    values: np.ndarray, resolution: int, given: tuple[float, float] | None, margin: float
) -> np.ndarray:
    low, high = given if given is not None else (float(values.min()), float(values.max()))
    if low == high:
        low, high = low - margin, high + margin
    if not low < high:
        raise InputError(f"range is {given}; give (low, high) with low < high")
    return np.linspace(low, high, resolution)
