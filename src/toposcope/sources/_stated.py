"""What checkpoints state of their run: its plan, and the losses at their steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toposcope.core.errors import SourceError
from toposcope.files.configuration import stated_plan
from toposcope.files.nanogpt import nanogpt_facts
from toposcope.logs.plan_beside import PLAN_FROM
from toposcope.sources.entries import Entry, base_name


def facts_of(entry: Entry) -> dict[str, Any]:
    """Return what a checkpoint's own configuration says of its run: steps, batch, the planned rate."""
    try:
        facts = entry.open().facts()
    except (SourceError, OSError):
        return {}  # a finding when it is read
    plan = stated_plan(facts.config)
    origin = {PLAN_FROM: base_name(entry.checkpoint.uri)} if plan else {}
    return {**plan, **nanogpt_facts(facts), **origin}


def stated_rows(entries: Sequence[Entry]) -> list[Mapping[str, Any]]:
    """Return the rows of losses that local checkpoints state, by step; a row of its own step comes first."""
    rows: dict[Any, dict[str, Any]] = {}
    for entry in entries:
        if "://" in entry.checkpoint.uri or entry.identity is not None:
            return []
        try:
            facts = entry.open().facts()
        except (SourceError, OSError):
            continue  # a finding when it is read
        for row in facts.metrics:
            rows[row["step"]] = {**row, **rows.get(row["step"], {})}
    return [rows[step] for step in sorted(rows)]
