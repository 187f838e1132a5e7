"""Clusters over layers (Kruger 2026): whether b0 falls to 1 through depth, in trained transformers alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any, Literal

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
REAL, TWIN, TOKENS = "real", "twin", "tokens"
CLOUDS = {
    REAL: "the states",
    TWIN: "Gaussian clouds of the same covariance",
    TOKENS: "the tokens' mean states with Gaussian residuals",
}
"""The third has every cluster that the tokens alone make: a cluster of theirs says no more than a mean."""


def measures(last_step: int) -> Measure:
    """Return the measure of a run: b0 of every layer before training and at the end."""
    return partial(_measure, last_step=last_step)


def plans(seeds: int) -> list[RunPlan]:
    """Return the runs of the base recipe."""
    return [RunPlan("base", with_seeds(BASE, seeds), {NAME: lambda: measures(BASE.steps)})]


def _measure(event: TrainingStep, *, last_step: int) -> Iterable[Row]:
    if event.step not in (0, last_step):
        return
    tokens, clouds = states(event)
    chosen = subsample(len(tokens), max(SIZES), draw=0, name="cloud of tokens")
    yield from of_clouds([cloud[chosen] for cloud in clouds], tokens[chosen], run=event.run)


def of_clouds(clouds: Sequence[np.ndarray], tokens: np.ndarray, *, run: str) -> Iterator[Row]:
    """Yield b0 of the clouds, a layer each, and of `TWINS` draws of both nulls."""
    yield from ({"cloud": REAL, "draw": 0, **row} for row in counts(clouds))
    for draw in range(TWINS):
        chance = rng(name="cluster twin", run=run, draw=draw)
        twins = [twin_of(cloud, chance) for cloud in clouds]
        yield from ({"cloud": TWIN, "draw": draw, **row} for row in counts(twins))
        twins = [token_twin(cloud, tokens, chance) for cloud in clouds]
        yield from ({"cloud": TOKENS, "draw": draw, **row} for row in counts(twins))


def token_twin(cloud: np.ndarray, tokens: np.ndarray, chance: np.random.Generator) -> np.ndarray:
    """Return the mean state of each point's token, with a Gaussian residual of the same covariance."""
    _, kind = np.unique(tokens, return_inverse=True)
    sums = np.zeros((kind.max() + 1, cloud.shape[1]))
    np.add.at(sums, kind, cloud)
    means = (sums / np.bincount(kind)[:, None])[kind]
    return means + twin_of(cloud - means, chance)


