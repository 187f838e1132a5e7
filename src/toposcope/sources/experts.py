"""The audit's checks of mixtures of experts: dead, frozen, equal or swapped experts, collapsed gates."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from toposcope.core.observations import AuditFinding
from toposcope.sources.audit_evidence import StepEvidence
from toposcope.sources.expert_layers import UNLIKE, ExpertLayer, GateRows

FEWEST = 4
"""A layer with fewer experts is not judged: too few siblings say what is usual."""

DEAD = 0.1
"""An expert is dead if the norm of one of its matrices is below this share of the median of its siblings."""

SHARED = 0.1
"""A gate has collapsed if its rows differ from their mean by less than this share of their norm, ..."""

LONGEST = 10.0
"""... or if one row is this many times as long as most: its expert is then chosen, or avoided, always."""

SHRINKING = -0.999
"""An expert got no gradient if the cosine of its update and its values is at most this, and it lost at most
half of its norm: that is weight decay alone."""

FEW, HALF = 1 / 4, 1 / 2
"""At most the first share of a layer's experts can be frozen; up to the second may rest for a while."""

HARDLY = 0.01
"""An expert that moved by this share of what is usual in its layer was not chosen: momentum remains."""

FROZEN, STARVED = 2, 4
"""An expert is frozen if it is unchanged at two checkpoints in a row, or at the only pair there is, or if it
only shrank at the last four. In healthy mixtures of benchmarks/experts.py (seeds from 100 on), experts that
were not chosen for 30 to 90 updates came back."""

UNCHANGED, ONLY_SHRANK = "is unchanged", "only shrank"

KINDS = ("router-collapsed", "expert-dead", "expert-twin", "expert-frozen", "experts-swapped")

VAGUE = frozenset({
    "copied-tensor", "equal-tensors", "stale-tensor", "swapped-tensors", "replaced-tensor", "replaced-rows",
    "rescaled-tensor", "near-zero-tensor", "denormal-tensor", "zero-tensor", "unusual-change", "off-path",
    "jump", "swapped-rows", "exchanged-rows", "copied-rows", "permuted-tensor", "odd-norm", "zero-block",
})  # fmt: skip
"""Findings on single tensors that a finding on their expert explains."""


def experts(steps: Sequence[StepEvidence]) -> Iterator[AuditFinding]:
    """Find experts that are dead, frozen, equal or swapped, and gates that have collapsed."""
    good = [step for step in steps if not step.error]
    for step in good:
        for layer in step.experts.values():
            if len(layer.numbers) >= FEWEST:
                yield from _alone(step, layer)
    yield from _equal(good)
    for before, step in itertools.pairwise(good):
        for layer in step.experts.values():
            if len(layer.numbers) >= FEWEST:
                yield from _swapped(step, before, layer)
    yield from _frozen(good)


def _alone(step: StepEvidence, layer: ExpertLayer) -> Iterator[AuditFinding]:
    run, at = step.checkpoint.run, step.checkpoint.step
    for place, share in _dead(layer):
        text = f"is dead: its norm is {share:.2g} of its siblings'"
        yield AuditFinding(run, at, layer.labels[place], text, fault="expert-dead")
    if layer.gate is not None and (collapsed := _collapsed(layer.gate, layer.numbers)):
        yield AuditFinding(run, at, layer.gate.name, collapsed, fault="router-collapsed")


def _equal(good: Sequence[StepEvidence]) -> Iterator[AuditFinding]:
    """Yield a finding on one of two equal experts: the one that moved farther when they became so."""
    copies: dict[tuple[str, int, int], int] = {}
    for step in good:
        for name, layer in step.experts.items():
            for first, second, cosine in layer.twins if len(layer.numbers) >= FEWEST else ():
                key = (name, layer.numbers[first], layer.numbers[second])
                far = np.nansum(np.square(layer.distance[[first, second]]), axis=1)
                copy = copies.setdefault(key, first if far[0] > far[1] else second)
                other = layer.numbers[first + second - copy]
                what = "equals" if cosine > 1 - 1e-6 else "nearly equals"
                text = f"{what} expert {other} (cosine {cosine:.3f})"
                run, at = step.checkpoint.run, step.checkpoint.step
                yield AuditFinding(run, at, layer.labels[copy], text, fault="expert-twin")


def _dead(layer: ExpertLayer) -> Iterator[tuple[int, float]]:
    """Yield the experts with a matrix far smaller than their siblings', and its share of their median."""
    middle = _medians(layer.norm)
    for place, norms in enumerate(layer.norm):
        shares = [norm / usual for norm, usual in zip(norms, middle, strict=True) if usual > 0]
        least = min((share for share in shares if not math.isnan(share)), default=1.0)
        if least < DEAD:
            yield place, least


def _medians(values: np.ndarray) -> np.ndarray:
    """Return the median of the known values of each column; 0 where none is known."""
    finite = [column[np.isfinite(column)] for column in values.T]
    return np.array([float(np.median(column)) if len(column) else 0.0 for column in finite])


def _collapsed(gate: GateRows, numbers: Sequence[int]) -> str:
    """Return how a gate has collapsed; empty if it has not."""
    if gate.spread < SHARED:
        return f"gives all experts nearly one score: its rows differ by {gate.spread:.2g} of their norm"
    if gate.longest >= LONGEST:
        expert = numbers[gate.index] if gate.index < len(numbers) else gate.index
        return f"is ruled by expert {expert}: its row is {gate.longest:.3g} times as long as most"
    return ""


