"""The share of the machine that a watch beside a training may use."""

from __future__ import annotations

from dataclasses import dataclass

from toposcope.core.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The budget of a sidecar: a share of one core, and bytes of weights at each step (None: all)."""

    cpu_share: float = 0.25
    bytes_per_step: int | None = None

    def __post_init__(self) -> None:
        """Refuse an impossible budget."""
        if not 0 < self.cpu_share <= 1:
            raise InputError(f"cpu-share is {self.cpu_share:g}; give a share of one core above 0, at most 1")
        if self.bytes_per_step is not None and self.bytes_per_step < 1:
            raise InputError(f"bytes per step is {self.bytes_per_step}; give at least 1")

    def pause(self, used: float, spent: float, every: float) -> float:
        """Return how long to sleep after `used` seconds of CPU in `spent` seconds of time.

        >>> Budget(cpu_share=0.1).pause(2.0, 3.0, every=5.0)
        17.0
        """
        return max(every, used / self.cpu_share - spent)
