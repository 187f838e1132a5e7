"""Whether a fine-tune changed anything: an adapter and its base, or two whole models."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from toposcope.core.answered import Tables, answered
from toposcope.core.forms import listed
from toposcope.core.observations import AuditFinding
from toposcope.sources.adapter_base import in_base

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from toposcope.core.types import Checkpoint
    from toposcope.sources import Series
    from toposcope.sources.adapter_state import AdapterState

_NAMED = 3
"""The most tensors that a fault names."""


@dataclass(frozen=True)
class AdapterComparison:
    """An adapter and its base: what it changes, how far in parts of the base's weights, and its faults.

    `relative` has for each changed matrix: name, norm, rank, effective_rank, change = ||B A|| / ||W||, NaN
    where the base has no such matrix. `faults` say why the adapter does nothing or cannot be used. `unread`
    are the matrices whose change was not looked at, each with its reason.
    """

    base: str
    state: AdapterState
    relative: pd.DataFrame
    faults: tuple[AuditFinding, ...]
    unread: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the adapter has no fault."""
        return not self.faults

    @property
    def line(self) -> str:
        """The effect of the adapter in one line, its fault first."""
        if self.faults:
            return f"the adapter has a fault: {in_words(self.faults)}"
        if self.state.unread:
            return f"the adapter beside {self.base}: {self.state.sentence}"
        changes = self.relative["change"].dropna()
        by = f", by {100 * float(changes.median()):.2g}% of the weights at the median" if len(changes) else ""
        left = f"; not looked at: {listed(self.unread, '; ', most=1)}" if self.unread else ""
        return f"the adapter changes {self.base}{by}. {self.state.sentence}{left}"

    @property
    def tables(self) -> Tables:
        """`relative`, under the name "changes"."""
        return Tables(changes=lambda: self.relative)

    @property
    def findings(self) -> tuple[AuditFinding, ...]:
        """The faults."""
        return self.faults

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the norm of each matrix's change; return the axes."""
        from toposcope.core.drawing.style import OKABE_ITO, on_axes

        rows = self.relative.sort_values("norm", kind="stable").tail(40)
        with on_axes(ax, max(2.4, 0.24 * len(rows) + 1.0)) as ax:
            ax.barh(rows["name"].astype(str), rows["norm"], color=OKABE_ITO[0])
            ax.set_xlabel("norm of the change")
        return ax

    def figure(self) -> Figure:
        """Draw the same as a figure of its own."""
        from toposcope.core.drawing.style import new_figure

        figure, axes = new_figure(max(2.4, 0.24 * len(self.relative) + 1.0))
        self.plot(axes[0, 0])
        return figure

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "compared": "adapter", "answer": self.line, "ok": self.ok,
            "problems": list(map(str, self.faults)),
            "base": self.base, "adapter": self.state.stated, "r": self.state.r, "shares": self.state.shares,
            "faults": [dataclasses.asdict(fault) for fault in self.faults],
            "changes": self.relative.to_dict("records"), "unread": list(self.unread),
        }  # fmt: skip

    def __repr__(self) -> str:
        """Return what the adapter does."""
        return self.line

    def _repr_html_(self) -> str:
        if self.faults:
            return answered(repr(self), self.relative)
        return answered(repr(self), self.relative, self.plot)


def beside_base(
    base: tuple[Series, Checkpoint], label: str, state: AdapterState, adapter: tuple[Series, Checkpoint]
) -> AdapterComparison:
    """Return an adapter's changes in parts of the weights of its base.

    Parameters
    ----------
    base, adapter
        Each a series and one of its checkpoints.
    label
        Name of the base.
    state
        The state of the adapter: what it changes.
    """
    import pandas as pd

    from toposcope.sources.adapter_base import base_weights
    from toposcope.sources.adapter_effect import effects_on

    with base[0].reading(base[1]) as reader, adapter[0].reading(adapter[1]) as tuned:
        weights = base_weights(reader, *base)
        effects = effects_on(weights, state, tuned)
        shapes = {change.name: weights.shape(change.name) for change in state.changes}
    rows = [(effect.name, effect.norm, effect.rank, effect.effective, effect.relative) for effect in effects]
    relative = pd.DataFrame(rows, columns=["name", "norm", "rank", "effective_rank", "change"])
    relative = relative.sort_values("change", ascending=False, kind="stable", ignore_index=True)
    faults = [*state.faults, *not_finite(*base)]
    tensors = {fault.tensor for fault in faults}
    faults += [fault for fault in not_finite(*adapter) if fault.tensor not in tensors]
    if state.changes and not any(effect.found for effect in effects) and not faults:
        text = f"none of its {len(rows):,} matrices is one of {label}: is it an adapter of another base?"
        misfits = (
            (change, stored) for change in state.changes if (stored := shapes[change.name]) is not None
        )
        if misfit := next(misfits, None):
            mine, theirs = (" x ".join(map(str, shape)) for shape in (misfit[0].shape, misfit[1]))
            text = (
                f"none of its {len(rows):,} matrices fits {label}: {in_base(misfit[0].name)} is changed by "
                f"{mine} numbers and has {theirs}; is it an adapter of another base?"
            )
        faults.append(AuditFinding(state.run, state.step, "", text, fault="other-base"))
    unread = [f"{in_base(effect.name)} ({effect.why})" for effect in effects if effect.why]
    return AdapterComparison(label, state, relative, tuple(faults), tuple(unread))


def not_finite(series: Series, checkpoint: Checkpoint) -> list[AuditFinding]:
    """Return a finding for every tensor of a checkpoint that holds NaN or infinite values."""
    return [
        AuditFinding(
            checkpoint.run, checkpoint.step, name, "holds NaN or infinite values", fault="non-finite"
        )
        for name, values in series.tensors(checkpoint)
        if values.dtype.kind not in "biu" and not np.isfinite(_plain(values)).all()
    ]


def _plain(values: np.ndarray) -> np.ndarray:
    """Return values in a dtype of numpy's own: bfloat16 and float8 as float32."""
    return values if values.dtype.kind in "fc" else values.astype(np.float32)


def equal(first: tuple[Series, Checkpoint], second: tuple[Series, Checkpoint]) -> list[AuditFinding]:
    """Return a finding where two checkpoints hold the same weights, bit for bit."""
    (name, a), (other, b) = first, second
    if name.content_hash(a) != other.content_hash(b):
        return []
    text = "holds exactly the weights of the first: nothing was trained, or the wrong file was saved"
    return [AuditFinding(b.run, b.step, "", text, fault="equals-base")]


def in_words(faults: tuple[AuditFinding, ...]) -> str:
    """Return the first faults in one line.

    >>> in_words((AuditFinding("a", 1, "fc", "holds NaN", fault="non-finite"),))
    'fc holds NaN'
    """
    sentences = [f"{fault.tensor} {fault.message}".strip() for fault in faults]
    return listed(sentences, "; ", most=_NAMED, last="; ")
