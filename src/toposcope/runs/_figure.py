"""Checked runs: the logged loss, what was found on it, and the forecast of its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from toposcope.core.drawing.style import INK, MUTED, OKABE_ITO, end_labels, on_axes, readable, say_empty

_NAMED = 4
"""The most marks of a run that are named beside it; the others are only drawn."""

_POINTS = 1500
"""Stretches of a log; the least and the greatest loss of each are drawn, so that no spike is lost."""

_SHAPES = {"alarm": "v", "health": "D", "audit": "s"}
_WORDS = {"alarm": "alarm", "health": "health of the losses", "audit": "audit of a checkpoint"}
_STYLES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)))


@dataclass(frozen=True)
class CheckMark:
    """Something that was found at a step: `what` is "alarm", "health" or "audit", `text` names it.

    `acts` is true if it needs action; otherwise it is drawn hollow.
    """

    what: str
    step: float
    text: str
    acts: bool


@dataclass(frozen=True)
class CheckedCurve:
    """A run to draw: its logged `step` and `loss` (n,), marks, and a forecast.

    `ahead` (m, 4) has step, loss, low and high of the forecast along the steps to come; `end` (4,) the same
    at the end, NaN where it is not known. `sure` is False where no plan of the learning rate is known.
    """

    name: str
    step: np.ndarray
    loss: np.ndarray
    marks: tuple[CheckMark, ...] = ()
    ahead: np.ndarray = field(default_factory=lambda: np.empty((0, 4)))
    end: np.ndarray = field(default_factory=lambda: np.full(4, np.nan))
    level: float = 0.9
    sure: bool = True


def draw_checked(runs: Sequence[CheckedCurve], ax: Axes | None = None) -> Axes:
    """Draw each run's loss against the step with a line of its own, its marks, and its forecast's interval.

    The thin line is every logged loss, the thick one a running median. Both axes are linear, since readers
    mostly look at what is to come. Early losses far above all others leave the axes at the top.
    """
    drawn = [curve for curve in runs if np.isfinite(curve.loss).any()]
    with on_axes(ax, 3.9) as ax:
        if not drawn:
            say_empty(ax, "no loss is logged")
            return ax
        for place, curve in enumerate(drawn):
            colour, style = OKABE_ITO[place % len(OKABE_ITO)], _STYLES[place // len(OKABE_ITO) % len(_STYLES)]
            _curve(ax, curve, colour, style)
            _cone(ax, curve, colour)
        ax.set_ylim(*_limits(drawn))
        left, right = min(float(curve.step.min()) for curve in drawn), max(map(_last, drawn))
        ax.set_xlim(left, right if right > left else left + 1)
        for place, curve in enumerate(drawn):
            colour = OKABE_ITO[place % len(OKABE_ITO)]
            _end(ax, curve, colour, nudge=0.007 * (right - left) * place)
            _lead(ax, curve, colour, right)
            _marks(ax, curve, colour, named=len(drawn) <= 3, raised=2 * place)
        ax.set_xlabel("step")
        ax.set_ylabel("loss")
        ax.ticklabel_format(style="plain", axis="x")
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        end_labels(
            ax, [(_height(curve), curve.name, OKABE_ITO[i % len(OKABE_ITO)]) for i, curve in enumerate(drawn)]
        )
        _legend(ax, drawn)
    return ax


def _curve(ax: Axes, curve: CheckedCurve, colour: str, style: object) -> None:
    good = np.isfinite(curve.loss)
    step, loss = curve.step[good], curve.loss[good]
    width = max(1, len(loss) // 60)
    if width < 3:
        ax.plot(step, loss, color=colour, linewidth=1.4, linestyle=style, gid=f"loss {curve.name}")
        return
    ax.plot(*_extremes(step, loss), color=colour, linewidth=0.6, alpha=0.35, gid=f"logged {curve.name}")
    middle = np.median(np.lib.stride_tricks.sliding_window_view(loss, width), axis=1)
    at = step[width // 2 : width // 2 + len(middle)]
    ax.plot(at, middle, color=colour, linewidth=1.5, linestyle=style, gid=f"loss {curve.name}")


def _extremes(step: np.ndarray, loss: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the points at which each of many stretches has its least and its greatest loss."""
    if len(loss) <= 2 * _POINTS:
        return step, loss
    parts = np.array_split(np.arange(len(loss)), _POINTS)
    chosen = sorted({int(p[f(loss[p])]) for p in parts for f in (np.argmin, np.argmax)})
    return step[chosen], loss[chosen]


def _cone(ax: Axes, curve: CheckedCurve, colour: str) -> None:
    """Draw the forecast's interval up to the planned end, dashed without a plan of the learning rate."""
    dashes = "-" if curve.sure else (0, (2, 2))
    if len(curve.ahead):
        step, loss, low, high = curve.ahead.T
        ax.fill_between(step, low, high, color=colour, alpha=0.16, linewidth=0, gid=f"cone {curve.name}")
        ax.plot(step, loss, color=colour, linewidth=1.0, linestyle=(0, (4, 2)), gid=f"ahead {curve.name}")
        for edge in (low, high):
            ax.plot(step, edge, color=colour, linewidth=0.6, linestyle=dashes)


