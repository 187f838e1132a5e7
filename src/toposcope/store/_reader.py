"""The contents of a store as tables, findings and a plot."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from toposcope.core.answered import Tables, answered, counted
from toposcope.core.observations import AuditFinding
from toposcope.core.types import RunRecord, Status
from toposcope.store import ledger, log, newest, part_faults, parts
from toposcope.store.reading import expression, steady
from toposcope.store.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


REMEASURE = "bring it back, or repeat the sweep"
WITH_HIDDEN = "copy the whole store again, hidden folders too"
REMOVE = "remove it; stores are joined by a merge, not by copying files"


class StoreReader:
    """The reading part of `toposcope.store.Store`: its tables, its problems and its checkpoints."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last = -1

    def catalogue(self) -> pd.DataFrame:
        """Return what the probes of the store declare: one line for each of their features.

        Columns probe, feature, label, unit, kind, null_of, primary, description, scopes, filtrations,
        aggregate, excess_of, per_log_step_of, target, log_target, about and leads are the fields of
        `toposcope.core.types.Feature`; a line of `leads` is a use and the place in it, such as "change=1".
        """
        return self._whole("catalogue").to_pandas()

    def runs(self) -> pd.DataFrame:
        """Return the runs, one line each."""
        return self._whole("runs").to_pandas()

    def run(self, name: str) -> RunRecord | None:
        """Return the facts about a run; None if there are none."""
        lines = (line for line in self._whole("runs").to_pylist() if line["run"] == name)
        run_line = next(lines, None)
        return (
            None
            if run_line is None
            else RunRecord(**run_line | {"config": json.loads(run_line["config"] or "{}")})
        )

    def metrics(
        self, run: str | None = None, *, first: float = -math.inf, last: float = math.inf
    ) -> pd.DataFrame:
        """Return the metrics, one line per run and step: all, or those of a run, or of a range of steps."""
        return log.read(self.path / "metrics", run, first, last).to_pandas()

    def audit(self) -> pd.DataFrame:
        """Return the findings of the audits of the series as a table."""
        return self._whole("audit").to_pandas()

    def audited(self, uri: str | None = None) -> list[AuditFinding]:
        """Return the findings of the audits of all series, or of one."""
        lines = self._whole("audit").to_pylist()
        return [_finding(line) for line in lines if uri in (None, line["uri"])]

    def features(
        self, probe: str | None = None, feature: str | Sequence[str] | None = None, run: str | None = None
    ) -> pd.DataFrame:
        """Return the feature lines, all or those of one probe, feature (or several) and run.

        The order does not depend on the form of the parts: run, probe, feature, step.
        """
        return self._measured("features", probe=probe, run=run, feature=feature).to_pandas()

    def diagrams(
        self,
        probe: str | None = None,
        name: str | None = None,
        run: str | None = None,
        scope: str | None = None,
    ) -> pd.DataFrame:
        """Return the stored diagrams; each line has one array `birth` and one array `death`."""
        return self._measured("diagrams", probe=probe, run=run, name=name, scope=scope).to_pandas()

    @property
    def tables(self) -> Tables:
        """The store's tables by name, each read on first use."""
        return Tables(**{name: getattr(self, name) for name in TABLES})

    @property
    def findings(self) -> tuple[AuditFinding, ...]:
        """The findings of an audit of the checkpoints, and what could not be measured."""
        audited = self.audited()
        failed = self._measured("features", status=str(Status.FAILED)).to_pylist()
        lost = (
            AuditFinding(
                row["run"],
                row["step"],
                row["name"] or "",
                f"{row['probe']}: {row['note']}",
                fault="not measured",
            )
            for row in failed
        )
        gone = (AuditFinding("", None, "", text, fault=fault) for fault, text in self._part_faults())
        return tuple(dict.fromkeys([*audited, *lost, *gone]))

    def part_faults(self) -> tuple[str, ...]:
        """Return a sentence for each part that is missing, altered, or of another store."""
        return tuple(f"{self.path}/{text}" for _, text in self._part_faults())

    def _part_faults(self) -> Iterator[tuple[str, str]]:
        for name in self.missing():
            yield "missing-part", f"{name} was written and is gone; {REMEASURE}"
        if not (self.path / ledger.FOLDER).is_dir():
            if any(part_faults.strangers(self.path / table) for table in TABLES):
                yield "no-ledger", f"{ledger.FOLDER} is gone, so no part can be checked; {WITH_HIDDEN}"
            return
        for table in TABLES:
            if damaged := ledger.of(self.path / table).damaged:
                lines = "a line" if damaged == 1 else f"{damaged:,} lines"
                yield (
                    "damaged-ledger",
                    f"{ledger.FOLDER}/{table} has {lines} that cannot be read; {WITH_HIDDEN}",
                )
            for name in part_faults.strangers(self.path / table):
                yield "foreign-part", f"{table}/{name} was not written into this store; {REMOVE}"
            for name in part_faults.altered(self.path / table):
                yield "altered-part", f"{table}/{name} is not what was written into this store; {REMEASURE}"

    def missing(self) -> list[str]:
        """Return the files, TABLE/NAME, that were written into the store and are missing now."""
        return [f"{table}/{name}" for table in TABLES for name in part_faults.missing(self.path / table)]

    def measured_steps(self) -> dict[str, list[int]]:
        """Return the steps of every run's measured checkpoints, without reading rows."""
        named = {parts.slug(run): run for run in self.runs()["run"]}
        steps_by_run: dict[str, set[int]] = {}
        for (owner, _, step), _, _ in newest.slots(self._scan("features")):
            steps_by_run.setdefault(named.get(owner, owner), set()).add(step)
        return {run: sorted(steps_by_run[run]) for run in sorted(steps_by_run)}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the measured checkpoints of each run and their problems, and return the axes."""
        from toposcope.core.drawing.checkpoints import draw_checkpoints

        return draw_checkpoints(self.measured_steps(), self.findings, ax)

    def __repr__(self) -> str:
        """Return how much is measured, by which probes, with which problems, and where; no row is read."""
        live, steps = self._scan("features"), self.measured_steps()
        done = counted(sum(map(len, steps.values())), len(steps))
        probes = ", ".join(sorted({part.probe for part in live if not part.failed}))
        failed, audited = sum(part.failed for part in live), len(self.audit())
        gone = len(self.missing())
        counts = ((failed, "not measured"), (audited, "found by the audit"), (gone, "files gone"))
        wrong = [f"{n} {what}" for n, what in counts if n]
        state_text = f"{done} measured by {probes}" if steps else "nothing measured yet"
        faulty = f"; {', '.join(wrong)}: .findings has them" if wrong else ""
        more = ".tables has the numbers, toposcope.analyze says what they show"
        return f"{state_text}{faulty}\nstore {self.path}; {more}"

    def _repr_html_(self) -> str:
        return answered(repr(self), self.runs().drop(columns="config"))

    def _scan(self, table: str) -> list[parts.Part]:
        live = parts.scan(self.path / table)
        self._last = max([self._last, *(part.latest for part in live)])
        return live

    def _newest(self, table: str, live: Sequence[parts.Part]) -> dict[newest.Slot, str]:
        """Return the key that counts in each slot; diagrams of superseded features do not count."""
        others = self._scan("features") if table == "diagrams" and live else []
        return newest.newest([*live, *others])

    def _measured(self, table: str, **wanted: str | Sequence[str] | None) -> pa.Table:
        probe, run = wanted.get("probe"), wanted.get("run")

        def load() -> pa.Table:
            live = self._scan(table)
            counted = self._newest(table, live)
            if probe is not None:
                live = [part for part in live if part.probe == probe]
            if run is not None:
                live = [part for part in live if part.owner == parts.slug(str(run))]
            current, superseded = newest.split(live, counted)
            return parts.read(current, TABLES[table], expression(wanted), superseded)

        return steady(load)

    def _whole(self, table: str) -> pa.Table:
        files = sorted((self.path / table).glob("[!.]*.parquet"))
        whole = [parts.Part(path, path.name, table, pack=True) for path in files]
        return parts.read(whole, TABLES[table])


def _finding(line: dict[str, Any]) -> AuditFinding:
    """Return a line of an audit's table as a finding."""
    many = {name: tuple(line[name] or ()) for name in ("runs", "steps", "tensors")}
    values = {name: value for name, value in line.items() if name != "uri"}
    return AuditFinding(**{**values, **many, "count": line["count"] or 1})
