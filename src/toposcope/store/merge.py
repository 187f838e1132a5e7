"""Merges stores that were measured with the same settings, without measuring again."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path

import pyarrow as pa

from toposcope.core.aside import beside
from toposcope.core.errors import StoreError
from toposcope.core.observations import AuditFinding
from toposcope.core.wording import command
from toposcope.store import MANIFEST, inside, parts
from toposcope.store.manifest import difference, kind_of_store
from toposcope.store.newest import Slot, newest, slots
from toposcope.store.reading import steady
from toposcope.store.schema import COMPANIONS, REPLACED, TABLES
from toposcope.store.store import Store

_MEASURED = ("features", "diagrams")


@dataclass(frozen=True, slots=True)
class Renamed:
    """A run that was renamed because another store has a different run of this name."""

    store: Path
    run: str
    name: str


def merge(stores: Sequence[Store], out: str | Path) -> tuple[Store, tuple[Renamed, ...]]:
    """Write the measurements of several stores into a new one; return it, and the runs that were renamed.

    Nothing is measured, and the stores do not change. Two runs of the same name count as one run if a probe
    read the same content at the same step, or if they share no step and come from one location; otherwise
    each is renamed to STORE/RUN. The folder `out` appears complete or not at all; if it already is this
    merge, it stays.

    Raises
    ------
    StoreError
        If a store was made with another recipe or is given twice, there are fewer than two, or `out` contains
        something else.

    Examples
    --------
    >>> import tempfile
    >>> from toposcope.store.units import Unit
    >>> from toposcope.core.types import Row
    >>> made = [Store.create(tempfile.mkdtemp(), recipe={"points": 200}) for _ in "ab"]
    >>> for store, run in zip(made, "ab"):
    ...     unit = Unit(run=run, step=0, probe="baselines", version=1, content_hash=run)
    ...     store.write(unit, [Row(run=run, step=0, probe="baselines", feature="weight_norm", value=2.0)])
    >>> merge(made, Path(tempfile.mkdtemp()) / "both")[0].features().run.tolist()
    ['a', 'b']
    """
    out = Path(out)
    _check(stores, out)
    names = _names(stores)
    changed = [
        Renamed(store.path, run, name)
        for store, of_store in zip(stores, names, strict=True)
        for run, name in of_store.items()
        if run != name
    ]
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        _check_there(out, stores, names)
        return Store.open(out), tuple(changed)
    out.parent.mkdir(parents=True, exist_ok=True)
    with beside(out) as aside:
        merged = Store.create(aside, recipe=stores[0].recipe)
        for number, store in enumerate(stores):
            steady(partial(_copy_measured, store, aside, names[number]))
            _copy_files(store, aside, names[number])
        _write_rest(stores, merged, names)
        merged.compact()
        _drop_settled_failures(aside)
        try:
            if out.is_dir():
                out.rmdir()  # empty when it was checked above
            os.replace(aside, out)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            _check_there(out, stores, names)  # another process wrote it meanwhile
    return Store.open(out), tuple(changed)


def _check_there(out: Path, stores: Sequence[Store], names: Sequence[Mapping[str, str]]) -> None:
    """Refuse a folder that contains anything but this merge."""
    if not _holds(out, stores, names):
        raise StoreError(f"{out} exists and is not an earlier run of this merge; name a new folder")


def _check(stores: Sequence[Store], out: Path) -> None:
    places = [store.path.resolve() for store in stores]
    again = next((store for i, store in enumerate(stores) if places[i] in places[:i]), None)
    if again is not None:
        raise StoreError(f"{again.path} is given twice; leave one out")
    if len(stores) < 2:
        raise StoreError(
            "merge takes two stores or more: " + command("merge", stores[0].path, "OTHER", out=out)
        )
    first = stores[0]
    for store in stores[1:]:
        if store.recipe_hash == first.recipe_hash:
            continue
        if (kind := kind_of_store(store.recipe)) != kind_of_store(first.recipe):
            raise StoreError(
                f"{store.path} holds {kind}, {first.path} holds {kind_of_store(first.recipe)}; merge "
                "stores of one kind"
            )
        raise StoreError(
            f"{store.path} was measured with other settings than {first.path} "
            f"({difference(first.recipe, store.recipe)}), so they cannot be joined; measure one again"
        )


def _holds(out: Path, stores: Sequence[Store], names: Sequence[Mapping[str, str]]) -> bool:
    """Return whether `out` already is this merge: a store with every unit and the same content."""
    if not (out / MANIFEST).is_file():
        return False
    offered: dict[Slot, set[str]] = {}
    for store, of_store in zip(stores, names, strict=True):
        slugs = {parts.slug(run): parts.slug(name) for run, name in of_store.items()}
        for (slug, probe, step), key in newest(parts.scan(store.path / "features")).items():
            offered.setdefault((slugs[slug], probe, step), set()).add(key)
    have = newest(parts.scan(out / "features"))
    return all(have.get(slot) in keys for slot, keys in offered.items())


def _names(stores: Sequence[Store]) -> list[dict[str, str]]:
    """Return, for each store, the new name of each of its runs."""
    store_runs = [_runs(store) for store in stores]
    differing = {
        run
        for first, other in combinations(range(len(stores)), 2)
        for run in store_runs[first].keys() & store_runs[other].keys()
        if not _same(store_runs[first][run], store_runs[other][run])
    }
    labels = _labels([store.path for store in stores])
    return [
        {run: f"{label}/{run}" if run in differing else run for run in runs}
        for label, runs in zip(labels, store_runs, strict=True)
    ]


@dataclass(frozen=True)
class _Known:
    """The identity of a run: its source, and the key of each probe and step."""

    uri: str
    keys: Mapping[tuple[str, int], str]


def _runs(store: Store) -> dict[str, _Known]:
    keys: dict[str, dict[tuple[str, int], str]] = {}
    for (slug, probe, step), _, held in slots(parts.scan(store.path / "features")):
        keys.setdefault(slug, {})[probe, step] = held.key
    listed = store.runs()
    uris = dict(zip(listed["run"].astype(str), listed["uri"].fillna("").astype(str), strict=True))
    uris |= {run: uris.get(run, "") for run in store.features()["run"].astype(str).unique()}
    return {run: _Known(uri, keys.get(parts.slug(run), {})) for run, uri in uris.items()}


def _same(first: _Known, other: _Known) -> bool:
    shared = first.keys.keys() & other.keys.keys()
    if shared:
        return any(first.keys[slot] == other.keys[slot] for slot in shared)
    return bool(first.uri) and first.uri == other.uri


def _labels(paths: Sequence[Path]) -> list[str]:
    """Return the shortest endings of paths that differ.

    >>> _labels([Path("/a/store"), Path("/b/store")]), _labels([Path("/a/x"), Path("/a/y")])
    (['a/store', 'b/store'], ['x', 'y'])
    """
    whole = [path.resolve().parts[1:] for path in paths]
    for count in range(1, max(map(len, whole))):
        ends = ["/".join(part[-count:]) for part in whole]
        if len(set(ends)) == len(ends):
            return ends
    return ["/".join(part) for part in whole]


def _copy_measured(store: Store, out: Path, names: Mapping[str, str]) -> None:
    slugs = {parts.slug(run): parts.slug(name) for run, name in names.items()}
    for table in _MEASURED:
        for part in parts.scan(store.path / table):
            noted = parts.file_metadata(part.path)
            if part.pack:
                noted["replaces"] = {}
            rest = part.path.name.removeprefix(part.owner)
            target = out / table / f"{slugs.get(part.owner, part.owner)}{rest}"
            parts.write_atomically(_renamed(parts.read_whole(part.path), names), target, noted)


def _renamed(table: pa.Table, names: Mapping[str, str]) -> pa.Table:
    at = table.column_names.index("run")
    runs = [names.get(run, run) for run in table.column("run").to_pylist()]
    return table.set_column(at, table.schema.field(at), pa.array(runs, pa.string()))


def _copy_files(store: Store, out: Path, names: Mapping[str, str]) -> None:
    """Copy the files beside the tables, such as sampled surfaces: FOLDER/RUN/FILE."""
    for path in _files(store.path):
        relative = path.relative_to(store.path)
        folder, rest = relative.parts[0], relative.relative_to(relative.parts[0]).as_posix()
        run = max((run for run in names if rest.startswith(f"{run}/")), key=len, default="")
        target = out / folder / names.get(run, "") / rest.removeprefix(f"{run}/" if run else "")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


_BESIDE = (*TABLES, COMPANIONS, REPLACED)
"""Folders of a store whose files are not copied as they are: they have the names of runs."""


def _files(path: Path) -> Iterator[Path]:
    for folder in sorted(path.iterdir()):
        if folder.is_dir() and folder.name not in _BESIDE and not folder.name.startswith("."):
            inside.refuse_linked(folder)
            for file in sorted(folder.rglob("*")):
                if not file.is_dir() and not inside.is_plain(file):
                    raise inside.not_plain(file)
                if not file.is_dir():
                    yield file


def _write_rest(stores: Sequence[Store], merged: Store, names: Sequence[Mapping[str, str]]) -> None:
    """Write runs, metrics, catalogue and audit; for a run or probe in two stores, the first counts."""
    import pandas as pd

    for table in ("runs", "catalogue"):
        for store, of_store in reversed(list(zip(stores, names, strict=True))):
            for path in sorted((store.path / table).glob("[!.]*.parquet")):
                held = parts.read_whole(path)
                held = _renamed(held, of_store) if table == "runs" else held
                name = parts.slug(str(held.column("run")[0])) if table == "runs" and len(held) else path.stem
                parts.write_atomically(
                    held, merged.path / table / f"{name}.parquet", parts.file_metadata(path)
                )
    frames = [
        store.metrics().replace({"run": dict(of_store)})
        for store, of_store in zip(stores, names, strict=True)
    ]
    metrics = pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)
    merged.write_metrics(metrics.drop_duplicates(["run", "step"]).sort_values(["run", "step"], kind="stable"))
    for store, of_store in reversed(list(zip(stores, names, strict=True))):
        for run in store.metrics()["run"].unique():
            if (beside := store.companions(run)) is not None:
                merged.write_companions(of_store.get(run, run), beside)
            if (replaced := store.replaced(run)) is not None:
                merged.write_replaced(of_store.get(run, run), replaced)
    audited: dict[str, dict[AuditFinding, None]] = {}
    for store, of_store in zip(stores, names, strict=True):
        for uri in sorted(set(store.audit()["uri"])):
            merged_findings = audited.setdefault(uri, {})
            for finding in store.audited(uri):
                runs = tuple(of_store.get(run, run) for run in finding.runs)
                merged_findings[replace(finding, run=of_store.get(finding.run, finding.run), runs=runs)] = (
                    None
                )
    for uri, found in audited.items():
        merged.write_audit(uri, found)


def _drop_settled_failures(out: Path) -> None:
    """Remove the record that a probe failed if another store has its unit."""
    live = parts.scan(out / "features")
    done = {slot for slot, _, _ in slots(live)}
    for part in live:
        if part.failed and (part.owner, part.probe, int(part.path.name.split(".")[1])) in done:
            part.path.unlink()
