"""The moments of a checkpoint as matrices: under the weights' names, one tensor in memory at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.core.forms import size
from toposcope.core.types import Checkpoint, Role, Scope
from toposcope.files.formats.reader import Facts, Reader, TensorInfo
from toposcope.files.training_state.flat import laid_out
from toposcope.files.training_state.nouns import OptimizerState, ParameterGroup, ParameterState
from toposcope.files.training_state.places import training_state
from toposcope.sources.matrices import is_weight, stream_matrices
from toposcope.sources.optimizer.angles import by_angle
from toposcope.sources.optimizer.naming import ORDERED, ParameterNames, names_of
from toposcope.sources.series import Series
from toposcope.subjects.labels import Label
from toposcope.subjects.optimizer.steps import LARGEST, MuonRule, StepRule, rule_of
from toposcope.subjects.snapshot import Snapshot, unless_unreadable

FIRST, SECOND, DIVISOR, BEFORE, CHANGE, UPDATE = "first", "second", "divisor", "before", "change", "update"
"""The fields of a moment's matrix: m, v, what is divided by instead of v (AMSGrad), v of the previous
checkpoint, the previous weights minus these, and the update where only a whole tensor determines it."""


@dataclass(frozen=True, slots=True)
class KeptParameter:
    """A parameter's moments with the settings of its group."""

    state: ParameterState
    group: ParameterGroup | None

    @property
    def shape(self) -> tuple[int, ...]:
        """The parameter's shape, by its moments."""
        return self.state.shape or ()


@dataclass(frozen=True, slots=True)
class KeptState:
    """The moments of a checkpoint: by the names of weights, and by place where the weights are not known."""

    named: Mapping[str, KeptParameter]
    unnamed: Mapping[str, KeptParameter]


@dataclass(frozen=True, slots=True)
class MomentMatrix:
    """A matrix's moments; `fields` is an array of the matrix's shape with the fields FIRST, ... that exist.

    `between` is the number of updates since the previous checkpoint, NaN if it is not known.
    """

    label: Label
    fields: np.ndarray
    rule: StepRule | None
    beta: float = math.nan
    between: float = math.nan
    second_epsilon: float = 0.0
    """The precision of the stored second moment."""

    def has(self, field: str) -> bool:
        """Return whether a field is known."""
        return field in (self.fields.dtype.names or ())


def kept_state(snapshot: Snapshot) -> KeptState | None:
    """Return the moments that a checkpoint keeps; None if it keeps none that are read."""
    return snapshot.remember(("optimizer",), lambda: _kept(snapshot))


def has_moments(uri: str) -> bool:
    """Return whether a local checkpoint keeps moments of matrices; False if its state cannot be opened."""
    try:
        state = training_state(uri)
    except SourceError:
        return False
    return state is not None and any(map(_of_matrices, state.optimizers))


def moments_in_words(uri: str) -> str:
    """Return which moments a local checkpoint keeps of matrices, by its headers; "" for none.

    Of buffers everything counts: where the weights lie in them is not looked up.
    """
    try:
        state = training_state(uri)
    except SourceError:
        return ""
    if state is None:
        return ""
    kept = [
        parameter
        for optimizer in state.optimizers
        if _of_matrices(optimizer)
        for parameter in optimizer.parameters.values()
        if len(parameter.shape or ()) > 1 or (optimizer.buffers and parameter.shape)
    ]
    tensors = [
        tensor
        for kept_parameter in kept
        for tensor in (kept_parameter.first, kept_parameter.second)
        if tensor is not None
    ]
    if not tensors:
        return ""
    which = "both moments" if len(tensors) == 2 * len(kept) else "moments"
    what = "buffers" if any(optimizer.buffers for optimizer in state.optimizers) else "matrices"
    held = sum(tensor.size * tensor.dtype.itemsize for tensor in tensors)
    return f"{which} of {len(kept):,} {what} in the state that {state.writer} wrote ({size(held)})"


