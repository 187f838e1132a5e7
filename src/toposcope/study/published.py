"""The published rules that an analysis is given; this package itself knows no paper."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from toposcope.core.types import Feature
from toposcope.forecasting.base import Forecaster
from toposcope.study.table import SeriesTable

PHASES = (
    "run", "column", "rule", "peak_step", "diminishing_step", "peak_fraction", "diminishing_fraction",
    "status", "reason",
)  # fmt: skip
"""The columns of a table of phases: one row for each run, feature and rule."""


def _no_forecasters(columns: Collection[str]) -> Sequence[Forecaster]:
    return ()


def _no_phases(table: SeriesTable, columns: Sequence[str]) -> pd.DataFrame:
    return pd.DataFrame(columns=list(PHASES))


def _nowhere(runs: pd.DataFrame) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class FixedPhase:
    """A phase from step `low` to `high` (None: the end); `sign` of the change that its name claims, 0 any."""

    name: str
    low: int
    high: int | None
    sign: int


@dataclass(frozen=True, slots=True)
class FixedPhases:
    """Phases whose steps a publication fixed for every run; `source` is what sentences call it.

    They are those of one `feature` of a `probe`, which sentences call `words`.
    """

    source: str = ""
    phases: tuple[FixedPhase, ...] = ()
    probe: str = ""
    feature: Feature | None = None
    words: str = ""

    def sentence(self) -> str:
        """Return the phases with their steps.

        >>> FixedPhases("a", (FixedPhase("rise", 0, 9, 1), FixedPhase("rest", 9, None, 0))).sentence()
        'rise (steps 0 to 9) and rest (from 9)'
        """
        spans = [
            f"{phase.name} ({f'from {phase.low:,}' if phase.high is None else _span(phase.low, phase.high)})"
            for phase in self.phases
        ]
        return " and ".join([", ".join(spans[:-1]), spans[-1]] if len(spans) > 1 else spans)


def _span(low: int, high: int) -> str:
    return f"{'' if low else 'steps '}{low:,} to {high:,}"


@dataclass(frozen=True, slots=True)
class PublishedRules:
    """Rules from elsewhere: forecasters by the features that they may read, and where phases begin."""

    forecasters: Callable[[Collection[str]], Sequence[Forecaster]] = _no_forecasters
    phases: Callable[[SeriesTable, Sequence[str]], pd.DataFrame] = _no_phases
    fixed: FixedPhases = FixedPhases()
    controls: Mapping[str, str] = field(default_factory=dict)
    """Rule that reads features -> the same rule without them, by the names of the forecasters."""
    leading: tuple[str, str] = ("", "")
    """The rule that a sentence quotes, and its part from the loss alone."""
    source: str = ""
    """What sentences call where the rules are from."""
    called: Mapping[str, str] = field(default_factory=dict)
    """What figures, captions and tables call the forecasters, by their names."""
    onward: Callable[[pd.DataFrame], str] = _nowhere
    """What the reader of these runs does next if nothing is wrong; "" for the next step of the findings."""


NOTHING = PublishedRules()
