"""What the loss of a run is: an objective with a trend, or a policy's, a preference's or an auxiliary loss.

`objective_of` decides by the names of the columns and by the values of the loss. `companions` lists the
columns that judge a run whose loss has no trend: reward, KL, entropy, clipped share, length, gradient norm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.forms import listed
from toposcope.logs.meanings import plain
from toposcope.logs.run import by_step

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Companion", "Direction", "LossKind", "companions", "described", "objective_of"]

NEGATIVE = 0.05
"""A loss that is below 0 in this share of its rows is no likelihood of a token: the rule of docs/logs.md."""
_FAR_BELOW = 0.1
"""A median is far below a spread if it is below this share of it."""
_SOLVED = 0.9
"""A loss that begins above this share of its values has fallen, as that of a solved task."""
_PARTS = 3
"""The median is compared with the spread in each third, because a fine-tune ends far below where it began."""
_FEWEST_SPREAD = 8
"""The fewest losses in a third for its 5% to 95% range to mean anything."""
_COIN = (0.688, 0.698)
"""A preference loss begins at log 2 = .693, because policy and reference are equal then."""


class LossKind(StrEnum):
    """What a loss is, and so what may be said of it.

    Only TREND has a level that should fall. SIGNED is a loss whose values show that it has none, without
    names that tell why (a policy's or a density's).
    """

    TREND = "trend"
    POLICY = "policy"
    PREFERENCE = "preference"
    AUXILIARY = "auxiliary"
    ACCURACY = "accuracy"
    SIGNED = "signed"

    @property
    def has_trend(self) -> bool:
        """Whether the level, a spike or a forecast of the loss mean something."""
        return self is LossKind.TREND

    @property
    def noun(self) -> str:
        """What the loss is, in words."""
        return _NOUNS[self]


_NOUNS = {
    LossKind.TREND: "a loss that should fall",
    LossKind.POLICY: "that of a policy",
    LossKind.PREFERENCE: "that of preferences",
    LossKind.AUXILIARY: "an auxiliary loss",
    LossKind.ACCURACY: "an accuracy or a reward",
    LossKind.SIGNED: "around or below 0",
}


class Direction(StrEnum):
    """What a column beside a loss without a trend measures; the order is that of sentences."""

    REWARD = "reward"
    MARGIN = "margin"
    KL = "KL"
    STEP_KL = "KL of an update"
    ENTROPY = "entropy"
    CLIPPED = "clipped share"
    TRUNCATED = "truncated share"
    SPREAD = "reward spread"
    LENGTH = "response length"
    GRADIENT = "gradient norm"


@dataclass(frozen=True, slots=True)
class Companion:
    """A column with a direction: its name in the rows, and whether its sign is the opposite of its name's.

    stable-baselines3's `entropy_loss` is the negative entropy, so it is `negated`.
    """

    name: str
    direction: Direction
    negated: bool = False

    def values(self, rows: pd.DataFrame) -> np.ndarray:
        """Return the column as float64 (n,), with the sign of its direction."""
        logged = np.asarray(rows[self.name], float)
        return -logged if self.negated else logged


_AUXILIARY = re.compile(
    r"(^|_)(aux(iliary)?|balanc\w*|router|moe|lbl|load|z_?loss|kl\w*|commit\w*|vq|codebook|contrastive|"
    r"info_?nce|nce|itc|gan|disc\w*|generator|gen|adv\w*|errd|errg|cycle|idt|[dg])(_|$)"
)
"""Words of losses beside the objective: MoE balance, router z, KL, contrastive, the two sides of a GAN."""
_POLICY_LOSS = re.compile(
    r"(^|_)(pg|ppo|grpo|reinforce|policy\w*|actor|act|critic|cri|value|vf?|q[12]?|td|pi|surrogate)_?(gradient_)?"
    r"loss(_|$)|^loss_?(pi|v|q[12]?|actor|critic|policy|value)(_|$)|surrogateloss"
)
_ACCURACY = re.compile(
    r"(^|_)(acc|accurac\w*|reward\w*|returns?|scores?|f1|bleu|rouge\w*|auc|map|iou|win_?rate|precision|recall)"
    r"(_|$)|ep_?rew|epret"
)
_PREFERENCE = re.compile(
    r"(^|_)(chosen|rejected|margins?|(dpo|ipo|kto|orpo|simpo|cpo)_loss|rewards_accuracies|odds_ratio\w*)(_|$)"
)
_TIMES = re.compile(
    r"(^|_)(time|timing|seconds|sec|duration|throughput|perf|lr|coeff?|beta|target|range)(_|$)"
)
"""Words of columns that only share a word with a companion: the seconds of a reward, a KL's coefficient."""
_REWARD = re.compile(
    r"reward(?!s_(chosen|rejected|accurac|margin))|ep_?rew|(^|_)rew(_|$)|epret|(^|_)returns?(_|$)|averagereturn|"
    r"episodic_return|(^|_)(critic|objective|env|reward)_scores?(_|$)|^running_r$"
)
_ADVANTAGE = re.compile(r"(^|_)adv(antages?)?(_|$)|advantage(average|mean)")
_SCORE = re.compile(r"^(mean_|avg_|average_|train_)?scores?(_mean)?$")
_STEP_KL = re.compile(r"approx_?kl|ppo_kl")
"""The KL between the policy before and after an update, which is not the KL to the reference."""
_KL = re.compile(r"(^|_)(\w*_)?(kl|approx_?kl|ppo_kl|kldifference|kl_div\w*|kl_ref|rlhf_kl)(_|$)|^kl")
_ENTROPY = re.compile(r"(^|_)(entropy|policy_entropy)(_|$)")
_CLIPPED = re.compile(r"(^|_)(pg_)?clip_?(fraction|frac|ratio|frac_mean)(_|$)|clipfrac")
_CUT = re.compile(r"(clipped|truncat\w*)_?(ratio|share|fraction|rate)|response_length_clip_ratio|truncated")
_LENGTH = re.compile(r"(response|completion|generat\w+|output)s?_(mean_)?len(gth)?s?(_mean)?$")
"""The length of a response; that of an episode changes as a policy learns, so it judges nothing."""
_EXTREMES = re.compile(
    r"(^|_)(max|min|std|var|stdev|median|zero|high|low|lower|sem)(_|$)|^(max|min|std)\w+|fraction_zero"
)
"""Statistics of a column other than its mean."""

