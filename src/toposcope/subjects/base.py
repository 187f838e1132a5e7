"""Probes: small objects that turn one checkpoint into rows and diagrams."""

from __future__ import annotations

import abc
import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from toposcope.core.errors import InputError
from toposcope.core.types import Feature, Row
from toposcope.store import KeptDiagram
from toposcope.subjects.snapshot import Snapshot


class Cost(enum.StrEnum):
    """The cost of a probe: `cheap` probes are measured by default, `costly` ones only if they are named."""

    CHEAP = "cheap"
    COSTLY = "costly"


class Reads(enum.StrEnum):
    """The checkpoints of a run that a probe reads to measure one of them."""

    ONE = "one"
    PREVIOUS = "previous"
    """That checkpoint and the one before it."""
    PREFIX = "prefix"
    """Every checkpoint up to that one."""


@dataclass(slots=True)
class Measured:
    """The results of a probe at one checkpoint. `diagrams` may be empty.

    `alone` is true if the previous checkpoint could not be read, so that comparisons with it are missing. The
    results are stored, and the next sweep measures the checkpoint again.
    """

    rows: list[Row] = field(default_factory=list)
    diagrams: list[KeptDiagram] = field(default_factory=list)
    alone: bool = False


class Probe(abc.ABC):
    """The base of every probe; implementations are frozen dataclasses, so that they can be pickled.

    A probe has a `name` (the store's column `probe`), declares its `features` and implements `measure`; the
    rest has defaults. The features state their subject and where they represent their study (`about`,
    `leads`). Raise `version` when the same weights would give other numbers: stored results of the old
    version are then measured again. A measurement may depend only on the checkpoints that it `reads`, the
    probe's own fields and generators of `toposcope.core.seeding`.

    >>> from toposcope import measure
    >>> @dataclass(frozen=True)
    ... class Largest(Probe):
    ...     name = "largest"
    ...     features = (Feature("largest", "largest weight", unit="weight"),)
    ...
    ...     def measure(self, snapshot):
    ...         at = snapshot.checkpoint
    ...         found = max(abs(one.values).max() for one in snapshot.matrices())
    ...         return Measured([Row(at.run, at.step, self.name, "largest", float(found))])
    >>> import tempfile
    >>> import numpy as np
    >>> from toposcope import open_series
    >>> series = open_series({0: {"fc.weight": np.eye(3)}, 10: {"fc.weight": 2 * np.eye(3)}})
    >>> measure(series, tempfile.mkdtemp(), features=[Largest()]).features()["value"].tolist()
    [1.0, 2.0]
    """

    name: str
    version: ClassVar[int] = 1
    cost: ClassVar[Cost] = Cost.CHEAP
    reads: ClassVar[Reads] = Reads.ONE
    features: tuple[Feature, ...] = ()

    @abc.abstractmethod
    def measure(self, snapshot: Snapshot) -> Measured:
        """Return the rows and diagrams of one checkpoint."""

    def measure_together(self, snapshots: Sequence[Snapshot]) -> list[Measured] | None:
        """Return the results of `measure` for several small checkpoints; None if this is not faster."""
        return None

    def expected_seconds(self, shapes: Sequence[tuple[int, int]]) -> float | None:
        """Return the rough cost of a checkpoint whose matrices have these shapes; None if it is unknown.

        It is printed before a sweep starts.
        """
        return None

    def expected_bytes(self, shapes: Sequence[tuple[int, int]]) -> int:
        """Return the memory that measuring needs beyond the matrices; it is printed before a sweep starts."""
        return 0

    def hint(self, places: Sequence[str]) -> str:
        """Return what the probe cannot measure of the checkpoints at `places`, in a sentence; "" for nothing.

        It is printed before a sweep starts.
        """
        return ""

    def beside(self, place: str) -> str:
        """Return what the probe reads beside the weights of a checkpoint, in words; "" for nothing.

        A plan says it, and only headers may be read for it.
        """
        return ""

    def warm_up(self) -> None:  # noqa: B027 - a probe without compiled kernels has nothing to load
        """Load what is loaded once per process, so that no measurement's time includes it."""


def check_declared(probe: Probe, rows: Iterable[Row]) -> None:
    """Refuse rows of features that the probe does not declare, because their meaning is unknown.

    Raises
    ------
    InputError
        Naming the first such feature.
    """
    names = {feature.name for feature in probe.features}
    unknown = sorted({row.feature for row in rows} - names)
    if unknown:
        raise InputError(
            f"probe {probe.name!r} measured {unknown[0]!r} without declaring it; add a Feature of this name "
            "to its features"
        )
