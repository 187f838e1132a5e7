"""What the page says about its own work: what is running, and when the next answer comes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from toposcope.core.forms import and_more, listed
from toposcope.watch.page.live import Live

TYPICAL = 30.0
"""Seconds for a first answer on an idle two-core machine; most of it is starting Python."""


@dataclass
class Work:
    """When this answer began, how long the last one took, when the next may begin; in seconds since 1970.

    The page shows clock times rather than countdowns, because it is not repainted meanwhile.
    """

    clock: Callable[[], float] = time.time
    began: float | None = None
    took: float | None = None
    next_at: float | None = None

    def begin(self) -> None:
        """Note that an answer is being computed now."""
        self.began, self.next_at = self.clock(), None

    def end(self) -> float:
        """Note that it has ended, and return the seconds that it took."""
        self.took = 0.0 if self.began is None else max(self.clock() - self.began, 0.0)
        self.began = None
        return self.took

    def sentence(self) -> str:
        """Return in words what is running, with its times.

        >>> work = Work(clock=lambda: 100.0)
        >>> work.begin()
        >>> work.sentence().partition(", ")[2]
        'which takes about 30 s, longer on a busy machine.'
        """
        if self.began is not None:
            typical = TYPICAL if self.took is None else max(self.took, 1.0)
            return (
                f"The findings are being computed (since {_at(self.began)}), "
                f"which takes about {typical:.0f} s, longer on a busy machine."
            )
        if self.next_at is not None and self.next_at > self.clock():
            return f"The next findings are computed at {_at(self.next_at)}, if there is something new."
        return "The next findings are computed when there is something new."


def _at(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def going(live: Live) -> list[tuple[str, int, int]]:
    """Return the runs that have not reached their planned end: name, last known step, planned last step."""
    last: dict[str, int] = {}
    for runs in live.traces.by_measure.values():
        for run, trace in runs.items():
            if len(trace):
                last[run] = max(last.get(run, 0), int(trace.step[-1]))
    going_runs = []
    for run, config in zip(live.runs.get("run", ()), live.runs.get("config", ()), strict=True):
        planned = _planned(config)
        if run in last and planned is not None and last[run] < planned:
            going_runs.append((str(run), last[run], planned))
    return going_runs


def _planned(config: object) -> int | None:
    try:
        payload = json.loads(str(config or "{}"))
        steps = payload.get("planned_steps") or payload.get("steps")
    except (ValueError, AttributeError):
        return None
    return steps if type(steps) is int else None


def so_far(checkpoints: int, runs: int, live: Live) -> str:
    """Return what was checked without an alarm; if nothing was, what the page waits for."""
    if checkpoints:
        many = f"{checkpoints:,} checkpoint{'s' * (checkpoints != 1)} of {runs:,} run{'s' * (runs != 1)}"
        return f"No alarm so far in {many}."
    folder = f" in {live.folder}" if live.folder else ""
    sentence = f"Nothing is measured yet: a checkpoint{folder} is measured once it is complete."
    if live.traces.by_measure:
        logged = f"The losses of {runs:,} run{'s' * (runs != 1)} are here"
        sentence = f"{logged}; the first checkpoint{folder} is not measured yet."
    return f"{sentence} {unseen(live)}".rstrip()


def unseen(live: Live) -> str:
    """Return what the alarms do not cover."""
    if not live.unseen:
        return ""
    return f"{len(live.unseen):,} not checked: {next(iter(live.unseen.values()))}"


def outdated(answer: Mapping[str, Any], checkpoints: int) -> bool:
    """Return whether checkpoints have arrived since an answer was computed."""
    seen = answer.get("seen")
    return isinstance(seen, int) and seen < checkpoints


def why_no_forecast(live: Live, answer: Mapping[str, Any], work: Work) -> str:
    """Return in words why no forecast is shown, and when one will come."""
    if live.ready and not live.logged("loss") and not live.logged("heldout_loss"):
        return "No loss is logged yet, so nothing is forecast."
    if "forecasts" not in answer:
        return f"No forecast yet: it comes after the findings. {work.sentence()}"
    if running := going(live):
        run, last, planned = running[0]
        more = and_more(len(running) - 1)
        return f"No forecast yet for {run} (step {last:,} of {planned:,}){more}. {work.sentence()}"
    sentence = "No run is known to be unfinished, so nothing is forecast."
    if unplanned := _without_checkpoint(live):
        sentence = (
            f"No forecast yet: the plan of {listed(unplanned, most=1)} is read with the first checkpoint."
        )
    return f"{sentence} A run that states no plan counts as ended where its log ends."


def _without_checkpoint(live: Live) -> list[str]:
    """Return the runs that have losses but no checkpoint yet."""
    logged = {run for runs in live.traces.by_measure.values() for run, trace in runs.items() if len(trace)}
    return sorted(str(run) for run in logged - set(live.runs.get("run", ())))
