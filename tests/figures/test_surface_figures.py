import numpy as np

from toposcope.subjects.landscape.figures import loss_surface, merge_trees, profiles
from toposcope.subjects.landscape.figures.loss_surface import SurfacePanel
from toposcope.topology.merge_tree import merge_tree

X = np.linspace(-1.5, 1.5, 31)
TREE = merge_tree(np.add.outer((X**2 - 1) ** 2 + 0.1 * X, X**2))


def _points(ax, marker):
    return np.array([line.get_xydata()[0] for line in ax.lines if line.get_marker() == marker])


def test_minima_and_saddles_are_drawn_where_they_are():
    figure = loss_surface.draw([SurfacePanel("step 10", (X, X), TREE)])
    ax = figure.axes[0]
    assert ax.get_title(loc="left") == "step 10"
    np.testing.assert_allclose(sorted(_points(ax, "o")[:, 0]), [-1.0, 1.0], atol=0.11)
    np.testing.assert_allclose(_points(ax, "x"), [[0.0, 0.0]], atol=0.11)


def test_confirmed_branches_are_thick_where_half_of_the_sequences_show_them():
    half = merge_tree(np.add.outer((X**2 - 1) ** 2 + 0.1 * X, (X - 0.3) ** 2))
    for confirmed, thick in ((np.array([False, True]), 1), (np.array([False, False]), 0)):
        figure = loss_surface.draw([SurfacePanel("", (X, X), TREE, (half, confirmed))])
        lines = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 3]
        assert len(lines) == 1 + thick  # that of all sequences stays as it is
        widths = [line.get_linewidth() for line in lines]
        if thick:
            assert widths[1] > 2 * widths[0]
            np.testing.assert_allclose(lines[1].get_ydata(), 0.3, atol=0.06)


def test_panels_share_their_colours_and_empty_ones_say_so():
    figure = loss_surface.draw(
        [SurfacePanel(str(k), (X, X), merge_tree(TREE.values.reshape(31, 31) * k)) for k in (1, 2)]
    )
    limits = {collection.get_clim() for ax in figure.axes[:2] for collection in ax.collections[:1]}
    assert len(limits) == 1
    assert "no surface" in loss_surface.draw([]).axes[0].texts[0].get_text()


def test_the_tree_has_a_line_per_branch_and_the_profile_its_width():
    figure = merge_trees.draw(TREE)
    tree, profile = figure.axes
    assert tree.get_title(loc="left") == "all sequences: 2 minima"
    assert len(_points(tree, "o")) == 2
    np.testing.assert_allclose(sorted(_points(tree, "o")[:, 1]), np.sort(TREE.values[TREE.minimum]))
    assert np.ptp(profile.lines[0].get_xdata()) == 31 * 31


def test_tested_branches_have_a_panel_of_their_own():
    half = merge_tree(np.cos(2 * np.pi * X)[None] * np.ones((3, 1)) + 0.01 * X)
    confirmed = np.zeros(len(half), bool)
    confirmed[1] = True
    figure = merge_trees.draw(TREE, tested=(half, confirmed))
    whole, tested, _ = figure.axes
    assert len(_points(whole, "o")) == 2
    real = int((half.persistence > 0).sum())
    assert len(_points(tested, "o")) == real
    assert tested.get_title(loc="left") == f"half of them: 1 of {real - 1} confirmed"
    colours = [line.get_color() for line in tested.lines if line.get_marker() == "o"]
    assert colours.count(colours[0]) == 2  # the one that never ends, and the confirmed one


def test_profiles_of_a_series_share_their_axis_of_loss():
    figure = profiles.draw([("step 0", TREE), ("step 1", merge_tree(TREE.values.reshape(31, 31) / 2))])
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()
    assert "no surface" in profiles.draw([]).axes[0].texts[0].get_text()
