"""How far an adapter moves each weight of its base, in parts of that weight's norm."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from toposcope.files.formats.adapter import MAGNITUDE
from toposcope.files.formats.reader import Reader
from toposcope.sources.adapter_base import BaseWeights
from toposcope.sources.adapter_state import IA3, SCALES, AdapterChange, AdapterState


@dataclass(frozen=True, slots=True)
class AdapterEffect:
    """The change of one weight of the base: its norm, its rank, and `relative` = norm / ||W||.

    `relative` is NaN where the base has no such weight (`found` is false), or where it was not looked at
    (`why`).
    """

    name: str
    norm: float
    rank: int
    effective: float
    relative: float
    found: bool = True
    why: str = ""


def effects_on(weights: BaseWeights, state: AdapterState, adapter: Reader) -> list[AdapterEffect]:
    """Return the change of every weight that an adapter names; one weight is in memory at a time.

    LoRA adds scale * B A. DoRA adds it and then rescales each output to its magnitude m, so the change is
    m (W + B A) / ||W + B A|| - W. IA3 multiplies outputs or inputs by factors l, so it is (l - 1) W.
    """
    return [_effect(weights, state.method, change, adapter) for change in state.changes]


def _effect(weights: BaseWeights, method: str, change: AdapterChange, adapter: Reader) -> AdapterEffect:
    stored = None
    for shape in _shapes(weights, method, change):
        stored = stored or weights.find(change.name, shape)
    plain = (change.name, change.norm, change.rank, change.effective)
    if stored is None:
        return AdapterEffect(*plain, math.nan, found=False)
    if stored.values is None:
        return AdapterEffect(*plain, math.nan, why=stored.why)
    values = stored.values.astype(np.float32)
    # The shape tells outputs from inputs except where the matrix is square; a Conv1D stores inputs first.
    turned = len(values) == values.shape[-1] and bool(adapter.facts().config.get("fan_in_fan_out"))
    norm = change.norm
    if change.finite and method == "DoRA":
        magnitude = _magnitude(adapter, change.name)
        if magnitude is not None:
            tuned = values + adapter.read(change.name)
            norm = _rescaled(*((values.T, tuned.T) if turned else (values, tuned)), magnitude)
    elif change.finite and method == IA3:
        factors = adapter.read(f"{change.name.removesuffix('.weight')}{SCALES}").astype(np.float32)
        norm = float(np.linalg.norm((values.T if turned else values) * (factors - 1)))
    size = float(np.linalg.norm(values))
    return AdapterEffect(change.name, norm, change.rank, change.effective, norm / size if size else math.nan)


def _shapes(weights: BaseWeights, method: str, change: AdapterChange) -> Iterator[tuple[int, ...]]:
    """Yield the shapes that the changed weight may have; IA3's factors state only one of its two sides."""
    if method != IA3:
        yield change.shape
        return
    stored = weights.shape(change.name)
    axis = 0 if change.shape[-1] == 1 else 1
    if stored is not None and len(stored) == 2:
        yield from (dims for dims in (stored, stored[::-1]) if dims[axis] == change.shape[axis])


def _magnitude(adapter: Reader, name: str) -> np.ndarray | None:
    """Return DoRA's vector of one weight; None if the adapter lacks it."""
    start = name.removesuffix(".weight") + MAGNITUDE
    stored = next((name for name in adapter.infos() if name.startswith(start)), None)
    return None if stored is None else adapter.read(stored).astype(np.float32).ravel()


def _rescaled(weight: np.ndarray, tuned: np.ndarray, magnitude: np.ndarray) -> float:
    """Return the norm of DoRA's change of a weight; the magnitudes are those of its outputs.

    `tuned` is W + B A. Of a square matrix the outputs are the rows.

    >>> eye = np.eye(2, dtype=np.float32)
    >>> _rescaled(eye, eye, np.array([1.0, 3.0], np.float32))
    2.0
    """
    axis = 1 if len(magnitude) == len(weight) else 0
    norms = np.linalg.norm(tuned, axis=axis, keepdims=True)
    scale = magnitude.reshape(norms.shape) / np.where(norms > 0, norms, 1)
    return float(np.linalg.norm(scale * tuned - weight))
