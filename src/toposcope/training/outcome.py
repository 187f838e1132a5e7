"""The results of the runs of a recipe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.core.answered import Tables, answered
from toposcope.core.observations import AuditFinding
from toposcope.core.types import RunRecord

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class TrainedRun:
    """The result of one run: `status` is "trained", "skipped" (it was already finished) or "failed".

    `loss` and `heldout_loss` are those of the last step, None if the run failed; `problem` says why.
    """

    run: RunRecord
    folder: Path
    status: str
    loss: float | None = None
    heldout_loss: float | None = None
    problem: str = ""


@dataclass(frozen=True)
class Trained:
    """The runs of a recipe, in order: a sequence of `TrainedRun`, printed as a line for each.

    >>> run = RunRecord("tiny-seed1", family="gpt", parameters=2936, seed=1)
    >>> made = Trained((TrainedRun(run, Path("runs/tiny-seed1"), "trained", 2.5, 2.75),))
    >>> len(made), made[0].status, made
    (1, 'trained', 1 run: 1 trained
    tiny-seed1: trained, loss 2.5, held-out loss 2.75, in runs/tiny-seed1)
    """

    runs: tuple[TrainedRun, ...]

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self.runs)

    def __getitem__(self, place: int) -> TrainedRun:
        """Return one of the runs."""
        return self.runs[place]

    def __iter__(self) -> Iterator[TrainedRun]:
        """Iterate over the runs."""
        return iter(self.runs)

    @property
    def tables(self) -> Tables:
        """The runs, one line each, and the metrics of all their steps, with the columns of a store."""
        return Tables(runs=self._lines, metrics=self._metrics)

    @property
    def findings(self) -> tuple[AuditFinding, ...]:
        """The runs that failed, and why."""
        return tuple(
            AuditFinding(run.run.run, None, "", run.problem, fault="failed")
            for run in self.runs
            if run.status == "failed"
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the training loss of every run, and return the axes."""
        from toposcope.core.drawing.loss_curves import draw_losses

        return draw_losses(self._metrics(), self._lines(), ax)

    def __repr__(self) -> str:
        """Return the number of runs by status, then a line for each."""
        counts = {status: sum(run.status == status for run in self) for status in _STATUSES}
        counted = ", ".join(f"{n} {status}" for status, n in counts.items() if n)
        first = f"{len(self):,} run{'s' * (len(self) != 1)}: {counted or 'no run requested'}"
        return "\n".join([first, *(_line(run) for run in self)])

    def _repr_html_(self) -> str:
        return answered(repr(self).splitlines()[0], self._lines())

    def _lines(self) -> pd.DataFrame:
        import pandas as pd

        rows = [
            (run.run.run, run.run.family, run.run.parameters, run.run.seed, run.status, run.loss,
             run.heldout_loss, run.problem or str(run.folder))
            for run in self
        ]  # fmt: skip
        return pd.DataFrame(rows, columns=_COLUMNS)

    def _metrics(self) -> pd.DataFrame:
        import pandas as pd

        from toposcope.sources.layout import RunFolder
        from toposcope.store.schema import METRICS

        parts = [path for run in self for *_, path in RunFolder(run.folder).metrics_parts()]
        tables = [pd.read_parquet(path) for path in parts]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=METRICS.names)


_STATUSES = ("failed", "trained", "skipped")
_COLUMNS = ("run", "family", "parameters", "seed", "status", "loss", "heldout_loss", "folder_or_problem")


def _line(run: TrainedRun) -> str:
    if run.status == "failed":
        return f"{run.run.run}: failed: {run.problem}"
    named = (("loss", run.loss), ("held-out loss", run.heldout_loss))
    loss_texts = [f", {name} {value:.4g}" for name, value in named if value is not None]
    return f"{run.run.run}: {run.status}{''.join(loss_texts)}, in {run.folder}"
