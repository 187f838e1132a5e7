"""What a figure draws: the sizes with their colours, the loss at checkpoints, long series in bins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from toposcope.core import groups
from toposcope.core.drawing.style import graded, sequential

_WIDTHS = (1.1, 2.4)
"""Line widths in points of the smallest and the largest model: by eye, the largest of ten stands out."""


@dataclass(frozen=True, slots=True)
class DrawnSize(groups.ModelSize):
    """The runs of one model size, with the colour and the width of their line: the largest is strongest."""

    colour: str
    width: float = 1.6


def sizes(runs: pd.DataFrame) -> list[DrawnSize]:
    """Group runs by size as `toposcope.core.groups.sizes` does, each size with its colour."""
    size_groups = groups.sizes(runs) if len(runs) else []
    colours = sequential(len(size_groups))
    widths = np.linspace(*_WIDTHS, len(size_groups)) if len(size_groups) > 1 else [1.6]
    return [
        DrawnSize(g.label, g.parameters, g.runs, colour, float(width))
        for g, colour, width in zip(size_groups, colours, widths, strict=False)
    ]


def runs_of(rows: pd.DataFrame, runs: pd.DataFrame) -> list[str]:
    """Return the runs that some rows have, those of the smallest model first."""
    measured = set(rows["run"])
    return [run for size in groups.sizes(runs) for run in size.runs if run in measured]


def layer_colours(rows: pd.DataFrame) -> dict[object, str]:
    """Return the colour of each layer that some rows have, the first one darkest."""
    layers = sorted(rows["layer"].dropna().unique())
    return dict(zip(layers, graded(max(len(layers), 2)), strict=False))


def loss_at_checkpoints(metrics: pd.DataFrame, steps: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the loss at each checkpoint (columns run, step, loss) and what kind of loss it is.

    Held-out loss where every run has it, else the training minibatch's. `metrics` has the columns
    run, step, loss and heldout_loss; `steps` the columns run and step.
    """
    wanted = steps[["run", "step"]].drop_duplicates()
    joined = wanted.merge(metrics[["run", "step", "loss", "heldout_loss"]], on=["run", "step"], how="left")
    held_out = joined.groupby("run")["heldout_loss"].apply(lambda values: values.notna().any())
    column, kind = (
        ("heldout_loss", "held-out loss") if len(held_out) and held_out.all() else ("loss", "minibatch loss")
    )
    table = joined.rename(columns={column: "chosen"})[["run", "step", "chosen"]].rename(
        columns={"chosen": "loss"}
    )
    return table.dropna().sort_values(["run", "step"], ignore_index=True), kind


def binned(steps: np.ndarray, values: np.ndarray, *, bins: int = 220, spread: bool = True) -> pd.DataFrame:
    """Return a long series on at most `bins` log-spaced bins: columns step, mean, low, high (5% and 95%).

    A series that is short enough is returned as it is. Without `spread` there is no low and high.
    """
    order = np.argsort(steps, kind="stable")
    steps, values = np.asarray(steps)[order], np.asarray(values, dtype=np.float64)[order]
    keep = np.isfinite(values)
    steps, values = steps[keep], values[keep]
    if len(steps) <= bins:
        short = pd.DataFrame({"step": steps, "mean": values})
        return short.assign(low=values, high=values) if spread else short
    place = np.floor(bins * np.log1p(steps - steps[0]) / np.log1p(steps[-1] - steps[0])).clip(max=bins - 1)
    grouped = pd.DataFrame({"place": place, "step": steps, "value": values}).groupby("place")
    summary = grouped.mean().rename(columns={"value": "mean"}).reset_index(drop=True)
    if spread:
        summary["low"] = grouped["value"].quantile(0.05).to_numpy()
        summary["high"] = grouped["value"].quantile(0.95).to_numpy()
    return summary
