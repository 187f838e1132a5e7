"""Topology of Adam's moments: whether the persistence of m or m/sqrt(v) moves with or before the loss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd
from scipy.stats import binomtest, spearmanr

from toposcope.core.seeding import rng
from toposcope.studies.claims import Claim, Standing
from toposcope.studies.reexamined.family import BASE, Row, RunPlan, twin_of, with_seeds
from toposcope.studies.sections import Section
from toposcope.study import family_table, from_frame, lag_table
from toposcope.topology import neural_persistence, shuffled_neural_persistence
from toposcope.training import TrainingStep

NAME = "moments"
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
    """Return the runs of the base recipe."""
    return [RunPlan("base", with_seeds(BASE, seeds), {NAME: lambda: measure})]


def measure(event: TrainingStep) -> Iterable[Row]:
    """Yield the numbers of the moments at a checkpoint; before the first update they are zero, and left out.

    The features are those of the subject `optimizer`: by each matrix's maximum, means over the matrices.
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
    kept, start, found = load_file(state), 0, {}
    for name, parameter in event.model.named_parameters():
        stop = start + parameter.numel()
        shape = tuple(parameter.shape)
        if len(shape) == 2:
            first, second = (kept[f"{key}_moment"][start:stop] for key in ("first", "second"))
            found[name] = first.reshape(shape), second.reshape(shape)
        start = stop
    return found


def judge(rows: pd.DataFrame) -> tuple[list[Claim], list[Section]]:
    """Judge both kinds of moments: whether one adds to a loss beyond the drift, and no baseline does."""
    tested = pd.concat([_tested(rows, FEATURES), _tested(rows, BASELINES)], ignore_index=True)
    claims = [_claim(rows, tested, stem, label) for stem, label in (("m", "m"), ("scaled", "m/√v"))]
    return claims, [_table(rows, tested)]


def _tested(rows: pd.DataFrame, columns: Iterable[str]) -> pd.DataFrame:
    """Return the test over all runs of each column with each loss, and in how many runs it moves first."""
    frame = rows.assign(run="seed" + rows["seed"].astype(str))
    names = list(columns)
    table = from_frame(frame, features=names, targets=tuple(TARGETS))
    found = family_table(table, targets=list(TARGETS), columns=names)
    lags = lag_table(table, targets=list(TARGETS), columns=names)
    led = lags.dropna(subset="lead_p").groupby(["target", "column"])["lead_p"]
    first, runs = led.apply(lambda p: int((p < LEVEL).sum())), led.count()
    keys = list(zip(found["target"], found["column"], strict=True))
    found["first_in"] = [int(first.get(key, 0)) for key in keys]
    found["led_of"] = [int(runs.get(key, 0)) for key in keys]
    return found


def _claim(rows: pd.DataFrame, tested: pd.DataFrame, stem: str, label: str) -> Claim:
    mine = tested[tested["column"].isin((stem, f"{stem}_excess"))]
    beside = tested[tested["column"].isin(BASELINES) & (tested["verdict"] == "adds")]
    best = mine.sort_values("p_holm").iloc[0]
    led = int(mine["first_in"].sum()), int(mine["led_of"].sum())
    p_led = float(binomtest(led[0], led[1], LEVEL, "greater").pvalue) if led[1] else float("nan")
    rho = [_rho(rows, stem, target) for target in TARGETS]
    return Claim(
        text=f"The bipartite persistence of {label} moves with or before the loss",
        source="a question of this project",
        here=f"rho over a run {rho[0]:+.2f} with the held-out loss, {rho[1]:+.2f} with the minibatch loss; "
        f"beyond the drift r {best['r']:+.2f} with the {TARGETS[best['target']]}, p {best['p_holm']:.2g} "
        "(Holm), the strongest of four",
        statistic=f"first in {led[0]} of {led[1]} tests (p {p_led:.2g}); a shared r of "
        f"{best['detectable_r']:.2f} is found in 80%; {len(beside['column'].unique())} of {len(BASELINES)} "
        "baselines add to a loss",
        judgement=_judgement(list(mine["verdict"]), bool(len(beside))),
    )  # fmt: skip


def _judgement(verdicts: list[str], baselines_add: bool) -> Standing:
    """Judge by the verdicts of the test beyond the drift: adds, trend only, cannot tell."""
    if "adds" in verdicts:
        return Standing.OUTDONE if baselines_add else Standing.HOLDS
    return Standing.UNTESTED if "cannot tell" in verdicts else Standing.DRIFT


def _rho(rows: pd.DataFrame, column: str, target: str) -> float:
    """Return the mean over runs of Spearman's correlation over the checkpoints of a run."""
    runs = (run for _, run in rows.groupby("seed"))
    return float(np.mean([spearmanr(run[column], run[target]).statistic for run in runs]))


def _table(rows: pd.DataFrame, tested: pd.DataFrame) -> Section:
    def lines() -> Iterator[tuple[object, ...]]:
        for line in tested.to_dict("records"):
            label = {**FEATURES, **BASELINES}[line["column"]]
            yield (
                label, TARGETS[line["target"]], _rho(rows, line["column"], line["target"]), line["r"],
                line["p_holm"], line["lag"], line["verdict"], f"{line['first_in']} of {line['led_of']}",
                line["detectable_r"],
            )  # fmt: skip

    return Section(
        "The moments and the loss",
        ("quantity", "loss", "rho over a run", "r beyond the drift", "p, Holm", "lag in checkpoints",
         "verdict", "first in", "r found in 80%"),
        tuple(lines()),
        "Means over runs; one test over all runs for each row. A positive lag: the quantity moves before the "
        "loss. First in: runs in which it leads at a level of 5%.",
    )  # fmt: skip
