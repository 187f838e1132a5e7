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
_WITH = "with its checkpoints"
_ABOVE = "above its checkpoints"
_ELSEWHERE = "in other folders than its checkpoints"
_FROM_NEAR = (_WITH, _ABOVE, _ELSEWHERE)


@dataclass(frozen=True, slots=True)
class LogOfRun:
    """The log of a run, other logs of it that agree, or logs that disagree so that none can be taken.

    `log` is the name of the log, "" if none is taken. `agreeing` are the others that say the same, `short`
    those with too few losses to be its log, and `passed` those that the reader has not chosen. If none is
    taken, `candidates` are the logs among which to choose, `difference` says how they differ, and `lie`
    where they lie.
    """

    log: str = ""
    agreeing: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    difference: str = ""
    lie: str = _WITH

    @property
    def its(self) -> tuple[str, ...]:
        """Every log that is this run's, or may be: none of them is a run of its own."""
        in_question = self.candidates if self.lie != _ELSEWHERE else ()
        return (*([self.log] if self.log else []), *self.agreeing, *self.short, *self.passed, *in_question)

    def notes(self, named: Callable[[str], str] = str) -> list[str]:
        """Return what other logs of the run there are and why they are not read.

        >>> LogOfRun("a.log", short=("all_results.json",)).notes()
        ['left out because it has fewer than 3 losses: all_results.json']
        """
        few = "it has" if len(self.short) == 1 else "they have"
        reasons = {
            f"left out because {few} fewer than {LEAST} losses": self.short,
            "left out because another log was chosen": self.passed,
        }
        left = [
            f"{why}: {listed([named(log) for log in logs], most=_MOST_NAMED)}"
            for why, logs in reasons.items()
            if logs
        ]
        return [*agreeing([named(log) for log in self.agreeing]), *left]

    def question(self, named: Callable[[str], str] = str) -> str:
        """Return the logs among which to choose and how they differ; empty if there is nothing to choose."""
        if not self.candidates:
            return ""
        names = listed([named(log) for log in self.candidates], most=_MOST_NAMED)
        return f"{len(self.candidates):,} logs lie {self.lie} and do not agree: {names} ({self.difference})"


def logs_of_runs(
    runs: Mapping[str, Path],
    logs: Mapping[str, Path],
    rows: Callable[[str], pd.DataFrame],
    chosen: Sequence[str] = (),
) -> dict[str, LogOfRun]:
    """Return the log of each run that has one or several.

    A log is a run's if it lies beside its checkpoints or has its name. A single run may have any log of the
    folder: one that lies with its checkpoints, otherwise one above them, otherwise one elsewhere. A log that
    would fit two runs belongs to neither. Of several logs that agree (`agreement.disagreement`), the fullest
    is taken; of those that disagree, none, unless one is `chosen`.

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
        return {run: _log_of_only(run, folder, logs, rows, chosen) for run, folder in runs.items() if logs}
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


def _log_of_only(
    run: str,
    folder: Path,
    logs: Mapping[str, Path],
    rows: Callable[[str], pd.DataFrame],
    chosen: Sequence[str],
) -> LogOfRun:
    """Return the log of the only run: of the nearest logs that have losses, and others that say the same."""
    nearness = {name: _nearness(log, folder, run) for name, log in logs.items()}
    named = [name for name in logs if name in chosen]
    enough = [name for name in logs if losses_in(rows(name)) >= LEAST]
    first = named if len(named) == 1 else enough
    if not first:
        return _log_of(list(logs), rows, chosen)
    lie = min((nearness[name] for name in first), key=_FROM_NEAR.index)
    here = [name for name in logs if nearness[name] == lie]
    if lie == _ELSEWHERE and len(named) == 1:
        return LogOfRun(named[0])
    choice = replace(_log_of(here, rows, chosen), lie=lie)
    if not choice.log:
        return choice
    others = [name for name in logs if nearness[name] != lie]
    alike = [name for name in others if name in enough and not disagreement(rows(choice.log), rows(name))]
    short = [name for name in others if name not in enough]
    return replace(choice, agreeing=(*choice.agreeing, *alike), short=(*choice.short, *short))


def _log_of(names: Sequence[str], rows: Callable[[str], pd.DataFrame], chosen: Sequence[str]) -> LogOfRun:
    """Return the log among those of a run."""
    named = [name for name in names if name in chosen]
    if len(named) == 1:
        return LogOfRun(named[0], passed=tuple(name for name in names if name != named[0]))
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


def _nearness(log: Path, folder: Path, run: str) -> str:
    """Return where a log of the common folder lies, as the checkpoints in `folder` see it.

    >>> _nearness(Path("train.log"), Path("a"), "a"), _nearness(Path("b/train.log"), Path("a"), "a")
    ('above its checkpoints', 'in other folders than its checkpoints')
    """
    if folder == Path() or _lies_with(log, folder) or log.stem == run:
        return _WITH
    return _ABOVE if log.parent == Path() else _ELSEWHERE


def _lies_with(log: Path, folder: Path) -> bool:
    """Return whether a log lies in a checkpoint folder, below it, or above it below the common folder.

    >>> _lies_with(Path("a/train.log"), Path("a/checkpoints")), _lies_with(Path("train.log"), Path("a"))
    (True, False)
    """
    around = log.parent
    return around != Path() and (around.is_relative_to(folder) or folder.is_relative_to(around))
