"""The store: a folder with the runs, metrics, features, diagrams and audit of one study."""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from toposcope.core.errors import StoreError
from toposcope.core.observations import AuditFinding
from toposcope.core.types import Checkpoint, Feature, Row, RunRecord, Status
from toposcope.store import columns, inside, log, newest, part_faults, parts
from toposcope.store._guess import what_else
from toposcope.store._reader import StoreReader
from toposcope.store.held import HeldUnit
from toposcope.store.manifest import (
    MANIFEST,
    difference,
    kind_of_store,
    provenance,
    read_manifest,
    write_manifest,
)
from toposcope.store.reading import steady
from toposcope.store.schema import COMPANIONS, METRICS, REPLACED, SCHEMA_VERSION, TABLES
from toposcope.store.units import KeptDiagram, Result, Unit, recipe_hash

if TYPE_CHECKING:
    import pandas as pd

_MEASURED = ("features", "diagrams")


class Store(StoreReader):
    """A results folder. Open one with `toposcope.open_store`; printed, it lists its contents.

    `Store.create` makes one for a recipe, as `toposcope.measure` does.

    Many processes can write to one store at once, on one machine or on a shared folder, without a lock: a
    unit is one file, or a line of a pack's footer, and appears complete or not at all. Only the newest unit
    of a run, step and probe counts. A unit that was measured on an earlier version of the checkpoint, or of
    the previous checkpoint, is not used again.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> store = Store.create(folder, recipe={"points": 200})
    >>> unit = Unit(run="a", step=0, probe="baselines", version=1, content_hash="f0")
    >>> row = Row(run="a", step=0, probe="baselines", feature="weight_norm", value=2.0)
    >>> store.write(unit, [row])
    >>> store.has(unit), Store.open(folder).features().value.tolist()
    (True, [2.0])
    """

    def __init__(self, path: str | Path, recipe: Mapping[str, object] | None = None) -> None:
        if recipe is None:
            raise StoreError(
                f"Store({str(path)!r}) has no recipe; open a store with toposcope.open_store(path), or "
                "make one with toposcope.Store.create(path, recipe=...)"
            )
        super().__init__(Path(path))
        self.recipe = dict(recipe)
        self.recipe_hash = recipe_hash(recipe)
        self._known: dict[str, dict[newest.Slot, str]] = {}

    @classmethod
    def create(cls, path: str | Path, *, recipe: Mapping[str, object]) -> Self:
        """Make the folder, or open it if it is a store of the same recipe.

        Raises
        ------
        StoreError
            If the folder contains something else, another recipe or another schema version.
        """
        path = Path(path)
        try:
            str(path).encode()
        except UnicodeEncodeError:
            raise StoreError(f"{str(path)!r}: this name is not UTF-8; choose another") from None
        if path.exists() and not path.is_dir():
            raise StoreError(f"{path} is a file; a store is a folder: choose another name")
        if path.is_dir() and not (path / MANIFEST).exists() and any(path.iterdir()):
            raise StoreError(f"{path} holds files but is not a store; choose an empty or new folder")
        if not (path / MANIFEST).exists():
            write_manifest(path, recipe)
        store = cls.open(path)
        if store.recipe_hash != recipe_hash(recipe):
            if (kind := kind_of_store(store.recipe)) != kind_of_store(recipe):
                raise StoreError(f"{path} holds {kind}, not {kind_of_store(recipe)}: choose another folder")
            differs = difference(store.recipe, recipe)
            raise StoreError(
                f"{path} was measured with other settings ({differs}); choose another folder, or the "
                "settings that it was measured with"
            )
        return store

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open an existing store.

        Raises
        ------
        StoreError
            If there is none, or it has another schema version.
        """
        path = Path(path)
        try:
            manifest = read_manifest(path)
            version = manifest["schema_version"]
            recipe = dict(manifest["recipe"])
        except (FileNotFoundError, NotADirectoryError):
            raise StoreError(what_else(path)) from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise StoreError(
                f"{path / MANIFEST} is damaged; restore it or measure into another folder"
            ) from error
        if version != SCHEMA_VERSION:
            written_by = manifest.get("toposcope", "unknown")
            raise StoreError(
                f"{path} has schema version {version} (written by toposcope {written_by}), this one reads "
                f"version {SCHEMA_VERSION}; use that toposcope, or measure again into another folder"
            )
        return cls(path, recipe)

    def has(self, unit: Unit, *, diagrams: bool = False) -> bool:
        """Return whether `unit` is already measured, with its diagrams if they are required.

        A unit that was replaced by a newer one of the same run, step and probe does not count.
        """
        tables = _MEASURED if diagrams else ("features",)
        return all(self._has(table, unit) for table in tables)

    def write(
        self,
        unit: Unit,
        rows: Iterable[Row],
        diagrams: Iterable[KeptDiagram] | None = None,
        *,
        seconds: float = 0.0,
    ) -> None:
        """Write one unit; with `diagrams` None, no diagrams are stored."""
        given = None if diagrams is None else tuple(diagrams)
        result = Result(unit, tuple(rows), given or (), seconds)
        self.write_results([result], keep_diagrams=given is not None)

    def write_results(self, results: Sequence[Result], *, keep_diagrams: bool) -> None:
        """Write finished units of one run and probe as one file per table.

        The features are written last, because their presence marks a unit as done.
        """
        if not results:
            return
        if len({(result.unit.run, result.unit.probe) for result in results}) > 1:
            raise ValueError("results of one call must share their run and probe")
        now = self._write_number()
        if keep_diagrams:
            self._write("diagrams", results, columns.diagrams(results, self.recipe_hash), now)
        self._write("features", results, columns.features(results, self.recipe_hash), now)
        for result in results:
            self.clear_failure(result.unit)

    def write_failure(self, unit: Unit, note: str) -> None:
        """Record that `unit` failed; it counts as missing, so the next sweep tries it again."""
        at = Checkpoint(unit.run, unit.step, unit.tokens)
        row = Row(
            at.run,
            at.step,
            unit.probe,
            "failed",
            float("nan"),
            tokens=at.tokens,
            status=Status.FAILED,
            note=note,
        )
        table = columns.features([Result(unit, (row,))], self.recipe_hash)
        parts.write_atomically(table, self._failure_path(unit), self._metadata())

    def clear_failure(self, unit: Unit) -> None:
        """Remove the record that the probe of `unit` failed at its checkpoint, if there is one."""
        self._failure_path(unit).unlink(missing_ok=True)

    def write_runs(self, runs: Iterable[RunRecord]) -> None:
        """Write the facts about each run; they replace the earlier ones."""
        for run in runs:
            path = self.path / "runs" / f"{parts.slug(run.run)}.parquet"
            parts.write_atomically(columns.runs([run]), path, self._metadata())

    def write_metrics(self, metrics: pd.DataFrame, *, add: bool = False) -> None:
        """Write per-step metrics; those of a run replace its earlier ones.

        With `add`, they replace only rows at the same steps, and rows at other steps remain.
        """
        write = log.put if add else log.write
        for run, frame in metrics.groupby("run", sort=True):
            frame = frame.reindex(columns=METRICS.names)
            table = pa.Table.from_pandas(frame, schema=METRICS, preserve_index=False)
            write(self.path / "metrics", str(run), table, self._metadata())

    def write_companions(self, run: str, table: pd.DataFrame) -> None:
        """Write the columns beside a run's loss, such as a reward, by step; they replace its earlier ones."""
        self._write_beside(COMPANIONS, run, table)

    def companions(self, run: str) -> pd.DataFrame | None:
        """Return the columns beside a run's loss by step; None where there are none."""
        return self._beside(COMPANIONS, run)

    def write_replaced(self, run: str, table: pd.DataFrame) -> None:
        """Write the rows of a run's log that restarts replaced, in its order; they replace earlier ones."""
        names = ["step", *(name for name in METRICS.names if name in table and name not in ("run", "step"))]
        self._write_beside(REPLACED, run, table[names].astype(float))

    def replaced(self, run: str) -> pd.DataFrame | None:
        """Return the rows of a run's log that restarts replaced, in its order; None where there are none."""
        return self._beside(REPLACED, run)

    def _write_beside(self, folder: str, run: str, table: pd.DataFrame) -> None:
        path = self.path / folder / f"{parts.slug(run)}.parquet"
        parts.write_atomically(pa.Table.from_pandas(table, preserve_index=False), path, self._metadata())

    def _beside(self, folder: str, run: str) -> pd.DataFrame | None:
        path = self.path / folder / f"{parts.slug(run)}.parquet"
        inside.refuse_linked(path.parent)
        if not os.path.lexists(path):
            return None
        os.close(inside.opened(path))  # it is a plain file
        table: pd.DataFrame = parts.read_whole(path).to_pandas()
        return table

    def write_audit(self, uri: str, findings: Iterable[AuditFinding]) -> None:
        """Write the findings of an audit of the series `uri`; they replace its earlier findings."""
        path = self.path / "audit" / f"{parts.slug(uri)}.parquet"
        parts.write_atomically(columns.findings(uri, findings), path, self._metadata())

    def write_catalogue(self, probe: str, features: Iterable[Feature]) -> None:
        """Write what a probe declares; it replaces the probe's earlier lines."""
        path = self.path / "catalogue" / f"{parts.slug(probe)}.parquet"
        parts.write_atomically(columns.catalogue(probe, features), path, self._metadata())

    def compact(self, most: int | None = None) -> int:
        """Join the parts of each run and probe into one file, and return how many files were removed.

        With `most`, files that already have this many units are not joined, so the cost of a further call
        does not grow with the store. Replaced rows are also removed. Readers are always safe, because the
        joined file lists the parts that it replaces before they are removed. Records of failures are not
        joined, because the next sweep may remove them.
        """
        return sum(steady(functools.partial(self._compact, table, most)) for table in _MEASURED)

    def set_broken_aside(self) -> list[Path]:
        """Rename measured parts that are truncated or damaged, so that their units are measured again."""
        moved = []
        for table in _MEASURED:
            for path in sorted((self.path / table).glob("[!.]*.parquet")):
                if parts.set_aside_if_broken(path):
                    moved.append(path)
        return moved

    def _write_number(self) -> int:
        """Return the number of a new write, above every number that this store has seen."""
        if self._last < 0:
            self._live_keys("features")
        self._last = parts.write_number(self._last)
        return self._last

    def _has(self, table: str, unit: Unit) -> bool:
        key, slot = unit.key(self.recipe_hash), _slot(unit)
        live = self._live_keys(table)
        if live.get(slot) == key:
            return True
        if not self._unit_path(table, unit).exists():
            return False
        if slot in live:  # superseded and not yet removed, or written by another launcher just now
            del self._known[table]
            return self._live_keys(table).get(slot) == key
        live[slot] = key
        return True

    def _live_keys(self, table: str) -> dict[newest.Slot, str]:
        def load() -> dict[newest.Slot, str]:
            live = self._scan(table)
            counted = self._newest(table, live)
            return {slot: held.key for slot, _, held in newest.slots(live) if counted[slot] == held.key}

        if table not in self._known:
            self._known[table] = steady(load)
        return self._known[table]

    def _unit_path(self, table: str, unit: Unit) -> Path:
        return (
            self.path / table / parts.unit_name(unit.run, unit.step, unit.probe, unit.key(self.recipe_hash))
        )

    def _failure_path(self, unit: Unit) -> Path:
        return self.path / "features" / parts.failure_name(unit.run, unit.step, unit.probe)

    def _write(self, table: str, results: Sequence[Result], rows: pa.Table, now: int) -> None:
        units = {_slot(result.unit): result.unit.key(self.recipe_hash) for result in results}
        unit = results[0].unit
        if len(results) == 1:
            noted = self._metadata() | {parts.WRITE_NUMBER: now}
            parts.write_atomically(rows, self._unit_path(table, unit), noted)
        else:
            path = self.path / table / parts.pack_name(
                parts.slug(unit.run), unit.probe, list(units.values())
            )  # fmt: skip
            held = [HeldUnit(r.unit.step, units[_slot(r.unit)], now) for r in results]
            self._write_pack(table, path, rows, held, written=now)
        if table in self._known:
            self._known[table].update(units)

    def _write_pack(
        self,
        table: str,
        path: Path,
        rows: pa.Table,
        held: Sequence[HeldUnit],
        *,
        written: int,
        replaces: Mapping[str, int] | None = None,
    ) -> None:
        order = ["feature", "step"] if table == "features" else ["step"]
        noted = self._metadata() | {
            parts.WRITE_NUMBER: written,
            "units": sorted(
                ([unit.step, unit.key, unit.written] for unit in held), key=operator.itemgetter(1)
            ),
            "replaces": dict(sorted((replaces or {}).items())),
        }
        parts.write_atomically(parts.sort_stably(rows, order), path, noted)

    def _compact(self, table: str, most: int | None) -> int:
        live = [part for part in self._scan(table) if not part.failed]
        foreign = set(part_faults.strangers(self.path / table))
        if any(part.path.name in foreign for part in live):
            return 0  # joined with others, what was not written here would count as written here
        full = {part.path for part in live if part.pack and most is not None and len(part.held) >= most}
        if table == "features":  # in a full file with no other at its steps, nothing is superseded
            shared = newest.overlapping(live)
            live = [part for part in live if part.path not in full or part.path in shared]
        wanted = self._newest(table, live)
        groups: dict[tuple[str, str], list[parts.Part]] = {}
        for part in live:
            if part.path not in full or _holds_superseded(part, wanted):
                groups.setdefault((part.owner, part.probe), []).append(part)
        gone = 0
        for group in groups.values():
            if len(group) > 1 or not group[0].pack or _holds_superseded(group[0], wanted):
                gone += self._join(table, group, wanted)
        return gone + self._sweep_up(table)

    def _join(self, table: str, group: Sequence[parts.Part], wanted: Mapping[newest.Slot, str]) -> int:
        """Write the units of a group that count as one pack, and remove the group's files."""
        folder = self.path / table
        current, superseded = newest.split(group, wanted)
        rows = parts.read(current, TABLES[table], superseded=superseded)
        held = newest.live_units(group, wanted)
        name = parts.pack_name(group[0].owner, group[0].probe, [unit.key for unit in held])
        claimed = {part.path: part.written for part in group}
        there = set(os.listdir(folder))
        for part in group:
            claimed |= parts.replaced(part, there)
        old = {path: written for path, written in claimed.items() if path.name != name and path.exists()}
        replaces = {path.name: written for path, written in old.items()}
        self._write_pack(table, folder / name, rows, held, written=self._write_number(), replaces=replaces)
        return sum(parts.remove(path, old[path]) for path in sorted(old))

    def _sweep_up(self, table: str) -> int:
        """Remove files that a pack replaces but whose removal was interrupted."""
        live = self._scan(table)
        there = set(os.listdir(self.path / table)) if live else set()
        stale = [old for part in live for old in parts.replaced(part, there).items()]
        return sum(parts.remove(path, written) for path, written in stale)

    def _metadata(self) -> dict[str, object]:
        return provenance() | {"recipe": self.recipe, "recipe_hash": self.recipe_hash}


def _slot(unit: Unit) -> newest.Slot:
    return parts.slug(unit.run), unit.probe, unit.step


def _holds_superseded(part: parts.Part, wanted: Mapping[newest.Slot, str]) -> bool:
    return any(wanted[slot] != held.key for slot, _, held in newest.slots([part]))


def open_store(path: str | Path) -> Store:
    """Open a store: the folder of results that a measurement, a monitor or a watch wrote.

    Parameters
    ----------
    path
        The store's folder.

    Returns
    -------
    Store
        Printed, it lists its contents; `features()`, `metrics()` and `runs()` are its tables.

    Raises
    ------
    StoreError
        When there is no store at `path`, or it has another schema version.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import toposcope as ts
    >>> folder = tempfile.mkdtemp()
    >>> _ = ts.measure({0: {"fc.weight": np.eye(3)}}, folder, features="baselines")
    >>> print(str(ts.open_store(folder)).splitlines()[0])
    1 checkpoint of 1 run measured by baselines
    """
    if not isinstance(path, str | Path):
        kind = type(path).__name__
        raise StoreError(f"a value of the type {kind} is no store", remedy="give the path of its folder")
    return Store.open(path)
