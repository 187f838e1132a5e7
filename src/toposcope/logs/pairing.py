"""Which log belongs to which run of checkpoints: one rule for every command that reads both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from toposcope.core.forms import listed
from toposcope.logs._agreement import LEAST, disagreement, fullest, losses_in

_MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class LogOfRun:
    """The log of a run, other logs of it that agree, or logs that disagree so that none can be taken.

    `log` is the name of the log, "" if none is taken. `agreeing` are the others that say the same, `short`
    those with too few losses to be its log. If none is
    taken, `candidates` are the logs among which to choose, and `difference` says how they differ.
    """

    log: str = ""
    agreeing: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    difference: str = ""

    def question(self, named: Callable[[str], str] = str) -> str:
        """Return the logs among which to choose and how they differ; empty if there is nothing to choose."""
        if not self.candidates:
            return ""
        names = listed([named(log) for log in self.candidates], most=_MOST_NAMED)
        count = f"{len(self.candidates):,} logs lie with its checkpoints"
        return f"{count} and do not agree: {names} ({self.difference})"


def logs_of_runs(
    runs: Mapping[str, Path],
    logs: Mapping[str, Path],
    rows: Callable[[str], pd.DataFrame],
    chosen: Sequence[str] = (),
) -> dict[str, LogOfRun]:
    """Return the log of each run that has one or several.

    A log is a run's if it lies beside its checkpoints or has its name; a single run has every log of the
    folder. A log that would fit two runs belongs to neither. Of several logs that agree
    (`agreement.disagreement`), the fullest is taken; of those that disagree, none, unless one is `chosen`.

    Parameters
    ----------
    runs
        The folders of the checkpoints, below the common folder.
    logs
        The logs of single runs by name, below the same folder.
    rows
        Returns the rows of a log by its name.
    chosen
        Logs that the reader has named.

    Examples
    --------
    >>> losses = pd.DataFrame({"step": [1, 2, 3], "loss": [2.3, 2.2, 2.1]})
    >>> alike = logs_of_runs({"a": Path()}, {"x": Path("x.log"), "y": Path("y.csv")}, lambda log: losses)
    >>> alike["a"].log, alike["a"].agreeing
    ('x', ('y',))
    >>> places = {"x": Path("a/train.log"), "y": Path("logs/b.log")}
    >>> found = logs_of_runs({"a": Path("a"), "b": Path("b")}, places, lambda log: losses)
    >>> found["a"].log, found["b"].log
    ('x', 'y')
    """
    if len(runs) == 1:
        near = {run: list(logs) for run in runs}
    else:
        near = {
            run: [name for name, log in logs.items() if _lies_with(log, folder) or log.stem == run]
            for run, folder in runs.items()
        }
    claims = Counter(name for names in near.values() for name in names)
    unshared = {run: [name for name in names if claims[name] == 1] for run, names in near.items()}
    return {run: _log_of(names, rows, chosen) for run, names in unshared.items() if names}


def agreeing(names: Sequence[str]) -> list[str]:
    """Return a note on logs that say the same as the one that is read; none where there are none.

    >>> agreeing(["metrics.csv"])
    ['the same losses are in metrics.csv']
    """
    if not names:
        return []
    return [f"the same losses are in {listed(names, most=_MOST_NAMED)}"]


def _log_of(names: Sequence[str], rows: Callable[[str], pd.DataFrame], chosen: Sequence[str]) -> LogOfRun:
    """Return the log among those of a run."""
    named = [name for name in names if name in chosen]
    if len(named) == 1:
        return LogOfRun(named[0], short=tuple(name for name in names if name != named[0]))
    if len(names) == 1:
        return LogOfRun(names[0])
    tables = [rows(name) for name in names]
    enough = [place for place, table in enumerate(tables) if losses_in(table) >= LEAST]
    if enough and len(enough) < len(names):  # a summary, such as all_results.json, is no log beside one
        short = tuple(name for place, name in enumerate(names) if place not in enough)
        return replace(_log_of([names[place] for place in enough], rows, chosen), short=short)
    best = fullest(tables)
    for place, table in enumerate(tables):
        if place != best and (difference := disagreement(tables[best], table)):
            pair = [names[best], names[place]]
            others = [name for name in names if name not in pair]
            return LogOfRun(candidates=(*pair, *others), difference=difference)
    return LogOfRun(names[best], tuple(name for name in names if name != names[best]))


def _lies_with(log: Path, folder: Path) -> bool:
    """Return whether a log lies in a checkpoint folder, below it, or above it below the common folder.

    >>> _lies_with(Path("a/train.log"), Path("a/checkpoints")), _lies_with(Path("train.log"), Path("a"))
    (True, False)
    """
    around = log.parent
    return around != Path() and (around.is_relative_to(folder) or folder.is_relative_to(around))
