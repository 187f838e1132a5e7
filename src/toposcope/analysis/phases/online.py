"""An online detector of slope changes on log(step), for runs that are still going."""

from __future__ import annotations

import numpy as np

from toposcope.analysis.phases.partition import LEAST_SEGMENT, best_split, increments
from toposcope.analysis.phases.whitening import FALSE_ALARMS, signs, split_gains, whiten

DRAWS = 1000


class OnlineDetector:
    """Watches one growing series for a change of its slope on log(step), with false alarms at 5% per run.

    After each checkpoint the best single split of everything since the last alarm is compared with the same
    in 1,000 series whose innovations had their signs flipped (`phases.whitening`). The rate is
    spent evenly over the planned checkpoints: after a share f of them, f x 5% of the flipped series have
    raised an alarm, and the series does when it exceeds those that raise theirs now. After the planned number
    of checkpoints nothing is left to spend and no alarm is raised.

    Parameters
    ----------
    planned_steps
        The steps at which the run will be measured.

    Examples
    --------
    >>> steps = np.arange(100, 6100, 100)
    >>> noise = np.random.default_rng(0).standard_normal(60).cumsum() * 0.01
    >>> values = np.where(steps < 1500, 0.0, 3.0 * np.log(steps / 1500)) + noise
    >>> detector = OnlineDetector(steps)
    >>> alarms = [alarm for step, v in zip(steps, values) if (alarm := detector.update(step, v)) is not None]
    >>> bool(alarms) and abs(alarms[0] - 1500) <= 200
    True
    """

    start_after = 10
    """Increments before the first decision: fewer do not determine the noise."""

    def __init__(self, planned_steps: np.ndarray, *, rate: float = FALSE_ALARMS) -> None:
        planned = int(np.sum(np.asarray(planned_steps) > 0)) - 1
        self._looks = max(planned - self.start_after + 1, 1)
        self._rate = rate
        self._flips = signs(DRAWS, max(planned, self.start_after))
        self._quiet = np.ones(DRAWS, bool)
        self._looked = 0
        self._steps: list[float] = []
        self._values: list[float] = []

    def update(self, step: float, value: float) -> float | None:
        """Take one more checkpoint; return the step at which the slope changed if this raises an alarm."""
        if not (step > 0 and np.isfinite(value)) or (self._steps and step <= self._steps[-1]):
            return None
        self._steps.append(float(step))
        self._values.append(float(value))
        inc = increments(np.array(self._steps), np.array(self._values))
        n = len(inc.change)
        if n < self.start_after or n > self._flips.shape[1]:
            return None
        self._looked += 1
        white = whiten(inc)
        if not white.usable:
            return None
        flips = np.ascontiguousarray(self._flips[:, :n])
        draws = split_gains(
            white.innovations, white.phi, white.sigma, inc.clock, np.log(inc.steps), white.floor, flips,
            LEAST_SEGMENT,
        )  # fmt: skip
        gain, split = best_split(white.change, white.clock, LEAST_SEGMENT)
        if not self._spend(draws, gain):
            return None
        at = self._steps[split]
        self._steps, self._values = self._steps[split:], self._values[split:]
        return at

    def _spend(self, draws: np.ndarray, gain: float) -> bool:
        """Let the draws that are due raise their alarm; say whether the series exceeds the least of them."""
        share = min(self._looked / self._looks, 1.0)
        due = int(self._rate * share * DRAWS) - int(np.sum(~self._quiet))
        if due <= 0:
            return False
        left = np.flatnonzero(self._quiet)
        now = left[np.argsort(draws[left], kind="stable")[len(left) - due :]]
        self._quiet[now] = False
        return bool(gain > draws[now].min())
