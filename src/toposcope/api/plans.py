"""The cost of a sweep or a training and what its result can show, before it begins."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from toposcope.core.forms import size
from toposcope.core.repeats import how_often
from toposcope.core.types import Checkpoint, RunRecord
from toposcope.core.wording import option
from toposcope.files.blobs import OUTSIDE
from toposcope.sources.optimizer.resumption import NOT_RESUMABLE, Resumption, lines_of
from toposcope.subjects.snapshot import Filed, SeriesLike

if TYPE_CHECKING:
    from toposcope.recipes import TrainingRecipe
    from toposcope.sweep.expect import Expectation

_SEEDS_FOR_AN_INTERVAL = 3
"""With fewer seeds no interval is given: it would be too wide to say anything."""
_BYTES_PER_NUMBER = 4
_BESIDE_THE_WEIGHTS = 4
"""Memory of a training in multiples of its weights: weights, gradients and Adam's two moments."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A sweep before it begins: its cost, and a line for each question that its result may answer.

    `problems` say of checkpoints that are links why they cannot be read, or that they are one file. `resume`
    says of runs that keep a training's state whether they can be resumed from their newest checkpoint.
    `beside` says what is read beside the weights, and at which checkpoints it is not there.
    """

    expectation: Expectation
    tells: tuple[str, ...]
    problems: tuple[str, ...] = ()
    resume: tuple[Resumption, ...] = ()
    beside: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there is no problem, and no run that cannot be resumed."""
        return not self.problems and all(state.verdict != NOT_RESUMABLE for state in self.resume)

    def as_data(self) -> dict[str, object]:
        """Return the plan as plain data: seconds as the least and the most, memory in bytes."""
        data = asdict(self.expectation)
        del data["each"], data["chosen"]
        seconds, problems = list(self.expectation.seconds_between), list(self.problems)
        resume = [state.to_dict() for state in self.resume]
        return {
            "answer": self.expectation.sentence(), **data, "seconds": seconds, "beside": list(self.beside),
            "tells": list(self.tells), "problems": problems, "resume": resume,
        }  # fmt: skip

    def __repr__(self) -> str:
        """Return cost and memory in the first line, then what else is read, problems, and what it tells."""
        problems = [f"problem: {problem}" for problem in self.problems]
        resume = [f"resume (by a sample): {line}" for line in lines_of(self.resume)]
        return "\n".join([self.expectation.sentence(), *self.beside, *problems, *resume, *self.tells])


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """A training before it begins: its cost and what it can show, but not its time, which is unknown then."""

    runs: Mapping[str, int]
    steps: int
    checkpoints: int
    flop: float
    disk_bytes: int
    memory_bytes: int
    tells: tuple[str, ...]

    def as_data(self) -> dict[str, object]:
        """Return the plan as plain data; `runs` has the parameters of each run."""
        return {"answer": self.line, **asdict(self), "runs": dict(self.runs), "tells": list(self.tells)}

    @property
    def line(self) -> str:
        """Cost, disk and memory in one line."""
        return (
            f"{len(self.runs):,} run{'s' * (len(self.runs) != 1)} of {self.steps:,} steps and "
            f"{self.checkpoints:,} checkpoints: {self.flop:.2g} FLOP, {size(self.disk_bytes)} of weights on "
            f"disk, at least {size(self.memory_bytes)} of memory for each run that trains"
        )

    def __repr__(self) -> str:
        """Return cost, disk and memory in the first line, then what the result will tell."""
        time = "Time: unknown before it starts. The progress line gives it after some steps."
        return "\n".join([self.line, time, *self.tells])


def problems_of_links(series: SeriesLike, runs: Mapping[str, Sequence[Checkpoint]]) -> tuple[str, ...]:
    """Return what is wrong with checkpoints that are links: a line for each run, with their number.

    A link out of the opened folder is not read; links to one file are measured once for each of them.
    """
    lines = []
    for run, checkpoints in runs.items():
        target = {checkpoint: _linked_to(checkpoint.uri) for checkpoint in checkpoints}
        linked = [checkpoint for checkpoint in checkpoints if target[checkpoint]]
        refused = [
            (checkpoint.step, why)
            for checkpoint in linked
            if OUTSIDE in (why := _refusal(series, checkpoint))
        ]
        if refused:
            steps = [step for step, _ in refused]
            often = how_often(len(steps), steps=steps)
            lines.append(f"run {run}: {refused[0][1]}; so {often}" if len(steps) > 1 else refused[0][1])
            continue
        files = (
            Counter(target[checkpoint] or os.path.realpath(checkpoint.uri) for checkpoint in checkpoints)
            if linked
            else Counter()
        )
        same = {file: count for file, count in files.items() if count > 1}
        lines += [
            f"run {run}: {count:,} checkpoints are links to one file, {file}: their weights are the same"
            for file, count in same.items()
        ]
    return tuple(lines)


def _linked_to(uri: str) -> str:
    """Return the file that a checkpoint links to, of a folder that of its largest link; "" without a link."""
    if "://" in uri:
        return ""
    if os.path.islink(uri) or not os.path.isdir(uri):
        return os.path.realpath(uri) if os.path.islink(uri) else ""
    links = [entry.path for entry in os.scandir(uri) if entry.is_symlink() and os.path.exists(entry.path)]
    return os.path.realpath(max(links, key=os.path.getsize)) if links else ""


