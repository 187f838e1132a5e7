"""Paths: barriers with known answers, alignment that undoes a permutation, a bent curve."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.landscape.conftest import tiny_objective
from toposcope.errors import InputError
from toposcope.landscape.paths import (
    PathLosses,
    aligned,
    barrier,
    bent_control,
    bezier_path,
    linear_path,
)


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
    with pytest.raises(InputError, match="no alignment is known"):
        aligned({"h.0.w": torch.zeros(2, 2)}, {"h.0.w": torch.zeros(2, 2)}, heads=1)


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
