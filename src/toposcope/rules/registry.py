"""The rules of a log by name, a line each; those of installed packages and of the calling process follow.

A log is replayed at the levels of a watch. A watch divides one false-alarm rate among all of its alarms, so
the shares of those on weights are reserved here, where a log alone is judged, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from toposcope import rules as room
from toposcope.core.plugins import Extensible, loaded, spared, spared_all
from toposcope.logs.remarks import NOTICED, Remark
from toposcope.rules.accuracy import Accuracy
from toposcope.rules.broken_off import BrokenOff
from toposcope.rules.dead_run import DeadRun
from toposcope.rules.diverging import Diverging
from toposcope.rules.gradient_spike import GradientSpike
from toposcope.rules.judged_run import JudgedRun
from toposcope.rules.loss_spike import LossSpike
from toposcope.rules.not_finite import LossNotFinite
from toposcope.rules.overfitting import Overfitting, SuddenFall
from toposcope.rules.plateau import Plateau
from toposcope.rules.rate_ended import RateEnded
from toposcope.rules.restart import Restart
from toposcope.rules.rule import BOTH, Rule
from toposcope.statistics.alarms.spending import RATE, AlarmFamily

if TYPE_CHECKING:
    import pandas as pd

GROUP = "toposcope.rules"
"""The entry-point group with which an installed package offers rules: NAME = "module:Class"."""

RULES: tuple[type[Rule], ...] = (
    LossNotFinite,
    BrokenOff,
    DeadRun,
    Accuracy,
    RateEnded,
    Restart,
    Overfitting,
    SuddenFall,
    Diverging,
    Plateau,
    LossSpike,
    GradientSpike,
)
"""The rules of every log in the order in which they speak; those of `rules.companions` follow."""

ALARMS = "toposcope.alarms"
"""The entry-point group with which an installed package offers alarms on weights."""
FORECAST_TARGET = "forecast target"
"""The alarm that has a share only where a target loss is given."""
RESERVED: dict[str, float] = {
    "update norm": 1.0,
    "phase boundary": 1.0,  # unspent: the other alarms keep the levels at which their rates were measured
    "matrix or head": 2.0,
    "sibling band": 1.0,
}
"""The shares of the alarms on weights; `reserve` adds those of alarms that are added."""
TARGET_SHARE = 1.0


def _own() -> tuple[type[Rule], ...]:
    return (*RULES, *room.companions.RULES)


EXTENSIBLE = Extensible(
    GROUP, Rule, _own, lambda rule: rule.name, "rule {} exists already; give yours another name"
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


def rules_of(run: JudgedRun) -> tuple[type[Rule], ...]:
    """Return the rules that apply to a run: those of companion columns only where these judge it."""
    return rules() if run.by_companions else (*RULES, *EXTENSIBLE.others())


def looking_back() -> tuple[type[Rule], ...]:
    """Return the rules that follow a log row by row: `watch` makes an alarm of each."""
    return tuple(rule for rule in (*RULES, *EXTENSIBLE.others()) if rule.looks_back())


def remarks_on(run: JudgedRun, *, noticed: bool = True) -> list[Remark]:
    """Return what the rules that look at both sides say of a run, in the order of the rules.

    Without `noticed`, only what calls for a look or a stop.
    """
    remarks: list[Remark] = []
    for rule in rules_of(run):
        silent = rule.looks != BOTH or (rule.of_trend and run.policy)
        if not silent and not any(remark.kind in rule.unless for remark in remarks):
            instance = spared(rule, None)
            remarks += [] if instance is None else spared_all(instance.judge, Remark, run, copied=True)
    return remarks if noticed else [remark for remark in remarks if remark.level != NOTICED]


def assess(
    metrics: pd.DataFrame,
    *,
    column: str = "loss",
    horizon: float | None = None,
    anneals: bool = False,
    ended: bool = False,
    noticed: bool = True,
    replaced: pd.DataFrame | None = None,
    restarts: tuple[float, ...] = (),
    error: str = "",
) -> tuple[Remark, ...]:
    """Return what the rules say of one run by the rows of its log; see `JudgedRun` for the arguments.

    >>> import numpy as np
    >>> import pandas as pd
    >>> step = np.arange(1, 401)
    >>> loss = 1.6 + 3 / np.sqrt(step) + np.where(step > 300, (step - 300) * 0.03, 0.0)
    >>> [remark.kind for remark in assess(pd.DataFrame({"step": step, "loss": loss}))]
    ['diverging']
    """
    run = JudgedRun.of(
        metrics, column=column, horizon=horizon, anneals=anneals, ended=ended, replaced=replaced,
        restarts=restarts, error=error,
    )  # fmt: skip
    return tuple(remarks_on(run, noticed=noticed))


def once(judged: Sequence[Remark], replayed: Sequence[Remark]) -> list[Remark]:
    """Return what whole logs and the replayed alarms show, each thing once, in the order of the rules."""
    remarks: list[Remark] = []
    left, alarms = list(judged), list(replayed)
    for rule in _rules_of_kinds({remark.kind for remark in (*judged, *replayed)}):
        kinds = rule.speaks_of()
        mine = [remark for remark in left if remark.kind in kinds]
        heard = [alarm for alarm in alarms if alarm.kind == rule.alarm_name()]
        remarks += _once(rule, tuple(mine), tuple(heard))
        left = [remark for remark in left if remark.kind not in kinds]
        alarms = [alarm for alarm in alarms if alarm.kind != rule.alarm_name()]
    return [*remarks, *left, *alarms]


def _once(rule: type[Rule], judged: tuple[Remark, ...], replayed: tuple[Remark, ...]) -> Sequence[Remark]:
    """Return what a rule says once; everything, if it is that of a package and fails."""
    instance = spared(rule, None)
    merged = None if instance is None else spared(instance.once, None, judged, replayed)
    is_valid = isinstance(merged, tuple | list) and all(isinstance(remark, Remark) for remark in merged)
    return merged if merged is not None and is_valid else (*judged, *replayed)


def place(kind: str) -> int:
    """Return the place of a kind of remark in the list of rules; other kinds come last."""
    named = _rules_of_kinds({kind})
    return next((at for at, rule in enumerate(named) if kind in rule.speaks_of()), len(rules()))


def _rules_of_kinds(kinds: Collection[str]) -> tuple[type[Rule], ...]:
    """Return the rules up to the last that speaks of one of the kinds, and maybe more."""
    usual = {kind for rule in RULES for kind in rule.speaks_of()}
    return RULES if usual.issuperset(kinds) else rules()


def is_alarm(kind: str) -> bool:
    """Return whether a kind of remark is the alarm of a rule that looks back."""
    return any(rule.alarm_name() == kind for rule in looking_back())


def reserve(alarm: str, share: float) -> None:
    """Reserve the share of an alarm on weights that was added to this process."""
    if share > 0:
        RESERVED[alarm] = share


def family(rate: float = RATE, *, target: bool = False) -> AlarmFamily:
    """Return the tests that share a run's false-alarm rate; `target` says that a final loss is to be reached.

    >>> family().rate_of("loss spike")
    0.00625
    """
    shares = {rule.alarm_name(): rule.share for rule in looking_back() if rule.share > 0}
    shares |= {**_installed(), **RESERVED}
    return AlarmFamily(rate, shares | ({FORECAST_TARGET: TARGET_SHARE} if target else {}))


@cache
def _installed() -> Mapping[str, float]:
    """Return the shares of the alarms that installed packages offer."""
    shares = {}
    for point in entry_points(group=ALARMS):
        alarm = loaded(ALARMS, point)
        if getattr(alarm, "share", 0) > 0:
            shares[str(alarm.test)] = float(alarm.share)
    return shares
