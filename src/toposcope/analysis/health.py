"""Whether a run is in a state to be forecast: what its loss log shows before any curve is fitted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

DIVERGED = 0.05
"""Log loss by which the recent losses must exceed the lowest that the run had reached."""
SPREADS = 6.0
"""Standard errors of a window's level by which they must exceed it as well."""
FLAT = 0.005
"""Share of the loss per doubling of steps: a run that surely falls by less is on a plateau."""
ENDED = 1e-3
"""Share of its peak below which a learning rate has ended."""
SPIKES = 3
"""Spikes within the last half of the log that make a finding."""
_SPIKE = 0.1
_LEAST = 40
_SHARES = (0.05, 0.01)
"""Windows at the end of a log that are held against the lowest level: a slow climb, a sudden jump."""
_WINDOW_SHARE = _SHARES[0]
_FEW, _FEW_WINDOW, _FEW_DIVERGED = 6, 3, 0.3
"""Fewest losses to judge; of fewer than 40 the window, and the log loss by which they must rise: by 35%."""
_HABIT = 3
"""Gaps in a log from which on rows without a loss are its habit."""
_REGAINED, _LATE = (0.1, 0.5), 0.1
"""Share of a rise that a recovering run has won back: at first, and a tenth of the log after the top."""
_SURE = 2.33

BROKEN = ("not finite", "diverging")
GAP = "not finite for a while"
KINDS = (*BROKEN, "rate ended", "plateau", GAP, "spikes")


@dataclass(frozen=True, slots=True)
class Symptom:
    """Something wrong with a run: its kind (one of `KINDS`), the step it began at, the ground, the remedy."""

    kind: str
    step: int
    ground: str
    remedy: str

    @property
    def grave(self) -> bool:
        """Whether going on as before is senseless; what recovered by itself asks for a look."""
        return self.kind not in (GAP, "spikes")

    def __str__(self) -> str:
        """Return kind, ground and remedy as one line."""
        return f"{self.kind}: {self.ground}; {self.remedy}"


def health(
    metrics: pd.DataFrame, *, column: str = "loss", horizon: float | None = None, anneals: bool = False
) -> list[Symptom]:
    """Return what is wrong with one run by its log, gravest first; empty where nothing is.

    - not finite: the last logged loss is NaN or infinite. A row that has a held-out loss and neither rate nor
      gradient norm logs no training; rows that lack a loss by habit (rates logged apart) are none either.
    - diverging: the median of the last 5% or 1% of the losses (7 at least) is above the lowest median of 5%
      by over 5% and by six of its standard errors, and no more than a tenth of the rise (half of it, where
      the highest is more than a tenth of the log ago) was won back since: not recovering.
    - rate ended: the logged learning rate is below 1e-3 of its peak in the last 5% of the steps (or, with a
      `horizon` ahead, in the last three logged ones).
    - plateau: over the last half of the steps the loss falls by less than .5% per doubling of steps, with 99%
      confidence from 20 medians of consecutive losses. Not said where the rate is to fall yet (`anneals`).
    - not finite for a while: losses amid the log are NaN or infinite, and finite again after them.
    - spikes: three or more excursions above the running median by 10% and ten robust spreads, in the last
      half.

    Fewer than 40 losses show only what is not finite, a rate that ended, and, from six on, that the median of
    the last three is above the lowest such median by over 35% and by six of its standard errors.

    Parameters
    ----------
    metrics : columns `step`, `column` and, where known, `learning_rate`; one run.
    horizon : the step at which the run is to end.
    anneals : whether its planned learning rate is still to fall.

    Examples
    --------
    >>> step = np.arange(1, 401)
    >>> loss = 1.6 + 3 / np.sqrt(step) + np.where(step > 300, (step - 300) * 0.03, 0.0)
    >>> [symptom.kind for symptom in health(pd.DataFrame({"step": step, "loss": loss}))]
    ['diverging']
    """
    rows = metrics[np.isfinite(metrics["step"].astype(float))].sort_values("step", kind="stable")
    found = [*_not_finite(rows, column), _rate_ended(rows, horizon)]
    loss = rows[column].astype(float)
    usable = rows[np.isfinite(loss) & (loss > 0)].groupby("step", as_index=False)[column].mean()
    step, log = usable["step"].to_numpy(float), np.log(usable[column].to_numpy(float))
    diverging = _diverging(step, log)
    found.append(diverging)
    if len(usable) >= _LEAST:
        if not anneals and diverging is None:
            found.append(_plateau(step, log))
        found.append(_spikes(step, log))
    return sorted((s for s in found if s is not None), key=lambda s: KINDS.index(s.kind))


