"""Laws of simulated loss curves that no forecaster fits.

Each maker draws at random what a family shares and returns law(t, scale, own): the loss at shares t of the
longest run, for a model at `scale` between 0 (the smallest) and 1 (the largest), with its own random numbers.
"""

from __future__ import annotations

import numpy as np


def _relaxations(random: np.random.Generator):  # type: ignore[no-untyped-def]
    times, heights = np.exp(random.uniform(-5, 0.5, 4)), random.uniform(0.3, 1.5, 4)

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        tau = times * np.exp(own.normal(0, 0.1, 4)) * (1 - 0.4 * scale)
        return 2.6 - 0.6 * scale + own.normal(0, 0.02) + np.exp(-t[:, None] / tau) @ heights

    return law


def _sigmoids(random: np.random.Generator):  # type: ignore[no-untyped-def]
    at, width, spread = random.uniform(0.2, 0.9), random.uniform(0.02, 0.1), random.uniform(0, 0.1)

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        moved = at * (1 - 0.3 * scale) + own.normal(0, spread)
        return 2.2 - 0.3 * scale + 1.5 * np.exp(-t / 0.05) + 0.5 / (1 + np.exp((t - moved) / width))

    return law


def _bump(random: np.random.Generator):  # type: ignore[no-untyped-def]
    at, height = random.uniform(0.2, 0.7), random.uniform(0.05, 0.4)

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        top = height * (1 - 0.6 * scale) * np.exp(-(((t - at - 0.1 * scale) / 0.12) ** 2))
        return 2.0 - 0.4 * scale + own.normal(0, 0.02) + 0.8 / np.sqrt(1 + 40 * t) + top

    return law


def _logarithm(random: np.random.Generator):  # type: ignore[no-untyped-def]
    slope, onset = random.uniform(0.1, 0.4), random.uniform(0.001, 0.02)

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        return 4.0 - 0.3 * scale - slope * (1 + 0.4 * scale + own.normal(0, 0.03)) * np.log1p(t / onset)

    return law


def _crossing(random: np.random.Generator):  # type: ignore[no-untyped-def]
    speed, floor = random.uniform(0.5, 2), random.uniform(0.3, 1.0)

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        tau = 0.05 * np.exp(speed * scale + own.normal(0, 0.05))
        return 2.5 - floor * scale + 2.5 * tau / (tau + t)

    return law


def _unrelated(random: np.random.Generator):  # type: ignore[no-untyped-def]
    spread, bend = random.uniform(0.02, 0.2), random.uniform(0.3, 0.8)

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        end = spread * own.normal()
        return 3.0 - 0.3 * scale + np.exp(-t / 0.08) + np.where(t > bend, end * (t - bend) / (1 - bend), 0.0)

    return law


def _knee(random: np.random.Generator):  # type: ignore[no-untyped-def]
    early, late = random.uniform(0.05, 0.15), random.uniform(0.02, 0.3)
    at = np.exp(random.uniform(np.log(0.05), np.log(0.8)))

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        knee, level = at * np.exp(own.normal(0, 0.1)), 3.5 - 0.8 * scale + own.normal(0, 0.02)
        return level * np.where(t < knee, (t / knee) ** -early, (t / knee) ** -late)

    return law


def _stretched(random: np.random.Generator):  # type: ignore[no-untyped-def]
    power, time = random.uniform(0.25, 0.8), random.uniform(0.005, 0.1)

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        tau = time * np.exp(own.normal(0, 0.15)) * (1 + scale)
        return 2.4 - 0.5 * scale + own.normal(0, 0.02) + 2.0 * np.exp(-((t / tau) ** power))

    return law


def _quanta(random: np.random.Generator):  # type: ignore[no-untyped-def]
    count = int(random.integers(4, 15))
    times, heights = np.sort(np.exp(random.uniform(-4, 0.3, count))), random.exponential(1.2 / count, count)

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        at = times * np.exp(-0.8 * scale + own.normal(0, 0.1, count))
        learnt = 1 / (1 + (t[:, None] / at) ** -12)
        return 3.6 - 0.2 * scale - learnt @ heights

    return law


