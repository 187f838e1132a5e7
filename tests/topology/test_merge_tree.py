import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toposcope.core.errors import InputError
from toposcope.kernels.merge_tree import ascending
from toposcope.topology.merge_tree import merge_tree, merge_tree_of_graph, neighbours
from toposcope.topology.surface_homology import surface_homology

SHAPES = [(17,), (9, 11), (1, 8), (5, 6, 4)]


def _bars(tree):
    return _pairs(tree.diagram)


def _pairs(diagram):
    return sorted(zip(diagram.birth.tolist(), diagram.death.tolist(), strict=True))


def _field(shape, seed=0, masked=0.0):
    generator = np.random.default_rng(seed)
    values = generator.normal(size=shape)
    values[generator.random(shape) < masked] = np.nan
    return values


@pytest.mark.parametrize("masked", [0.0, 0.2])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("graph", ["lattice", "kuhn"])
def test_h0_of_gudhis_complex_is_the_merge_tree(shape, graph, masked):
    values = _field(shape, seed=len(shape), masked=masked)
    h0 = surface_homology(values, graph=graph)[0]
    assert _bars(merge_tree(values, graph=graph)) == _pairs(h0)


@pytest.mark.parametrize("graph", ["lattice", "kuhn"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_lattice_is_the_graph_of_its_neighbours(shape, graph):
    values = _field(shape, seed=3, masked=0.1)
    places = np.stack(np.unravel_index(np.arange(values.size), shape), axis=1)
    edges = []
    for step in neighbours(len(shape), graph):
        moved = places + step
        inside = ((moved >= 0) & (moved < shape)).all(axis=1)
        ends = np.ravel_multi_index(moved[inside].T, shape)
        edges.append(np.stack([np.flatnonzero(inside), ends], axis=1))
    lattice, general = (
        merge_tree(values, graph=graph),
        merge_tree_of_graph(values.ravel(), np.concatenate(edges)),
    )
    for name in ("minimum", "saddle", "parent", "size", "merges", "arc", "basin"):
        np.testing.assert_array_equal(getattr(lattice, name), getattr(general, name), err_msg=name)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(1, 5))
def test_the_tree_is_consistent(heights, width):
    values = np.resize(np.array(heights, float), (width, max(1, len(heights) // width)))
    tree = merge_tree(values)
    flat = values.ravel()
    assert len(tree.merges) == len(tree) - 1  # a connected domain: saddles are minima - 1
    assert (tree.persistence >= 0).all()
    assert tree.minimum[0] == np.argmin(flat)
    assert tree.size[0] == values.size
    assert np.isinf(tree.persistence).sum() == 1
    counts = np.bincount(tree.arc, minlength=len(tree) + len(tree.merges))
    subtree = counts.copy()
    for j, row in enumerate(tree.merges):
        subtree[len(tree) + j] += subtree[row[3]] + subtree[row[4]]
        assert tree.size[row[2]] in (subtree[row[3]], subtree[row[4]])
    assert subtree[-1] == values.size
    assert (flat[tree.minimum[tree.basin]] <= flat).all()


def test_two_wells_meet_at_the_known_saddle():
    x, y = np.meshgrid(np.linspace(-2, 2, 81), np.linspace(-1, 1, 41), indexing="ij")
    tree = merge_tree((x**2 - 1) ** 2 + y**2 + 0.1 * x)
    assert len(tree) == 2
    place = np.unravel_index(tree.saddle[1], (81, 41))
    assert (x[place], y[place]) == pytest.approx((0.025, 0.0), abs=0.06)  # the root of 4 x^3 - 4 x + .1
    assert tree.persistence[1] == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize("waves", [1, 2, 4])
def test_a_product_of_cosines_has_the_known_minima(waves):
    x = np.linspace(0, 2 * np.pi * waves, 40 * waves + 1)
    tree = merge_tree(np.multiply.outer(np.cos(x), np.cos(x)))
    per_axis = (waves, waves + 1)  # cos = -1 and cos = +1 on the closed interval
    assert (tree.persistence > 0.5).sum() == 2 * per_axis[0] * per_axis[1]


def test_a_bowl_has_one_minimum():
    x = np.linspace(-1, 1, 21)
    tree = merge_tree(np.add.outer(x**2, 3 * x**2))
    assert len(tree) == 1
    assert tree.minimum[0] == 10 * 21 + 10
    assert tree.depth[0] == pytest.approx(4.0)


def test_masked_places_split_the_domain():
    values = np.array([[0.0, np.nan, 1.0], [0.5, np.nan, 2.0]])
    tree = merge_tree(values)
    assert tree.masked == 2
    assert (tree.saddle == -1).all()
    assert tree.size.tolist() == [2, 2]
    assert (tree.arc.reshape(2, 3)[:, 1] == -1).all()


def test_a_scale_and_a_shift_keep_the_tree():
    values = _field((12, 12))
    one, other = merge_tree(values), merge_tree(3 * values - 7)
    np.testing.assert_array_equal(one.merges, other.merges)
    np.testing.assert_allclose(other.persistence[1:], 3 * one.persistence[1:])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((2, 2, 2, 2)), "one to three axes"),
        (np.zeros((0, 3)), "0 places"),
        (np.full((2, 2), np.nan), "NaN everywhere"),
        (np.array([1.0, np.inf]), "1 infinite places"),
    ],
)
def test_bad_surfaces_are_refused(values, message):
    with pytest.raises(InputError, match=message):
        merge_tree(values)


def test_bad_graphs_are_refused():
    with pytest.raises(InputError, match="lattice or kuhn"):
        merge_tree(np.zeros(3), graph="knn")
    with pytest.raises(InputError, match="edges name vertex 7 of 3"):
        merge_tree_of_graph(np.zeros(3), [[0, 7]])
    with pytest.raises(InputError, match="one value per vertex"):
        merge_tree_of_graph(np.zeros((3, 3)), [[0, 1]])


def test_h1_of_a_ring_and_h2_of_a_shell():
    ring = np.full((5, 5), 1.0)
    ring[0], ring[-1], ring[:, 0], ring[:, -1] = 0, 0, 0, 0
    ring[2, 2] = 4.0
    shell = np.pad(np.pad(np.full((1, 1, 1), 3.0), 1, constant_values=1.0), 1, constant_values=2.0)
    for graph in ("lattice", "kuhn"):
        h1 = surface_homology(ring, graph=graph)[1]
        assert _pairs(h1) == [(0.0, 4.0)]
        h2 = surface_homology(shell, graph=graph)[2]
        assert _pairs(h2) == [(1.0, 3.0)]


def test_a_masked_hole_is_essential():
    ring = np.array([[1.0, 1.0, 1.0], [1.0, np.nan, 1.0], [1.0, 1.0, 1.0]])
    h1 = surface_homology(ring)[1]
    assert h1.birth.tolist() == [1.0]
    assert np.isinf(h1.death).all()


@pytest.mark.parametrize("spread", [1.0, 1e-13, 0.0])
def test_the_order_of_values_is_that_of_a_stable_sort(spread: float) -> None:
    generator = np.random.default_rng(0)
    near = 1.0 + spread * generator.normal(size=3000)
    wide = np.concatenate([near, -near[::-1], np.round(generator.normal(size=3000), 1), [0.0, -0.0, 0.0]])
    for values in (near, wide, wide[::-1].copy(), near[:1], near[:0]):
        np.testing.assert_array_equal(ascending(values), np.argsort(values, kind="stable"))
