"""What a source of a check holds: the log of its runs, their checkpoints, and what was found there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from toposcope.core.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.core.observations import AuditFinding
    from toposcope.logs import Log
    from toposcope.rules.replaying import Replays
    from toposcope.runs.reading import Reading
    from toposcope.sources.optimizer.resumption import Resumption
    from toposcope.store import Store

LOSSES = ("loss", "heldout_loss")

Changed: TypeAlias = "Callable[[str], Mapping[str, bool]]"
"""By the name of a run: each matrix, and whether it ever changed; empty where that is not known."""
Measured: TypeAlias = "Callable[[], Mapping[str, Mapping[str, Mapping[str, pd.Series]]]]"
"""Returns what was measured: by subject, run and label, a series by step."""

FILE_ALONE = "checkpoints (a log alone was given; give the folder that holds them)"


def alone(place: Contents) -> Contents:
    """Return the contents of the only source; the rows of a log's only run need not name it.

    The names of a long log take as much memory as its losses.
    """
    if place.unseen != FILE_ALONE or len(place.log.runs) != 1:
        return place
    (run,) = place.log.runs
    run = replace(run, table=run.table.drop(columns="run", errors="ignore"))
    return replace(place, log=replace(place.log, runs=(run,)))


def not_measured() -> Mapping[str, Mapping[str, Mapping[str, pd.Series]]]:
    """Return nothing: no feature was measured."""
    return {}


def not_known(run: str) -> Mapping[str, bool]:
    """Return nothing: it is not known which matrices changed."""
    return {}


@dataclass(frozen=True, slots=True)
class AuditOfRun:
    """The audit of a run's checkpoints: its findings, and the last step that has a checkpoint."""

    findings: tuple[AuditFinding, ...] = ()
    last: int | None = None

    @property
    def faulty(self) -> bool:
        """Whether a finding asks for an action."""
        return any(not finding.is_remark for finding in self.findings)


def audit_of_run(run: str, steps: Sequence[int], audit: Iterable[AuditFinding]) -> AuditOfRun:
    """Return what the audit of a source says of one of its runs, which has checkpoints at these steps."""
    findings = tuple(finding for finding in audit if run in finding.every_run)
    named = (step for finding in findings for step in finding.every_step)
    return AuditOfRun(findings, max([*steps, *named], default=None))


@dataclass(frozen=True)
class Contents:
    """The contents of one source: the log of its runs, and the audit of their checkpoints.

    `name` is the name of the source. `steps` are the checkpoints of each run, `audit` the findings, and
    `unseen` the parts of the checkpoints that were not checked. `said` names the columns that were used as
    step and loss, and `repaired` what was cut or left out of the log. `problems` are logs in a folder that
    cannot be read, and `no_logs` the files that are not logs. `changed` has for each run the matrices that
    ever changed. `to_add` says how its runs get losses where a log in the folder would not be read. `replays`
    repeats the alarms of the watch of a store, and `measured` returns the features of its runs. `question`
    names logs of the run that disagree. `resume` says whether the runs can be resumed.
    """

    name: str
    log: Log
    said: str
    steps: Mapping[str, Sequence[int]] = field(default_factory=dict)
    audit: tuple[AuditFinding, ...] = ()
    unseen: str = ""
    repaired: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    no_logs: tuple[str, ...] = ()
    changed: Changed = not_known
    to_add: str = ""
    replays: Replays | None = None
    question: str = ""
    measured: Measured = not_measured
    resume: tuple[Resumption, ...] = ()

    def audit_of(self, run: str) -> AuditOfRun:
        """Return the audit of the checkpoints of a run."""
        return audit_of_run(run, self.steps.get(run, ()), self.audit)


@dataclass(frozen=True)
class StoreFacts:
    """What a check takes from a store beside its losses; higher rooms that know its measurements give it.

    `changed` says of a run which of its matrices ever changed, `to_add` how its runs get losses, `replays`
    repeats the alarms of its watch. `measured` returns the features of its runs.
    """

    changed: Changed = not_known
    to_add: str = ""
    replays: Replays | None = None
    measured: Measured = not_measured


OfStore: TypeAlias = "Callable[[Store], StoreFacts]"
"""Reads what a check takes from a store beside its losses."""


def nothing_more(store: Store) -> StoreFacts:
    """Return nothing beside the losses of a store."""
    return StoreFacts()


def logged(source: str | pd.DataFrame, name: str, reading: Reading) -> Contents:
    """Return the contents of one log or table."""
    from toposcope.runs.reading import log_of

    run = Path(name).name.removesuffix(Path(source).suffix) if isinstance(source, str) else "run"
    log = log_of(source, run, reading)
    sentence, _, repaired = log.said.partition("; ")
    notes = tuple(repaired.split("; ")) if repaired else ()
    return Contents(name, log, sentence, unseen=FILE_ALONE, repaired=notes)


def refuse_unknown_column(column: str | None, contents: Sequence[Contents]) -> None:
    """Raise InputError where no source has the column that was named."""
    tables = [run.table for place in contents for run in place.log.runs]
    if column is None or any(column in table for table in tables):
        return
    names = dict.fromkeys(
        str(name)
        for table in tables
        for name in table.select_dtypes("number")
        if name not in ("step", "tokens") and table[name].notna().any()
    )
    raise InputError(
        "no log has such a column", argument="column", value=column,
        remedy=f"name one of {', '.join(names)}" if names else "leave it out",
    )  # fmt: skip


def said_of(name: str, error: InputError) -> str:
    """Return the problem with a source, with its name in front if the message lacks it."""
    text = str(error)
    return text if Path(name).name in text else f"{name}: {text}"
