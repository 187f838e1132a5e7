"""A learning rate that has ended while the run goes on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toposcope.core.forms import step_text
from toposcope.logs.remarks import RATE_ENDED
from toposcope.logs.run import wanted_rows
from toposcope.rules.rises import SHARES
from toposcope.rules.rule import HEALTH_RATE, LOOK, STOP, JudgedRun, Remark, Rule

ENDED = 1e-3
"""A learning rate below this share of its peak has ended."""

_FEW_UNITS = 3
"""A rounded decay shows at least three rates; a rate that is cut to 0 may show one."""
_FEW_ROWS = 3
"""A decay to 0 may log its last rate twice: at the last step, and in a closing evaluation."""


class RateEnded(Rule):
    """The learning rate is below 1e-3 of its peak in the last 5% of the steps, or in the last three rows.

    The last three logged steps count where the run is known to go on. The peak is a rate that two rows reach.
    Rates that are written with too few digits to tell 1e-3 of the peak from 0 are not judged. In a run that
    is not known to go on, a rate of exactly 0 in more than the last 5% of the rows calls for a look: these
    rows trained nothing.
    """

    name = RATE_ENDED
    reads = ("learning_rate",)
    level = STOP
    of_trend = False
    rate = HEALTH_RATE
    next = "give the run a new schedule, or stop: it learns nothing more"
    says = "the learning rate has been 0 since step N; its peak was P"

    def judge(self, run: JudgedRun) -> Sequence[Remark]:
        """Compare the last rates with their peak."""
        if "learning_rate" not in run.rows:
            return []
        logged = wanted_rows(run.rows, run.rows["learning_rate"].notna().to_numpy())
        rate, step = logged["learning_rate"].to_numpy(float), logged["step"].to_numpy(float)
        if len(rate) < 4 or _rounded(rate):
            return []
        # the second highest: the first row of a log may still have the rate of another run
        peak = float(np.partition(rate, -2)[-2])
        if not peak > 0 or rate[-1] > ENDED * peak:
            return []
        first = int(np.flatnonzero(rate > ENDED * peak)[-1]) + 1
        at, last = float(step[first]), float(step[-1])  # epochs are fractions
        ahead = run.horizon is not None and run.horizon > 1.02 * last
        if run.horizon is not None and not ahead:
            return _idle(rate, step, peak)
        if len(rate) - first < 3 if ahead else last - at < SHARES[0] * last:
            return []
        sentence = (
            f"the learning rate has been {rate[-1]:.3g} since step {int(at):,}; its peak was {peak:.3g}"
        )
        remedy = "the run learns nothing more; give it a new schedule or stop"
        return [Remark(STOP, RATE_ENDED, int(at), sentence, remedy)]


def _idle(rate: np.ndarray, step: np.ndarray, peak: float) -> list[Remark]:
    """Return a remark on a rate that is exactly 0 in more than 5% of the rows at the end of a log."""
    first = int(np.flatnonzero(rate)[-1]) + 1
    falling = rate[np.flatnonzero(rate >= peak)[-1] :]
    count = len(rate) - first
    if rate[-1] != 0 or count <= SHARES[0] * len(rate) or count < _FEW_ROWS or _decays_in_units(falling):
        return []
    sentence = (
        f"the learning rate has been 0 since step {step_text(step[first])}, in the last {count:,} rows; "
        f"its peak was {peak:.3g}"
    )
    return [Remark(LOOK, RATE_ENDED, float(step[first]), sentence, "plan the rate to the end of the run")]


def _rounded(rate: np.ndarray) -> bool:
    """Return whether rates are a few units of their last written digit, so that a 0 may be rounded.

    >>> _rounded(np.array([4e-8, 3e-8, 2e-8, 1e-8, 0.0])), _rounded(np.array([4e-4, 4e-4, 4e-4, 0.0]))
    (True, False)
    """
    units = _units(rate)
    return len(units) >= _FEW_UNITS and _steady(units)


def _decays_in_units(rate: np.ndarray) -> bool:
    """Return whether a rate that falls to 0 passes the last units of its last digit, as a rounded decay does.

    >>> _decays_in_units(np.array([1e-3, 0.0])), _decays_in_units(np.array([3e-4, 0.0]))
    (True, False)
    """
    units = _units(rate)
    return len(units) > 0 and _steady(np.r_[0.0, units])


def _units(rate: np.ndarray) -> np.ndarray:
    """Return the rates above 0 in units of their last digit; empty for too many digits, or an end above 0."""
    if rate[-1] != 0 or not len(values := np.unique(rate[rate > 0])):
        return np.empty(0)
    unit = 10.0 ** np.floor(np.log10(values[0]) + 1e-9)
    units = values / unit
    few = units[-1] * ENDED < 1 and np.allclose(units, np.round(units), atol=1e-6)
    return units if few else np.empty(0)


def _steady(units: np.ndarray) -> bool:
    """Return whether numbers of units follow one another without large gaps, as in a rounded decay."""
    return bool(np.diff(units).max() <= max(1.5, units[-1] / _FEW_UNITS))
