"""How often the columns of a policy are judged rightly: python -m benchmarks.policy_rates [--verl CSV].

Simulated runs of PPO, GRPO and DPO with the columns of verl, TRL and stable-baselines3, and, if its file is
given, a public PPO run. The first table counts the alarms in healthy runs: at their end (`check`) and at any
record (`watch`). The second counts the faults that are found within 20 records after they are complete: the
entropy or the spread of the rewards goes to 0, KL grows tenfold, every update or response is clipped, the
reward falls back to its start, lengths collapse or explode; at once, or over 20 records. Constants were set
on draws below 900, with the public run in view; its rates are no independent test.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from toposcope.core.seeding import rng
from toposcope.logs.objective import Direction, companions
from toposcope.rules.registry import remarks_on
from toposcope.rules.rule import NOTICED, JudgedRun

FIRST = 900
"""The first draw of the tables: none that a constant was set on."""
WITHIN = 20
"""Records after the fault is complete in which it is to be found."""
RAMPS = (1, 20)


def _noise(random: np.random.Generator, n: int, memory: float) -> np.ndarray:
    """Return noise of variance 1 with some memory."""
    white = random.standard_normal(n)
    for place in range(1, n):
        white[place] = memory * white[place - 1] + np.sqrt(1 - memory**2) * white[place]
    return white


def _learning(random: np.random.Generator, n: int) -> np.ndarray:
    """Return how much of its task a run has learned, 0 to about 1: an S or a saturating curve."""
    time = np.arange(n) / n
    if random.random() < 0.5:
        return 1 - np.exp(-time / random.uniform(0.05, 0.6))
    middle, width = random.uniform(0.1, 0.6), random.uniform(0.03, 0.2)
    return 1 / (1 + np.exp(-(time - middle) / width))


def grpo(random: np.random.Generator, n: int) -> pd.DataFrame:
    """Return a healthy GRPO run under TRL's names."""
    learned, warm = _learning(random, n), np.minimum(1, np.arange(n) / random.integers(1, 40))
    low = random.uniform(0.05, 0.4)
    reward = low + random.uniform(0.02, 0.5) * learned
    spread = random.uniform(0.1, 0.4) * (1 - random.uniform(0, 0.7) * learned)
    noise = random.uniform(0.02, 0.08)
    far = 1 - np.exp(-np.arange(1, n + 1) / random.uniform(10, 400))  # from the reference, as in public runs
    kl = random.uniform(0.01, 2) * warm * far * (0.5 + learned) * np.exp(0.3 * _noise(random, n, 0.5))
    length = random.uniform(100, 800) * np.exp(random.uniform(-0.7, 1.2) * learned)
    return pd.DataFrame(
        {
            "step": np.arange(1, n + 1),
            "loss": kl * 0.04 + 1e-3 * random.standard_normal(n),
            "grad_norm": random.uniform(0.1, 2) * np.exp(0.4 * random.standard_t(4, n)),
            "reward": reward + noise * _noise(random, n, 0.3),
            "reward_std": np.clip(spread * np.exp(0.2 * random.standard_normal(n)), 0, None),
            "kl": kl,
            "entropy": _entropy(random, n, learned),
            "clip_ratio/region_mean": np.clip(random.exponential(random.uniform(1e-3, 0.05), n), 0, 0.5),
            "completions/mean_length": length * np.exp(0.1 * _noise(random, n, 0.5)),
            "completions/clipped_ratio": random.beta(1, random.uniform(3, 20), n),
        }
    )


def _entropy(random: np.random.Generator, n: int, learned: np.ndarray) -> np.ndarray:
    """Return an entropy that falls by up to tenfold as the run learns."""
    fall = random.uniform(0, np.log(10))
    return random.uniform(0.2, 2) * np.exp(-fall * learned + 0.08 * _noise(random, n, 0.6))


