"""Restarts of a run that is watched: the steps that its log shows to be trained twice, while they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from toposcope.logs.remarks import LOOK
from toposcope.watch.alarms.restart_fault import RestartFault
from toposcope.watch.journal import Event, Journal

if TYPE_CHECKING:
    import pandas as pd


class RestartLog:
    """Writes into the journal what a restart shows: each time its rows have doubled, and when all are there.

    Fewer looks spend less of the level of the test: of 200 rows there are seven.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._marks: dict[str, tuple[int, int]] = {}
        self._seen: dict[tuple[str, int], tuple[int, bool]] = {}
        for event in journal.read():
            if event.kind == "restart" and event.step is not None:
                self._seen[event.data["of"], event.step] = event.data["rows"], bool(event.data.get("whole"))

    def take(
        self, run: str, segment: str, rows: pd.DataFrame | None, replaced: pd.DataFrame | None
    ) -> list[Event]:
        """Compare the rows of a log with those that later ones replaced; return the new events."""
        if rows is None or replaced is None or not len(replaced):
            return []
        from toposcope.logs.described import loss_column
        from toposcope.rules.judged_run import JudgedRun
        from toposcope.rules.trained_twice import trained_twice

        whole = float(np.nanmax(rows["step"])) >= float(np.nanmax(replaced["step"]))
        mark = len(replaced), len(rows)
        if self._marks.get(run) == mark:
            return []
        self._marks[run] = mark
        judged = JudgedRun.of(rows, column=loss_column(rows), replaced=replaced)
        events = []
        for finding in trained_twice(judged):
            step = int(finding.step)
            pairs, done = self._seen.get((run, step), (0, False))
            if done or not (whole or finding.rows >= 2 * pairs):
                continue
            self._seen[run, step] = finding.rows, whole
            remark = finding.remark()
            events.append(
                self._journal.append(
                    "restart", segment, step, of=run, verdict=remark.level, sentence=remark.sentence,
                    rows=finding.rows, whole=whole,
                )
            )  # fmt: skip
        return events


def worked_later(
    alarms: Sequence[Event], journal: Sequence[Event]
) -> Mapping[tuple[str, str, int | None], int]:
    """Return at which step an alarm on a restart was over, by run, test and step of the alarm.

    It is over if the latest comparison of the same restart calls for no look.
    """
    latest = {(event.data["of"], event.step): event for event in journal if event.kind == "restart"}
    reached: dict[tuple[str, str, int | None], int] = {}
    for alarm in alarms:
        last = latest.get((alarm.data.get("of", alarm.run), alarm.step))
        mine = alarm.data.get("test") == RestartFault.test and last is not None
        if mine and last is not None and last.step is not None and last.data["verdict"] != LOOK:
            reached[alarm.run, RestartFault.test, alarm.step] = last.step + int(last.data["rows"])
    return reached
