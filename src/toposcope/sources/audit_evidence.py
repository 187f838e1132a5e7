"""The evidence of an audit: a few numbers per checkpoint and tensor, collected in one pass over a run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.core.types import Checkpoint
from toposcope.files.formats.adapter import adapted
from toposcope.files.formats.reader import WEIGHT_DTYPES, Facts, Reader, TensorInfo
from toposcope.sources.changes import TensorChange, change_of, values_of
from toposcope.sources.content import all_finite
from toposcope.sources.expert_layers import ExpertLayer, ExpertLooks, of_one, of_stack
from toposcope.sources.series import Series

SMALL = 64
"""Tensors with fewer elements fluctuate too much to be judged by their step-to-step change."""

# Bytes that the cheap audit reads of each tensor; smaller tensors are read whole.
SAMPLE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class TensorEvidence:
    """One tensor at one step; `change` and `change2` are the distances to it one and two steps before."""

    info: TensorInfo
    digest: str = ""
    finite: bool = True
    constant: bool = False
    zeros: float = 0.0
    coarse: bool = False
    """Whether every float32 value is also a bfloat16 value."""
    norm: float = np.nan
    change: float = np.nan
    change2: float = np.nan
    largest: float = np.nan
    """The largest absolute value."""
    repeated: float = 0.0
    """The share of its rows that are identical to another."""
    moved: TensorChange | None = None
    """What its change since the checkpoint before shows."""


@dataclass(frozen=True, slots=True)
class StepEvidence:
    """One checkpoint: its tensors, or why it cannot be read."""

    checkpoint: Checkpoint
    tensors: Mapping[str, TensorEvidence] = field(default_factory=dict)
    facts: Facts = field(default_factory=Facts)
    error: str = ""
    hashed: bool = False
    """Whether only the hashes of its files are known."""
    experts: Mapping[str, ExpertLayer] = field(default_factory=dict)
    """The layers with experts, by the beginning of their names."""

    @property
    def digest(self) -> str:
        """A hash of all tensors; empty if none of them can be read."""
        if all(item.info.skip for item in self.tensors.values()):
            return ""
        lines = sorted(f"{name}\0{item.digest}" for name, item in self.tensors.items())
        return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def gather(
    series: Series, checkpoints: Sequence[Checkpoint], *, cheap: bool, quick: bool = False
) -> Iterator[StepEvidence]:
    """Yield the evidence of a run's checkpoints in order; at most three checkpoints are open at once.

    The cheap form reads headers and a sample of every tensor's rows; norms and changes are those of the
    samples. If the host of the checkpoints states the hashes of its files, it reads nothing at all. The quick
    form reads every value, but hashes only a tensor's first and last bytes, with its norm and largest value.
    """
    window: list[tuple[_Past, ExitStack]] = []
    try:
        for checkpoint in checkpoints:
            identity = series.identity(checkpoint) if cheap else None
            if identity is not None:
                files = {name: _file(name, tag) for name, tag in identity.items()}
                yield StepEvidence(checkpoint, files, hashed=True)
                continue
            held = ExitStack()
            try:
                reader = held.enter_context(series.reading(checkpoint))
                before = [past for past, _ in reversed(window)]
                samples: dict[str, np.ndarray] = {}
                looks = ExpertLooks.of(reader.infos())
                with np.errstate(over="ignore", invalid="ignore"):  # squares of float64 above 1e154
                    tensors = {
                        info.name: _look(reader, info, before, samples if cheap else None, looks, quick=quick)
                        for info in reader.infos().values()
                    }
                facts = reader.facts()
            except SourceError as error:
                held.close()
                yield StepEvidence(checkpoint, error=str(error))
                continue
            if cheap:
                held.close()
            layers = looks.layers(before[0].looks if before else None)
            window.append((_Past(reader, samples if cheap else None, looks), held))
            if len(window) > 2:
                window.pop(0)[1].close()
            yield StepEvidence(checkpoint, tensors, facts, experts=layers)
    finally:
        for _, held in window:
            held.close()


def _file(name: str, tag: str) -> TensorEvidence:
    return TensorEvidence(TensorInfo(name, (), np.dtype(np.uint8)), tag)


@dataclass(frozen=True, slots=True)
class _Past:
    """An earlier checkpoint: its reader, or its samples."""

    reader: Reader
    samples: Mapping[str, np.ndarray] | None
    looks: ExpertLooks

    def values(self, like: np.ndarray, info: TensorInfo) -> np.ndarray | None:
        """Return the tensor of the same name and shape; None if there is none."""
        match = self.reader.infos().get(info.name)
        if match is None or match.shape != info.shape or match.skip or match.dtype not in WEIGHT_DTYPES:
            return None
        values = self.reader.read(info.name) if self.samples is None else self.samples.get(info.name)
        return values if values is not None and values.shape == like.shape else None

    def distance(self, values: np.ndarray, info: TensorInfo) -> float:
        """Return the distance to the tensor of the same name and shape; NaN if there is none."""
        other = self.values(values, info)
        return np.nan if other is None else distance(values, other)

    def change(self, values: np.ndarray, info: TensorInfo) -> TensorChange | None:
        """Return the change of the tensor; None if it was not there, or was not finite."""
        other = self.values(values, info)
        if other is None or not all_finite(other):
            return None
        return change_of(values, other, low_rank=bool(adapted(self.reader.facts().config)))


def _look(
    reader: Reader,
    info: TensorInfo,
    before: list[_Past],
    samples: dict[str, np.ndarray] | None,
    looks: ExpertLooks,
    *,
    quick: bool,
) -> TensorEvidence:
    if info.skip or not info.size:
        return TensorEvidence(info, digest=f"{info.dtype}{info.shape}{info.skip}")
    values = reader.read(info.name) if samples is None else _sample(reader, info)
    values = np.ascontiguousarray(values)
    data = values.reshape(-1).view(np.uint8)
    quick = quick and data.size > 2 * SAMPLE_BYTES
    hashed = np.concatenate([data[:SAMPLE_BYTES], data[-SAMPLE_BYTES:]]) if quick else data
    digest = hashlib.sha256(hashed.data).hexdigest()
    if info.dtype not in WEIGHT_DTYPES:
        return TensorEvidence(info, digest)
    finite = all_finite(values)
    zeros, constant = _zeros_and_constant(values.reshape(-1))
    coarse = info.dtype == np.float32 and not (values.reshape(-1).view(np.uint32) & 0xFFFF).any()
    if not finite:
        return TensorEvidence(info, digest, finite, constant, zeros, coarse)
    if samples is not None:
        samples[info.name] = values.copy()  # otherwise the whole file would stay mapped
    moved = before[0].change(values, info) if before else None
    change2 = before[1].distance(values, info) if len(before) > 1 else np.nan
    here = values_of(values)
    _look_at_experts(looks, info, values, moved, here.norm, before)
    if quick:
        digest += f" {here.norm.hex()} {here.largest.hex()}"
    return TensorEvidence(
        info, digest, finite, constant, zeros, coarse, here.norm, np.nan if moved is None else moved.distance,
        change2, here.largest, here.repeated, moved,
    )  # fmt: skip


def _look_at_experts(
    looks: ExpertLooks,
    info: TensorInfo,
    values: np.ndarray,
    moved: TensorChange | None,
    norm: float,
    before: list[_Past],
) -> None:
    """Add a matrix of experts, or a gate, to what is known of its layer; a part of a stack is left out."""
    place = looks.names.get(info.name)
    if place is not None and place.number is not None:
        far, purity = (np.nan, np.nan) if moved is None else (moved.distance, moved.purity)
        looks.matrices[info.name] = of_one(place.number, values, norm, far, purity)
    elif values.shape == info.shape and place is not None:
        then = before[0].values(values, info) if moved is not None else None
        looks.matrices[info.name] = of_stack(values, then)
    elif values.shape == info.shape and info.name in looks.gates:
        looks.add_gate(info.name, values)


def _zeros_and_constant(flat: np.ndarray) -> tuple[float, bool]:
    """Return the share of zeros, and whether all values are the same; quickly, by bits, for 16-bit types."""
    if flat.dtype.itemsize == 2 and flat.dtype.kind in "fV":
        bits = flat.view(np.uint16)
        zeros = float(np.mean((bits & np.uint16(0x7FFF)) == 0))
        return zeros, zeros == 1.0 or bool((bits == bits[0]).all())
    zeros = int(np.count_nonzero(flat == 0)) / len(flat)
    return zeros, bool(flat[0] == flat[-1] and (flat == flat[0]).all())


def _sample(reader: Reader, info: TensorInfo) -> np.ndarray:
    if not info.shape or info.nbytes <= SAMPLE_BYTES:
        return reader.read(info.name)
    parts = sampled(info.shape[0], info.nbytes)
    return np.concatenate([reader.rows(info.name, start, stop) for start, stop in parts])


def sampled(rows: int, nbytes: int) -> list[tuple[int, int]]:
    """Return the rows that form a tensor's sample: all, or three blocks.

    >>> sampled(4, 64), sampled(3000, 1 << 20)
    ([(0, 4)], [(0, 62), (1469, 1531), (2938, 3000)])
    """
    if nbytes <= SAMPLE_BYTES:
        return [(0, rows)]
    count = max(1, min(rows, SAMPLE_BYTES * rows // nbytes) // 3)
    return [(start, start + count) for start in sorted({0, (rows - count) // 2, rows - count})]


def _parts(flat: np.ndarray) -> Iterator[np.ndarray]:
    for at in range(0, len(flat), 1 << 18):
        yield flat[at : at + (1 << 18)].astype(np.float64)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Return the Euclidean distance between two arrays of equal shape, in float64."""
    pairs = zip(
        _parts(np.ascontiguousarray(a).reshape(-1)), _parts(np.ascontiguousarray(b).reshape(-1)), strict=True
    )
    return float(np.sqrt(sum(float(np.square(x - y).sum()) for x, y in pairs)))
