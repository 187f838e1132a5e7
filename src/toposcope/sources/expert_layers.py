"""The experts of a layer at one checkpoint: their names, sizes, moves, likeness, and the gate's rows."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from toposcope.files.formats.reader import TensorInfo

SAMPLE = 128
"""Values of an expert's matrix that are compared with other experts': the cosine of two unlike samples has a
standard deviation of 1/11, and of 1/20 over three matrices."""

ALIKE, UNLIKE = 0.9, 0.5
"""Two experts are equal or nearly equal from the first cosine on; experts are unlike below the second."""

_EXPERT = re.compile(r"^(?P<layer>(?:.*\.)?)(?:local_)?experts\.(?P<number>\d{1,6})\.(?P<kind>.+)$")
_STACK = re.compile(r"^(?P<layer>(?:.*\.)?)experts\.(?P<kind>[A-Za-z_][\w.]*)$")
_GATE = re.compile(r"^(?P<layer>(?:.*\.)?)(?:gate|router)(?:\.(?!.*noise)\w+){0,2}$")


@dataclass(frozen=True, slots=True)
class ExpertName:
    """Where a matrix of experts belongs: the layer's name, which matrix it is, and whose.

    `number` is None for a stack of all experts.
    """

    layer: str
    kind: str
    number: int | None


def expert_name(name: str, dimensions: int) -> ExpertName | None:
    """Return where a matrix of one expert, or a stack of all of them, belongs; None for other tensors.

    >>> expert_name("layers.0.mlp.experts.3.up_proj.weight", 2)
    ExpertName(layer='layers.0.mlp.', kind='up_proj.weight', number=3)
    >>> expert_name("layers.0.mlp.experts.gate_up_proj", 3).number is None
    True
    >>> expert_name("layers.0.mlp.shared_experts.up_proj.weight", 2) is None
    True
    """
    if "experts" not in name:
        return None
    if dimensions == 2 and (match := _EXPERT.match(name)):
        outer = match["layer"].removesuffix("experts.")  # Megatron: experts.local_experts.3
        return ExpertName(outer, match["kind"], int(match["number"]))
    if dimensions == 3 and (match := _STACK.match(name)):
        return ExpertName(match["layer"], match["kind"], None)
    return None


def gate_layer(name: str) -> str | None:
    """Return the layer that a matrix would be the gate of, by its name; None if it is no gate.

    >>> gate_layer("layers.0.mlp.router.weight"), gate_layer("layers.0.mlp.gate_proj.weight")
    ('layers.0.mlp.', None)
    """
    match = _GATE.match(name)
    return match["layer"] if match else None


def gates_of(infos: Mapping[str, TensorInfo], experts: Mapping[str, int]) -> dict[str, str]:
    """Return the layer of each gate: a matrix beside the experts with a row, or a column, for each of them.

    `experts` has the number of experts by layer.
    """
    gates: dict[str, str] = {}
    for name, info in infos.items() if experts else ():
        layer = gate_layer(name) if len(info.shape) == 2 else None
        if layer is not None and experts.get(layer, 0) in info.shape:
            gates[name] = layer
    return gates


def expert_names(infos: Mapping[str, TensorInfo]) -> dict[str, ExpertName]:
    """Return the matrices of experts of a checkpoint; none in a model without experts."""
    named = ((name, expert_name(name, len(info.shape))) for name, info in infos.items())
    return {name: place for name, place in named if place is not None}


def counts(infos: Mapping[str, TensorInfo], names: Mapping[str, ExpertName]) -> dict[str, int]:
    """Return how many experts each layer has."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for name, place in names.items():
        expert_numbers = range(infos[name].shape[0]) if place.number is None else [place.number]
        numbers[place.layer].update(expert_numbers)
    return {layer: len(there) for layer, there in numbers.items()}


@dataclass(frozen=True, slots=True)
class GateRows:
    """The rows of a gate, one for each expert.

    `spread` is the norm of their differences from their mean over their own norm: a part that all rows share
    changes no choice. `longest` is the longest row over the median one, and `index` says which it is.
    `cosine` is the mean cosine of two rows, `largest` the largest, and `rank` the stable rank of the
    differences from the mean.
    """

    name: str
    norms: np.ndarray
    spread: float
    longest: float
    index: int
    cosine: float
    largest: float
    rank: float


