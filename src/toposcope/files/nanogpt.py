"""Facts about a run in nanoGPT's ckpt.pt: steps planned and done, sequences and tokens per step."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from toposcope.files import NANOGPT_CHECKPOINT
from toposcope.files.blobs import Folder
from toposcope.files.formats.reader import Facts

_NUMBERED = re.compile(r"ckpt(?:[_-]?(\d+))?\.pt")


def nanogpt_facts(facts: Facts) -> dict[str, Any]:
    """Return what the configuration in nanoGPT's checkpoint says, under the names of `Run.config`.

    A batch has `batch_size` sequences, times `gradient_accumulation_steps`, over all processes.

    >>> nanogpt_facts(Facts(step=600, config={"max_iters": 2000, "batch_size": 12, "block_size": 64}))
    {'planned_steps': 2000, 'trained_steps': 600, 'batch_size': 12, 'tokens_per_step': 768}
    >>> nanogpt_facts(Facts(config={"batch_size": 12}))
    {}
    """
    config = facts.config
    planned = _positive(config, "max_iters")
    if planned is None:
        return {}
    found = {"planned_steps": planned, "trained_steps": facts.step or None}
    sequences, length = _positive(config, "batch_size"), _positive(config, "block_size")
    if sequences is not None:
        batch = sequences * (_positive(config, "gradient_accumulation_steps") or 1)
        found["batch_size"] = batch
        found["tokens_per_step"] = batch * length if length is not None else None
    return {name: value for name, value in found.items() if value is not None}


def nanogpt_checkpoint(names: Iterable[str]) -> str:
    """Return the name of nanoGPT's checkpoint among files, the newest if a loop numbers them, or "".

    >>> nanogpt_checkpoint(["train.log", "ckpt_900.pt", "ckpt_1000.pt"]), nanogpt_checkpoint(["model.pt"])
    ('ckpt_1000.pt', '')
    """
    steps = {name: match for name in names if (match := _NUMBERED.fullmatch(name))}
    if NANOGPT_CHECKPOINT in steps:
        return NANOGPT_CHECKPOINT
    return max(steps, key=lambda name: int(steps[name][1]), default="")


def facts_of_checkpoint(folder: Folder, name: str) -> dict[str, Any]:
    """Return the facts about the run in a checkpoint of nanoGPT.

    Raises
    ------
    SourceError
        When it is not a checkpoint.
    """
    from toposcope.files.formats.registry import open_file

    return nanogpt_facts(open_file(folder.open(name)).facts())


def _positive(config: Mapping[str, Any], name: str) -> int | None:
    value = config.get(name)
    return value if type(value) is int and value > 0 else None
