"""Layer by step: one heat map for each run, of one feature of the hidden states."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from toposcope.core.drawing.series import sizes
from toposcope.core.drawing.style import GRADED, house, new_figure, say_empty
from toposcope.core.forms import capital
from toposcope.core.groups import short
from toposcope.core.types import Feature, Scope
from toposcope.page.on_page import Caption, OnPage
from toposcope.store.draws import over_draws
from toposcope.study.rows import select
from toposcope.study.study import Study
from toposcope.subjects.representations.features import H1_SCALED, RANK, REPRESENTATIONS

_MAP = GRADED


def draw(
    features: pd.DataFrame, runs: pd.DataFrame, feature: str, *, title: str, probe: str = REPRESENTATIONS
) -> Figure:
    """Draw `feature` as colour over checkpoints (columns) and hidden states (rows), a panel for each run.

    Parameters
    ----------
    features
        The store's features table; rows of the scope "layer".
    runs
        Columns run, family, parameters.
    feature, title
        The feature, and the label of the colour bar.

    Returns
    -------
    Figure
        All panels share one colour scale. Draws are averaged. Checkpoints are evenly spaced, and named.
    """
    rows = select(features, feature, probe=probe, scope=Scope.LAYER)
    names = [run for size in sizes(runs) for run in size.runs if (rows["run"] == run).any()]
    with house():
        figure, axes = new_figure(
            1.1 + 0.16 * _most_layers(rows) + 0.5, columns=max(len(names), 1), sharey=False
        )
        if not names:
            say_empty(axes[0, 0], f"{feature} was not measured")
            return figure
        scale = Normalize(float(rows["value"].quantile(0.01)), float(rows["value"].quantile(0.99)))
        for ax, run in zip(axes[0], names, strict=True):
            _panel(ax, matrix(rows, run), run, scale)
        axes[0, 0].set_ylabel("hidden state (0: embedding)")
        bar = figure.colorbar(ScalarMappable(scale, _MAP), ax=axes, pad=0.012, fraction=0.025, aspect=25)
        bar.set_label(title)
        bar.outline.set_visible(False)
    return figure


def matrix(rows: pd.DataFrame, run: str) -> pd.DataFrame:
    """Return one run's values, layers down and steps across, averaged over draws."""
    means = over_draws(rows[rows["run"] == run], ["layer", "step"])
    return means.pivot(index="layer", columns="step", values="value").sort_index()


def _most_layers(rows: pd.DataFrame) -> int:
    return max(int(rows["layer"].nunique()), 4) if len(rows) else 4


def _panel(ax: Axes, grid: pd.DataFrame, run: str, scale: Normalize) -> None:
    ax.set_title(run)
    ax.imshow(grid.to_numpy(), cmap=_MAP, norm=scale, aspect="auto", origin="lower", interpolation="nearest")
    steps, layers = list(grid.columns), list(grid.index)
    places = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), 6)).round().astype(int))
    ax.set_xticks(places, [short(steps[i]) for i in places])
    shown = np.unique(np.linspace(0, len(layers) - 1, min(len(layers), 8)).round().astype(int))
    ax.set_yticks(shown, [str(int(layers[i])) for i in shown])
    ax.set_xlabel("checkpoint (step)")
    ax.grid(False)
    ax.tick_params(length=0)


def _has_layers(study: Study) -> bool:
    features = study.features
    hidden = features[(features["probe"] == REPRESENTATIONS) & (features["scope"] == Scope.LAYER)]
    return hidden["layer"].nunique() > 1


def _title(study: Study, feature: str, name: str) -> str:
    """Return a title with the hidden state in which a feature ends largest, and in how many models."""
    rows = select(study.features, feature, probe=REPRESENTATIONS, scope=Scope.LAYER)
    last = rows[rows["step"] == rows.groupby("run")["step"].transform("max")]
    if last.empty:
        return f"Layer by step: {name}"
    means = over_draws(last, ["run", "layer"]).sort_values(["run", "layer"], ignore_index=True)
    ends = means.loc[means.groupby("run")["value"].idxmax(), "layer"].value_counts()
    layer, n = int(ends.index[0]), int(ends.iloc[0])
    state = {0: "the embedding", int(last["layer"].max()): "the last hidden state"}
    models = f" of {n} of {ends.sum()} models" if ends.sum() > 1 else ""
    return capital(f"{name} ends largest in {state.get(layer, f'hidden state {layer}')}{models}")


def _caption(study: Study, feature: str, name: str) -> Caption:
    return Caption(
        _title(study, feature, name),
        f"Colour is the {name} of each hidden state (up; 0 is the embedding) at each checkpoint (across).",
        "In which layer and at which checkpoint it changes first.",
        "Small differences of shade, because the map has no interval. Layers have different scales before "
        "the final norm, which raw quantities would show.",
        f"Heat maps of {name} over hidden states and checkpoints, one per model.",
    )


def _on_page(feature: Feature, title: str, sentence: str) -> OnPage:
    return OnPage(
        f"layer_map_{feature.name}",
        needs=lambda study: (
            study.has_curves and _has_layers(study) and study.has(feature.name, probe=REPRESENTATIONS)
        ),
        draw=lambda study: draw(study.features, study.runs, feature.name, title=title),
        caption=lambda study: _caption(study, feature.name, sentence),
    )


H1_MAP = _on_page(H1_SCALED, "H1 total / median distance", "H1 total persistence over the median distance")
RANK_MAP = _on_page(RANK, "effective rank", "effective rank")
