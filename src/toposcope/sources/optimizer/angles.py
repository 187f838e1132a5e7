"""Which of several weights of one shape a parameter is: by its moments and the weights' last change."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from toposcope.files.formats.reader import Reader
from toposcope.files.training_state.nouns import OptimizerState, ParameterState
from toposcope.sources.audit_evidence import sampled
from toposcope.sources.optimizer.naming import ParameterNames, Shape

SURE = 6.0
"""A cosine of independent directions of n values has the standard deviation 1/sqrt(n); a pair is sure if its
cosine, and its distance to every other, is so many of them. Of 128 x 128 pairs none is by chance (3e-5)."""
_MOST = 256
"""Of so many weights of a shape at most the cosines are computed; each pair is one of their square."""

Values = Callable[[Reader, str], np.ndarray]


def by_angle(optimizer: OptimizerState, names: ParameterNames, now: Reader, before: Reader) -> ParameterNames:
    """Return names in which weights of equal shape are told apart, where their last change does it.

    An update is along -m/sqrt(v), so the change of a parameter's weights is against it. A parameter is named
    if it and a weight are each other's most opposed, and clearly so.
    """
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for key, candidates in names.candidates.items():
        if 1 < len(candidates) <= _MOST:
            groups[candidates].append(key)
    chosen: dict[str, tuple[str, ...]] = dict(names.candidates)
    for candidates, keys in groups.items():
        shape = optimizer.parameters[keys[0]].shape or ()
        usable = [name for name in candidates if _alike(now, name, shape) and _alike(before, name, shape)]
        if len(usable) != len(candidates) or not shape:
            continue
        pairs = _pairs(optimizer, keys, candidates, now, before, shape)
        taken = set(pairs.values())
        rest = tuple(name for name in candidates if name not in taken)
        chosen |= {key: (pairs[key],) if key in pairs else rest or candidates for key in keys}
    return ParameterNames(chosen)


def _alike(reader: Reader, name: str, shape: Shape) -> bool:
    info = reader.infos().get(name)
    return info is not None and not info.skip and info.shape == shape


def _pairs(
    optimizer: OptimizerState, keys: Sequence[str], names: Sequence[str], now: Reader, before: Reader,
    shape: Shape,
) -> Mapping[str, str]:  # fmt: skip
    rows = sampled(shape[0], 4 * math.prod(shape))
    directions = np.array([_unit(_direction(optimizer.parameters[key], rows)) for key in keys])
    changes = np.array([_unit(_change(now, before, name, rows)) for name in names])
    cosines = directions @ changes.T
    bound = SURE / math.sqrt(directions.shape[1])
    pairs = {}
    for at, key in enumerate(keys):
        best = int(np.argmin(cosines[at]))
        others = [*np.delete(cosines[at], best), *np.delete(cosines[:, best], at)]
        if cosines[at, best] < -bound and cosines[at, best] < min(others, default=0.0) - bound:
            pairs[key] = names[best]
    return pairs


def _direction(parameter: ParameterState, rows: Sequence[tuple[int, int]]) -> np.ndarray:
    parts = []
    for part in rows:
        first = parameter.first.values(part) if parameter.first is not None else np.zeros(0)
        if parameter.second is not None and len(first):
            with np.errstate(invalid="ignore", divide="ignore"):
                first = first / np.sqrt(parameter.second.values(part))
        parts.append(first)
    return np.concatenate(parts)


def _change(now: Reader, before: Reader, name: str, rows: Sequence[tuple[int, int]]) -> np.ndarray:
    here, there = (np.concatenate([reader.rows(name, *part).astype(np.float64).reshape(-1) for part in rows])
                   for reader in (now, before))  # fmt: skip
    return here - there


def _unit(values: np.ndarray) -> np.ndarray:
    """Return a direction of length 1; 0 where there is none."""
    values = np.where(np.isfinite(values), values, 0.0)
    length = math.sqrt(float(values @ values)) if len(values) else 0.0
    return values / length if 0 < length < math.inf else np.zeros_like(values)
