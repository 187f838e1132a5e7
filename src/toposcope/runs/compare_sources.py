"""The inputs of a comparison: the seeds of a source, or the checkpoints of one run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from toposcope.core import WEIGHT_FILES
from toposcope.core.errors import InputError, SourceError
from toposcope.logs.facts import Stated, stated
from toposcope.logs.inputs import STANDARD_INPUT, is_stdin
from toposcope.logs.naming import names_of_paths, refuse_same_names
from toposcope.logs.run import Run
from toposcope.runs.contents import said_of
from toposcope.runs.seeds import Recipe, SeedRun
from toposcope.runs.sources import read_contents

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.runs.contents import Contents
    from toposcope.runs.reading import Reading
    from toposcope.sources import Series
    from toposcope.store import Store

    Side: TypeAlias = (
        str | Path | Series | Store | pd.DataFrame | Sequence[str | Path | pd.DataFrame] | Mapping[Any, Any]
    )

LOSSES = ("loss", "heldout_loss")
"""The losses that are compared if none is named: the first one that every run has."""


_COUNTED = "step from 'record'"
"""The note of a log reader that counted records because the log states no step."""


class Seeds(NamedTuple):
    """The logs of one side, its name, and the parts that could not be read.

    `counted` is true if a log states no step, so that its records were counted.
    """

    name: str
    runs: tuple[Run, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    counted: bool = False

    def recipe(self, column: str) -> Recipe:
        """Return the runs by the losses of one column."""
        return Recipe(self.name, tuple(_run(run, column) for run in self.runs))

    def has(self, column: str) -> bool:
        """Return whether every run has a finite value of a column."""
        return all(
            column in run.table and np.isfinite(run.table[column].to_numpy(float, na_value=np.nan)).any()
            for run in self.runs
        )


def names_of(sides: Sequence[Side]) -> list[str]:
    """Return short names of sources: the last parts of their paths that differ.

    >>> names_of(["runs/base", "runs/wide"]), names_of(["a/train.log", "b/train.log"])
    (['base', 'wide'], ['a', 'b'])
    >>> names_of([["a.log", "b.log"], {}]), names_of(["a.log", "a.log"])
    (['first', 'second'], ['first', 'second'])
    """
    from toposcope.sources import Series
    from toposcope.store import Store

    plain = ("first", "second", *(f"siblings {i}" for i in range(1, len(sides))))
    paths = []
    for side in sides:
        place = side.uri if isinstance(side, Series) else side.path if isinstance(side, Store) else side
        parts = Path(os.path.realpath(place)).parts if isinstance(place, str | Path) else ()
        paths.append((STANDARD_INPUT,) if is_stdin(place) else parts)
    given = [str(Path(*parts)) for parts in paths if parts]
    if len(paths) > 1 and paths[0] == paths[1]:
        return list(plain[: len(paths)])
    short = names_of_paths(given)
    return [short[str(Path(*parts))] if parts else other for parts, other in zip(paths, plain, strict=False)]


def series_at(side: Side, *, split: str, step_pattern: str | None) -> Series | SourceError | None:
    """Return the checkpoints of a source; None if it has only logs, the error if none can be read."""
    import pandas as pd

    from toposcope.sources import Series, open_series
    from toposcope.store import Store

    if isinstance(side, Series):
        return side
    if isinstance(side, Store | pd.DataFrame):
        return None
    if isinstance(side, str | Path):
        place = Path(side)
        logged = is_stdin(side) or (place.is_file() and place.suffix.lower() not in WEIGHT_FILES)
        if logged or (place / "store.json").is_file():
            return None
    elif isinstance(side, list | tuple) and all(_is_log(path) for path in side):
        return None
    try:
        return open_series(side, split=split, step_pattern=step_pattern)  # type: ignore[arg-type]
    except SourceError as error:
        if isinstance(side, str | Path) and Path(side).is_dir() and not _has_weights(Path(side)):
            return error
        raise


def _has_weights(folder: Path) -> bool:
    return any(path.suffix.lower() in WEIGHT_FILES for path in folder.iterdir())


def _is_log(place: object) -> bool:
    if not isinstance(place, str | Path):
        return True
    path = Path(place)
    return path.is_file() and path.suffix.lower() not in WEIGHT_FILES


def seeds_at(side: Side, name: str, reading: Reading) -> Seeds:
    """Return the runs of a source that have losses.

    Raises
    ------
    InputError
        When there is no log.
    """
    import pandas as pd

    from toposcope.sources import Series
    from toposcope.store import Store

    if isinstance(side, Series):
        return _of_series(side, name)
    if isinstance(side, Mapping):
        remedy = "give logs for both, or weights for both"
        raise InputError(f"{name}: weights in memory have no log", remedy=remedy)
    several: Sequence[Any] = [side] if isinstance(side, str | Path | Store | pd.DataFrame) else side
    all_contents: list[Contents] = []
    problems: list[str] = []
    labels = names_of_paths(
        [str(source) for source in several if isinstance(source, str | Path)], stems=False
    )
    for number, seed_place in enumerate(several):
        source = (
            seed_place
            if isinstance(seed_place, pd.DataFrame)
            else str(seed_place.path if isinstance(seed_place, Store) else seed_place)
        )
        label = (
            name
            if len(several) == 1
            else labels.get(source, f"{number}")
            if isinstance(source, str)
            else f"{number}"
        )
        try:
            all_contents += read_contents(source, label, reading, audited=False)
        except InputError as error:
            if len(several) == 1:
                raise
            problems.append(said_of(label, error))
    placed = [(run, place.log.path) for place in all_contents for run in _runs(place, name)]
    refuse_same_names((run.name, path) for run, path in placed)
    runs = [run for run, _ in placed]
    problems += [problem for place in all_contents for problem in place.problems]
    questions = [
        f"{seed_place.name}: {seed_place.question}; give one of them instead of the folder"
        for seed_place in all_contents
        if seed_place.question
    ]
    if questions and not runs:
        raise InputError(questions[0])
    problems += questions
    if not runs:
        raise InputError(f"{name}: no run has a logged loss", remedy="give a log, or a folder of logs")
    left_out = [place for seed_place in all_contents for place in seed_place.no_logs]
    notes = [f"left out because they are not logs: {', '.join(left_out)}"] if left_out else []
    notes += [f"{place.name}: {note}" for place in all_contents for note in place.repaired]
    counted = any(_COUNTED in place.said for place in all_contents)
    return Seeds(name, tuple(runs), tuple(problems), tuple(notes), counted)


def _runs(place: Contents, side: str) -> list[Run]:
    """Return the runs of a log; each is called by its file in the folder, and by its name if it has one."""
    runs = [run for run in place.log.runs if len(run.table)]
    short = place.name.removeprefix(f"{side}/")
    named = []
    for run in runs:
        name = short if len(runs) == 1 else run.name if short == side else f"{short}: {run.name}"
        named.append(replace(run, name=name))
    return named


def _of_series(series: Series, name: str) -> Seeds:
    from toposcope.runs.reading import log_of_series

    return Seeds(name, tuple(run for run in log_of_series(series).runs if len(run.table)), (), ())


def _run(run: Run, column: str) -> SeedRun:
    """Return a run's finite losses by step, and the steps at which they are not."""
    import pandas as pd

    from toposcope.logs.plans import planned_end

    facts = Stated(run.name, stated({"config": run.config}), float(run.parameters))
    rows = run.table
    if column not in rows or not len(rows):
        return SeedRun(facts, pd.Series(dtype=float))
    rows = rows[rows["step"].notna()].drop_duplicates("step", keep="last").sort_values("step")
    losses = pd.Series(rows[column].to_numpy(float, na_value=np.nan), rows["step"].to_numpy(float))
    finite = losses[np.isfinite(losses)]
    planned = planned_end(run.config, rows) if len(rows) else None
    return SeedRun(facts, finite, planned, _broken(rows, losses, column))


def _broken(rows: pd.DataFrame, losses: pd.Series, column: str) -> tuple[float, ...]:
    """Return the steps of rows that log training and whose loss is not finite."""
    from toposcope.rules.judged_run import trained

    bad = ~np.isfinite(losses.to_numpy()) & np.asarray(trained(rows, column))
    return tuple(float(step) for step in losses.index[bad])
