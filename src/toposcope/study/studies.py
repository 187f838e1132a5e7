"""The studies of one source: of each kind of measurement, and of each group of runs that belong together."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from toposcope.core.errors import InputError, did_you_mean
from toposcope.core.wording import renaming
from toposcope.logs import Log, is_log, unchecked_log
from toposcope.logs.belonging import Group, groups_of
from toposcope.logs.described import described
from toposcope.logs.naming import refuse_same_names
from toposcope.logs.run import Run
from toposcope.runs.reading import planned_beside, table_names
from toposcope.runs.without import without_runs
from toposcope.store import Store
from toposcope.store.manifest import read_manifest
from toposcope.study._plain import NO_NUMBER, plain_table
from toposcope.study.convergence import without_unconverged
from toposcope.study.derived import with_derived
from toposcope.study.merged_stores import Opened
from toposcope.study.study import Study
from toposcope.study.study_rows import StudyRows, rows_of_log
from toposcope.study.table import SeriesTable, of_derived
from toposcope.subjects.catalogue import rows_of
from toposcope.subjects.subject import TABLE, Subject


@dataclass(frozen=True, slots=True)
class StudyRequest:
    """What an analysis reads and tests: targets, columns, further scores, what columns are called.

    `without` are runs that are left out, and `pattern` reads the lines of text logs.
    """

    targets: tuple[str, ...]
    columns: tuple[str, ...]
    scores: pd.DataFrame | None
    rename: Mapping[str, str]
    without: tuple[str, ...] = ()
    pattern: str | None = None

    def of(self, group: Group | None) -> StudyRequest:
        """Return the same with the scores of a group's runs."""
        if group is None or self.scores is None or "run" not in self.scores:
            return self
        mine = self.scores["run"].isna() | self.scores["run"].isin(group.runs)
        return replace(self, scores=self.scores[mine] if mine.any() else None)


def runs_of(source: Opened, request: StudyRequest) -> list[str]:
    """Return the names of the runs in a source; a table that names none has one, "run"."""
    if isinstance(source, Log | pd.DataFrame) or (isinstance(source, str | Path) and is_log(source)):
        log = source if isinstance(source, Log) else _read(source, request)
        return [str(run) for run in log.table["run"].unique()] if "run" in log.table else [log.runs[0].name]
    store = source if isinstance(source, Store) else Store.open(source)
    return [str(run) for run in store.features()["run"].unique()]


def studies_of(source: Opened, request: StudyRequest) -> tuple[list[Study], list[Study]]:
    """Return the studies of each group of runs of a source, and those of all its runs."""
    if isinstance(source, pd.DataFrame):
        return _split_table(_other_runs(_read(source, request), request.without), request)
    if isinstance(source, Log):
        return _split_table(_named(_other_runs(source, request.without)), request)
    if isinstance(source, str | Path) and is_log(source):
        log = _named(_other_runs(_read(source, request), request.without))
        return _split_table(log, request, Path(source))
    read = _StoreTables.of(source if isinstance(source, Store) else Store.open(source), request.without)
    whole = _of_store(read, request, None)
    names = pd.DataFrame({"run": read.features["run"].unique()})
    runs = names.merge(read.runs, on="run", how="left")
    groups = groups_of(runs, read.metrics)
    if len(groups) < 2:
        return whole, whole
    every = {study.subject.name: study for study in whole}
    split = [
        [replace(study, among=every[study.subject.name]) for study in _of_store(read, sub_request, group)]
        for group in groups
        for sub_request in [request.of(group)]
    ]
    order = [study.subject.name for study in whole]
    return sorted((s for part in split for s in part), key=lambda s: order.index(s.subject.name)), whole


def logs_as_one(given: Sequence[Opened], request: StudyRequest) -> Log | None:
    """Return several logs as one, whose runs keep their plans; None where not every source is a log.

    A log of one run gives it the name of its file, with what tells files of one name apart, as in `check`.

    Raises
    ------
    InputError
        When two runs have one name.
    """
    paths = [str(source) for source in given if isinstance(source, str | Path) and is_log(source)]
    if len(paths) < 2 or len(paths) < len(given):
        return None
    names = table_names(paths)
    runs, named, dialects = [], [], []
    taken: dict[str, str] = {}
    for path in paths:
        log = planned_beside(_read(path, request), Path(path))
        taken |= {role: column for role, column in log.taken.items() if role not in taken}
        dialects.append(log.dialect)
        for run in _single_runs(log):
            name = ": ".join(filter(None, (names.get(path, path), run.name)))
            runs.append(replace(run, name=name))
            named.append((name, path))
    refuse_same_names(named)
    dialect = dialects[0] if len(set(dialects)) == 1 else "several formats"
    return Log(", ".join(paths), dialect, tuple(runs), taken)


