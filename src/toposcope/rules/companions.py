"""The rules of the columns beside a policy's loss, a line each: loaded where these columns judge a run."""

from __future__ import annotations

from toposcope.rules.all_clipped import AllClipped, AllTruncated
from toposcope.rules.companion import CompanionRule
from toposcope.rules.entropy_collapse import EntropyCollapse
from toposcope.rules.kl_explosion import KLExplosion
from toposcope.rules.policy_gradient import PolicyGradient
from toposcope.rules.response_length import ResponseLength
from toposcope.rules.reward_collapse import RewardCollapse, RewardWithoutSpread

RULES: tuple[type[CompanionRule], ...] = (
    EntropyCollapse,
    RewardCollapse,
    RewardWithoutSpread,
    KLExplosion,
    AllClipped,
    AllTruncated,
    ResponseLength,
    PolicyGradient,
)
"""The rules in the order in which they speak, after those of every log."""
