"""The analysis of a store, a table or a CSV file, with all of its tables and findings."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from toposcope.core.answered import Tables, pictured
from toposcope.core.errors import InputError
from toposcope.logs.belonging import Group, said
from toposcope.rules.judgement import ALL_RIGHT, FEWEST, JudgeOfLog, worst
from toposcope.runs.log_results import LogResults
from toposcope.runs.reading import listed, sources_of
from toposcope.runs.without import as_names, refuse_unknown, without_runs
from toposcope.study.compact import verdict_table
from toposcope.study.findings import words
from toposcope.study.findings.summary import FirstScreen, common, leading, together, without
from toposcope.study.merged_stores import Source, difference_of_recipes, joined
from toposcope.study.own import PARTS, tables_of
from toposcope.study.published import NOTHING, PublishedRules
from toposcope.study.studies import StudyRequest, logs_as_one, runs_of, studies_of, study_of_rows
from toposcope.study.study import Study, groups_among, notes_of, problems_of, why_nothing
from toposcope.study.targets import read_targets

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from toposcope.study.findings import Findings

__all__ = ["DEFAULT_TABLES", "PARTS", "Analysis", "analysis_of", "study_of_rows"]

DEFAULT_TABLES = ("families", "trends", "replicates", "phases", "scaling", "forecasts", "forecast_effects")
_OVER_FAMILIES = ("exponents",)
"""Tables that compare families: they read all runs."""
_ROWS = 3
"""Rows of the verdict that a notebook shows; the printed answer and the table have all."""
_BY_COST = (
    "families", "forecasts", "forecast_effects", "scaling", "replicates", "phases", "exponents",
    "saturation", "segments", "lags", "trends",
)  # fmt: skip
"""The tables of `PARTS`, cheapest first, as they are searched for a result."""


@dataclass(frozen=True)
class Analysis:
    """Whether the features of a series say more than its losses: tables, findings and figures, on demand.

    `studies` holds one study for each kind of measurement: weights, gradients, representations, or a table.
    Runs that do not belong together have a study each (`apart` says which). Every table of `PARTS` is an
    attribute, and `tables` has those that only some subjects have, too. A table has the rows of all studies
    below one another, with a column `group` if runs do not belong together; `findings` are those of the first
    study, `all_findings` of every one. `whole` holds the studies of all runs, for the tables that compare
    families.

    Examples
    --------
    >>> import numpy as np
    >>> step = np.arange(0, 2000, 50)
    >>> frame = pd.DataFrame({"step": step, "loss": 5 * (step + 100.0) ** -0.3, "mine": np.log(step + 50.0)})
    >>> analysis = analysis_of(frame)
    >>> analysis.trends[["column", "target"]].drop_duplicates().iloc[0].tolist()
    ['mine', 'loss']
    """

    studies: tuple[Study, ...]
    whole: tuple[Study, ...] = ()

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups of runs that do not belong together; empty where all do."""
        return groups_among(self.studies)

    @property
    def apart(self) -> str:
        """The line that says which runs do not belong together; "" where all do."""
        return said(self.groups)

    def table(self, name: str) -> pd.DataFrame:
        """Return the table called `name`: one of `PARTS`, or one that a subject declares.

        Raises
        ------
        InputError
            When there is no such table.
        """
        if name not in self.names:
            raise InputError(f"no table {name!r}; there are {', '.join(self.names)}")
        if name in self.own:
            having = [study for study in self.studies if name in study.own]
            tables = [_of_group(study.own[name], study.group) for study in having]
        elif name in _OVER_FAMILIES and self.whole:
            tables = [getattr(study, name) for study in self.whole]
        else:
            tables = [_of_group(getattr(study, name), study.group) for study in self.studies]
        filled = [part for part in tables if len(part)]
        return pd.concat(filled, ignore_index=True) if len(filled) > 1 else (filled or tables)[0]

    @property
    def tables(self) -> Tables:
        """Every table by name, computed on first use: those of `PARTS`, then those of its subjects."""
        return Tables(**{name: partial(self.table, name) for name in self.names})

    @property
    def own(self) -> dict[str, str]:
        """The tables that its subjects declare: name -> title."""
        subjects = dict.fromkeys(study.subject for study in self.studies)
        return {table.name: table.title or table.name for subject in subjects for table in tables_of(subject)}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all its tables."""
        return (*PARTS, *self.own)

    @property
    def families(self) -> pd.DataFrame:
        """One test for each target and feature over all runs, which decides the verdict."""
        return self.table("families")

    @property
    def trends(self) -> pd.DataFrame:
        """The correlations of every run, target and feature, with and without drift."""
        return self.table("trends")

    @property
    def replicates(self) -> pd.DataFrame:
        """Every feature across training replicates."""
        return self.table("replicates")

    @property
    def lags(self) -> pd.DataFrame:
        """Leads and lags of innovations."""
        return self.table("lags")

    @property
    def phases(self) -> pd.DataFrame:
        """The starts of phases by the published rules."""
        return self.table("phases")

    @property
    def segments(self) -> pd.DataFrame:
        """Stretches of constant slope on log step."""
        return self.table("segments")

    @property
    def saturation(self) -> pd.DataFrame:
        """Saturating fits."""
        return self.table("saturation")

    @property
    def scaling(self) -> pd.DataFrame:
        """Power laws of last values with model size."""
        return self.table("scaling")

    @property
    def exponents(self) -> pd.DataFrame:
        """Exponents predicted from features."""
        return self.table("exponents")

    @property
    def forecasts(self) -> pd.DataFrame:
        """The forecast of every finished run's final loss from the others."""
        return self.table("forecasts")

    @property
    def forecast_effects(self) -> pd.DataFrame:
        """What features add to a forecast, paired by run."""
        return self.table("forecast_effects")

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """The parts of logs and targets that were left out, merged or missing."""
        return problems_of(self.studies)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What was not tested although nothing is wrong: runs that are too short."""
        return notes_of(self.studies)

    @property
    def read(self) -> tuple[str, ...]:
        """The columns used as step and loss, a line for each log that was read."""
        return tuple(line for study in self.studies for line in study.read)

    @property
    def findings(self) -> Findings:
        """The findings on the first study, question by question."""
        return self.studies[0].findings

    @property
    def all_findings(self) -> tuple[Findings, ...]:
        """The findings on every study."""
        return tuple(study.findings for study in self.studies)

    @property
    def shown_first(self) -> tuple[Findings, ...]:
        """The findings that are printed: without groups of odd runs, which their siblings' group names."""
        shown = tuple(study.findings for study in self.studies if not study.aside)
        return shown or self.all_findings

    @property
    def line(self) -> str:
        """The answer in one line: the headline of the first findings with a fault, else of the first."""
        return leading([findings.first for findings in self.shown_first]).title

    @property
    def verdict(self) -> str:
        """The verdict on the worst run by its log, in the words of `check`."""
        on = [findings["on"] for findings in self.all_findings if "on" in findings]
        return worst(symptom["level"] for findings in on for symptom in findings.numbers["faulty"])

    @property
    def wrong(self) -> bool:
        """Whether a run needs a look or should stop, a run is odd, or a checkpoint is damaged."""
        odd = any(findings.wrong is not None for findings in self.all_findings)
        return odd or self.verdict != ALL_RIGHT

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong with a run or a checkpoint, and no input was left out or repaired."""
        return not self.wrong and not self.problems

    @property
    def losses_tell(self) -> bool:
        """Whether there are enough losses for an answer, and no other column of a log to test.

        A store has the losses of its runs, however few checkpoints were measured.
        """
        untested = all(study.series.catalogue.empty for study in self.studies)
        enough = len(self.longest_grid()) >= FEWEST
        judged = [on for findings in self.all_findings if (on := findings.get("on")) is not None]
        if all(study.log is not None and study.log.logged is None for study in self.studies):
            return any(on.numbers["most_losses"] >= FEWEST for on in judged)
        return untested and enough and bool(judged)

    def longest_grid(self) -> np.ndarray:
        """Return the steps of the run with most checkpoints."""
        grids = [
            rows["step"].to_numpy(float) for s in self.studies for _, rows in s.series.values.groupby("run")
        ]
        return max(grids, key=len)

    def nearest_grid(self) -> str:
        """Return the packaged grid of steps whose error rates are known: the nearest to the longest run's."""
        from toposcope.statistics.trends.calibration import nearest_grid

        return nearest_grid(self.longest_grid())

    def calibrated(self, *, draws: int = 10_000, quiet: bool = True) -> pd.DataFrame:
        """Simulate the nulls at the longest run's steps, to see how often each test is wrong there.

        Each test's rate of rejection (`rate`, with its standard `error`) in every case (`kind` "null",
        "blind", "fresh" or "planted"): see `calibration_matrix` in
        `toposcope.statistics.trends.calibration`. 10,000 draws take minutes.

        Raises
        ------
        InputError
            With fewer than 12 checkpoints.

        Examples
        --------
        >>> frame = pd.DataFrame({"step": range(12), "loss": range(12, 0, -1), "mine": range(12)})
        >>> rates = analysis_of(frame).calibrated(draws=100)
        >>> sorted(set(rates["kind"])), bool(rates["rate"].between(0, 1).all())
        (['blind', 'fresh', 'null', 'planted'], True)
        """
        from toposcope.statistics.trends.calibration import calibration_matrix

        return calibration_matrix(self.longest_grid(), draws=draws, quiet=quiet)

    def refuse_nothing(self, parts: Sequence[str]) -> None:
        """Raise InputError where one of these tables does not exist, or none of them holds a result."""
        for name in parts:
            if name not in self.names:
                self.table(name)  # the error says which there are
        if "trends" in parts and any(_holds_something(study.strengths) for study in self.studies):
            return  # a part of the trends: all of them take most of the time of an analysis
        cheapest = [name for name in (*self.own, *_BY_COST) if name in parts]
        if not any(_holds_something(self.table(name)) for name in cheapest):
            reasons = {
                name: str(why) for name in cheapest for why in self.table(name).get("reason", ()) if why
            }
            raise InputError(f"nothing could be computed: {why_nothing(self.studies[0], parts, reasons)}")

    def to_json(self, parts: Sequence[str] = ()) -> dict[str, object]:
        """Return the findings, the named tables as records, the problems and the notes, as plain data."""
        found_data = [findings.as_data() for findings in self.all_findings]
        tables = {name: self.table(name).to_dict("records") for name in parts}
        groups = [{"label": group.label, "runs": list(group.runs)} for group in self.groups]
        remarks = {"problems": list(self.problems), "notes": list(self.notes), "read": list(self.read)}
        answer = {"answer": self.line, "verdict": self.verdict}
        return {**answer, "groups": groups, "findings": found_data, **tables, **remarks}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the correlation of innovations of what the verdict judges, and return the axes."""
        from toposcope.study.figure import draw_verdict

        return draw_verdict(self.studies[0], ax)

    def as_text(self, *, width: int = words.WIDTH) -> str:
        """Return the first screens for a terminal: one for each group of runs, a part for each subject."""
        by_group: dict[str, list[tuple[str, FirstScreen]]] = {}
        for findings in self.shown_first:
            by_group.setdefault(findings.group, []).append((findings.heading, findings.first))
        first = [textwrap.fill(self.apart, width)] if self.apart else []
        return "\n\n".join([*first, *(together(screens, width=width) for screens in by_group.values())])

    def __repr__(self) -> str:
        """Return the first screens in 80 columns."""
        return self.as_text()

    def _repr_html_(self) -> str:
        first = f"<p><strong>{html.escape(self.apart)}</strong></p>" if self.apart else ""
        lead, *others = self.shown_first
        text_shown = lead._repr_html_() + "".join(_beside_html(o, lead) for o in others)
        table = verdict_table(self.studies[0])
        if len(table.rows) > _ROWS:
            table = replace(table, rows=table.rows[:_ROWS], sections=())
        return first + text_shown + pictured(self.plot) + (table.html() if table.rows else "")


def analysis_of(
    source: Source | Sequence[Source],
    *,
    targets: str | Sequence[str] = (),
    columns: Sequence[str] = (),
    scores: str | Path | pd.DataFrame | None = None,
    rename: Mapping[str, str] | None = None,
    pattern: str | None = None,
    without: str | Sequence[str] = (),
    published: PublishedRules = NOTHING,
    alarms: Mapping[str, Sequence[tuple[str, float]]] | None = None,
    judge: JudgeOfLog | None = None,
    from_logs: LogResults | None = None,
) -> Analysis:
    """Read the sources of `toposcope.analyze`; `published` are the rules of papers that are added.

    `alarms` are those of a watch: tests and steps by run, as figures mark them. `judge` judges a run by its
    log, as a watch does (by default, by its health alone). `from_logs` has what was computed from the logs
    already. `without` are runs to leave out. `pattern` reads the lines of text logs.

    Raises
    ------
    InputError
        When there is nothing measured, a target or a column is not there, or two stores hold the same
        kind of measurement by different recipes.
    """
    named = (targets,) if isinstance(targets, str) else tuple(targets)
    read = read_targets(Path(scores)) if isinstance(scores, str | Path) else scores
    given = sources_of(source)
    if not given:
        raise InputError("no input is given; name a log, a table or a store to analyse")
    gone = as_names(without)
    read = read if read is None else without_runs(read, gone)
    request = StudyRequest(named, tuple(columns), read, rename or {}, gone, pattern)
    several = logs_as_one(given, request)
    if several is not None:
        request = replace(request, rename={})  # done where they were read
    with joined(given if several is None else [several]) as sources:
        if gone:
            of_each = [set(runs_of(source, request)) for source in sources]
            refuse_unknown(gone, dict.fromkeys(run for runs in of_each for run in sorted(runs)))
            sources = [source for source, runs in zip(sources, of_each, strict=True) if runs - set(gone)]
        source_studies = [studies_of(source, request) for source in sources]
    names = [study.subject.name for _, wholes in source_studies for study in wholes]
    if len(set(names)) < len(names):
        both = ", ".join(map(str, listed(given)))
        how = f" ({differ})" if (differ := difference_of_recipes(given)) else ""
        raise InputError(
            f"{both}: two of them contain the same kind of measurement with different "
            f"settings{how}; report them separately"
        )
    shared = from_logs or LogResults()
    studies, wholes = (
        tuple(
            replace(
                study,
                published=published,
                alarms=alarms or {},
                judge=judge,
                from_logs=shared,
                places=_places(given),
                renamed=dict(rename or {}),
                pattern=pattern,
                without=gone,
            )
            for of_source in source_studies
            for study in of_source[place]
        )
        for place in (0, 1)
    )
    return Analysis(studies, wholes if len(wholes) < len(studies) else ())


def _beside_html(findings: Findings, lead: Findings) -> str:
    """Return for a notebook what findings say beyond those that lead, after the heading of their subject."""
    if findings.group != lead.group:
        return f"<p>{html.escape(findings.first.title)}</p>"
    own = without(findings.first, common([lead.first, findings.first]))
    checks = "; ".join(f"{check.name}: {check.text}" for check in own.checks)
    said = " ".join(filter(None, (own.title, checks)))
    return f"<p>{html.escape(findings.heading)}: {html.escape(said)}</p>"


def _places(given: Sequence[Any]) -> tuple[str, ...]:
    """Return the paths that were read, for a command; empty if any source has no path."""
    places = [place for place in listed(given) if isinstance(place, str)]
    return tuple(places) if len(places) == len(given) else ()


def _of_group(table: pd.DataFrame, group: Group | None) -> pd.DataFrame:
    """Return a table with its group in the first column; unchanged if there is one group."""
    if group is None or not len(table):
        return table
    return pd.concat([pd.Series(group.label, index=table.index, name="group"), table], axis=1)


def _holds_something(part: pd.DataFrame) -> bool:
    if "cut" in part and not part["cut"].notna().any():
        return False
    if "verdict" in part and "confirmatory" in part:
        return bool((part["verdict"] != "cannot tell").any())
    return bool((part["status"] != "failed").any()) if "status" in part else len(part) > 0
