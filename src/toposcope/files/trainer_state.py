"""Facts from transformers' trainer_state.json: steps, batch, tokens, FLOP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toposcope.core.errors import SourceError
from toposcope.files import TRAINER_STATE
from toposcope.files.blobs import Folder, has_file
from toposcope.files.formats.reader import read_json

_FACTS = {
    "max_steps": "planned_steps",
    "global_step": "trained_steps",
    "train_batch_size": "batch_size",
    "num_input_tokens_seen": "tokens_seen",
    "total_flos": "flop",
}
"""Name in the state -> name in `Run.config`."""

# Bytes at the start in which to search for `global_step`: the log history after it can be large.
_HEAD = 1 << 12
_GLOBAL_STEP = re.compile(rb'"global_step"\s*:\s*(\d+)')


def trainer_state(folder: Folder) -> dict[str, Any]:
    """Return the state of a folder; empty without one.

    Raises
    ------
    SourceError
        When it is no file, not JSON, or not the state of a trainer.
    """
    if not has_file(folder, TRAINER_STATE):
        return {}
    state = read_json(folder.open(TRAINER_STATE))
    rows = state.get("log_history", []) if isinstance(state, dict) else None
    records = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    if not records or (rows and not any(type(row.get("step")) in (int, float) for row in rows)):
        raise SourceError(
            f"{folder.label}/{TRAINER_STATE}: log_history is no list of records with steps; fetch it again"
        )
    return dict(state)


def training_facts(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the positive numbers of a trainer's state under our names; empty if it has none.

    >>> training_facts({"max_steps": 1000, "global_step": 200, "total_flos": 0, "epoch": 0.2})
    {'planned_steps': 1000, 'trained_steps': 200}
    """
    return {
        ours: state[theirs]
        for theirs, ours in _FACTS.items()
        if type(state.get(theirs)) in (int, float) and state[theirs] > 0
    }


def stated_step(folder: Folder) -> int | None:
    """Return the global_step of a folder's state; None without one.

    It comes before the loss history, which may be long and is not read.
    """
    if TRAINER_STATE not in folder.files():
        return None
    state = folder.open(TRAINER_STATE)
    match = _GLOBAL_STEP.search(state.read(0, min(state.size, _HEAD)).tobytes())
    return int(match[1]) if match else None