def states(event: TrainingStep) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the tokens of the run's held-out texts, and the residual stream there: a cloud for each layer.

    The first is the embedding, then one after each block; the last is not normalised.
    """
    import torch
    from safetensors.torch import load_file

    tokens = load_file(event.folder / "heldout.safetensors")["tokens"].flatten(0, 1)[:, :-1].long()
    model, streams = event.model, []
    with torch.no_grad():
        stream = model.token_emb(tokens) + model.pos_emb.weight[: tokens.shape[1]]
        streams.append(stream)
        for block in model.layers:
            stream = block(stream)
            streams.append(stream)
    return tokens.flatten().numpy(), [layer.flatten(0, 1).double().numpy() for layer in streams]


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


def falls(rows: pd.DataFrame) -> pd.DataFrame:
    """Return how b0 falls over depth: a row for each seed, step and kind of cloud.

    Means over the settings at which the embedding has five components or more: `to_one` is the share at which
    a later layer has one component, `fall` the logarithm to base 2 of the embedding's b0 over the least one.
    """
    keys = ["seed", "step", "cloud", "draw", "size", "metric", "cut"]
    wide = rows.pivot_table(index=keys, columns="layer", values="b0")
    wide = wide[wide[0] >= LEAST_CLUSTERS]
    least = wide.drop(columns=0).min(axis=1)
    fall_rows = pd.DataFrame({"to_one": 100.0 * (least == 1), "fall": np.log2(wide[0] / least)})
    return fall_rows.groupby(["seed", "step", "cloud"]).mean().reset_index()


def judge(rows: pd.DataFrame) -> tuple[list[Claim], list[Section]]:
    """Judge both halves of the claim: b0 falls when trained alone, and it falls to 1 at most settings.

    Each must be so more than in untrained networks. If Gaussian clouds of the same covariance do the same,
    the spectrum tells as much; if the tokens' means do, it is the tokens that cluster, and no topology is
    needed. A Gaussian has no clusters, so its b0 starts high and can fall far.
    """
    fall_rows, last = falls(rows), int(rows["step"].max())
    kinds = [fall_rows[(fall_rows["step"] == step) & (fall_rows["cloud"] == cloud)].set_index("seed")
             for step, cloud in ((last, REAL), (0, REAL), (last, TWIN), (last, TOKENS))]  # fmt: skip
    fall = Claim(
        text="b0 falls through depth in trained transformers, and not in untrained ones",
        source="Kruger 2026: 519 to 1 (Qwen3-4B); untrained 503 to 968",
        **_compared(
            [kind["fall"] for kind in kinds], ".2f", 0.0, " halvings from the embedding to the least"
        ),
    )
    to_one = Claim(
        text="b0 falls to 1 through depth in trained transformers, and not in untrained ones",
        source="Kruger 2026: at 83% of 36 settings",
        **_compared([kind["to_one"] for kind in kinds], ".0f", 50.0, "% of the settings"),
    )
    return [fall, to_one], [_by_layer(rows, last)]


def _compared(kinds: Sequence[pd.Series], form: str, least: float, unit: str) -> dict[str, Any]:
    """Return what is found, the statistic and the judgement: of trained, untrained, and both nulls."""
    trained, untrained, *nulls = kinds
    beside = [trained - other for other in nulls]
    over = [mean_interval(values)[1] for values in beside]
    return {
        "here": f"{shown(trained, form)}{unit}; untrained {shown(untrained, form)}",
        "statistic": f"{len(trained)} runs; minus untrained {shown(trained - untrained, '+' + form)}, "
        f"minus Gaussian clouds of the same covariance {shown(beside[0], '+' + form)}, minus the tokens' "
        f"means with Gaussian residuals {shown(beside[1], '+' + form)}",
        "judgement": _judgement(
            mean_interval(trained), least, mean_interval(trained - untrained)[1], min(over)
        ),
    }


def _judgement(
    interval: tuple[float, float, float], least: float, over_untrained: float, over_null: float
) -> Standing:
    """Return the judgement from the mean's interval and the low ends of the intervals of differences."""
    _, low, high = interval
    if not np.isfinite([low, over_untrained, over_null]).all():
        return Standing.UNTESTED
    if high <= least or over_untrained <= 0:
        return Standing.FAILS
    if low <= least:
        return Standing.UNTESTED
    return Standing.HOLDS if over_null > 0 else Standing.OUTDONE


def _by_layer(rows: pd.DataFrame, last: int) -> Section:
    middle = rows[rows["size"] == max(SIZES)]
    table = []
    for metric, cut, layer in product(METRICS, CUTS, sorted(rows["layer"].unique())):
        mine = middle[(middle["metric"] == metric) & (middle["cut"] == cut) & (middle["layer"] == layer)]
        means = mine.groupby(["step", "cloud"])["b0"].mean()
        table.append((metric, cut, layer, *(float(means[last, cloud]) for cloud in CLOUDS),
                      *(float(means[0, cloud]) for cloud in CLOUDS)))  # fmt: skip
    return Section(
        "Components by layer",
        (
            "metric",
            "cut",
            "layer",
            *(f"{when}: {label}" for when in ("trained", "untrained") for label in CLOUDS.values()),
        ),
        tuple(table),
        f"Means over runs of the number of components of {max(SIZES)} token states, where points closer than "
        "the cut times the median distance are joined. Layer 0 is the embedding.",
    )
