"""Learning-rate schedules: what was planned, what was logged, and whether both agree."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from toposcope.core.errors import InputError
from toposcope.logs.meanings import chosen

_AGREE_WITHIN = 0.05
"""A planned schedule may differ from the logged one by at most this share of the peak rate."""

_JUMP = 0.1
"""A change of more than this share of the peak between two logged steps counts as a jump."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A learning rate over steps: linear between knots, constant outside them.

    `step` ascends and `rate` is >= 0; both float64 of shape (n,).
    """

    step: np.ndarray
    rate: np.ndarray

    @property
    def end(self) -> int:
        """The last step of the schedule."""
        return int(self.step[-1])

    @property
    def peak(self) -> float:
        """The highest rate."""
        return float(self.rate.max())

    def at(self, step: np.ndarray) -> np.ndarray:
        """Return the rate at each step."""
        return np.interp(step, self.step, self.rate)

    def area(self, step: np.ndarray) -> np.ndarray:
        """Return the sum of rates from the first knot to each step, exact for straight lines."""
        pieces = np.diff(self.step) * (self.rate[1:] + self.rate[:-1]) / 2
        at_knots = np.concatenate([[0.0], np.cumsum(pieces)])
        query = np.asarray(step, dtype=float)
        index = np.clip(np.searchsorted(self.step, query, side="right") - 1, 0, len(self.step) - 1)
        return at_knots[index] + (query - self.step[index]) * (self.rate[index] + self.at(query)) / 2

    def mismatch(self, step: np.ndarray, logged: np.ndarray) -> str:
        """Return why the log contradicts this schedule, or an empty string if it does not.

        Up to 2% of the steps may disagree, because a logged step may lie on the wrong side of a jump.
        """
        finite = np.isfinite(logged)
        if not finite.any() or self.peak <= 0:
            return ""
        gap = np.abs(self.at(step[finite]) - logged[finite]) / max(self.peak, float(logged[finite].max()))
        wrong = gap > _AGREE_WITHIN
        if np.mean(wrong) <= 0.02:
            return ""
        at = step[finite][np.argmax(wrong)]
        off = f"by up to {gap.max():.0%} of the peak, first at step {int(at):,}"
        return f"the schedule differs from the logged learning rate {off}"


def schedule_from_log(step: np.ndarray, rate: np.ndarray) -> Schedule | None:
    """Return the schedule that a log shows; None without rates.

    Steps before the first logged one count as a linear warm-up from 0. A change of more than a tenth of the
    peak between two logged steps counts as a jump halfway between them: a straight line would give the steps
    after a drop a rate that they never had.
    """
    finite = np.isfinite(rate)
    if finite.sum() < 2:
        return None
    step_, rate_ = step[finite].astype(float), rate[finite].astype(float)
    jump = np.flatnonzero(np.abs(np.diff(rate_)) > _JUMP * rate_.max())
    middle = (step_[jump] + step_[jump + 1]) / 2
    wide = step_[jump + 1] - step_[jump] > 2
    jump, middle = jump[wide], middle[wide]
    at = np.repeat(jump + 1, 2)
    new_steps = np.stack([middle - 0.5, middle + 0.5], axis=1).ravel()
    new_rates = np.stack([rate_[jump], rate_[jump + 1]], axis=1).ravel()
    step_, rate_ = np.insert(step_, at, new_steps), np.insert(rate_, at, new_rates)
    if step_[0] > 0:
        step_, rate_ = np.concatenate([[0.0], step_]), np.concatenate([[0.0], rate_])
    return Schedule(step_, rate_)


def constant(*, peak: float, steps: int, warmup: int = 0) -> Schedule:
    """Return linear warm-up to `peak`, constant until `steps`."""
    return _after_warmup(np.array([warmup, steps], dtype=float), np.array([peak, peak]), warmup)


def cosine(*, peak: float, last: float, steps: int, warmup: int = 0, knots: int = 200) -> Schedule:
    """Return linear warm-up to `peak`, then half a cosine down to `last` at `steps`.

    >>> plan = cosine(peak=3e-3, last=1e-5, steps=5000, warmup=200)
    >>> float(plan.at(200)), round(float(plan.at(5000)), 7)
    (0.003, 1e-05)
    """
    after = np.linspace(warmup, steps, knots)
    rate = last + (peak - last) * 0.5 * (1 + np.cos(np.pi * (after - warmup) / (steps - warmup)))
    return _after_warmup(after, rate, warmup)


def stable_decay(
    *, peak: float, last: float, decay_from: int, steps: int, warmup: int = 0, exponential: bool = True
) -> Schedule:
    """Return warm-up, `peak` until `decay_from`, then an exponential or linear decay to `last`."""
    tail = np.linspace(decay_from, steps, 100)
    share = (tail - decay_from) / (steps - decay_from)
    rate = peak * (last / peak) ** share if exponential else peak + (last - peak) * share
    return _after_warmup(np.append(float(warmup), tail), np.append(peak, rate), warmup)


def drop(*, peak: float, last: float, at: int, steps: int, warmup: int = 0) -> Schedule:
    """Return warm-up, a constant `peak` before step `at`, and `last` from there on."""
    step = np.array([warmup, at - 1, at, steps], dtype=float)
    return _after_warmup(step, np.array([peak, peak, last, last]), warmup)


def _after_warmup(step: np.ndarray, rate: np.ndarray, warmup: int) -> Schedule:
    if warmup > 0:
        step, rate = np.concatenate([[0.0], step]), np.concatenate([[0.0], rate])
    return Schedule(step, rate)


def read_schedule(path: Path) -> Schedule:
    """Read a planned schedule: CSV with columns step and lr, or JSON with the same two lists or records.

    The rate is linear between two rows; before the first row it rises from 0 at step 0.

    Raises
    ------
    InputError
        When the file is missing, has no such columns, fewer than two knots, steps that do not ascend, or a
        negative or non-finite rate.
    """
    if not path.is_file():
        raise InputError(
            "no such file", argument="schedule", value=path, remedy="give a CSV with columns step,lr"
        )
    try:
        table = pd.DataFrame(json.loads(path.read_text())) if path.suffix == ".json" else pd.read_csv(path)
    except (ValueError, UnicodeDecodeError) as error:
        raise InputError(
            f"not readable as {path.suffix or 'CSV'} ({error})",
            argument="schedule",
            value=path,
            remedy="give a CSV with columns step,lr",
        ) from None
    names = {column: role for role, column in chosen(list(table.columns)).items()}
    table = table.rename(columns={c: "lr" if role == "learning_rate" else role for c, role in names.items()})
    if not {"step", "lr"} <= set(table.columns):
        raise InputError(
            f"columns are {list(table.columns)}", argument="schedule", value=path,
            remedy="it needs step and lr",
        )  # fmt: skip
    step, rate = (pd.to_numeric(table[c], errors="coerce").to_numpy(float) for c in ("step", "lr"))
    if len(step) < 2 or not np.all(np.diff(step) > 0):
        raise InputError(
            "steps must ascend without repeats, at least two of them",
            argument="schedule",
            value=path,
            remedy="correct the file",
        )
    if not np.all(np.isfinite(rate)) or np.any(rate < 0):
        raise InputError(
            "every lr must be a finite number >= 0", argument="schedule", value=path,
            remedy="correct the file",
        )  # fmt: skip
    if step[0] < 0 or rate.max() <= 0:
        raise InputError(
            f"steps start at {step[0]:g}, highest lr {rate.max():g}",
            argument="schedule",
            value=path,
            remedy="give steps from 0 on and a rate above 0",
        )
    return _after_warmup(step, rate, int(step[0]))
