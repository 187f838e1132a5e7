"""Which runs have ended, and where the others will end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from toposcope.core.forms import chance, near
from toposcope.core.wording import option
from toposcope.forecasting.base import Forecast
from toposcope.logs.curve import Curve
from toposcope.logs.schedule import Schedule


def split_runs(
    own: Sequence[Curve], others: Sequence[Curve] = (), *, all_finished: bool = False
) -> tuple[list[Curve], list[Curve]]:
    """Return finished and unfinished runs; an unfinished one without a known end gets that of a sibling.

    A run without a plan is unfinished if it is shorter than the longest finished run. If its log and those of
    its siblings have learning rates, it gets the end of a sibling whose rate it followed (up to a factor); if
    there is none, or if these have different ends, its curve is `endless`. Without learning rates it gets the
    end of the longest sibling. A note names the sibling; runs of other groups are not used (`with_groups`).
    With `all_finished`, a run without a plan ended where its log does.
    """
    everyone = [*own, *others]
    if len(everyone) > 1:
        from toposcope.forecasting.kin import with_groups

        everyone = with_groups(everyone)
    own, others = everyone[: len(own)], everyone[len(own) :]
    finished = [curve for curve in others if curve.finished]
    unfinished: list[Curve] = []
    for curve in own:
        unplanned = curve.schedule is None and curve.horizon == curve.last
        kin = [c for c in everyone if c is not curve and c.akin(curve)]
        complete = [c for c in kin if c.finished]
        longest = max((c.horizon for c in kin), default=0)
        if (
            not all_finished
            and unplanned
            and curve.last < 0.98 * longest
            and any(c.horizon == longest for c in complete)
        ):
            curve = _with_end(curve, [c for c in complete if c.horizon > curve.last])
        (finished if curve.finished else unfinished).append(curve)
    return finished, unfinished


def _with_end(curve: Curve, longer: Sequence[Curve]) -> Curve:
    """Return the curve with the end of the sibling that it follows, or the reason why no end is known."""
    planned = [(c, plan) for c in longer if (plan := c.plan()) is not None]
    why = "no learning rates can be compared, and it is the longest finished run"
    alike = sorted(longer, key=lambda c: -c.horizon)[:1]
    if planned and np.isfinite(curve.rate).any():
        why = "both have had the same learning rate so far"
        alike = [c for c, plan in planned if _follows(curve, plan)]
        ends = sorted({c.horizon for c in alike})
        unknown = "follows no sibling's"
        if ends and ends[-1] > 1.02 * ends[0]:
            unknown = f"is that of siblings that end at steps {ends[0]:,} and {ends[-1]:,}"
        if not ends or ends[-1] > 1.02 * ends[0]:
            reason = (
                f"end unknown: its learning rate {unknown}; give {option('horizon')} or "
                f"{option('schedule')}, or {option('finished')} if it ended where its log does"
            )
            return replace(curve, endless=reason)
    lender = max(alike, key=lambda c: c.horizon)
    note = f"end assumed at step {lender.horizon:,}, as for {lender.run}: {why}"
    return replace(curve, horizon=lender.horizon, notes=(*curve.notes, note))


def _follows(curve: Curve, plan: Schedule) -> bool:
    """Return whether the logged rate has the plan's shape: sizes may differ in their peak rate."""
    finite = np.isfinite(curve.rate)
    step, rate = curve.step[finite], curve.rate[finite]
    reached = float(plan.at(step).max())
    if reached <= 0 or rate.max() <= 0:
        return bool(reached <= 0 and rate.max() <= 0)
    return not Schedule(plan.step, plan.rate * (rate.max() / reached)).mismatch(step, rate)


def where_it_ends(forecast: Forecast) -> str:
    """Return where a forecast says that a run ends, and how sure it is."""
    if forecast.status == "failed" or forecast.not_yet:
        return f"cannot be forecast{' yet' * bool(forecast.not_yet)}: {forecast.not_yet or forecast.reason}"
    final, low, high = near(forecast.final, forecast.low, forecast.high)
    if forecast.status == "unhealthy":
        within = f" ({low} to {high})" if forecast.bounded else ""
        return f"would end near {final} without this problem{within}"
    if not forecast.bounded:
        return f"may end near {final} (no interval)"
    if forecast.status == "no plan":
        sure = f"right in {forecast.coverage}" if forecast.measured else "coverage not measured"
        between = f"may end between {low} and {high} without a plan of the learning rate"
        return f"{between} (near {final} if the rate stays as it is; {sure})"
    if not forecast.measured:
        return f"may end near {final} ({low} to {high}; coverage not measured)"
    return f"should end near {final} ({chance(forecast.level)}: {low} to {high})"