def _ripples(random: np.random.Generator):  # type: ignore[no-untyped-def]
    slope, size, period = random.uniform(0.05, 0.2), random.uniform(0.005, 0.06), random.uniform(0.5, 2.5)

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        wave = size * np.sin(2 * np.pi * np.log(t) / period + own.normal(0, 0.5))
        return (2.6 - 0.5 * scale + own.normal(0, 0.02)) * t**-slope * np.exp(wave)

    return law


def _epochs(random: np.random.Generator):  # type: ignore[no-untyped-def]
    count, drop = int(random.integers(2, 9)), random.uniform(0.01, 0.08)

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        seen = np.floor(np.minimum(t, 0.9999) * count)
        return (
            (3 - 0.5 * scale)
            * (1 + 30 * t) ** -0.12
            * np.exp(-seen * drop * (1 + 0.5 * scale + own.normal(0, 0.1)))
        )

    return law


def _overfit(random: np.random.Generator):  # type: ignore[no-untyped-def]
    turn, rise = random.uniform(0.2, 0.9), random.uniform(0.02, 0.3)

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        late = np.maximum(t - turn * (1 - 0.5 * scale) * np.exp(own.normal(0, 0.1)), 0.0)
        return 2.4 - 0.4 * scale + np.exp(-t / 0.07) + 0.3 / (1 + 20 * t) + rise * late

    return law


def _at_rest(random: np.random.Generator):  # type: ignore[no-untyped-def]
    time, spread = random.uniform(0.01, 0.05), random.uniform(0.0, 0.05)

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        return 2.5 - 0.6 * scale + own.normal(0, spread) + 1.5 * np.exp(-t / time)

    return law


def _drift(random: np.random.Generator):  # type: ignore[no-untyped-def]
    slope, size = random.uniform(0.0, 0.12), random.uniform(0.005, 0.05)

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        steps = own.normal(0, 1, len(t)) * np.sqrt(np.diff(t, prepend=0.0))
        return (3 - 0.5 * scale) * (1 + 50 * t) ** -slope * np.exp(size * np.cumsum(steps))

    return law


def _odd_one(random: np.random.Generator):  # type: ignore[no-untyped-def]
    power, share = random.uniform(0.1, 0.5), random.uniform(0.15, 0.4)

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        odd = own.random() < share
        slow = own.uniform(2, 30) if odd else 1.0
        return 1.8 - 0.4 * scale + own.normal(0, 0.02) + 1.6 * (1 + 60 * t / slow) ** -power + 0.3 * odd

    return law


def _two_phases(random: np.random.Generator):  # type: ignore[no-untyped-def]
    at, gain, sharp = random.uniform(0.1, 0.95), random.uniform(0.02, 0.2), random.uniform(5, 80)

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        second = gain * (0.5 + scale) * np.exp(own.normal(0, 0.2)) / (1 + np.exp(-sharp * (t - at)))
        return (2.8 - 0.5 * scale) * (1 + 40 * t) ** -0.08 * np.exp(-second)

    return law


def _slow_start(random: np.random.Generator):  # type: ignore[no-untyped-def]
    wait, power = random.uniform(0.05, 0.4), random.uniform(0.15, 0.6)

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        began = np.maximum(t - wait * (1 - 0.6 * scale) * np.exp(own.normal(0, 0.15)), 0.0)
        return 2.0 - 0.3 * scale + 2.0 * (1 + 30 * began) ** -power

    return law


LAWS = {
    "relaxations": _relaxations, "sigmoids": _sigmoids, "bump": _bump, "logarithm": _logarithm,
    "crossing": _crossing, "unrelated": _unrelated, "knee": _knee,
    "stretched": _stretched, "quanta": _quanta, "ripples": _ripples, "epochs": _epochs, "overfit": _overfit,
    "at rest": _at_rest, "drift": _drift, "odd one": _odd_one, "two phases": _two_phases,
    "slow start": _slow_start,
}  # fmt: skip

KINDS = ("relaxations", "sigmoids", "bump", "logarithm", "crossing", "unrelated", "knee", "random features")
"""Kinds on which rules were compared and judged while they were made."""

NEW_KINDS = (
    "stretched", "quanta", "ripples", "epochs", "overfit", "at rest", "drift", "odd one", "two phases",
    "slow start",
)  # fmt: skip
"""Kinds written after every rule was settled."""