def _end(ax: Axes, curve: CheckedCurve, colour: str, *, nudge: float) -> None:
    """Draw the interval of the loss at the end; runs that end at one step stand side by side."""
    if not np.isfinite(curve.end).all():
        return
    step, loss, low, high = curve.end
    at = step - nudge
    ax.plot([at, at], [low, high], color=colour, linewidth=2.2, gid=f"end {curve.name}", clip_on=False)
    ax.plot(at, loss, "o", color=colour, markersize=4.5, clip_on=False)


def _lead(ax: Axes, curve: CheckedCurve, colour: str, right: float) -> None:
    """Draw a line from the last loss of a run that ends before the others to its name."""
    if np.isfinite(curve.end[1]):
        return
    last, y = float(curve.step[np.isfinite(curve.loss)][-1]), _height(curve)
    if last < right:
        ax.plot(
            [last, right],
            [y, y],
            color=colour,
            linewidth=0.6,
            linestyle=(0, (1, 3)),
            gid=f"lead {curve.name}",
        )


def _marks(ax: Axes, curve: CheckedCurve, colour: str, *, named: bool, raised: int) -> None:
    good = np.isfinite(curve.loss)
    bottom, top = ax.get_ylim()
    acting = sorted(curve.marks, key=lambda mark: (not mark.acts, mark.step))
    texts: dict[float, list[str]] = {}
    for mark in acting[: _NAMED if named else 0]:
        texts.setdefault(mark.step, []).append(mark.text)
    for mark in acting:
        y = float(np.clip(np.interp(mark.step, curve.step[good], curve.loss[good]), bottom, top))
        ax.plot(
            mark.step, y, _SHAPES[mark.what], markersize=7 if mark.acts else 6, zorder=5, clip_on=False,
            color=INK if mark.acts else colour, markerfacecolor=colour if mark.acts else "white",
            markeredgewidth=0.9, gid=f"mark {curve.name}",
        )  # fmt: skip
    left, right = ax.get_xlim()
    for number, (step, kinds) in enumerate(sorted(texts.items())):
        y = float(np.clip(np.interp(step, curve.step[good], curve.loss[good]), bottom, top))
        late, high = step > (left + right) / 2, y > bottom + 0.75 * (top - bottom)
        rise = (12 + 11 * ((number + raised) % 5)) * (-1 if high else 1)
        ax.annotate(
            f"{', '.join(kinds)} at {step:,.10g}", (step, y), xytext=(-8 if late else 8, rise),
            textcoords="offset points", ha="right" if late else "left", va="center", fontsize=7.5,
            color=readable(colour), zorder=6,
            arrowprops={"arrowstyle": "-", "linewidth": 0.5, "color": MUTED, "shrinkB": 3},
            bbox={"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 0.8},
        )  # fmt: skip


def _limits(runs: Sequence[CheckedCurve]) -> tuple[float, float]:
    """Return the ends of the loss axis: all but the first losses, every mark, and the forecasts."""
    lows, highs = [], []
    for curve in runs:
        good = np.isfinite(curve.loss)
        step, loss = curve.step[good], curve.loss[good]
        after_start = loss[step >= step[0] + 0.05 * (_last(curve) - step[0])]
        after_start = after_start if len(after_start) else loss
        at = [float(np.interp(mark.step, step, loss)) for mark in curve.marks]
        ahead = np.r_[curve.ahead[:, 2:].ravel(), curve.end[2:]]
        ahead = ahead[np.isfinite(ahead)].tolist()
        lows.append(min([float(after_start.min()), *ahead]))
        highs.append(max([float(after_start.max()), *at, *ahead]))
    room = 0.06 * (max(highs) - min(lows)) or 0.1
    return min(lows) - room, max(highs) + room


def _last(curve: CheckedCurve) -> float:
    ends = [float(curve.step.max()), *curve.ahead[:, 0].tolist(), float(curve.end[0])]
    return max(end for end in ends if np.isfinite(end))


def _height(curve: CheckedCurve) -> float:
    """Return the loss at which a run's name stands: where it will end, else where it is."""
    if np.isfinite(curve.end[1]):
        return float(curve.end[1])
    return float(curve.loss[np.isfinite(curve.loss)][-1])


def _legend(ax: Axes, runs: Sequence[CheckedCurve]) -> None:
    """Explain the marks and the area that are drawn."""
    marks = [mark for curve in runs for mark in curve.marks]
    shown: list[Line2D | Patch] = [
        Line2D([], [], marker=shape, linestyle="", color=INK, markerfacecolor=MUTED, label=_WORDS[what])
        for what, shape in _SHAPES.items()
        if any(mark.what == what and mark.acts for mark in marks)
    ]
    if any(not mark.acts for mark in marks):
        label = "over, or no action needed"
        shown.append(
            Line2D([], [], marker="v", linestyle="", color=MUTED, markerfacecolor="white", label=label)
        )
    ahead = [curve for curve in runs if len(curve.ahead) or np.isfinite(curve.end).all()]
    if ahead:
        dashed = "" if all(curve.sure for curve in ahead) else ", dashed: no plan of the learning rate"
        shown.append(Patch(color=MUTED, alpha=0.3, label=f"forecast, {ahead[0].level:.0%} interval{dashed}"))
    if shown:
        ax.legend(
            handles=shown, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=len(shown), fontsize=7.5,
            borderaxespad=0.2, columnspacing=1.4, handletextpad=0.5,
        )  # fmt: skip