_PATTERNS: tuple[tuple[Direction, re.Pattern[str]], ...] = (
    (Direction.TRUNCATED, _CUT),
    (Direction.CLIPPED, _CLIPPED),
    (Direction.LENGTH, _LENGTH),
    (Direction.ENTROPY, _ENTROPY),
    (Direction.MARGIN, re.compile(r"(^|_)margins?(_mean)?$")),
    (Direction.REWARD, _REWARD),
    (Direction.REWARD, _SCORE),
    (Direction.STEP_KL, _STEP_KL),
    (Direction.KL, _KL),
)
"""Directions by the words of a column, in this order: a share of clipped responses is no length."""
_FIRST = {
    Direction.REWARD: (
        "reward", "rewards", "objective_rlhf_reward", "objective_scores", "critic_score_mean", "reward_mean",
        "mean_reward", "rollout_ep_rew_mean", "ep_rew_mean", "charts_episodic_return", "averageepret",
        "episode_reward_mean", "critic_rewards_mean",
    ),
    Direction.KL: ("kl", "objective_kl", "critic_kl", "actor_kl_loss"),
    Direction.ENTROPY: ("entropy", "actor_entropy", "actor_entropy_loss", "train_entropy_loss"),
    Direction.CLIPPED: ("clip_ratio_region_mean", "clip_ratio", "actor_pg_clipfrac", "train_clip_fraction"),
    Direction.LENGTH: ("completions_mean_length", "completion_length", "response_length_mean"),
}  # fmt: skip
"""Where several columns have one direction, these are judged, in this order; then the shortest name."""


