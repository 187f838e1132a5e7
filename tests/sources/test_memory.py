"""Series from memory: the same rows as from the files that hold the same tensors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope.core.errors import SourceError
from toposcope.store import Store
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.weights.options import WeightOptions
from toposcope.sweep import Execution, sweep


def states(run: int = 0) -> dict[int, dict[str, np.ndarray]]:
    g = np.random.default_rng(run)
    return {
        step: {
            "layers.0.attn.qkv.weight": g.standard_normal((12, 4)).astype(np.float32),
            "layers.0.mlp.fc1.weight": g.standard_normal((8, 4)).astype(np.float32),
            "ln_f.weight": np.ones(4, np.float32),
        }
        for step in (20, 0, 10)
    }


def rows(series, folder, jobs=1):
    options = WeightOptions(points=8, draws=2, nulls=1)
    store = Store.create(folder, recipe=options.recipe())
    report = sweep(
        series, weight_probes(["cheap"], options), store, execution=Execution(jobs=jobs, quiet=True)
    )
    assert report.failures == []
    keys = ["run", "step", "probe", "name", "role", "layer", "filtration", "feature", "draw"]
    return store.features().sort_values(keys, kind="stable")[[*keys, "value"]].reset_index(drop=True)


@pytest.mark.slow
def test_memory_and_files_give_the_same_rows(tmp_path):
    from safetensors.numpy import save_file

    held = {"one": states(1), "two": states(2)}
    for run, steps in held.items():
        (tmp_path / "runs" / run).mkdir(parents=True)
        for step, tensors in steps.items():
            save_file(tensors, tmp_path / "runs" / run / f"step_{step}.safetensors")
    stored, memory = ts.open_series(tmp_path / "runs"), ts.open_series(held)
    assert [(at.run, at.step) for at in memory] == [(at.run, at.step) for at in stored]
    assert [memory.content_hash(at) for at in memory] == [stored.content_hash(at) for at in stored]
    assert [run.parameters for run in memory.runs] == [run.parameters for run in stored.runs] == [84, 84]
    assert rows(memory, tmp_path / "a").equals(rows(stored, tmp_path / "b"))
    assert rows(memory, tmp_path / "c", jobs=2).equals(rows(stored, tmp_path / "b"))


def test_modules_state_dicts_and_tensors_are_the_same_series():
    torch = pytest.importorskip("torch")
    from toposcope.training.model import GPT
    from toposcope.training.shapes import GPTShape

    module = GPT(GPTShape(vocabulary=11, context=6, width=8, layers=1, heads=2))
    by_module, bare = ts.open_series({5: module}), ts.open_series(module)
    tensors = {k: v for k, v in module.state_dict().items() if k != "head.weight"}  # tied: counted once
    by_state = ts.open_series({5: tensors})
    assert {by_module.content_hash(at) for at in by_module} == {by_state.content_hash(at) for at in by_state}
    assert [at.step for at in bare] == [0]
    assert by_module.runs[0].parameters == module.shape.parameters
    half = ts.open_series({0: {"w": torch.eye(3, dtype=torch.bfloat16)}})
    (matrix,) = half.matrices(next(iter(half)))
    assert matrix.values.dtype.name == "bfloat16"
    np.testing.assert_array_equal(matrix.values.astype(float), np.eye(3))


def test_steps_and_losses_are_chosen_as_for_files(tmp_path):
    (tmp_path / "loss.csv").write_text("step,loss\n0,3.0\n20,2.0\n")
    series = ts.open_series(states(), steps="0,20", losses=tmp_path / "loss.csv")
    assert [at.step for at in series] == [0, 20]
    assert series.metrics("memory")["loss"].tolist() == [3.0, 2.0]
    table = pd.read_csv(tmp_path / "loss.csv")
    assert ts.open_series(states(), losses=table).metrics("memory").equals(series.metrics("memory"))
    with pytest.raises(SourceError, match="losses: has no column for loss"):
        ts.open_series(states(), losses=table[["step"]])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "a dict is not a series; give {step: state_dict}"),
        ({-1: {"w": np.eye(2)}}, "run 'memory' has the step -1; give whole numbers"),
        ({"a": {"x": {"w": np.eye(2)}}}, "run 'a' has the step 'x'"),
        ({0: {"w": [1.0]}}, "run 'memory' step 0 is a dict; give a module or a dictionary of arrays"),
        ({"a": 3}, "run 'a' is a int; give {step: state_dict}"),
    ],
)
def test_what_is_no_series_is_named(given, message):
    import re

    with pytest.raises(SourceError, match=re.escape(message)):
        ts.open_series(given)


def test_a_nan_in_memory_is_found_as_in_a_file():
    broken = states()
    broken[10]["layers.0.mlp.fc1.weight"][0, 0] = np.nan
    series = ts.open_series(broken)
    with pytest.raises(SourceError, match=r"step 10.*fc1"):
        list(series.matrices(series.of_run("memory")[1]))


def test_tensors_computed_from_a_checkpoint_are_a_series_of_their_own():
    series, seen = ts.open_series(states()), []

    def doubled(at):
        seen.append(at.step)
        return {name: 2 * values for name, values in series.tensors(at)}

    twice = series.derived(doubled, lambda at: series.content_hash(at) + "x2", what="doubled")
    assert [at.step for at in twice] == [0, 10, 20]
    assert {twice.content_hash(at) for at in twice}.isdisjoint(series.content_hash(at) for at in series)
    assert seen == []  # the key is known without computing
    first = next(iter(series))
    for one, two in zip(series.matrices(first), twice.matrices(first), strict=True):
        np.testing.assert_array_equal(2 * one.values, two.values)
    assert seen == [0]
