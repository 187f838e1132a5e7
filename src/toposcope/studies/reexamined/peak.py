"""The early peak of H1 in fine-tuning (arXiv 2606.19542), on small models tuned to another kind of text."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from toposcope.core.seeding import rng
from toposcope.studies.claims import Claim, Standing
from toposcope.studies.reexamined.family import BASE, Row, RunPlan, twin_of, with_seeds
from toposcope.studies.sections import Section
from toposcope.studies.seed004.seeds import mean_interval, shown
from toposcope.topology import rips, subsample, wasserstein
from toposcope.topology.clouds import distance_matrix
from toposcope.training import TrainingStep, load_corpus

NAME = "peak"
TEXTS = ("argparse.py", "inspect.py", "typing.py", "tarfile.py")
"""Modules of the standard library: the fine-tuning text, which every Python has."""
CHARACTERS = 200_000
RATE, BATCH = 1e-3, 8
STEPS, EVERY = 200, 5
"""41 clouds at a constant rate, so that no schedule makes a peak."""
POINTS = 120
EARLY = 0.25
"""The share of the fine-tuning that counts as early."""
LEAST_PEAK = 0.1
"""A peak is at least a tenth of the mean; below that it is not visible beside the noise of a single run."""
TUNED, SAME, UNTRAINED = "tuned", "same text", "untrained"
CONDITIONS = {
    TUNED: "a trained network, on another kind of text",
    SAME: "a trained network, on its own text again",
    UNTRAINED: "an untrained network",
}


def plans(seeds: int) -> list[RunPlan]:
    """Return the runs of the base recipe, whose last weights are fine-tuned."""
    return [RunPlan("base", with_seeds(BASE, seeds), {NAME: lambda: FineTuning(BASE.steps)})]


class FineTuning:
    """Tunes copies of a run's first and last weights, and measures a cloud of token states on the way."""

    def __init__(self, last_step: int) -> None:
        self._last, self._first = last_step, None  # type: int, Any

    def __call__(self, event: TrainingStep) -> Iterable[Row]:
        """Keep the first weights; at the end of the run yield the rows of the three fine-tunings."""
        if event.step == 0:
            self._first = deepcopy(event.model)
        if event.step < self._last:
            return
        size = event.model.shape.vocabulary
        code, corpus = _tokens(_code(), size), _tokens(load_corpus("python-docs").train[:CHARACTERS], size)
        starts = {TUNED: (event.model, code), SAME: (event.model, corpus), UNTRAINED: (self._first, code)}
        for condition, (model, tokens) in starts.items():
            clouds = list(tuned(deepcopy(model), tokens, seed=event.run))
            yield from ({"condition": condition, **row} for row in track(clouds))


def _code() -> str:
    folder = Path(sysconfig.get_path("stdlib"))
    return "".join((folder / name).read_text("utf-8") for name in TEXTS)[:CHARACTERS]


def _tokens(text: str, vocabulary: int) -> np.ndarray:
    """Return code points modulo the vocabulary, as the training reads characters."""
    return np.array([ord(character) % vocabulary for character in text], np.int64)


def tuned(model: Any, tokens: np.ndarray, *, seed: str) -> Iterator[np.ndarray]:
    """Fine-tune a model and yield the states of the same tokens of held-out text, every few steps."""
    import torch

    context = model.shape.context
    cut = int(0.9 * len(tokens))
    places = np.linspace(cut, len(tokens) - context - 1, 16).astype(int)
    texts = torch.from_numpy(tokens[places[:, None] + np.arange(context)])
    chosen = subsample(texts.numel(), POINTS, draw=0, name="states of fine-tuning")
    adam = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    for step in range(STEPS + 1):
        if step % EVERY == 0:
            with torch.no_grad():
                yield model.hidden(texts).flatten(0, 1)[chosen].double().numpy()
        starts = rng(name="fine-tuning", seed=seed, step=step).integers(0, cut - context, BATCH)
        adam.zero_grad()
        model.loss(torch.from_numpy(tokens[starts[:, None] + np.arange(context + 1)])).backward()
        adam.step()


