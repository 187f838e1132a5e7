"""The audit of a watched folder: it samples the complete checkpoints, and repeats as the run grows."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from toposcope.core.errors import InputError
from toposcope.core.observations import AuditFinding
from toposcope.core.repeats import together
from toposcope.core.types import Checkpoint
from toposcope.sources.audit import audited
from toposcope.sources.discover import Source
from toposcope.sources.optimizer.resumption import STATE_FAULTS, Resumption
from toposcope.sources.series import Series
from toposcope.sources.unseen import UnseenWeights
from toposcope.store import Store
from toposcope.watch.follow import Follower, Sighting

REST = 20.0
"""An audit rests this many times as long as it took, because it reads a sample of every checkpoint."""


class FolderAudit:
    """Keeps the audit findings in the store up to date with the watched folder.

    Parameters
    ----------
    follower
        Knows the runs of the folder and where they are.
    store
        Takes the findings.
    clock
        Seconds from any start, never going back.
    """

    def __init__(
        self, follower: Follower, store: Store, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._follower, self._store, self._clock = follower, store, clock
        self._uri = str(follower.folder.resolve())
        self._audited: frozenset[str] = frozenset()
        self._copies: frozenset[Sighting] = frozenset()
        self._ready_at = -float("inf")

    def visit(self, complete: Collection[str]) -> tuple[Resumption, ...]:
        """Audit the complete checkpoints, given by their places, if some are new and the audit is rested.

        Return whether each run that keeps a training's state can be resumed from its newest checkpoint, and
        from those that arrived since the audit before; of the first audit, from the newest alone.
        """
        began = self._clock()
        copies = self._follower.rested_copies()
        is_audited = set(complete) <= self._audited and copies.keys() <= self._copies
        if is_audited or began < self._ready_at:
            return ()
        series = self._series(complete, tuple(copies.values()))
        try:
            arrived = set(complete) - self._audited if self._audited else ()
            answer = audited(series, cheap=True, arrived=arrived)
        except (InputError, OSError):
            return ()  # deleted meanwhile: the next audit takes what is left
        new = [finding for finding in answer.findings if _is_there(series, finding)]
        every = together([*self._recorded(series), *new], lambda finding: finding.fault)
        self._store.write_audit(self._uri, every)
        self._audited, self._copies = frozenset(complete), frozenset(copies)
        self._ready_at = self._clock() + REST * (self._clock() - began)
        return tuple(resumption for resumption in answer.resume if resumption.is_about_state)

    def _series(self, complete: Collection[str], copies: Sequence[Source]) -> Series:
        sources = [
            dataclasses.replace(source, entries=entries)
            for source in self._follower.sources.values()
            if (entries := tuple(entry for entry in source.entries if entry.checkpoint.uri in complete))
        ]
        return Series(self._uri, sources, beside=UnseenWeights(list(copies)))

    def _recorded(self, series: Series) -> list[AuditFinding]:
        """Return the earlier findings about checkpoints that are no longer in the folder.

        Nobody resumes from a checkpoint that is gone, so its training's state is not a fault any more.
        """
        present = {(at.run, at.step) for at in _places(series)}
        recorded = (
            finding
            for finding in self._store.audited(self._uri)
            if finding.step is not None and finding.fault not in STATE_FAULTS
        )
        return [gone for remaining in recorded if (gone := _gone(remaining, present))]


def _gone(finding: AuditFinding, present: Collection[tuple[str, int | None]]) -> AuditFinding | None:
    """Return the part of a finding whose checkpoints are gone; None if all are still there."""
    runs, steps = finding.every_run, finding.steps or (finding.step,)
    gone = tuple(step for step in steps if any((run, step) not in present for run in runs))
    if not gone:
        return None
    count = max(1, round(finding.count * len(gone) / len(steps)))
    held = tuple(step for step in gone if step is not None) if finding.steps else ()
    return dataclasses.replace(finding, step=gone[0], steps=held, count=count)


def _places(series: Series) -> list[Checkpoint]:
    """Return the checkpoints of a series and the weights beside them."""
    return [*series, *(entry.checkpoint for copy in series.beside.copies for entry in copy.entries)]


def _is_there(series: Series, finding: AuditFinding) -> bool:
    """Return whether a finding's checkpoints are still in the folder, or it is about the whole run."""
    if finding.fault != "unreadable":
        return True
    return any(
        Path(at.uri).exists()
        for at in _places(series)
        if at.run == finding.run and finding.step in (None, at.step)
    )
