"""A cycle for each H1 class: closed, simple, through the birth edge, and independent of older cycles."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from scipy.sparse.csgraph import dijkstra

from toposcope import rips
from toposcope.core.errors import InputError
from toposcope.core.types import Diagram
from toposcope.topology import bottleneck, rips_batch
from toposcope.topology.clouds import distance_matrix


def circle(n: int, seed: int, centre: float = 0.0, noise: float = 0.02) -> np.ndarray:
    generator = np.random.default_rng(seed)
    angles = np.sort(generator.uniform(0, 2 * np.pi, n))
    points = np.column_stack([np.cos(angles) + centre, np.sin(angles)])
    return points + noise * generator.standard_normal(points.shape)


def sides(cycle: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the edges of a cycle, the birth edge first."""
    return [(cycle[at - 1], cycle[at]) for at in range(len(cycle))]


def assert_cycles(h1: Diagram, distances: np.ndarray) -> None:
    """Every cycle is simple, its closing edge is as long as the birth, and no other edge is longer."""
    assert h1.cycles is not None
    assert len(h1.cycles) == len(h1)
    single = distances.astype(np.float32)  # what the kernel compares
    for birth, cycle in zip(h1.birth, h1.cycles, strict=True):
        assert len(cycle) == len(set(cycle)) >= 4  # three would be filled by their triangle
        lengths = [single[edge] for edge in sides(cycle)]
        assert distances[sides(cycle)[0]] == birth
        assert max(lengths) == np.float32(birth)


def turns(points: np.ndarray, cycle: tuple[int, ...], centre: float) -> float:
    away = points[[*cycle, cycle[0]]] - [centre, 0.0]
    return float(np.diff(np.unwrap(np.arctan2(away[:, 1], away[:, 0]))).sum() / (2 * np.pi))


def longest(h1: Diagram) -> np.ndarray:
    return np.argsort(h1.birth - h1.death)


def test_the_cycle_of_a_circle_goes_around_it_once() -> None:
    points = circle(70, seed=0)
    h1 = rips(points, cycles=True)[1]
    assert_cycles(h1, distance_matrix(points))
    assert h1.cycles is not None
    assert abs(turns(points, h1.cycles[longest(h1)[0]], 0.0)) == pytest.approx(1)


def test_a_figure_eight_has_two_cycles_each_within_one_loop() -> None:
    points = np.vstack([circle(60, 1, centre=-1.05), circle(60, 2, centre=1.05)])
    h1 = rips(points, cycles=True)[1]
    assert_cycles(h1, distance_matrix(points))
    assert h1.cycles is not None
    pair = [h1.cycles[at] for at in longest(h1)[:2]]
    around = [[round(abs(turns(points, cycle, centre))) for centre in (-1.05, 1.05)] for cycle in pair]
    assert sorted(around) == [[0, 1], [1, 0]]
    loops = sorted({at // 60 for at in cycle} for cycle in pair)
    assert loops == [{0}, {1}] or all(len(cycle) < 60 for cycle in pair)


NO = np.inf
SQUARE = np.array([[0, 1, NO, 1], [1, 0, 1, NO], [NO, 1, 0, 1], [1, NO, 1, 0.0]])


@pytest.mark.parametrize("graph", [SQUARE, sparse.csr_array(np.where(np.isinf(SQUARE), 0.0, SQUARE))])
def test_the_cycle_of_a_graph_is_that_of_its_edges(graph) -> None:  # type: ignore[no-untyped-def]
    h0, h1 = rips(graph, metric="precomputed", cycles=True)
    assert h1.cycles == ((2, 1, 0, 3),)
    assert h0.cycles is None


def test_edges_of_length_zero_belong_to_cycles() -> None:
    graph = SQUARE.copy()
    graph[0, 1] = graph[1, 0] = 0.0
    assert rips(graph, metric="precomputed", cycles=True)[1].cycles == ((2, 1, 0, 3),)


@pytest.mark.parametrize(
    "options", [{"backend": "gudhi"}, {"maxdim": 2}, {"metric": "cosine"}, {"thresh": 0.8}]
)
def test_any_backend_and_dimension_give_the_same_cycles(options: dict) -> None:
    points = np.random.default_rng(3).normal(size=(60, 3))
    mine = {"metric": "cosine"} if "metric" in options else {}
    h1 = rips(points, cycles=True, **options)[1]
    assert_cycles(h1, distance_matrix(points, **mine))
    plain = rips(points, **options)[1]
    np.testing.assert_array_equal(h1.pairs, plain.pairs)
    assert plain.cycles is None
    if options.keys() & {"backend", "maxdim"}:
        assert h1.cycles == rips(points, cycles=True, backend="native")[1].cycles


def test_a_batch_and_another_unit_give_the_same_cycles() -> None:
    points = np.random.default_rng(4).normal(size=(40, 2))
    cycles = rips(points, cycles=True)[1].cycles
    assert rips_batch([points], cycles=True)[0][1].cycles == cycles
    assert rips(points * 2.0**400, cycles=True)[1].cycles == cycles


def test_a_diagram_with_cycles_is_compared_and_pickled_like_any_other() -> None:
    points = circle(30, seed=5)
    h1, plain = rips(points, cycles=True)[1], rips(points)[1]
    assert bottleneck(h1, plain) == 0
    again = pickle.loads(pickle.dumps(h1))
    assert again.cycles == h1.cycles
    np.testing.assert_array_equal(again.pairs, h1.pairs)
    assert Diagram(1, 1.0, 2.0, cycles=((0, 1, 2, 3),)) == Diagram(1, 1.0, 2.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"maxdim": 0}, {"field": 3}])
