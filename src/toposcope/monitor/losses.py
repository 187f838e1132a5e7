"""Copy a growing loss history into the store: what is there stays, what is new is added."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.errors import InputError
from toposcope.sources import history
from toposcope.store import Store

if TYPE_CHECKING:
    import pandas as pd


class LossFile:
    """A loss history beside the checkpoints that grows while it is followed; it may come later than they.

    Parameters
    ----------
    path
        What `toposcope.open_series` takes as `losses`.
    rename
        Columns of the file under other names: {"their name": "loss"}.

    Raises
    ------
    InputError
        When the file is there and is no loss history.
    """

    def __init__(self, path: Path, rename: Mapping[str, str] | None = None) -> None:
        self._path, self._rename = path, dict(rename or {})
        self._mark: tuple[int, int] | None = None
        self._table: pd.DataFrame | None = None
        if path.exists():
            self._read()

    def joined(self, own: pd.DataFrame, run: str) -> pd.DataFrame:
        """Return the history that a run has of its own, filled in from the file as it is now."""
        with contextlib.suppress(InputError, OSError):  # its last line is being written
            self._read()
        return own if self._table is None else history.join(own, self._table, run)

    def _read(self) -> None:
        if not self._path.exists():
            return
        status = os.stat(self._path)
        mark = status.st_size, status.st_mtime_ns
        if mark != self._mark:
            self._table = history.read_losses(str(self._path), self._rename)
            self._mark = mark


class LossCopy:
    """Keeps the store's metrics of each segment up to what the trainer has written.

    A row that was copied is never changed, so that a run which rolls back keeps the history of the segment
    that it left; only cells that were empty are filled.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[str, tuple[int, int]] = {}

    def copy(self, history: pd.DataFrame, segment: str, *, after: int) -> tuple[int, int] | None:
        """Add the rows of `history` with steps above `after`; return the first and last step that changed."""
        history = history[history["step"] > after]
        if history.empty:
            return None
        mark = (len(history), int(history["step"].iloc[-1]))
        if self._seen.get(segment) == mark:
            return None
        self._seen[segment] = mark
        known = self._store.metrics(segment)
        joined = known.set_index("step").combine_first(history.set_index("step")).reset_index()
        joined["run"] = segment
        joined = joined[known.columns]
        changed = _changed(known, joined)
        if changed is not None:
            self._store.write_metrics(joined)
        return changed


def _changed(known: pd.DataFrame, joined: pd.DataFrame) -> tuple[int, int] | None:
    before = known.set_index("step").reindex(joined["step"])
    after = joined.set_index("step")
    values = [name for name in after.columns if name != "run"]
    new = (after[values].notna() & before[values].isna()).any(axis=1)
    steps = after.index[new.to_numpy()]
    return (int(steps.min()), int(steps.max())) if len(steps) else None
