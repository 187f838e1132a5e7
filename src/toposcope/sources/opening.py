"""Open a series of checkpoints from any kind of address."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from toposcope.core.errors import SourceError
from toposcope.core.wording import option
from toposcope.files.blobs import open_location
from toposcope.files.labels import pattern_of_numbered, select
from toposcope.files.labels import step_pattern as steps_by
from toposcope.logs import history
from toposcope.logs.log import Log
from toposcope.sources.discover import Source, Unread, base_name, discover, refuse_foreign
from toposcope.sources.discover import rename as under_name
from toposcope.sources.matrices import SPLITS
from toposcope.sources.memory import in_memory, is_in_memory
from toposcope.sources.series import Series
from toposcope.sources.unseen import UnseenWeights

_MOST_NAMED = 8
"""A message names at most this many steps; if there are more, the first ones and the last."""


def open_series(
    uri: str | Path | Sequence[str | Path] | Mapping[Any, Any] | Any,
    *,
    revisions: str | Sequence[str] | None = None,
    steps: str | Sequence[int] | None = None,
    losses: str | Path | pd.DataFrame | None = None,
    split: str = "table",
    step_pattern: str | None = None,
    rename: Mapping[str, str] | None = None,
    pattern: str | None = None,
    logs: bool = True,
) -> Series:
    """Open a series of checkpoints.

    Parameters
    ----------
    uri
        A path or an fsspec address: a run, a folder of runs, a folder of steps, a model folder, one file;
        or several of these. Or the checkpoints themselves: `{step: state_dict}`, `{run: {step: state_dict}}`
        (numpy arrays or torch tensors) or modules instead of state dicts; they are not copied.
    revisions
        For series on the hub: the revisions to read, as a pattern (``"step*"``) or by name.
    steps
        Steps to read: "log", "first", "last", "A:B:EVERY", "0,1000" or numbers; all by default.
    losses
        A loss history to join to the series' own: a log as `toposcope.read_log` reads it, or a data frame.
        Without it, a run that has no losses gets those of the training log beside it; of several logs
        that agree, those of the fullest.
    split
        What to do with fused matrices: "table" (as the family's table says), "whole", "parts" or "heads".
    step_pattern
        A regular expression with one group that extracts the step from names of files, folders and revisions
        in an unknown form.
    rename
        New names of columns of `losses`: {"their name": "loss"}.
    pattern
        A regular expression for the lines of `losses` that are not recognised: see `read_log`.
    logs
        Whether to read training logs beside the checkpoints.

    Returns
    -------
    Series
        Its checkpoints, sorted by run and step.

    Raises
    ------
    SourceError
        When there is nothing to read at `uri`.

    Examples
    --------
    >>> import numpy as np
    >>> series = open_series({step: {"layers.0.attn.qkv.weight": np.eye(4) * step} for step in (1, 2)})
    >>> [(matrix.name, float(matrix.values[0, 0])) for at in series for matrix in series.matrices(at)]
    [('layers.0.attn.qkv.weight', 1.0), ('layers.0.attn.qkv.weight', 2.0)]
    """
    if split not in SPLITS:
        raise SourceError(
            "unknown", argument="split", value=split, remedy=f"choose one of {', '.join(SPLITS)}"
        )
    log = None if losses is None else history.log_of_losses(losses, rename or {}, pattern)
    table = None if log is None else log.table
    if is_in_memory(uri):
        given = in_memory(uri)
        held = [_select(source, steps) for source in given]
        _check_some(given, held, steps)
        return Series("memory", _with_log(held, log), split=split, losses=table)
    uris = _addresses(uri)
    sources: list[Source] = []
    unread: list[Unread] = []
    beside = UnseenWeights()
    for place in uris:
        with steps_by(step_pattern):
            opened_sources = _sources(str(place), revisions, unread, beside, logs=logs and losses is None)
        for source in opened_sources:
            taken = {other.run.run for other in sources}
            name, number = source.run.run, 2
            while name in taken:
                name, number = f"{source.run.run}-{number}", number + 1
            sources.append(source if name == source.run.run else under_name(source, name))
    chosen = [_select(source, steps) for source in sources]
    _check_some(sources, chosen, steps)
    return Series(
        ", ".join(str(place) for place in uris), _with_log(chosen, log), split=split, losses=table,
        unread=unread, beside=beside,
    )  # fmt: skip


def _addresses(uri: object) -> list[str | Path]:
    """Return one or several addresses as a list; anything else is refused."""
    several = [uri] if isinstance(uri, str | Path) else uri
    if isinstance(several, list | tuple) and several and all(isinstance(at, str | Path) for at in several):
        return list(several)
    shown = repr(uri) if uri is None or isinstance(uri, int | float | bytes) else f"this {type(uri).__name__}"
    raise SourceError(
        f"{shown} is no series of checkpoints",
        remedy="give a path, a list of paths, {step: state_dict} or a module",
    )


def hint(series: Series) -> str:
    """Return how to read folders as the steps of one run, if they may be steps; otherwise "".

    A numbered folder, such as gpt-2, is a model and not a step. But several numbered folders, each with one
    checkpoint that states no step, may be steps.
    """
    entries = [entries for name in series.names if len(entries := series.of_run(name)) == 1]
    names = [base_name(only.uri) for (only,) in entries if only.step == 0]
    pattern = pattern_of_numbered(names)
    if not pattern or len(names) != len(series.names):
        return ""
    named = ", ".join(names[:3]) + " ..." * (len(names) > 3)
    return (
        f"{named} are read as {len(names):,} runs of one checkpoint, each at step 0; "
        f"if they are steps of one run, add {option('step_pattern')} {shlex.quote(pattern)}"
    )


def logs_said(series: Series) -> str:
    """Return the logs beside the checkpoints that the losses come from; empty for none."""
    logs = list(series.logs().values())
    if not logs:
        return ""
    where = (
        logs[0]
        if len(logs) == 1
        else f"the logs of {len(logs):,} runs beside their checkpoints ({logs[0]}, ...)"
    )
    return f"losses from {where}; {option('losses', 'FILE')} names another log"


def logs_to_choose(series: Series) -> str:
    """Return which logs beside the checkpoints disagree, and how to choose one; empty for none."""
    if not (choice := choice_of_logs(series)):
        return ""
    return f"no losses of {next(iter(series.log_questions()))}: {choice}"


def choice_of_logs(series: Series) -> str:
    """Return how the logs of the first run that has several disagree, and how to choose; empty for none."""
    choice = next(iter(series.log_questions().values()), None)
    if choice is None:
        return ""
    if len(series.names) > 1:
        return f"{choice.question()}; keep one of them in its folder"
    return f"{choice.question()}; choose one: {option('losses', choice.candidates[0])}"


def _with_log(sources: Sequence[Source], log: Log | None) -> list[Source]:
    """Return runs with the rows that a restart replaced in the log that was given for them."""
    if log is None:
        return list(sources)
    return [
        dataclasses.replace(source, replaced=partial(history.replaced_rows, log, source.run.run))
        for source in sources
    ]


def _sources(
    uri: str,
    revisions: str | Sequence[str] | None,
    unread: list[Unread],
    beside: UnseenWeights,
    *,
    logs: bool,
) -> list[Source]:
    if uri.startswith("hf://"):
        from toposcope.sources.hub import discover_hub

        return discover_hub(uri, revisions)
    sources = discover(open_location(uri), unread, logs=logs, beside=beside)
    refuse_foreign(sources[0])
    return sources


def _check_some(
    sources: Sequence[Source], chosen: Sequence[Source], steps: str | Sequence[int] | None
) -> None:
    """Refuse a choice of steps that selects nothing, and say which steps exist."""
    if not any(source.entries for source in sources) or any(source.entries for source in chosen):
        return
    first = next(source for source in sources if source.entries)
    have = sorted({entry.checkpoint.step for entry in first.entries})
    named = ", ".join(map(str, have if len(have) <= _MOST_NAMED else have[: _MOST_NAMED - 2]))
    named += f" ... {have[-1]}" if len(have) > _MOST_NAMED else ""
    raise SourceError(
        "no checkpoint has such a step",
        argument="steps",
        value=steps,
        remedy=f"the {len(have):,} of run {first.run.run} are at {named}",
    )


def _select(source: Source, steps: str | Sequence[int] | None) -> Source:
    if steps is None:
        return source
    chosen = select((entry.checkpoint.step for entry in source.entries), steps)
    return dataclasses.replace(
        source, entries=tuple(entry for entry in source.entries if entry.checkpoint.step in chosen)
    )
