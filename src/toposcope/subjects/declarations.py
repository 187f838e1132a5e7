"""Declarations that several probes share: summaries of diagrams, distances between them, and spectra."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from toposcope.core.types import Feature, Kind, Scope, Use

SHAPE = (
    "entropy", "count", "max", "total", "entropy_normalized", "total_scaled", "total_sq", "mean", "std",
)  # fmt: skip
"""The features of one diagram: its summaries, and its total in units of the median distance."""

_LABELS = {
    "count": "count", "total": "total", "total_sq": "total of squares", "max": "longest bar", "mean": "mean",
    "std": "sd", "entropy": "entropy", "entropy_normalized": "entropy / ln n",
    "total_scaled": "total / median distance",
}  # fmt: skip
_UNITS = {"count": "bars", "total_sq": "{} squared", "entropy": "nats"}
_PURE = ("entropy_normalized", "total_scaled")
_MEANINGS = {
    "count": "number of finite bars", "total": "sum of the bars' lengths",
    "total_sq": "sum of the squared lengths", "max": "longest bar", "mean": "mean length",
    "std": "standard deviation of the lengths", "entropy": "entropy of the bars' shares of the total",
    "entropy_normalized": "that entropy over the logarithm of the number of bars",
    "total_scaled": "sum of the lengths over the cloud's median distance",
}  # fmt: skip

_READ_OFF = {
    "h0_total": {Use.EXPONENT: 2}, "h0_entropy": {Use.EXPONENT: 3}, "h1_total": {Use.EXPONENT: 4},
    "frobenius_norm": {Use.NORM: 2}, "stable_rank": {Use.NORM: 3}, "participation_ratio": {Use.NORM: 4},
}  # fmt: skip
"""The features from which scaling exponents are predicted, on any subject."""

_SPECTRUM = {
    "frobenius_norm": ("Frobenius norm", "{}"),
    "spectral_norm": ("spectral norm", "{}"),
    "stable_rank": ("stable rank", "dimensions"),
    "rankme": ("RankMe", "dimensions"),
    "rankme_eigenvalues": ("effective rank (eigenvalues)", "dimensions"),
    "participation_ratio": ("participation ratio", "dimensions"),
    "alpha_req": ("alpha-ReQ", "exponent"),
    "top_eigenvalue": ("top eigenvalue", "{} squared"),
    "mean_pairwise_distance": ("mean pairwise distance", "{}"),
}


def _leads(name: str, leads: Mapping[str, Mapping[Use, int]]) -> dict[Use, int]:
    return {**_READ_OFF.get(name, {}), **leads.get(name, {})}


def shape_feature(
    dim: int,
    name: str,
    *,
    unit: str,
    scopes: tuple[Scope, ...],
    aggregate: str,
    primary: bool = False,
    leads: Mapping[str, Mapping[Use, int]] = MappingProxyType({}),
) -> Feature:
    """Return the declaration of one feature of the diagram of dimension `dim`; `unit` is that of distances.

    `leads` says, by name, where features lead.

    >>> shape_feature(1, "max", unit="weight", scopes=(Scope.MATRIX,), aggregate="sum").label
    'H1 longest bar'
    """
    if name not in SHAPE:
        raise ValueError(f"{name!r} is not a feature of a diagram; use one of {', '.join(SHAPE)}")
    return Feature(
        f"h{dim}_{name}",
        f"H{dim} {_LABELS[name]}",
        unit="" if name in _PURE else _UNITS.get(name, "{}").format(unit),
        primary=primary,
        description=f"{_MEANINGS[name]}, Vietoris-Rips, dimension {dim}",
        scopes=scopes,
        aggregate=aggregate,
        leads=_leads(f"h{dim}_{name}", leads),
    )


def shape_features(
    dims: Iterable[int],
    *,
    unit: str,
    scopes: tuple[Scope, ...],
    names: Sequence[str] = SHAPE,
    aggregate: str = "mean",
    primary: Sequence[str] = (),
    leads: Mapping[str, Mapping[Use, int]] = MappingProxyType({}),
) -> tuple[Feature, ...]:
    """Return the declarations of the named features of every dimension, dimension by dimension."""
    return tuple(
        shape_feature(
            dim,
            name,
            unit=unit,
            scopes=scopes,
            aggregate=aggregate,
            primary=f"h{dim}_{name}" in primary,
            leads=leads,
        )
        for dim in dims
        for name in names
    )


def distance_features(
    ending: str, diagram: str, *, unit: str, scopes: tuple[Scope, ...]
) -> tuple[Feature, ...]:
    """Return the declarations of the distances to the previous checkpoint's `diagram`."""
    forms = {
        "wasserstein1": ("W1", "Wasserstein distance of order 1"),
        "wasserstein2": ("W2", "Wasserstein distance of order 2"),
        "bottleneck": ("bottleneck", "bottleneck distance"),
    }
    return tuple(
        Feature(
            f"{name}_{ending}",
            f"{short} to previous {diagram}",
            unit=unit,
            description=f"{words} to the previous checkpoint's {diagram}",
            scopes=scopes,
        )
        for name, (short, words) in forms.items()
    )


def spectral_features(
    names: Sequence[str] = tuple(_SPECTRUM),
    *,
    unit: str,
    scopes: tuple[Scope, ...],
    leads: Mapping[str, Mapping[Use, int]] = MappingProxyType({}),
) -> tuple[Feature, ...]:
    """Return the declarations of `toposcope.topology.baselines`, in the order of `names`."""
    return tuple(
        Feature(
            name,
            _SPECTRUM[name][0],
            _SPECTRUM[name][1].format(unit),
            Kind.BASELINE,
            scopes=scopes,
            leads=_leads(name, leads),
        )
        for name in names
    )
