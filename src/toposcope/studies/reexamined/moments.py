"""Topology of Adam's moments: whether the persistence of m or m/sqrt(v) moves with or before the loss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.stats import binomtest, spearmanr

from toposcope.core.seeding import rng
from toposcope.studies.claims import Claim, Standing, of_verdict
from toposcope.studies.reexamined.family import BASE, Row, RunPlan, twin_of, with_seeds
from toposcope.studies.sections import Section
from toposcope.study import family_table, from_frame, lag_table
from toposcope.topology import neural_persistence, shuffled_neural_persistence
from toposcope.training import TrainingStep

NAME = "moments"
LEARNING, STILL = "base", "rate-0"
STEMS = {"m": "m", "scaled": "m/√v"}
DRAWS = 3
"""Shuffles for the excess, a mean over 18 matrices."""
FEATURES = {
    "m": "persistence of m",
    "m_excess": "persistence of m, minus shuffled",
    "scaled": "persistence of m/√v",
    "scaled_excess": "persistence of m/√v, minus shuffled",
}
BASELINES = {
    "m_spread": "std / max of m",
    "scaled_spread": "std / max of m/√v",
    "m_twin": "persistence of Gaussian matrices with the covariance of m",
    "grad_norm": "norm of the gradient",
}
TARGETS = {"heldout_loss": "held-out loss", "loss": "minibatch loss"}
LEVEL = 0.05
"""The conventional level of a test."""


def plans(seeds: int) -> list[RunPlan]:
    """Return the runs of the base recipe, and runs at a rate of 0, whose networks stay untrained."""
    still = replace(BASE, learning_rate=0.0, final_learning_rate=0.0, weight_decay=0.0)
    recipes = {LEARNING: BASE, STILL: still}
    return [
        RunPlan(name, with_seeds(recipe, seeds), {NAME: lambda: measure}) for name, recipe in recipes.items()
    ]


def measure(event: TrainingStep) -> Iterable[Row]:
    """Yield the numbers of the moments at a checkpoint; before the first update they are zero, and left out.

    The formulas are those of the subject `optimizer`, here of whole parameters: means over the matrices.
    """
    if event.heldout_loss is None or event.step == 0:
        return
    parts: dict[str, list[float]] = {}
    for name, (first, second) in moments_of(event).items():
        chance = rng(name="moments", run=event.run, step=event.step, matrix=name)
        root = np.sqrt(second)
        scaled = np.divide(first, root, out=np.zeros_like(first), where=root > 0)
        for stem, values in (("m", first), ("scaled", scaled)):
            value = neural_persistence(values, "matrix")
            null = shuffled_neural_persistence(values, DRAWS, rng=chance, normalization="matrix")
            parts.setdefault(stem, []).append(value)
            parts.setdefault(f"{stem}_excess", []).append(value - float(null.mean()))
            parts.setdefault(f"{stem}_spread", []).append(float(np.abs(values).std() / np.abs(values).max()))
        twin = twin_of(first, rng(name="moments twin", run=event.run, matrix=name))
        parts.setdefault("m_twin", []).append(neural_persistence(twin, "matrix"))
    yield {
        "heldout_loss": event.heldout_loss, "loss": event.loss, "learning_rate": event.learning_rate,
        "grad_norm": event.grad_norm, **{name: float(np.mean(values)) for name, values in parts.items()},
    }  # fmt: skip


def moments_of(event: TrainingStep) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return m and v of every matrix, from the state that the run has just written."""
    from safetensors.numpy import load_file

    (state,) = (event.folder / "state").glob("*.safetensors")
    kept, start, moments_by_name = load_file(state), 0, {}
    for name, parameter in event.model.named_parameters():
        stop = start + parameter.numel()
        shape = tuple(parameter.shape)
        if len(shape) == 2:
            first, second = (kept[f"{key}_moment"][start:stop] for key in ("first", "second"))
            moments_by_name[name] = first.reshape(shape), second.reshape(shape)
        start = stop
    return moments_by_name


def judge(rows: pd.DataFrame) -> tuple[list[Claim], list[Section]]:
    """Judge both kinds of moments: whether one adds to a loss beyond the drift, and no baseline does."""
    learning, still = (rows[rows["plan"] == name] for name in (LEARNING, STILL))
    tested = pd.concat([_tested(learning, FEATURES), _tested(learning, BASELINES)], ignore_index=True)
    untrained = _tested(still, FEATURES, ["loss"])  # the held-out loss of weights that stay does not move
    claims = [_claim(learning, tested, untrained, stem, label) for stem, label in STEMS.items()]
    return claims, [_table("The moments and the loss", learning, tested),
                    _table("The moments of networks that do not learn", still, untrained)]  # fmt: skip


