"""Tests of what the loss of a run is taken for, and of the columns that judge it."""

import numpy as np
import pandas as pd
import pytest

from toposcope.logs.objective import Direction, LossKind, companions, described, objective_of

STEP = np.arange(1, 121)
FALLS = 0.5 + 3 / np.sqrt(STEP)
NOISE = np.random.default_rng(0).standard_normal(120)


def run(loss: np.ndarray, **beside: np.ndarray | float) -> pd.DataFrame:
    """Return rows with a loss and columns beside it; `__` in a name stands for a slash."""
    named = {name.replace("__", "/"): values for name, values in beside.items()}
    return pd.DataFrame({"step": STEP, "loss": loss, **named})


@pytest.mark.parametrize(
    "beside",
    [
        {"mean_token_accuracy": 1 - 1 / STEP, "num_tokens": STEP * 4096.0, "entropy": FALLS},  # TRL's SFT
        {"accuracy": 1 - 1 / STEP},
        {"metrics__mAP50": 1 - 1 / STEP, "precision": 0.7, "train__cls_loss": FALLS},  # YOLO
        {"kl_loss": 0.1, "recon_loss": FALLS},  # a variational autoencoder
        {"f1_score": 0.4, "learning_rate": 1e-4, "grad_norm": 1.0},
        {"timing_s__reward": 0.4},
        {"cross_entropy": FALLS, "z_loss": 1e-3, "load_balancing_loss": 1.02},  # a mixture of experts
    ],
)
def test_a_loss_that_falls_beside_an_accuracy_has_a_trend(beside):
    assert objective_of(run(FALLS, **beside)) is LossKind.TREND


@pytest.mark.parametrize(
    "name",
    [
        "reward", "critic__score__mean", "rollout__ep_rew_mean", "charts__episodic_return", "AverageEpRet",
        "episode_reward_mean", "critic__advantages__mean", "objective__scores", "rewards__combined_reward",
    ],
)  # fmt: skip
def test_a_reward_a_return_or_an_advantage_makes_a_policy(name):
    assert objective_of(run(FALLS, **{name: 0.5})) is LossKind.POLICY


def test_a_reward_that_holds_no_number_makes_no_policy():
    assert objective_of(run(FALLS, reward=np.nan)) is LossKind.TREND


@pytest.mark.parametrize(
    "names",
    [("rewards__chosen", "rewards__rejected", "rewards__margins"), ("logps__chosen",), ("dpo_loss",)],
)
def test_chosen_and_rejected_answers_make_a_preference(names):
    assert objective_of(run(FALLS, **dict.fromkeys(names, 0.2))) is LossKind.PREFERENCE


def test_a_loss_that_stays_at_log_two_beside_an_accuracy_is_a_preference():
    coin = np.log(2) - 0.001 * (STEP - 1)
    assert objective_of(run(coin, accuracy=0.55)) is LossKind.PREFERENCE
    assert objective_of(run(coin)) is LossKind.TREND


def test_values_around_or_below_zero_have_no_trend():
    assert objective_of(run(0.01 * NOISE)) is LossKind.SIGNED
    assert objective_of(run(np.where(STEP % 20, FALLS, -0.1))) is LossKind.SIGNED  # 1 in 20
    assert objective_of(run(0.01 * NOISE, entropy=0.5)) is LossKind.POLICY
    rare = np.where(np.abs(NOISE) > 1.2, np.abs(NOISE), 1e-4)
    assert objective_of(run(rare)) is LossKind.SIGNED


def test_a_fine_tune_that_ends_far_below_its_start_has_a_trend():
    memorised = 3 * np.exp(-STEP / 6) * np.exp(0.3 * NOISE) + 2e-4
    assert objective_of(run(memorised)) is LossKind.TREND


