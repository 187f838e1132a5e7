"""Does the shape of the loss surface follow the loss beyond the step? A small study over training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from toposcope.analysis.analysis import analyze
from toposcope.analysis.lines import curve
from toposcope.probes.landscape.options import RULE, LandscapeOptions
from toposcope.probes.landscape.study import study_of_texts
from toposcope.sources import open_series
from toposcope.store import Store
from toposcope.studies.sections import Section

OPTIONS = LandscapeOptions(batches=2, seeds=2, eigenvalues=3, products=60, vectors=6, steps=20)
"""Two batches and two direction seeds: four surfaces of each range at every checkpoint."""
CHECKPOINTS = 14
"""Above the twelve that the test on innovations needs."""
QUESTIONS = (
    ("surface/minima", "minima"),
    ("surface/average_persistence", "average persistence"),
    ("curvature/top_eigenvalue", "top eigenvalue"),
    ("sharpness/critical_sharpness", "critical sharpness"),
)


def log_steps(steps: list[int], count: int = CHECKPOINTS) -> list[int]:
    """Return `count` of the steps, the first and the last among them, about evenly on log(1 + step).

    >>> log_steps([0, 10, 20, 30, 40, 80, 160], 4)
    [0, 10, 40, 160]
    """
    ordered = sorted(steps)
    if len(ordered) <= count:
        return ordered
    places = np.log1p(np.array(ordered, dtype=float) / max(ordered[1], 1))
    wanted = np.linspace(places[0], places[-1], count)
    chosen: list[int] = []
    for target in wanted:
        free = [i for i in range(len(ordered)) if i not in chosen]
        chosen.append(min(free, key=lambda i: (abs(places[i] - target), i)))
    return [ordered[i] for i in sorted(chosen)]


def measure(
    runs: str, store: Path, *, texts: str | None = None, jobs: int = 1, quiet: bool = True,
    options: LandscapeOptions = OPTIONS,
) -> Store:  # fmt: skip
    """Measure 14 checkpoints, about evenly spaced in log step, of every run; resumable."""
    from toposcope.sweep import Execution, sweep

    series = open_series(runs)
    kept = log_steps(sorted({at.step for at in series}))
    chosen = open_series(runs, steps=",".join(map(str, kept)))
    study = study_of_texts(options, texts, store)
    study.cost(chosen)
    opened = Store.create(store, recipe=study.recipe())
    sweep(chosen, study.probes(), opened, execution=Execution(jobs=jobs, quiet=quiet, audit=False))
    return opened
