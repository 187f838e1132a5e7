"""Exports of a store: wide tables and labelled arrays."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toposcope.core.errors import InputError, MissingExtraError, StoreError
from toposcope.core.forms import listed
from toposcope.core.outputs import for_writing, replacing
from toposcope.core.tabular import write_csv
from toposcope.core.types import Scope, Status
from toposcope.store.store import Store

if TYPE_CHECKING:
    import pandas as pd

LONG, WIDE = "long", "wide"

_LEFT_OUT = (Status.FAILED, Status.UNCONVERGED)
"""Statuses of rows whose numbers must not be read; the long table has these rows, with their notes."""

_LISTS = ("birth", "death", "scopes", "filtrations", "leads", "runs", "steps", "tensors")
"""Columns whose cells are lists."""


def wide(features: pd.DataFrame) -> pd.DataFrame:
    """Return one line per run and step and one column per measured number.

    Columns are named ``probe/name/filtration/feature`` (empty parts are left out). Numbers with several draws
    become their mean, with a second column ``.../sd`` for the sample standard deviation. Lines of failed
    units and of values that did not converge are left out.

    >>> import pandas as pd
    >>> about = {"run": "a", "step": 0, "probe": "rips", "name": "pooled", "role": "model", "status": "ok"}
    >>> empty = {"scope": "pooled", "filtration": "", "layer": None, "head": None}
    >>> frame = pd.DataFrame(about | empty | {"feature": "h0_total", "draw": [0, 1], "value": [1.0, 3.0]})
    >>> wide(frame).iloc[0].to_dict()
    {'run': 'a', 'step': 0, 'rips/pooled/h0_total': 2.0, 'rips/pooled/h0_total/sd': 1.4142135623730951}
    """
    import pandas as pd

    shown = features[~features["status"].isin(_LEFT_OUT)]
    parts = [shown["probe"], items(shown, " "), shown["filtration"].fillna(""), shown["feature"]]
    labels = pd.Series(map("/".join, zip(*parts, strict=True)), index=shown.index, dtype=object)
    column = labels.str.replace(r"/+", "/", regex=True)
    grouped = shown.assign(column=column).groupby(["run", "step", "column"])["value"]
    mean, sd = grouped.mean().unstack(), grouped.std().unstack().dropna(axis="columns", how="all")
    joined = mean.join(sd.add_suffix("/sd"))
    return joined[sorted(joined.columns)].rename_axis(columns=None).reset_index()


def arrays(features: pd.DataFrame) -> dict[str, Any]:
    """Return one `xarray.Dataset` per probe: a variable per feature over run, step, item and draw.

    An item is the object of a row, such as ``head.weight|rieck`` or ``role mlp|rieck``. Draw -1 means no
    draw. Values that were not measured are NaN.

    Raises
    ------
    MissingExtraError
        Without xarray.
    """
    _need("xarray")  # pandas imports it
    shown = features[~features["status"].isin(_LEFT_OUT)].copy()
    shown["draw"] = shown["draw"].fillna(-1).astype("int64")
    filtration = "|" + shown["filtration"].fillna("")
    shown["item"] = (items(shown, "|") + filtration).str.removesuffix("|").astype(object)
    shown["run"] = shown["run"].astype(object)
    arrays_by_probe = {}
    for probe, rows in shown.groupby("probe", sort=True):
        table = rows.pivot_table(index=["run", "step", "item", "draw"], columns="feature", values="value")
        arrays_by_probe[str(probe)] = table.to_xarray()
    return arrays_by_probe


def _need(*modules: str) -> None:
    for name in modules:
        if importlib.util.find_spec(name) is None:
            raise MissingExtraError(name, "export")


def items(features: pd.DataFrame, separator: str) -> pd.Series:
    """Return the object of each row: its name, with role, layer or head if the name alone is ambiguous.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"probe": "p", "scope": ["role", "layer", "layer"], "role": ["mlp", "", ""],
    ...                       "name": ["role", "hidden", "hidden"], "layer": [None, 0, 6], "head": None})
    >>> items(frame, " ").tolist()
    ['role mlp', 'hidden layer 0', 'hidden layer 6']
    """
    name = (
        features["name"]
        .astype(object)
        .where(features["scope"] != Scope.ROLE, "role " + features["role"].astype(object))
    )
    for column in ("layer", "head"):
        values = features[column]
        ambiguous = (
            features.assign(values=values).groupby(["probe", "name"])["values"].transform("nunique") > 1
        )
        suffix = values.map(
            lambda value, column=column: f"{separator}{column} {int(value)}", na_action="ignore"
        )
        name = name + suffix.astype(object).where(ambiguous & values.notna(), "")
    return name


def export(store: Store, out: Path, *, kind: str, shape: str) -> list[Path]:
    """Write a store's tables into the folder `out` and return the files.

    `kind` is "csv", "json" or "netcdf"; `shape` is "long" (the tidy rows) or "wide". NetCDF has only the
    features, in one shape: a group for each probe, with the dimensions run, step, item and draw. The root has
    no data; its attribute "open" is the call that opens a group.

    Raises
    ------
    MissingExtraError
        If NetCDF is requested without xarray or netCDF4; then nothing is written.
    """
    if kind == "netcdf":
        _need("xarray", "netCDF4")
    outside(store, out).mkdir(parents=True, exist_ok=True)
    features = store.features()
    if kind == "netcdf":
        return [_netcdf(store, features, out / "features.nc")]
    tables = {"features": wide(features) if shape == WIDE else features}
    tables |= {"catalogue": store.catalogue()}
    tables |= {"metrics": store.metrics(), "runs": store.runs(), "audit": store.audit()}
    diagrams = store.diagrams()
    if len(diagrams):
        tables["diagrams"] = diagrams
    return [_write(table, out / f"{name}.{kind}") for name, table in tables.items()]


def outside(store: Store, out: Path) -> Path:
    """Return the folder of an export; one inside the store would lie among its tables.

    Raises
    ------
    InputError
        When it is the store, or lies inside it.
    """
    folder, place = Path(os.path.realpath(out)), Path(os.path.realpath(store.path))
    if folder == place or place in folder.parents:
        raise InputError(
            "this lies inside the store", argument="out", value=out, remedy="choose a folder outside it"
        )
    return out


def _write(table: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".json":
        with replacing(path) as aside:
            aside.write_text(json.dumps(records(table), indent=1) + "\n", encoding="utf-8")
        return path
    flat = table.assign(**{name: table[name].map(_in_a_cell) for name in _LISTS if name in table})
    write_csv(flat, path)
    return path


def _in_a_cell(items: Iterable[object] | None) -> str:
    """Return a list as one cell of a CSV: numbers as Python writes them, names as they are."""
    return " ".join(str(item) for item in (() if items is None else items))


def records(table: pd.DataFrame) -> list[dict[str, object]]:
    """Return the lines as plain JSON values; infinite deaths become the strings of Python's floats.

    >>> import pandas as pd
    >>> records(pd.DataFrame({"draw": [0.0, None], "death": [[1.0, float("inf")], []]}))
    [{'draw': 0.0, 'death': [1.0, 'inf']}, {'draw': None, 'death': []}]
    """
    return [{str(key): _plain(value) for key, value in row.items()} for row in table.to_dict("records")]


def _plain(value: object) -> object:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list):
        return [item if isinstance(item, str) or abs(item) < float("inf") else str(item) for item in value]
    if value is None or value != value:
        return None
    return value if isinstance(value, str | int | float | bool) else str(value)


def _netcdf(store: Store, features: pd.DataFrame, path: Path) -> Path:
    for_writing(path).unlink(missing_ok=True)
    for probe, dataset in arrays(features).items():
        if not path.exists():
            _root(path, netcdf_groups(features))
        dataset.attrs = {"recipe": json.dumps(store.recipe), "recipe_hash": store.recipe_hash, "probe": probe}
        dataset.to_netcdf(path, mode="a", group=_group(probe), engine="netcdf4")
    if not path.exists():
        raise StoreError(f"{store.path} has no features to export; measure some first")
    return path


def netcdf_groups(features: pd.DataFrame) -> list[str]:
    """Return the groups of a NetCDF file of these features, in order."""
    counted = features[~features["status"].isin(_LEFT_OUT)]
    return [_group(str(probe)) for probe in sorted(counted["probe"].unique())]


def _group(probe: str) -> str:
    return re.sub(r"\W", "_", probe)


def _root(path: Path, groups: Sequence[str]) -> None:
    """Write what `xarray.open_dataset(path)` shows: which groups there are, and how to open one."""
    from xarray import Dataset

    Dataset(attrs={"groups": " ".join(groups), "open": how_to_open(path.name, groups)}).to_netcdf(
        path, mode="w", engine="netcdf4"
    )


def how_to_open(name: str, groups: Sequence[str]) -> str:
    """Return the call that opens one probe's features.

    >>> how_to_open("features.nc", ["rips", "baselines"])
    "xarray.open_dataset('features.nc', group='rips'); the groups are rips and baselines"
    """
    others = f"; the groups are {listed(list(groups))}" if len(groups) > 1 else ""
    return f"xarray.open_dataset({name!r}, group={groups[0]!r}){others}"