def _swapped(step: StepEvidence, before: StepEvidence, layer: ExpertLayer) -> Iterator[AuditFinding]:
    for place, other in (layer.took or {}).items():
        text = f"holds what expert {layer.numbers[other]} held at step {before.checkpoint.step:,}"
        run, at = step.checkpoint.run, step.checkpoint.step
        yield AuditFinding(run, at, layer.labels[place], text, fault="experts-swapped")


def still(layer: ExpertLayer, most: float = FEW, hardly: float = 0.0) -> dict[int, str]:
    """Return the experts that did not move, or only shrank as a whole; none if more than `most` did so.

    Those that moved by up to the share `hardly` of what is usual in the layer did not move.
    """
    distance, purity = layer.distance, layer.purity
    measured = np.isfinite(distance).any(axis=1) if distance.size else np.zeros(len(distance), bool)
    usual = _medians(distance)
    resting = measured & ~(np.nan_to_num(distance) > hardly * usual).any(axis=1)
    decayed = (np.nan_to_num(purity) <= SHRINKING) & (distance <= layer.norm) | ~(distance > 0)
    shrank = measured & ~resting & decayed.all(axis=1)
    if measured.sum() < FEWEST or int((resting | shrank).sum()) > most * int(measured.sum()):
        return {}
    dead = {place for place, _ in _dead(layer)}
    moved = {int(at): UNCHANGED for at in np.flatnonzero(resting)}
    moved |= {int(at): ONLY_SHRANK for at in np.flatnonzero(shrank)}
    return {place: what for place, what in moved.items() if place not in dead}


def _frozen(good: Sequence[StepEvidence]) -> Iterator[AuditFinding]:
    """Yield one finding for each stretch of checkpoints over which an expert did not move."""
    begun: dict[tuple[str, int], _Stretch] = {}
    fewest = min(FROZEN, len(good) - 1)
    for before, step in itertools.pairwise(good):
        now = {
            (name, place): what
            for name, layer in step.experts.items()
            for place, what in still(layer).items()
        }
        for key in [key for key in begun if key not in now]:
            yield from begun.pop(key).findings(key[1], fewest)
        for key, what in now.items():
            since = begun.setdefault(key, _Stretch(before.checkpoint.step))
            since.layers.append((step, step.experts[key[0]]))
            since.unchanged &= what == UNCHANGED
    for (_, place), since in begun.items():
        yield from since.findings(place, fewest, last=True)


@dataclass(slots=True)
class _Stretch:
    """The checkpoints over which an expert did not move, and whether it did not change at all."""

    since: int
    layers: list[tuple[StepEvidence, ExpertLayer]] = field(default_factory=list)
    unchanged: bool = True

    def findings(self, place: int, fewest: int, *, last: bool = False) -> Iterator[AuditFinding]:
        """Yield the finding; none if the stretch is short or over, as of an expert that was not chosen."""
        starved = last and len(self.layers) >= STARVED
        if not starved and not (self.unchanged and len(self.layers) >= fewest):
            return
        step, layer = self.layers[-1]
        what = UNCHANGED if self.unchanged else ONLY_SHRANK
        text = f"{what} since step {self.since:,}; the other experts moved"
        label = layer.labels[place]
        yield AuditFinding(step.checkpoint.run, step.checkpoint.step, label, text, fault="expert-frozen")


def without_usual(steps: Sequence[StepEvidence], findings: Sequence[AuditFinding]) -> list[AuditFinding]:
    """Drop the findings on single tensors of experts that are usual in a mixture.

    It may begin as copies of one MLP, and an expert that was not chosen does not move.
    """
    usual: set[tuple[str, int, str]] = set()
    for step in steps:
        for layer in step.experts.values():
            at = step.checkpoint.step
            copies = layer.labels if layer.likeness >= UNLIKE else ()
            usual |= {(fault, at, label) for label in copies for fault in ("copied-tensor", "equal-tensors")}
            usual |= {("stale-tensor", at, layer.labels[place]) for place in still(layer, HALF, HARDLY)}
    return [
        finding
        for finding in findings
        if not any((finding.fault, finding.step, start) in usual for start in _starts(finding.tensor))
    ]


def _starts(tensor: str) -> list[str]:
    """Return a name and what stands before each of its dots.

    >>> _starts("experts.3.up")
    ['experts.3.up', 'experts', 'experts.3']
    """
    return [tensor, *(tensor[: dot.start()] for dot in re.finditer(r"\.", tensor))]


def without_parts(findings: Sequence[AuditFinding]) -> list[AuditFinding]:
    """Drop the findings on single tensors that a finding on their expert, or their gate, explains.

    Of twins, either may count as the copy; a stack has one tensor for all experts.
    """
    named: set[tuple[int | None, str]] = set()
    frozen: set[str] = set()
    for finding in findings:
        if finding.fault == "expert-frozen":
            frozen.add(finding.tensor)
        if finding.fault in KINDS:
            named |= {(finding.step, finding.tensor), (finding.step, finding.tensor.partition("[")[0])}
        if finding.fault == "expert-twin":
            named.add((finding.step, finding.tensor.rpartition(".")[0]))

    def explained(one: AuditFinding) -> bool:
        return any((one.step, start) in named or start in frozen for start in _starts(one.tensor))

    return [finding for finding in findings if finding.fault not in VAGUE or not explained(finding)]