def objective_of(rows: pd.DataFrame, column: str = "loss") -> LossKind:
    """Return what a loss is, from the names of the columns and the values of the loss.

    The first of these rules that holds decides:

    1. A column named by its reader that has a word of an auxiliary loss is AUXILIARY (`aux_loss`, `loss_G`).
    2. One with the word of an accuracy, a reward or a score is ACCURACY.
    3. Chosen and rejected answers, their margins, or a loss named after DPO and its kin make PREFERENCE; so
       does a loss that begins at log 2 and does not fall below .6 in its first third, with an accuracy.
    4. A reward, a return or an advantage makes POLICY, and so does a loss that is named as a policy's.
    5. A loss below 0 in 5% of its rows has no trend. Nor has one whose median is below a tenth of its spread
       in each third of the run, unless it begins above nine tenths of its values, as a solved task does. It
       is POLICY if a score, a KL, an entropy, a clipped share or a policy's loss stands beside it, else
       SIGNED.
    6. Two of these beside a loss that does not fall make POLICY, too.
    7. Everything else is TREND; an accuracy beside a loss changes nothing.

    Parameters
    ----------
    rows
        The rows of one run with every logged column.
    column
        The loss.

    Examples
    --------
    >>> import pandas as pd
    >>> step = np.arange(1, 101)
    >>> tuned = pd.DataFrame({"loss": 3 / np.sqrt(step), "accuracy": 1 - 1 / step})
    >>> objective_of(tuned).value, objective_of(tuned.assign(reward=1.0)).value
    ('trend', 'policy')
    >>> objective_of(pd.DataFrame({"loss": np.sin(step)})).value
    'signed'
    """
    name = plain(column)
    if name not in ("loss", "heldout_loss"):
        if _POLICY_LOSS.search(name):
            return LossKind.POLICY
        if _AUXILIARY.search(name):
            return LossKind.AUXILIARY
        if _ACCURACY.search(name) and not name.endswith("loss"):
            return LossKind.ACCURACY
    names = _logged_names(rows, column)
    loss = _finite(rows, column)
    if any(_PREFERENCE.search(name) for name in names) or _begins_as_a_coin(loss, names):
        return LossKind.PREFERENCE
    if any((_REWARD.search(name) or _ADVANTAGE.search(name)) and not _TIMES.search(name) for name in names):
        return LossKind.POLICY
    weak = _weak_signs(names)
    if _trendless(loss):
        return LossKind.POLICY if weak else LossKind.SIGNED
    return LossKind.POLICY if weak > 1 and not _falls(loss) else LossKind.TREND


def companions(rows: pd.DataFrame, column: str = "loss") -> tuple[Companion, ...]:
    """Return the columns that judge a run beside its loss, one for each direction, in the order of sentences.

    >>> import pandas as pd
    >>> logged = pd.DataFrame({"loss": [0.1], "train/entropy_loss": [-0.6], "rollout/ep_rew_mean": [21.0]})
    >>> [(one.name, one.direction.value, one.negated) for one in companions(logged)]
    [('rollout/ep_rew_mean', 'reward', False), ('train/entropy_loss', 'entropy', True)]
    """
    numeric = [name for name in _numeric(rows) if name != column]
    choice: dict[Direction, list[str]] = {}
    for name in numeric:
        if (direction := _direction(plain(name))) is not None:
            choice.setdefault(direction, []).append(name)
    chosen = {direction: _preferred(direction, names) for direction, names in choice.items()}
    return tuple(
        Companion(
            chosen[direction],
            direction,
            negated=direction is Direction.ENTROPY and _below_zero(rows[chosen[direction]]),
        )
        for direction in Direction
        if direction in chosen
    )


def with_direction(rows: pd.DataFrame) -> list[str]:
    """Return the columns that may judge a run beside its loss, whichever of them `companions` chooses.

    >>> import pandas as pd
    >>> with_direction(pd.DataFrame({"loss": [0.1], "entropy": [0.6], "note": ["a"], "lr": [1e-3]}))
    ['entropy']
    """
    return [name for name in _numeric(rows) if _direction(plain(name)) is not None]


def described(objective: LossKind, beside: Iterable[Companion] = ()) -> str:
    """Return what the loss is and what judges the run, in one sentence; empty for a loss with a trend.

    >>> described(LossKind.POLICY, [Companion("reward", Direction.REWARD), Companion("kl", Direction.KL)])
    'the loss is that of a policy: judged by reward and KL'
    """
    if objective.has_trend:
        return ""
    opening = f"the loss is {objective.noun}"
    judging = (companion.direction for companion in beside if companion.direction is not Direction.SPREAD)
    directions = list(
        dict.fromkeys("KL" if direction is Direction.STEP_KL else direction.value for direction in judging)
    )
    if objective in (LossKind.AUXILIARY, LossKind.ACCURACY) or not directions:
        return f"{opening}: its level and its trend are not judged"
    return f"{opening}: judged by {listed(directions)}"


