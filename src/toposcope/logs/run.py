"""One run of a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a log: its name, its rows by step, and what is stated about it.

    A dialect yields it with the trainer's own columns, and with the name "" where the log has none;
    `read_log` returns it under canonical names. `table` has a row for each logged step and every logged
    column. `planned_steps` and `parameters` (0: unknown) are what the log states. `config` has the facts that
    the log and the trainer's files beside it state: the plan, the recipe, the corpus and so on. `features`
    (step and a column each) are what forecasts may read beside the loss, `topology` those of them that are
    declared as topology. `notes` say what was split, replaced or left out.
    """

    name: str
    table: pd.DataFrame
    planned_steps: int | None = None
    parameters: int = 0
    notes: tuple[str, ...] = ()
    config: Mapping[str, object] = field(default_factory=dict)
    features: pd.DataFrame | None = field(default=None, repr=False)
    topology: tuple[str, ...] = ()
