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
_WINDOW_SHARE = 0.05
_SURE = 2.33

BROKEN = ("not finite", "diverging")
KINDS = (*BROKEN, "rate ended", "plateau", "spikes")


@dataclass(frozen=True, slots=True)
class Symptom:
    """Something wrong with a run: its kind (one of `KINDS`), the step it began at, the ground, the remedy."""

    kind: str
    step: int
    ground: str
    remedy: str

    @property
    def grave(self) -> bool:
        """Whether going on as before is senseless; spikes alone ask for a look."""
        return self.kind != "spikes"

    def __str__(self) -> str:
        """Return kind, ground and remedy as one line."""
        return f"{self.kind}: {self.ground}; {self.remedy}"


def health(
    metrics: pd.DataFrame, *, column: str = "loss", horizon: float | None = None, anneals: bool = False
) -> list[Symptom]:
    """Return what is wrong with one run by its log, gravest first; empty where nothing is.

    - not finite: the last logged loss is NaN or infinite.
    - diverging: the median of the last 5% of the losses is above the lowest such median by over 5% and by six
      of its standard errors, and within a tenth (of the log rise) of the highest since: not recovering.
    - rate ended: the logged learning rate is below 1e-3 of its peak in the last 5% of the steps (or, with a
      `horizon` ahead, in the last three logged ones).
    - plateau: over the last half of the steps the loss falls by less than .5% per doubling of steps, with 99%
      confidence from 20 medians of consecutive losses. Not said where the rate is to fall yet (`anneals`).
    - spikes: three or more excursions above the running median by 10% and ten robust spreads, in the last
      half.

    Fewer than 40 losses show only what is not finite and a rate that ended.

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
    rows = metrics[["step", column, *(["learning_rate"] if "learning_rate" in metrics else [])]]
    rows = rows[np.isfinite(rows["step"].astype(float))].sort_values("step", kind="stable")
    found = [_not_finite(rows, column), _rate_ended(rows, horizon)]
    loss = rows[column].astype(float)
    usable = rows[np.isfinite(loss) & (loss > 0)].groupby("step", as_index=False)[column].mean()
    if len(usable) >= _LEAST:
        step, log = usable["step"].to_numpy(float), np.log(usable[column].to_numpy(float))
        diverging = _diverging(step, log)
        found.insert(1, diverging)
        if not anneals and diverging is None:
            found.append(_plateau(step, log))
        found.append(_spikes(step, log))
    return sorted((s for s in found if s is not None), key=lambda s: KINDS.index(s.kind))


def _not_finite(rows: pd.DataFrame, column: str) -> Symptom | None:
    loss = rows[column].astype(float).to_numpy()
    if "learning_rate" in rows:  # a row of evaluation alone has no training loss: no fault
        logged = np.isfinite(loss) | rows["learning_rate"].notna().to_numpy() | np.isinf(loss)
        rows, loss = rows[logged], loss[logged]
    bad = ~np.isfinite(loss)
    if not len(loss) or not bad[-1] or not np.isfinite(loss).any():
        return None
    first = int(np.flatnonzero(~bad)[-1]) + 1
    at, count = int(rows["step"].iloc[first]), len(loss) - first
    ground = f"the last {count} logged losses, from step {at} on, are not finite"
    return Symptom("not finite", at, ground, f"go back to a checkpoint before step {at}")


def _diverging(step: np.ndarray, log: np.ndarray) -> Symptom | None:
    window = max(7, int(_WINDOW_SHARE * len(log)))
    level = pd.Series(log).rolling(window).median().to_numpy()[window - 1 :]
    low = int(np.argmin(level))
    now, top = level[-1], level[low:].max()
    error = 1.2533 * _noise(log) / math.sqrt(window) * _memory(log)
    rise = now - level[low]
    if rise <= max(DIVERGED, SPREADS * error) or top - now > 0.1 * rise:
        return None
    at = int(step[low + window - 1])
    was, is_now = math.exp(level[low]), math.exp(now)
    ground = f"the loss rose from {was:.3g} at step {at} to {is_now:.3g} at step {int(step[-1])}"
    return Symptom("diverging", at, ground, f"go back to a checkpoint before step {at}, with a lower rate")


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


def _memory(log: np.ndarray) -> float:
    """Return by how much correlated noise widens a window's error: sqrt((1 + r) / (1 - r)), r >= 0."""
    off = log - pd.Series(log).rolling(51, center=True, min_periods=1).mean().to_numpy()
    r = float(np.corrcoef(off[1:], off[:-1])[0, 1]) if float(np.std(off)) > 0 else 0.0
    r = min(max(r, 0.0), 0.95)
    return math.sqrt((1 + r) / (1 - r))
