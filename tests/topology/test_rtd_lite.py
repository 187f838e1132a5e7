"""RTD-Lite against a plain reference, and what it must not depend on."""

from itertools import combinations

import numpy as np
import pytest

from toposcope.core.errors import InputError
from toposcope.topology.rtd_lite import rtd_lite, rtd_lite_matrix, swapped_rtd_lite


def tree_length(weights):
    """Return the length of the minimum spanning tree, by Kruskal's algorithm on plain numbers."""
    part = {i: i for i in range(len(weights))}
    total = 0.0
    for weight, i, j in sorted((weights[i][j], i, j) for i, j in combinations(range(len(weights)), 2)):
        if part[i] != part[j]:
            total += weight
            old = part[i]
            part = {k: part[j] if v == old else v for k, v in part.items()}
    return total


def reference(first, second):
    """Return RTD-Lite from its definition."""
    weights = []
    for cloud in (first, second):
        lengths = [[float(np.sqrt(((a - b) ** 2).sum())) for b in cloud] for a in cloud]
        unit = np.quantile([lengths[i][j] for i, j in combinations(range(len(cloud)), 2)], 0.9)
        weights.append([[x / unit for x in row] for row in lengths])
    least = [[min(x, y) for x, y in zip(*rows, strict=True)] for rows in zip(*weights, strict=True)]
    return (tree_length(weights[0]) + tree_length(weights[1])) / 2 - tree_length(least)


def test_rtd_lite_equals_a_plain_reference_on_200_pairs():
    generator = np.random.default_rng(0)
    for pair in range(200):
        n = int(generator.integers(2, 14))
        first = generator.normal(size=(n, int(generator.integers(1, 6))))
        second = generator.standard_t(2, size=(n, int(generator.integers(1, 6))))
        if pair % 4 == 0:  # ties: points of a grid, each of them different in one coordinate
            first = np.column_stack([np.arange(n), generator.integers(0, 3, n)]).astype(float)
        assert rtd_lite(first, second) == pytest.approx(reference(first, second), rel=1e-9, abs=1e-9)


def test_rotating_moving_and_scaling_one_cloud_changes_nothing():
    generator = np.random.default_rng(1)
    first, second = generator.normal(size=(2, 12, 3))
    turned = np.linalg.qr(generator.normal(size=(3, 3)))[0]
    assert rtd_lite(first, 7 * second @ turned + 5) == pytest.approx(rtd_lite(first, second))
    assert rtd_lite(first, 7 * first @ turned + 5) == pytest.approx(0.0, abs=1e-9)
    assert rtd_lite(first, second) == rtd_lite(second, first) > 0


def test_the_matrix_has_every_pair():
    clouds = np.random.default_rng(2).normal(size=(3, 8, 2))
    matrix = rtd_lite_matrix(list(clouds))
    assert matrix[0, 2] == matrix[2, 0] == rtd_lite(clouds[0], clouds[2])
    assert not matrix.diagonal().any()


def test_swapped_rows_belong_to_the_other_cloud():
    first, second = np.random.default_rng(3).normal(size=(2, 8, 2))
    joined = np.concatenate([first, second])
    between = np.linalg.norm(joined[:, None] - joined[None], axis=2)
    kept = np.array([[True] * 8, [True, False] * 4])
    mixed = np.where(kept[1][:, None], first, second), np.where(kept[1][:, None], second, first)
    wanted = [rtd_lite(first, second), rtd_lite(*mixed)]
    assert swapped_rtd_lite(between, kept) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("first", "second", "word"),
    [
        (np.eye(3), np.eye(4), "3 to 4 rows"),
        (np.zeros((4, 2)), np.eye(4), "nine in ten distances are 0"),
        (np.zeros((1, 2)), np.zeros((1, 2)), "one row"),
        (np.full((3, 2), np.nan), np.eye(3), "not finite"),
    ],
)
def test_bad_clouds_are_refused_in_one_line(first, second, word):
    with pytest.raises(InputError, match=word):
        rtd_lite(first, second)
