"""Checkpoints looked at as they are: opened, audited, compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.api.results import Audit, Comparison
from toposcope.errors import InputError

if TYPE_CHECKING:
    from toposcope.sources import Series
    from toposcope.types import Checkpoint

    Where = str | Path | Series | Sequence[str | Path]


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
    uris = [str(series)] if isinstance(series, str | Path) else [str(uri) for uri in series]
    return open_series(uris, steps=steps, split=split, step_pattern=step_pattern)


def audit(series: Where, *, cheap: bool = False, quiet: bool = True) -> Audit:
    """Look for errors in a series of checkpoints: identical, damaged, swapped or misplaced ones.

    Parameters
    ----------
    series
        A `Series`, or anything that `open_series` opens.
    cheap
        Read headers and a sample of each tensor only.

    Raises
    ------
    InputError
        When the series cannot be opened.

    Examples
    --------
    >>> import toposcope as ts
    >>> ts.audit("runs/")                                          # doctest: +SKIP
    51 checkpoints of 3 runs: nothing found
    """
    from toposcope.sources import audit as look

    given = opened(series)
    found = look(given, cheap=cheap, quiet=quiet)
    return Audit(len(given), len(given.runs), tuple(found))


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
        A checkpoint, or a series with one run, each.
    step
        Compare at this step; by default at the last of each.
    points, draws
        Rows of a subsampled cloud, and replicates of the subsample.
    step_pattern
        How file names state the step, as `open_series` takes it.

    Raises
    ------
    InputError
        When one of them holds several runs or lacks the step.

    Examples
    --------
    >>> import toposcope as ts
    >>> ts.compare("base/", "tuned/").table                        # doctest: +SKIP
    """
    from toposcope.papers.weight_presets import preset as preset_options
    from toposcope.sweep.compare import compare as both

    options = preset_options(preset, points=points, draws=draws)
    sides = [
        _checkpoint(opened(side, split=options.split, step_pattern=step_pattern), str(side), step)
        for side in (first, second)
    ]
    labels = [f"{checkpoint.run} step {checkpoint.step}" for _, checkpoint in sides]
    return Comparison(labels[0], labels[1], both(*sides, options=options))


def _checkpoint(series: Series, uri: str, step: int | None) -> tuple[Series, Checkpoint]:
    checkpoints = list(series)
    runs = sorted({checkpoint.run for checkpoint in checkpoints})
    if len(runs) > 1:
        raise InputError(f"{uri} holds {len(runs)} runs ({', '.join(runs[:5])}); name one of them")
    if step is None:
        return series, checkpoints[-1]
    found = [checkpoint for checkpoint in checkpoints if checkpoint.step == step]
    if not found:
        raise InputError(
            f"--step {step}: {uri} has the steps {checkpoints[0].step} to {checkpoints[-1].step}"
        )
    return series, found[0]
