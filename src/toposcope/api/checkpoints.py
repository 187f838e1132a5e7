"""Checkpoints as they are: opened, audited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from toposcope.api.audited import Audit
from toposcope.core.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.logs.belonging import Group
    from toposcope.runs.odd import Odd
    from toposcope.sources import Series
    from toposcope.sources.adapter_state import AdapterState

    Where: TypeAlias = str | Path | Series | Sequence[str | Path] | Mapping[Any, Any]


def opened(
    series: Where, *, split: str = "table", step_pattern: str | None = None, steps: str | None = None
) -> Series:
    """Return the series, and open it if it is not open yet.

    Raises
    ------
    InputError
        When it cannot be opened, or steps are given for a series that is open already.
    """
    from toposcope.sources import Series, open_series

    if isinstance(series, Series):
        if steps is not None:
            raise InputError(
                "the series is open already",
                argument="steps",
                value=steps,
                remedy="give them to toposcope.open_series",
            )
        return series
    return open_series(series, steps=steps, split=split, step_pattern=step_pattern)


def audit(series: Where, *, cheap: bool = False, newest: bool = False, quiet: bool = True) -> Audit:
    """Look for errors in a series of checkpoints: identical, damaged, swapped or misplaced ones.

    Parameters
    ----------
    series
        A `Series`, or anything that `open_series` opens.
    cheap
        Read only the headers and a sample of each tensor.
    newest
        Judge only the newest checkpoint of each run, against the one before it.
    quiet
        Show no progress.

    Returns
    -------
    Audit
        Its `findings` by run, step and fault, and a picture of where they are.

    Raises
    ------
    InputError
        When the series cannot be opened.

    Examples
    --------
    >>> import numpy as np
    >>> weights = {0: {"fc.weight": np.eye(3)}, 10: {"fc.weight": np.full((3, 3), np.nan)}}
    >>> print(audit(weights))
    1 finding in 2 checkpoints of 1 run: non-finite (memory step 10)
    checked 1 of 1 tensors, 0 skipped
    memory step 10: non-finite: fc.weight holds NaN or infinite values; go back to step 0
    """
    from toposcope.sources.audit import audited

    given = opened(series)
    answer = audited(given, cheap=cheap, newest=newest, quiet=quiet)
    if newest:
        last = {run: (steps[-1],) for run, steps in given.steps.items()}
        return Audit(last, tuple(answer.findings), coverage=answer.coverage, resume=answer.resume)
    losses = _losses(given) if len(given.names) > 1 else []
    groups = _groups(given, losses) if len(given.names) > 1 else ()
    steps = {run: tuple(steps) for run, steps in given.steps.items()}
    odd = _odd(given, losses)
    return Audit(
        steps, tuple(answer.findings), groups, tuple(_adapters(given)), odd, answer.coverage, answer.resume
    )


def _adapters(series: Series) -> Iterator[AdapterState]:
    """Yield the last state of each run whose weights are an adapter's."""
    from toposcope.core.errors import SourceError
    from toposcope.sources.adapter_state import adapter_state

    for run in series.names:
        try:
            state = adapter_state(series, series.of_run(run)[-1])
        except SourceError:  # a finding says so
            continue
        if state is not None:
            yield state


def _groups(series: Series, losses: Sequence[pd.DataFrame]) -> tuple[Group, ...]:
    """Return the groups of runs that do not belong together; empty where all do."""
    import pandas as pd

    from toposcope.logs.belonging import groups_of

    filled = [table[["run", "step", "loss"]] for table in losses]
    groups = groups_of(_listed(series), pd.concat(filled, ignore_index=True) if filled else None)
    return groups if len(groups) > 1 else ()


def _odd(series: Series, losses: Sequence[pd.DataFrame]) -> tuple[Odd, ...]:
    """Return the runs that differ from their siblings, by losses or by unchanged weights."""
    from toposcope.statistics.odd import FEWEST

    if len(series.names) <= FEWEST:
        return ()
    from functools import partial

    import pandas as pd

    from toposcope.runs.odd_members import odd_of_tables
    from toposcope.sources.unchanged import changed_matrices

    metrics = pd.concat(losses, ignore_index=True) if losses else pd.DataFrame(columns=["run", "step"])
    return odd_of_tables(metrics, _listed(series), partial(changed_matrices, series)).found


def _losses(series: Series) -> list[pd.DataFrame]:
    """Return the loss histories that are not empty."""
    from toposcope.core.errors import SourceError

    tables = []
    for run in series.names:
        try:
            tables.append(series.metrics(run))
        except SourceError:  # a finding says so
            continue
    return [table for table in tables if len(table)]


def _listed(series: Series) -> pd.DataFrame:
    """Return what is known of each run, a row each."""
    import dataclasses

    import pandas as pd

    return pd.DataFrame([dataclasses.asdict(run) for run in series.runs])
