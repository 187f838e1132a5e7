"""Send the results of a watch to an experiment tracker: one summary per checkpoint, few charts."""

from __future__ import annotations

from toposcope.core.errors import InputError
from toposcope.watch.sinks.base import Collected, Sink, Summary

__all__ = ["KINDS", "Collected", "Sink", "Summary", "open_sink"]


KINDS = ("tensorboard", "wandb", "mlflow", "trackio")


def open_sink(text: str) -> Sink:
    """Return the sink named `KIND:WHERE`: WHERE is a folder for tensorboard, else a project or address.

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
            f"not KIND:WHERE with one of {', '.join(KINDS)}",
            argument="sink",
            value=text,
            remedy="try tensorboard:logs",
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
