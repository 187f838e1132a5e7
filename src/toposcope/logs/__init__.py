"""Training logs: one file per dialect, one table of dialects, one reader for every command."""

from __future__ import annotations

from toposcope.logs._reading import (
    is_log,
    label_of,
    log_of_runs,
    log_of_table,
    raw_log,
    read_log,
    unchecked_log,
    with_index,
)
from toposcope.logs.log import Log
from toposcope.logs.run import Run

__all__ = [
    "Log",
    "Run",
    "is_log",
    "label_of",
    "log_of_runs",
    "log_of_table",
    "raw_log",
    "read_log",
    "unchecked_log",
    "with_index",
]
