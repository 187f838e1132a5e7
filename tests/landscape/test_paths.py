"""Paths: barriers with known answers, alignment that undoes a permutation, a bent curve."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import toposcope as ts
from tests.landscape.conftest import tiny_objective
from toposcope.core.errors import InputError
from toposcope.subjects.landscape.geometry.paths import (
    PathLosses,
    aligned,
    barrier,
    bent_control,
    bezier_path,
    linear_path,
)
from toposcope.subjects.landscape.geometry.retrain import Retrained, jump_and_retrain
from toposcope.subjects.landscape.options import LandscapeOptions


def test_the_line_holds_the_losses_of_its_ends_and_its_middle() -> None:
    objective = tiny_objective()
    start = objective.parameters
    end = start + 0.3 * torch.randn(len(start), dtype=start.dtype, generator=torch.Generator().manual_seed(1))
    path = linear_path(objective, start, end, points=3)
    for row, point in zip(path.losses, (start, (start + end) / 2, end), strict=True):
        np.testing.assert_allclose(row, objective.at(point).per_sequence_losses())


def test_noise_alone_is_no_barrier_in_most_draws() -> None:
    generator, above = np.random.default_rng(0), 0
    for _ in range(200):
        losses = generator.normal(size=(11, 32))
        above += barrier(PathLosses(np.linspace(0, 1, 11), losses)).low > 0
    assert above <= 12  # one-sided 2.5% of 200, with room for five


@pytest.mark.parametrize(
    ("losses", "message"),
    [(np.zeros((3, 3)), "has 3 sequences"), (np.full((3, 4), np.nan), "is not finite")],
)
def test_a_path_without_an_interval_is_refused(losses, message) -> None:
    with pytest.raises(InputError, match=message):
        barrier(PathLosses(np.linspace(0, 1, 3), losses))


def test_two_points_are_no_path() -> None:
    objective = tiny_objective()
    with pytest.raises(InputError, match="points is 2"):
        linear_path(objective, objective.parameters, objective.parameters, points=2)


def test_alignment_undoes_a_reordering_of_neurons_and_heads() -> None:
    objective = tiny_objective()
    reference = objective.named(objective.parameters)
    moved = {name: value.clone() for name, value in reference.items()}
    for name in ("layers.0.mlp.fc1.bias", "layers.0.attn.qkv.bias"):
        reference[name].normal_(generator=torch.Generator().manual_seed(2))
        moved[name] = reference[name].clone()
    order, swap = torch.randperm(16, generator=torch.Generator().manual_seed(3)), torch.tensor([1, 0])
    moved["layers.0.mlp.fc1.weight"] = moved["layers.0.mlp.fc1.weight"][order]
    moved["layers.0.mlp.fc1.bias"] = moved["layers.0.mlp.fc1.bias"][order]
    moved["layers.0.mlp.fc2.weight"] = moved["layers.0.mlp.fc2.weight"][:, order]
    qkv = moved["layers.0.attn.qkv.weight"].reshape(3, 2, 2, 4)
    moved["layers.0.attn.qkv.weight"] = qkv[:, swap].reshape(12, 4)
    moved["layers.0.attn.qkv.bias"] = moved["layers.0.attn.qkv.bias"].reshape(3, 2, 2)[:, swap].reshape(12)
    moved["layers.0.attn.proj.weight"] = (
        moved["layers.0.attn.proj.weight"].reshape(4, 2, 2)[:, swap].reshape(4, 4)
    )
    assert objective.at(moved).loss() == pytest.approx(objective.at(reference).loss(), rel=1e-12)
    found = aligned(reference, moved, heads=2)
    for name, value in reference.items():
        torch.testing.assert_close(found[name], value)


def test_alignment_of_another_family_is_refused() -> None:
    with pytest.raises(InputError, match="the only models that can be aligned"):
        aligned({"h.0.w": torch.zeros(2, 2)}, {"h.0.w": torch.zeros(2, 2)}, heads=1)


@pytest.mark.slow
def test_a_bent_path_is_lower_than_the_line_it_started_as() -> None:
    objective = tiny_objective()
    noise = torch.randn(
        2, objective.n_parameters, dtype=torch.float64, generator=torch.Generator().manual_seed(4)
    )
    start, end = objective.parameters + 0.5 * noise[0], objective.parameters + 0.5 * noise[1]
    control = bent_control(objective, start, end, steps=30, run="a")
    line, bent = linear_path(objective, start, end), bezier_path(objective, start, control, end)
    assert bent.losses.mean() < line.losses.mean()
    np.testing.assert_allclose(bent.losses[[0, -1]], line.losses[[0, -1]])


@pytest.fixture(scope="module")
def seeds(tmp_path_factory) -> Path:
    """Two seeds of one small model, three checkpoints each."""
    folder, text = tmp_path_factory.mktemp("seeds"), tmp_path_factory.mktemp("corpus") / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 200)
    wanted = {"steps": 4, "checkpoint_every": 2, "models": ["small-7k"], "batch_size": 8, "warmup_steps": 1}
    ts.train("demo", folder, corpus=str(text), overrides=wanted, seeds=[1, 2])
    return folder


SMALL = LandscapeOptions(batches=2, sequences=8, length=8, draws=1, updates=5)


@pytest.mark.slow
def test_barriers_are_rows_of_both_kinds_and_say_what_was_aligned(seeds, tmp_path) -> None:
    store = ts.measure(str(seeds), tmp_path / "s", features="paths", options=SMALL)
    rows = store.features(probe="paths")
    assert set(rows["feature"]) == {"barrier", "barrier_bezier"}
    assert set(rows["draw"]) == {0, 1}
    names = rows.groupby("run")["name"].unique().map(set).to_dict()
    one, two = sorted(names)
    assert names[one] == {"model", "from the first checkpoint"}
    assert names[two] == names[one] | {f"from {one}", f"from {one}, aligned"}
    notes = rows.set_index("name")["note"]
    assert notes[f"from {one}"].str.contains("no alignment was done").all()
    assert notes[f"from {one}, aligned"].str.contains("heads and neurons matched").all()
    assert rows["note"].str.contains(r"95% \[").all()
    assert [study.subject.name for study in ts.analyze(store.path).studies] == ["landscape"]
    before = rows[(rows["name"] == "model") & (rows["feature"] == "barrier")]
    assert sorted(before["step"].unique()) == [2, 4]
    assert before["value"].abs().max() < 0.1  # two updates apart there is no barrier worth the name


def test_training_after_a_jump_lowers_its_loss_and_leaves_a_cloud(seeds, tmp_path) -> None:
    store = ts.measure(str(seeds), tmp_path / "s", features="retrain", options=SMALL)
    rows = store.features(probe="retrain").set_index(["run", "step", "feature"])["value"]
    assert len(rows) == 2 * 3 * 7
    wide = rows.unstack()
    assert (wide["retrain_h0_total"] > 0).all()
    assert (wide["retrain_h0_total_null"] > 0).all()
    assert (wide["retrain_loss"] < wide["retrain_loss_jump"]).all()


def test_the_cloud_of_a_known_return_is_a_line_that_shrinks() -> None:
    jumps, back = np.array([0.5, 1.0]), np.array([1.0, 0.6, 0.2])
    direction = np.array([3.0, 4.0, 0.0], np.float32)
    points = np.float32(jumps[:, None, None] * back[None, :, None] * direction)
    cloud = Retrained(jumps, points, np.zeros((2, 3)))
    np.testing.assert_allclose(cloud.returned(np.zeros(3)), 0.2, rtol=1e-6)
    h0, h1 = cloud.diagrams()
    ending = np.isfinite(h0.death)
    assert float(h0.death[ending].sum()) == pytest.approx(5.0 - 0.5, rel=1e-5)  # the points span .5 to 5
    assert len(h1.birth) == 0
    walk = cloud.null(seed=1)
    np.testing.assert_allclose(
        np.linalg.norm(np.diff(walk.points, axis=1), axis=2), np.linalg.norm(np.diff(points, axis=1), axis=2),
        rtol=1e-4,
    )  # fmt: skip


def test_what_cannot_be_trained_further_is_refused_in_a_line(seeds, tmp_path) -> None:
    weights = {0: {"w": np.ones((4, 4))}, 1: {"w": np.ones((4, 4))}}
    with pytest.raises(InputError, match=r"retrain needs a run of `toposcope\.train"):
        ts.measure(ts.open_series(weights), tmp_path / "s", features="retrain", options=SMALL)
    with pytest.raises(InputError, match="every is 9; give a number between 1 and the 5 updates"):
        jump_and_retrain(None, None, None, np.zeros(1), np.zeros(1), step=0, updates=5, every=9)  # type: ignore[arg-type]
