"""Whether a fine-tune changed anything: an adapter and its base, or two whole models."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from toposcope.core.forms import listed
from toposcope.core.observations import AuditFinding
from toposcope.core.tabular import Tables, answered
from toposcope.files.formats.adapter import PEFT

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from toposcope.core.types import Checkpoint
    from toposcope.sources import Series
    from toposcope.sources.adapter_state import AdapterState

_MODEL = "model."
"""PEFT puts this between `base_model.` and the module name of the base."""
_NAMED = 3
"""The most tensors that a fault names."""


@dataclass(frozen=True)
class AdapterComparison:
    """An adapter and its base: what it changes, how far in parts of the base's weights, and its faults.

    `relative` has for each changed matrix: name, norm, rank, effective_rank, change = ||B A|| / ||W||, NaN
    where the base has no such matrix. `faults` say why the adapter does nothing or cannot be used.
    """

    base: str
    state: AdapterState
    relative: pd.DataFrame
    faults: tuple[AuditFinding, ...]

    @property
    def ok(self) -> bool:
        """Whether the adapter has no fault."""
        return not self.faults

    @property
    def headline(self) -> str:
        """The effect of the adapter in one line, its fault first."""
        if self.faults:
            return f"the adapter has a fault: {in_words(self.faults)}"
        known = self.relative["change"].dropna()
        by = f", by {100 * float(known.median()):.2g}% of the weights at the median" if len(known) else ""
        return f"the adapter changes {self.base}{by}. {self.state.sentence}"

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
            "compared": "adapter", "line": self.headline, "ok": self.ok,
            "problems": list(map(str, self.faults)), "headline": self.headline,
            "base": self.base, "adapter": self.state.stated, "r": self.state.r, "shares": self.state.shares,
            "faults": [dataclasses.asdict(one) for one in self.faults],
            "changes": self.relative.to_dict("records"),
        }  # fmt: skip

    def __repr__(self) -> str:
        """Return what the adapter does."""
        return self.headline

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

    series, checkpoint = base
    norms: dict[str, float] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for matrix in series.stored_matrices(checkpoint):
        if not matrix.fault:
            norms[matrix.name] = float(np.linalg.norm(matrix.values.astype(np.float64)))
            if matrix.values.dtype.kind not in "biu":  # packed numbers have a shape of their own
                shapes[matrix.name] = matrix.values.shape
    misfits = [one for one in state.changes if not _fits(one.shape, shapes.get(in_base(one.name)))]
    unfit = {one.name for one in misfits}
    rows = [
        (one.name, one.norm, one.rank, one.effective,
         _part(one.norm, None if one.name in unfit else norms.get(in_base(one.name))))
        for one in state.changes
    ]  # fmt: skip
    relative = pd.DataFrame(rows, columns=["name", "norm", "rank", "effective_rank", "change"])
    relative = relative.sort_values("change", ascending=False, kind="stable", ignore_index=True)
    faults = [*state.faults, *not_finite(*base)]
    known = {one.tensor for one in faults}
    faults += [one for one in not_finite(*adapter) if one.tensor not in known]
    if not relative["change"].notna().any() and not faults:
        text = f"none of its {len(rows):,} matrices is one of {label}: is it an adapter of another base?"
        if misfits:
            mine, theirs = misfits[0].shape, shapes[in_base(misfits[0].name)]
            text = (
                f"none of its {len(rows):,} matrices fits {label}: {in_base(misfits[0].name)} is changed by "
                f"{mine[0]} x {mine[1]} numbers and has {theirs[0]} x {theirs[1]}; is it an adapter of "
                "another base?"
            )
        faults.append(AuditFinding(state.run, state.step, "", text, fault="other-base"))
    return AdapterComparison(label, state, relative, tuple(faults))


def in_base(name: str) -> str:
    """Return the name that PEFT's name of a matrix has in the base.

    >>> in_base("base_model.model.layers.0.fc.weight")
    'layers.0.fc.weight'
    """
    return name.removeprefix(PEFT).removeprefix(_MODEL)


def _fits(change: tuple[int, ...], weight: tuple[int, ...] | None) -> bool:
    """Return whether a change can be added to a weight, which some models store transposed.

    >>> _fits((4, 8), (4, 8)), _fits((4, 8), (8, 4)), _fits((4, 8), (4, 16)), _fits((4, 8), None)
    (True, True, False, True)
    """
    return weight is None or sorted(change) == sorted(weight)


def _part(norm: float, whole: float | None) -> float:
    return norm / whole if whole else float("nan")


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
    (one, a), (other, b) = first, second
    if one.content_hash(a) != other.content_hash(b):
        return []
    text = "holds exactly the weights of the first: nothing was trained, or the wrong file was saved"
    return [AuditFinding(b.run, b.step, "", text, fault="equals-base")]


def in_words(faults: tuple[AuditFinding, ...]) -> str:
    """Return the first faults in one line.

    >>> in_words((AuditFinding("a", 1, "fc", "holds NaN", fault="non-finite"),))
    'fc holds NaN'
    """
    said = [f"{one.tensor} {one.message}".strip() for one in faults]
    return listed(said, "; ", most=_NAMED, last="; ")
