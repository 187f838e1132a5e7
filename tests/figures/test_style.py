from __future__ import annotations

import itertools

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from toposcope.core.drawing import style


def _axes():
    figure, axes = style.new_figure(3.0)
    return figure, axes[0, 0]


def _luminance(colour):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_step_axis_shows_step_zero_and_says_where_the_scale_changes():
    _, ax = _axes()
    style.step_axis(ax, [0, 100, 1000, 5000])
    assert ax.get_xscale() == "symlog"
    assert ax.get_xlim()[0] == 0
    assert ax.get_xlabel() == "optimiser step (log, linear below 100)"
    assert list(ax.get_xticks()) == [0, 100, 1000, 5000]


def test_step_axis_without_step_zero_claims_no_linear_part():
    _, ax = _axes()
    style.step_axis(ax, [1000, 143000])
    assert ax.get_xlabel() == "optimiser step (log)"
    assert ax.get_xlim()[0] == 1000


@pytest.mark.parametrize("steps", [[7], [0, 1], [0, 1, 2, 4, 8], [1, 2, 4, 8, 100_000_000]])
def test_ticks_of_short_and_long_series_stay_apart(steps):
    figure, ax = _axes()
    style.step_axis(ax, steps)
    figure.draw_without_rendering()
    ticks = [tick for tick in ax.get_xticks() if tick > 0]
    assert ticks
    assert all(b > 2 * a for a, b in itertools.pairwise(ticks))


@pytest.mark.parametrize("steps", [[], [0]])
def test_an_axis_without_a_positive_step_has_a_width(steps):
    figure, ax = _axes()
    style.step_axis(ax, steps)
    figure.draw_without_rendering()
    assert ax.get_xlim() == (-0.5, 0.5)


def test_end_labels_do_not_overlap_and_keep_their_order():
    _, ax = _axes()
    ax.plot([0, 1], [0, 1])
    style.end_labels(
        ax, [(0.50, "b", "black"), (0.51, "c", "black"), (0.49, "a", "black"), (0.9, "d", "black")]
    )
    at = {text.get_text(): text.xyann[1] for text in ax.texts}
    heights = [at[name] for name in "abcd"]
    assert heights == sorted(heights)
    assert min(np.diff(heights)) > 0.04
    assert abs(np.mean(heights[:3]) - ax.transLimits.transform((0, 0.5))[1]) < 0.01


def test_labels_of_lines_at_the_bottom_stay_clear_of_the_last_step():
    figure, axes = style.new_figure(5.6, rows=2, columns=3)
    ax = axes[1, 2]
    steps = np.geomspace(1, 5000, 5)
    ax.plot(steps, np.zeros(5))
    ax.plot(steps, np.ones(5))
    ax.set_ylim(bottom=0.0)
    style.step_axis(ax, steps)
    style.end_labels(ax, [(0.0, "a", "black"), (0.01, "b", "black"), (0.02, "c", "black")])
    figure.draw_without_rendering()
    ticks = [tick.get_window_extent() for tick in ax.get_xticklabels() if tick.get_text()]
    boxes = [Text.get_window_extent(text) for text in ax.texts]  # without the line to it
    assert ticks
    assert not any(box.overlaps(tick) for box in boxes for tick in ticks)
    assert all(low.y1 <= high.y0 for low, high in itertools.pairwise(sorted(boxes, key=lambda box: box.y0)))


def test_labels_without_a_value_are_left_out():
    _, ax = _axes()
    style.end_labels(ax, [(float("nan"), "gone", "black")])
    assert not ax.texts


@pytest.mark.parametrize("colour", [*style.OKABE_ITO, *style.sequential(7)])
def test_text_colours_have_contrast_on_white(colour):
    assert 1.05 / (_luminance(style.readable(colour)) + 0.05) >= 4.5


def test_files_are_the_same_bytes_every_time(tmp_path):
    def once(name):
        figure, ax = _axes()
        ax.plot([0, 1], [0, 1], label="line")
        ax.set_clip_on(True)
        return [path.read_bytes() for path in style.save(figure, tmp_path, name)]

    first, second = once("a"), once("b")
    assert first == second
    assert first[0].startswith(b"\x89PNG")
    assert b"<svg" in first[1]
    assert b"<dc:date>" not in first[1]


def test_the_callers_settings_are_untouched():
    before = dict(mpl.rcParams)
    with style.house():
        figure, _ = _axes()
        style.to_svg(figure)
    assert dict(mpl.rcParams) == before


def test_what_a_notebooks_backend_sets_inside_the_style_stays_set():
    with mpl.rc_context():
        mpl.rcParams["interactive"] = False
        with style.house():
            mpl.interactive(True)  # as the first import of pyplot in a notebook does
        assert mpl.is_interactive()