def _named(log: Log) -> Log:
    """Return a log that names its run in its rows, too, if it has only one."""
    if len(log.runs) > 1 or "run" in log.table:
        return log
    (run,) = log.runs
    return replace(log, runs=(replace(run, table=run.table.assign(run=run.name)),))


def _single_runs(log: Log) -> Iterator[Run]:
    """Yield the runs of a log, those of a column `run` each for itself; one that is alone has no name."""
    if len(log.runs) == 1 and "run" not in log.table:
        yield replace(log.runs[0], name="")
        return
    for part in log.runs:
        if len(log.runs) > 1 or "run" not in part.table:
            yield part
            continue
        for run, rows in part.table.groupby("run", sort=False):
            yield replace(part, name=str(run), table=rows.drop(columns="run"))


def _read(source: str | Path | pd.DataFrame, request: StudyRequest) -> Log:
    """Return a log, or a table in memory, with the requested columns."""
    keep = (*request.targets, *request.columns)
    return unchecked_log(source, rename=request.rename, keep=keep, pattern=request.pattern)


def _other_runs(log: Log, without: tuple[str, ...]) -> Log:
    """Return a log without some of its runs, which are its parts, or named by a column of its only part."""
    if not without:
        return log
    parts = [
        replace(run, table=without_runs(run.table, without)) for run in log.runs if run.name not in without
    ]
    return replace(log, runs=tuple(part for part in parts if len(part.table)))


@dataclass(frozen=True)
class _StoreTables:
    """The tables of a store, read once for the studies of all its subjects and groups of runs."""

    store: Store
    features: pd.DataFrame
    metrics: pd.DataFrame
    runs: pd.DataFrame
    audit: pd.DataFrame
    catalogue: pd.DataFrame
    stated: dict[str, Any]
    gone: tuple[str, ...]
    without: tuple[str, ...]
    _diagrams: dict[str, pd.DataFrame | None] = field(default_factory=dict)

    @classmethod
    def of(cls, store: Store, without: tuple[str, ...]) -> _StoreTables:
        """Read a store, but for some runs."""
        features = store.features().drop(columns=["content_hash", "recipe_hash"])
        if features.empty:
            raise InputError(
                f"{store.path} has no measured features: nothing was measured into it yet, or all of it "
                "failed; repeat the command that made it"
            )
        gone = store.part_faults()
        return cls(
            store, without_runs(features, without), without_runs(store.metrics(), without),
            without_runs(store.runs(), without), without_runs(store.audit(), without),
            store.catalogue(), read_manifest(store.path), gone, without,
        )  # fmt: skip

    def diagrams(self, subject: Subject) -> pd.DataFrame | None:
        """Return the stored diagrams that the page of a subject draws."""
        if subject.name not in self._diagrams:
            wanted = subject.diagrams
            table = None if wanted is None else self.store.diagrams(**dict(wanted))
            self._diagrams[subject.name] = None if table is None else without_runs(table, self.without)
        return self._diagrams[subject.name]


def _of_store(read: _StoreTables, request: StudyRequest, group: Group | None) -> list[Study]:
    """Return a study of each kind of measurement on the runs of a group; of all without one."""

    def mine(table: pd.DataFrame) -> pd.DataFrame:
        if group is None or "run" not in table:
            return table
        return table[table["run"].isin(group.runs)].reset_index(drop=True)

    studies_found = []
    for subject, rows in rows_of(mine(read.features), read.catalogue):
        diagrams = read.diagrams(subject)
        study = study_of_rows(
            subject, rows, mine(read.metrics), mine(read.runs), catalogue=read.catalogue,
            diagrams=None if diagrams is None else mine(diagrams), audit=mine(read.audit),
            provenance=dict(read.stated),
            targets=request.targets, columns=request.columns, scores=request.scores,
            kept=read.store.path / subject.folder if subject.folder else None, gone=read.gone,
            replaced=_replaced(read.store, mine(read.runs)),
        )  # fmt: skip
        studies_found.append(replace(study, group=group))
    return studies_found


