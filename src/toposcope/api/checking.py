"""`check`, with what the store of a watch or of measurements adds to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from toposcope.runs.checking import check as check_runs

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.runs.contents import StoreFacts
    from toposcope.store import Store

_Options = ParamSpec("_Options")
_Answer = TypeVar("_Answer")


def of_store(store: Store) -> StoreFacts:
    """Return what a check takes from a store beside its losses."""
    from toposcope.runs.contents import StoreFacts
    from toposcope.study.odd_measured import changed_of_store
    from toposcope.watch.coverage import without_losses
    from toposcope.watch.replay import replays_of

    return StoreFacts(
        changed_of_store(store), without_losses(store), replays_of(store.path), partial(_measured, store)
    )


def _measured(store: Store) -> Mapping[str, Mapping[str, Mapping[str, pd.Series]]]:
    """Return the primary features of each subject of a store, as its analysis compares them."""
    from toposcope.core.errors import InputError
    from toposcope.study.odd_measured import measured_curves
    from toposcope.study.studies import StudyRequest, studies_of

    try:
        _, wholes = studies_of(store, StudyRequest((), (), None, {}))
    except InputError:  # a store of losses alone, such as that of a watch that has just begun
        return {}
    return {
        labelled.subject.name: measured_curves(labelled.series, labelled.labels.primary())
        for labelled in wholes
    }


def _with_store(function: Callable[_Options, _Answer]) -> Callable[_Options, _Answer]:
    """Return a check that also reads the measurements and the watch of a store, which are above `runs`."""
    return wraps(function)(partial(function, of_store=of_store))  # type: ignore[arg-type]


check = _with_store(check_runs)