def _tested(rows: pd.DataFrame, columns: Iterable[str], targets: Iterable[str] = TARGETS) -> pd.DataFrame:
    """Return the test over all runs of each column with each loss, and in how many runs it moves first."""
    frame = rows.assign(run="seed" + rows["seed"].astype(str))
    names, losses = list(columns), list(targets)
    table = from_frame(frame, features=names, targets=tuple(losses))
    verdicts = family_table(table, targets=losses, columns=names)
    lags = lag_table(table, targets=losses, columns=names)
    led = lags.dropna(subset="lead_p").groupby(["target", "column"])["lead_p"]
    first, runs = led.apply(lambda p: int((p < LEVEL).sum())), led.count()
    keys = list(zip(verdicts["target"], verdicts["column"], strict=True))
    verdicts["first_in"] = [int(first.get(key, 0)) for key in keys]
    verdicts["led_of"] = [int(runs.get(key, 0)) for key in keys]
    return verdicts


def _claim(rows: pd.DataFrame, tested: pd.DataFrame, untrained: pd.DataFrame, stem: str, label: str) -> Claim:
    mine, still = (part[part["column"].isin((stem, f"{stem}_excess"))] for part in (tested, untrained))
    beside = tested[tested["column"].isin(BASELINES) & (tested["verdict"] == "adds")]
    best = mine.sort_values("p_holm").iloc[0]
    led = int(mine["first_in"].sum()), int(mine["led_of"].sum())
    p_led = float(binomtest(led[0], led[1], LEVEL, "greater").pvalue) if led[1] else float("nan")
    pairs = zip(mine["column"], mine["target"], strict=True)
    naive = [_naive(rows, column, target) for column, target in pairs]
    rho = max((rho for rho, _ in naive), key=abs)
    verdict = next((word for word in ("adds", "cannot tell") if word in set(mine["verdict"])), "trend only")
    return Claim(
        text=f"The bipartite persistence of {label} moves with or before the loss",
        source="a question of this project",
        here=f"rho over a run up to {rho:+.2f}; beyond the drift r {best['r']:+.2f} with the "
        f"{TARGETS[best['target']]}, p {best['p_holm']:.2g} (Holm), the strongest of four",
        statistic=f"{rows['seed'].nunique()} runs; first in {led[0]} of {led[1]} tests (p {p_led:.2g}); a "
        f"shared r of {best['detectable_r']:.2f} is found in 80%; {len(beside['column'].unique())} of "
        f"{len(BASELINES)} baselines add to a loss; p {still['p_holm'].min():.2g} in networks that do not "
        "learn",
        judgement=_judgement(max(share for _, share in naive) > 0.5, verdict, bool(len(beside))),
    )  # fmt: skip


def _judgement(as_written: bool, verdict: str, baselines_add: bool) -> Standing:
    """Judge by the usual correlation, by the best verdict beyond the drift, and by simpler numbers."""
    standing = of_verdict(as_written or verdict == "adds", verdict)
    return Standing.OUTDONE if standing is Standing.HOLDS and baselines_add else standing


def _naive(rows: pd.DataFrame, column: str, target: str) -> tuple[float, float]:
    """Return Spearman's correlation over a run's checkpoints, and the share of runs with p < .05: means."""
    tests = [spearmanr(run[column], run[target]) for _, run in rows.groupby("seed")]
    rho, p = (np.array([getattr(test, name) for test in tests]) for name in ("statistic", "pvalue"))
    return float(rho.mean()), float((p < LEVEL).mean())


def _table(title: str, rows: pd.DataFrame, tested: pd.DataFrame) -> Section:
    def lines() -> Iterator[tuple[object, ...]]:
        for line in tested.to_dict("records"):
            label = {**FEATURES, **BASELINES}[line["column"]]
            yield (
                label, TARGETS[line["target"]], _naive(rows, line["column"], line["target"])[0], line["r"],
                line["p_holm"], line["lag"], line["verdict"], f"{line['first_in']} of {line['led_of']}",
                line["detectable_r"],
            )  # fmt: skip

    return Section(
        title,
        ("quantity", "loss", "rho over a run", "r beyond the drift", "p, Holm", "lag in checkpoints",
         "verdict", "first in", "r found in 80%"),
        tuple(lines()),
        "Means over runs; one test over all runs for each row. A positive lag: the quantity moves before the "
        "loss. First in: runs in which it leads at a level of 5%.",
    )  # fmt: skip
