"""The interface of a sink, and the summary that it receives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Summary:
    """One checkpoint of one run: a dozen features of the whole model, and the alarms since the last one.

    `verdict` is the line of a check about the run; "" in the summaries of a watch.
    """

    run: str
    step: int
    values: Mapping[str, float]
    alarms: tuple[str, ...] = ()
    verdict: str = ""


class Sink(Protocol):
    """Where summaries go. The steps of a run come in increasing order."""

    kind: str
    """Its name in messages."""

    def send(self, summary: Summary) -> None:
        """Send one summary; when this returns, it is on its way or on disk."""


@dataclass
class Collected:
    """A sink that keeps what it receives, for tests and notebooks."""

    sent: list[Summary] = field(default_factory=list)
    kind: str = "memory"

    def send(self, summary: Summary) -> None:
        """Keep one summary."""
        self.sent.append(summary)


def refusal(error: Exception) -> str:
    """Return why a tracker refused a summary, in one line."""
    return f"{type(error).__name__}: {error}".partition("\n")[0]
