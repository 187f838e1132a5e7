"""The effect of an adapter on its base: which matrices it changes, by how much, with what rank."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.observations import AuditFinding
from toposcope.core.seeding import rng
from toposcope.files.formats.adapter import (
    MAGNITUDE,
    PEFT,
    adapted,
    is_low_rank,
    is_prompt,
    method_of,
    names_adapter,
)
from toposcope.sources.names import kind_of

if TYPE_CHECKING:
    from toposcope.core.types import Checkpoint
    from toposcope.sources.series import Series

SPARE = 8
"""Columns of the sketch beyond the stated rank; a matrix of higher rank is not a product B A."""
NUMERICAL = 1e-5
"""Singular values below this part of the largest count as zero: products in float32 are off by 1e-7."""


IA3 = "IA3"
SCALES = ".ia3_l"
"""The end of the name of a vector by which IA3 multiplies what a layer returns or takes."""


@dataclass(frozen=True, slots=True)
class AdapterChange:
    """The change of one matrix: scale * B A, or of IA3 the deviation of its factors from 1.

    `norm` is its Frobenius norm and `rank` the number of singular values above 1e-5 of the largest.
    `effective` is the exponential of the entropy of their shares of the sum, and `finite` says whether all
    values are finite. `shape` is the shape of the changed weight, or of IA3 that of the factors.
    """

    name: str
    norm: float
    rank: int
    effective: float
    finite: bool
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AdapterState:
    """The changes of an adapter at one step; `stated` names its kind, rank and base, `r` is the rank.

    `method` is its kind: LoRA, rsLoRA, DoRA, AdaLoRA, IA3, or one of prompts, which changes no matrix.
    `others` counts the tensors that it stores in full. `unread` says why its effect is not known.
    """

    run: str
    step: int
    stated: str
    r: int
    changes: tuple[AdapterChange, ...]
    method: str = "LoRA"
    others: int = 0
    unread: str = ""

    @property
    def active(self) -> tuple[AdapterChange, ...]:
        """The changes that are finite and not zero."""
        return tuple(change for change in self.changes if change.finite and change.norm > 0)

    @property
    def faults(self) -> tuple[AuditFinding, ...]:
        """What is wrong with the adapter: nothing is changed, or values are not finite."""
        broken = [change.name for change in self.changes if not change.finite]
        findings = [
            AuditFinding(self.run, self.step, name, "holds NaN or infinite values", fault="non-finite")
            for name in broken
        ]
        # DoRA's magnitudes may have been trained although B A is zero, and so may tensors stored in full
        is_all = self.method != "DoRA" and not self.others
        if self.changes and not broken and not self.active and is_all:
            several, alone = (
                ("factors are 1", "factor is 1") if self.method == IA3 else
                ("changes B A are zero", "change B A is zero")
            )  # fmt: skip
            count = len(self.changes)
            what = f"all {count:,} {several}" if count > 1 else f"its only {alone}"
            text = (
                f"{what}, so the adapter does nothing; was it saved "
                "before the first step, or trained with a learning rate of zero?"
            )
            findings.append(AuditFinding(self.run, self.step, "", text, fault="zero-adapter"))
        return tuple(findings)

    @property
    def shares(self) -> dict[str, float]:
        """The share of each kind of matrix in the squared norm of all changes, largest first."""
        squares: dict[str, float] = defaultdict(float)
        for change in self.active:
            squares[kind_of(change.name)] += change.norm**2
        total = sum(squares.values())
        ordered = sorted(squares.items(), key=lambda item: -item[1])
        return {kind: value / total for kind, value in ordered}

    @property
    def sentence(self) -> str:
        """What the adapter does, in one sentence.

        >>> change = AdapterChange("layers.0.q_proj.weight", 0.5, 8, 6.2, True)
        >>> AdapterState("a", 0, "LoRA r=8 on base", 8, (change,)).sentence
        'LoRA r=8 on base: 1 of 1 matrices is changed, with an effective rank of 6.2 of 8 (median); q_proj \
has 100% of the change'
        """
        if self.unread:
            return f"{self.stated}: {self.unread}"
        active = self.active
        if not active:
            count = len(self.changes)
            which = f"none of its {count:,} matrices has" if count != 1 else "its only matrix has no"
            return f"{self.stated}: {which}{' a' if count != 1 else ''} finite, nonzero change"
        parts = ", ".join(f"{kind} {share:.0%}" for kind, share in list(self.shares.items())[1:3])
        kind, share = next(iter(self.shares.items()))
        more = f" ({parts})" if parts else ""
        verb = "is" if len(active) == 1 else "are"
        by = "by factors"
        if self.method != IA3:
            middle = float(np.median([change.effective for change in active]))
            by = f"with an effective rank of {middle:.2g} of {self.r} (median)"
        also = f"; {self.others:,} more are stored in full" if self.others else ""
        return (
            f"{self.stated}: {len(active):,} of {len(self.changes):,} matrices {verb} changed, {by}; "
            f"{kind} has {share:.0%} of the change{more}{also}"
        )


def adapter_state(series: Series, checkpoint: Checkpoint) -> AdapterState | None:
    """Return what an adapter changes; None for a whole model, whose weights are not read."""
    if not adapted(series.config(checkpoint.run)) and not _of_adapter(series, checkpoint.run):
        return None
    with series.reading(checkpoint) as reader:
        facts = reader.facts()
        config = series.config(checkpoint.run) or facts.config
        if not adapted(config):
            return None
        changes, others, unread = [], 0, ""
        for name, info in reader.infos().items():
            change = None
            if name in facts.changes and not info.skip:
                change = _change(name, reader.read(name), facts.changes[name])
            elif name.endswith(SCALES):
                change = _factors(f"{name.removesuffix(SCALES)}.weight", reader.read(name))
            elif name.startswith(PEFT) and MAGNITUDE not in name:
                others += 1
            if change is not None:
                changes.append(change)
    method, r = method_of(config), max(facts.changes.values(), default=0)
    if is_prompt(config):
        unread = "it changes no matrix; its vectors go before the input, or before keys and values"
    elif not is_low_rank(config) and method != IA3:
        unread = f"not looked at: what {method} changes is not computed; merge it into its model with PEFT"
    return AdapterState(
        checkpoint.run, checkpoint.step, adapted(config), r, tuple(changes), method, others, unread
    )


def _of_adapter(series: Series, run: str) -> bool:
    return any(recorded.run == run and names_adapter(recorded.family) for recorded in series.runs)


def _factors(name: str, values: np.ndarray) -> AdapterChange:
    """Return how far IA3's factors of one matrix are from 1; they have no rank."""
    away = values.astype(np.float64) - 1
    norm = float(np.linalg.norm(away))
    return AdapterChange(name, norm, 0, float("nan"), bool(np.isfinite(away).all()), away.shape)


def _change(name: str, values: np.ndarray, r: int) -> AdapterChange | None:
    """Return one matrix's change; None if its rank is higher, as for a matrix that is stored in full."""
    matrix = values.astype(np.float64)
    if not np.isfinite(matrix).all():
        return AdapterChange(name, float("nan"), 0, float("nan"), False, matrix.shape)
    norm = float(np.linalg.norm(matrix))
    if norm == 0:
        return AdapterChange(name, 0.0, 0, 0.0, True, matrix.shape)
    width = min(r + SPARE, *matrix.shape)
    sketch = matrix @ rng(name="adapter sketch").standard_normal((matrix.shape[1], width))
    basis, _ = np.linalg.qr(sketch)
    singular = np.linalg.svd(basis.T @ matrix, compute_uv=False)
    singular = singular[singular > NUMERICAL * singular[0]]
    if len(singular) > r:
        return None
    parts = singular / singular.sum()
    effective = float(np.exp(-(parts * np.log(parts)).sum()))
    return AdapterChange(name, norm, len(singular), effective, True, matrix.shape)
