"""The plan that a run's files state: where it ends, its learning rate, and whether its log agrees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from toposcope.files import PLANNED_RATE
from toposcope.logs.plan_beside import BESIDE, PLAN_FROM, PLAN_UNUSED
from toposcope.logs.schedule import Schedule, cosine


@dataclass(frozen=True, slots=True)
class StatedPlan:
    """The plan that a run's files state: its end, its learning rate, and notes on both."""

    end: int | None = None
    schedule: Schedule | None = None
    notes: tuple[str, ...] = ()


def stated_plan(config: Mapping[str, object], rows: pd.DataFrame) -> StatedPlan:
    """Return the plan that a run's files state, where its log does not contradict it.

    A rate of the stated shape counts at the height that the log has: a trainer may log a share of it.
    """
    file = config.get(PLAN_FROM)
    end, stated = planned_end(config, rows), recipe_steps(config)
    notes = [str(config[PLAN_UNUSED])] if PLAN_UNUSED in config else []
    if file is None:
        return StatedPlan(end, None, tuple(notes))
    if end is None:
        last = int(rows["step"].max())
        why = f"{file} {BESIDE} plans {stated:,} steps, but the log goes on to step {last:,}: not used"
        return StatedPlan(None, None, (why,))
    notes.append(f"planned by {file} {BESIDE}")
    rate = config.get(PLANNED_RATE)
    schedule = _schedule_of(rate) if isinstance(rate, Mapping) else None
    if schedule is None or "learning_rate" not in rows or not rows["learning_rate"].notna().any():
        return StatedPlan(end, schedule, tuple(notes))
    planned_rows = rows[rows["learning_rate"].notna()].sort_values("step")
    step, logged = planned_rows["step"].to_numpy(float), planned_rows["learning_rate"].to_numpy(float)
    reached = float(schedule.at(step).max())
    scaled = Schedule(schedule.step, schedule.rate * (logged.max() / reached)) if reached > 0 else schedule
    if why := scaled.mismatch(step, logged):
        return StatedPlan(None, None, (f"the plan of {file} {BESIDE} is not used: {why}",))
    return StatedPlan(end, scaled, tuple(notes))


def _schedule_of(rate: Mapping[str, object]) -> Schedule | None:
    """Return the schedule that a planned rate states; None where it is none."""
    try:
        peak, last, warmup, steps = (float(rate[name]) for name in ("peak", "last", "warmup", "steps"))  # type: ignore[arg-type]
        end = float(rate.get("decay", steps))  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError):
        return None
    if not (peak > 0 and 0 <= warmup < end <= steps):
        return None
    if rate.get("kind") == "cosine":
        planned = cosine(peak=peak, last=last, steps=int(end), warmup=int(warmup))
    else:
        knots = np.array([warmup, end])
        planned = Schedule(knots, np.array([peak, last]))
        if warmup > 0:
            planned = Schedule(np.r_[0.0, planned.step], np.r_[0.0, planned.rate])
    return (
        planned
        if end == steps
        else Schedule(np.r_[planned.step, steps], np.r_[planned.rate, planned.rate[-1]])
    )


def recipe_schedule(config: Mapping[str, object]) -> Schedule | None:
    """Return the planned cosine of a toposcope training recipe; None where the config is another's."""
    names = ("steps", "learning_rate", "final_learning_rate", "warmup_steps")
    values = [config.get(name) for name in names]
    if not all(isinstance(value, int | float) for value in values):
        return None
    steps, peak, last, warmup = (float(value) for value in values)  # type: ignore[arg-type]
    if steps <= warmup or peak <= 0:
        return None
    return cosine(peak=peak, last=last, steps=int(steps), warmup=int(warmup))


def planned_end(config: Mapping[str, object], rows: pd.DataFrame) -> int | None:
    """Return the planned steps; nothing if the log goes beyond them, since then the plan is another run's."""
    steps = recipe_steps(config)
    return steps if steps is None or steps >= float(rows["step"].max()) else None


def recipe_steps(config: Mapping[str, object]) -> int | None:
    """Return the steps that a recipe, a trainer's state or a config under their usual names plans."""
    for name in ("steps", "planned_steps", "max_steps", "max_iters"):
        steps = config.get(name)
        if isinstance(steps, int | float) and steps > 0:
            return int(steps)
    return None
