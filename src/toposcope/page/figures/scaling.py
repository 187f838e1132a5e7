"""Final loss and final features against model size, on log-log axes with the fitted power law."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from toposcope.core.drawing.series import DrawnSize, sizes
from toposcope.core.drawing.style import INK, MUTED, OKABE_ITO, house, new_panels, say_empty
from toposcope.core.forms import listed
from toposcope.core.groups import short
from toposcope.core.lines import LEVEL
from toposcope.page.on_page import Caption, OnPage
from toposcope.scaling.band import law_band
from toposcope.scaling.power_law import LEAST_SIZES_FOR_POWER
from toposcope.scaling.table import predicted
from toposcope.study.catalogue import label_of
from toposcope.study.study import Study

_APART_X, _APART_Y = 0.16, 0.1
"""Share of an axis that a tick's text takes here: about .3 of 2 inches across, .15 of 1.7 up."""


def draw(finals: pd.DataFrame, fits: pd.DataFrame, runs: pd.DataFrame, catalogue: pd.DataFrame) -> Figure:
    """Draw each quantity at the last checkpoint against the number of parameters, with its power law.

    Parameters
    ----------
    finals
        One row per run and quantity: columns run, parameters, quantity (a column key), value, low, high
        (interval over draws; NaN where there is none).
    fits
        One row per quantity: columns quantity, scale, exponent, offset (NaN or 0 for a law without a floor),
        low, high (95% interval of the exponent), r2, sigma, n_sizes, status, reason.
    runs
        Columns run, family, parameters.
    catalogue
        What the columns are: `SeriesTable.catalogue`.

    Returns
    -------
    Figure
        The line is the law that `fits` states, with its floor; the band its 95% confidence band, from one
        mean per size. Hollow points are of runs that did not finish: no law is fitted to them.
    """
    quantities = list(dict.fromkeys(finals["quantity"]))
    with house():
        each = 2.5 if len(quantities) > 1 else 3.0
        figure, axes = new_panels(len(quantities), each=each, more=0.2, most=3)
        if not quantities:
            say_empty(axes[0], "no quantity is known at the end of these runs")
        for ax, quantity in zip(axes, quantities, strict=False):
            mine = finals[finals["quantity"] == quantity]
            panel(ax, mine, fits[fits["quantity"] == quantity], sizes(runs), catalogue)
            if len(quantities) == 1:
                ax.set_ylabel(ax.get_title(loc="left"))
                ax.set_title("")
    return figure


def panel(
    ax: Axes, finals: pd.DataFrame, fits: pd.DataFrame, groups: list[DrawnSize], catalogue: pd.DataFrame
) -> None:
    """Draw one quantity on `ax`; `fits` has its one row, or none."""
    ax.set_title(textwrap.fill(label_of(str(finals["quantity"].iloc[0]), catalogue), 26))
    colour_of = {run: group.colour for group in groups for run in group.runs}
    finite = finals[(finals["parameters"] > 0) & np.isfinite(finals["value"])]
    if finite.empty:
        say_empty(ax, "model sizes or values unknown")
        return
    if len(fits) and np.isfinite(fits["exponent"].iloc[0]):
        _line(ax, finite, fits.iloc[0])
    elif len(fits):
        _note(ax, "no law: the table says why")
    done = finite["finished"].astype(bool) if "finished" in finite else pd.Series(True, finite.index)
    cells = finite.assign(done=done)[["run", "parameters", "value", "low", "high", "done"]]
    for run, n, value, low, high, ended in cells.itertuples(index=False):
        colour = colour_of.get(run, OKABE_ITO[0])
        if np.isfinite(low) and np.isfinite(high):
            ax.vlines(n, low, high, color=colour, linewidth=1.2)
        face, edge = (colour, "white") if ended else ("white", colour)
        ax.scatter(
            [n], [value], s=22, facecolor=face, edgecolor=edge, linewidths=0.5 + 0.5 * (not ended), zorder=3
        )
    _axes(ax, finite)


_ENDLESS = 1e60
"""A number of parameters at which the power of a law is 0 beside its floor."""


