"""The rules of a log by name, a line each; those of installed packages and of the calling process follow."""

from __future__ import annotations

from collections.abc import Sequence

from toposcope.core.plugins import Extensible
from toposcope.rules.overfitting import Overfitting
from toposcope.rules.rule import BOTH, JudgedRun, Remark, Rule

GROUP = "toposcope.rules"
"""The entry-point group with which an installed package offers rules: NAME = "module:Class"."""

RULES: tuple[type[Rule], ...] = (Overfitting,)
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


def remarks_on(run: JudgedRun) -> list[Remark]:
    """Return what the rules that look at both sides say of a run, in the order of the rules."""
    asked = [one for one in rules() if one.looks == BOTH and not (one.of_trend and run.policy)]
    found: list[Remark] = []
    for rule in asked:
        found += _said(rule, run)
    return found


def _said(rule: type[Rule], run: JudgedRun) -> Sequence[Remark]:
    return rule().judge(run)
