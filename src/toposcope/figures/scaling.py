"""Final loss and final features against model size, on log-log axes with the fitted power law."""

from __future__ import annotations

import textwrap

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from toposcope.analysis.catalogue import label_of
from toposcope.analysis.groups import short
from toposcope.analysis.lines import LEVEL
from toposcope.distributions import student_quantile
from toposcope.figures.series import DrawnSize, sizes
from toposcope.figures.style import INK, MUTED, OKABE_ITO, house, new_panels, say_empty


def draw(finals: pd.DataFrame, fits: pd.DataFrame, runs: pd.DataFrame, catalogue: pd.DataFrame) -> Figure:
    """Draw each quantity at the last checkpoint against the number of parameters, with its power law.

    Parameters
    ----------
    finals
        One row per run and quantity: columns run, parameters, quantity (a column key), value, low, high
        (interval over draws; NaN where there is none).
    fits
        One row per quantity: columns quantity, scale, exponent, low, high (95% interval of the
        exponent), r2, sigma (residual standard deviation in natural log), n_sizes, status, reason.
    runs
        Columns run, family, parameters.
    catalogue
        What the columns are: `SeriesTable.catalogue`.

    Returns
    -------
    Figure
        The band is the 95% confidence band of a line fitted to one mean per size.
    """
    quantities = list(dict.fromkeys(finals["quantity"]))
    with house():
        figure, axes = new_panels(len(quantities), each=2.5, more=0.2, most=3)
        if not quantities:
            say_empty(axes[0], "no quantity is known at the end of these runs")
        for ax, quantity in zip(axes, quantities, strict=False):
            mine = finals[finals["quantity"] == quantity]
            panel(ax, mine, fits[fits["quantity"] == quantity], sizes(runs), catalogue)
    return figure


def panel(
    ax: Axes, finals: pd.DataFrame, fits: pd.DataFrame, groups: list[DrawnSize], catalogue: pd.DataFrame
) -> None:
    """Draw one quantity on `ax`; `fits` has its one row, or none."""
    ax.set_title(textwrap.fill(label_of(str(finals["quantity"].iloc[0]), catalogue), 26))
    colour_of = {run: group.colour for group in groups for run in group.runs}
    known = finals[(finals["parameters"] > 0) & np.isfinite(finals["value"])]
    if known.empty:
        say_empty(ax, "model sizes or values unknown")
        return
    if len(fits) and np.isfinite(fits["exponent"].iloc[0]):
        _line(ax, known, fits.iloc[0])
    for run, n, value, low, high in known[["run", "parameters", "value", "low", "high"]].itertuples(
        index=False
    ):
        colour = colour_of.get(run, OKABE_ITO[0])
        if np.isfinite(low) and np.isfinite(high):
            ax.vlines(n, low, high, color=colour, linewidth=1.2)
        ax.scatter([n], [value], s=22, color=colour, edgecolor="white", linewidths=0.5, zorder=3)
    _axes(ax, known)


def _line(ax: Axes, known: pd.DataFrame, fit: pd.Series) -> None:
    n = np.unique(known["parameters"].to_numpy(dtype=np.float64))
    grid = np.geomspace(n.min() / 1.3, n.max() * 1.3, 60)
    middle = fit["scale"] * grid ** fit["exponent"]
    ax.plot(grid, middle, color=MUTED, linewidth=1.0, zorder=1)
    u = np.log(n)
    spread = float(((u - u.mean()) ** 2).sum())
    if len(n) > 2 and np.isfinite(fit["sigma"]) and spread > 0:
        lever = np.sqrt(1 / len(n) + (np.log(grid) - u.mean()) ** 2 / spread)
        half = student_quantile(0.5 + LEVEL / 2, len(n) - 2) * fit["sigma"] * lever
        ax.fill_between(
            grid, middle * np.exp(-half), middle * np.exp(half), color=MUTED, alpha=0.15, linewidth=0
        )
    interval = f" [{fit['low']:+.2f}, {fit['high']:+.2f}]" if np.isfinite(fit["low"]) else ""
    note = f"exponent {fit['exponent']:+.3f}{interval}\nR² {fit['r2']:.2f}, {int(fit['n_sizes'])} sizes"
    note = note.replace("-", "−")
    ax.text(
        0.03, 0.03, note, transform=ax.transAxes, fontsize=7, color=INK, va="bottom",
        bbox={"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 1.5},
    )  # fmt: skip


def _axes(ax: Axes, known: pd.DataFrame) -> None:
    ax.set_xscale("log")
    values = known["value"].to_numpy(dtype=np.float64)
    if (values > 0).all():
        ax.set_yscale("log")
        low, high = ax.get_ylim()
        ax.set_ylim(low / (high / low) ** 0.28, high)  # room for the note below the points
        ax.yaxis.set_major_locator(FixedLocator(_round_ticks(values.min(), values.max())))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
        ax.yaxis.set_minor_locator(NullLocator())
    ticks = sorted(known["parameters"].unique())
    spaced = [tick for i, tick in enumerate(ticks) if i in (0, len(ticks) - 1) or tick > 2.4 * ticks[i - 1]]
    ax.xaxis.set_major_locator(FixedLocator([float(tick) for tick in spaced]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("parameters (log)")


def _round_ticks(low: float, high: float) -> list[float]:
    """Return three or four round values over [low, high] and a little beyond."""
    ratio = high / low
    mantissas = (
        (1, 2, 5) if ratio > 4 else (1, 1.5, 2, 3, 5, 7) if ratio > 1.6 else tuple(np.arange(1, 10, 0.5))
    )
    if ratio <= 1.15:
        return [float(f"{tick:.3g}") for tick in np.linspace(low, high, 3)]
    decades = 10.0 ** np.arange(np.floor(np.log10(low)) - 1, np.ceil(np.log10(high)) + 1)
    ticks = [float(m * decade) for decade in decades for m in mantissas]
    return [tick for tick in ticks if low / 1.25 <= tick <= high * 1.25]
