"""How a run's false-alarm rate is divided among the monitored series and the tests of each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from toposcope.core.errors import InputError


def level(rate: float, look: int) -> float:
    """Return the level of the `look`-th test (1, 2, ...) of a series of unknown length.

    Tests 2^j to 2^(j+1) - 1 share rate / ((j + 1)(j + 2)) evenly. The sum over all tests is `rate` however
    long the run lasts, so its length need not be planned.

    >>> level(0.05, 1)
    0.025
    >>> round(sum(level(0.05, look) for look in range(1, 2**17)), 4)
    0.0472
    """
    if look < 1:
        raise InputError(f"look is {look}; looks are counted from 1")
    octave = look.bit_length() - 1
    return rate / ((octave + 1) * (octave + 2) * 2**octave)


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
