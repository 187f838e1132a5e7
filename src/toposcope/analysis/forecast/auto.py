"""The default forecast: log forecasts averaged by how well each method forecast the finished siblings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from toposcope.analysis.forecast.base import (
    Forecaster,
    Point,
    future_steps,
    own_errors,
    sibling_errors,
)
from toposcope.analysis.forecast.curve import Curve
from toposcope.analysis.forecast.families import LastValue, Pow3, Pow4, SmoothedPow3
from toposcope.analysis.forecast.laws import MultiPower, Tissue
from toposcope.analysis.forecast.siblings import MeanFall, PathTransfer, ShrunkTransfer, SiblingTransfer
from toposcope.errors import InputError

POWER = 4.0
"""A method's weight is the root mean square of its left-out log errors to the power -POWER."""

_EXACT = 1e-5
"""Log errors below this are one another's equals: no method is trusted beyond it."""


def default_candidates() -> tuple[Forecaster, ...]:
    """Return what `Auto` averages: transfers from siblings, laws of the rate, the run's own curve."""
    from_siblings = (SiblingTransfer(), ShrunkTransfer(), MeanFall(), PathTransfer())
    return (*from_siblings, MultiPower(), Tissue(), Pow3(), SmoothedPow3(), Pow4(), LastValue())


@dataclass(frozen=True, slots=True)
class Auto(Forecaster):
    """Average of the candidates' log forecasts with weights rms^-4 of their left-out log errors.

    Each candidate forecasts every sibling from the others at the same share of training; one that fails on
    any of them has no weight. With fewer than two siblings the errors come from earlier cuts of the run
    itself. The laws of the learning rate enter only where siblings follow different schedules or there are
    none: on one shared schedule a regression on siblings needs no law.
    """

    label: str = "auto"
    candidates: tuple[Forecaster, ...] = field(default_factory=default_candidates)
    siblings: Sequence[Curve] = ()
    share: float = 0.0
    fitted: tuple[tuple[Forecaster, float], ...] = ()
    known: dict[tuple[object, ...], tuple[float, ...]] = field(default_factory=dict, repr=False)
    """Errors of methods that learn from no sibling, kept so that leaving others out does not repeat them."""
    least_seen: ClassVar[int] = 3

    @property
    def name(self) -> str:
        """The method's name in tables."""
        return self.label

    @classmethod
    def without_laws(cls) -> Self:
        """Return the average of methods that need no schedule: seconds instead of minutes."""
        quick = tuple(c for c in default_candidates() if "schedule" not in c.needs)
        return cls("auto, without laws of the learning rate", quick)

    def fit(self, siblings: Sequence[Curve], share: float) -> Self:
        """Weigh the candidates on the siblings and fit those that have a weight."""
        kept = replace(self, siblings=tuple(siblings), share=share, fitted=())
        if len(siblings) < 2:
            return kept
        errors = [(c, self._left_out(c, siblings, share)) for c in self._eligible(siblings)]
        known = [(c, weight(e)) for c, e in errors if len(e) == len(siblings)]
        return replace(kept, fitted=tuple((c.fit(siblings, share), w) for c, w in known))

    def predict(self, seen: Curve) -> Point:
        """Average the forecasts; without siblings, weighed on the run's own earlier cuts."""
        points = self._points(self.fitted or self._own(seen), seen)
        total = sum(w for _, w, _ in points)
        if not points or not total > 0:
            raise InputError(f"auto: no method could forecast {seen.run}; give siblings or a schedule")
        used = tuple((name, w / total) for name, w, _ in sorted(points, key=lambda item: -item[1]))
        final = math.exp(sum(w * math.log(p.final) for _, w, p in points) / total)
        step = future_steps(seen)
        paths = np.array([np.log(np.interp(step, p.step, p.loss)) for _, _, p in points])
        weights = np.array([w for _, w, _ in points])
        notes = {p.note: None for _, w, p in points if p.note and w > 0.05 * total}
        return Point(final, step, np.exp(weights @ paths / total), used, "; ".join(notes))

    def _points(
        self, fitted: Sequence[tuple[Forecaster, float]], seen: Curve
    ) -> list[tuple[str, float, Point]]:
        points = []
        for method, w in fitted:
            try:
                point = method.predict(seen) if len(seen.step) >= method.least_seen else None
            except (InputError, np.linalg.LinAlgError):
                continue
            if point is not None and _sound(point):
                points.append((method.name, w, point))
        return points

    def _own(self, seen: Curve) -> list[tuple[Forecaster, float]]:
        """Weigh the methods that need no sibling on earlier cuts of the run."""
        weighed = []
        for method in self._eligible(self.siblings):
            if "siblings" in method.needs or ("schedule" in method.needs and seen.plan() is None):
                continue
            errors = own_errors(method, seen, self.siblings)
            if len(errors) >= 2:
                weighed.append((method.fit(self.siblings, self.share), weight(errors)))
        if not weighed and len(self.siblings) == 1:
            return [(MeanFall().fit(self.siblings, self.share), 1.0)]
        return weighed or [(LastValue(), 1.0)]

    def _left_out(self, method: Forecaster, siblings: Sequence[Curve], share: float) -> tuple[float, ...]:
        if method.needs:
            return tuple(sibling_errors(method, siblings, share))
        found: list[float] = []
        for s in siblings:
            key = (method.name, s.run, s.last, len(s.step), float(s.loss[0] + s.loss[-1]), share)
            if key not in self.known:
                self.known[key] = tuple(sibling_errors(method, [s], share))
            found += self.known[key]
        return tuple(found)

    def _eligible(self, siblings: Sequence[Curve]) -> list[Forecaster]:
        laws = len(siblings) < 2 or not one_schedule(siblings)
        return [c for c in self.candidates if laws or "schedule" not in c.needs]


def _sound(point: Point) -> bool:
    positive = len(point.step) > 0 and np.all(np.isfinite(point.loss) & (point.loss > 0))
    return bool(positive and point.final > 0 and math.isfinite(point.final))


def weight(errors: Sequence[float], power: float = POWER) -> float:
    """Return rms(errors)^-power.

    >>> round(weight([0.1, -0.1]), 6), round(weight([0.2, 0.2]), 6)
    (10000.0, 625.0)
    """
    return max(math.sqrt(sum(e * e for e in errors) / len(errors)), _EXACT) ** -power


def one_schedule(siblings: Sequence[Curve]) -> bool:
    """Return whether all runs follow one learning-rate schedule, or none is known of any."""
    first = siblings[0].plan()
    if first is None or any(s.horizon != siblings[0].horizon for s in siblings):
        return first is None and all(s.plan() is None for s in siblings)
    return all(
        (plan := s.plan()) is not None and not first.mismatch(plan.step, plan.rate) for s in siblings[1:]
    )
