"""What an average of checkpoints answers: an object that prints its answer, with tables and a figure."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.answered import Tables, answered

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from toposcope.core.observations import Finding

PAYS, NONE_PAYS, UNMEASURED = "pays", "none pays", "not measured"
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """A mean difference of losses in pairs over sequences, and its interval."""

    mean: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class WindowLoss:
    """The loss of the average of the last `window` checkpoints, and its difference from the newest one's.

    The interval is of this window alone. That of the best of many is too good: `Average.gain` allows for it.
    """

    window: int
    loss: float
    difference: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Average:
    """An average of checkpoints: printed, it begins with whether it pays.

    `steps` are those of the candidates, the newest first; `window` is how many of them are averaged.
    `gain` is what choosing a window changed, on sequences that did not choose it. `written` is the folder of
    the average, None if nothing was written.
    """

    run: str
    kind: str
    decay: float
    steps: tuple[int, ...]
    windows: tuple[WindowLoss, ...]
    sequences: int
    window: int
    gain: PairedDifference | None = None
    written: Path | None = None

    @property
    def verdict(self) -> str:
        """Return "pays", "none pays" or "not measured"."""
        if self.gain is None:
            return UNMEASURED
        return PAYS if self.window > 1 and self.gain.upper < 0 else NONE_PAYS

    @property
    def ok(self) -> bool:
        """Whether the average is not known to be of no use."""
        return self.verdict != NONE_PAYS

    @property
    def line(self) -> str:
        """The answer in one line."""
        what = f"the average of the last {self.window} checkpoints"
        if self.gain is None:
            return f"{self.run}: {what} was not measured: no model and texts are at hand"
        between = f"{LEVEL:.0%} {self.gain.lower:+.4f} to {self.gain.upper:+.4f}"
        interval = f"{between}, {self.sequences:,} sequences"
        if self.verdict == PAYS:
            return f"{self.run}: {what} pays: the held-out loss changes by {self.gain.mean:+.4f} ({interval})"
        if self.window == 1:
            return f"{self.run}: no window pays: the newest checkpoint has the lowest held-out loss"
        none = f"{self.run}: no window pays: choosing one, {what}, changes the held-out loss by"
        return f"{none} {self.gain.mean:+.4f} ({interval})"

    @property
    def lines(self) -> tuple[str, ...]:
        """The answer, and where the average is."""
        if self.written is not None:
            steps = ", ".join(f"{step:,}" for step in self.steps[: self.window])
            return self.line, f"{self.written} holds it; steps {steps}"
        return (self.line,) if self.ok else (self.line, "nothing was written")

    def to_dict(self) -> dict[str, object]:
        """Return the answer as plain data."""
        return {
            "answer": self.line, "verdict": self.verdict, "ok": self.ok, "run": self.run, "kind": self.kind,
            "decay": self.decay, "steps": list(self.steps), "window": self.window,
            "sequences": self.sequences, "gain": None if self.gain is None else asdict(self.gain),
            "windows": [asdict(window) for window in self.windows],
            "written": None if self.written is None else str(self.written),
        }  # fmt: skip

    @property
    def table(self) -> pd.DataFrame:
        """One row per window: its loss and how it differs from the newest; empty without losses."""
        import pandas as pd

        names = [field.name for field in fields(WindowLoss)]
        return pd.DataFrame([asdict(window) for window in self.windows], columns=names)

    @property
    def tables(self) -> Tables:
        """The table `windows`."""
        return Tables(windows=lambda: self.table)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The one finding: whether a window pays, with its numbers."""
        from toposcope.core.observations import Finding

        return (Finding("average", self.verdict, self.to_dict(), "paired difference of held-out losses"),)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the loss of every window with the interval of its difference, and return the axes."""
        from toposcope.core.drawing.style import NULL, OKABE_ITO, on_axes, say_empty

        with on_axes(ax, 2.6) as ax:
            if not self.windows:
                say_empty(ax, "no loss was measured")
                return ax
            rows = self.table
            reach = [rows["difference"] - rows["lower"], rows["upper"] - rows["difference"]]
            ax.errorbar(rows["window"], rows["difference"], np.abs(reach), fmt="o-", color=OKABE_ITO[0])
            ax.axhline(0.0, color=NULL, linewidth=0.8)
            ax.set_xlabel("checkpoints in the average")
            ax.set_ylabel("held-out loss less the newest's")
        return ax

    def __repr__(self) -> str:
        """Return the lines."""
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        return answered(repr(self), self.table if self.windows else None, self.plot)


@dataclass(frozen=True, slots=True)
class AveragePlan:
    """What an average reads and needs, before it begins."""

    steps: tuple[int, ...]
    read_bytes: int
    memory_bytes: int
    scored: bool

    def __repr__(self) -> str:
        """Return the cost in one line."""
        from toposcope.core.forms import size

        loss = "with a held-out loss of every window" if self.scored else "without a loss"
        return (
            f"{len(self.steps):,} checkpoints ({', '.join(map(str, self.steps))}), {loss}: reads "
            f"{size(self.read_bytes)}, needs about {size(self.memory_bytes)} of memory"
        )
