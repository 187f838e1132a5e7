"""Judge whether runs can be resumed: the newest checkpoint of each, held against those before it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from toposcope.core.errors import SourceError
from toposcope.core.observations import AuditFinding
from toposcope.files.training_state.flat import laid_out
from toposcope.files.training_state.nouns import OptimizerState, TrainingState
from toposcope.files.training_state.places import training_state
from toposcope.sources.audit_evidence import StepEvidence
from toposcope.sources.optimizer import _counters as counters
from toposcope.sources.optimizer._elements import Covered, coverage_facets
from toposcope.sources.optimizer._masters import masters_facets
from toposcope.sources.optimizer._moment_faults import (
    MomentsHeld,
    moment_faults,
    spread_of_updates,
    unchanged_moments,
    usual_updates,
)
from toposcope.sources.optimizer.angles import by_angle
from toposcope.sources.optimizer.moments import moments_of, same_first
from toposcope.sources.optimizer.naming import ORDERED, ParameterNames, names_of
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
_DAMAGED = ("is not a valid", "is empty", "truncated", "is missing; fetch it again")
"""What errors say of a file or part that is damaged or lost; of others the form may only not be read."""


def resumption(
    series: Series, run: str, steps: Sequence[StepEvidence], findings: Sequence[AuditFinding], *, sample: bool
) -> Resumption | None:
    """Return whether a run can be resumed from its newest checkpoint; None if it is not in local files."""
    if not steps or steps[-1].hashed or not Path(steps[-1].checkpoint.uri).exists():
        return None
    states: dict[int, TrainingState | SourceError | None] = {}

    def judged(at: int) -> Resumption:
        faults = [finding for finding in findings if not finding.is_remark and finding.run == run
                  and steps[at].checkpoint.step in finding.every_step]  # fmt: skip
        return _Judge(series, steps, states, faults, sample).of(at)

    last = len(steps) - 1
    answer = judged(last)
    if answer.faults:
        for at in range(last - 1, max(-1, last - 1 - _BACK), -1):
            if judged(at).verdict == RESUMABLE:
                return dataclasses.replace(answer, earlier=steps[at].checkpoint.step)
    return answer


def keeps_state(uri: str) -> bool:
    """Return whether a checkpoint in local files keeps a training's state, in a form that is read or not."""
    if not Path(uri).exists():
        return False
    try:
        state = training_state(uri)
    except SourceError:  # it is there, and damaged
        return True
    return state is not None and not state.is_empty


def findings_of(answer: Resumption) -> Iterator[AuditFinding]:
    """Yield a finding for each fault of the state; those of the weights are findings already."""
    back = "" if answer.earlier is None else f"; resume from step {answer.earlier:,}"
    for fault in answer.faults:
        if fault.name != "weights":
            yield AuditFinding(answer.run, answer.step, "", fault.why + back, fault=fault.fault)


