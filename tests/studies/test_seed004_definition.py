"""The preset against its definition written out, and the route that trains its own runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import minimum_spanning_tree

from toposcope.sources import open_series
from toposcope.store import Store
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.weights.presets import preset
from toposcope.sweep import sweep


def _by_definition(W: np.ndarray) -> float:
    """Sum of max|w| - w_e over the maximum spanning tree's edges, over max|w| (n_in + n_out - 1)."""
    size = np.abs(W.astype(np.float64))
    top, (n_out, n_in) = size.max(), W.shape
    row, column = np.divmod(np.arange(W.size), n_in)
    # scipy drops explicit zeros, so the costs top - |w| are moved up by one.
    cost = coo_array((top - size.ravel() + 1.0, (row, n_out + column)), shape=(n_out + n_in,) * 2)
    tree = minimum_spanning_tree(cost.tocsr())
    return float((tree.data - 1.0).sum() / (top * (n_in + n_out - 1)))


@pytest.mark.slow
def test_all_255_checkpoints_have_the_definitions_value(shared_data: Path, tmp_path: Path) -> None:
    series = open_series(str(shared_data / "seed_runs"), split="whole")
    options = preset("seed004")
    store = Store.create(tmp_path / "store", recipe=options.recipe())
    assert sweep(series, weight_probes(["neural_persistence"], options), store).failures == []
    rows = store.features(probe="neural_persistence", feature="neural_persistence")
    means = rows[rows["name"] == "model"].set_index(["run", "step"])["value"]
    assert len(means) == 255
    for checkpoint in series:
        kept = [m.values for m in series.matrices(checkpoint) if "ln" not in m.name and "emb" not in m.name]
        expected = float(np.mean([_by_definition(W) for W in kept]))
        assert means[checkpoint.run, checkpoint.step] == pytest.approx(expected, abs=1e-8)


@pytest.mark.slow
def test_without_runs_the_models_are_trained_first(tmp_path: Path, monkeypatch, capsys) -> None:
    import toposcope.training
    from toposcope.cli.main import main

    whole = toposcope.training.train

    def short(recipe, out, *, overrides, **options):
        less = {"steps": 48, "checkpoint_every": 4, "warmup_steps": 4, "batch_size": 8}
        return whole(recipe, out, overrides={**overrides, **less}, **options)

    monkeypatch.setattr(toposcope.training, "train", short)
    call = ["reproduce", "seed004", "--out", str(tmp_path), "--jobs", "1", "--json"]
    with pytest.raises(SystemExit) as ended:
        main(call)
    output = capsys.readouterr()
    assert ended.value.code == 0, output.err
    sections = {section["title"]: section["rows"] for section in json.loads(output.out)["sections"]}
    first = sections["Table 1: models and final loss"]
    assert [row["parameters"] for row in first] == [2936, 7408, 20640, 46368, 97200]
    assert all(row["held-out loss"] is not None for row in first)
    assert (tmp_path / "seed004.md").is_file()
