"""The faults that a loss log can show: symptoms, their kinds, and how grave each is."""

from __future__ import annotations

from dataclasses import dataclass

BROKEN = ("not finite", "diverging")
GAP = "not finite for a while"
ACCURACY = "accuracy"
OVERFITTING = "overfitting"
OUTLIERS = "outliers"
RISES = ("rate raised", "falling again", "rose before", "higher level")
"""Rises that are not divergence; each calls for a look."""
KINDS = (*BROKEN, ACCURACY, "rate ended", "plateau", *RISES, OVERFITTING, GAP, "spikes", OUTLIERS)
"""All kinds, gravest first."""
_GRAVE = (*BROKEN, "rate ended", "plateau")


@dataclass(frozen=True, slots=True)
class Symptom:
    """Something wrong with a run: kind (one of `KINDS`), the step at which it began, reason and remedy."""

    kind: str
    step: int
    ground: str
    remedy: str

    @property
    def grave(self) -> bool:
        """Whether continuing unchanged is useless; anything that may pass or has passed calls for a look."""
        return self.kind in _GRAVE

    @property
    def noticed(self) -> bool:
        """Whether it needs no action."""
        return self.kind == OUTLIERS

    def __str__(self) -> str:
        """Return kind, reason and remedy as one line."""
        return f"{self.kind}: {self.ground}; {self.remedy}"
