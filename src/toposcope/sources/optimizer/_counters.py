"""Do the counters of a training agree: updates, schedule and data held against the checkpoint's step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toposcope.files.training_state.nouns import TrainingState
from toposcope.sources.optimizer.resumption import DISAGREES, NOT_READ, NOT_STORED, THERE, Facet

AGREES, CONTRADICTS, UNSURE = "agrees", "contradicts", "unsure"

_NEAR = 0.01
"""A counter that should have a value may differ from it by 1, or by one part in a hundred: trainers count
before or after the update, and leave out updates whose gradient was not finite."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A counter at a checkpoint and at an earlier one (None: not known), and the steps of both."""

    now: float
    step: int
    before: float | None = None
    step_before: int | None = None
    epoch: float | None = None


def agreement(one: Counted) -> str:
    """Return whether a counter agrees with the step.

    It agrees if it equals the step, or has grown since the earlier checkpoint by as many, or at the same rate
    per step as up to there: trainers count batches, updates of several optimisers, or epochs. Without an
    earlier checkpoint it contradicts only by being 0.

    >>> agreement(Counted(40, 40)), agreement(Counted(0, 40)), agreement(Counted(20, 40, 30, 30))
    ('agrees', 'contradicts', 'contradicts')
    >>> agreement(Counted(36, 40, 16, 20))
    'agrees'
    >>> agreement(Counted(10, 40, 5, 20)), agreement(Counted(10, 40)), agreement(Counted(33, 40))
    ('agrees', 'agrees', 'unsure')
    """
    if abs(one.now - one.step) <= 1:
        return AGREES
    if one.before is not None and one.step_before and one.before > 0 and one.step > one.step_before:
        expected = one.before * one.step / one.step_before
        if abs(one.now - expected) <= max(1.0, _NEAR * expected):
            return AGREES
        # updates that were left out before, whose gradient was not finite
        since = one.step - one.step_before
        if abs(one.now - one.before - since) <= max(1.0, _NEAR * since):
            return AGREES
        # a schedule that counts epochs grows by jumps
        by_epoch = one.epoch is not None and abs(one.now - one.epoch) <= 1 and one.now >= one.before
        return AGREES if by_epoch and abs(one.before - one.step_before) > 1 else CONTRADICTS
    if one.epoch is not None and abs(one.now - one.epoch) <= 1:
        return AGREES
    if one.now <= 0:
        return CONTRADICTS
    ratio = max(one.now, one.step) / max(min(one.now, one.step), 1)
    return AGREES if abs(ratio - round(ratio)) <= _NEAR * ratio else UNSURE


def step_facets(
    updates: float | None, before: float | None, state: TrainingState, step: int, step_before: int | None
) -> list[Facet]:
    """Return whether the count of updates agrees with the checkpoint's step."""
    if state.step is not None and state.step != step and abs(state.step - step) > 1:
        why = f"the trainer's state says step {state.step:,}"
        return [Facet("step", DISAGREES, why, "step-of-state")]
    if updates is None:
        return [Facet("step", THERE if state.step is not None else NOT_STORED)]
    relation = agreement(Counted(updates, step, before, step_before))
    if relation == AGREES or (step == 0 and updates == 0):
        return [Facet("step", THERE)]
    why = f"the optimiser counts {updates:,.0f} updates"
    if before is not None and step_before is not None:
        why += f", and counted {before:,.0f} at step {step_before:,}"
    if relation == UNSURE:
        return [Facet("step", DISAGREES, why, unsure=True)]
    return [Facet("step", DISAGREES, why, "updates-of-optimizer")]


def schedule_facets(
    state: TrainingState, before: TrainingState | None, step: int, step_before: int | None
) -> list[Facet]:
    """Return whether the schedule agrees with the checkpoint's step."""
    if not state.schedules:
        if before is not None and before.schedules:
            why = f"the schedule of the rate is missing, which step {step_before:,} has"
            return [Facet("schedule", "missing", why, "schedule-missing")]
        return [Facet("schedule", NOT_STORED)]
    facets = []
    for place, schedule in enumerate(state.schedules):
        past = before.schedules[place] if before is not None and place < len(before.schedules) else None
        if schedule.updates is None:
            facets.append(Facet("schedule", NOT_READ))
            continue
        was = past.updates if past is not None else None
        relation = agreement(Counted(schedule.updates, step, was, step_before, state.epoch))
        if relation == AGREES or step <= 1:
            facets.append(Facet("schedule", THERE))
            continue
        why = f"the schedule of the rate counts {schedule.updates:,.0f} updates"
        why += f", and counted {was:,.0f} at step {step_before:,}" if was is not None else ""
        fault = "schedule-of-another-step" if relation == CONTRADICTS else ""
        facets.append(Facet("schedule", DISAGREES, why, fault, unsure=not fault))
    return facets


def rng_facet(state: TrainingState, before: TrainingState | None) -> Facet:
    """Return whether the states of random generators are there: their values are never read."""
    if state.rng:
        return Facet("RNG", THERE)
    return Facet("RNG", "missing" if before is not None and before.rng else NOT_STORED)


def data_facet(
    state: TrainingState, before: TrainingState | None, step: int, step_before: int | None
) -> Facet:
    """Return whether the position in the data agrees: a sum never falls, nor is it 0 after a step."""
    if not state.data:
        return Facet("data position", NOT_STORED)
    counts = {name: count for name, count in state.data.items() if count is not None}
    past: Mapping[str, float] = {} if before is None else {
        name: count for name, count in before.data.items() if count is not None
    }  # fmt: skip
    if not counts:
        return Facet("data position", NOT_READ)
    for name, count in counts.items():
        if name.startswith(("total", "epoch")) and step > 1:
            fell = name in past and count < past[name]
            if count == 0 or fell:
                was = f", and was {past[name]:g} at step {step_before:,}" if name in past else ""
                why = f"the position in the data is {name} {count:g}{was}: it was begun anew"
                return Facet("data position", DISAGREES, why, "data-begun-anew")
    if step > 1 and not any(counts.values()) and any(past.values()):
        why = f"the position in the data is at its start; at step {step_before:,} it was not"
        return Facet("data position", DISAGREES, why, "data-begun-anew")
    return Facet("data position", THERE)
