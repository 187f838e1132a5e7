"""How the false-alarm rate of a run is divided among its alarms, those on its log and those on its weights.

A log is replayed at the levels of a watch. A watch divides one rate among all of its alarms, so the shares of
those on weights are reserved here, where a log alone is judged, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points

from toposcope.core.errors import InputError
from toposcope.rules.registry import looking_back
from toposcope.statistics.alarms.spending import RATE, AlarmFamily

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
        try:
            alarm = point.load()
        except Exception as error:  # a package's own module may raise anything while it is imported
            raise InputError(
                f"{ALARMS}: {point.value} cannot be imported ({type(error).__name__}: {error})",
                remedy="correct the package, or uninstall it",
            ) from error
        if getattr(alarm, "share", 0) > 0:
            shares[str(alarm.test)] = float(alarm.share)
    return shares
