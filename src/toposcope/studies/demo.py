"""The demo: train five small models, measure their weights, and report, in a few minutes on two cores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.study.onward import RECIPE

if TYPE_CHECKING:
    from toposcope.study.analysis import Analysis

PROBES = ("neural_persistence", "rips", "baselines", "trajectory")
TITLE = "Training report: five small language models"


@dataclass(frozen=True, slots=True)
class Demo:
    """The demo's results (the run folders, the store, the page and its analysis), and what failed."""

    runs: Path
    store: Path
    page: Path
    analysis: Analysis
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every part was done, and nothing is wrong with a run or a checkpoint."""
        return not self.problems and self.analysis.ok


def run_demo(
    out: str | Path,
    *,
    jobs: int = 2,
    overrides: Mapping[str, object] | None = None,
    quiet: bool = False,
    say: Callable[[str], None] = print,
) -> Demo:
    """Train the recipe `demo`, sweep its weights and write the report, all under `out`.

    Every part resumes: what an earlier, interrupted demo finished in the same folder is kept.

    Parameters
    ----------
    out
        Folder that receives `runs/`, `store/` and `report/`.
    jobs
        Number of parallel processes.
    overrides
        Changed values of the training recipe, such as `{"steps": 30, "checkpoint_every": 3}`.
    say
        Called with one line before each part.

    Raises
    ------
    InputError
        If torch is missing, or `out` contains another study.
    """
    from toposcope.core.device import require_device
    from toposcope.training import train

    require_device("cpu")  # before the imports that take seconds
    from toposcope.page import check_target, write_studies
    from toposcope.published.rules import PUBLISHED
    from toposcope.runs import judged
    from toposcope.study.analysis import analysis_of

    out = Path(out)
    runs, store, report = out / "runs", out / "store", out / "report"
    check_target(report)
    say(f"1/3 training the recipe {RECIPE!r} into {runs}")
    trained = train(RECIPE, runs, overrides=overrides, jobs=jobs, quiet=quiet)
    failed = [f"{result.run.run}: {result.problem}" for result in trained if result.status == "failed"]
    say(f"2/3 measuring the weights of every checkpoint into {store}")
    problems = [*failed, *_measure(runs, store, jobs=jobs, quiet=quiet)]
    say("3/3 analysing and writing the report")
    analysis = analysis_of(store, published=PUBLISHED, judge=judged)
    page = write_studies(analysis.studies, report, title=TITLE, quiet=quiet)
    return Demo(runs, store, page, analysis, tuple(problems))


def _measure(runs: Path, store: Path, *, jobs: int, quiet: bool) -> list[str]:
    from toposcope.sources import open_series
    from toposcope.store import Store
    from toposcope.subjects import weight_probes
    from toposcope.subjects.weights import preset
    from toposcope.sweep import Execution, sweep

    options = preset("default")
    series = open_series([str(runs)], split=options.split)
    execution = Execution(jobs=jobs, quiet=quiet)
    opened = Store.create(store, recipe=options.recipe())
    result = sweep(series, weight_probes(list(PROBES), options), opened, execution=execution)
    failed = [f"{unit.run}, step {unit.step:,}, {unit.probe}: {unit.note}" for unit in result.failures]
    return [*failed, *result.problems]
