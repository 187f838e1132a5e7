"""Weighted graphs as input of `rips`: missing edges, sparse matrices, and the two common mistakes."""

from __future__ import annotations

import warnings

import gudhi
import numpy as np
import pytest
from scipy import sparse

from toposcope import rips
from toposcope.core.errors import InputError


def graph(seed: int, n: int = 14, share: float = 0.45) -> np.ndarray:
    generator = np.random.default_rng(seed)
    lengths = generator.uniform(0.1, 1, (n, n))
    lengths[generator.random((n, n)) > share] = np.inf
    lengths = np.triu(lengths, 1)
    lengths = np.where(lengths == 0, np.inf, lengths)
    lengths = np.minimum(lengths, lengths.T)
    np.fill_diagonal(lengths, 0)
    return lengths


def reference(lengths: np.ndarray, dim: int, cut: float = np.inf) -> list[tuple[float, float]]:
    """Return the bars of the flag complex by gudhi, edge by edge."""
    tree = gudhi.SimplexTree()
    for i in range(len(lengths)):
        tree.insert([i], 0.0)
        for j in range(i):
            if lengths[i, j] <= min(cut, 1e300):
                tree.insert([j, i], lengths[i, j])
    tree.expansion(dim + 1)
    tree.compute_persistence(persistence_dim_max=True)
    bars = tree.persistence_intervals_in_dimension(dim)
    return sorted((b, d) for b, d in bars if d > b or dim == 0)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("maxdim", [1, 2])
def test_a_graph_with_missing_edges_has_the_diagrams_of_its_flag_complex(seed: int, maxdim: int) -> None:
    lengths = graph(seed, share=(0.15, 0.45, 0.9)[seed % 3])
    for dim, diagram in enumerate(rips(lengths, maxdim, metric="precomputed")):
        found = sorted(zip(diagram.birth.tolist(), diagram.death.tolist(), strict=True))
        np.testing.assert_allclose(np.reshape(found, (-1, 2)), np.reshape(reference(lengths, dim), (-1, 2)))
        assert diagram.truncated_at is None


def test_a_threshold_below_the_longest_edge_truncates() -> None:
    lengths = graph(1)
    for dim, diagram in enumerate(rips(lengths, 1, metric="precomputed", thresh=0.5)):
        found = sorted(zip(diagram.birth.tolist(), diagram.death.tolist(), strict=True))
        np.testing.assert_allclose(
            np.reshape(found, (-1, 2)), np.reshape(reference(lengths, dim, 0.5), (-1, 2))
        )
        assert diagram.truncated_at == 0.5


def test_without_any_edge_every_point_stays_alone() -> None:
    lengths = np.where(np.eye(3, dtype=bool), 0.0, np.inf)
    h0, h1 = rips(lengths, metric="precomputed")
    assert np.isinf(h0.death).all()
    assert len(h0) == 3
    assert len(h1) == 0


@pytest.mark.parametrize("stored", ["both", "upper"])
def test_a_sparse_matrix_is_the_graph_of_its_entries(stored: str) -> None:
    lengths = graph(4)
    entries = np.where(np.isfinite(lengths), lengths, 0.0)
    given = sparse.csr_matrix(entries if stored == "both" else np.triu(entries))
    for sparsely, densely in zip(
        rips(given, metric="precomputed"), rips(lengths, metric="precomputed"), strict=True
    ):
        np.testing.assert_array_equal(sparsely.birth, densely.birth)
        np.testing.assert_array_equal(sparsely.death, densely.death)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d.__setitem__((0, 1), 0.123), "differ: an edge is there in both or in neither"),
        (lambda d: d.__setitem__((2, 2), 1.0), "the diagonal of a distance matrix is 0"),
        (lambda d: d.__setitem__((0, 2), np.nan), "D"),
    ],
)
def test_a_bad_graph_is_refused(change, problem: str) -> None:  # type: ignore[no-untyped-def]
    lengths = np.ones((4, 4))
    np.fill_diagonal(lengths, 0)
    lengths[0, 1] = lengths[1, 0] = np.inf
    change(lengths)
    with pytest.raises(InputError, match=problem):
        rips(lengths, metric="precomputed", name="D")


def test_two_common_mistakes_are_warned_of() -> None:
    points = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.warns(UserWarning, match=r"2 points in 50 dimensions: a row is a point; give X\.T"):
        rips(points.T)
    distances = np.abs(points[:, :1] - points[:, 0])
    with pytest.warns(UserWarning, match="for distances give metric='precomputed'"):
        rips(distances)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rips(points)
        rips(distances, metric="precomputed")
