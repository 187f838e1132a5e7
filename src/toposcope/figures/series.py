"""From the store's tables to what a figure draws: who belongs together, and a line with its interval."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import t as student

from toposcope.figures.style import sequential, short

_SEED = re.compile(r"[-_]seed[-_]?\d+$")

LEVEL = 0.95
"""Coverage of every interval and null band that is drawn."""


@dataclass(frozen=True, slots=True)
class Size:
    """The runs of one model size: several where there are seeds, one where there are none."""

    label: str
    parameters: int
    runs: tuple[str, ...]
    colour: str


def sizes(runs: pd.DataFrame) -> list[Size]:
    """Group runs by family and number of parameters, from the smallest to the largest, each with its colour.

    `runs` has the columns run, family and parameters. A run whose size is unknown (0) stands alone. A
    size is called by its runs' name without the seed where they share one, else by its parameters.
    """
    keyed: dict[tuple[int, str, str], list[str]] = {}
    for run, family, parameters in runs[["run", "family", "parameters"]].itertuples(index=False):
        known = int(parameters) if pd.notna(parameters) else 0
        keyed.setdefault((known, str(family), "" if known else str(run)), []).append(str(run))
    ordered = sorted(keyed.items())
    colours = sequential(len(ordered))
    labels = [_label(parameters, members) for (parameters, _, _), members in ordered]
    found = []
    for ((parameters, family, _), members), label, colour in zip(ordered, labels, colours, strict=True):
        named = label if labels.count(label) == 1 else f"{family} {label}".strip()
        found.append(Size(named, parameters, tuple(sorted(members)), colour))
    return found


def _label(parameters: int, members: list[str]) -> str:
    stems = {_SEED.sub("", member) for member in members}
    return stems.pop() if len(stems) == 1 else short(parameters)


def size_list(runs: pd.DataFrame) -> str:
    """Return the model sizes in one phrase, smallest first."""
    return ", ".join(short(group.parameters) if group.parameters else group.label for group in sizes(runs))


def select(
    features: pd.DataFrame,
    feature: str,
    *,
    probe: str,
    filtration: str | None = None,
    name: str | None = None,
    role: str | None = None,
    scope: str | None = None,
) -> pd.DataFrame:
    """Return the finite rows of one feature (columns as in the store's features table)."""
    keep = (features["feature"] == feature) & (features["probe"] == probe)
    for column, wanted in (("filtration", filtration), ("name", name), ("role", role), ("scope", scope)):
        if wanted is not None:
            keep &= features[column] == wanted
    chosen = features[keep]
    return chosen[np.isfinite(chosen["value"].to_numpy(dtype=np.float64))]


def curve(rows: pd.DataFrame, runs: tuple[str, ...]) -> pd.DataFrame:
    """Return the line of one size: columns step, mean, low, high, draws, seeds.

    Draws (random subsamples) are averaged first. With one run the interval is Student's, of the mean
    over its draws; with several it is Student's, of the mean over the seeds, which are the
    independent unit. Where neither repeats, low and high are NaN.
    """
    mine = rows[rows["run"].isin(runs)]
    per_run = mine.groupby(["run", "step"])["value"].agg(["mean", "std", "count"]).reset_index()
    if len(runs) > 1:
        grouped = per_run.groupby("step")["mean"].agg(["mean", "std", "count"])
        draws = per_run.groupby("step")["count"].min()
        seeds = grouped["count"]
    else:
        grouped = per_run.set_index("step")[["mean", "std", "count"]].sort_index()
        draws, seeds = grouped["count"], grouped["count"].clip(upper=1)
    half = _half_width(grouped["std"], grouped["count"], of_mean=True)
    return pd.DataFrame(
        {
            "step": grouped.index.to_numpy(),
            "mean": grouped["mean"].to_numpy(),
            "low": (grouped["mean"] - half).to_numpy(),
            "high": (grouped["mean"] + half).to_numpy(),
            "draws": draws.to_numpy(),
            "seeds": seeds.to_numpy(),
        }
    )


def null_band(rows: pd.DataFrame, runs: tuple[str, ...]) -> pd.DataFrame:
    """Return where one more value of the null would fall: columns step, mean, low, high, draws.

    Each draw of the null is averaged over the runs of a size first, so that the band is comparable
    with the mean line of that size. The band is Student's prediction interval over the draws.
    """
    mine = rows[rows["run"].isin(runs)]
    per_draw = mine.groupby(["step", "draw"])["value"].mean()
    grouped = per_draw.groupby("step").agg(["mean", "std", "count"])
    half = _half_width(grouped["std"], grouped["count"], of_mean=False)
    return pd.DataFrame(
        {
            "step": grouped.index.to_numpy(),
            "mean": grouped["mean"].to_numpy(),
            "low": (grouped["mean"] - half).to_numpy(),
            "high": (grouped["mean"] + half).to_numpy(),
            "draws": grouped["count"].to_numpy(),
        }
    )


def _half_width(std: pd.Series, count: pd.Series, *, of_mean: bool) -> pd.Series:
    repeated = count.where(count >= 2).astype(float)
    factor = 1.0 / repeated if of_mean else 1.0 + 1.0 / repeated
    quantile = student.ppf(0.5 + LEVEL / 2, repeated - 1.0)
    return pd.Series(quantile * std.to_numpy() * np.sqrt(factor.to_numpy()), index=std.index)


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
    return table.dropna().sort_values(["run", "step"], ignore_index=True), f"{kind} (nats per token)"


def binned(steps: np.ndarray, values: np.ndarray, *, bins: int = 220) -> pd.DataFrame:
    """Return a long series on at most `bins` log-spaced bins: columns step, mean, low, high (5% and 95%).

    A series that is short enough is returned as it is.
    """
    order = np.argsort(steps, kind="stable")
    steps, values = np.asarray(steps)[order], np.asarray(values, dtype=np.float64)[order]
    keep = np.isfinite(values)
    steps, values = steps[keep], values[keep]
    if len(steps) <= bins:
        return pd.DataFrame({"step": steps, "mean": values, "low": values, "high": values})
    place = np.floor(bins * np.log1p(steps - steps[0]) / np.log1p(steps[-1] - steps[0])).clip(max=bins - 1)
    grouped = pd.DataFrame({"place": place, "step": steps, "value": values}).groupby("place")
    return pd.DataFrame(
        {
            "step": grouped["step"].mean().to_numpy(),
            "mean": grouped["value"].mean().to_numpy(),
            "low": grouped["value"].quantile(0.05).to_numpy(),
            "high": grouped["value"].quantile(0.95).to_numpy(),
        }
    )
