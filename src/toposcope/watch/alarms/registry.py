"""The alarms by name: those of the rules of a log, then a line each; those of others follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from toposcope.core.errors import InputError
from toposcope.core.plugins import Extensible
from toposcope.rules.registry import looking_back, reserve
from toposcope.statistics.alarms.spending import RATE, AlarmFamily, Spending
from toposcope.watch.alarms.base import Alarm, AlarmSettings, Watched
from toposcope.watch.alarms.content import ContentFault
from toposcope.watch.alarms.forecast_target import ForecastTarget
from toposcope.watch.alarms.growth import TensorGrowth
from toposcope.watch.alarms.matrix_or_head import MatrixOrHead
from toposcope.watch.alarms.not_finite import NotFinite
from toposcope.watch.alarms.of_rule import alarm_of
from toposcope.watch.alarms.persistence_plateau import PersistencePlateau
from toposcope.watch.alarms.phase_boundary import PhaseBoundary
from toposcope.watch.alarms.restart_fault import RestartFault
from toposcope.watch.alarms.sibling_band import SiblingBand
from toposcope.watch.alarms.training_state import TrainingStateFault
from toposcope.watch.alarms.update_level import UpdateLevel
from toposcope.watch.alarms.update_norm import UpdateNorm
from toposcope.watch.journal import Event

GROUP = "toposcope.alarms"
"""The entry-point group with which an installed package offers alarms: NAME = "module:Class"."""

ALARMS: tuple[type[Alarm], ...] = (
    NotFinite,
    ContentFault,
    TrainingStateFault,
    RestartFault,
    UpdateNorm,
    PhaseBoundary,
    UpdateLevel,
    TensorGrowth,
    MatrixOrHead,
    PersistencePlateau,
    SiblingBand,
    ForecastTarget,
)
"""The alarms on weights, other runs and forecasts, in the order in which they run after those on the log."""

EXTENSIBLE = Extensible(
    GROUP, Alarm, ALARMS, lambda alarm: alarm.test, "alarm {} exists already; give yours another name"
)
"""Every alarm of these by its name, with those that were added."""


def add_alarm(alarm: type[Alarm]) -> type[Alarm]:
    """Register an alarm for every run of this process; returns it, so it works as a class decorator.

    An installed package offers its alarms to every process by the entry points `toposcope.alarms`.

    Raises
    ------
    InputError
        When another alarm has its name.
    """
    _refuse_name_of_a_rule({alarm.test})
    added = EXTENSIBLE.add(alarm)
    reserve(alarm.test, alarm.share)
    return added


def alarms() -> tuple[type[Alarm], ...]:
    """Return every alarm: those of the rules that look back, the package's others, and those that were added.

    Raises
    ------
    InputError
        When two have one name.
    """
    others = EXTENSIBLE.by_name()
    _refuse_name_of_a_rule(others)
    return (*map(alarm_of, looking_back()), *others.values())


def _refuse_name_of_a_rule(names: Iterable[str]) -> None:
    of_rules = {rule.alarm_name() for rule in looking_back()}
    if doubled := sorted(of_rules.intersection(names)):
        raise InputError(EXTENSIBLE.doubled.format(repr(doubled[0])))


def family(rate: float = RATE, settings: AlarmSettings | None = None) -> AlarmFamily:
    """Return the tests that share a run's false-alarm rate, with their shares.

    >>> family().rate_of("loss spike")
    0.00625
    """
    settings = settings or AlarmSettings()
    wanted = [alarm for alarm in alarms() if alarm.share > 0 and alarm.wanted(settings)]
    return AlarmFamily(rate, {alarm.test: alarm.share for alarm in wanted})


def alarms_of_run(
    run: str,
    spent: AlarmFamily,
    settings: AlarmSettings | None = None,
    tests: Mapping[str, Sequence[Event]] | None = None,
) -> list[Alarm]:
    """Return the alarms of one run, each with its share of the rate and its earlier tests."""
    settings, tests = settings or AlarmSettings(), tests or {}
    return [
        alarm(
            Watched(
                run, Spending(spent.rate_of(alarm.test) if alarm.share > 0 else 0.0, alarm.rest), settings,
                tests.get(alarm.test, ()),
            )
        )
        for alarm in alarms()
        if alarm.wanted(settings)
    ]  # fmt: skip
