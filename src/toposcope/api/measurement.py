"""A measurement: its checkpoints, probes and recipe, its plan, and its sweep."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.core.errors import InputError
from toposcope.core.forms import and_more

if TYPE_CHECKING:
    from toposcope.api.plans import Plan
    from toposcope.core.types import Checkpoint
    from toposcope.subjects.base import Probe
    from toposcope.subjects.measurement import Prepared
    from toposcope.sweep import Execution, SweepReport
    from toposcope.sweep.expect import Expectation
    from toposcope.sweep.loop import Sweepable
    from toposcope.sweep.worker import Failure


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a sweep measures, and the recipe that its store states."""

    series: Sweepable
    probes: Sequence[Probe]
    recipe: Mapping[str, object]

    @classmethod
    def of(cls, prepared: Prepared, further: Sequence[Probe] = ()) -> Measurement:
        """Return the measurement that a subject prepared, with further probes."""
        return cls(prepared.series, [*prepared.probes, *further], prepared.recipe)

    def plan(self, *, execution: Execution) -> Plan:
        """Return the cost of the sweep and what its result can show; of weights only headers are read.

        Of runs that keep a training's state, a sample of the last two checkpoints is read, too.

        Raises
        ------
        InputError
            When the series holds no checkpoint.
        """
        from toposcope.api.plans import Plan, problems_of_links, tells
        from toposcope.sources.audit import resumptions
        from toposcope.sources.series import Series
        from toposcope.sweep.expect import expect
        from toposcope.sweep.plan import by_run

        runs = by_run(self.series)
        if not runs:
            raise InputError("the series has no checkpoint; give a folder that contains some")
        cost = expect(self.series, runs, self.probes, shard=execution.shard, jobs=execution.jobs)
        steps = {run: [at.step for at in checkpoints] for run, checkpoints in runs.items()}
        brings_a_loss = any(feature.target for probe in self.probes for feature in probe.features)
        losses = None if brings_a_loss else {run: self._with_loss(run, of) for run, of in steps.items()}
        linked = problems_of_links(self.series, runs)
        resume = resumptions(self.series) if isinstance(self.series, Series) else ()
        told = tells(steps, self.series.runs, losses=losses)
        return Plan(cost, told, linked, resume, self._beside(runs))

    def _beside(self, runs: Mapping[str, Sequence[Checkpoint]]) -> tuple[str, ...]:
        """Return what the probes read beside the weights, and where it is not there."""
        from toposcope.sources.series import Series

        if not isinstance(self.series, Series):
            return ()
        places = [
            self.series.place(checkpoint) for checkpoints in runs.values() for checkpoint in checkpoints
        ]
        last = [self.series.place(checkpoints[-1]) for checkpoints in runs.values()]
        read = [next((text for place in last if (text := probe.beside(place))), "") for probe in self.probes]
        lines = [f"read beside the weights of a checkpoint: {text}" for text in read if text]
        return (*lines, *(text for probe in self.probes if (text := probe.hint(places))))

    def _with_loss(self, run: str, steps: Sequence[int]) -> int:
        """Return at how many of these steps a run has a loss; none where its log cannot be read."""
        try:
            metrics = self.series.metrics(run)
        except InputError:
            return 0
        columns = [column for column in ("loss", "heldout_loss") if column in metrics]
        return (
            len(set(steps) & set(metrics.loc[metrics[columns].notna().any(axis=1), "step"])) if columns else 0
        )

    def carry_out(
        self,
        out: str | Path,
        *,
        execution: Execution,
        agree: Callable[[Expectation], None] | None = None,
    ) -> SweepReport:
        """Measure what the store at `out` lacks; `agree` is called first, as in `toposcope.sweep.sweep`.

        Raises
        ------
        InputError
            With the cause, when the sweep could not begin, or every unit failed for the same cause; a store
            made for it is removed.
        """
        from toposcope.store import Store
        from toposcope.sweep import sweep

        execution.check()
        place = StorePlace.of(Path(out), alone=execution.shard.count == 1)
        store = Store.create(out, recipe=dict(self.recipe))
        try:
            report = sweep(self.series, list(self.probes), store, execution=execution, agree=agree)
            refuse_nothing(report)
        except InputError:
            place.take_back()
            raise
        return report


@dataclass(frozen=True, slots=True)
class StorePlace:
    """The place of a store, and whether anything was there before this call.

    `alone` is true if no other launcher may be writing to the store.
    """

    path: Path
    fresh: bool
    alone: bool = True

    @classmethod
    def of(cls, path: Path, *, alone: bool = True) -> StorePlace:
        """Look at a path before the store is made."""
        return cls(path, not path.is_dir() or not any(path.iterdir()), alone)

    def take_back(self) -> None:
        """Remove a store that was made after this look and holds nothing that was measured."""
        from toposcope.core.types import Status
        from toposcope.store import Store

        if self.fresh and self.alone and (Store.open(self.path).features()["status"] == Status.FAILED).all():
            shutil.rmtree(self.path)


def refuse_nothing(report: SweepReport) -> None:
    """Raise an error for a sweep that measured nothing for one cause.

    Raises
    ------
    InputError
        With the cause, when every unit failed for the same one and the store has no other.
    """
    causes = {_cause(failure) for failure in report.failures}
    if report.done or report.skipped or len(causes) != 1:
        return
    first, n = report.failures[0], len(report.failures)
    others = and_more(n - 1, form=" (and {})")
    raise InputError(f"nothing could be measured: run {first.run} step {first.step:,}{others}: {first.note}")


def _cause(failure: Failure) -> str:
    """Return the words of a failure without what names its checkpoint."""
    return re.sub(r"\d+", "#", failure.note.replace(failure.run, "RUN"))
