"""Draw docs/images/statistics.svg: the verdict's test on two simulated pairs of a feature and a loss.

Run: python -m benchmarks.statistics_picture [FILE]. Both pairs drift in the same way. The innovations of the
first pair are independent, those of the second are correlated by .7.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from toposcope.core.seeding import rng
from toposcope.statistics.trends.basis import core_trends
from toposcope.statistics.trends.innovations import pair_innovations
from toposcope.statistics.trends.joint import joint_test
from toposcope.statistics.trends.signs import pair_products
from toposcope.statistics.trends.whitening import whiten

STEPS = np.arange(51) * 100.0
CORRELATIONS = {"unrelated": 0.0, "related, r = 0.7": 0.7}
LOSS, FEATURE, NULL = "#0b5394", "#b45f06", "0.8"
SIGNS = 20_000


def pair(correlation: float) -> tuple[np.ndarray, np.ndarray]:
    """Return a feature and a loss (n,): power laws whose noise is correlated."""
    g = rng(name="statistics picture", percent=round(100 * correlation))
    a, b = g.standard_normal((2, len(STEPS)))
    b = correlation * a + np.sqrt(1.0 - correlation**2) * b
    return 3.0 - 6.0 * (STEPS + 100.0) ** -0.3 + 0.06 * a, 10.0 * (STEPS + 100.0) ** -0.25 + 0.08 * b


def trend(values: np.ndarray) -> np.ndarray:
    """Return what the core trends explain of a series."""
    basis = core_trends(STEPS)
    return np.asarray(basis @ (basis.T @ values))


def draw_pair(row: np.ndarray, title: str, correlation: float) -> None:
    """Draw one pair: the curves and their trends, the innovations, r among random signs."""
    feature, loss = pair(correlation)
    curves, rest, null = row
    other = curves.twinx()
    for ax, values, colour in ((curves, loss, LOSS), (other, feature, FEATURE)):
        ax.plot(STEPS, values, ".", color=colour, markersize=3)
        ax.plot(STEPS, trend(values), "-", color=colour, linewidth=1)
        ax.set_yticks([])
    curves.set_ylabel(title)
    curves.text(
        0.45, 0.5, f"ρ = {spearman(feature, loss):+.2f}".replace("-", "−"), transform=curves.transAxes
    )
    white = [whiten(values[:, None], STEPS) for values in (feature, loss)]
    one = pair_innovations(*white, rate_known=True)[0]
    for values, colour, shift in ((one.f, LOSS, 2.5), (one.e, FEATURE, -2.5)):
        rest.axhline(shift, color="0.8", linewidth=0.6)
        rest.plot(STEPS, values + shift, ".-", color=colour, markersize=3, linewidth=0.5)
    rest.set_yticks([])
    draw_null(null, one.e, one.f)
    test = joint_test([one])
    said = f"r = {test.r:+.2f}\np = {test.p:.2g}".replace("-", "−")
    null.text(0.04, 0.75, said, transform=null.transAxes)


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Return the rank correlation of two series without ties."""
    return float(np.corrcoef(a.argsort().argsort(), b.argsort().argsort())[0, 1])


def draw_null(ax: Axes, e: np.ndarray, f: np.ndarray) -> None:
    """Draw r under random signs, the band that holds 95% of it, and r itself."""
    every = slice(0, len(e))
    product, square, _ = pair_products(e, f, every, every, np.ones(len(e)))
    signs = rng(name="statistics picture", what="signs").choice([-1.0, 1.0], (SIGNS, len(e)))
    drawn = signs @ product / square.sum()
    low, high = np.quantile(drawn, [0.025, 0.975])
    ax.hist(drawn, bins=60, color=NULL)
    ax.axvspan(low, high, color=NULL, alpha=0.4, linewidth=0)
    ax.axvline(product.sum() / square.sum(), color="black", linewidth=1.5)
    ax.set_xlim(-1.0, 1.0)
    ax.set_yticks([])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", default=Path("docs/images/statistics.svg"))
    options = parser.parse_args()
    mpl.rcParams.update({"svg.hashsalt": "statistics", "svg.fonttype": "path", "font.size": 8})
    figure, axes = plt.subplots(2, 3, figsize=(8.0, 4.0), sharex="col", layout="constrained")
    titles = (
        "1. Loss (blue), feature (orange) and trends",
        "2. Innovations: what trend and past leave",
        "3. r (line) among random signs (grey)",
    )
    for ax, title in zip(axes[0], titles, strict=True):
        ax.set_title(title, fontsize=8)
    for row, (name, correlation) in zip(axes, CORRELATIONS.items(), strict=True):
        draw_pair(row, name, correlation)
    for ax, label in zip(axes[1], ("step", "step", "r of innovations"), strict=True):
        ax.set_xlabel(label)
    for ax in figure.axes:
        ax.spines[["top", "right"]].set_visible(False)
    options.file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.file, metadata={"Date": None})


if __name__ == "__main__":
    main()