def _split_table(
    read: Log, request: StudyRequest, place: Path | None = None
) -> tuple[list[Study], list[Study]]:
    """Return the studies of a log's groups of runs, and the one of all its runs; `place` is its file."""
    frame = read.table
    whole = _of_table(frame, request, _logged(read, place))
    if not read.plain:
        whole = replace(whole, read=(read.said,))
    losses = whole.log.metrics if whole.log is not None else None
    groups = groups_of(whole.series.runs, losses)
    if len(groups) < 2 or "run" not in frame:
        return [whole], [whole]
    split = []
    for group in groups:
        mine = frame[frame["run"].astype(str).isin(group.runs)]
        filled = mine[[c for c in mine if mine[c].notna().any() or c in request.columns]]
        log = None if whole.log is None else _of_runs(whole.log, group.runs)
        group_study = _of_table(filled, request.of(group), log)
        split.append(replace(group_study, group=group, among=whole, read=whole.read))
    return split, [whole]


def study_of_rows(
    subject: Subject,
    features: pd.DataFrame,
    metrics: pd.DataFrame | None,
    runs: pd.DataFrame,
    *,
    catalogue: pd.DataFrame | None = None,
    diagrams: pd.DataFrame | None = None,
    audit: pd.DataFrame | None = None,
    provenance: dict[str, object] | None = None,
    targets: tuple[str, ...] = (),
    columns: tuple[str, ...] = (),
    scores: pd.DataFrame | None = None,
    kept: Path | None = None,
    gone: tuple[str, ...] = (),
    replaced: Mapping[str, pd.DataFrame] | None = None,
) -> Study:
    """Return the study of long rows with a store's columns; `catalogue` is what their probes declare.

    `replaced` has the rows of runs that a restart replaced.
    """
    features, unconverged = without_unconverged(features)
    rows = with_derived(features, catalogue)
    series = of_derived(rows, metrics, runs, targets=scores, catalogue=catalogue)
    series = replace(series, problems=(*gone, *series.problems, *unconverged))
    brought = () if scores is None else tuple(dict.fromkeys(scores["target"]))
    logged = pd.DataFrame() if metrics is None else metrics
    if not len(logged) and subject.by_itself:  # states are analysed without a loss, so none is missing
        series = _without(series, "no metrics")
    log = None
    if len(logged):
        log = StudyRows(logged, runs, features=features, catalogue=catalogue, replaced=replaced or {})
    return _study(
        subject, series, targets, columns, brought, features=rows, metrics=logged, audit=audit,
        provenance=provenance or {}, log=log, kept=kept,
        **({} if diagrams is None else {"diagrams": diagrams}),
    )  # fmt: skip


