"""Whether a run can be forecast: the faults that its loss log shows before any curve is fitted.

The rates are in docs/forecasting-evidence.md, "How often the health of a loss curve is right". No constant
was set on the runs and draws of that table (`benchmarks.health_cases`).
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from toposcope.core.wording import option, rendered
from toposcope.logs.symptoms import ACCURACY, BROKEN, GAP, KINDS, Symptom
from toposcope.rules.excursions import outliers, spikes
from toposcope.rules.judged_run import JudgedRun, trained
from toposcope.rules.registry import remarks_on
from toposcope.rules.rises import (
    AGAIN,
    DIVERGING,
    FALLING,
    FEWEST,
    LEAST,
    RESTART,
    SHARES,
    SHIFT,
    WON,
    Rise,
    find,
    scaled,
)  # fmt: skip

__all__ = ["BROKEN", "GAP", "KINDS", "Symptom", "health", "trained"]

FLAT = 0.005
"""A run whose loss surely falls by less than this share per doubling of steps is on a plateau."""
ENDED = 1e-3
"""A learning rate below this share of its peak has ended."""
_WINDOW_SHARE = SHARES[0]
_HABIT = 3
"""With at least this many gaps, rows without a loss count as normal for a log."""
_SURE = 2.33
"""Standard errors of a slope for a one-sided 1% test."""
_NEWEST = 2
"""A rise of at most this many losses is not yet confirmed."""
_BETTER = 0.1
"""An accuracy has risen by at least this share of its range, 0 to 1 or 0 to 100."""


def health(
    metrics: pd.DataFrame,
    *,
    column: str = "loss",
    horizon: float | None = None,
    anneals: bool = False,
    noticed: bool = False,
) -> list[Symptom]:
    """Return what is wrong with one run according to its log, gravest first; empty if nothing is.

    Grave, because it is useless to continue unchanged:

    - not finite: the last logged loss is NaN or infinite. A row with a held-out loss but neither learning
      rate nor gradient norm does not log training; nor do rows that regularly lack a loss (rates are logged
      separately).
    - diverging: the loss is above its lowest level, and keeps rising, or is higher by 25% and by a tenth of
      the run's fall (its first level less its lowest). It is above if the median of the last 5% or 1% of the
      losses (at least 7) exceeds the lowest level by 5% and six of its standard errors; with fewer than 200
      losses, also if the end of a line through the last fifth does; or if each of the last two losses exceeds
      it by 50%, or the last one threefold. A rise of less than 1% of the fall does not count; nor does one of
      less than a tenth of it, if the loss came below a twentieth of it (a solved task). Swings that grow
      threefold, to 10%, over the last half are diverging, too.
    - rate ended: the logged learning rate is below 1e-3 of its peak in the last 5% of the steps (or, with a
      `horizon` ahead, in the last three logged steps).
    - plateau: over the last half of the steps the loss falls by less than .5% per doubling of steps, with 99%
      confidence from 20 medians of consecutive losses. It is not reported if the rate has yet to fall
      (`anneals`), nor for a loss of less than 1% of the run's fall.

    Worth a look:

    - accuracy: the column rises from its start within 0 to 1, or 0 to 100, so it is not a loss.
    - rate raised, falling again, rose before, higher level: rises that are not divergence (`rises.find`), or
      that only the last loss shows, until a second one confirms it.
    - overfitting: the held-out loss rose by 3% since its lowest while the training loss fell.
    - not finite for a while: losses within the log are NaN or infinite, and later ones are finite.
    - spikes: in the last half, three or more excursions of at least two losses above the running median by
      10% and ten robust spreads.

    With `noticed`, outliers are returned as well: single losses that stand out like this and come back. They
    need no action.

    With fewer than 40 losses, only these are found: values that are not finite, a rate that ended, an
    accuracy, overfitting, and, from six losses on, a median of the last three above the lowest such median by
    over 35% and by six of its standard errors.

    Parameters
    ----------
    metrics
        Columns `step`, `column` and, if known, the learning rate and the other loss under any of their names;
        one run.
    column
        The loss.
    horizon
        The step at which the run will end.
    anneals
        Whether its planned learning rate will still fall.
    noticed
        Whether to count outliers, too.

    Examples
    --------
    >>> step = np.arange(1, 401)
    >>> loss = 1.6 + 3 / np.sqrt(step) + np.where(step > 300, (step - 300) * 0.03, 0.0)
    >>> [symptom.kind for symptom in health(pd.DataFrame({"step": step, "loss": loss}))]
    ['diverging']
    """
    run = JudgedRun.of(metrics, column=column, horizon=horizon, anneals=anneals)
    rows, column, usable = run.rows, run.column, run.losses
    found = [*_not_finite(rows, column)]
    if (better := _accuracy(usable)) is not None:
        return sorted([*found, better], key=lambda one: KINDS.index(one.kind))
    over = next(
        (Symptom(one.kind, int(one.step or 0), one.sentence, one.remedy) for one in remarks_on(run)), None
    )
    rise = None if over is not None and column == "heldout_loss" else _risen(usable)
    found += [one for one in (_rate_ended(rows, horizon), over, rise) if one is not None]
    found += _of_shape(usable, plateaus=not anneals and rise is None, noticed=noticed)
    return sorted(found, key=lambda one: KINDS.index(one.kind))


def _of_shape(usable: pd.DataFrame, *, plateaus: bool, noticed: bool) -> list[Symptom]:
    """Return plateau, spikes and outliers."""
    if len(usable) < FEWEST:
        return []
    step, loss = usable["step"].to_numpy(float), usable["loss"].to_numpy(float)
    scale = scaled(loss)
    enough, unsolved = (
        np.count_nonzero(loss) >= LEAST,
        float(np.median(loss[-LEAST // 2 :])) >= WON * scale.won,
    )
    found = [
        _plateau(step[loss > 0], np.log(loss[loss > 0])) if enough and plateaus and unsolved else None,
        spikes(step, scale) if enough else None,
        outliers(step, scale) if noticed else None,
    ]
    return [one for one in found if one is not None]


def _accuracy(usable: pd.DataFrame) -> Symptom | None:
    """Return a symptom if the column rises from its start within 0 to 1 or, slowing down, within 0 to 100."""
    loss, count = usable["loss"].to_numpy(float), len(usable)
    if count < 2 * FEWEST:
        return None
    parts = np.array([np.mean(part) for part in np.array_split(loss, min(10, count // 3))])
    top = 1.0 if loss.max() <= 1 else 100.0
    risen = parts[-1] - parts[0]
    falls = np.clip(-np.diff(parts), 0, None).sum()
    if loss.max() > top or risen < _BETTER * top or falls > risen / 4 or parts.argmin() > 1:
        return None
    if top > 1 and parts[len(parts) // 2] - parts[0] < 0.6 * risen:
        return None
    step = usable["step"].to_numpy(float)
    ground = (
        f"this looks like an accuracy: it rises from {parts[0]:.3g} to {parts[-1]:.3g}, within 0 to {top:.0f}"
    )
    return Symptom(
        ACCURACY, int(step[0]), ground, rendered(f"give the column of the loss ({option('column')})")
    )


def _risen(usable: pd.DataFrame) -> Symptom | None:
    """Return the symptom for the rise at the end of a log, in words."""
    if len(usable) < FEWEST:
        return None
    rate = usable["rate"].to_numpy(float) if "rate" in usable else None
    rise = find(scaled(usable["loss"].to_numpy(float)), rate)
    return None if rise is None else _said(rise, usable["step"].to_numpy(float), rate)


def _said(rise: Rise, step: np.ndarray, rate: np.ndarray | None) -> Symptom:
    at, last = int(step[rise.start]), int(step[-1])
    went = f"the loss rose from {rise.low:.3g} at step {at:,} to {rise.now:.3g} at step {last:,}"
    back = f"the loss rose from {rise.low:.3g} at step {at:,} to {rise.top:.3g} and is back at {rise.now:.3g}"
    if rise.width:
        went = f"the loss has swung wider and wider since step {at:,}, by {rise.width:.0%} at step {last:,}"
    again = f"look again after {max(1, last - at):,} more steps"
    ground, remedy = {
        DIVERGING: (went, f"go back to a checkpoint before step {at:,}, with a lower rate"),
        RESTART: (f"{went}, after the learning rate went back up{_raised(rate, rise.start)}", again),
        FALLING: (back, f"look at the data there; {again}"),
        AGAIN: (f"{went}; it came back from an earlier rise at least as large", again),
        SHIFT: _shifted(went, again, alone=len(step) - rise.start <= _NEWEST),
    }[rise.kind]
    return Symptom(rise.kind, at, ground, remedy)


def _shifted(went: str, again: str, *, alone: bool) -> tuple[str, str]:
    """Return reason and remedy for a higher level; if only the newest losses show it, to look again."""
    if alone:
        return f"{went}, but so far only in its newest losses", again
    return f"{went} and has stopped rising", "check whether the data or the batch changed there"


def _raised(rate: np.ndarray | None, start: int) -> str:
    """Return the learning rates before and after it was raised, around a rise of the loss."""
    if rate is None:
        return ""
    near = pd.Series(rate).ffill().bfill().to_numpy()[max(0, start - max(3, len(rate) // 20)) :]
    return f" from {near.min():.3g} to {near.max():.3g}"


def _not_finite(rows: pd.DataFrame, column: str) -> list[Symptom]:
    """Return the symptoms for losses that are not finite: at the end of the log, and within it."""
    rows = rows[trained(rows, column)]
    step, bad = rows["step"].to_numpy(float), ~np.isfinite(rows[column].astype(float).to_numpy())
    if bad.all():
        return []
    edges = np.flatnonzero(np.diff(np.r_[False, bad, False]))
    first, stop = edges[::2], edges[1::2]
    amid = (first > 0) & (stop < len(bad))
    lengths = (stop - first)[amid]
    habit = float(np.median(lengths)) if len(lengths) >= _HABIT else 0.0
    found = []
    if bad[-1] and (count := len(bad) - int(first[-1])) > 2 * habit:
        at = int(step[first[-1]])
        ground = f"the last {count:,} logged losses, from step {at:,} on, are not finite"
        if count == 1:
            ground = f"the last logged loss, at step {at:,}, is not finite"
        found.append(Symptom("not finite", at, ground, f"go back to a checkpoint before step {at:,}"))
    if 0 < len(lengths) < _HABIT:
        at, until = int(step[first[amid][0]]), int(step[stop[amid][-1] - 1])
        where = f"losses from step {at:,} to {until:,} are" if until > at else f"loss at step {at:,} is"
        ground = f"{lengths.sum()} logged {where} not finite"
        found.append(Symptom(GAP, at, ground, "look at the data and the gradient norm there"))
    return found


def _rate_ended(rows: pd.DataFrame, horizon: float | None) -> Symptom | None:
    if "learning_rate" not in rows:
        return None
    known = rows.dropna(subset=["learning_rate"])
    rate, step = known["learning_rate"].to_numpy(float), known["step"].to_numpy(float)
    if len(rate) < 4 or not rate.max() > 0 or rate[-1] > ENDED * rate.max():
        return None
    first = int(np.flatnonzero(rate > ENDED * rate.max())[-1]) + 1
    at, last = int(step[first]), float(step[-1])
    ahead = horizon is not None and horizon > 1.02 * last
    if len(rate) - first < 3 if ahead else last - at < _WINDOW_SHARE * last:
        return None
    if horizon is not None and not ahead:
        return None
    ground = f"the learning rate has been {rate[-1]:.3g} since step {at:,}; its peak was {rate.max():.3g}"
    return Symptom("rate ended", at, ground, "the run learns nothing more; give it a new schedule or stop")


def _plateau(step: np.ndarray, log: np.ndarray) -> Symptom | None:
    late = step > step[-1] / 2
    if late.sum() < LEAST:
        return None
    groups = np.array_split(np.arange(int(late.sum())), 20)
    u = np.array([np.log2(step[late][g]).mean() for g in groups])
    v = np.array([np.median(log[late][g]) for g in groups])
    centred = u - u.mean()
    slope = float(centred @ v / (centred @ centred))
    error = math.sqrt(float(np.sum((v - v.mean() - slope * centred) ** 2)) / 18 / float(centred @ centred))
    if -slope + _SURE * error >= FLAT or slope - _SURE * error > FLAT:
        return None
    at = int(step[late][0])
    ground = (
        f"since step {at:,} the loss hardly moves: {slope:+.2%} +- {_SURE * error:.2%} per doubling of steps"
    )
    return Symptom("plateau", at, ground, "lower the learning rate, or stop")
