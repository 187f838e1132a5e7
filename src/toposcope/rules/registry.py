"""The rules of a log by name, a line each; those of installed packages and of the calling process follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from toposcope.core.plugins import Extensible
from toposcope.logs.remarks import NOTICED, Remark
from toposcope.rules.accuracy import Accuracy
from toposcope.rules.all_clipped import AllClipped, AllTruncated
from toposcope.rules.dead_run import DeadRun
from toposcope.rules.diverging import Diverging
from toposcope.rules.entropy_collapse import EntropyCollapse
from toposcope.rules.gradient_spike import GradientSpike
from toposcope.rules.judged_run import JudgedRun
from toposcope.rules.kl_explosion import KLExplosion
from toposcope.rules.loss_spike import LossSpike
from toposcope.rules.not_finite import LossNotFinite
from toposcope.rules.overfitting import Overfitting
from toposcope.rules.plateau import Plateau
from toposcope.rules.policy_gradient import PolicyGradient
from toposcope.rules.rate_ended import RateEnded
from toposcope.rules.response_length import ResponseLength
from toposcope.rules.reward_collapse import RewardCollapse, RewardWithoutSpread
from toposcope.rules.rule import BOTH, Rule

if TYPE_CHECKING:
    import pandas as pd

GROUP = "toposcope.rules"
"""The entry-point group with which an installed package offers rules: NAME = "module:Class"."""

RULES: tuple[type[Rule], ...] = (
    LossNotFinite,
    DeadRun,
    Accuracy,
    RateEnded,
    Overfitting,
    Diverging,
    Plateau,
    LossSpike,
    GradientSpike,
    EntropyCollapse,
    RewardCollapse,
    RewardWithoutSpread,
    KLExplosion,
    AllClipped,
    AllTruncated,
    ResponseLength,
    PolicyGradient,
)
"""The rules in the order in which they speak."""

EXTENSIBLE = Extensible(
    GROUP, Rule, RULES, lambda rule: rule.name, "rule {} exists already; give yours another name"
)
"""Every rule by its name, with those that were added."""


def add_rule(rule: type[Rule]) -> type[Rule]:
    """Register a rule for every log of this process; returns it, so it works as a class decorator.

    An installed package offers its rules to every process by the entry points `toposcope.rules`.

    Raises
    ------
    InputError
        When another rule has its name.
    """
    return EXTENSIBLE.add(rule)


def rules() -> tuple[type[Rule], ...]:
    """Return every rule: the package's, those of installed packages, and those that were added."""
    return tuple(EXTENSIBLE.by_name().values())


def looking_back() -> tuple[type[Rule], ...]:
    """Return the rules that follow a log row by row: `watch` makes an alarm of each."""
    return tuple(rule for rule in rules() if rule.looks_back())


def remarks_on(run: JudgedRun, *, noticed: bool = True) -> list[Remark]:
    """Return what the rules that look at both sides say of a run, in the order of the rules.

    Without `noticed`, only what calls for a look or a stop.
    """
    remarks: list[Remark] = []
    for rule in rules():
        silent = rule.looks != BOTH or (rule.of_trend and run.policy)
        if not silent and not any(one.kind in rule.unless for one in remarks):
            remarks += rule().judge(run)
    return remarks if noticed else [one for one in remarks if one.level != NOTICED]


def assess(
    metrics: pd.DataFrame,
    *,
    column: str = "loss",
    horizon: float | None = None,
    anneals: bool = False,
    ended: bool = False,
    noticed: bool = True,
) -> tuple[Remark, ...]:
    """Return what the rules say of one run by the rows of its log; see `JudgedRun` for the arguments.

    >>> import numpy as np
    >>> import pandas as pd
    >>> step = np.arange(1, 401)
    >>> loss = 1.6 + 3 / np.sqrt(step) + np.where(step > 300, (step - 300) * 0.03, 0.0)
    >>> [remark.kind for remark in assess(pd.DataFrame({"step": step, "loss": loss}))]
    ['diverging']
    """
    run = JudgedRun.of(metrics, column=column, horizon=horizon, anneals=anneals, ended=ended)
    return tuple(remarks_on(run, noticed=noticed))


def once(judged: Sequence[Remark], replayed: Sequence[Remark]) -> list[Remark]:
    """Return what whole logs and the replayed alarms show, each thing once, in the order of the rules."""
    remarks: list[Remark] = []
    left, alarms = list(judged), list(replayed)
    for rule in rules():
        kinds = rule.speaks_of()
        mine = [one for one in left if one.kind in kinds]
        heard = [one for one in alarms if one.kind == rule.alarm_name()]
        remarks += rule().once(mine, heard)
        left = [one for one in left if one.kind not in kinds]
        alarms = [one for one in alarms if one.kind != rule.alarm_name()]
    return [*remarks, *left, *alarms]


def place(kind: str) -> int:
    """Return the place of a kind of remark in the list of rules; other kinds come last."""
    return next((at for at, rule in enumerate(rules()) if kind in rule.speaks_of()), len(rules()))


def is_alarm(kind: str) -> bool:
    """Return whether a kind of remark is the alarm of a rule that looks back."""
    return any(rule.alarm_name() == kind for rule in looking_back())
