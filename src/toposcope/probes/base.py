"""What a probe is: a small object that turns one checkpoint into rows and diagrams."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from toposcope.probes.snapshot import Snapshot
from toposcope.store import KeptDiagram
from toposcope.types import Row


class Tier(enum.StrEnum):
    """What a probe costs: `cheap` ones are measured unless told otherwise, `costly` ones when named."""

    CHEAP = "cheap"
    COSTLY = "costly"


class Reach(enum.StrEnum):
    """Which checkpoints of its run a probe reads to measure one of them."""

    ONE = "one"
    PREVIOUS = "previous"
    """That checkpoint and the one before it."""
    PREFIX = "prefix"
    """Every checkpoint up to that one."""


@dataclass(slots=True)
class Measured:
    """What a probe found at one checkpoint. `diagrams` may be empty.

    `alone` says that the previous checkpoint could not be read, so that what compares the two is missing: it
    is kept, and the next sweep measures the checkpoint again.
    """

    rows: list[Row] = field(default_factory=list)
    diagrams: list[KeptDiagram] = field(default_factory=list)
    alone: bool = False


@runtime_checkable
class Probe(Protocol):
    """The interface of every probe; implementations are frozen dataclasses, so that they can be sent.

    `version` numbers the measure: raise it when the same weights would give other numbers, and stored
    results of the old version are measured again. A measurement must not depend on anything but the
    checkpoints within `reach`, the probe's own fields and generators of `toposcope.seeding`. A probe may
    also have `expected_seconds(shapes)`, its rough cost for a checkpoint whose matrices have these shapes,
    which is said before a sweep starts; and `measure_together(snapshots)`, the list of what `measure` gives
    for each, where small checkpoints are faster in one go.
    """

    @property
    def name(self) -> str:
        """Return the name of the probe, as in the store's column `probe`."""

    @property
    def version(self) -> int:
        """Return the number of the measure."""

    @property
    def tier(self) -> Tier:
        """Return what the probe costs."""

    @property
    def reach(self) -> Reach:
        """Return which checkpoints of the run it reads."""

    def measure(self, snapshot: Snapshot) -> Measured:
        """Return the rows and diagrams of one checkpoint."""
