"""One study: everything that is computed about one kind of object, and the findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from toposcope.core.forms import listed
from toposcope.core.wording import command, free_place, option
from toposcope.logs.belonging import Group
from toposcope.scaling.power_law import LEAST_SIZES_FOR_FLOOR
from toposcope.statistics.trends.innovations import LEAST_LENGTH
from toposcope.study.findings import Findings, find
from toposcope.study.forecasts.compare import LEAST_RUNS
from toposcope.study.tables import StudyTables
from toposcope.study.trends.verdicts import LEAST_POINTS


class Study(StudyTables):
    """The tables of one subject, and the findings that they allow: see `StudyTables`."""

    @property
    def aside(self) -> bool:
        """Whether all its runs are called odd by another study, which compares them with their siblings."""
        return self.among is not None and {odd_run.run for odd_run in self.odd.found} >= set(
            self.series.run_names
        )

    @cached_property
    def findings(self) -> Findings:
        """What may be said, question by question."""
        return find(self)

    @property
    def problems(self) -> tuple[str, ...]:
        """What was merged or left out."""
        return self.series.problems

    @property
    def notes(self) -> tuple[str, ...]:
        """The runs that are too short for a test: nothing is wrong with them."""
        judged = self.strengths
        if not len(judged) or "status" not in judged:
            return ()
        short = judged.groupby("run", sort=False).filter(lambda rows: (rows["status"] == "failed").all())
        counts = short.groupby("run", sort=False)["n"].max()
        runs_of: dict[int, list[str]] = {}
        for run, count in zip(counts.index, counts.to_numpy(int), strict=True):
            runs_of.setdefault(int(count), []).append(str(run))
        return tuple(_untested(runs, count) for count, runs in runs_of.items())


_MOST_NAMED = 4
"""Runs that one note names."""


def _untested(runs: Sequence[str], count: int) -> str:
    whose = f"run{'s' * (len(runs) > 1)} {listed(runs, most=_MOST_NAMED)}"
    steps = f"{count:,} step{'s' * (count != 1)}"
    return (
        f"{whose}: too short for a test of the features against the loss: {steps} with both, at least "
        f"{LEAST_POINTS} are needed. Measure more checkpoints for such a test"
    )


def groups_among(studies: Sequence[Study]) -> tuple[Group, ...]:
    """Return the groups that these studies are of, each once; empty where all runs belong together."""
    return tuple(dict.fromkeys(study.group for study in studies if study.group is not None))


def problems_of(studies: Sequence[Study]) -> tuple[str, ...]:
    """Return the problems of studies, each once."""
    return tuple(dict.fromkeys(line for study in studies for line in study.problems))


def notes_of(studies: Sequence[Study]) -> tuple[str, ...]:
    """Return the notes of studies, each once."""
    return tuple(dict.fromkeys(line for study in studies for line in study.notes))


def page_of(places: Sequence[str], without: Sequence[str] = ()) -> str:
    """Return the command that writes the page of stores or tables, some runs left out."""
    out = free_place(f"{Path(places[0]).with_suffix('')}-report") if places else "DIR"
    return command("report", *(places or ("STORE",)), out=out, without=list(without) or None)


def _check_of(study: StudyTables) -> str:
    """Return the command that judges the losses of a study, read as the study reads them."""
    read = [f"{old}={new}" for old, new in study.renamed.items()] or None
    without = list(study.without) or None
    return command("check", *study.places, rename=read, pattern=study.pattern, without=without)


_NEEDS = {
    "replicates": "two runs of one size",
    "scaling": f"runs of {LEAST_SIZES_FOR_FLOOR} sizes",
    "forecasts": f"{LEAST_RUNS} finished runs",
    "forecast_effects": f"{LEAST_RUNS} finished runs",
}
"""What a table needs, if that is a number of runs."""


def why_nothing(study: Study, tables: Sequence[str] = (), reasons: Mapping[str, str] | None = None) -> str:
    """Say why no table could be computed, and what would help; `reasons` stand in their rows."""
    longest = study.series.values.groupby("run")["step"].count().max()
    if longest < LEAST_POINTS:
        return f"the longest run has {longest:,} checkpoints, at least {LEAST_POINTS} are needed; add some"
    if study.series.catalogue.empty:
        gone = ", ".join(f"{column} ({why})" for column, why in study.series.left_out.items())
        alone = f", or judge its losses alone: {_check_of(study)}" if study.places and study.log else ""
        return f"the table has no column to test{' (left out: ' + gone + ')' if gone else ''}; add one{alone}"
    if longest < LEAST_LENGTH:
        return (
            f"the longest run has {longest:,} checkpoints, a test needs {LEAST_LENGTH}; add some, or read "
            "what changed: " + page_of(study.places, study.without)
        )
    needs = [f"the table {name} needs {_NEEDS[name]}" for name in tables if name in _NEEDS]
    needs += [f"the table {name} says: {why}" for name, why in (reasons or {}).items() if name not in _NEEDS]
    why = "; ".join(needs) or "these tables have no row for these runs"
    return f"{why}; {option('table')} all makes every table that has rows"
