"""Summaries as TensorBoard event files, one folder for each run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from toposcope.core.errors import MissingExtraError
from toposcope.logs.dialects.dialect import OWN_EVENTS
from toposcope.watch.sinks.base import Summary


class TensorBoardSink:
    """Writes scalars, and alarms as text, under `folder`/RUN."""

    kind = "tensorboard"

    def __init__(self, folder: str | Path) -> None:
        try:
            import tensorboard.summary.writer.event_file_writer as _  # noqa: F401
        except ImportError:
            raise MissingExtraError("tensorboard", "export") from None
        self._folder = Path(folder)
        self._writers: dict[str, Any] = {}

    def send(self, summary: Summary) -> None:
        """Write one summary and flush it to the disk."""
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        if summary.run not in self._writers:
            place = str(self._folder / _folder_name(summary.run))
            self._writers[summary.run] = EventFileWriter(place, filename_suffix=OWN_EVENTS)
        values = [summary_pb2.Summary.Value(tag=k, simple_value=v) for k, v in summary.values.items()]
        values += [_text("alarm", alarm) for alarm in summary.alarms]
        values += [_text("verdict", summary.verdict)] if summary.verdict else []
        event = event_pb2.Event(
            wall_time=time.time(), step=summary.step, summary=summary_pb2.Summary(value=values)
        )
        self._writers[summary.run].add_event(event)
        self._writers[summary.run].flush()


def _text(what: str, line: str) -> Any:
    from tensorboard.compat.proto import summary_pb2, tensor_pb2, tensor_shape_pb2
    from tensorboard.plugins.text import metadata

    shape = tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=1)])
    tensor = tensor_pb2.TensorProto(dtype="DT_STRING", string_val=[line.encode()], tensor_shape=shape)
    about = metadata.create_summary_metadata(display_name=what, description="")
    return summary_pb2.Summary.Value(tag=f"toposcope/{what}", metadata=about, tensor=tensor)


def _folder_name(run: str) -> str:
    """Return a run's name as one folder's name."""
    return "".join(c if c.isalnum() or c in "-_.~" else "_" for c in run).lstrip(".") or "run"
