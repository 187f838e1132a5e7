"""Correlation of the features with the loss: raw, with the step taken out, and beyond the trend."""

from __future__ import annotations

import textwrap

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from toposcope.core.drawing.series import DrawnSize, sizes
from toposcope.core.drawing.style import INK, MUTED, house, new_figure, say_empty
from toposcope.core.forms import capital
from toposcope.page.notes import passing
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.catalogue import is_baseline, labels_in, leading
from toposcope.study.study import Study

BESIDE = (("departure_rho", "Departures from the trend"), ("partial_step", "Given log step"))
"""What the middle panel shows: the first of these that the table has."""
_MAP = "RdBu_r"


def draw(
    trends: pd.DataFrame, runs: pd.DataFrame, catalogue: pd.DataFrame, *, target: str = "loss", most: int = 16
) -> Figure:
    """Draw features against model sizes, coloured by their correlation with `target`, in three stages.

    Parameters
    ----------
    trends
        The trend table: columns run, target, column, spearman, partial_step, r, verdict.
    runs
        Columns run, family, parameters.
    catalogue
        What the columns are: `SeriesTable.catalogue`.
    target
        Which target's rows to draw.
    most
        Most features drawn.

    Returns
    -------
    Figure
        Left to right: Spearman's rho; the same for the departures from each one's smooth trend (given log
        step, where the table lacks them); the correlation of what neither series' own past predicts. Cells
        are means over the seeds of a size. Outlined on the right: the verdict "adds" in every seed of the
        size. Dash: not computable; a stage without a number is left out. Below the line: norms and spectra.
    """
    mine = trends[trends["target"] == target]
    numbers = [name for name in ("spearman", *(stage for stage, _ in BESIDE), "r") if name in mine]
    columns_tested = mine.loc[
        mine[numbers].notna().any(axis=1), "column"
    ]  # a row of dashes alone says nothing
    columns = leading(columns_tested, catalogue, most=most)
    groups = [group for group in sizes(runs) if mine["run"].isin(group.runs).any()]
    shown = stages_of(mine[mine["column"].isin(columns)])
    names = labels_in(catalogue)
    with house():
        figure, axes = new_figure(0.25 * max(len(columns), 4) + 1.5, columns=max(len(shown), 1), sharey=True)
        if not columns or not groups or not shown:
            say_empty(axes[0, 0], f"no correlation with {target} could be computed")
            return figure
        topology = sum(not is_baseline(column, catalogue) for column in columns)
        for ax, (stage, title) in zip(axes[0], shown, strict=True):
            grid = matrix(mine, columns, groups, stage)
            panel(
                ax,
                grid,
                title=title,
                groups=groups,
                outlined=_adds(mine, columns, groups, stage),
                first_baseline=topology,
            )
        axes[0, 0].set_yticks(range(len(columns)), [names.get(column, column) for column in columns])
        bar = figure.colorbar(
            ScalarMappable(Normalize(-1, 1), _MAP), ax=axes, pad=0.012, fraction=0.02, aspect=40, shrink=0.7
        )
        bar.set_ticks([-1, -0.5, 0, 0.5, 1])
        bar.set_label(f"correlation with {names.get(target, target)}")
        bar.outline.set_visible(False)
        _fit_numbers(figure, list(axes[0]), len(groups))
    return figure