def _replaced(store: Store, runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the rows that restarts replaced, of each run of a store that has some."""
    of_runs = {str(run): store.replaced(str(run)) for run in runs["run"]}
    return {run: rows for run, rows in of_runs.items() if rows is not None}


def _logged(read: Log, place: Path | None) -> StudyRows | None:
    """Return what a log says about its runs, with the plan beside its file; None if no loss is logged."""
    try:
        log = described(read, name=read.runs[0].name, held_out=True)
    except InputError:
        return None
    return rows_of_log(planned_beside(log, place) if place is not None and place.is_file() else log)


def _of_runs(log: StudyRows, runs: Collection[str]) -> StudyRows:
    """Return what a log says about some of its runs."""
    metrics, run_rows = (
        table[table["run"].astype(str).isin(list(runs))] for table in (log.metrics, log.runs)
    )
    wide = None if log.wide is None else log.wide[log.wide["run"].astype(str).isin(list(runs))]
    return replace(log, metrics=metrics, runs=run_rows, wide=wide)


def _of_table(frame: pd.DataFrame, request: StudyRequest, log: StudyRows | None) -> Study:
    brought = () if request.scores is None else tuple(dict.fromkeys(request.scores["target"]))
    series = plain_table(
        frame, [target for target in request.targets if target not in brought], request.scores
    )
    return _study(TABLE, series, request.targets, request.columns, brought, log=log)


def _study(
    subject: Subject, series: SeriesTable, targets: tuple[str, ...], columns: tuple[str, ...],
    brought: tuple[str, ...], **tables: object,
) -> Study:  # fmt: skip
    _refuse_columns(columns, series, subject)
    named = tuple(chosen_target(series, name, preferred=()) for name in targets)
    preferred = (*series.losses, *subject.targets) if subject.by_itself else subject.targets
    target = named[0] if named else chosen_target(series, None, preferred=preferred)
    chosen, further = chosen_targets(series, subject, target, named, brought)
    return Study(
        subject, series, complete_runs(series), target, targets=chosen, further=further, wanted=columns,
        **tables,  # type: ignore[arg-type]
    )  # fmt: skip


def _refuse_columns(columns: tuple[str, ...], series: SeriesTable, subject: Subject) -> None:
    """Raise InputError where a named column cannot be tested: it is a copy, a text, a target, or absent."""
    others = [column for column in series.columns(scope="model") if column not in columns]
    among = ", ".join(others[:6]) or "there is none"
    for column in columns:
        why = series.left_out.get(column, "")
        if column in series.values and (subject is not TABLE or column not in series.targets):
            continue
        if column in series.values:
            raise InputError(
                f"column {column!r} is a target, which columns are compared with",
                remedy=f"name another column ({among}), or give it another name with "
                f"{renaming(column, 'OTHER')}",
            )
        if why == NO_NUMBER:
            raise InputError(f"column {column!r} is {why}", remedy=f"name another column ({among})")
        if why:
            raise InputError(
                f"column {column!r} is {why}: it has no information of its own; name another "
                f"column ({among}), or test it as a target"
            )
        raise InputError(
            f"{column!r} is not in the table; targets: {', '.join(series.targets) or 'none'}; "
            f"{'columns' if subject is TABLE else 'features'}: {among}{', ...' if len(others) > 6 else ''}"
            + did_you_mean(column, [*series.targets, *series.columns()])
        )


def complete_runs(series: SeriesTable) -> pd.DataFrame:
    """Return the runs table with a line for every run that has features, in the order of their size."""
    wanted = ["run", "family", "parameters", "seed", "schedule", "corpus", "uri"]
    run_rows = series.runs.reindex(columns=wanted).drop_duplicates("run").set_index("run")
    run_rows = run_rows.reindex(series.run_names).reset_index()
    run_rows["family"] = run_rows["family"].astype(object).where(run_rows["family"].notna(), "").astype(str)
    run_rows["parameters"] = run_rows["parameters"].fillna(0).astype(int)
    return run_rows


def _without(series: SeriesTable, words: str) -> SeriesTable:
    return replace(series, problems=tuple(line for line in series.problems if words not in line))


def chosen_target(series: SeriesTable, wanted: str | None, *, preferred: Sequence[str]) -> str:
    """Return the column of `series` that is the target; "" if none was requested and none exists.

    A requested target is a target of the table, one of its columns, or the name of a feature that only one
    column has. Otherwise it is the first of `preferred` with a value at most checkpoints of every run, else
    the one with a value at the most checkpoints.

    Raises
    ------
    InputError
        When the wanted target is not there.
    """
    if wanted is not None:
        columns = [column for column in series.columns() if column in series.values]
        matching = [name for name in (*series.targets, *columns) if name == wanted]
        matching = matching or [column for column in columns if column.endswith(f"/{wanted}")]
        if len(matching) != 1:
            usable = [name for name in series.targets if series.values[name].notna().any()]
            have = f"name {', '.join(usable)}, or" if usable else "it has no loss; name"
            near = did_you_mean(wanted, [*usable, *columns])
            raise InputError(
                "no such target", argument="target", value=wanted, remedy=f"{have} one of its features{near}"
            )
        return matching[0]
    there = [name for name in preferred if name in series.targets]
    for name in there:
        measured_share = series.values.groupby("run")[name].apply(lambda values: values.notna().mean())
        if (measured_share > 0.5).all():
            return name
    return max(there, key=lambda name: series.values[name].notna().mean(), default="")


def chosen_targets(
    series: SeriesTable, subject: Subject, target: str, wanted: Sequence[str], brought: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the targets that correlations are taken with, and those of them that were brought along.

    If `wanted` were requested, only these and the further ones are used; otherwise the usual losses are.
    Qualities in the rows that the subject does not prefer count as brought along.
    """
    targets_declared = {*subject.targets, *series.default_targets}
    along = {*brought, *(name for name in series.own if name not in targets_declared)}
    more = tuple(name for name in series.targets if name in along and name != target)
    chosen = wanted if wanted else series.default_targets
    first = [target] if target else []
    return tuple(dict.fromkeys([*first, *chosen, *more])), tuple(t for t in more if t not in wanted)
