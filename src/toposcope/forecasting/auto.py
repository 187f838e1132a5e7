"""The default forecast: log forecasts averaged by how well each method forecast the finished siblings.

`REACH` was chosen on draws 300 to 314 of `benchmarks.forecast_families`, and the form of the shrinkage
(`DOUBT`) on these and on 400 to 419. Of 320 families of draws 300 to 319 and 400 to 419, 12 have an error
above 1.1 times that of the last value; with other powers (1 to 6) or values of `DOUBT` (0 to 9) it was 10 to
24. The results on draws 700 to 735 are in docs/forecasting-evidence.md, "The average compared with the former
rule".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from toposcope.core.errors import InputError
from toposcope.forecasting.backtests import own_errors, sibling_errors
from toposcope.forecasting.base import Forecaster, Point, future_steps
from toposcope.forecasting.families import LastValue, Pow3, Pow4, SmoothedPow3
from toposcope.forecasting.plain_law import PlainLaw, anneals, with_width
from toposcope.logs.curve import Curve, level_and_slope

POWER = 4.0
"""A method's weight is the root mean square of its left-out log errors, to the power -POWER."""

_EXACT = 1e-5
"""Smaller log errors count as this one, which limits the weight of a method."""

REACH = 1.0
"""How far the average may lie outside the siblings' falls, in units of their span."""

DOUBT = 3.0
"""The forecast fall is multiplied by 1 - DOUBT / k x (least rms of a candidate / rms fall)^2, k siblings."""

_NOTED = 0.9
"""A note reports the shrinkage of a fall if less than this share of it remains."""
_HELD_BACK = (
    "on the siblings no method was much better than their current loss, or their losses fell differently"
)


def default_candidates() -> tuple[Forecaster, ...]:
    """Return what `Auto` averages: transfers from siblings, laws of the rate, the run's own curve."""
    # a run alone, without a plan, needs none of these
    from toposcope.forecasting import laws
    from toposcope.forecasting import siblings as kin

    transfers = (kin.SiblingTransfer(), kin.ShrunkTransfer(), kin.MeanFall(), kin.SizeTransfer())
    plain_laws = (PlainLaw(), Pow3(), SmoothedPow3(), Pow4(), LastValue())
    return (*transfers, kin.PathTransfer(), laws.MultiPower(), laws.Tissue(), *plain_laws)


@dataclass(frozen=True, slots=True)
class Falls:
    """How the siblings' log losses changed from the cut to the end, and how far an average may deviate."""

    least: float
    most: float
    trusted: float

    @classmethod
    def of(cls, siblings: Sequence[Curve], share: float, best: float) -> Self:
        """Read the siblings' falls; `best` is the largest weight among the candidates.

        `trusted` = 1 - DOUBT / k (rms error of the best candidate / rms fall)^2, at least 0: James-Stein
        shrinkage towards a constant loss.
        """
        cuts = [(s, s.seen(share * s.horizon)) for s in siblings]
        falls = [
            math.log(s.final_loss()) - level_and_slope(cut.step, cut.loss)[0]
            for s, cut in cuts
            if len(cut.step)
        ]
        if not falls or not best > 0:
            return cls(-math.inf, math.inf, 1.0)
        span = max(falls) - min(falls)
        ratio = (weight(falls) / best) ** (2 / POWER)
        trusted = max(0.0, 1.0 - DOUBT / len(falls) * ratio)
        return cls(min(falls) - REACH * span, max(falls) + REACH * span, trusted)

    def shrinkage(self, fall: float) -> float:
        """Return the share of a forecast change in log loss that is kept."""
        return self.trusted * min(max(fall, self.least), self.most) / fall if fall != 0.0 else 1.0


