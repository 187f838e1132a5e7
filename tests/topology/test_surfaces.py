import itertools
import sys

import numpy as np
import pytest

from toposcope.core.errors import InputError
from toposcope.core.wording import typed_options
from toposcope.topology import surface_homology
from toposcope.topology.merge_tree import merge_tree, merge_tree_of_graph
from toposcope.topology.profile import landscape_profile
from toposcope.topology.sampled_surface import confirmed_branches
from toposcope.topology.surfaces import (
    branch_intervals,
    mutual_neighbours,
    surface_summaries,
)


def _wells(depth=0.5, size=31):
    x = np.linspace(-1.5, 1.5, size)
    return np.add.outer((x**2 - 1) ** 2 + 0.1 * x, depth * x**2)


def test_summaries_of_two_wells():
    found = surface_summaries(merge_tree(_wells()))
    assert (found["minima"], found["saddles"]) == (2, 1)
    assert found["total_persistence"] == found["average_persistence"] == found["max_persistence"]
    assert found["smad"] == pytest.approx(found["depth_mean"])
    assert found["depth_max"] > found["max_persistence"]  # the deeper well's leaf is longer than the branch
    assert 0.4 < found["largest_basin"] < 0.7
    assert found["masked"] == 0


def test_saddles_are_minima_less_components():
    values = np.random.default_rng(0).normal(size=(20, 20))
    found = surface_summaries(merge_tree(values))
    assert found["saddles"] == found["minima"] - 1


def test_a_branch_that_all_sequences_share_is_clear_and_noise_is_not():
    generator = np.random.default_rng(1)
    surface = _wells()[..., None] + generator.normal(size=(31, 31, 32))
    tree = merge_tree(_wells())
    assert branch_intervals(tree, surface).clear.tolist() == [True]
    same = _wells()[..., None] + generator.normal(size=(1, 1, 32))  # sequences differ, the surface does not
    interval = branch_intervals(tree, same)
    np.testing.assert_allclose(interval.low, interval.high)
    np.testing.assert_allclose(interval.persistence, tree.persistence[1:])


def test_noise_confirms_itself_at_the_stated_rate_only():
    found = confirmed = 0
    for seed in range(20):
        noise = np.random.default_rng(seed).normal(size=(12, 12, 40))
        one = confirmed_branches(noise)
        found, confirmed = found + one.found, confirmed + int(one.confirmed.sum())
        chosen = merge_tree(noise.mean(axis=-1))
        assert (branch_intervals(chosen, noise).persistence > 0).all()  # chosen for it
    assert confirmed / found == pytest.approx(0.025, abs=0.025)


def test_intervals_of_other_sequences_hold_the_truth():
    truth, held = _wells(size=13), 0
    tree = merge_tree(truth)
    for seed in range(200):
        noisy = truth[..., None] + np.random.default_rng(seed).normal(size=(13, 13, 16))
        interval = branch_intervals(tree, noisy)
        held += bool(interval.low[0] <= tree.persistence[1] <= interval.high[0])
    assert held / 200 == pytest.approx(0.95, abs=0.05)


@pytest.mark.parametrize(
    ("losses", "level", "message"),
    [
        (np.zeros((4, 8)), 0.95, "4 places, but the tree has 961"),
        (np.zeros((961, 1)), 0.95, "one sequence"),
        (np.zeros((961, 4)), 95, "level is 95"),
    ],
)
def test_bad_losses_are_refused(losses, level, message):
    with pytest.raises(InputError, match=message):
        branch_intervals(merge_tree(_wells()), losses, level=level)


def test_too_few_sequences_confirm_nothing():
    with pytest.raises(InputError, match="at least four sequences"):
        confirmed_branches(np.zeros((5, 5, 3)))


def test_mutual_neighbours_do_not_depend_on_the_order():
    points = np.stack(np.meshgrid(np.arange(5.0), np.arange(6.0)), axis=-1).reshape(-1, 2)
    shuffled = np.random.default_rng(0).permutation(len(points))
    one = {tuple(sorted(edge)) for edge in mutual_neighbours(points, 4).tolist()}
    other = mutual_neighbours(points[shuffled], 4)
    assert one == {tuple(sorted(shuffled[edge].tolist())) for edge in other}


def test_four_mutual_neighbours_of_a_lattices_inside_are_its_own():
    side = np.arange(7)
    points = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2).astype(float)
    edges = mutual_neighbours(points, 4)
    inside = ((points > 0) & (points < 6)).all(axis=1)
    gap = np.abs(points[edges[:, 0]] - points[edges[:, 1]]).sum(axis=1)
    assert (gap[inside[edges].all(axis=1)] == 1).all()
    tree = merge_tree_of_graph(points @ [1.0, 2.0], edges)
    assert tree.minimum[0] == 0


def test_bad_neighbours_are_refused():
    with pytest.raises(InputError, match="k is 3; 3 points"):
        mutual_neighbours(np.zeros((3, 1)), 3)


def test_the_profile_is_as_wide_as_the_surface_and_nests():
    tree = merge_tree(np.random.default_rng(0).normal(size=(14, 14)))
    outlines = landscape_profile(tree)
    assert len(outlines) == len(tree) + len(tree.merges)
    assert sum(outline.leaf for outline in outlines) == len(tree)
    assert np.ptp(outlines[0].x) == 196
    leaves = sorted((o.x.min(), o.x.max()) for o in outlines if o.leaf)
    assert all(a[1] <= b[0] + 1e-9 for a, b in itertools.pairwise(leaves))
    for outline in outlines:
        middle = len(outline.y) // 2
        assert (np.diff(outline.y[:middle]) <= 0).all()
        np.testing.assert_array_equal(outline.y, outline.y[::-1])


def test_too_large_a_triangulation_names_the_graph_in_the_reader_s_spelling(monkeypatch):
    monkeypatch.setattr(sys.modules[surface_homology.__module__], "_MOST_SIMPLICES", 10)
    with pytest.raises(InputError, match="more than 10 simplices; use `graph='lattice'`"):
        surface_homology(np.zeros((5, 5)), graph="kuhn")
    with typed_options(), pytest.raises(InputError, match=r"; use --graph lattice$"):
        surface_homology(np.zeros((5, 5)), graph="kuhn")
