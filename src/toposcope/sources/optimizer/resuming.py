"""Judge whether runs can be resumed: the newest checkpoint of each, held against those before it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.core.observations import AuditFinding
from toposcope.files.formats.reader import WEIGHT_DTYPES, Reader
from toposcope.files.training_state.nouns import OptimizerState, ParameterState, TrainingState
from toposcope.files.training_state.places import training_state
from toposcope.sources.audit_evidence import StepEvidence
from toposcope.sources.optimizer import counters
from toposcope.sources.optimizer.moment_faults import (
    MomentsHeld,
    moment_faults,
    spread_of_updates,
    usual_updates,
)
from toposcope.sources.optimizer.moments import moments_of, same_first
from toposcope.sources.optimizer.naming import ParameterNames, names_of
from toposcope.sources.optimizer.resumption import (
    DISAGREES,
    MISSING,
    NOT_FINITE,
    NOT_READ,
    RESUMABLE,
    THERE,
    Facet,
    Resumption,
)
from toposcope.sources.series import Series

_BACK = 3
"""How many earlier checkpoints are tried, if the newest cannot be resumed."""
_EARLIER = 16
"""With how many earlier checkpoints the first moments are compared, to find of which one they are."""
_ALIKE = 2.0**-7
"""How far a weight may be from its master copy, in parts of it: twice the rounding of bfloat16."""
_ORDERED = ("Lightning", "nanoGPT", "PyTorch", "PyTorch's distributed checkpoint")
"""Writers whose files of weights keep the order of the model; safetensors sorts names."""


def resumption(
    series: Series, run: str, steps: Sequence[StepEvidence], findings: Sequence[AuditFinding], *, sample: bool
) -> Resumption | None:
    """Return whether a run can be resumed from its newest checkpoint; None if it is not in local files."""
    if not steps or steps[-1].hashed or not Path(steps[-1].checkpoint.uri).exists():
        return None
    states: dict[int, TrainingState | SourceError | None] = {}

    def judged(at: int) -> Resumption:
        faults = [one for one in findings if not one.is_remark and one.run == run
                  and steps[at].checkpoint.step in one.every_step]  # fmt: skip
        return _Judge(series, steps, states, faults, sample).of(at)

    last = len(steps) - 1
    answer = judged(last)
    if answer.faults:
        for at in range(last - 1, max(-1, last - 1 - _BACK), -1):
            if judged(at).verdict == RESUMABLE:
                return dataclasses.replace(answer, earlier=steps[at].checkpoint.step)
    return answer


def findings_of(answer: Resumption) -> Iterator[AuditFinding]:
    """Yield a finding for each fault of the state; those of the weights are findings already."""
    back = "" if answer.earlier is None else f"; resume from step {answer.earlier:,}"
    for one in answer.faults:
        if one.name != "weights":
            yield AuditFinding(answer.run, answer.step, "", one.why + back, fault=one.fault)


@dataclasses.dataclass(frozen=True, slots=True)
class _Judge:
    """Judges the checkpoints of one run; each state is opened once."""

    series: Series
    steps: Sequence[StepEvidence]
    states: dict[int, TrainingState | SourceError | None]
    faults: Sequence[AuditFinding]
    sample: bool

    def state(self, at: int) -> TrainingState | SourceError | None:
        if at not in self.states:
            try:
                self.states[at] = training_state(self.steps[at].checkpoint.uri)
            except SourceError as error:
                self.states[at] = error
        return self.states[at]

    def readable(self, at: int) -> TrainingState | None:
        state = self.state(at) if at >= 0 else None
        return state if isinstance(state, TrainingState) else None

    def of(self, at: int) -> Resumption:
        """Return the answer for one checkpoint."""
        here = self.steps[at]
        run, step = here.checkpoint.run, here.checkpoint.step
        weights = self._weights(here)
        if here.error:  # often of the same file as its state
            return Resumption(run, step, "", (weights,), sampled=self.sample)
        state = self.state(at)
        if not isinstance(state, TrainingState):
            return Resumption(run, step, "", (weights, _unreadable(state)), sampled=self.sample)
        if not state.optimizers:
            none = Facet("moments", MISSING, "it has no optimiser's state", unsure=True)
            if state.unread:
                why = f"the optimiser's state is not read yet ({state.unread[0]})"
                none = Facet("moments", NOT_READ, why, unsure=True)
            return Resumption(run, step, state.writer, (weights, none), sampled=self.sample)
        before = self.readable(at - 1)
        if before is None or len(before.optimizers) != len(state.optimizers):
            before = None
        then = self.steps[at - 1].checkpoint.step if before is not None else None
        facets = [weights]
        for place in range(len(state.optimizers)):
            facets += self._optimizer(at, place, state, before, then)
        facets += counters.schedule_facets(state, before, step, then)
        facets += [counters.rng_facet(state, before), counters.data_facet(state, before, step, then)]
        kept = tuple(dict.fromkeys(facets))
        return Resumption(run, step, state.writer, kept, then, self.sample)

    def _weights(self, here: StepEvidence) -> Facet:
        if here.error:
            return Facet("weights", NOT_READ, "its weights cannot be read", "unreadable")
        bad = next(iter(self.faults), None)
        if bad is None:
            return Facet("weights", THERE)
        message = bad.message.partition("; ")[0]
        why = f"weights: {bad.tensor} {message}" if bad.tensor else f"weights: {message}"
        return Facet("weights", NOT_FINITE if bad.fault == "non-finite" else DISAGREES, why, bad.fault)

    def _optimizer(
        self, at: int, place: int, state: TrainingState, before: TrainingState | None, then: int | None
    ) -> Iterator[Facet]:
        """Yield the facets of one optimiser: its moments, masters and count of updates."""
        now, step = state.optimizers[place], self.steps[at].checkpoint.step
        past = before.optimizers[place] if before is not None else None
        names = self._names(at, now, state.writer)
        held = self._held(at, now, past, then, names)
        usual, behind = spread_of_updates(held)
        was = usual_updates(past) if past is not None else None
        faults = [*moment_faults(held), *self._of_earlier(at, place, now, held)]
        faults += self._masters(at, now, names)
        if behind and not any(one.fault == "shard-of-another-step" for one in faults):
            least = min(count for key in behind if (count := now.parameters[key].updates) is not None)
            why = f"{held.of(behind)} count {least:,.0f} updates, not {usual:,.0f}"
            faults.append(Facet("moments", DISAGREES, why, "shard-of-another-step"))
        if not any(one.fault for one in faults):
            faults += self._coverage(at, now, past, names, state)
        yield from faults or [Facet("moments", THERE)]
        yield from counters.step_facets(usual, was, state, step, then)

    def _held(
        self, at: int, now: OptimizerState, past: OptimizerState | None, then: int | None,
        names: ParameterNames,
    ) -> MomentsHeld:  # fmt: skip
        """Return the moments held against those of the checkpoint before."""
        here = self.steps[at]
        step = here.checkpoint.step
        between = 0.0 if then is None else float(step - then)
        held = MomentsHeld(now, (), past, then, between, trained=step > 0, name=names.name)
        if past is not None:
            count, earlier = usual_updates(now), usual_updates(past)
            if count is not None and earlier is not None:
                between = max(between, count - earlier)
        moved = past is None or self._moved(self.steps[at - 1], here)
        evidence = tuple(moments_of(now, past, between, sample=self.sample))
        return dataclasses.replace(held, evidence=evidence, updates=between, moved=moved)

    def _moved(self, before: StepEvidence, here: StepEvidence) -> bool:
        return any(
            name in before.tensors and before.tensors[name].digest != one.digest
            for name, one in here.tensors.items()
        )

    def _names(self, at: int, now: OptimizerState, writer: str) -> ParameterNames:
        here = self.steps[at]
        changed = set(here.facts.changes)
        shapes = {name: one.info.shape for name, one in here.tensors.items() if name not in changed}
        return names_of(now, shapes, ordered=writer in _ORDERED)

    def _of_earlier(self, at: int, place: int, now: OptimizerState, held: MomentsHeld) -> Iterator[Facet]:
        """Say of which earlier checkpoint the moments are, if they are not those of this one."""
        if not held.moved:
            return
        for other in range(at - 2, max(-1, at - 2 - _EARLIER), -1):
            state = self.readable(other)
            if state is None or place >= len(state.optimizers):
                continue
            share = same_first(now, state.optimizers[place])
            if share > 0 and self._moved(self.steps[other], self.steps[at]):
                step = self.steps[other].checkpoint.step
                what = "moments are" if share == 1 else "moments of some tensors are"
                fault = "moments-of-another-step" if share == 1 else "shard-of-another-step"
                yield Facet("moments", DISAGREES, f"{what} those of step {step:,}", fault)
                return

    def _coverage(
        self, at: int, now: OptimizerState, past: OptimizerState | None, names: ParameterNames,
        state: TrainingState,
    ) -> Iterator[Facet]:  # fmt: skip
        """Yield what does not agree in shape and count with the weights."""
        here = self.steps[at]
        if now.odd and not now.elements:
            yield Facet("moments", NOT_READ, "its moments are in a form that is not read", unsure=True)
            return
        if not now.elements:
            why = "the optimiser keeps no moments" if any(g.parameters for g in now.groups) else "it is empty"
            yield Facet("moments", THERE, why)
            return
        if now.odd:
            of = f"{now.odd:,} of {len(now.parameters):,} moments"
            yield Facet("moments", THERE, f"{of} are in a form that is not read, such as factors")
        unknown = names.unknown
        if unknown and not here.facts.changes and here.tensors and len(state.optimizers) == 1:
            first = now.parameters[unknown[0]]
            of = f"{len(unknown):,} of {len(names.candidates):,} moments"
            why = f"{of} have a shape that no weights have ({names.name(first.key)}: {first.shape})"
            fits = past is not None and all(
                key in past.parameters and past.parameters[key].shape != now.parameters[key].shape
                for key in unknown
            )
            whole = len(unknown) == len(names.candidates)
            fault = "" if whole or not fits else "moments-of-other-shape"
            yield Facet("moments", DISAGREES, why, fault, unsure=not fault)

    def _masters(self, at: int, now: OptimizerState, names: ParameterNames) -> Iterator[Facet]:
        """Find master copies that no weights of their shape are rounded from."""
        with_master = [one for one in now.parameters.values() if one.master is not None]
        if not with_master:
            return
        bad: list[str] = []
        try:
            with self.series.reading(self.steps[at].checkpoint) as reader:
                for one in with_master:
                    candidates = names.candidates.get(one.key, ())
                    if candidates and not any(_rounded_from(one, reader, name) for name in candidates):
                        bad.append(one.key)
        except SourceError:  # a finding says so
            return
        if bad:
            of = names.name(bad[0]) if len(bad) == 1 else f"{len(bad):,} of {len(with_master):,} tensors"
            why = f"the master copies of {of} are not the weights"
            yield Facet("moments", DISAGREES, why, "masters-unlike-weights")


def _rounded_from(one: ParameterState, reader: Reader, name: str) -> bool:
    """Return whether weights are those of a master copy, rounded: all but one value in a hundred."""
    assert one.master is not None
    info = reader.infos()[name]
    if info.skip or info.dtype not in WEIGHT_DTYPES:
        return True
    weights = reader.read(name).astype(np.float64).reshape(-1)
    master = one.master.values()
    with np.errstate(invalid="ignore"):
        near = np.abs(weights - master) <= _ALIKE * np.abs(master) + float(np.finfo(np.float16).tiny)
    return bool(np.mean(near) >= 0.99)


def _unreadable(error: SourceError | None) -> Facet:
    """Return the facet of a state that cannot be opened: damaged, or in a form that is not read."""
    text = str(error) if error is not None else "no file of it is here"
    damaged = any(word in text for word in ("not a valid PyTorch file", "is empty", "truncated"))
    why = f"the optimiser's state cannot be read ({text})"
    return Facet("moments", NOT_READ, why, "unreadable-state" if damaged else "", unsure=not damaged)
