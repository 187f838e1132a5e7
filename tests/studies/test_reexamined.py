"""The re-examined claims: found on planted truth, not on Gaussian stand-ins, and measured as a run trains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from toposcope.recipes import ModelShape
from toposcope.studies.claims import Standing
from toposcope.studies.reexamined import clusters, dimension, family, moments, peak, stopping
from toposcope.studies.reexamined.study import STUDY
from toposcope.studies.study import StudyCall

SEEDS = range(4)
ONE_TOKEN = np.zeros(400, int)


def merging(g: np.random.Generator, *, apart: tuple[float, ...]) -> list[np.ndarray]:
    """Return a cloud for each layer: eight square clusters, each at the distance `apart` from all others."""
    centres = np.eye(8)[np.arange(400) % 8]
    square = np.column_stack([g.uniform(-0.5, 0.5, (400, 2)), np.zeros((400, 6))])
    return [centres * distance + square for distance in apart]


def cluster_rows(of_seed, untrained, tokens=ONE_TOKEN) -> pd.DataFrame:  # type: ignore[no-untyped-def]
    """Return rows as the study measures them, of a trained and an untrained network for each seed."""
    rows = []
    for seed in SEEDS:
        for step, make in ((1000, of_seed), (0, untrained)):
            clouds = make(np.random.default_rng(seed))
            measured = clusters.of_clouds(clouds, tokens, run=f"{seed}-{step}")
            rows += [{"seed": seed, "step": step, **row} for row in measured]
    return pd.DataFrame(rows)


def apart(g: np.random.Generator) -> list[np.ndarray]:
    return merging(g, apart=(9.0, 9.0, 9.0))


def test_clusters_that_merge_over_depth_are_found_and_their_gaussian_stand_ins_are_not() -> None:
    def merged(g: np.random.Generator) -> list[np.ndarray]:
        return merging(g, apart=(9.0, 1.0, 0.0))

    def stand_in(g: np.random.Generator) -> list[np.ndarray]:
        return [family.twin_of(cloud, g) for cloud in merged(g)]

    found, _ = clusters.judge(cluster_rows(merged, apart))
    fall, to_one = (claim.judgement for claim in found)
    assert to_one is Standing.HOLDS
    assert fall in (Standing.HOLDS, Standing.OUTDONE)  # the b0 of a cloud without clusters can fall further
    gaussian, _ = clusters.judge(cluster_rows(stand_in, apart))
    assert all(claim.judgement is not Standing.HOLDS for claim in gaussian)


def test_clusters_that_also_merge_before_training_do_not_count() -> None:
    def merged(g: np.random.Generator) -> list[np.ndarray]:
        return merging(g, apart=(9.0, 1.0, 0.0))

    found, _ = clusters.judge(cluster_rows(merged, merged))
    assert [claim.judgement for claim in found] == [Standing.FAILS, Standing.FAILS]


def test_clusters_that_the_tokens_make_need_no_topology() -> None:
    def merged(g: np.random.Generator) -> list[np.ndarray]:
        return merging(g, apart=(9.0, 1.0, 0.0))

    (fall, _), _ = clusters.judge(cluster_rows(merged, apart, tokens=np.arange(400) % 8))
    assert fall.judgement is Standing.OUTDONE


def stopping_rows(persistence, spread) -> pd.DataFrame:  # type: ignore[no-untyped-def]
    """Return a held-out loss that turns at a third of the run, and the numbers that the rules watch."""
    at = np.linspace(0.0, 1.0, 51)
    rows = []
    for seed in SEEDS:
        loss = 2.0 + (at - 1 / 3) ** 2 + 0.01 * seed
        rows.append(pd.DataFrame({
            "seed": seed, "step": np.arange(51), stopping.HELDOUT: loss, stopping.SPREAD: spread(at),
            stopping.PERSISTENCE: persistence(at), stopping.TWIN: spread(at),
        }))  # fmt: skip
    return pd.concat(rows)


@pytest.mark.parametrize(
    ("persistence", "spread", "judgement"),
    [
        (lambda at: np.minimum(at, 0.3), lambda at: 0.1 + at, Standing.HOLDS),
        (lambda at: np.minimum(at, 0.3), lambda at: np.minimum(at, 0.3), Standing.OUTDONE),
        (lambda at: 0.1 + at, lambda at: 0.1 + at, Standing.FAILS),  # never stops: saves nothing
        (lambda at: 1.0 - at, lambda at: 0.1 + at, Standing.OUTDONE),  # falls: a clock does the same
    ],
)
def test_a_rule_must_stop_in_time_and_do_better_than_the_spread(persistence, spread, judgement) -> None:  # type: ignore[no-untyped-def]
    rows = stopping_rows(persistence, spread)
    rows[stopping.HELDOUT] += 0.2 * np.maximum(rows["step"] - 17, 0) / 51  # the end of the run is costly
    (claim,), (table, _) = stopping.judge(rows)
    assert claim.judgement is judgement
    assert len(table.rows) == len(stopping.RULES)


def moment_rows(shared: float) -> pd.DataFrame:
    """Return series that drift with the loss; their innovations are the loss's by the weight `shared`."""
    g = np.random.default_rng(0)
    step = np.arange(1, 51) * 20.0
    rows = []
    for seed in SEEDS:
        drift, noise = 5 * (step + 100) ** -0.3, 0.01 * g.standard_normal((10, 50))
        table = {"seed": seed, "step": step, "heldout_loss": drift + noise[0], "loss": drift + noise[1]}
        for name, own in zip([*moments.FEATURES, *moments.BASELINES], noise[2:], strict=True):
            table[name] = drift + (shared * noise[0] + own if name == "m" else own)
        rows.append(pd.DataFrame(table))
    learning = pd.concat(rows).assign(learning_rate=1e-3)
    still = learning.assign(loss=g.standard_normal(len(learning)))
    plans = ((moments.LEARNING, learning), (moments.STILL, still))
    return pd.concat([table.assign(plan=name) for name, table in plans], ignore_index=True)