def trained(rows: pd.DataFrame, column: str = "loss") -> np.ndarray:
    """Return which rows log training, bool of shape (n,): not those of a held-out loss alone."""

    def known(*names: str) -> np.ndarray:
        return rows.reindex(columns=list(names)).notna().any(axis=1).to_numpy()

    other = "heldout_loss" if column == "loss" else "loss"
    beside = ("learning_rate", "grad_norm") if column == "loss" else ()
    return known(column, *beside) | ~known(other)


def _not_finite(rows: pd.DataFrame, column: str) -> list[Symptom]:
    """Return what is said of losses that are not finite: at the end of the log, and amid it."""
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
        ground = f"the last {count} logged losses, from step {at} on, are not finite"
        if count == 1:
            ground = f"the last logged loss, at step {at}, is not finite"
        found.append(Symptom("not finite", at, ground, f"go back to a checkpoint before step {at}"))
    if 0 < len(lengths) < _HABIT:
        at, until = int(step[first[amid][0]]), int(step[stop[amid][-1] - 1])
        where = f"losses from step {at} to {until} are" if until > at else f"loss at step {at} is"
        ground = f"{lengths.sum()} logged {where} not finite"
        found.append(Symptom(GAP, at, ground, "look at the data and the gradient norm there"))
    return found


def _diverging(step: np.ndarray, log: np.ndarray) -> Symptom | None:
    if len(log) < _FEW:
        return None
    few = len(log) < _LEAST
    least, floor = (_FEW_WINDOW, _FEW_DIVERGED) if few else (7, DIVERGED)
    window = max(least, int(_WINDOW_SHARE * len(log)))
    level = _levels(log, window)
    low = int(np.argmin(level))
    error = 0.0
    for share in _SHARES:
        width = max(least, int(share * len(log)))
        error = max(error, _level_error(log, width, few=few))
        recent = _levels(log[low:], width)
        now, top = recent[-1], int(np.argmax(recent))
        rise = now - level[low]
        late = len(recent) - top > _LATE * len(log)
        regained = (recent[top] - now) / (recent[top] - level[low]) if rise > 0 else 1.0
        if rise > max(floor, SPREADS * error) and regained <= _REGAINED[late]:
            break
    else:
        return None
    well = np.flatnonzero(recent <= level[low] + 0.1 * rise)  # the middle of the last window that was
    at = int(step[low + width // 2 + (int(well[-1]) if len(well) else 0)])
    was, is_now = math.exp(level[low]), math.exp(now)
    ground = f"the loss rose from {was:.3g} at step {at} to {is_now:.3g} at step {int(step[-1])}"
    return Symptom("diverging", at, ground, f"go back to a checkpoint before step {at}, with a lower rate")


def _levels(log: np.ndarray, window: int) -> np.ndarray:
    """Return the median of every `window` consecutive values, shape (n - window + 1,)."""
    levels: np.ndarray = pd.Series(log).rolling(window).median().to_numpy()[window - 1 :]
    return levels


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
    ground = f"the learning rate is {rate[-1]:.3g} since step {at}, of a peak of {rate.max():.3g}"
    return Symptom("rate ended", at, ground, "nothing more is learnt; give it a new schedule or stop")


def _plateau(step: np.ndarray, log: np.ndarray) -> Symptom | None:
    late = step > step[-1] / 2
    if late.sum() < _LEAST:
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
    ground = f"since step {at} the loss falls by {-slope:.2%} +- {_SURE * error:.2%} per doubling of steps"
    return Symptom("plateau", at, ground, "lower the learning rate, or stop")


def _spikes(step: np.ndarray, log: np.ndarray) -> Symptom | None:
    middle = pd.Series(log).rolling(51, center=True, min_periods=26).median().to_numpy()
    above = log - middle > max(_SPIKE, 10 * _noise(log))
    above &= step > step[-1] / 2
    starts = np.flatnonzero(above & ~np.r_[False, above[:-1]])
    starts = starts[np.r_[True, np.diff(starts) > 10]] if len(starts) else starts
    if len(starts) < SPIKES:
        return None
    at = int(step[starts[0]])
    ground = (
        f"{len(starts)} spikes since step {at}, the highest {math.exp((log - middle)[above].max()):.2g} x"
    )
    return Symptom("spikes", at, ground, "look at the data and the gradient norm there, or lower the rate")


def _noise(log: np.ndarray) -> float:
    """Return the robust standard deviation of a log loss about its neighbours' mean."""
    bend = log[1:-1] - (log[:-2] + log[2:]) / 2
    return 1.4826 * float(np.median(np.abs(bend - np.median(bend)))) / math.sqrt(1.5)


def _level_error(log: np.ndarray, window: int, *, few: bool) -> float:
    """Return the standard error of a window's median: by its values' noise, or by the noise of such medians.

    Medians of windows side by side scatter by what neighbours have in common, too; of `few` values there are
    too few of them.
    """
    error = 1.2533 * _noise(log) / math.sqrt(window)
    return error if few else max(error, _noise(_levels(log, window)[::-window]))