def without_frozen(
    findings: Sequence[AuditFinding], steps: Sequence[StepEvidence], answer: Resumption
) -> list[AuditFinding]:
    """Return the findings without unchanged weights whose moments show that they are frozen up to now."""
    digests = {step.checkpoint.step: step.tensors for step in steps}
    newest = steps[-1].tensors

    def frozen(one: AuditFinding) -> bool:
        then = digests.get(one.step, {}) if one.step is not None else {}
        if one.fault != "stale-tensor" or one.tensor not in answer.still or one.tensor not in then:
            return False
        return then[one.tensor].digest == newest[one.tensor].digest

    return [finding for finding in findings if not frozen(finding)]


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
                self.states[at] = self._named(at, training_state(self.steps[at].checkpoint.uri))
            except SourceError as error:
                self.states[at] = error
        return self.states[at]

    def _named(self, at: int, state: TrainingState | None) -> TrainingState | None:
        """Give the parameters in buffers their names, by the weights' order and sizes."""
        if state is None or not any(optimizer.buffers for optimizer in state.optimizers):
            return state
        shapes = {
            name: tensor.info.shape for name, tensor in self.steps[at].tensors.items() if not tensor.info.skip
        }
        named = tuple(laid_out(optimizer, shapes) for optimizer in state.optimizers)
        return dataclasses.replace(state, optimizers=named)

    def readable(self, at: int) -> TrainingState | None:
        state = self.state(at) if at >= 0 else None
        return state if isinstance(state, TrainingState) else None

    def of(self, at: int) -> Resumption:
        """Return the answer for one checkpoint."""
        here = self.steps[at]
        run, step = here.checkpoint.run, here.checkpoint.step
        if here.error:  # often of the same file as its state
            return Resumption(run, step, "", (self._weights(here),), sampled=self.sample)
        state = self.state(at)
        if not isinstance(state, TrainingState):
            unread = (self._weights(here), _unreadable(state))
            return Resumption(run, step, "", unread, sampled=self.sample)
        if not state.optimizers:
            none = _without_optimizer(state, step)
            if none.status == MISSING and state.step in (None, step) and self._usually_there(at):
                last = self.steps[at - 1].checkpoint.step
                why = f"the optimiser's state is missing, which step {last:,} has"
                none = Facet("moments", MISSING, why, "moments-missing")
            weights_facet = (self._weights(here), none)
            return Resumption(run, step, state.writer, weights_facet, sampled=self.sample)
        before = self.readable(at - 1)
        if before is not None and [optimizer.flat for optimizer in before.optimizers] != [
            optimizer.flat for optimizer in state.optimizers
        ]:
            before = None
        then = self.steps[at - 1].checkpoint.step if before is not None else None
        still: set[str] = set()
        facets = list(self._optimizers(at, state, before, then, still))
        facets += counters.schedule_facets(state, before, step, then)
        facets += [counters.rng_facet(state, before), counters.data_facet(state, before, step, then)]
        kept = tuple(dict.fromkeys([self._weights(here, still), *facets]))
        return Resumption(run, step, state.writer, kept, then, self.sample, still=tuple(sorted(still)))

    def _usually_there(self, at: int) -> bool:
        """Return whether each of the earlier checkpoints has an optimiser's state.

        Some trainers write it to every second checkpoint; they leave one out before.
        """
        earlier = [self.state(other) for other in range(at - 1, max(-1, at - 1 - _EARLIER), -1)]
        there = [isinstance(state, TrainingState) and bool(state.optimizers) for state in earlier]
        return bool(there) and all(there)

    def _weights(self, here: StepEvidence, still: Collection[str] = ()) -> Facet:
        if here.error:
            return Facet("weights", NOT_READ, "its weights cannot be read", "unreadable")
        faults = (
            fault for fault in self.faults if fault.fault != "stale-tensor" or fault.tensor not in still
        )
        bad = next(faults, None)
        if bad is None:
            return Facet("weights", THERE)
        message = bad.message.partition("; ")[0]
        why = f"weights: {bad.tensor} {message}" if bad.tensor else f"weights: {message}"
        return Facet("weights", NOT_FINITE if bad.fault == "non-finite" else DISAGREES, why, bad.fault)

    def _optimizers(
        self, at: int, state: TrainingState, before: TrainingState | None, then: int | None, still: set[str]
    ) -> Iterator[Facet]:
        """Yield the facets of all optimisers, and add to `still` the weights that stand still with them."""
        facets: list[Facet] = []
        names = [self._names(at, optimizer, state.writer) for optimizer in state.optimizers]
        for place in range(len(state.optimizers)):
            facets += self._optimizer(at, place, state, before, then, names[place], still)
        here, past = self.steps[at], self.steps[at - 1] if at > 0 else None
        if not any(facet.fault for facet in facets) and not here.facts.changes:
            tensors = past.tensors if past is not None and not past.error else None
            step = None if past is None else past.checkpoint.step
            earlier = self.readable(at - 1)
            exact = earlier is not None and any(optimizer.by_order for optimizer in earlier.optimizers)
            filled = exact and any(optimizer.buffers for optimizer in state.optimizers)
            covered = Covered(state.optimizers, names, here.tensors, tensors, step, filled)
            lost = list(coverage_facets(covered))
            if any(facet.fault for facet in lost):
                facets = [facet for facet in facets if (facet.name, facet.status) != ("moments", THERE)]
            facets += lost
        yield from facets

    def _optimizer(
        self, at: int, place: int, state: TrainingState, before: TrainingState | None, then: int | None,
        names: ParameterNames, still: set[str],
    ) -> Iterator[Facet]:  # fmt: skip
        """Yield the facets of one optimiser: its moments, masters and count of updates."""
        now, step = state.optimizers[place], self.steps[at].checkpoint.step
        past = before.optimizers[place] if before is not None else None
        held = self._held(at, now, past, then, names)
        usual, behind = spread_of_updates(held)
        was = usual_updates(past) if past is not None else None
        faults = [*moment_faults(held), *self._of_earlier(at, place, now, held)]
        faults += masters_facets(self.series, self.steps[at].checkpoint, now, names, sample=self.sample)
        if behind and not any(fault.fault == "shard-of-another-step" for fault in faults):
            least = min(count for key in behind if (count := now.parameters[key].updates) is not None)
            why = f"{held.of(behind)} count {least:,.0f} updates, not {usual:,.0f}"
            faults.append(Facet("moments", DISAGREES, why, "shard-of-another-step"))
        if not any(fault.fault for fault in faults):
            faults += self._coverage(at, now, past, names, state)
        if held.still:
            still |= self._unmoved(at, {name for key in held.still for name in names.candidates.get(key, ())})
            why = (
                f"{held.of(sorted(held.still))} stood still since step {then:,}, weights and moments: frozen"
            )
            faults.append(Facet("moments", THERE, why))
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
        held = dataclasses.replace(held, evidence=evidence, updates=between, moved=moved)
        return dataclasses.replace(held, still=self._still(at, held, names)) if moved else held

    def _still(self, at: int, held: MomentsHeld, names: ParameterNames) -> frozenset[str]:
        """Return the parameters that did not move in weights, moments and count; none if others only seem so.

        A layer is frozen if all of it stands still. If some moments stand still and their weights moved, they
        are of another step.
        """
        stale = unchanged_moments(held)
        places = Counter(names.candidates.get(key, ()) for key in stale)
        enough = (count <= len(self._unmoved(at, spots)) for spots, count in places.items())
        return frozenset(stale) if stale and all(enough) else frozenset()

    def _unmoved(self, at: int, names: Iterable[str]) -> set[str]:
        """Return the weights that are bit for bit those of the checkpoint before."""
        here, before = self.steps[at].tensors, self.steps[at - 1].tensors
        return {name for name in names if name in here and name in before
                and here[name].digest == before[name].digest}  # fmt: skip

    def _moved(self, before: StepEvidence, here: StepEvidence) -> bool:
        return any(
            name in before.tensors and before.tensors[name].digest != tensor.digest
            for name, tensor in here.tensors.items()
        )

    def _names(self, at: int, now: OptimizerState, writer: str) -> ParameterNames:
        here = self.steps[at]
        changed = set(here.facts.changes)
        shapes = {name: tensor.info.shape for name, tensor in here.tensors.items() if name not in changed}
        names = names_of(now, shapes, ordered=writer in ORDERED)
        if now.named or not names.ambiguous or at == 0 or self.steps[at - 1].error:
            return names
        try:
            with (
                self.series.reading(here.checkpoint) as reader,
                self.series.reading(self.steps[at - 1].checkpoint) as before,
            ):
                return by_angle(now, names, reader, before)
        except SourceError:  # a finding says so
            return names

    def _of_earlier(self, at: int, place: int, now: OptimizerState, held: MomentsHeld) -> Iterator[Facet]:
        """Say of which earlier checkpoint the moments are, if they are not those of this one."""
        if not held.moved:
            return
        for other in range(at - 2, max(-1, at - 2 - _EARLIER), -1):
            state = self.readable(other)
            if state is None or place >= len(state.optimizers):
                continue
            share = same_first(now, state.optimizers[place], held.still)
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
            yield Facet("moments", THERE, f"{of} are in a form that is not read, such as 8 bits")
        unknown = [] if now.flat else names.unknown
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


def _without_optimizer(state: TrainingState, step: int) -> Facet:
    """Return the facet of a checkpoint whose optimiser's state is not there, or is not read."""
    if state.unread:
        why = f"the optimiser's state is not read ({state.unread[0]})"
        return Facet("moments", NOT_READ, why, unsure=True)
    why = "it has no optimiser's state"
    if state.step is not None and state.step != step:
        why = f"the state to resume from is that of step {state.step:,}"
    return Facet("moments", MISSING, why, unsure=True)


def _unreadable(error: SourceError | None) -> Facet:
    """Return the facet of a state that cannot be opened: damaged, or in a form that is not read."""
    text = str(error) if error is not None else "no file of it is here"
    damaged = any(word in text for word in _DAMAGED)
    why = f"the optimiser's state cannot be read ({text})"
    return Facet("moments", NOT_READ, why, "unreadable-state" if damaged else "", unsure=not damaged)
