"""How a run's false-alarm rate is spent: divided among the alarms, and by each among its tests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from toposcope.core.errors import InputError

RATE = 0.05
"""Share of healthy runs that may raise an alarm, over all tests and series of a run together."""


def level(rate: float, test: int) -> float:
    """Return the level of the `test`-th test (1, 2, ...) of a series of unknown length.

    Tests 2^j to 2^(j+1) - 1 share the rate of stretch j evenly. The sum over all tests is `rate` however
    long the run lasts, so its length need not be planned.

    >>> level(0.05, 1)
    0.025
    >>> round(sum(level(0.05, test) for test in range(1, 2**17)), 4)
    0.0472
    """
    if test < 1:
        raise InputError(f"test is {test}; tests are counted from 1")
    octave = test.bit_length() - 1
    return rate_of_stretch(rate, octave) / 2**octave


def rate_of_stretch(rate: float, stretch: int) -> float:
    """Return what stretch 0, 1, ... of a series of unknown length spends: rate / ((j + 1)(j + 2)).

    >>> rate_of_stretch(0.06, 0), rate_of_stretch(0.06, 1)
    (0.03, 0.01)
    """
    return rate / ((stretch + 1) * (stretch + 2))


def spent_evenly(rate: float, test: int, tests: int) -> float:
    """Return what is spent after `test` of a known number of tests that share the rate evenly."""
    return rate * test / tests


@dataclass(slots=True)
class Spending:
    """What one alarm of one run may spend of its false-alarm rate, and how many tests it has made.

    `rate` is its share of the run's rate over all tests (0: a fixed rule, which spends nothing), `rest` the
    number of tests for which it stays silent after an alarm, `tests` the number of tests so far. Only the
    methods change it.

    >>> spending = Spending(0.05, rest=20)
    >>> spending.level(), spending.tests
    (0.025, 1)
    """

    rate: float = 0.0
    rest: int = 0
    tests: int = 0
    _silent_until: int = 0

    def level(self, stretch: int | None = None) -> float:
        """Count a test, and return its level.

        A test that adds up what came before, as a cumulative sum does, has no level of its own. It names its
        `stretch` of the series, which may spend the returned rate.
        """
        self.tests += 1
        return level(self.rate, self.tests) if stretch is None else rate_of_stretch(self.rate, stretch)

    def next_level(self) -> float:
        """Return the level of the next test, without counting it; those of later tests are lower."""
        return level(self.rate, self.tests + 1)

    def count(self, tests: int = 1) -> None:
        """Count tests against a fixed limit, or without effect: a rest is counted in tests."""
        self.tests += tests

    def resume(self, tests: int) -> None:
        """Continue after the tests that an earlier process has made."""
        self.tests = tests

    def may_tell(self) -> bool:
        """Return whether an alarm may be raised; if so, start its rest: one fault is one alarm."""
        if self.tests < self._silent_until:
            return False
        self._silent_until = self.tests + self.rest
        return True


@dataclass(frozen=True, slots=True)
class AlarmFamily:
    """The tests that watch one run, and each one's share of the run's rate (Bonferroni).

    >>> family = AlarmFamily(0.05, {"loss spike": 1.0, "drift": 1.0})
    >>> family.rate_of("drift")
    0.025
    """

    rate: float
    shares: Mapping[str, float]

    def __post_init__(self) -> None:
        """Refuse an impossible rate."""
        if not 0 < self.rate < 1 or not math.isfinite(self.rate):
            raise InputError(f"false-alarm rate is {self.rate:g}; give one between 0 and 1, for example 0.05")

    def rate_of(self, test: str) -> float:
        """Return the rate of one test over the whole run."""
        return self.rate * self.shares[test] / sum(self.shares.values())