def test_cycles_are_those_of_h1_over_two(options: dict) -> None:
    with pytest.raises(InputError, match="cycles are those of H1 over Z/2"):
        rips(np.eye(5), cycles=True, **options)


def rank(vectors: list[int]) -> int:
    """Return the rank over Z/2 of vectors that are bits of integers."""
    leads: dict[int, int] = {}
    for vector in vectors:
        while vector and vector.bit_length() in leads:
            vector ^= leads[vector.bit_length()]
        if vector:
            leads[vector.bit_length()] = vector
    return len(leads)


def independent(distances: np.ndarray, cycle: tuple[int, ...], birth: float, time: float) -> bool:
    """Return whether a cycle is no sum of cycles older than `birth` and of triangles up to `time`."""
    n = len(distances)
    bit = {pair: 1 << at for at, pair in enumerate(itertools.combinations(range(n), 2))}

    def chain(edges: list[tuple[int, int]]) -> int:
        return sum(bit[min(edge), max(edge)] for edge in edges)

    older = [pair for pair in bit if distances[pair] < birth]
    triangles = [
        chain([(a, b), (b, c), (a, c)])
        for a, b, c in itertools.combinations(range(n), 3)
        if max(distances[a, b], distances[b, c], distances[a, c]) <= time
    ]
    # A sum of triangles and of this cycle is older if it has no edge from `birth` on.
    kept = ~sum(bit[pair] for pair in older)
    beyond = [triangle & kept for triangle in triangles]
    return rank([*beyond, chain(sides(cycle)) & kept]) > rank(beyond)


@pytest.mark.parametrize("seed", range(8))
def test_a_cycle_is_independent_of_older_ones_until_its_death(seed: int) -> None:
    points = np.random.default_rng(seed).normal(size=(22, 2))
    distances = distance_matrix(points)
    h1 = rips(points, cycles=True)[1]
    assert h1.cycles is not None
    for birth, death, cycle in zip(h1.birth, h1.death, h1.cycles, strict=True):
        before = distances[distances < death].max()
        assert independent(distances, cycle, birth, before)
        assert not independent(distances, cycle, birth, death)


@pytest.mark.parametrize("seed", range(6))
def test_the_path_is_the_shortest_even_where_lengths_are_no_distances(seed: int) -> None:
    lengths = np.triu(np.random.default_rng(seed).uniform(0.05, 1, (40, 40)), 1)
    lengths[np.random.default_rng(seed).random(lengths.shape) > (0.2, 0.6)[seed % 2]] = 0
    lengths += lengths.T
    h1 = rips(sparse.csr_array(lengths), metric="precomputed", cycles=True)[1]
    assert h1.cycles
    for birth, cycle in zip(h1.birth, h1.cycles, strict=True):
        closing, *path = sides(cycle)
        earlier = sparse.csr_array(np.where(lengths < birth, lengths, 0))
        shortest = dijkstra(earlier, indices=closing[0])[closing[1]]
        assert sum(lengths[edge] for edge in path) == pytest.approx(shortest)


@settings(max_examples=40, deadline=None)
@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 16), st.integers(1, 3)),
        elements=st.floats(-4, 4, width=16) | st.integers(-2, 2).map(float),
    )
)
def test_the_cycles_of_any_cloud_are_closed_and_simple(points: np.ndarray) -> None:
    assert_cycles(
        rips(distance_matrix(points), metric="precomputed", cycles=True)[1], distance_matrix(points)
    )