def ppo(random: np.random.Generator, n: int) -> pd.DataFrame:
    """Return a healthy PPO run of a control task under stable-baselines3's names."""
    learned = _learning(random, n)
    low, high = sorted(random.uniform(-200, 500, 2))
    noise = (high - low) * random.uniform(0.02, 0.1)
    entropy = _entropy(random, n, learned)
    return pd.DataFrame(
        {
            "step": 2048 * np.arange(1, n + 1),
            "loss": 10 * np.exp(0.6 * _noise(random, n, 0.5)) * (0.2 + learned),
            "rollout/ep_rew_mean": low + (high - low) * learned + noise * _noise(random, n, 0.9),
            "rollout/ep_len_mean": 20 + 400 * learned,
            "train/entropy_loss": -entropy,
            "train/approx_kl": random.uniform(2e-3, 0.02) * np.exp(0.5 * _noise(random, n, 0.3)),
            "train/clip_fraction": np.clip(
                random.uniform(0.02, 0.2) * np.exp(0.3 * _noise(random, n, 0.3)), 0, 1
            ),
        }
    )


def dpo(random: np.random.Generator, n: int) -> pd.DataFrame:
    """Return a healthy DPO run under TRL's names."""
    learned = _learning(random, n)
    margin = random.uniform(0.2, 4) * learned + 0.15 * _noise(random, n, 0.2)
    rejected = -random.uniform(0.1, 3) * learned + 0.1 * _noise(random, n, 0.2)
    return pd.DataFrame(
        {
            "step": 10 * np.arange(1, n + 1),
            "loss": np.log1p(np.exp(-margin)) * np.exp(0.1 * random.standard_normal(n)),
            "grad_norm": random.uniform(1, 20) * np.exp(0.3 * random.standard_t(4, n)),
            "rewards/chosen": margin + rejected,
            "rewards/rejected": rejected,
            "rewards/margins": margin,
            "rewards/accuracies": np.clip(0.5 + 0.4 * learned + 0.08 * random.standard_normal(n), 0, 1),
        }
    )


KINDS: Mapping[str, Callable[[np.random.Generator, int], pd.DataFrame]] = {
    "GRPO": grpo,
    "PPO": ppo,
    "DPO": dpo,
}


def _names(rows: pd.DataFrame, *directions: Direction) -> list[str]:
    return [one.name for one in companions(rows) if one.direction in directions]


def _ramp(n: int, at: int, records: int) -> np.ndarray:
    """Return 0 before a record, 1 once a fault is complete."""
    return np.clip((np.arange(n) - at + 1) / records, 0, 1)


def _scaled(*directions: Direction, times: float) -> Callable[[pd.DataFrame, int, int], list[str]]:
    def plant(rows: pd.DataFrame, at: int, records: int) -> list[str]:
        names = _names(rows, *directions)
        factor = 1 + (times - 1) * _ramp(len(rows), at, records)
        rows[names] = rows[names].mul(factor, axis=0)
        return names

    return plant


def _to_one(*directions: Direction) -> Callable[[pd.DataFrame, int, int], list[str]]:
    def plant(rows: pd.DataFrame, at: int, records: int) -> list[str]:
        names = _names(rows, *directions)
        share = _ramp(len(rows), at, records)
        rows[names] = rows[names].mul(1 - share, axis=0).add(share, axis=0)
        return names

    return plant


def _falls_back(rows: pd.DataFrame, at: int, records: int) -> list[str]:
    """Let the reward return to where it began; a run that has gained nothing yet has none to lose."""
    names = _names(rows, Direction.REWARD, Direction.MARGIN)
    share, kept = _ramp(len(rows), at, records), []
    for name in names:
        value = rows[name].to_numpy(float)
        lost = np.median(value[at - 20 : at]) - np.median(value[:10])
        if lost > 6 * np.std(np.diff(value[:at])):
            rows[name] = value - share * lost
            kept.append(name)
    return kept


def _without_spread(rows: pd.DataFrame, at: int, records: int) -> list[str]:
    """Let every reward of a batch be the same one from a record on, below the best level."""
    names = [*_names(rows, Direction.REWARD), *_names(rows, Direction.SPREAD)]
    share = _ramp(len(rows), at, records)
    for name in names:
        value = rows[name].to_numpy(float)
        constant = 0.0 if name.endswith("std") else float(np.median(value[:at]))
        rows[name] = value * (1 - share) + constant * share
        for end in ("max", "min"):
            if (other := name.replace("mean", end)) != name and other in rows:
                rows[other] = rows[other].to_numpy(float) * (1 - share) + constant * share
    return names


