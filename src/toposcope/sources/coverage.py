"""What an audit has checked: "nothing found" refers only to that."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from toposcope.core.forms import listed
from toposcope.files.formats.foreign import Foreign
from toposcope.sources.audit_evidence import StepEvidence

_OPTIMIZER = re.compile(r"optim|^opt\d{6}|-state$", re.I)


@dataclass(frozen=True, slots=True)
class RunCoverage:
    """The tensors of a run's checkpoints: how many were checked, and why others were not.

    `hashed` says that only the hashes of files were compared. `alone` says that there is one checkpoint, so
    nothing could be compared with it. `optimizer` names the files or parts with the state of an optimiser
    that was not read,
    `further` parts of its files with more weights. `products` counts the pairs of an adapter's factors: each
    was checked as the change that it encodes, under one name. `states` counts the checkpoints with the state
    of an optimiser, and `states_read` those of them whose state was examined.
    """

    run: str
    checked: int
    skipped: Mapping[str, str] = field(default_factory=dict)
    hashed: bool = False
    alone: bool = False
    optimizer: tuple[str, ...] = ()
    further: tuple[str, ...] = ()
    products: int = 0
    states: int = 0
    states_read: int = 0

    def with_states_read(self, count: int) -> RunCoverage:
        """Return the coverage of a run whose newest states of the optimiser were read: how many."""
        return replace(self, optimizer=(), states_read=count)

    @classmethod
    def of(cls, run: str, steps: Sequence[StepEvidence], *, newest: bool = False) -> RunCoverage:
        """Return the coverage of a run by its evidence; of its newest checkpoint alone if so asked."""
        readable = [step for step in steps if not step.error]
        judged = steps[-1:] if newest else steps
        tensors = [item for step in judged for item in step.tensors.values()]
        unread = {
            item.info.name: f"its type {item.info.dtype} is not read"
            for item in tensors
            if item.info.dtype.kind == "c"
        }
        skipped = unread | {item.info.name: item.info.skip for item in tensors if item.info.skip}
        names = {item.info.name for item in tensors}
        hashed = any(step.hashed for step in judged)
        states = [parts for step in judged if (parts := _optimizer_of(step))]
        return cls(
            run, 0 if hashed else len(names) - len(skipped), skipped, hashed, len(readable) == 1,
            tuple(dict.fromkeys(name for parts in states for name in parts)),
            tuple(dict.fromkeys(name for step in judged for name in step.facts.further)),
            len({name for step in judged for name in step.facts.changes}),
            len(states),
        )  # fmt: skip


def _optimizer_of(step: StepEvidence) -> list[str]:
    """Return the files and parts of a checkpoint that hold the state of an optimiser."""
    place = Path(step.checkpoint.uri)
    try:
        files = sorted(path.name for path in (place if place.is_dir() else place.parent).iterdir())
    except OSError:
        files = []
    if not place.is_dir():  # a file for the optimiser beside each file of weights, with the same step
        stated = re.compile(rf"(?<!\d)0*{step.checkpoint.step}(?!\d)")
        files = [name for name in files if stated.search(name)]
    return [name for name in (*files, *step.facts.beside) if _OPTIMIZER.search(name)]


@dataclass(frozen=True, slots=True)
class WeightsBeside:
    """Weights beside the checkpoints: those looked at as files alone, those not opened, those not readable.

    `optimizer` names files that hold only the state of an optimiser, `foreign` files in formats that are not
    read, each with its format.
    """

    alone: list[str] = field(default_factory=list)
    unopened: list[str] = field(default_factory=list)
    optimizer: list[str] = field(default_factory=list)
    foreign: Sequence[tuple[str, Foreign]] = ()

    @property
    def lines(self) -> list[str]:
        """What was done with them, in a line each.

        >>> WeightsBeside(alone=["best.pt"]).lines
        ['looked at alone, not compared with a step: best.pt beside the checkpoints']
        """
        texts = []
        if self.alone:
            names = listed(self.alone, most=3)
            texts.append(f"looked at alone, not compared with a step: {names} beside the checkpoints")
        if self.unopened:
            names = listed(self.unopened, most=3)
            texts.append(f"not checked: {names} beside the checkpoints; audit each by its own path")
        forms: dict[Foreign, list[str]] = {}
        for name, form in self.foreign:
            forms.setdefault(form, []).append(name)
        return texts + [
            f"not read: {listed(names, most=3)}: {form.name}; {form.remedy}" for form, names in forms.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        foreign = [{"file": name, "format": form.name, "remedy": form.remedy} for name, form in self.foreign]
        return {
            "looked_at_alone": self.alone, "not_checked": self.unopened, "optimizer": self.optimizer,
            "not_read": foreign,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Coverage:
    """What was checked in every run, and what was done with the weights beside their checkpoints."""

    runs: tuple[RunCoverage, ...] = ()
    beside: WeightsBeside = field(default_factory=WeightsBeside)

    @property
    def checked(self) -> int:
        """The number of tensors that were checked, of the run with the most."""
        return max((run.checked for run in self.runs), default=0)

    @property
    def is_complete(self) -> bool:
        """Whether nothing was skipped, and values were read."""
        return not self.skipped and not any(run.hashed for run in self.runs)

    @property
    def skipped(self) -> dict[str, str]:
        """The tensors that were not checked, and why."""
        return {name: why for run in self.runs for name, why in run.skipped.items()}

    @property
    def line(self) -> str:
        """How many tensors were checked, and how many were skipped.

        >>> Coverage((RunCoverage("a", 3, {"head": "on the meta device"}),)).line
        'checked 3 of 4 tensors, 1 skipped'
        """
        checked = self.checked
        if self.runs and all(run.hashed for run in self.runs):
            return "compared the hashes of files; no tensor was read"
        skipped = max((len(run.skipped) for run in self.runs), default=0)
        uniform = len({(run.checked, len(run.skipped)) for run in self.runs}) <= 1
        if uniform:
            return f"checked {checked:,} of {checked + skipped:,} tensors, {skipped:,} skipped"
        checked = sum(run.checked for run in self.runs)
        skipped = sum(len(run.skipped) for run in self.runs)
        return f"checked {checked:,} of {checked + skipped:,} tensors of all runs, {skipped:,} skipped"

    @property
    def lines(self) -> list[str]:
        """What was not checked, and why, in a line each."""
        by_reason: dict[str, list[str]] = {}
        for name, why in self.skipped.items():
            by_reason.setdefault(why, []).append(name)
        texts = [f"skipped {listed(names, most=3)}: {why}" for why, names in by_reason.items()]
        if pairs := max((run.products for run in self.runs), default=0):
            texts.append(f"an adapter's two factors count as one tensor, their product ({pairs:,} of them)")
        of_runs = (name for run in self.runs for name in run.optimizer)
        optimizer = dict.fromkeys([*of_runs, *self.beside.optimizer])
        if optimizer:
            texts.append(f"not checked: the state of the optimiser ({listed(list(optimizer), most=3)})")
        texts += self._older_states
        texts += self.beside.lines
        if further := list(dict.fromkeys(name for run in self.runs for name in run.further)):
            texts.append(f"not checked: more weights in the same files, under {listed(further, most=3)}")
        alone = [run.run for run in self.runs if run.alone]
        if alone:
            each = "" if len(alone) == 1 else " each"
            texts.append(
                f"one checkpoint of {listed(alone, most=3)}{each} was read: only what a single file can show "
                "was looked for (values that are not finite, equal, near 0, or far from those of the same "
                "tensor in other layers)"
            )
        return texts

    @property
    def _older_states(self) -> list[str]:
        """That older states of the optimiser were not examined, where there are any."""
        runs = [run for run in self.runs if 0 < run.states_read < run.states]
        if not runs:
            return []
        total, read = sum(run.states for run in runs), sum(run.states_read for run in runs)
        which = f"the newest {read:,} of {total:,} optimiser states were examined"
        if read == len(runs):
            which = f"the newest of {total:,} optimiser states was examined"
        if len(runs) == read > 1:
            which = f"the newest optimiser state of each run was examined ({read:,} of {total:,})"
        return [f"only {which}; audit an older checkpoint by its own path"]

    @property
    def lines_with_count(self) -> list[str]:
        """How many tensors were checked, then what was not and why."""
        return [self.line, *self.lines]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {
            "runs": [
                {
                    "run": run.run, "checked": run.checked, "skipped": dict(run.skipped),
                    "hashes_only": run.hashed, "alone": run.alone, "optimizer": list(run.optimizer),
                    "further": list(run.further), "products": run.products,
                    "optimizer_states": run.states, "optimizer_states_read": run.states_read,
                }
                for run in self.runs
            ],
            "beside": self.beside.to_dict(),
        }  # fmt: skip
