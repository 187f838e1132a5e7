"""Clusters over layers (Kruger 2026): whether b0 falls to 1 through depth, in trained transformers alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import product
from typing import Literal

import numpy as np
import pandas as pd

from toposcope.core.seeding import rng
from toposcope.studies.claims import Claim, Standing
from toposcope.studies.reexamined.family import BASE, Measure, Row, RunPlan, twin_of, with_seeds
from toposcope.studies.sections import Section
from toposcope.studies.seed004.seeds import mean_interval, shown
from toposcope.topology import components, subsample
from toposcope.training import TrainingStep

NAME = "clusters"
METRICS: tuple[Literal["euclidean", "cosine"], ...] = ("euclidean", "cosine")
CUTS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
"""Points closer than this share of the cloud's median distance are joined."""
SIZES = (100, 200, 400)
"""Numbers of points; with the metrics and the cuts they make 36 settings, as many as the source varies."""
TWINS = 5
"""Gaussian clouds of the same covariance for each cloud; the means over ten runs need no more."""
LEAST_CLUSTERS = 5
"""From fewer components at the embedding there is nothing to collapse."""
CLOUDS = ("real", "twin")


def measures(last_step: int) -> Measure:
    """Return the measure of a run: b0 of every layer before training and at the end."""
    return partial(_measure, last_step=last_step)


def plans(seeds: int) -> list[RunPlan]:
    """Return the runs of the base recipe."""
    return [RunPlan("base", with_seeds(BASE, seeds), {NAME: lambda: measures(BASE.steps)})]


def _measure(event: TrainingStep, *, last_step: int) -> Iterable[Row]:
    if event.step not in (0, last_step):
        return
    clouds = states(event)
    chosen = subsample(len(clouds[0]), max(SIZES), draw=0, name="cloud of tokens")
    clouds = [cloud[chosen] for cloud in clouds]
    yield from ({"cloud": "real", "draw": 0, **row} for row in counts(clouds))
    for draw in range(TWINS):
        chance = rng(name="cluster twin", run=event.run, draw=draw)
        twins = [twin_of(cloud, chance) for cloud in clouds]
        yield from ({"cloud": "twin", "draw": draw, **row} for row in counts(twins))


def states(event: TrainingStep) -> list[np.ndarray]:
    """Return the residual stream at every position of the run's held-out texts, a cloud for each layer.

    The first is the embedding, then one after each block; the last is not normalised.
    """
    import torch
    from safetensors.torch import load_file

    tokens = load_file(event.folder / "heldout.safetensors")["tokens"].flatten(0, 1)[:, :-1].long()
    model, found = event.model, []
    with torch.no_grad():
        stream = model.token_emb(tokens) + model.pos_emb.weight[: tokens.shape[1]]
        found.append(stream)
        for block in model.layers:
            stream = block(stream)
            found.append(stream)
    return [layer.flatten(0, 1).double().numpy() for layer in found]


def counts(clouds: Sequence[np.ndarray]) -> Iterable[Row]:
    """Yield b0 of every cloud, in the order of the layers, at each of the 36 settings.

    >>> ends = [[0.0, 0.0], [0.0, 1.0], [9.0, 0.0], [9.0, 1.0]]
    >>> rows = list(counts([np.array(ends) + 1.0]))
    >>> {row["b0"] for row in rows if row["cut"] == 0.3 and row["metric"] == "euclidean"}
    {2}
    """
    for layer, cloud in enumerate(clouds):
        for size, metric in product(SIZES, METRICS):
            points = np.asarray(cloud[:size], float)
            merges = components(points, metric=metric).death[:-1]
            median = _median_distance(points, metric)
            for cut in CUTS:
                b0 = 1 + int((merges > cut * median).sum())
                yield {"layer": layer, "size": size, "metric": metric, "cut": cut, "b0": b0}


def _median_distance(points: np.ndarray, metric: str) -> float:
    from scipy.spatial.distance import pdist

    return float(np.median(pdist(points, metric)))


def collapses(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the share of settings at which b0 falls to 1: a row for each seed, step and kind of cloud.

    A setting counts if the embedding has five components or more and some later layer has one.
    """
    keys = ["seed", "step", "cloud", "draw", "size", "metric", "cut"]
    wide = rows.pivot_table(index=keys, columns="layer", values="b0")
    fell = (wide[0] >= LEAST_CLUSTERS) & (wide.drop(columns=0).min(axis=1) == 1)
    return fell.groupby(["seed", "step", "cloud"]).mean().unstack("cloud").reset_index()


def judge(rows: pd.DataFrame) -> tuple[list[Claim], list[Section]]:
    """Judge the claim: b0 falls to 1 at most settings after training, more than before, and than in twins.

    It holds as written if trained networks collapse at over half of the settings and more than untrained
    ones; if Gaussian clouds of the same covariance collapse as often, the spectrum tells as much.
    """
    found = collapses(rows)
    last = found["step"].max()
    trained, untrained = (found[found["step"] == step].set_index("seed") for step in (last, 0))
    share, before = 100 * trained["real"], 100 * untrained["real"]
    over_before = mean_interval(share - before)
    over_twin = mean_interval(share - 100 * trained["twin"])
    claim = Claim(
        text="b0 falls to 1 through depth in trained transformers, and not in untrained ones",
        source="Kruger 2026: 519 to 1 (Qwen3-4B), at 83% of 36 settings; untrained 503 to 968",
        here=f"it falls to 1 at {shown(share, '.0f')}% of 36 settings when trained, at "
        f"{shown(before, '.0f')}% untrained",
        statistic=f"{len(share)} runs; in Gaussian clouds of the same covariance at "
        f"{shown(100 * trained['twin'], '.0f')}%; trained minus untrained {shown(share - before, '+.0f')}, "
        f"minus Gaussian {shown(share - 100 * trained['twin'], '+.0f')}",
        judgement=_judgement(float(share.mean()), over_before[1], over_twin[1]),
    )
    return [claim], [_by_layer(rows, int(last))]


def _judgement(share: float, over_untrained: float, over_twin: float) -> Standing:
    """Return the judgement from the share of settings, and the low ends of the intervals of differences."""
    if not np.isfinite([over_untrained, over_twin]).all():
        return Standing.UNTESTED
    if share <= 50 or over_untrained <= 0:
        return Standing.FAILS
    return Standing.HOLDS if over_twin > 0 else Standing.OUTDONE


def _by_layer(rows: pd.DataFrame, last: int) -> Section:
    middle = rows[rows["size"] == max(SIZES)]
    table = []
    for metric, cut, layer in product(METRICS, CUTS, sorted(rows["layer"].unique())):
        mine = middle[(middle["metric"] == metric) & (middle["cut"] == cut) & (middle["layer"] == layer)]
        means = mine.groupby(["step", "cloud"])["b0"].mean()
        table.append((metric, cut, layer, *(means[step, cloud] for step in (last, 0) for cloud in CLOUDS)))
    return Section(
        "Components by layer",
        ("metric", "cut", "layer", "b0, trained", "its Gaussian twins", "b0, untrained", "its twins"),
        tuple(table),
        f"Means over runs of the number of components of {max(SIZES)} token states, where points closer than "
        "the cut times the median distance are joined. Layer 0 is the embedding.",
    )
