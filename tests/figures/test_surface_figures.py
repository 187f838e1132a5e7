import numpy as np

from toposcope.figures import loss_surface, merge_trees
from toposcope.figures.loss_surface import SurfacePanel
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


def test_branches_in_their_noise_are_faint():
    clear = np.array([True, False])
    figure = loss_surface.draw([SurfacePanel("", (X, X), TREE, clear)])
    faint = [line.get_alpha() for line in figure.axes[0].lines if line.get_marker() == "x"]
    assert faint == [0.25]


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
    assert len(_points(tree, "o")) == 2
    np.testing.assert_allclose(sorted(_points(tree, "o")[:, 1]), np.sort(TREE.values[TREE.minimum]))
    assert np.ptp(profile.lines[0].get_xdata()) == 31 * 31


def test_profiles_of_a_series_share_their_axis_of_loss():
    figure = merge_trees.draw_profiles(
        [("step 0", TREE), ("step 1", merge_tree(TREE.values.reshape(31, 31) / 2))]
    )
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()
    assert "no surface" in merge_trees.draw_profiles([]).axes[0].texts[0].get_text()