def _refusal(series: SeriesLike, checkpoint: Checkpoint) -> str:
    """Return why a checkpoint cannot be read; "" where its headers can be."""
    if not isinstance(series, Filed):
        return ""
    try:
        with series.reading(checkpoint) as reader:
            reader.infos()
    except (ValueError, OSError) as error:
        return str(error)
    return ""


def tells(
    checkpoints: Mapping[str, Sequence[int]], runs: Sequence[RunRecord], *, losses: Mapping[str, int] | None
) -> tuple[str, ...]:
    """Return which questions measurements of these checkpoints can answer, a line for each.

    Parameters
    ----------
    checkpoints
        The steps of every run.
    runs
        The runs, with their sizes and seeds.
    losses
        The number of these steps at which each run has a loss; None if the loss is measured as well.

    Examples
    --------
    >>> for line in tells({"a": range(24)}, [RunRecord("a", parameters=3000)], losses={"a": 24}):
    ...     print(line)
    When it changed: yes, 24 checkpoints (a changepoint needs 17 after step 0).
    Beyond the loss: yes, 24 checkpoints with a loss (12 are needed).
    Another seed: nothing, because there is one seed of each size.
    Scaling: no law with a floor, because there is 1 size (4 are needed).
    Forecasts: cannot be scored, because there is 1 run (3 finished ones are needed).
    """
    from toposcope.scaling.power_law import LEAST_SIZES_FOR_FLOOR
    from toposcope.statistics.phases.bends import LEAST_POINTS
    from toposcope.statistics.trends.innovations import LEAST_LENGTH
    from toposcope.study.forecasts.compare import LEAST_RUNS

    most = max((len(steps) for steps in checkpoints.values()), default=0)
    after_0 = max((sum(step > 0 for step in steps) for steps in checkpoints.values()), default=0)
    known_steps = most if losses is None else max(losses.values(), default=0)
    return (
        f"When it changed: {_when(most, dated=after_0 > LEAST_POINTS, least=LEAST_POINTS + 1)}.",
        f"Beyond the loss: {_beyond(known_steps, LEAST_LENGTH)}.",
        f"Another seed: {_seeds(runs)}.",
        f"Scaling: {_scaling(runs, LEAST_SIZES_FOR_FLOOR)}.",
        f"Forecasts: {_forecasts(len(runs), LEAST_RUNS)}.",
    )


def _of(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _when(count: int, *, dated: bool, least: int) -> str:
    return (
        f"{'yes' if dated else 'no'}, {_of(count, 'checkpoint')} (a changepoint needs {least} after step 0)"
    )


def _beyond(count: int, least: int) -> str:
    need = f"({least} are needed)"
    if not count:
        return f"nothing, because no checkpoint has a loss {need}; give a log with {option('losses')}"
    return f"{'yes' if count >= least else 'nothing'}, {_of(count, 'checkpoint')} with a loss {need}"


def _seeds(runs: Sequence[RunRecord]) -> str:
    """Return what can be learned from the seeds of the size that has the most."""
    most = max(Counter((run.family, run.parameters) for run in runs).values(), default=0)
    if most < 2:
        return "nothing, because there is one seed of each size"
    if most < _SEEDS_FOR_AN_INTERVAL:
        return f"how far {most:,} seeds differ, without an interval ({_SEEDS_FOR_AN_INTERVAL} are needed)"
    return f"yes, {most:,} seeds of one size give an interval for another seed"


def _scaling(runs: Sequence[RunRecord], least: int) -> str:
    sizes = len({run.parameters for run in runs if run.parameters > 0})
    if sizes >= least:
        return f"a law with a floor, from {_of(sizes, 'size')} ({least} are needed)"
    there = f"there {'is' if sizes == 1 else 'are'} {_of(sizes, 'size')}" if sizes else "no size is known"
    return f"no law with a floor, because {there} ({least} are needed)"


def _forecasts(runs: int, least: int) -> str:
    if runs >= least:
        return f"can be scored if {least} or more of these {runs:,} runs are finished"
    return (
        f"cannot be scored, because there {'is' if runs == 1 else 'are'} {_of(runs, 'run')} "
        f"({least} finished ones are needed)"
    )


def training_plan(recipe: TrainingRecipe) -> TrainingPlan:
    """Return the cost of training a recipe; only the recipe is read, and nothing is written.

    FLOP are 6 for each parameter and token.
    """
    from toposcope.sweep.expect import PROCESS_BYTES
    from toposcope.training.shapes import GPTShape

    checkpoints = recipe.checkpoint_steps()
    sizes = {
        f"{model.name}-seed{seed}": GPTShape.in_recipe(model, recipe).parameters
        for seed in recipe.seeds
        for model in recipe.models
    }
    runs = [RunRecord(name, recipe.name, count) for name, count in sizes.items()]
    tokens = recipe.steps * recipe.batch_size * recipe.context
    return TrainingPlan(
        sizes, recipe.steps, len(checkpoints), 6.0 * tokens * sum(sizes.values()),
        _BYTES_PER_NUMBER * len(checkpoints) * sum(sizes.values()),
        PROCESS_BYTES + _BYTES_PER_NUMBER * _BESIDE_THE_WEIGHTS * max(sizes.values()),
        tells(dict.fromkeys(sizes, checkpoints), runs, losses=dict.fromkeys(sizes, len(checkpoints))),
    )  # fmt: skip
