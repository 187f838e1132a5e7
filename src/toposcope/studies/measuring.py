"""Measures for a study: runs its probes into a store, kept or temporary."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.core.errors import InputError
from toposcope.store import Store
from toposcope.sweep import Execution, SweepReport, sweep

if TYPE_CHECKING:
    from toposcope.sources import Series
    from toposcope.subjects import Probe


@contextmanager
def measured(
    series: Series,
    probes: Sequence[Probe],
    folder: Path | None,
    *,
    recipe: Mapping[str, object],
    jobs: int = 1,
    quiet: bool = False,
) -> Iterator[Store]:
    """Yield the store of a study: in `folder`, where a stopped study resumes, or in a temporary folder.

    Raises
    ------
    InputError
        When a checkpoint could not be measured; the others are in the store.
    """
    with tempfile.TemporaryDirectory() as scratch:
        store = Store.create(folder or Path(scratch) / "store", recipe=recipe)
        execution = Execution(jobs=jobs, audit=False, quiet=quiet)
        refuse_failures(sweep(series, probes, store, execution=execution))
        yield store


def refuse_failures(report: SweepReport) -> None:
    """Raise an error for failed measurements, because a study with gaps would mislead.

    Raises
    ------
    InputError
        With the first failure.
    """
    if report.failures:
        first = report.failures[0]
        raise InputError(
            f"{len(report.failures):,} measurements failed, the first: run {first.run} step {first.step:,}: "
            f"{first.note}; repeat the command to try them again"
        )
