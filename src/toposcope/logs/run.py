"""One run of a log."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a log: its name, its rows, its planned steps, its size (0: unknown).

    A dialect yields it with the trainer's own columns, and with the name "" where the log has none.
    `read_log` returns it under canonical names.
    """

    name: str
    table: pd.DataFrame
    planned_steps: int | None = None
    parameters: int = 0
    notes: tuple[str, ...] = ()
