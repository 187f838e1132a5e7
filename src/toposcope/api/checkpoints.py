"""Checkpoints looked at as they are: opened, audited, compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from toposcope.api.results import Audit, Comparison
from toposcope.core.errors import InputError

if TYPE_CHECKING:
    from toposcope.core.types import Checkpoint
    from toposcope.sources import Series
    from toposcope.sources.belonging import Group

    Where: TypeAlias = str | Path | Series | Sequence[str | Path] | Mapping[Any, Any]


def opened(
    series: Where, *, split: str = "table", step_pattern: str | None = None, steps: str | None = None
) -> Series:
    """Return the series, opened where it is none yet.

    Raises
    ------
    InputError
        When it cannot be opened, or steps are chosen of one that is open.
    """
    from toposcope.sources import Series, open_series

    if isinstance(series, Series):
        if steps is not None:
            raise InputError(f"steps {steps!r}: the series is open already; give steps to open_series")
        return series
    return open_series(series, steps=steps, split=split, step_pattern=step_pattern)


def audit(series: Where, *, cheap: bool = False, quiet: bool = True) -> Audit:
    """Look for errors in a series of checkpoints: identical, damaged, swapped or misplaced ones.

    Parameters
    ----------
    series
        A `Series`, or anything that `open_series` opens.
    cheap
        Read only the headers and a sample of each tensor.
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
    2 checkpoints of 1 run: 1 finding; the first:
    memory step 10: non-finite: holds NaN or infinite values
    """
    from toposcope.sources import audit as look

    given = opened(series)
    found = look(given, cheap=cheap, quiet=quiet)
    groups = _groups(given) if len(given.names) > 1 else ()
    return Audit({run: tuple(steps) for run, steps in given.steps.items()}, tuple(found), groups)


def _groups(series: Series) -> tuple[Group, ...]:
    """Return the groups of runs that do not belong together; empty where all do."""
    import dataclasses

    import pandas as pd

    from toposcope.core.errors import SourceError
    from toposcope.sources.belonging import groups_of

    losses = []
    for run in series.names:
        try:
            losses.append(series.metrics(run)[["run", "step", "loss"]])
        except SourceError:  # a finding says so
            continue
    filled = [table for table in losses if len(table)]
    runs = pd.DataFrame([dataclasses.asdict(run) for run in series.runs])
    groups = groups_of(runs, pd.concat(filled, ignore_index=True) if filled else None)
    return groups if len(groups) > 1 else ()


def compare(
    first: Where,
    second: Where,
    *,
    step: int | None = None,
    preset: str = "default",
    points: int | None = None,
    draws: int | None = None,
    step_pattern: str | None = None,
) -> Comparison:
    """Compare the weights of two checkpoints, layer by layer: the second minus the first.

    Parameters
    ----------
    first, second
        Each is a checkpoint, or a series with one run.
    step
        The step at which to compare; by default the last step of each.
    preset
        The settings of the weights' probes: "default", or "seed004".
    points, draws
        Rows of a subsampled cloud, and the number of random subsamples.
    step_pattern
        As for `open_series`: extracts the step from file names.

    Returns
    -------
    Comparison
        Its `table` has a row for each matrix and feature, with the difference and its standard error over
        the draws.

    Raises
    ------
    InputError
        When one of them has several runs or does not have the step.

    Examples
    --------
    >>> import numpy as np
    >>> base, tuned = ({0: {"fc.weight": np.vander(range(1, 5)) * scale}} for scale in (1.0, 2.0))
    >>> compare(base, tuned).headline
    '1 of 1 matrices differ beyond twice the noise of the draws: fc'
    """
    from toposcope.papers.weight_presets import preset as preset_options
    from toposcope.sweep.compare import compare as both

    options = preset_options(preset, points=points, draws=draws)
    sides = [
        _checkpoint(opened(side, split=options.split, step_pattern=step_pattern), step)
        for side in (first, second)
    ]
    labels = [f"{checkpoint.run} step {checkpoint.step}" for _, checkpoint in sides]
    return Comparison(labels[0], labels[1], both(*sides, options=options))


def _checkpoint(series: Series, step: int | None) -> tuple[Series, Checkpoint]:
    uri, checkpoints = series.uri, list(series)
    runs = sorted({checkpoint.run for checkpoint in checkpoints})
    if len(runs) > 1:
        raise InputError(f"{uri} contains {len(runs)} runs ({', '.join(runs[:5])}); name one of them")
    if step is None:
        return series, checkpoints[-1]
    found = [checkpoint for checkpoint in checkpoints if checkpoint.step == step]
    if not found:
        raise InputError(
            f"{uri} has the steps {checkpoints[0].step} to {checkpoints[-1].step}",
            argument="step",
            value=step,
            remedy="give one of them",
        )
    return series, found[0]