def _line(ax: Axes, finite: pd.DataFrame, fit: pd.Series) -> None:
    """Draw the law that the table states, with its floor where it has one, and its confidence band."""
    fitted = finite[finite["finished"].astype(bool)] if "finished" in finite else finite
    means = fitted.groupby("parameters")["value"].mean()
    sizes = means.index.to_numpy(np.float64)
    grid = np.geomspace(sizes.min() / 1.3, sizes.max() * 1.3, 60)
    law, numbers = law_of(fit)
    at = pd.DataFrame({"size": grid})
    ax.plot(grid, predicted(law, numbers, at), color=MUTED, linewidth=1.0, zorder=1, gid="law")
    points = pd.DataFrame({"size": sizes, "loss": means.to_numpy(np.float64)})
    low, high = law_band(law, numbers, points, at, level=LEVEL, sigma=float(fit["sigma"]))
    if np.isfinite(low).all():
        ax.fill_between(grid, low, high, color=MUTED, alpha=0.15, linewidth=0)
    interval = f" [{fit['low']:+.2f}, {fit['high']:+.2f}]" if np.isfinite(fit["low"]) else ""
    floor = _floor(law, numbers, points, float(fit["sigma"])) if law == "offset" else ""
    note = (
        f"exponent {fit['exponent']:+.3f}{interval}{floor}\nR² {fit['r2']:.2f}, {int(fit['n_sizes'])} sizes"
    )
    _note(ax, note)


def _floor(law: str, numbers: pd.DataFrame, points: pd.DataFrame, sigma: float) -> str:
    """Return the floor of a law with its interval: the band of the law where the size has no part in it."""
    value = float(numbers["value"].iloc[2])
    (low,), (high,) = law_band(
        law, numbers, points, pd.DataFrame({"size": [_ENDLESS]}), level=LEVEL, sigma=sigma
    )
    return f", floor {value:.3g}" + (f" [{low:.3g}, {high:.3g}]" if np.isfinite(low) else "")


