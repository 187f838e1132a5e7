"""Tests of the rules of the columns beside a policy's loss."""

import numpy as np
import pandas as pd
import pytest

from toposcope.core.seeding import rng
from toposcope.rules.companion import CompanionRule
from toposcope.rules.registry import remarks_on, rules
from toposcope.rules.rule import LOOK, NOTICED, STOP, JudgedRun, Remark

RULES = [rule for rule in rules() if issubclass(rule, CompanionRule)]
COUNT = 200
AT = 120
STEP = np.arange(1, COUNT + 1)
SINCE = np.clip((STEP - AT) / 20, 0, 1)
"""0 before a fault, 1 once it is complete, 20 records later."""


def policy(**changed: np.ndarray) -> pd.DataFrame:
    """Return a healthy run of a policy under TRL's names, with some columns changed."""
    random = rng(test="policy columns")
    noise = random.standard_normal((5, COUNT))
    columns = {
        "loss": 1e-3 * noise[0],
        "reward": 0.3 + 0.3 * STEP / COUNT + 0.03 * noise[1],
        "reward_std": 0.2 * np.exp(0.1 * noise[2]),
        "kl": 0.1 * np.minimum(1, STEP / 50) * np.exp(0.2 * noise[3]),
        "entropy": 0.5 * np.exp(-STEP / 100 + 0.05 * noise[4]),
        "clip_ratio": np.full(COUNT, 0.02),
        "completions/clipped_ratio": np.full(COUNT, 0.05),
        "completions/mean_length": 200.0 + 10 * noise[2],
        "grad_norm": np.exp(0.3 * noise[3]),
    }
    return pd.DataFrame({"step": STEP, **columns, **changed})


def said(rows: pd.DataFrame, column: str = "loss") -> list[Remark]:
    """Return what the rules of a policy's columns say of a run."""
    names = {rule.name for rule in RULES}
    return [one for one in remarks_on(JudgedRun.of(rows, column=column)) if one.kind in names]


def test_a_healthy_policy_has_no_remark():
    assert said(policy()) == []


def test_a_loss_with_a_trend_has_no_remark():
    tuned = policy().drop(columns=["reward", "reward_std", "kl", "clip_ratio"])
    assert said(tuned.assign(loss=3 / np.sqrt(STEP), entropy=policy()["entropy"] * (1 - SINCE))) == []


def test_an_auxiliary_loss_is_not_judged_by_the_columns_of_the_policy():
    rows = policy(entropy=policy()["entropy"] * (1 - SINCE))
    assert said(rows.assign(aux_loss=1.0), "aux_loss") == []


@pytest.mark.parametrize(
    ("kind", "column", "values"),
    [
        ("entropy collapse", "entropy", lambda v: v * (1 - SINCE)),
        ("KL explosion", "kl", lambda v: v * (1 + 9 * SINCE)),
        ("reward without spread", "reward_std", lambda v: v * (1 - SINCE)),
        ("reward collapse", "reward", lambda v: v - 0.4 * SINCE),
        ("all clipped", "clip_ratio", lambda v: np.maximum(v, SINCE)),
        ("all truncated", "completions/clipped_ratio", lambda v: np.maximum(v, SINCE)),
        ("response length", "completions/mean_length", lambda v: v * (1 - 0.95 * SINCE)),
        ("response length", "completions/mean_length", lambda v: v * (1 + 9 * SINCE)),
        ("gradient norm of the policy", "grad_norm", lambda v: v * (1 + 29 * SINCE)),
    ],
)
def test_a_fault_that_stays_is_looked_at_within_twenty_records(kind, column, values):
    rows = policy()
    rows[column] = values(rows[column].to_numpy(float))
    (remark,) = said(rows.iloc[: AT + 40])
    assert (remark.kind, remark.level) == (kind, LOOK)
    assert AT <= remark.step <= AT + 25
    assert column in remark.sentence
    (later,) = said(rows)
    assert later.level == LOOK, "it does not pass because it has become usual"


def test_a_fault_that_passes_is_noticed():
    shut = policy()["entropy"] * np.where((STEP > AT) & (STEP < AT + 20), 0.0, 1.0)
    (remark,) = said(policy(entropy=shut))
    assert (remark.kind, remark.level) == ("entropy collapse", NOTICED)
    assert remark.passed == AT + 20


def test_a_policy_without_entropy_and_with_a_constant_reward_is_lost():
    rows = policy(entropy=policy()["entropy"] * (1 - SINCE), reward_std=0.2 * (1 - SINCE))
    rows.loc[STEP > AT + 20, "reward"] = 0.1
    levels = {one.kind: one.level for one in said(rows)}
    assert levels["entropy collapse"] == STOP


def test_a_task_that_is_solved_is_no_collapse():
    solved = np.minimum(1, STEP / AT)
    rows = policy(reward=solved, reward_std=0.2 * (1 - SINCE))
    assert [one.level for one in said(rows)] == [NOTICED]


def test_the_entropy_of_a_density_may_cross_zero():
    assert said(policy(entropy=1 - STEP / 100)) == []


def test_a_negative_entropy_collapses_upwards():
    rows = policy().rename(columns={"entropy": "train/entropy_loss"})
    rows["train/entropy_loss"] *= -(1 - SINCE)
    assert [one.kind for one in said(rows)] == ["entropy collapse"]


def test_a_spread_is_taken_from_the_highest_and_the_lowest_reward():
    rows = policy().drop(columns=["reward", "reward_std"])
    rows = rows.assign(
        **{"critic/score/mean": 0.5, "critic/score/max": 1 - 0.5 * SINCE, "critic/score/min": 0.5 * SINCE}
    )
    assert "reward without spread" in [one.kind for one in said(rows)]


def test_short_and_empty_columns_are_not_judged():
    assert said(policy().iloc[:10]) == []
    assert said(policy(entropy=np.full(COUNT, np.nan))) == []


@pytest.mark.calibration
def test_faults_are_found_and_healthy_policies_are_not_accused():
    from benchmarks.policy_rates import healthy_table, planted_table

    healthy = healthy_table(900, 40, None)
    assert healthy["at_the_end"].sum() <= 0.03 * healthy["logs"].sum()
    planted = planted_table(900, 12, None)
    required = ("entropy to 0", "KL x 10", "rewards without spread", "all updates clipped")
    found = planted.set_index("fault").loc[list(required), "all"]
    assert (found >= 0.9).all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("count", [30, 77, 150])
def test_the_limits_at_a_record_follow_from_earlier_records_alone(rule, count):
    random = rng(test="looks back", rule=rule.name)
    values = np.exp(random.standard_normal(COUNT)) * np.exp(STEP / 50)
    whole, begun = rule().limits(values), rule().limits(values[:count])
    np.testing.assert_array_equal(whole.below[:count], begun.below)
    np.testing.assert_array_equal(whole.above[:count], begun.above)


def test_a_small_kl_is_no_explosion_whatever_it_was():
    assert said(policy(kl=policy()["kl"] * 1e-4 * (1 + 9 * SINCE))) == []


def test_a_kl_that_scatters_by_more_than_half_of_itself_and_grows_tenfold_is_found():
    found = []
    for draw in range(20):
        noise = rng(test="scattered KL", draw=draw).standard_normal(COUNT)
        kl = 0.01 * np.exp(0.7 * noise)
        assert said(policy(kl=kl)) == []
        late = said(policy(kl=kl * (1 + 9 * SINCE)).iloc[: AT + 40])
        found.append([(one.kind, one.level) for one in late] == [("KL explosion", LOOK)])
    assert np.mean(found) >= 0.9