@pytest.mark.slow
def test_moments_that_move_with_the_loss_are_found_and_a_shared_drift_is_not() -> None:
    (m, _), (table, _) = moments.judge(moment_rows(3.0))
    assert m.judgement is Standing.HOLDS
    assert len(table.rows) == 2 * (len(moments.FEATURES) + len(moments.BASELINES))
    (m, scaled), _ = moments.judge(moment_rows(0.0))
    assert m.judgement is Standing.DRIFT
    assert scaled.judgement is Standing.DRIFT


def closing(g: np.random.Generator) -> list[np.ndarray]:
    """Return points on an arc that closes to a ring and is flattened, in the first quarter of 21 clouds."""
    place, flat = np.sort(g.uniform(0, 1, 60)), np.array([1.0, 0.05])
    clouds = []
    for at in range(21):
        angle = 2 * np.pi * place * min(0.4 + 0.3 * at, 1.0)
        ring, left = np.column_stack([np.cos(angle), np.sin(angle)]), float(np.clip((at - 2) / 2, 0, 1))
        clouds.append(ring * flat**left + 0.003 * g.standard_normal((60, 2)))
    return clouds


def still(g: np.random.Generator) -> list[np.ndarray]:
    blob = g.uniform(-1, 1, (60, 2))
    return [blob + 0.003 * g.standard_normal((60, 2)) for _ in range(21)]


def peak_rows(tuned) -> pd.DataFrame:  # type: ignore[no-untyped-def]
    rows = []
    for seed in SEEDS:
        makes = {peak.TUNED: tuned, peak.SAME: still, peak.UNTRAINED: still}
        for condition, make in makes.items():
            clouds = make(np.random.default_rng(seed))
            rows += [{"seed": seed, "condition": condition, **row} for row in peak.track(clouds)]
    return pd.DataFrame(rows)