def _of_matrices(optimizer: OptimizerState) -> bool:
    """Return whether an optimiser states a rate, and parameters or a buffer in which weights have places.

    Parts of ranks are no matrices. Without a rate no step is known.
    """
    placed = bool(optimizer.buffers) or (bool(optimizer.parameters) and not optimizer.flat)
    return placed and any(group.rate is not None for group in optimizer.groups)


def _kept(snapshot: Snapshot) -> KeptState | None:
    series, at = snapshot.origin()
    state = None if series.computed else training_state(series.place(at))
    if state is None or not any(map(_of_matrices, state.optimizers)):
        return None
    named: dict[str, KeptParameter] = {}
    unnamed: dict[str, KeptParameter] = {}
    with series.reading(at) as reader:
        for optimizer in state.optimizers:
            some, others = _by_name(snapshot, reader, optimizer, ordered=state.writer in ORDERED)
            named |= some
            unnamed |= others
    return KeptState(named, unnamed) if named or unnamed else None


def _by_name(
    snapshot: Snapshot, reader: Reader, optimizer: OptimizerState, *, ordered: bool
) -> tuple[dict[str, KeptParameter], dict[str, KeptParameter]]:
    """Return the matrices by the names of their weights, and by their places where no name is certain."""
    shapes = {info.name: info.shape for info in reader.infos().values() if not info.skip}
    state = laid_out(optimizer, shapes)
    if state.flat:  # parts of ranks, which are no matrices
        return {}, {}
    names = names_of(state, shapes, ordered=ordered)
    before = snapshot.previous
    if not state.named and names.ambiguous and before is not None:
        names = unless_unreadable(lambda: _told_apart(state, names, reader, before)) or names
    groups = {key: group for group in state.groups for key in group.parameters}
    named: dict[str, KeptParameter] = {}
    unnamed: dict[str, KeptParameter] = {}
    for key, candidates in names.candidates.items():
        kept_parameter = KeptParameter(state.parameters[key], groups.get(key))
        if (
            len(kept_parameter.shape) > 1
            and len(candidates) == 1
            and is_weight(reader.infos()[candidates[0]])
        ):
            named[candidates[0]] = kept_parameter
        elif len(kept_parameter.shape) > 1 and len(candidates) > 1:
            unnamed[key] = kept_parameter
    return named, unnamed


def _told_apart(
    state: OptimizerState, names: ParameterNames, reader: Reader, before: Snapshot
) -> ParameterNames:
    series, at = before.origin()
    with series.reading(at) as earlier:
        return by_angle(state, names, reader, earlier)


def moment_matrices(snapshot: Snapshot, kept: KeptState, *, history: bool = True) -> Iterator[MomentMatrix]:
    """Yield the moments of every weight matrix, split as the weights are, one tensor in memory at a time.

    With `history` they are held against the previous checkpoint, if it can be read.
    """
    series, at = snapshot.origin()
    before = snapshot.previous if history else None
    earlier = None if before is None else unless_unreadable(lambda: kept_state(before))
    past = None if before is None else before.origin()
    with series.reading(at) as reader:
        tensors = MomentReader(reader, kept, earlier, past)
        for matrix in stream_matrices(tensors, at, config=snapshot.config, only=tuple(kept.named)):
            name = tensors.latest
            yield tensors.matrix(name, Label.of(matrix), matrix.values)
    for key, kept_parameter in kept.unnamed.items():
        if len(kept_parameter.shape) == 2:
            label = Label(f"parameter {key}", Role.OTHER, scope=Scope.MATRIX)
            yield MomentMatrix(
                label,
                _fields(kept_parameter, None, None, None),
                rule_of(kept_parameter.state, kept_parameter.group, math.nan),
            )


