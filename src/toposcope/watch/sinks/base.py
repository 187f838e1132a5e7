"""The interface of a sink, and the summary that it is sent."""

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
    """Its name in messages."""

    def send(self, summary: Summary) -> None:
        """Send one summary; when this returns, it is being sent or is on the disk."""


@dataclass
class Collected:
    """A sink that keeps what it was sent: for tests and for notebooks."""

    sent: list[Summary] = field(default_factory=list)
    kind: str = "memory"

    def send(self, summary: Summary) -> None:
        """Keep one summary."""
        self.sent.append(summary)