def _note(ax: Axes, text: str) -> None:
    ax.text(
        0.03, 0.03, text.replace("-", "−"), transform=ax.transAxes, fontsize=7, color=INK, va="bottom",
        bbox={"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 1.5},
    )  # fmt: skip


def law_of(fit: pd.Series) -> tuple[str, pd.DataFrame]:
    """Return the law of a row of `fits`, and its numbers in the form of `law_table`.

    >>> law_of(pd.Series({"scale": 8.0, "exponent": -0.5, "offset": 1.5}))[0]
    'offset'
    """
    floor = float(fit.get("offset", np.nan))
    names = ["scale", "exponent", *(["offset"] if np.isfinite(floor) and floor != 0 else [])]
    values = [float(fit["scale"]), float(fit["exponent"]), floor][: len(names)]
    bounded = "E" in str(fit.get("law", "")) or len(names) == 3
    if bounded and len(names) == 2:  # a floor at its bound, 0
        names, values = [*names, "offset"], [*values, 0.0]
    return ("offset" if bounded else "power"), pd.DataFrame({"parameter": names, "value": values})


def _axes(ax: Axes, finite: pd.DataFrame) -> None:
    ax.set_xscale("log")
    values = finite["value"].to_numpy(dtype=np.float64)
    if (values > 0).all():
        ax.set_yscale("log")
        low, high = ax.get_ylim()
        ax.set_ylim(low / (high / low) ** 0.28, high)  # room for the note below the points
        ticks = _round_ticks(values.min(), values.max())
        ax.yaxis.set_major_locator(FixedLocator(spaced(ticks, ax.get_ylim(), _APART_Y)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
        ax.yaxis.set_minor_locator(NullLocator())
    ticks = [float(size) for size in sorted(finite["parameters"].unique())]
    ax.xaxis.set_major_locator(FixedLocator(spaced(ticks, ax.get_xlim(), _APART_X)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("parameters (log)")


def spaced(ticks: list[float], limits: tuple[float, float], least: float) -> list[float]:
    """Return the ticks of a log axis that are at least this share of it apart, both ends first.

    >>> spaced([1.0, 2.0, 50.0, 90.0, 100.0], (1.0, 100.0), 0.2)
    [1.0, 100.0]
    """
    span = abs(np.log(limits[1] / limits[0])) or 1.0
    spaced: list[float] = []
    for tick in [*ticks[:1], *ticks[-1:], *ticks[1:-1]]:
        if all(abs(np.log(tick / other)) >= least * span for other in spaced):
            spaced.append(tick)
    return sorted(spaced)


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


def fitted(study: Study) -> pd.DataFrame:
    """Return those of a study's last values that a power law was fitted to."""
    return study.finals[study.finals["quantity"].isin(study.fits["quantity"])]


def caption(study: Study) -> Caption:
    """Return the words under the power laws in the number of parameters."""
    scale_finding = study.findings.get("scale")
    n = scale_finding.numbers["sizes"] if scale_finding else 0
    separate = scale_finding is not None and scale_finding.strength == "apart"
    can = study.findings.said(scale_finding).act if scale_finding else "Nothing: no size is known."
    if scale_finding is not None and scale_finding.strength in ("clear", "unclear"):
        can = concluded(study, list(_rest(study)["quantity"].unique()))
    law = "" if separate else ", with the fitted law (that of a loss has a floor) and its 95% confidence band"
    limit = f"The law beyond the sizes shown: {n} sizes determine it, and width and depth change together"
    if separate:
        limit = "How one family scales: width and depth change together"
    return Caption(
        _title(study),
        f"Quantities at the last checkpoint against the number of parameters, on log-log axes{law}; bars are "
        "intervals over random subsamples. Hollow points are runs that did not finish; no law is fitted to "
        "them.",
        can,
        f"{limit}, and clouds of larger models have more dimensions, which alone changes H0.",
        "Final loss and final topological features against the number of parameters on log-log axes with "
        "fitted lines.",
    )


def _title(study: Study) -> str:
    """Return how many of the drawn quantities have an exponent whose interval leaves zero."""
    exponents, clear = _exponents(study, list(_rest(study)["quantity"]))
    if exponents.empty:
        return "No exponent in the model size has an interval: the table says why"
    of = f"{len(clear):,} of {len(exponents):,} quantities"
    return f"{of} have an exponent in the model size that differs from zero"


def _exponents(study: Study, quantities: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the fits of some quantities that have an interval, and those whose interval leaves zero."""
    fits = study.fits[study.fits["quantity"].isin(quantities)]
    bounded = fits[np.isfinite(fits["low"].astype(float))]
    return bounded, bounded[(bounded["low"] > 0) | (bounded["high"] < 0)]


def concluded(study: Study, quantities: Sequence[str]) -> str:
    """Return what the exponents of the drawn quantities show, and of no other."""
    exponents, clear = _exponents(study, quantities)
    if exponents.empty:
        return "Nothing: no exponent has an interval."
    if clear.empty:
        return "No exponent in the number of parameters differs from zero: every 95% interval contains zero."
    names = listed([study.labels.label(str(quantity)) for quantity in clear["quantity"]])
    return f"The exponent in the number of parameters differs from zero (95% interval) for {names}."


def _loss(study: Study) -> pd.DataFrame:
    fits = fitted(study)
    return fits[fits["quantity"] == study.target]


def _rest(study: Study) -> pd.DataFrame:
    """Return the last values that the figure of the loss does not show; all, if there is none."""
    fits = fitted(study)
    return fits[fits["quantity"] != study.target] if _has_law(study) else fits


def _law_caption(study: Study) -> Caption:
    """Return the words under the law of the loss alone."""
    fit = study.fits[study.fits["quantity"] == study.target].iloc[0]
    label, words_of = study.labels.label(study.target), caption(study)
    title = f"The {label} against model size: no exponent can be given"
    if np.isfinite(fit["low"]):
        clear = "falls with size" if fit["high"] < 0 else "has no clear law in size"
        interval = f"{fit['exponent']:+.2f} [{fit['low']:+.2f}, {fit['high']:+.2f}]".replace("-", "−")
        title = f"The {label} {clear}: exponent {interval}"
    can = concluded(study, [study.target])
    return replace(
        words_of, title=title, can=can, alt=f"The {label} at the end against the number of parameters."
    )


def _has_law(study: Study) -> bool:
    """Return whether the loss is known at enough sizes for a law: two points show nothing."""
    fits = study.fits[study.fits["quantity"] == study.target]
    return study.has_sizes and bool((fits["n_sizes"] >= LEAST_SIZES_FOR_POWER).any())


LAW = OnPage(
    "{subject}_law",
    questions={"scale": 1},
    needs=_has_law,
    draw=lambda study: draw(_loss(study), study.fits, study.runs, study.series.catalogue),
    caption=_law_caption,
)

ON_PAGE = OnPage(
    "scaling",
    questions={"scale": 2},
    needs=lambda study: study.has_sizes and len(_rest(study)) > 0,
    draw=lambda study: draw(_rest(study), study.fits, study.runs, study.series.catalogue),
    caption=caption,
    folded=True,
)