FAULTS: Mapping[str, tuple[str, Callable[[pd.DataFrame, int, int], list[str]]]] = {
    "entropy to 0": ("entropy collapse", _scaled(Direction.ENTROPY, times=0.0)),
    "KL x 10": ("KL explosion", _scaled(Direction.KL, Direction.STEP_KL, times=10.0)),
    "rewards without spread": ("reward without spread", _without_spread),
    "all updates clipped": ("all clipped", _to_one(Direction.CLIPPED)),
    "all responses cut off": ("all truncated", _to_one(Direction.TRUNCATED)),
    "reward back to its start": ("reward collapse", _falls_back),
    "responses a tenth as long": ("response length", _scaled(Direction.LENGTH, times=0.1)),
    "responses ten times as long": ("response length", _scaled(Direction.LENGTH, times=10.0)),
    "gradient norm x 20": ("gradient norm of the policy", _scaled(Direction.GRADIENT, times=20.0)),
}
"""Faults: the rule that is to find each, and what plants it and returns the columns that it changed."""


def alarms(rows: pd.DataFrame) -> tuple[set[str], set[str]]:
    """Return the names of the rules that speak at the end of a log, and of those that ever did."""
    found = remarks_on(JudgedRun.of(rows))
    return {one.kind for one in found if one.level != NOTICED}, {one.kind for one in found}


def planted(rows: pd.DataFrame, fault: str, at: int, records: int) -> bool | None:
    """Return whether a fault that begins at a record is found in time; None where it cannot be planted."""
    kind, plant = FAULTS[fault]
    rows = rows.copy()
    if not plant(rows, at, records):
        return None
    seen = rows.iloc[: at + records + WITHIN]
    return kind in alarms(seen)[0]


def runs(first: int, draws: int) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield simulated runs of 60 to 600 records with their kind."""
    for kind, make in KINDS.items():
        for draw in range(first, first + draws):
            random = rng(benchmark="policy rates", kind=kind, draw=draw)
            yield kind, make(random, int(random.integers(60, 601)))


def healthy_table(first: int, draws: int, verl: pd.DataFrame | None) -> pd.DataFrame:
    """Return for each kind how many healthy runs have an alarm at their end, and ever."""
    rows = [(kind, *alarms(log)) for kind, log in runs(first, draws)]
    if verl is not None:
        rows += [("public PPO run, each beginning", *alarms(verl.iloc[:n])) for n in range(30, len(verl), 15)]
    table = pd.DataFrame(rows, columns=["kind", "end", "ever"])
    counted = table.groupby("kind", sort=False).agg(
        logs=("end", "size"), at_the_end=("end", lambda one: sum(map(bool, one))),
        ever=("ever", lambda one: sum(map(bool, one))),
        rules=("ever", lambda one: ", ".join(sorted(set().union(*one)))),
    )  # fmt: skip
    return counted.reset_index()


def planted_table(first: int, draws: int, verl: pd.DataFrame | None) -> pd.DataFrame:
    """Return for each fault and kind how many planted faults are found in time."""
    found = []
    logs = list(runs(first, draws))
    if verl is not None:
        logs += [("public PPO run", verl)] * max(1, draws // 4)
    for number, (kind, log) in enumerate(logs):
        random = rng(benchmark="policy faults", kind=kind, draw=first + number)
        for fault in FAULTS:
            for records in RAMPS:
                if len(log) < 40 + records + WITHIN:
                    continue
                at = int(random.integers(40, len(log) - records - WITHIN + 1))
                found.append((fault, records, kind, planted(log, fault, at, records)))
    table = pd.DataFrame(found, columns=["fault", "over", "kind", "found"]).dropna()
    table["found"] = table["found"].astype(float)
    shares = table.pivot_table("found", ["fault", "over"], "kind", aggfunc="mean", sort=False)
    return shares.assign(all=table.groupby(["fault", "over"], sort=False)["found"].mean()).reset_index()


def main() -> None:
    """Print the two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--verl", type=Path, help="the public PPO run, a CSV of verl's columns")
    parser.add_argument("--draws", type=int, default=60, help="draws of each kind with a planted fault")
    parser.add_argument("--healthy", type=int, default=400, help="healthy draws of each kind")
    parser.add_argument("--first", type=int, default=FIRST)
    given = parser.parse_args()
    verl = None if given.verl is None else pd.read_csv(given.verl)
    with pd.option_context("display.width", 160, "display.max_columns", 20, "display.max_colwidth", 90):
        print(healthy_table(given.first, given.healthy, verl).to_string(index=False))
        print(planted_table(given.first, given.draws, verl).round(3).to_string(index=False))


if __name__ == "__main__":
    main()
