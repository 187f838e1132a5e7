"""The answer for one checkpoint: can it be resumed, and what of it is there and agrees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toposcope.core.forms import listed

THERE, MISSING, NOT_STORED = "there", "missing", "not stored"
NOT_FINITE, DISAGREES, NOT_READ = "not finite", "does not agree", "not read"
FACETS = ("weights", "moments", "step", "schedule", "RNG", "data position")

RESUMABLE, NOT_RESUMABLE, CANNOT_TELL = "resumable", "not resumable", "cannot tell"

_MOST_NAMED = 3
"""The most runs of one answer that a line names; of more it says the number."""

STATE_FAULTS = frozenset({
    "data-begun-anew", "masters-unlike-weights", "moments-missing", "moments-negative",
    "moments-not-finite", "moments-of-another-step", "moments-of-other-shape", "moments-swapped",
    "moments-unlike", "moments-zero", "schedule-missing", "schedule-of-another-step",
    "shard-of-another-step", "step-of-state", "unreadable-state", "updates-of-optimizer",
})  # fmt: skip
"""The faults of a training's state; those of the weights are the audit's."""

_MOST = 2
"""The most reasons that a line gives; the findings have all of them."""


@dataclass(frozen=True, slots=True)
class Facet:
    """One part of a training's state: whether it is there and agrees with the rest.

    `fault` is the kind of finding if a resumed training would go wrong. `unsure` says that it cannot be told.
    """

    name: str
    status: str
    why: str = ""
    fault: str = ""
    unsure: bool = False


@dataclass(frozen=True, slots=True)
class Resumption:
    """Whether a training can be resumed from a checkpoint, by its facets.

    `earlier` is the step of the newest earlier checkpoint that can be resumed, where this one cannot. `still`
    are the weights that are frozen: neither they nor their moments changed since the checkpoint before.

    >>> facets = [Facet("weights", THERE), Facet("moments", THERE), Facet("RNG", NOT_STORED)]
    >>> print(Resumption("a", 300, "PyTorch", tuple(facets)).line)
    can be resumed from step 300: weights and moments are there and agree; not stored: RNG
    """

    run: str
    step: int
    writer: str
    facets: tuple[Facet, ...]
    compared: int | None = None
    """The step of the checkpoint that the moments were compared with; None where there was none."""
    sampled: bool = False
    earlier: int | None = None
    still: tuple[str, ...] = ()

    @property
    def faults(self) -> list[Facet]:
        """The facets that a resumed training would suffer from; what stands still is named by its moments."""
        return sorted(
            (facet for facet in self.facets if facet.fault), key=lambda facet: facet.fault == "stale-tensor"
        )

    @property
    def verdict(self) -> str:
        """One of "resumable", "not resumable" and "cannot tell"."""
        if self.faults:
            return NOT_RESUMABLE
        return CANNOT_TELL if any(facet.unsure for facet in self.facets) else RESUMABLE

    @property
    def has_state(self) -> bool:
        """Whether there is an optimiser's state, in whatever form."""
        return any(facet.name == "moments" and facet.status != MISSING for facet in self.facets)

    @property
    def is_about_state(self) -> bool:
        """Whether there is something to say of a state: it is there, or missing where others have one."""
        return self.has_state or any(fault.name != "weights" for fault in self.faults)

    @property
    def moments_read(self) -> bool:
        """Whether the moments were read."""
        return any(
            facet.name == "moments" and facet.status not in (MISSING, NOT_READ) for facet in self.facets
        )

    @property
    def reasons(self) -> list[str]:
        """Why it cannot be resumed, or why that cannot be told."""
        chosen = self.faults or [facet for facet in self.facets if facet.unsure]
        return list(dict.fromkeys(facet.why for facet in chosen))

    @property
    def line(self) -> str:
        """The answer in one line."""
        if self.verdict != RESUMABLE:
            why = listed(self.reasons, "; ", most=_MOST, last="; ")
            if self.verdict == CANNOT_TELL:
                return f"cannot tell whether step {self.step:,} can be resumed: {why}"
            back = "" if self.earlier is None else f"; step {self.earlier:,} can be resumed"
            return f"not resumable from step {self.step:,}: {why}{back}"
        agree = list(dict.fromkeys(facet.name for facet in self.facets if facet.status == THERE))
        text = f"can be resumed from step {self.step:,}: {listed(agree)} are there and agree"
        return "; ".join([text, *self._limits()])

    def _limits(self) -> list[str]:
        limits = []
        for status in (MISSING, NOT_STORED, NOT_READ):
            names = [facet.name for facet in self.facets if facet.status == status]
            limits += [f"{status}: {listed(names)}"] if names else []
        return limits + list(dict.fromkeys(facet.why for facet in self.facets if facet.why))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {
            "run": self.run, "step": self.step, "verdict": self.verdict, "answer": self.line,
            "writer": self.writer, "compared_with": self.compared, "sampled": self.sampled,
            "earlier": self.earlier,
            "facets": [
                {"facet": facet.name, "status": facet.status, "why": facet.why, "fault": facet.fault}
                for facet in self.facets
            ],
        }  # fmt: skip


def lines_of(answers: Sequence[Resumption]) -> list[str]:
    """Return the answers in a line each, with the names of the runs where there are several.

    Runs of one answer share a line. Of weights alone that are at fault, the findings say it already.
    """
    answers = [
        answer
        for answer in answers
        if answer.has_state or {fault.name for fault in answer.faults} != {"weights"}
    ]
    many = len({answer.run for answer in answers}) > 1
    runs: dict[str, list[str]] = {}
    for answer in answers:
        runs.setdefault(answer.line, []).append(answer.run)
    return [f"{_named(names)}: {line}" if many else line for line, names in runs.items()]


def _named(runs: Sequence[str]) -> str:
    """Return the names of a few runs, or the number of many.

    >>> _named(["a", "b"]), _named(["a", "b", "c", "d"])
    ('a and b', '4 runs')
    """
    return listed(runs) if len(runs) <= _MOST_NAMED else f"{len(runs):,} runs"
