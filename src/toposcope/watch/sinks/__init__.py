"""Send the results of a watch or a check to an experiment tracker: few charts, few lines."""

from __future__ import annotations

from toposcope.core.errors import InputError
from toposcope.watch.sinks.base import Collected, Sink, Summary

__all__ = ["KINDS", "Collected", "Sink", "Summary", "open_sink"]


KINDS = ("tensorboard", "wandb", "mlflow", "trackio")


def open_sink(text: str, argument: str = "sink") -> Sink:
    """Return the sink named `KIND:WHERE`: WHERE is a folder for tensorboard, else a project or address.

    `argument` is the one that errors name.

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
            argument=argument,
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

        return MLflowSink(where, argument)
    from toposcope.watch.sinks.trackio import TrackioSink

    return TrackioSink(where)
