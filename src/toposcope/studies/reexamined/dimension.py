"""PH dimension of the trajectory and the norm of the weights as measures of generalisation (Tan 2024)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd

from toposcope.core.distributions import normal_quantile
from toposcope.core.seeding import rng
from toposcope.recipes import ModelShape
from toposcope.statistics.correlations import correlation, partial_correlation, ranks
from toposcope.studies.claims import Claim, Standing
from toposcope.studies.reexamined.family import BASE, Row, RunPlan, twin_of, with_seeds
from toposcope.studies.sections import Section
from toposcope.topology import ph_dimension
from toposcope.training import TrainingStep

NAME = "dimension"
RATES = (1e-3, 3e-3, 1e-2)
BATCHES = (4, 8, 16)
SEEDS = 3
"""Seeds at most: with the nine settings 27 runs."""
ITERATES = 300
"""The last iterates, half of the run; the source takes 5,000 of longer runs."""
SHAPE = ModelShape("one-layer", 16, 1, 2)
TEXT_HELD_OUT = 0.99
"""So few characters that the gap between the two losses is large."""
MEASURES = {
    "dimension": "PH dimension of the last iterates",
    "twin": "PH dimension of Gaussian points of the same covariance",
    "walk": "PH dimension of the same steps with random signs",
    "norm": "norm of the last weights",
}
CONTROLS = ("rate", "batch")
DRAWS = 2000


def plans(seeds: int) -> list[RunPlan]:
    """Return runs of a small model for every rate and batch size, at a constant rate after the warm-up."""
    run_plans = []
    for rate, batch in product(RATES, BATCHES):
        recipe = replace(
            BASE, models=(SHAPE,), steps=2 * ITERATES, checkpoint_every=ITERATES, batch_size=batch,
            learning_rate=rate, final_learning_rate=rate, heldout_fraction=TEXT_HELD_OUT,
        )  # fmt: skip
        name = f"rate-{rate:g}-batch-{batch}"
        run_plans.append(RunPlan(name, with_seeds(recipe, min(seeds, SEEDS)), {NAME: Iterates}))
    return run_plans


class Iterates:
    """Keeps the last iterates of a run, and measures them at its end."""

    def __init__(self) -> None:
        self._points: list[np.ndarray] = []
        self._losses: list[float] = []

    def __call__(self, event: TrainingStep) -> Iterable[Row]:
        """Keep this step's weights; at the end of the run yield its row."""
        self._points.append(np.concatenate([p.detach().numpy().ravel() for p in event.model.parameters()]))
        self._losses.append(event.loss)
        del self._points[:-ITERATES]
        if event.heldout_loss is None or event.step < 2 * ITERATES:
            return
        points, chance = np.array(self._points, float), rng(name="twin of iterates", run=event.run)
        steps = np.diff(points, axis=0) * chance.choice([-1.0, 1.0], (len(points) - 1, 1))
        clouds = {"dimension": points, "twin": twin_of(points, chance), "walk": np.cumsum(steps, axis=0)}
        yield {
            **{name: ph_dimension(cloud, name=name).value for name, cloud in clouds.items()},
            "norm": event.weight_norm,
            "gap": event.heldout_loss - float(np.mean(self._losses[-ITERATES // 3 :])),
        }


def with_settings(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the rate and the batch size that a plan's name states."""
    parts = rows["plan"].str.extract(r"rate-(.+)-batch-(.+)").astype(float)
    return rows.assign(rate=parts[0], batch=parts[1])


def rank_correlation(rows: pd.DataFrame, column: str, controls: tuple[str, ...] = ()) -> tuple[float, int]:
    """Return Spearman's correlation of a measure with the gap, given controls, and its degrees of freedom."""
    values = ranks(rows[[column, "gap", *controls]].to_numpy(float))
    r, degrees = partial_correlation(values[:, [0]], values[:, [1]], values[:, 2:])
    return float(r[0]), int(degrees[0])


def fisher(r: float, degrees: int) -> tuple[float, float]:
    """Return the 95% interval of a correlation by Fisher's z.

    >>> [round(end, 2) for end in fisher(0.5, 25)]
    [0.15, 0.74]
    """
    if degrees < 2:
        return -1.0, 1.0
    half = float(normal_quantile(0.975)) / np.sqrt(degrees - 1)
    low, high = np.tanh(np.arctanh(np.clip(r, -1 + 1e-9, 1 - 1e-9)) + np.array([-half, half]))
    return float(low), float(high)


def stronger(rows: pd.DataFrame) -> tuple[float, float, float]:
    """Return by how much the norm correlates more strongly with the gap, and a bootstrap 95% interval."""
    values, chance = rows[["norm", "dimension", "gap"]].to_numpy(float), rng(name="norm against dimension")

    def difference(chosen: np.ndarray) -> float:
        norm, dimension, gap = ranks(values[chosen]).T[:, :, None]
        return float(abs(correlation(norm, gap)[0]) - abs(correlation(dimension, gap)[0]))

    drawn = [difference(chance.integers(len(values), size=len(values))) for _ in range(DRAWS)]
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return difference(np.arange(len(values))), float(low), float(high)


def judge(rows: pd.DataFrame) -> tuple[list[Claim], list[Section]]:
    """Judge both claims: the dimension follows the gap; the norm follows it more strongly."""
    rows = with_settings(rows)
    raw, given = rank_correlation(rows, "dimension"), rank_correlation(rows, "dimension", CONTROLS)
    twin = rank_correlation(rows, "twin", CONTROLS)[0]
    apart, low, high = stronger(rows)
    power = np.tanh(float(normal_quantile(0.975) + normal_quantile(0.8)) / np.sqrt(max(given[1] - 1, 1)))
    follows = Claim(
        text="The PH dimension of the last iterates follows the generalisation gap",
        source="Birdal et al. 2021; Tan et al. 2024: confounded by the hyperparameters",
        here=f"rho {_words(*raw)}; given learning rate and batch size {_words(*given)}",
        statistic=f"{len(rows)} runs; Gaussian points of the same covariance {twin:+.2f} given both; "
        f"|rho| of {power:.2f} is found in 80%",
        judgement=_follows(raw, given, twin),
    )
    norm = Claim(
        text="The norm of the last weights follows the gap more strongly than the PH dimension",
        source="Tan et al. 2024, first version",
        here=f"|rho| {abs(rank_correlation(rows, 'norm')[0]):.2f} against {abs(raw[0]):.2f}",
        statistic=f"difference {apart:+.2f}, bootstrap 95% {low:+.2f} to {high:+.2f}",
        judgement=Standing.HOLDS if low > 0 else Standing.FAILS if high < 0 else Standing.UNTESTED,
    )
    return [follows, norm], [_table(rows)]


def _follows(raw: tuple[float, int], given: tuple[float, int], twin: float) -> Standing:
    if not fisher(*raw)[0] > 0:
        return Standing.FAILS if fisher(*raw)[1] < 0.5 else Standing.UNTESTED
    if not fisher(*given)[0] > 0:
        return Standing.DRIFT
    return Standing.OUTDONE if twin >= given[0] else Standing.HOLDS


def _words(r: float, degrees: int) -> str:
    low, high = fisher(r, degrees)
    return f"{r:+.2f} [{low:+.2f}, {high:+.2f}]"


def _table(rows: pd.DataFrame) -> Section:
    lines = []
    for column, label in MEASURES.items():
        raw, given = rank_correlation(rows, column), rank_correlation(rows, column, CONTROLS)
        spread = f"{rows[column].min():.2f} to {rows[column].max():.2f}"
        lines.append((label, spread, _words(*raw), _words(*given)))
    return Section(
        "Measures of the trajectory and the generalisation gap",
        ("measure", "range", "rho with the gap", "given learning rate and batch size"),
        tuple(lines),
        "Spearman's correlation over runs, with Fisher's 95% interval. The gap is the held-out loss minus "
        "the minibatch loss of the last 100 steps.",
    )
