"""Open a series of checkpoints from whatever address it has."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from toposcope.errors import SourceError
from toposcope.sources import history
from toposcope.sources.blobs import open_location
from toposcope.sources.discover import Source, discover
from toposcope.sources.discover import rename as under_name
from toposcope.sources.labels import select
from toposcope.sources.labels import step_pattern as steps_by
from toposcope.sources.matrices import SPLITS
from toposcope.sources.series import Series


def open_series(
    uri: str | Path | Sequence[str | Path],
    *,
    revisions: str | Sequence[str] | None = None,
    steps: str | Sequence[int] | None = None,
    losses: str | Path | None = None,
    split: str = "table",
    step_pattern: str | None = None,
    rename: Mapping[str, str] | None = None,
) -> Series:
    """Open a series of checkpoints.

    Parameters
    ----------
    uri
        A path or an fsspec address: a run, a folder of runs, a folder of steps, a model folder, one file;
        or several of these.
    revisions
        For hub series: which revisions, as a pattern (``"step*"``) or by name.
    steps
        Which steps: "log", "first", "last", "A:B:EVERY", "0,1000" or numbers; all by default.
    losses
        A file with a loss history (CSV, JSONL, parquet or TensorBoard events) to join to the series' own.
    split
        What to do with fused matrices: "table" (as the family's table says), "whole", "parts" or "heads".
    step_pattern
        A regular expression with one group that finds the step in the names of files, folders and
        revisions, where they do not state it in a known way.
    rename
        Columns of `losses` under other names: {"their name": "loss"}.

    Returns
    -------
    Series
        Its checkpoints, sorted by run and step.

    Raises
    ------
    SourceError
        When there is nothing to read at `uri`.
    """
    if split not in SPLITS:
        raise SourceError(f"split={split!r} is unknown; choose one of {', '.join(SPLITS)}")
    uris = [uri] if isinstance(uri, str | Path) else list(uri)
    sources: list[Source] = []
    for one in uris:
        with steps_by(step_pattern):
            found = _sources(str(one), revisions)
        for source in found:
            taken = {other.run.run for other in sources}
            name, number = source.run.run, 2
            while name in taken:
                name, number = f"{source.run.run}-{number}", number + 1
            sources.append(source if name == source.run.run else under_name(source, name))
    kept = [_select(source, steps) for source in sources]
    table = history.read_losses(str(losses), rename or {}) if losses is not None else None
    return Series(", ".join(str(one) for one in uris), kept, split=split, losses=table)


def _sources(uri: str, revisions: str | Sequence[str] | None) -> list[Source]:
    if uri.startswith("hf://"):
        from toposcope.sources.hub import discover_hub

        return discover_hub(uri, revisions)
    return discover(open_location(uri))


def _select(source: Source, steps: str | Sequence[int] | None) -> Source:
    if steps is None:
        return source
    kept = select((entry.checkpoint.step for entry in source.entries), steps)
    return dataclasses.replace(
        source, entries=tuple(entry for entry in source.entries if entry.checkpoint.step in kept)
    )
