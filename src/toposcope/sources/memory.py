"""A series in memory: modules, or their tensors, by step and run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from toposcope.core.errors import SourceError
from toposcope.core.types import Checkpoint, RunRecord
from toposcope.files.formats.naming import unwrapped
from toposcope.files.formats.reader import DTYPES, Facts, TensorInfo, check_rows, find
from toposcope.files.labels import seed_of
from toposcope.logs.metrics import empty
from toposcope.sources.discover import Entry, Source
from toposcope.sources.entries import with_shared_names

_KNOWN = frozenset(DTYPES.values())


class ArrayReader:
    """Arrays in memory with the interface of a checkpoint's reader."""

    def __init__(self, arrays: Mapping[str, np.ndarray], label: str, facts: Facts | None = None) -> None:
        self.label = label
        self._arrays, self._facts = arrays, facts or Facts()
        self._infos = {name: _info(name, array) for name, array in arrays.items()}

    def infos(self) -> Mapping[str, TensorInfo]:
        """Return every array's name, shape and dtype, in the mapping's order."""
        return self._infos

    def read(self, name: str) -> np.ndarray:
        """Return one array."""
        find(self._infos, self.label, name)
        return self._arrays[name]

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Return rows `start` to `stop` of one array."""
        check_rows(find(self._infos, self.label, name), self.label, start, stop)
        return self._arrays[name][start:stop]

    def facts(self) -> Facts:
        """Return the known facts besides the arrays."""
        return self._facts


def in_memory(states: Any) -> list[Source]:
    """Return the runs of `{step: state}`, `{run: {step: state}}`, or of one state at step 0.

    A state is a module or a mapping from names to numpy or torch arrays; it is referenced, not copied.

    Raises
    ------
    SourceError
        When something is neither, a step is not a non-negative integer, or there is nothing.
    """
    if _is_state(states):
        states = {0: states}
    if not isinstance(states, Mapping) or not states:
        raise SourceError(
            f"{_named(states)} is not a series; give {{step: state_dict}}, {{run: {{step: state_dict}}}}, "
            "or a module"
        )
    runs = states if all(isinstance(key, str) for key in states) else {"memory": states}
    return [_source(name, steps) for name, steps in runs.items()]


def is_in_memory(states: object) -> bool:
    """Return whether this is a series in memory, not an address."""
    return isinstance(states, Mapping) or hasattr(states, "state_dict")


def _source(run: str, steps: Any) -> Source:
    if not isinstance(steps, Mapping) or not steps:
        raise SourceError(f"run {run!r} is {_named(steps)}; give {{step: state_dict}}")
    entries = []
    for step in steps:
        if not isinstance(step, int | np.integer) or isinstance(step, bool) or step < 0:
            raise SourceError(f"run {run!r} has the step {step!r}; give whole numbers from 0 on")
        entries.append(_entry(run, int(step), steps[step]))
    config = _config(next(iter(steps.values())))
    entries.sort(key=lambda entry: entry.checkpoint.step)
    named = with_shared_names(entries) if all(entry.module is None for entry in entries) else entries
    return Source(RunRecord(run, seed=seed_of(run), uri="memory", config=config), tuple(named), empty, config)


def _entry(run: str, step: int, state: Any) -> Entry:
    if not _is_state(state):
        raise SourceError(
            f"run {run!r} step {step:,} is {_named(state)}; give a module or a dictionary of arrays"
        )
    label = f"memory:{run}/step_{step}"
    reader = ArrayReader(_arrays(state, label), label, Facts(step=step, config=_config(state)))
    if not isinstance(state, Mapping):
        return Entry(Checkpoint(run, step, uri=label), lambda: reader, module=state)
    plain = unwrapped(reader)
    return Entry(Checkpoint(run, step, uri=label), lambda: plain)


def _is_state(state: Any) -> bool:
    if not isinstance(state, Mapping):
        return callable(getattr(state, "state_dict", None))
    return bool(state) and all(isinstance(key, str) and _is_array(value) for key, value in state.items())


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or type(value).__module__.partition(".")[0] == "torch"


def _arrays(state: Any, label: str) -> dict[str, np.ndarray]:
    """Return a state's arrays by name; only the first of a module's tied tensors."""
    if isinstance(state, Mapping):
        return {name: _array(value, f"{label}: tensor {name!r}") for name, value in state.items()}
    arrays, seen = {}, set()
    for name, value in state.state_dict(keep_vars=True).items():
        if id(value) not in seen and hasattr(value, "detach"):
            arrays[name] = _array(value, f"{label}: tensor {name!r}")
        seen.add(id(value))
    if not arrays:
        raise SourceError(
            f"{label}: the {type(state).__name__} contains no tensors",
            remedy="give a module or a dictionary of arrays",
        )
    return arrays


def _array(value: Any, what: str) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return value
    try:
        plain = value.detach().cpu().contiguous()
        if str(plain.dtype) == "torch.bfloat16":
            import torch

            return plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        return plain.numpy()
    except (AttributeError, RuntimeError, TypeError) as error:
        raise SourceError(
            f"{what} is {_named(value)}, which is not a dense tensor of numbers", remedy="give a dense tensor"
        ) from error


def _info(name: str, array: np.ndarray) -> TensorInfo:
    skip = "" if array.dtype in _KNOWN else f"its dtype {array.dtype} is not a number type"
    return TensorInfo(name, tuple(array.shape), array.dtype, skip)


def _config(state: Any) -> dict[str, Any]:
    to_dict = getattr(getattr(state, "config", None), "to_dict", None)
    return dict(to_dict()) if callable(to_dict) else {}


def _named(value: object) -> str:
    return f"a {type(value).__name__}"


Tensors = Callable[[Checkpoint], Mapping[str, np.ndarray]]
"""Computes the tensors of a checkpoint, by name."""


def derived_entry(entry: Entry, tensors: Tensors, key: Callable[[Checkpoint], str], what: str) -> Entry:
    """Return the entry of the same checkpoint with other tensors, computed when they are read."""
    at = entry.checkpoint

    def opened() -> ArrayReader:
        return ArrayReader(tensors(at), f"{at.uri} ({what})")

    return Entry(at, opened, hold=entry.hold, release=entry.release, identity=lambda: {what: key(at)})
