"""The share of the machine that a watch may use while a training runs."""

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
            raise InputError(
                "not a share of one core", argument="cpu_share", value=self.cpu_share,
                remedy="give one above 0, at most 1",
            )  # fmt: skip
        if self.bytes_per_step is not None and self.bytes_per_step < 1:
            raise InputError("it must be at least 1", argument="bytes_per_step", value=self.bytes_per_step)

    def pause(self, used: float, spent: float, every: float) -> float:
        """Return how long to sleep after `used` seconds of CPU in `spent` seconds of time.

        >>> Budget(cpu_share=0.1).pause(2.0, 3.0, every=5.0)
        17.0
        """
        return max(every, used / self.cpu_share - spent)