def track(clouds: Sequence[np.ndarray]) -> Iterator[Row]:
    """Yield H1 of each cloud and of its Gaussian twin, and how far both moved since the cloud before.

    Clouds are divided by their median distance. The twins share one draw, so that they differ by the spectrum
    alone. `moved` is the mean movement of a point, `changed` the Wasserstein distance of the H1 diagrams.
    """
    before: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for at, cloud in enumerate(clouds):
        pair = {"real": cloud, "twin": twin_of(cloud, rng(name="twin of fine-tuning"))}
        for kind, points in pair.items():
            scaled = points / np.median(distance_matrix(points)[np.triu_indices(len(points), 1)])
            bars = rips(scaled, maxdim=1)[1]
            diagram = np.column_stack([bars.birth, bars.death])
            row: Row = {"at": at, "cloud": kind, "h1": float((diagram[:, 1] - diagram[:, 0]).sum())}
            if kind in before:
                then, old = before[kind]
                row["moved"] = float(np.linalg.norm(scaled - then, axis=1).mean())
                row["changed"] = float(wasserstein(old, diagram))
            before[kind] = scaled, diagram
            yield row


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return for each run, condition and cloud the early shares of change and movement, and the early peak.

    `peak` is by how much the largest H1 total of the first quarter exceeds the start and the end, in units of
    the mean H1 total of the run; the end is the mean of the last quarter.
    """
    rows_of_runs = []
    for (seed, condition, cloud), run in rows.sort_values("at").groupby(["seed", "condition", "cloud"]):
        ends = int(EARLY * run["at"].max())
        h1, changed, moved = (run[name].to_numpy(float) for name in ("h1", "changed", "moved"))
        level = max(h1[0], h1[-ends:].mean())
        rows_of_runs.append({
            "seed": seed, "condition": condition, "cloud": cloud,
            "peak": (h1[1 : ends + 1].max() - level) / h1.mean(),
            "changed": changed[1 : ends + 1].sum() / changed[1:].sum(),
            "moved": moved[1 : ends + 1].sum() / moved[1:].sum(),
        })  # fmt: skip
    return pd.DataFrame(rows_of_runs)


def of_kind(found: pd.DataFrame, condition: str, cloud: str) -> pd.DataFrame:
    """Return the rows of one condition and one kind of cloud, by seed."""
    return found[(found["condition"] == condition) & (found["cloud"] == cloud)].set_index("seed")


def judge(rows: pd.DataFrame) -> tuple[list[Claim], list[Section]]:
    """Judge both halves of the claim: H1 peaks early, and most of its change is early."""
    peaks = summary(rows)
    real, twin = (of_kind(peaks, TUNED, cloud) for cloud in ("real", "twin"))
    same = of_kind(peaks, SAME, "real")
    over = [real["peak"] - twin["peak"], real["peak"] - same["peak"]]
    peak = Claim(
        text="H1 has a transient peak early in fine-tuning",
        source="arXiv 2606.19542: four models of 1B to 7B, three objectives",
        here=f"its largest early value exceeds the start and the end by "
        f"{shown(100 * real['peak'], '+.0f')}% of the mean",
        statistic=f"{len(real)} runs; minus Gaussian twins {shown(100 * over[0], '+.0f')}, minus training on "
        f"the same text {shown(100 * over[1], '+.0f')} points",
        judgement=_judgement(mean_interval(real["peak"]), LEAST_PEAK, over),
    )
    over = [real["changed"] - twin["changed"], real["changed"] - real["moved"]]
    early = Claim(
        text="Most of the topological change of fine-tuning comes in its first quarter",
        source="arXiv 2606.19542: the majority, in the earliest stages",
        here=f"{shown(100 * real['changed'], '.0f')}% of it",
        statistic=f"{len(real)} runs; Gaussian twins {shown(100 * twin['changed'], '.0f')}%, the movement of "
        f"the points {shown(100 * real['moved'], '.0f')}%, training on the same text "
        f"{shown(100 * same['changed'], '.0f')}%",
        judgement=_judgement(mean_interval(real["changed"]), 0.5, over),
    )
    return [peak, early], [_table(peaks)]


def _judgement(interval: tuple[float, float, float], least: float, over: Sequence[pd.Series]) -> Standing:
    """Judge by the interval of the mean over runs, and by its differences from simpler numbers."""
    _, low, high = interval
    if not np.isfinite([low, high]).all():
        return Standing.UNTESTED
    if low <= least:
        return Standing.FAILS if high < least else Standing.UNTESTED
    beyond = all(mean_interval(difference)[1] > 0 for difference in over)
    return Standing.HOLDS if beyond else Standing.OUTDONE


def _table(peaks: pd.DataFrame) -> Section:
    lines = []
    for condition, label in CONDITIONS.items():
        for cloud in ("real", "twin"):
            mine = of_kind(peaks, condition, cloud)
            name = label if cloud == "real" else f"{label}: Gaussian twins"
            lines.append(
                (name, *(shown(100 * mine[column], ".0f") for column in ("peak", "changed", "moved")))
            )
    return Section(
        "H1 during fine-tuning",
        (
            "what is tuned",
            "early peak, %",
            "change of H1 in the first quarter, %",
            "movement of the points, %",
        ),
        tuple(lines),
        "Means over runs with Student's 95% intervals. A quarter of the steps would have 25% of an even "
        "change. The peak: by how much H1 exceeds its start and its last quarter's mean, in % of its mean.",
    )
