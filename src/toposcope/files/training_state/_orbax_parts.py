"""The training's state in Orbax's checkpoints: optax's trees of moments, by the parameters' key paths."""

from __future__ import annotations

import numpy as np

from toposcope.files.blobs import Folder
from toposcope.files.formats.orbax import (
    STATE,
    StoredArray,
    arrays_of,
    is_installed,
    parameter_of,
    values,
)
from toposcope.files.formats.reader import WEIGHT_DTYPES
from toposcope.files.training_state.nouns import (
    OptimizerState,
    ParameterState,
    Rows,
    ScheduleState,
    StateTensor,
    TrainingState,
)

WRITER = "Orbax"
_FIRST, _SECOND, _COUNT = ("mu", "trace", "m"), ("nu", "v"), "count"
"""What optax names the first moments (of Adam, of SGD with momentum), the second ones and the updates."""


def orbax_state(folder: Folder) -> TrainingState:
    """Return the state of a checkpoint of Orbax.

    Raises
    ------
    SourceError
        When its list of arrays is damaged.
    """
    if not is_installed():
        return TrainingState(WRITER, unread=("Orbax's arrays, which need the extra toposcope[orbax]",))
    arrays = arrays_of(folder)
    table: dict[str, dict[str, StoredArray]] = {}
    counts: dict[tuple[str, ...], float] = {}
    places: set[tuple[str, ...]] = set()
    for array in arrays:
        if array.keys[0] not in STATE:
            continue
        for at, key in enumerate(array.keys):
            if key == _COUNT and at == len(array.keys) - 1 and not array.shape:
                counts[array.keys[:at]] = float(values(array))
            field = "first" if key in _FIRST else "second" if key in _SECOND else ""
            if field and at < len(array.keys) - 1:
                places.add(array.keys[:at])
                table.setdefault(parameter_of(array.keys[at + 1 :]), {})[field] = array
                break
    updates = max((count for place, count in counts.items() if place in places), default=None)
    schedules = tuple(ScheduleState(count) for place, count in counts.items() if place not in places)
    parameters = {
        name: ParameterState(name, _tensor(fields.get("first")), _tensor(fields.get("second")), updates)
        for name, fields in table.items()
    }
    odd = sum(parameter.shape is None for parameter in parameters.values())
    step = next((values(array) for array in arrays if array.keys == ("step",) and not array.shape), None)
    data = [array for array in arrays if any("data" in key or "iter" in key for key in array.keys[:1])]
    return TrainingState(
        WRITER, (OptimizerState(parameters, (), True, odd),) if parameters else (),
        schedules,
        tuple(".".join(array.keys) for array in arrays if "rng" in array.keys[0].lower()),
        dict.fromkeys(".".join(array.keys) for array in data),
        None if step is None else int(step),
    )  # fmt: skip


def _tensor(stored: StoredArray | None) -> StateTensor | None:
    if stored is None or stored.dtype not in WEIGHT_DTYPES:
        return None
    whole = stored

    def read(rows: Rows | None) -> np.ndarray:
        return values(whole, rows)

    return StateTensor(stored.shape, stored.dtype, read)