@dataclass(frozen=True, slots=True)
class Auto(Forecaster):
    """Average of the candidates' log forecasts with weights rms^-4 of their left-out log errors.

    Each candidate forecasts every sibling from the others at the same share of training; a candidate that
    fails on any of them has no weight. The forecast fall is limited to the siblings' falls from the same
    share on, plus or minus their span. It is shrunk if no candidate was much more accurate on the siblings
    than their current losses (`Falls`). With one sibling, the errors come from earlier cuts of the run
    itself. Laws of the learning rate are used only if the siblings' schedules differ or there are no
    siblings: with one shared schedule, a regression on siblings needs no law.

    A run without siblings is forecast by the multi-power law if its rate is planned to fall, else by the
    plain law; its interval comes from the plain law. With too few losses for that, the forecast is the last
    value, without an interval.
    """

    label: str = "auto"
    chosen: tuple[Forecaster, ...] | None = None
    """What is averaged instead of `default_candidates`."""
    siblings: Sequence[Curve] = ()
    share: float = 0.0
    falls: Falls | None = None
    fitted: tuple[tuple[Forecaster, float], ...] = ()
    known: dict[tuple[object, ...], tuple[float, ...]] = field(default_factory=dict, repr=False)
    """Errors of methods that use no siblings, cached for when other siblings are left out."""
    least_seen: ClassVar[int] = 3

    @property
    def name(self) -> str:
        """The method's name in tables."""
        return self.label

    @property
    def candidates(self) -> tuple[Forecaster, ...]:
        """The methods that are averaged."""
        return default_candidates() if self.chosen is None else self.chosen

    @classmethod
    def without_laws(cls) -> Self:
        """Return the average of methods that need no schedule: seconds instead of minutes."""
        quick = tuple(c for c in default_candidates() if "schedule" not in c.needs)
        return cls("auto, without laws of the learning rate", quick)

    def fit(self, siblings: Sequence[Curve], share: float) -> Self:
        """Weight the candidates on the siblings and fit those with a weight."""
        fresh = replace(self, siblings=tuple(siblings), share=share, fitted=(), falls=None)
        if len(siblings) < 2:
            return fresh
        shared = one_schedule(siblings)
        errors = [(c, self._left_out(c, siblings, share)) for c in self._eligible(siblings)]
        candidates = [(c, weight(e)) for c, e in errors if len(e) == len(siblings)]
        fitted = tuple((c.fit(siblings, share), w) for c, w in candidates)
        best = max((w for _, w in candidates), default=0.0)
        return replace(fresh, fitted=fitted, falls=Falls.of(siblings, share, best) if shared else None)

    def predict(self, seen: Curve) -> Point:
        """Average the forecasts; a run without siblings is forecast by one law."""
        if not self.siblings and (law := _law_of(seen)) is not None:
            return self._alone(seen, law)
        if not self.siblings and not _planned(seen):  # too few losses for any law
            return replace(_averaged(self._points([(LastValue(), 1.0)], seen), seen), half=math.nan)
        points = self._points(self.fitted or self._own(seen), seen)
        point = _averaged(points, seen)
        point = with_width(point, seen)  # for fewer than three siblings
        if self.falls is None or not self.fitted:
            return point
        now = level_and_slope(seen.step, seen.loss)[0]
        shrinkage = self.falls.shrinkage(math.log(point.final) - now)
        final = math.exp(now + shrinkage * (math.log(point.final) - now))
        path = now + shrinkage * (np.log(point.loss) - now)
        held = (
            f"only {shrinkage:.0%} of the fall that the methods forecast is used: {_HELD_BACK}"
            if shrinkage < _NOTED
            else ""
        )
        note = "; ".join(part for part in (point.note, held) if part)
        return replace(point, final=final, loss=np.exp(path), note=note)

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
        """Weight the methods that need no siblings on earlier cuts of the run."""
        weighed = []
        for method in self._eligible(self.siblings):
            if "siblings" in method.needs or ("schedule" in method.needs and not _planned(seen)):
                continue
            errors = own_errors(method, seen, self.siblings)
            if len(errors) >= 2:
                weighed.append((method.fit(self.siblings, self.share), weight(errors)))
        if not weighed and len(self.siblings) == 1:
            from toposcope.forecasting.siblings import MeanFall

            return [(MeanFall().fit(self.siblings, self.share), 1.0)]
        return weighed or [(LastValue(), 1.0)]

    def _alone(self, seen: Curve, law: Point) -> Point:
        """Forecast by the law of the rate if the rate is planned to fall, else by the plain law.

        If the rate is planned to stay constant, both are averaged.
        """
        points = [(PlainLaw.name, 1.0, law)]
        if _planned(seen):
            from toposcope.forecasting.laws import MultiPower

            rate = [m for m in self.candidates if isinstance(m, MultiPower)]
            by_rate = self._points([(m.fit((), self.share), 1.0) for m in rate], seen)
            points = by_rate if by_rate and anneals(seen) else [*points, *by_rate]
        return with_width(_averaged(points, seen), seen)

    def _left_out(self, method: Forecaster, siblings: Sequence[Curve], share: float) -> tuple[float, ...]:
        if method.needs:
            return tuple(sibling_errors(method, siblings, share))
        errors: list[float] = []
        for s in siblings:
            key = (method.name, s.run, s.last, len(s.step), float(s.loss[0] + s.loss[-1]), share)
            if key not in self.known:
                self.known[key] = tuple(sibling_errors(method, [s], share))
            errors += self.known[key]
        return tuple(errors)

    def _eligible(self, siblings: Sequence[Curve]) -> list[Forecaster]:
        laws = len(siblings) < 2 or not one_schedule(siblings)
        return [c for c in self.candidates if laws or "schedule" not in c.needs]


def _averaged(points: Sequence[tuple[str, float, Point]], seen: Curve) -> Point:
    """Return the average of log forecasts, final and along the curve; `points` are name, weight, forecast."""
    total = sum(w for _, w, _ in points)
    if not points or not total > 0:
        raise InputError(f"auto: no method could forecast {seen.run}; give siblings or a schedule")
    used = tuple((name, w / total) for name, w, _ in sorted(points, key=lambda item: -item[1]))
    final = math.exp(sum(w * math.log(p.final) for _, w, p in points) / total)
    step = future_steps(seen)
    paths = np.array([np.log(np.interp(step, p.step, p.loss)) for _, _, p in points])
    path = np.array([w for _, w, _ in points]) @ paths / total
    notes = {p.note: None for _, w, p in points if p.note and w > 0.05 * total}
    return Point(final, step, np.exp(path), used, "; ".join(notes))


def _law_of(seen: Curve) -> Point | None:
    """Return the plain law's forecast; None if there are too few losses for it."""
    try:
        return PlainLaw().predict(seen) if len(seen.step) >= PlainLaw.least_seen else None
    except InputError:
        return None


def _planned(seen: Curve) -> bool:
    """Return whether the rate is known to the end; a log alone shows it only up to the log's end."""
    plan = seen.plan()
    return plan is not None and plan.end >= 0.999 * seen.horizon


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
    """Return whether all runs follow one learning-rate schedule, or no schedule is known."""
    first = siblings[0].plan()
    if first is None or any(s.horizon != siblings[0].horizon for s in siblings):
        return first is None and all(s.plan() is None for s in siblings)
    return all(
        (plan := s.plan()) is not None and not first.mismatch(plan.step, plan.rate) for s in siblings[1:]
    )