@pytest.mark.parametrize(
    ("column", "objective"),
    [
        ("aux_loss", LossKind.AUXILIARY),
        ("moe/load_balancing_loss", LossKind.AUXILIARY),
        ("router_z_loss", LossKind.AUXILIARY),
        ("loss_G", LossKind.AUXILIARY),
        ("d_loss", LossKind.AUXILIARY),
        ("kl", LossKind.AUXILIARY),
        ("contrastive_loss", LossKind.AUXILIARY),
        ("actor/pg_loss", LossKind.POLICY),
        ("LossPi", LossKind.POLICY),
        ("eval_accuracy", LossKind.ACCURACY),
        ("mlm_loss", LossKind.TREND),
        ("nll", LossKind.TREND),
    ],
)
def test_the_name_of_the_column_says_what_it_is(column, objective):
    assert objective_of(run(FALLS).assign(**{column: FALLS}), column) is objective


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            ["actor/entropy_loss", "actor/ppo_kl", "critic/score/mean", "critic/score/max", "actor/grad_norm",
             "actor/pg_clipfrac", "response_length/mean", "response_length/clip_ratio", "timing_s/reward"],
            {Direction.REWARD: "critic/score/mean", Direction.STEP_KL: "actor/ppo_kl",
             Direction.ENTROPY: "actor/entropy_loss", Direction.CLIPPED: "actor/pg_clipfrac",
             Direction.TRUNCATED: "response_length/clip_ratio", Direction.LENGTH: "response_length/mean",
             Direction.GRADIENT: "actor/grad_norm"},
        ),
        (
            ["reward", "reward_std", "rewards/format/mean", "kl", "completions/mean_length", "entropy",
             "completions/clipped_ratio", "clip_ratio/low_min", "clip_ratio/region_mean", "num_tokens"],
            {Direction.REWARD: "reward", Direction.SPREAD: "reward_std", Direction.KL: "kl",
             Direction.ENTROPY: "entropy", Direction.CLIPPED: "clip_ratio/region_mean",
             Direction.TRUNCATED: "completions/clipped_ratio", Direction.LENGTH: "completions/mean_length"},
        ),
        (
            ["rollout/ep_rew_mean", "rollout/ep_len_mean", "train/approx_kl", "train/clip_fraction",
             "train/clip_range", "train/entropy_loss", "train/explained_variance", "time/fps"],
            {Direction.REWARD: "rollout/ep_rew_mean", Direction.STEP_KL: "train/approx_kl",
             Direction.ENTROPY: "train/entropy_loss", Direction.CLIPPED: "train/clip_fraction"},
        ),
        (
            ["rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies", "logps/chosen"],
            {Direction.MARGIN: "rewards/margins"},
        ),
        (
            ["charts/episodic_return", "losses/approx_kl", "losses/clipfrac", "losses/entropy"],
            {Direction.REWARD: "charts/episodic_return", Direction.STEP_KL: "losses/approx_kl",
             Direction.CLIPPED: "losses/clipfrac", Direction.ENTROPY: "losses/entropy"},
        ),
        (
            ["AverageEpRet", "StdEpRet", "MaxEpRet", "EpLen", "KL", "Entropy", "ClipFrac"],
            {Direction.REWARD: "AverageEpRet", Direction.KL: "KL", Direction.ENTROPY: "Entropy",
             Direction.CLIPPED: "ClipFrac"},
        ),
        (
            ["episode_reward_mean", "episode_reward_max", "episode_len_mean", "policy_reward"],
            {Direction.REWARD: "episode_reward_mean"},
        ),
        (
            ["policy/approxkl_avg", "objective/kl", "objective/entropy", "objective/rlhf_reward",
             "objective/scores", "policy/clipfrac_avg"],
            {Direction.STEP_KL: "policy/approxkl_avg", Direction.KL: "objective/kl",
             Direction.ENTROPY: "objective/entropy",
             Direction.REWARD: "objective/rlhf_reward", Direction.CLIPPED: "policy/clipfrac_avg"},
        ),
    ],
)  # fmt: skip
def test_each_direction_is_judged_by_one_column(columns, expected):
    rows = pd.DataFrame({"loss": [0.1, 0.2], **{name: [0.3, 0.4] for name in columns}})
    assert {one.direction: one.name for one in companions(rows)} == expected


def test_a_negative_entropy_is_turned_round():
    rows = run(FALLS, train__entropy_loss=-0.6)
    (entropy,) = companions(rows)
    assert entropy.negated
    assert entropy.values(rows)[0] == pytest.approx(0.6)


def test_the_sentence_names_the_judging_columns():
    rows = run(0.01 * NOISE, reward=0.5, kl=0.1, entropy=0.4, reward_std=0.1)
    said = described(objective_of(rows), companions(rows))
    assert said == "the loss is that of a policy: judged by reward, KL and entropy"
    assert described(LossKind.TREND) == ""
    assert "not judged" in described(LossKind.AUXILIARY, companions(rows))
