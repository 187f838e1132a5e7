"""The default forecast: the method that best forecast the finished siblings, never judged on the run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from toposcope.analysis.forecast.base import Forecaster, Point, own_errors, sibling_errors
from toposcope.analysis.forecast.curve import Curve
from toposcope.analysis.forecast.families import LastValue, Pow3, Pow4, SmoothedPow3
from toposcope.analysis.forecast.laws import MultiPower, Tissue
from toposcope.analysis.forecast.siblings import PathTransfer, SiblingTransfer
from toposcope.errors import InputError


def default_candidates() -> tuple[Forecaster, ...]:
    """Return what `Auto` chooses from, simplest first: an earlier method wins a tie."""
    from_siblings = (SiblingTransfer(), PathTransfer(), MultiPower(), Tissue())
    return (*from_siblings, Pow3(), SmoothedPow3(), Pow4(), LastValue())


@dataclass(frozen=True, slots=True)
class Auto(Forecaster):
    """Nested choice: each candidate forecasts every sibling from the others; the least error is used.

    With fewer than three siblings the candidates are compared on earlier cuts of the run itself. The laws of
    the learning rate enter only where siblings follow different schedules or there are none: on one shared
    schedule a regression on siblings needs no law.
    """

    label: str = "auto"
    candidates: tuple[Forecaster, ...] = field(default_factory=default_candidates)
    siblings: Sequence[Curve] = ()
    share: float = 0.0
    chosen: Forecaster | None = None

    @property
    def name(self) -> str:
        """The method's name in tables."""
        return self.label

    @classmethod
    def without_laws(cls) -> Self:
        """Return the choice among methods that need no schedule: seconds instead of minutes."""
        quick = tuple(c for c in default_candidates() if "schedule" not in c.needs)
        return cls("auto, without laws of the learning rate", quick)

    def fit(self, siblings: Sequence[Curve], share: float) -> Self:
        """Compare the candidates on the siblings and fit the best one."""
        kept = replace(self, siblings=tuple(siblings), share=share, chosen=None)
        if len(siblings) < 3:
            return kept
        scored = [
            (_error(sibling_errors(c, siblings, share), len(siblings)), c) for c in self._eligible(siblings)
        ]
        best = min((error for error, _ in scored), default=math.inf)
        if not math.isfinite(best):
            return kept
        choice = next(c for error, c in scored if error <= best)
        return replace(kept, chosen=choice.fit(siblings, share))

    def predict(self, seen: Curve) -> Point:
        """Forecast with the chosen method, choosing on the run's own earlier cuts when siblings could not."""
        if self.chosen is not None:
            return self.chosen.predict(seen)
        scored = []
        for candidate in self._eligible(self.siblings):
            if candidate.needs & {"siblings"} or ("schedule" in candidate.needs and seen.schedule is None):
                continue
            try:
                point = candidate.fit(self.siblings, self.share).predict(seen)
            except (InputError, np.linalg.LinAlgError):
                continue
            scored.append((_error(own_errors(candidate, seen, self.siblings), 3), point))
        if not scored:
            raise InputError(f"auto: no method could forecast {seen.run}; give siblings or a schedule")
        return min(scored, key=lambda pair: pair[0])[1]

    def _eligible(self, siblings: Sequence[Curve]) -> list[Forecaster]:
        laws = len(siblings) < 2 or not one_schedule(siblings)
        return [c for c in self.candidates if laws or "schedule" not in c.needs]


def one_schedule(siblings: Sequence[Curve]) -> bool:
    """Return whether all runs follow one learning-rate schedule, or none is known of any."""
    first = siblings[0].plan()
    if first is None or any(s.horizon != siblings[0].horizon for s in siblings):
        return first is None and all(s.plan() is None for s in siblings)
    return all(
        (plan := s.plan()) is not None and not first.mismatch(plan.step, plan.rate) for s in siblings[1:]
    )


def _error(errors: Sequence[float], expected: int) -> float:
    """Return the root mean square error; infinite when the method failed on some of them."""
    if len(errors) < expected:
        return math.inf
    return math.sqrt(sum(e * e for e in errors) / len(errors))
