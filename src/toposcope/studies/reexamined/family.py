"""The runs of the re-examined claims: trained in a scratch folder and measured while they train."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from toposcope.core.outputs import for_writing
from toposcope.recipes import ModelShape, TrainingRecipe
from toposcope.studies.study import FIRST_SEED, StudyCall
from toposcope.topology.clouds import gaussian_twin, principal
from toposcope.training import TrainingStep

Row = dict[str, object]
Measure = Callable[[TrainingStep], Iterable[Row]]
"""Called before each update of a run; yields the rows of this step, none at most steps."""

BASE = TrainingRecipe(
    name="reexamined",
    models=(ModelShape("four-layers", 32, 4, 4),),
    steps=600,
    checkpoint_every=12,
    vocabulary=96,
    context=32,
    batch_size=8,
    heldout_batches=8,
    warmup_steps=30,
)
"""55,000 parameters on 154,000 characters of the built-in corpus; 51 checkpoints, eight seconds of a core."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A set of runs: `recipe` with a run for each seed; `measures` makes a fresh measure for each run.

    `name` names the files of the rows. The same runs serve several claims, so it is not a claim's name.
    """

    name: str
    recipe: TrainingRecipe
    measures: Mapping[str, Callable[[], Measure]]

    def file(self, folder: Path, claim: str) -> Path:
        """Return the file with a claim's rows of these runs."""
        return folder / "rows" / f"{claim}-{self.name}-{self.recipe.models[0].name}.csv"


def with_seeds(recipe: TrainingRecipe, seeds: int) -> TrainingRecipe:
    """Return the recipe with seeds 42, 43, ..."""
    return replace(recipe, seeds=tuple(range(FIRST_SEED, FIRST_SEED + seeds)))


def rows_of(plan: RunPlan, folder: Path, call: StudyCall) -> dict[str, pd.DataFrame]:
    """Return each claim's rows over all runs of a plan; train only the runs without rows in `folder`."""
    kept = {claim: _read(plan.file(folder, claim)) for claim in plan.measures}
    for seed in plan.recipe.seeds:
        missing = [claim for claim, rows in kept.items() if seed not in rows["seed"].to_numpy()]
        if not missing:
            continue
        if not call.quiet:
            call.say(f"training {plan.name}, seed {seed}")
        measured = _measured(replace(plan.recipe, seeds=(seed,)), {c: plan.measures[c]() for c in missing})
        for claim, rows in measured.items():
            kept[claim] = pd.concat([kept[claim], rows.assign(seed=seed)], ignore_index=True)
            _write(kept[claim], plan.file(folder, claim))
    return kept


def _measured(recipe: TrainingRecipe, measures: Mapping[str, Measure]) -> dict[str, pd.DataFrame]:
    """Train one run and return what each measure yields."""
    import torch

    from toposcope.training import train

    rows: dict[str, list[Row]] = {claim: [] for claim in measures}

    def note(event: TrainingStep) -> None:
        for claim, measure in measures.items():
            rows[claim] += [{"step": event.step, **row} for row in measure(event)]
        torch.set_num_threads(1)  # a compiled kernel sets it back; a small step then takes 30 times as long

    with tempfile.TemporaryDirectory() as scratch:
        train(recipe, scratch, on_step=note)
    return {claim: pd.DataFrame(rows_of_claim) for claim, rows_of_claim in rows.items()}


def _read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path) if path.is_file() else pd.DataFrame({"seed": np.zeros(0, int)})


def _write(rows: pd.DataFrame, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows.to_csv(for_writing(path), index=False)


def matrices_of(event: TrainingStep) -> dict[str, np.ndarray]:
    """Return copies of the model's matrices by name."""
    parameters = event.model.named_parameters()
    return {name: value.detach().numpy().copy() for name, value in parameters if value.ndim == 2}


def twin_of(cloud: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return a Gaussian cloud of the same mean and covariance, and so of the same spectrum."""
    points = np.asarray(cloud, float)
    return gaussian_twin(len(points), *principal(points), generator)
