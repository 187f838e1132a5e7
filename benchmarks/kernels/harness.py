"""Time one way of computing something beside its physical floor, alternately, in a separate process."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SECONDS = 2.0
_QUICK_SECONDS = 0.3
_MOST_REPEATS = 25


@dataclass(frozen=True)
class Case:
    """One method on one input. `size` is the figure's x axis; `floor` the least that must be done.

    `make` builds the input, `run` and `floor` take it. `calls` is how many calls one `run` stands for.
    """

    group: str
    label: str
    size: float
    method: str
    make: Callable[[], Any]
    run: Callable[[Any], Any]
    floor: Callable[[Any], Any] | None = None
    floor_name: str = ""
    calls: int = 1
    size_name: str = "size"


def measure(case: Case, *, quick: bool) -> dict[str, Any]:
    """Return median seconds, the floor's, the median of their ratios, and the extra peak memory."""
    data = case.make()
    case.run(data)  # compiles, loads, and warms the caches
    if case.floor is not None:
        case.floor(data)
    times: list[float] = []
    floors: list[float] = []
    deadline = time.perf_counter() + (_QUICK_SECONDS if quick else _SECONDS)
    while len(times) < 3 or (time.perf_counter() < deadline and len(times) < _MOST_REPEATS):
        times.append(_seconds(case.run, data))
        if case.floor is not None:
            floors.append(_seconds(case.floor, data))
        if time.perf_counter() > deadline + 10 * _SECONDS:
            break
    ratios = [seconds / least for seconds, least in zip(times, floors, strict=bool(floors))]
    return {
        "group": case.group,
        "label": case.label,
        "size": case.size,
        "size_name": case.size_name,
        "method": case.method,
        "seconds": statistics.median(times) / case.calls,
        "best": min(times) / case.calls,
        "repeats": len(times),
        "floor": case.floor_name,
        "floor_seconds": statistics.median(floors) / case.calls if floors else None,
        "ratio": statistics.median(ratios) if ratios else None,
        "peak_mb": _peak_megabytes(case.run, data),
    }


def _seconds(function: Callable[[Any], Any], data: Any) -> float:
    start = time.perf_counter()
    result = function(data)
    seconds = time.perf_counter() - start
    del result
    return seconds


def _peak_megabytes(function: Callable[[Any], Any], data: Any) -> float:
    """Return the growth of the process's peak memory during one call."""
    _release_freed_memory()
    reset = Path("/proc/self/clear_refs")
    if reset.exists():
        reset.write_text("5")  # Linux: the peak becomes the present size
    before = _memory("VmRSS")
    function(data)
    return max(0.0, _memory("VmHWM") - before)


def _release_freed_memory() -> None:
    """Give back what earlier calls freed, which would otherwise hide the same call's need for it."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _memory(field: str) -> float:
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith(field))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