def stages_of(trends: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the columns that have a number, and the titles of their panels."""
    tested = [name for name in trends.columns if trends[name].notna().any()]
    beside = [stage for stage in BESIDE if stage[0] in tested][:1]
    every = [("spearman", "Raw rho"), *beside, ("r", "Innovations")]
    return [stage for stage in every if stage[0] in tested]


def _fit_numbers(figure: Figure, panels: list[Axes], columns: int) -> None:
    """Make the numbers as large as their cells allow, after the layout is final."""
    if (layout := figure.get_layout_engine()) is not None:
        layout.execute(figure)
    for ax in panels:
        width = 72.0 / figure.dpi * ax.get_window_extent().width / columns
        for text in ax.texts:
            text.set_fontsize(float(np.clip(width / 2.8, 3.5, 7.5)))


def matrix(trends: pd.DataFrame, columns: list[str], groups: list[DrawnSize], stage: str) -> np.ndarray:
    """Return the (features, sizes) matrix of one stage: means over the seeds, NaN where one has no value."""
    out = np.full((len(columns), len(groups)), np.nan)
    for j, group in enumerate(groups):
        mine = trends[trends["run"].isin(group.runs)]
        of_run = mine.pivot_table(index="column", columns="run", values=stage, dropna=False)
        means = of_run.mean(axis=1, skipna=False)
        out[:, j] = means.reindex(columns).to_numpy(dtype=np.float64)
    return out


def _adds(trends: pd.DataFrame, columns: list[str], groups: list[DrawnSize], stage: str) -> np.ndarray:
    marked = np.zeros((len(columns), len(groups)), dtype=bool)
    if stage != "r":
        return marked
    for j, group in enumerate(groups):
        of_size = trends[trends["run"].isin(group.runs)]
        every = (of_size["verdict"] == "adds").groupby(of_size["column"]).all()
        marked[:, j] = every.reindex(columns, fill_value=False).to_numpy(dtype=bool)
    return marked


def panel(
    ax: Axes,
    grid: np.ndarray,
    *,
    title: str,
    groups: list[DrawnSize],
    outlined: np.ndarray,
    first_baseline: int = 0,
) -> None:
    """Draw one matrix as coloured cells with their numbers on `ax`, a line above row `first_baseline`."""
    ax.set_title(textwrap.fill(title, 16))  # three panels: longer ones run into each other
    ax.imshow(grid, cmap=_MAP, vmin=-1, vmax=1, aspect="auto")
    ax.set_xticks(
        range(len(groups)), [group.label for group in groups], rotation=35, ha="right", rotation_mode="anchor"
    )
    ax.tick_params(length=0)
    ax.grid(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    for (i, j), value in np.ndenumerate(grid):
        if np.isnan(value):
            ax.text(j, i, "–", ha="center", va="center", color=MUTED)
            continue
        ax.text(
            j,
            i,
            cell(value),
            ha="center",
            va="center",
            color="white" if abs(value) > 0.6 else INK,
        )
    if 0 < first_baseline < len(grid):
        ax.axhline(first_baseline - 0.5, color=INK, linewidth=1.6)
    for i, j in np.argwhere(outlined):
        ax.add_patch(Rectangle((j - 0.46, i - 0.44), 0.92, 0.88, fill=False, edgecolor=INK, linewidth=1.4))


def cell(value: float) -> str:
    """Return a correlation in few characters.

    >>> cell(-0.907), cell(0.66), cell(-0.001), cell(-1.0)
    ('−.91', '+.66', '0', '−1')
    """
    if abs(value) < 0.005:
        return "0"
    text = f"{abs(value):.2f}".removeprefix("0") if abs(value) < 0.995 else "1"
    return ("−" if value < 0 else "+") + text


def judged(study: Study) -> pd.DataFrame:
    """Return the trend rows of the primary features, each with the verdict on its feature over all runs."""
    keys = ["target", "column"]
    mine = study.leading
    over_runs = study.families[[*keys, "verdict"]].drop_duplicates(keys)
    mine = mine.drop(columns="verdict", errors="ignore").merge(over_runs, on=keys, how="left")
    return mine


def of_study(study: Study, *, most: int = 16) -> Figure:
    """Draw what a study judges with its target."""
    return draw(judged(study), study.runs, study.series.catalogue, target=study.target, most=most)


def _outlined(study: Study) -> str:
    """Say how many judged features pass their test, or that none can be judged with these runs."""
    numbers = study.findings["beyond"].numbers
    if "tested" not in numbers:
        return "none"
    return passing(numbers["found"], numbers["tested"], f"{study.judged}s")


def _title(study: Study, target: str) -> str:
    """Return how many judged features follow the target beyond a shared trend."""
    numbers = study.findings["beyond"].numbers
    if not numbers.get("tested"):
        return f"Nothing could be tested against the {target}: raw correlations show drift alone"
    share = f"{numbers['found']} of {numbers['tested']} {study.judged}s"
    return f"{share} move with the {target} beyond a shared trend"


def caption(study: Study) -> Caption:
    """Return the words under the heat maps of correlations, of the panels that are drawn."""
    target = study.labels.label(study.target)
    trends = judged(study)
    shown = [stage for stage, _ in stages_of(trends[trends["target"] == study.target])]
    tested = "r" in shown
    panels = [_PANELS[stage] for stage in shown]
    can = (
        f"Only the outlined rows of the innovations ({_outlined(study)}) are evidence of a relation beyond "
        "a shared trend: only the error rate of this panel holds for drifting curves."
        if tested
        else "Which quantities rise and fall with the step. No test was possible. The table of verdicts says "
        "why."
    )
    cannot = "A relation from a dark cell of the raw correlations alone, or a cause."
    if tested:
        cannot += (
            " A row without outline does not exclude a relation: with this many checkpoints small effects "
            "stay undetected."
        )
    return Caption(
        _title(study, target),
        f"{capital('; '.join(panels))}. A dash: not computable." if panels else "Nothing could be computed.",
        can,
        cannot,
        f"Heat maps of features against model sizes: {'; '.join(panels)}.",
    )


_PANELS = {
    "spearman": "Spearman's rho over checkpoints",
    "departure_rho": "the same for the departures of each series from its own smooth trend, without a test",
    "partial_step": "the same given log step",
    "r": "the correlation of innovations, the part of each series that its smooth trend and its own past "
    "do not "
    "explain; outlined rows passed the test over all runs, after correction for the number of tests",
}
"""What each panel of the heat maps shows, from left to right."""

ON_PAGE = OnPage(
    "correlations",
    questions={"rivals": 1, "beyond": 1},
    needs=lambda study: bool(study.target) and bool((judged(study)["target"] == study.target).any()),
    draw=of_study,
    caption=caption,
    folded=True,
)
