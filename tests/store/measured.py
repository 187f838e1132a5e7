"""The numbers of a small store, measured by every probe, and the file that holds them fixed.

`python -m tests.store.measured` writes the file anew: only when a probe's measure version rises.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from tests.sweep.conftest import write_run_folder
from toposcope.core.seeding import rng
from toposcope.core.types import Checkpoint
from toposcope.sources import open_series
from toposcope.store import Store
from toposcope.subjects.gradients.probe import gradient_probes
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.representations.options import RepresentationOptions
from toposcope.subjects.representations.probes.sensitivity import SensitivityOptions
from toposcope.subjects.representations.saved_states import SavedFacts, SavedStates, save_states
from toposcope.subjects.representations.study import study_of_saved_states
from toposcope.subjects.weights.options import WeightOptions
from toposcope.sweep import Execution, sweep

FILE = Path(__file__).parent / "measured.csv"
KEY = ["run", "step", "probe", "name", "role", "layer", "filtration", "draw", "feature"]
_SHOWN = ("model", "layers", "pooled", "role", "layers.0.mlp.fc1.weight", "hidden")
_QUIET = Execution(quiet=True, audit=False)


def measure(folder: Path) -> pd.DataFrame:
    """Measure weights, the same as if they were gradients, and states that were kept; return their rows."""
    write_run_folder(folder / "runs" / "one", range(0, 30, 10))
    series = open_series(str(folder / "runs"))
    options = WeightOptions(points=30, draws=2, nulls=2)
    stores = [Store.create(folder / name, recipe={"of": name}) for name in ("weights", "gradients", "states")]
    sweep(series, weight_probes(["all"], options), stores[0], execution=_QUIET)
    few = weight_probes(["neural_persistence", "baselines"], options)
    sweep(series, gradient_probes(few), stores[1], execution=_QUIET)
    kept = _kept(folder / "kept")
    study = study_of_saved_states(
        RepresentationOptions(
            layers="all", components=4, points=20, draws=2, nulls=2, dimension=True, maxdim=2
        ),
        kept,
        grid=SensitivityOptions(components=(2, None), texts=(12, 24), draws=2),
    )
    sweep(kept, study.probes(), stores[2], execution=_QUIET)
    return pd.concat([store.features() for store in stores], ignore_index=True)


def _kept(folder: Path) -> SavedStates:
    facts = SavedFacts("c", "t", {"layers": [0, 1]}, 100, 3.0, 50, ())
    for step in (0, 16, 64):
        states = {
            layer: (1 + step / 20) * rng(name="states", layer=layer).standard_normal((24, 6))
            + rng(name="states", layer=layer, step=step).standard_normal((24, 6))
            for layer in (0, 1)
        }
        found = {layer: values.astype(np.float32) for layer, values in states.items()}
        save_states(folder, Checkpoint("kept", step), found, facts)
    return SavedStates(folder)


def shown(features: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that the file holds: the last step's whole-model values and one matrix's, sorted."""
    last = features["step"] == features.groupby("run")["step"].transform("max")
    known = features["name"].isin(_SHOWN) | (features["probe"] == "sensitivity")
    rows = features.loc[last & known, [*KEY, "value", "status"]]
    rows = rows.assign(layer=rows["layer"].fillna(-1).astype(int), draw=rows["draw"].fillna(-1).astype(int))
    return rows.sort_values(KEY, ignore_index=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        shown(measure(Path(name))).to_csv(FILE, index=False)