def _direction(name: str) -> Direction | None:
    """Return the direction of a column by its plain name."""
    if _TIMES.search(name):
        return None
    if name in ("reward_std", "rewards_std", "std_reward"):
        return Direction.SPREAD
    if name == "grad_norm" or name.endswith("actor_grad_norm"):
        return Direction.GRADIENT
    if _EXTREMES.search(name) or name.startswith(("val_", "eval_")) or "cross_entropy" in name:
        return None
    return next((direction for direction, pattern in _PATTERNS if pattern.search(name)), None)


def _preferred(direction: Direction, names: list[str]) -> str:
    order = _FIRST.get(direction, ())
    return min(names, key=lambda name: (_place(plain(name), order), len(name)))


def _place(name: str, order: tuple[str, ...]) -> int:
    return order.index(name) if name in order else len(order)


def _numeric(rows: pd.DataFrame) -> list[str]:
    """Return the names of the numeric columns that hold a number."""
    numbers = rows.iloc[:0].select_dtypes("number")  # of all rows, this would be a copy
    return [str(name) for name in numbers if rows[name].notna().any()]


def _logged_names(rows: pd.DataFrame, column: str) -> list[str]:
    return [plain(name) for name in _numeric(rows) if name != column]


def _weak_signs(names: list[str]) -> int:
    """Return how many kinds of columns there are that policies log, and others log too."""
    patterns = (_SCORE, _KL, _ENTROPY, _CLIPPED, _POLICY_LOSS)
    usable = [name for name in names if not _TIMES.search(name) and "cross_entropy" not in name]
    return sum(any(pattern.search(name) for name in usable) for pattern in patterns)


def _finite(rows: pd.DataFrame, column: str) -> np.ndarray:
    if column not in rows:
        return np.empty(0)
    if "step" in rows:
        rows = by_step(rows)
    loss = np.asarray(rows[column], float)
    finite = np.isfinite(loss)
    return loss if finite.all() else loss[finite]


def _below_zero(values: pd.Series) -> bool:
    """Return whether no value is above 0, and some are below."""
    finite = np.asarray(values, float)
    finite = finite[np.isfinite(finite)]
    return bool(len(finite) and finite.max() <= 0 and finite.min() < 0)


def _begins_as_a_coin(loss: np.ndarray, names: list[str]) -> bool:
    """Return whether a loss begins at log 2 and stays near it for a third, with an accuracy beside it."""
    if not len(loss) or not any(re.search(r"(^|_)acc(urac\w*)?(_|$)", name) for name in names):
        return False
    first = loss[: max(1, len(loss) // _PARTS)]
    return bool(_COIN[0] <= loss[0] <= _COIN[1] and np.median(first) > 0.6)


def _trendless(loss: np.ndarray) -> bool:
    """Return whether a loss is below 0 in 5% of its rows, or its median always far below its spread."""
    if not len(loss):
        return False
    if np.mean(loss < 0) >= NEGATIVE:
        return True
    if np.median(loss[: max(3, len(loss) // 20)]) > np.quantile(loss, _SOLVED):
        return False
    parts = np.array_split(loss, _PARTS)
    return all(len(part) >= _FEWEST_SPREAD and _far_below_spread(part) for part in parts)


def _far_below_spread(part: np.ndarray) -> bool:
    low, middle, high = np.quantile(part, (0.05, 0.5, 0.95))
    return bool(high > low and abs(middle) <= _FAR_BELOW * (high - low))


def _falls(loss: np.ndarray) -> bool:
    """Return whether the last third of a loss lies below its first third, by a tenth of it."""
    if len(loss) < _PARTS:
        return False
    parts = np.array_split(loss, _PARTS)
    return bool(np.median(parts[-1]) < (1 - _FAR_BELOW) * np.median(parts[0]))
