"""Training logs: one file per dialect, one table of dialects, one reader for every command."""

from __future__ import annotations

from toposcope.sources.logs.reading import (
    is_log,
    log_of_runs,
    log_of_table,
    raw_log,
    read_log,
    with_index,
)
from toposcope.sources.logs.result import LoggedRun, RunLog

__all__ = [
    "LoggedRun",
    "RunLog",
    "is_log",
    "log_of_runs",
    "log_of_table",
    "raw_log",
    "read_log",
    "with_index",
]
