"""A run that is lost although its losses are finite: a loss of exactly 0, a loss that stands, no gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from toposcope.logs.remarks import DEAD
from toposcope.logs.run import nan_column, wanted_rows, written_nan
from toposcope.rules.rises import FEWEST, SOLVED
from toposcope.rules.rule import LOOK, STOP, JudgedRun, Remark, Rule

if TYPE_CHECKING:
    import pandas as pd

STANDS = 10
"""This many equal losses at the end, or of exactly 0, are no chance."""
SURE = 3
"""With a gradient norm that is NaN as well, this many are enough."""
DIGITS = 4
"""Losses of fewer digits repeat by rounding."""
DROP = 1 / 3
"""A loss that is lower by this share from one row to the next did not learn that."""
_MOVES = 10
"""Before it stood, the loss moved by more than this many units of its last digit: it did not settle."""
_STAIRS = 0.1
"""If more than this share of the earlier losses repeat the one before, the log repeats values."""


class DeadRun(Rule):
    """From some step to the end the loss is exactly 0, or stands, or no gradient is finite.

    The loss is exactly 0 in the last ten rows (three if the gradient norm is NaN there), and before that was
    above a twentieth of its first level and above ten units of its last digit (0.000 after 0.003 may be
    rounded); or the last ten losses are equal to four digits, although the ten
    before them moved; or the gradient norm is NaN in the last ten rows (three if the loss dropped by a third
    at once there, or is 0 or stands). It is silent about a policy's loss with finite gradients, about
    infinite gradient norms, which a loss scaler makes, and about logs that repeat values.
    """

    name = DEAD
    reads = ("loss", "grad_norm")
    level = STOP
    of_trend = False
    rate = "0 of 1,135 healthy runs of parameter_golf and of 37 others (benchmarks.check_rates)"
    next = "go back to a checkpoint before that step"
    says = "the loss is exactly 0 since step N, and the gradient norm NaN: the weights are lost"

    def judge(self, run: JudgedRun) -> Sequence[Remark]:
        """Look at the end of the log."""
        rows = wanted_rows(run.rows, run.training)
        loss = rows[run.column].to_numpy(float, na_value=np.nan) if run.column in rows else np.empty(0)
        if len(loss) and not (finite := np.isfinite(loss)).all():
            rows, loss = rows[finite], loss[finite]
        if len(loss) < 2 * FEWEST:
            return []
        step, lost = rows["step"].to_numpy(float), _without_gradient(rows)
        for dead_stretch in (_zero(loss, lost, policy=run.policy), _stands(loss, lost, policy=run.policy)):
            if dead_stretch is not None:
                place, sentence = dead_stretch
                return [_remark(float(step[place]), sentence, bool(lost[place:].all()))]
        return _no_gradient(step, loss, lost, policy=run.policy)


def _without_gradient(rows: pd.DataFrame) -> np.ndarray:
    """Return in which rows the gradient norm is NaN to the end, though it was in every row before."""
    lost = np.zeros(len(rows), bool)
    if "grad_norm" not in rows:
        return lost
    norm = rows["grad_norm"].to_numpy(float, na_value=np.nan)
    known_places = np.flatnonzero(~np.isnan(norm))
    if nan_column("grad_norm") in rows:
        written = written_nan(rows, "grad_norm")
        since = int(known_places[-1]) + 1 if len(known_places) else len(rows)
        # after the last finite norm, every row that logs one must have written NaN
        lost[since:] = bool(len(known_places) >= FEWEST and written[since:].all())
        return lost
    # where some earlier rows have none either, a norm that is NaN cannot be told from one that is not logged
    if len(known_places) >= FEWEST and len(known_places) == known_places[-1] + 1:
        lost[known_places[-1] + 1 :] = True
    return lost


def _zero(loss: np.ndarray, lost: np.ndarray, *, policy: bool) -> tuple[int, str] | None:
    """Return where a loss became exactly 0 for good, though its task was not solved, and the words."""
    above = np.flatnonzero(loss != 0)
    if not len(above) or above[-1] == len(loss) - 1:
        return None
    first = int(above[-1]) + 1
    no_gradient = bool(lost[first:].all())
    if len(loss) - first < (SURE if no_gradient else STANDS) or (policy and not no_gradient):
        return None
    begin, before = abs(float(np.median(loss[:3]))), abs(float(np.median(loss[max(0, first - 3) : first])))
    rounded = before <= _MOVES * _unit(loss[max(0, first - STANDS) : first])
    if before < SOLVED * begin or (rounded and not no_gradient):
        return None
    return first, f"the loss is exactly 0, after {loss[first - 1]:.4g}"


def _unit(loss: np.ndarray) -> float:
    """Return one unit of the last digit to which some losses are written."""
    texts = (np.format_float_positional(value, trim="-") for value in loss)
    return float(10.0 ** -max(len(text.partition(".")[2]) for text in texts))


def _stands(loss: np.ndarray, lost: np.ndarray, *, policy: bool) -> tuple[int, str] | None:
    """Return where a loss began to stand at a value of at least four digits, though it had moved."""
    other = np.flatnonzero(loss != loss[-1])
    if not len(other) or loss[-1] == 0 or policy:
        return None
    first = int(other[-1]) + 1
    wanted = SURE if lost[first:].all() else STANDS
    text = np.format_float_positional(loss[-1], trim="-")
    digits = len(text.replace(".", "").strip("-").lstrip("0"))
    if len(loss) - first < wanted or digits < DIGITS or first < FEWEST:
        return None
    before = np.diff(loss[max(0, first - STANDS) : first])
    if np.mean(np.diff(loss[:first]) == 0) > _STAIRS:
        return None
    least = _MOVES * _unit(loss[-1:])
    if np.median(np.abs(before)) <= least or abs(loss[first - 1] - loss[-1]) <= least:
        return None
    return first, f"the last {len(loss) - first:,} losses are all {loss[-1]:.6g}"


def _no_gradient(step: np.ndarray, loss: np.ndarray, lost: np.ndarray, *, policy: bool) -> list[Remark]:
    """Return a remark if the gradient norm is NaN to the end."""
    if not lost[-1]:
        return []
    first = int(np.flatnonzero(~lost)[-1]) + 1
    dropped = not policy and first > 0 and loss[first] < (1 - DROP) * loss[first - 1]
    if len(loss) - first < (SURE if dropped else STANDS):
        return []
    if dropped:
        sentence = f"the loss fell from {loss[first - 1]:.4g} to {loss[first]:.4g} at once"
        return [_remark(float(step[first]), sentence, True)]
    sentence = f"the gradient norm is NaN since step {int(step[first]):,}, to the end"
    remedy = f"go back to a checkpoint before step {int(step[first]):,}"
    if not policy and _still_falls(loss[first:]):
        remedy = "see whether only the norm is wrong, or the weights too"
        return [Remark(LOOK, DEAD, float(step[first]), f"{sentence}, though the loss still falls", remedy)]
    return [Remark(STOP, DEAD, float(step[first]), f"{sentence}: no update can be made", remedy)]


def _still_falls(loss: np.ndarray) -> bool:
    """Return whether the later half of some losses lies below the earlier one by three standard errors."""
    early, late = np.array_split(loss, 2)
    error = np.hypot(early.std() / np.sqrt(len(early)), late.std() / np.sqrt(len(late)))
    return bool(early.mean() - late.mean() > 3 * error)


def _remark(step: float, sentence: str, no_gradient: bool) -> Remark:
    also = ", and the gradient norm NaN" if no_gradient else ""
    sentence = f"since step {int(step):,} {sentence}{also}: the weights are lost"
    return Remark(STOP, DEAD, step, sentence, f"go back to a checkpoint before step {int(step):,}")