def gate_rows(name: str, values: np.ndarray, experts: int) -> GateRows | None:
    """Return what the rows of a gate show; None if all are zero.

    >>> rows = gate_rows("gate", np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]), 3)
    >>> rows.spread, rows.longest, round(rows.cosine, 6)
    (0.0, 1.0, 1.0)
    """
    rows = np.asarray(values, np.float64)
    rows = rows if len(rows) == experts else rows.T
    norms = np.linalg.norm(rows, axis=1)
    if not norms.any():
        return None
    centred = rows - rows.mean(axis=0)
    gram = centred @ centred.T
    strongest = float(np.linalg.eigvalsh(gram)[-1])
    units = rows / np.where(norms > 0, norms, 1.0)[:, None]
    cosines = (units @ units.T)[np.triu_indices(len(rows), 1)]
    middle = float(np.median(norms))
    size = float(norms @ norms)
    return GateRows(
        name, norms, math.sqrt(max(float(np.trace(gram)), 0.0) / size),
        float(norms.max()) / middle if middle else math.inf, int(norms.argmax()),
        float(cosines.mean()) if len(cosines) else math.nan,
        float(cosines.max()) if len(cosines) else math.nan,
        float(np.trace(gram)) / strongest if strongest > 1e-12 * size else math.nan,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExpertMatrices:
    """One kind of matrix of some experts: of each its norm, its move, and a sample of its values.

    `distance` is the norm of the change since the checkpoint before, `purity` its cosine with the values
    there; both are NaN without that checkpoint.
    """

    numbers: tuple[int, ...]
    norm: np.ndarray
    distance: np.ndarray
    purity: np.ndarray
    sample: np.ndarray


@lru_cache(maxsize=64)
def _places(size: int) -> np.ndarray:
    """Return the places of the values that are sampled of so many: at random, but always the same."""
    return np.sort(np.random.default_rng(0).choice(size, min(size, SAMPLE), replace=False))


def sample_of(values: np.ndarray) -> np.ndarray:
    """Return a sample of an expert's values at unit length; zeros if it is zero there."""
    flat = np.zeros(SAMPLE, np.float32)
    part = values.reshape(-1)[_places(values.size)].astype(np.float64)
    length = float(np.linalg.norm(part))
    flat[: len(part)] = part / length if length else 0.0
    return flat


def of_one(number: int, values: np.ndarray, norm: float, distance: float, purity: float) -> ExpertMatrices:
    """Return a matrix of one expert."""
    return ExpertMatrices(
        (number,), np.array([norm]), np.array([distance]), np.array([purity]), sample_of(values)[None]
    )


def of_stack(values: np.ndarray, then: np.ndarray | None) -> ExpertMatrices:
    """Return the matrices of a stack of experts, one expert in memory at a time."""
    rows = np.full((3, len(values)), np.nan)
    for at, matrix in enumerate(values):
        now = matrix.astype(np.float64)
        rows[0, at] = np.linalg.norm(now)
        if then is not None:
            old = then[at].astype(np.float64)
            rows[1, at] = far = float(np.linalg.norm(now - old))
            size = float(np.linalg.norm(old))
            rows[2, at] = float(((now - old) * old).sum()) / far / size if far and size else 0.0
    samples = np.array([sample_of(matrix) for matrix in values])
    return ExpertMatrices(tuple(range(len(values))), rows[0], rows[1], rows[2], samples)


@dataclass(frozen=True, slots=True)
class ExpertLayer:
    """The experts of one layer at one checkpoint; the arrays have a row for each expert.

    `norm`, `distance` and `purity` have a column for each kind of matrix, NaN where an expert lacks it.
    `likeness` is the median cosine of an expert and the next: high where all began as copies of one MLP.
    `twins` are pairs of places with their cosine, if most pairs are unlike; `took` has, by place, the place
    whose former values the expert holds now.
    """

    labels: tuple[str, ...]
    numbers: tuple[int, ...]
    norm: np.ndarray
    distance: np.ndarray
    purity: np.ndarray
    likeness: float = 0.0
    twins: tuple[tuple[int, int, float], ...] = ()
    took: Mapping[int, int] | None = None
    gate: GateRows | None = None


@dataclass(slots=True)
class ExpertLooks:
    """Collects the experts' matrices and the gates of one checkpoint while its tensors are read."""

    names: Mapping[str, ExpertName]
    gates: Mapping[str, str]
    counts: Mapping[str, int]
    matrices: dict[str, ExpertMatrices]
    rows: dict[str, GateRows]

    @classmethod
    def of(cls, infos: Mapping[str, TensorInfo]) -> ExpertLooks:
        """Return an empty collection for a checkpoint of these tensors."""
        names = expert_names(infos)
        number = counts(infos, names)
        return cls(names, gates_of(infos, number), number, {}, {})

    def add_gate(self, name: str, values: np.ndarray) -> None:
        """Add a gate's rows."""
        layer = self.gates[name]
        if (rows := gate_rows(name, values, self.counts[layer])) is not None:
            self.rows[layer] = rows

    def layers(self, before: ExpertLooks | None) -> dict[str, ExpertLayer]:
        """Return the layers with experts, each compared with the same layer of the checkpoint before."""
        grouped: dict[str, list[str]] = defaultdict(list)
        for name in self.matrices:
            grouped[self.names[name].layer].append(name)
        return {layer: self._layer(layer, names, before) for layer, names in grouped.items()}

    def _layer(self, layer: str, names: Sequence[str], before: ExpertLooks | None) -> ExpertLayer:
        kinds = list(dict.fromkeys(self.names[name].kind for name in names))
        numbers = sorted({number for name in names for number in self.matrices[name].numbers})
        rows = {number: row for row, number in enumerate(numbers)}
        table = np.full((3, len(numbers), len(kinds)), np.nan)
        columns = {kind: column for column, kind in enumerate(kinds)}
        for name in names:
            matrix, column = self.matrices[name], columns[self.names[name].kind]
            at = [rows[number] for number in matrix.numbers]
            table[:, at, column] = matrix.norm, matrix.distance, matrix.purity
        samples = self.samples(names, numbers, kinds)
        then = None if before is None else [name for name in names if name in before.matrices]
        took = {}
        if before is not None and then:
            took = _took(self.samples(then, numbers, kinds), before.samples(then, numbers, kinds))
        place = self.names[names[0]]
        labels = tuple(_label(names[0], place, number) for number in numbers)
        return ExpertLayer(
            labels, tuple(numbers), table[0], table[1], table[2], *_twins(samples), took, self.rows.get(layer)
        )

    def samples(self, names: Iterable[str], numbers: Sequence[int], kinds: Sequence[str]) -> np.ndarray:
        """Return the sample of each expert over all kinds of matrices, at unit length."""
        out = np.zeros((len(numbers), len(kinds), SAMPLE), np.float32)
        rows = {number: row for row, number in enumerate(numbers)}
        columns = {kind: column for column, kind in enumerate(kinds)}
        for name in names:
            matrix, column = self.matrices[name], columns[self.names[name].kind]
            for number, sample in zip(matrix.numbers, matrix.sample, strict=True):
                if number in rows:
                    out[rows[number], column] = sample
        flat = out.reshape(len(numbers), -1)
        length = np.linalg.norm(flat, axis=1, keepdims=True)
        return flat / np.where(length > 0, length, 1.0)


def _label(name: str, place: ExpertName, number: int) -> str:
    """Return what an expert is called: as its tensors begin, or by its place in a stack."""
    if place.number is None:
        return f"{name.removesuffix(f'.{place.kind}')}[{number}]"
    return f"{name.removesuffix(f'.{place.number}.{place.kind}')}.{number}"


def _twins(samples: np.ndarray) -> tuple[float, tuple[tuple[int, int, float], ...]]:
    """Return the median cosine of neighbours, and the pairs that are nearly equal while most are unlike."""
    cosines = samples @ samples.T
    beside = np.diagonal(cosines, 1)
    likeness = float(np.median(beside)) if len(beside) else 0.0
    if likeness >= UNLIKE:
        return likeness, ()
    near = np.argwhere(cosines >= ALIKE).tolist()
    return likeness, tuple((i, j, float(cosines[i, j])) for i, j in near if i < j)


def _took(now: np.ndarray, then: np.ndarray) -> dict[int, int]:
    """Return the experts that hold what another held before, and no longer resemble themselves."""
    cosines = now @ then.T
    nearest = cosines.argmax(axis=1)
    took = {
        at: int(other)
        for at, other in enumerate(nearest)
        if other != at and cosines[at, other] >= ALIKE and cosines[at, at] < UNLIKE
    }
    # of a swap, the other one took values as well; a copy of one expert over another is a twin
    return {at: other for at, other in took.items() if other in took}
