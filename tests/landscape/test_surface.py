"""Surfaces against one evaluation at a time; directions against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.landscape.conftest import tiny_objective
from tests.models.test_objective import small, windows
from toposcope.core.errors import InputError
from toposcope.models import Batch, Objective
from toposcope.models._pretrained import TransformersModel
from toposcope.models.curvature import HessianProduct
from toposcope.subjects.landscape.geometry import surface as module
from toposcope.subjects.landscape.geometry.directions import (
    hessian_directions,
    random_directions,
    trajectory_directions,
)
from toposcope.subjects.landscape.geometry.lanczos import random_start, top_eigenpairs
from toposcope.subjects.landscape.geometry.surface import Evaluation, sample_surface, symmetric_axis


def expected(objective, directions, axes) -> np.ndarray:
    """Set the weights and evaluate, one point after the other."""
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    moved = objective.parameters + torch.from_numpy(grid) @ directions.vectors.double()
    losses = [objective.at(point).per_sequence_losses() for point in moved]
    return np.stack(losses).reshape(*map(len, axes), len(objective.batch))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_surface_holds_every_sequences_loss_on_the_grid(count: int) -> None:
    objective = tiny_objective()
    directions = random_directions(objective, count, seed=1)
    axes = [symmetric_axis(0.5 + i, 3 + 2 * i) for i in range(count)]
    found = sample_surface(objective, directions, axes)
    assert found.losses.shape == (*(3 + 2 * i for i in range(count)), 6)
    np.testing.assert_allclose(found.losses, expected(objective, directions, axes), rtol=1e-10)
    centre = tuple(len(axis) // 2 for axis in axes)
    assert found.mean[centre] == pytest.approx(objective.loss())
    assert found.finite.all()


@pytest.mark.slow
@pytest.mark.parametrize("evaluation", [Evaluation(together=4), Evaluation(jobs=2)])
def test_how_it_is_evaluated_changes_no_loss(evaluation, monkeypatch) -> None:
    monkeypatch.setattr(module, "TILE", 8)
    objective = tiny_objective(dtype=torch.float32)
    directions = random_directions(objective, 2, seed=1)
    axes = [symmetric_axis(1.0, 5)] * 2
    one = sample_surface(objective, directions, axes).losses
    np.testing.assert_allclose(
        sample_surface(objective, directions, axes, evaluation=evaluation).losses, one, atol=1e-5
    )


@pytest.mark.parametrize("kind", ["gpt2", "neox", "llama"])
def test_transformers_models_have_surfaces(kind: str, capfd) -> None:
    objective = Objective(TransformersModel.of_module(small(kind)), Batch.of(windows()), tokens_at_once=14)
    directions = random_directions(objective, 1, seed=2)
    axes = [symmetric_axis(1.0, 3)]
    found = sample_surface(objective, directions, axes)
    for i, step in enumerate(axes[0]):
        moved = objective.at(objective.parameters + step * directions.vectors[0])
        np.testing.assert_allclose(found.losses[i], moved.per_sequence_losses(), atol=1e-5)
    assert np.ptp(found.mean) > 1e-4
    assert "Warning" not in capfd.readouterr().err


def test_a_stopped_surface_goes_on_where_it_was(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(module, "TILE", 4)
    objective = tiny_objective()
    directions, axes = random_directions(objective, 1, seed=1), [symmetric_axis(1.0, 9)]
    kept = Evaluation(folder=tmp_path)
    calls, plain = [], module.Evaluator.__call__

    def counted(self, points):
        calls.append(len(points))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return plain(self, points)

    monkeypatch.setattr(module.Evaluator, "__call__", counted)
    with pytest.raises(KeyboardInterrupt):
        sample_surface(objective, directions, axes, evaluation=kept)
    found = sample_surface(objective, directions, axes, evaluation=kept)
    assert calls == [4, 4, 1, 1]
    np.testing.assert_allclose(found.losses, expected(objective, directions, axes), rtol=1e-10)
    whole = sample_surface(objective, directions, axes)
    np.testing.assert_array_equal(found.losses, whole.losses)
    tile = next(tmp_path.glob("*/tile_000000.npy"))
    tile.write_bytes(b"damaged")
    again = sample_surface(objective, directions, axes, evaluation=kept)
    assert calls[7:] == [4]
    np.testing.assert_array_equal(again.losses, found.losses)
    other = sample_surface(objective, directions, [symmetric_axis(2.0, 9)], evaluation=kept)
    assert other.digest != found.digest
    assert len(list(tmp_path.iterdir())) == 2


def test_a_loss_that_overflows_is_nan_and_masked() -> None:
    objective = tiny_objective(dtype=torch.float32)
    directions = random_directions(objective, 1, seed=1)
    found = sample_surface(objective, directions, [np.array([-1e38, 0.0, 1.0])])
    assert found.finite.tolist() == [False, True, True]
    assert np.isnan(found.mean[0])
    assert not np.isinf(found.losses).any()


def test_wrong_grids_are_named() -> None:
    objective = tiny_objective()
    directions = random_directions(objective, 2, seed=1)
    with pytest.raises(InputError, match="1 axes for 2 directions"):
        sample_surface(objective, directions, [np.arange(3.0)])
    with pytest.raises(InputError, match="axis 1 is not a row of increasing finite coordinates"):
        sample_surface(objective, directions, [np.arange(3.0), np.array([0.0, np.inf])])
    with pytest.raises(InputError, match="points is 4; give an odd number"):
        symmetric_axis(1.0, 4)
    with pytest.raises(InputError, match="reach is inf"):
        symmetric_axis(float("inf"), 5)


def test_random_directions_have_the_weights_lengths_row_by_row() -> None:
    objective = tiny_objective()
    directions = random_directions(objective, 2, seed=1)
    weights = objective.named(objective.parameters)
    for vector in directions.vectors:
        for name, part in objective.named(vector).items():
            if part.ndim < 2:
                assert not part.any()
            else:
                torch.testing.assert_close(part.norm(dim=1), weights[name].norm(dim=1))
    assert not torch.equal(directions.vectors[0], directions.vectors[1])
    torch.testing.assert_close(random_directions(objective, 2, seed=1).vectors, directions.vectors)
    assert not torch.equal(random_directions(objective, 2, seed=2).vectors, directions.vectors)


def test_along_eigenvectors_the_loss_bends_as_the_unit_says(objective, dense) -> None:
    pairs = top_eigenpairs(HessianProduct(objective), random_start(300, torch.float64), k=2, tolerance=1e-8)
    for rise, change in ((None, 0.5), (1e-6, 1e-6)):
        directions = hessian_directions(pairs, 2, rise=rise)
        for vector, value in zip(directions.vectors, pairs.values, strict=True):
            assert float(0.5 * vector @ dense @ vector) == pytest.approx(np.sign(value) * change, rel=1e-6)
    tiny = hessian_directions(pairs, 1, rise=1e-6)
    line = sample_surface(objective, tiny, [np.array([-1.0, 0.0, 1.0])]).mean
    bend = 0.5 * (line[0] + line[2]) - line[1]
    assert bend == pytest.approx(np.sign(pairs.values[0]) * 1e-6, rel=0.01)


def test_eigenvectors_that_cannot_be_directions_are_named(objective) -> None:
    pairs = top_eigenpairs(
        HessianProduct(objective), random_start(300, torch.float64), k=2, tolerance=1e-12, most=3
    )
    with pytest.raises(InputError, match="has not converged after 3 products"):
        hessian_directions(pairs, 2)
    with pytest.raises(InputError, match="3 directions are needed, but there are 2"):
        hessian_directions(pairs, 3)


def test_a_trajectorys_directions_give_back_its_checkpoints() -> None:
    g = np.random.default_rng(0)
    frame, _ = np.linalg.qr(g.standard_normal((40, 2)))
    places = np.stack([np.linspace(0, 5, 8), np.sin(np.arange(8.0))], axis=1)
    points = [torch.from_numpy(frame @ place + 1.0) for place in places]
    found = trajectory_directions(points, 2)
    vectors = found.directions.vectors
    torch.testing.assert_close(vectors @ vectors.T, torch.eye(2, dtype=torch.float64))
    back = found.centre + torch.from_numpy(found.coordinates) @ vectors
    torch.testing.assert_close(back, torch.stack(points))
    assert found.explained.sum() == pytest.approx(1.0)
    with pytest.raises(InputError, match="do not span 3 directions"):
        trajectory_directions(points, 3)
    with pytest.raises(InputError, match="2 checkpoints span fewer than 2 directions"):
        trajectory_directions(points[:2], 2)


def test_random_walks_explain_what_the_null_says() -> None:
    g = np.random.default_rng(0)
    walk = torch.from_numpy(np.cumsum(g.standard_normal((60, 4000)), axis=0))
    found = trajectory_directions(list(walk), 3)
    np.testing.assert_allclose(found.explained, found.walk, rtol=0.1)
