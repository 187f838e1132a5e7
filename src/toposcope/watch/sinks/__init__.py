"""Send what a watch found to a tracker: one method, a summary a checkpoint, not thousands of charts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from toposcope.core.errors import InputError


@dataclass(frozen=True, slots=True)
class Summary:
    """One checkpoint of one run: a dozen numbers of the whole model, and the alarms since the last one."""

    run: str
    step: int
    values: Mapping[str, float]
    alarms: tuple[str, ...] = ()


class Sink(Protocol):
    """Where summaries go. Steps of a run come in rising order."""

    def send(self, summary: Summary) -> None:
        """Take one summary; it is on its way, or on the disk, when this returns."""


@dataclass
class Collected:
    """A sink that keeps what it was sent: for tests and for notebooks."""

    sent: list[Summary] = field(default_factory=list)

    def send(self, summary: Summary) -> None:
        """Keep one summary."""
        self.sent.append(summary)


KINDS = ("tensorboard", "wandb", "mlflow", "trackio")


def open_sink(text: str) -> Sink:
    """Return the sink that `KIND:WHERE` names: a folder for tensorboard, a project or address for the others.

    Raises
    ------
    InputError
        When the kind is unknown or WHERE is missing.
    MissingExtraError
        When the tracker's package is not installed.
    """
    kind, _, where = text.partition(":")
    if kind not in KINDS or not where:
        raise InputError(
            f"--sink {text!r} is no KIND:WHERE with one of {', '.join(KINDS)}; try tensorboard:logs"
        )
    if kind == "tensorboard":
        from toposcope.watch.sinks.tensorboard import TensorBoardSink

        return TensorBoardSink(where)
    if kind == "wandb":
        from toposcope.watch.sinks.wandb import WandbSink

        return WandbSink(where)
    if kind == "mlflow":
        from toposcope.watch.sinks.mlflow import MLflowSink

        return MLflowSink(where)
    from toposcope.watch.sinks.trackio import TrackioSink

    return TrackioSink(where)
