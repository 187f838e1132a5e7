"""What a sink takes, and what it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Summary:
    """One checkpoint of one run: a dozen numbers of the whole model, and the alarms since the last one."""

    run: str
    step: int
    values: Mapping[str, float]
    alarms: tuple[str, ...] = ()


class Sink(Protocol):
    """Where summaries go. Steps of a run come in rising order."""

    kind: str
    """What messages call it."""

    def send(self, summary: Summary) -> None:
        """Take one summary; it is on its way, or on the disk, when this returns."""


@dataclass
class Collected:
    """A sink that keeps what it was sent: for tests and for notebooks."""

    sent: list[Summary] = field(default_factory=list)
    kind: str = "memory"

    def send(self, summary: Summary) -> None:
        """Keep one summary."""
        self.sent.append(summary)