class MomentReader:
    """The moments as a checkpoint's tensors: each is an array with the fields FIRST, SECOND, ...

    They are then split into matrices exactly as the weights are, because the names, shapes and types are
    theirs, and a field of a slice is the slice of the field.
    """

    def __init__(
        self,
        reader: Reader,
        kept: KeptState,
        earlier: KeptState | None,
        past: tuple[Series, Checkpoint] | None,
    ) -> None:
        self.label = reader.label
        self.latest = ""
        """The tensor that was read last."""
        self._reader, self._kept, self._earlier, self._past = reader, kept, earlier, past
        self._array: np.ndarray | None = None
        self._rules: dict[str, StepRule | None] = {}

    def infos(self) -> Mapping[str, TensorInfo]:
        """Return the tensors of the weights."""
        return self._reader.infos()

    def facts(self) -> Facts:
        """Return the facts of the checkpoint."""
        return self._reader.facts()

    def read(self, name: str) -> np.ndarray:
        """Return the fields of one tensor; the latest is kept."""
        if name != self.latest or self._array is None:
            self._array = None  # or two would be in memory
            self._array, self.latest = self._read(name), name
        return self._array

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Return the fields of some rows of one tensor."""
        return self.read(name)[start:stop]

    def matrix(self, name: str, label: Label, values: np.ndarray) -> MomentMatrix:
        """Return the moments of one matrix that a tensor was split into."""
        now = self._kept.named[name]
        then = None if self._earlier is None else self._earlier.named.get(name)
        between = math.nan
        if then is not None and now.state.updates is not None and then.state.updates is not None:
            between = now.state.updates - then.state.updates
        beta = now.group.betas[1] if now.group is not None and now.group.betas is not None else math.nan
        second = now.state.second
        size = second.dtype.itemsize if second is not None else 4
        # 16-bit second moments round away what a gradient adds
        epsilon = math.inf if size < 4 else float(np.finfo(np.float32).eps)
        return MomentMatrix(label, values, self._rules[name], beta, between, epsilon)

    def _read(self, name: str) -> np.ndarray:
        now = self._kept.named[name]
        then = None if self._earlier is None else self._earlier.named.get(name)
        weights = np.asarray(self._reader.read(name), np.float32)
        rms = math.sqrt(float(np.mean(np.square(weights, dtype=np.float64)))) if weights.size else 0.0
        self._rules[name] = rule_of(now.state, now.group, rms)
        return _fields(now, then, self._change(name, weights), self._rules[name])

    def _change(self, name: str, weights: np.ndarray) -> np.ndarray | None:
        """Return the weights of the previous checkpoint minus these; None if they cannot be read."""
        if self._past is None:
            return None
        series, at = self._past

        def read() -> np.ndarray:
            with series.reading(at) as reader:
                return np.asarray(reader.read(name), np.float32)

        before = unless_unreadable(read)
        return before - weights if before is not None and before.shape == weights.shape else None


def _fields(
    now: KeptParameter, then: KeptParameter | None, change: np.ndarray | None, rule: StepRule | None
) -> np.ndarray:
    """Return the fields of a tensor as one array; float32 holds what writers store in 32 bits and fewer."""
    shape, state = now.shape, now.state
    columns: dict[str, np.ndarray] = {}
    if state.first is not None:
        columns[FIRST] = state.first.values().reshape(shape)
        if isinstance(rule, MuonRule) and (update := rule.matrix(columns[FIRST])) is not None:
            columns[UPDATE] = update
    if state.second is not None and state.second.shape == shape:
        columns[SECOND] = state.second.values().reshape(shape)
        if LARGEST in state.further:
            columns[DIVISOR] = state.further[LARGEST].values().reshape(shape)
        if then is not None and then.state.second is not None and then.state.second.shape == shape:
            columns[BEFORE] = then.state.second.values().reshape(shape)
    if change is not None and FIRST in columns and change.shape == shape:
        columns[CHANGE] = change
    fields = np.empty(shape, [(field, np.float32) for field in columns])
    with np.errstate(over="ignore"):
        for field in list(columns):
            fields[field] = columns.pop(field)
    return fields
