"""The reward of a policy falls back for good, or no longer varies.

The constants were set on simulated runs (`benchmarks.policy_rates`, draws below 900). The public PPO run
(docs/check.md) was in view.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from toposcope.logs.objective import Companion, Direction, companions
from toposcope.rules.companion import CompanionRule, Limits, level_before, records, unlimited
from toposcope.rules.rule import LOOK, NOTICED, JudgedRun

_LEVEL = 10
"""A level of the reward is the median of ten records."""
_BEST_GAP = 10
_SPREADS = 6.0
"""A fall must exceed six robust standard deviations of a record about the median of its neighbours."""
_LOST = 0.5
"""It must also exceed half of what the reward had gained over its first level."""
_VARIES = 0.05
"""A spread is gone if it is below a twentieth of what it was 20 to 40 records before."""
_WINDOW = 20
_EARLIER = 200


class RewardCollapse(CompanionRule):
    """The last five rewards are all far below the best level: by half of the gain, and by six spreads."""

    name = "reward collapse"
    directions = (Direction.REWARD, Direction.MARGIN)
    reads = ("loss", "reward")
    says = "reward (COLUMN) fell from A to B since about step N"
    next = "go back to a checkpoint before it, with a lower rate or a larger KL coefficient"

    def limits(self, values: np.ndarray) -> Limits:
        """Return the best level so far, less half of the gain or six spreads."""
        rewards = pd.Series(values)
        level = rewards.rolling(_LEVEL).median()
        best = level.cummax().shift(_BEST_GAP)
        first = level.bfill().iloc[0] if len(values) >= _LEVEL else np.nan
        around = (rewards - rewards.rolling(5, min_periods=3).median()).abs()
        falls = -level.diff(_LEVEL).clip(upper=0)
        spread = np.maximum(1.4826 * _habit(around, 0.5), _habit(falls, 0.9))
        fall = np.maximum(_LOST * (best - first), _SPREADS * spread)
        below = (best - fall).where(fall > 0)
        return Limits(below.to_numpy(float), unlimited(values))


def _habit(sizes: pd.Series, quantile: float) -> pd.Series:
    """Return at each record a quantile of earlier sizes."""
    return sizes.rolling(_EARLIER, min_periods=_WINDOW).quantile(quantile).shift(_BEST_GAP)


class RewardWithoutSpread(CompanionRule):
    """The spread of the rewards is below a twentieth of the median of the 20 that end 20 records before.

    It is the logged spread, or the highest less the lowest reward of a batch, or else the range of the last
    ten rewards. A reward that is constant at its best level is only noticed: the task is solved.
    """

    name = "reward without spread"
    directions = (Direction.REWARD, Direction.SPREAD)
    reads = ("loss", "reward", "reward_std")
    says = "reward spread (COLUMN) fell from A to B since about step N"
    next = "equal rewards teach nothing; look at the answers and at what rewards them"

    def limits(self, values: np.ndarray) -> Limits:
        """Return a twentieth of the spread before."""
        return Limits(_VARIES * level_before(values, 0.5, window=_WINDOW), unlimited(values))

    def judged(self, run: JudgedRun) -> list[Companion]:
        """Return the logged spread, or else the reward."""
        columns = super().judged(run)
        return [column for column in columns if column.direction is Direction.SPREAD] or columns

    def series(self, run: JudgedRun, column: Companion) -> tuple[np.ndarray, np.ndarray]:
        """Return the spread of the rewards: logged, within a batch, or over ten records."""
        step, values = records(run, column)
        if column.direction is Direction.SPREAD:
            return step, values
        between = _between(run, column.name)
        if between is not None:
            return between
        spread = pd.Series(values).rolling(_LEVEL)
        enough = np.arange(len(values)) >= _LEVEL - 1
        return step[enough], np.asarray(spread.max() - spread.min(), float)[enough]

    def level_of(self, run: JudgedRun, step: float) -> str:
        """Return that a solved task needs no action."""
        for column in companions(run.rows, run.column):
            if column.direction is Direction.REWARD:
                _, reward = records(run, column)
                levels = pd.Series(reward).rolling(_LEVEL).median()
                constant = np.ptp(reward[-_LEVEL:]) <= _VARIES * np.ptp(reward)
                if len(reward) >= _LEVEL and constant and levels.iloc[-1] >= levels.max():
                    return NOTICED
        return LOOK


def _between(run: JudgedRun, name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return step and spread from the highest and the lowest reward of each batch, if both are logged."""
    low, high = name.replace("mean", "min"), name.replace("mean", "max")
    if low == name or low not in run.rows or high not in run.rows:
        return None
    spread = pd.to_numeric(run.rows[high], errors="coerce") - pd.to_numeric(run.rows[low], errors="coerce")
    finite = np.isfinite(spread.to_numpy(float))
    return run.rows["step"].to_numpy(float)[finite], spread.to_numpy(float)[finite]