def test_a_ring_that_closes_early_is_found_and_its_gaussian_stand_in_is_not() -> None:
    (early, _), (table,) = peak.judge(peak_rows(closing))
    assert early.judgement is Standing.HOLDS
    assert len(table.rows) == 2 * len(peak.CONDITIONS)

    def stand_in(g: np.random.Generator) -> list[np.ndarray]:
        seed = int(g.integers(1000))
        return [family.twin_of(cloud, np.random.default_rng(seed)) for cloud in closing(g)]

    found = peak.judge(peak_rows(stand_in))[0]
    assert all(claim.judgement is not Standing.HOLDS for claim in found)


def trajectories(weight: float, drift: float) -> pd.DataFrame:
    """Return 27 runs whose gap follows the dimension by `weight`, and the learning rate by `drift`."""
    g = np.random.default_rng(0)
    rows = []
    for rate in dimension.RATES:
        for batch in dimension.BATCHES:
            for seed in range(3):
                own, noise = g.standard_normal(2)
                dims = drift * np.log(rate) + own
                rows.append({
                    "plan": f"rate-{rate:g}-batch-{batch}", "seed": seed, "dimension": dims,
                    "twin": g.standard_normal(), "walk": g.standard_normal(), "norm": g.standard_normal(),
                    "gap": weight * own + drift * np.log(rate) + 0.3 * noise,
                })  # fmt: skip
    return pd.DataFrame(rows)


def test_a_dimension_that_sets_the_gap_is_found_and_a_shared_hyperparameter_is_not() -> None:
    (follows, norm), _ = dimension.judge(trajectories(1.0, 0.0))
    assert (follows.judgement, norm.judgement) == (Standing.HOLDS, Standing.FAILS)
    (follows, _), _ = dimension.judge(trajectories(0.0, 3.0))
    assert follows.judgement is Standing.DRIFT
    (follows, _), _ = dimension.judge(trajectories(0.0, 0.0))
    assert follows.judgement in (Standing.FAILS, Standing.UNTESTED)


TINY = replace(
    family.BASE, models=(ModelShape("tiny", 8, 2, 2),), steps=4, checkpoint_every=2, batch_size=2, context=32,
    warmup_steps=1, heldout_batches=8,
)  # fmt: skip


@pytest.mark.slow
def test_every_claim_is_measured_while_a_run_trains_and_no_run_is_trained_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (clusters, moments, peak, stopping):
        monkeypatch.setattr(module, "BASE", TINY)
    for module, values in ((dimension, {"ITERATES": 20, "RATES": (1e-2,), "BATCHES": (2,)}),
                           (peak, {"STEPS": 8, "EVERY": 1, "POINTS": 20})):  # fmt: skip
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
    said: list[str] = []
    call = StudyCall(out=tmp_path, say=said.append)
    first = STUDY.sections(call, seeds=2)
    trained = ("base", "rate-0.01-batch-2", "overfitting", "rate-0")
    assert said == [f"training {name}, seed {seed}" for name in trained for seed in (42, 43)]
    assert len(first[0].rows) == 9
    assert STUDY.sections(call, seeds=2)[0] == first[0]
    assert len(said) == 8


def test_the_moments_are_those_that_the_optimizer_has(tmp_path: Path) -> None:
    from toposcope.training import train

    seen = {}

    def note(event) -> None:  # type: ignore[no-untyped-def]
        if event.step == 2:
            seen.update(moments.moments_of(event))

    train(replace(TINY, steps=2, beta1=0.0, beta2=0.0, gradient_clip=float("inf")), tmp_path, on_step=note)
    first, second = seen["layers.0.mlp.fc1.weight"]
    assert first.shape == (32, 8)
    assert np.abs(first).max() > 0
    np.testing.assert_allclose(second, first**2, rtol=1e-4)  # without decay both are the last gradient
