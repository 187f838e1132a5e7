"""The weight-space study on larger models: trained and measured here, or judged from rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toposcope.core.errors import InputError
from toposcope.core.wording import option
from toposcope.studies.study import CORPUS, SEEDS, Reproduction, StudyCall

if TYPE_CHECKING:
    from toposcope.studies.scale.families import FinishedRun
    from toposcope.studies.sections import Section


def sections(
    call: StudyCall, *, rows: Path | None = None, sizes: str | None = None, seeds: int = 1,
    corpus: str | None = None, device: str = "cpu", seconds: float | None = None, steps: int | None = None,
) -> Sequence[Section]:  # fmt: skip
    """Ask what changes if the weight-space paper's models are up to a thousand times larger.

    Trains a family of 1 to 124 million parameters by one recipe on the text of installed packages, and
    measures 41 checkpoints of each in the loop; no weights are kept. --out receives the rows after each run;
    if it has some already, their runs are not trained again. --rows judges the claims from such a folder.
    """
    from toposcope.studies.scale import page
    from toposcope.studies.scale.rows import read_runs

    if rows is not None:
        runs = read_runs(rows)
        if not runs:
            raise InputError(f"{rows} has no rows of a finished run; this study writes them into its folder")
        return page.sections(runs)
    if call.out is None:
        raise InputError(
            f"without {option('rows')} the models are trained first",
            remedy=f"name a folder with {option('out')}",
        )
    overrides: dict[str, object] = {"corpus": corpus, "models": sizes, "steps": steps}
    runs = _trained(call, call.out, overrides, seeds=seeds, device=device, seconds=seconds)
    if not runs:
        raise InputError(f"no run was finished; give more {option('seconds')}, or fewer {option('sizes')}")
    return page.sections(runs)


def _trained(
    call: StudyCall, folder: Path, overrides: dict[str, object], *, seeds: int, device: str,
    seconds: float | None,
) -> list[FinishedRun]:  # fmt: skip
    """Train what the folder has not, write the rows after each run, and return the finished runs."""
    from toposcope.core.device import require_device
    from toposcope.recipes import load_training_recipe
    from toposcope.studies.scale.families import Clock, shortened, trained_families, with_seeds
    from toposcope.studies.scale.rows import read_runs, write_rows

    require_device(device)
    clock = Clock.of(seconds)
    steps = overrides.pop("steps")
    recipe = load_training_recipe("scale", {key: value for key, value in overrides.items() if value})
    recipe = with_seeds(recipe if steps is None else shortened(recipe, int(str(steps))), seeds)
    runs = read_runs(folder)
    done = [run.run for run in runs]
    for run in trained_families(recipe, clock, device=device, finished=done, say=call.say):
        if run.problem:
            call.say(f"{run.run}: {run.problem}")
        if run.rows:
            write_rows([*runs, run], folder)
        if not run.problem:
            runs.append(run)
    return runs


STUDY = Reproduction(
    "The weight-space paper on larger models",
    "The paper's claims on 1 to 124 million parameters: what changes with size?",
    sections,
    (
        click.option(
            "--rows", type=click.Path(path_type=Path),
            help="Folder of rows that this study wrote; nothing is trained.",
        ),
        click.option("--sizes", help="Sizes to train: 1m,3m,10m,30m,124m.  [default: all]"),
        SEEDS,
        CORPUS,
        click.option("--device", default="cpu", show_default=True, help="cpu or cuda."),
        click.option(
            "--seconds", type=click.FloatRange(min=1),
            help="Longest time; runs that do not fit are shortened or left out.  [default: no limit]",
        ),
        click.option("--steps", type=click.IntRange(min=40), help="Steps of a run.  [default: the recipe's]"),
    ),
)  # fmt: skip
