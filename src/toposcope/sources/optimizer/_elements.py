"""Do the moments cover the weights: which weights that training moved have none, by name or by count."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from toposcope.core.forms import listed
from toposcope.files.formats.reader import WEIGHT_DTYPES
from toposcope.files.training_state.nouns import OptimizerState
from toposcope.sources.audit_evidence import TensorEvidence
from toposcope.sources.optimizer.naming import ParameterNames
from toposcope.sources.optimizer.resumption import MISSING, Facet

Tensors = Mapping[str, TensorEvidence]

_DIGITS = re.compile(r"\d+")
_PADDED = 0.01
"""By which share of an expert the missing elements may differ from whole experts: ranks pad their parts."""
_EXPERT = re.compile(r"expert", re.I)


@dataclass(frozen=True, slots=True)
class Covered:
    """The moments of a checkpoint held against its weights, and the weights of the checkpoint before.

    `names` has the weights that each parameter may be, for each optimiser.
    """

    optimizers: Sequence[OptimizerState]
    names: Sequence[ParameterNames]
    tensors: Tensors
    before: Tensors | None = None
    step: int | None = None
    filled: bool = False
    """Whether the weights filled a buffer exactly at the checkpoint before, and do not now."""

    @property
    def trained(self) -> dict[str, TensorEvidence]:
        """The weights that changed since the checkpoint before, or all without one; equal ones count once."""
        chosen: dict[str, TensorEvidence] = {}
        digests: set[str] = set()
        for name, tensor in self.tensors.items():
            past = self.before.get(name) if self.before is not None else None
            still = self.before is not None and (past is None or past.digest == tensor.digest)
            if (
                still
                or tensor.info.skip
                or tensor.info.dtype not in WEIGHT_DTYPES
                or tensor.digest in digests
            ):
                continue
            digests.add(tensor.digest)
            chosen[name] = tensor
        return chosen


def kind_of(name: str) -> str:
    """Return a name without its numbers: weights of one kind are trained alike.

    >>> kind_of("layers.3.mlp.experts.12.w1")
    'layers.#.mlp.experts.#.w#'
    """
    return _DIGITS.sub("#", name)


def coverage_facets(covered: Covered) -> Iterator[Facet]:
    """Yield the weights without moments: those of which others of their kind have some, or by count.

    Without an earlier checkpoint they may be frozen, which is said.
    """
    if any(optimizer.odd for optimizer in covered.optimizers) or not any(
        optimizer.elements for optimizer in covered.optimizers
    ):
        return
    if any(optimizer.flat for optimizer in covered.optimizers):
        yield from _by_count(covered)
        return
    named = all(optimizer.named for optimizer in covered.optimizers)
    lost = _lost_by_name(covered) if named else _lost_by_shape(covered)
    if not lost or (covered.before is None and not named):
        return
    kinds = Counter(map(kind_of, lost))
    alike = sum(kind_of(name) in kinds for name in covered.trained)
    certain = named or len(lost) == alike
    what = _named(lost) if certain else f"{len(lost):,} of {alike:,} weights like {lost[0]}"
    yield _facet(covered, f"weights without moments: {what}")


def _facet(covered: Covered, why: str) -> Facet:
    if covered.before is None:
        return Facet("moments", MISSING, f"{why}: frozen, or lost", unsure=True)
    why += f", although they changed since step {covered.step:,}"
    return Facet("moments", MISSING, why, "moments-missing")


def _named(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names):,} ({listed(list(names), most=2)})"


def _lost_by_name(covered: Covered) -> list[str]:
    """Return the weights without moments of which others of their kind have some."""
    having = {
        name for names in covered.names for candidates in names.candidates.values() for name in candidates
    }
    kinds = set(map(kind_of, having))
    return [name for name in covered.trained if name not in having and kind_of(name) in kinds]


def _lost_by_shape(covered: Covered) -> list[str]:
    """Return as many matrices of a shape as have no moments, unless whole kinds of names explain it."""
    counts: Counter[tuple[int, ...]] = Counter()
    for optimizer in covered.optimizers:
        counts.update(
            parameter.shape for parameter in optimizer.parameters.values() if parameter.shape is not None
        )
    alike: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for name, tensor in covered.trained.items():
        if len(tensor.info.shape) > 1:  # vectors may be running means
            alike[tensor.info.shape].append(name)
    lost: list[str] = []
    for shape, names in alike.items():
        sizes = list(Counter(map(kind_of, names)).values())
        if 0 < counts[shape] < len(names) and counts[shape] not in _sums(sizes):
            lost += sorted(names)[: len(names) - counts[shape]]
    return lost


def _sums(sizes: Sequence[int]) -> set[int]:
    """Return what some of the sizes may add up to."""
    sums = {0}
    for size in sizes:
        sums |= {size + total for total in sums}
    return sums


def _by_count(covered: Covered) -> Iterator[Facet]:
    """Hold the number of elements with moments against that of the weights; padding can only add to it."""
    held = sum(optimizer.elements for optimizer in covered.optimizers)
    weights = sum(math.prod(tensor.info.shape) for tensor in covered.trained.values())
    if covered.filled:
        why = (
            f"the weights no longer fill the buffer of moments ({held:,} values), as at step {covered.step:,}"
        )
        yield Facet("moments", MISSING, why, "moments-missing")
        return
    if held >= weights:
        return
    what = _experts(covered.trained, weights - held)
    verb = "changed" if covered.before is not None else "are there"
    why = (
        f"moments of {held:,} elements, but weights of {weights:,} {verb}: {weights - held:,} have none{what}"
    )
    if covered.before is None:
        yield Facet("moments", MISSING, f"{why}: frozen, or lost", unsure=True)
    else:
        yield Facet("moments", MISSING, f"{why} (since step {covered.step:,})", "moments-missing")


def _experts(trained: Mapping[str, TensorEvidence], lost: int) -> str:
    """Say which experts hold as many elements as are missing, if some do."""
    sizes: dict[str, int] = defaultdict(int)
    for name, tensor in trained.items():
        match = re.search(r"experts?\.(?:\w+\.)*?(\d+)", name) if _EXPERT.search(name) else None
        if match is not None:
            sizes[match[1]] += math.prod(tensor.info.shape)
    if not sizes or len(set(sizes.values())) != 1:
        return ""
    size = next(iter(sizes.values()))
    count = round(lost / size)
    if not 0 < count <= len(sizes) or abs(lost - count * size) > _PADDED * size:
        return ""
    return f", as many as {count} of {len(sizes):,} experts hold"
