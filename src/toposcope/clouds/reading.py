"""Reads a cloud of points from a file or an array, and refuses bad input."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from toposcope.core.errors import InputError, did_you_mean
from toposcope.core.forms import listed
from toposcope.core.wording import option
from toposcope.files.blobs import LocalBlob
from toposcope.files.formats.registry import open_file
from toposcope.topology.validation import check_points

LARGEST = 8 * 2**30
"""The most bytes of float64 of a table in memory."""
LEAST_POINTS = 4
"""The fewest distinct points of a ring."""
_NAMED = 5
"""The largest number of arrays that a message names."""
SUFFIXES = (".npy", ".npz", ".safetensors", ".parquet")
"""The endings of files of points."""
_MAGIC = b"\x93NUMPY"


def read_cloud(X: Any, *, tensor: str | None = None, columns: Sequence[str] = ()) -> tuple[np.ndarray, str]:
    """Return the points (n, d) of a file or an array, and the name of the cloud.

    Raises
    ------
    InputError
        If a file cannot be read or contains no cloud or several, or a cloud is not two-dimensional, has NaN
        or infinity, or has fewer than four distinct points.
    """
    if isinstance(X, str | os.PathLike):
        values, name = _of_file(Path(X).expanduser(), tensor, columns)
    else:
        _refuse_parts(tensor, columns)
        values, name = X, "X"
    points = check_points(values, name=name)
    distinct = len(np.unique(np.asarray(points[: 100 * LEAST_POINTS], np.float64), axis=0))
    if distinct < LEAST_POINTS:
        distinct = len(np.unique(np.asarray(points, np.float64), axis=0))
    if distinct < LEAST_POINTS:
        raise InputError(
            f"{name} has {distinct} distinct point{'s' * (distinct != 1)}; a ring needs at least "
            f"{LEAST_POINTS}: give more rows"
        )
    return points, name


def read_sample(X: Any, *, tensor: str | None = None, columns: Sequence[str] = ()) -> tuple[Any, list[str]]:
    """Return a cloud (n, d), a stack of clouds (k, n, d), or a list of them, and the name of each cloud.

    A file has one cloud, or a stack in an array of three dimensions; a folder has a cloud in each file.
    Anything but a path is returned as it is.

    Raises
    ------
    InputError
        If a file cannot be read, or a folder has no file of points.
    """
    if not isinstance(X, str | os.PathLike):
        _refuse_parts(tensor, columns)
        return X, []
    path = Path(X).expanduser()
    if not path.is_dir():
        values, name = _of_file(path, tensor, columns)
        return (values if np.ndim(values) == 3 else check_points(values, name=name)), [name]
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
    if not files:
        raise InputError(
            f"{path}: has no file of points; give a folder with {listed(SUFFIXES, last=' or ')} files"
        )
    return [check_points(_of_file(file, tensor, columns)[0], name=str(file)) for file in files], [
        file.stem for file in files
    ]


def _refuse_parts(tensor: str | None, columns: Sequence[str]) -> None:
    if tensor is not None or columns:
        raise InputError(
            f"{option('tensor')} and {option('columns')} choose parts of a file, and an array has none",
            remedy="leave them out",
        )


def _of_file(path: Path, tensor: str | None, columns: Sequence[str]) -> tuple[Any, str]:
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give a file: .npy, .npz, .safetensors or .parquet")
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        if tensor is not None:
            raise InputError(f"{path}: a table has no tensors; name its columns with {option('columns')}")
        return _of_table(path, columns), str(path)
    if columns:
        raise InputError(f"{path}: has no columns by name; choose an array with {option('tensor')}")
    if suffix == ".npy":
        if tensor is not None:
            raise InputError(f"{path}: holds one array; leave {option('tensor')} out")
        return _of_npy(path), str(path)
    if suffix not in (".npz", ".safetensors"):
        raise InputError(f"{path}: is not in a known format; give .npy, .npz, .safetensors or .parquet")
    return _of_archive(path, tensor)


def _of_npy(path: Path) -> np.ndarray:
    blob = LocalBlob(path)
    if blob.read(0, min(blob.size, len(_MAGIC))).tobytes() != _MAGIC:
        raise InputError(f"{blob.label}: does not begin as a .npy file; save it again with numpy.save")
    try:
        # Mapped, not loaded: a header that claims more than the file holds is refused, and takes no memory.
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (ValueError, OSError, EOFError, SyntaxError, OverflowError, MemoryError, TypeError) as error:
        raise InputError(
            f"{blob.label}: is not a valid .npy file of numbers ({_short(error)}); "
            "save it again with numpy.save"
        ) from error


def _of_archive(path: Path, tensor: str | None) -> tuple[np.ndarray, str]:
    reader = open_file(LocalBlob(path))
    infos = reader.infos()
    clouds = [name for name, info in infos.items() if len(info.shape) == 2 and not info.skip]
    if tensor is None:
        if not clouds:
            held = ", ".join(map(str, list(infos)[:_NAMED]))
            raise InputError(
                f"{path}: has no array of numbers with two dimensions, only {held}; save the points as one "
                "(n, d) array"
            )
        if len(clouds) > 1:
            named = listed([*clouds], most=_NAMED, last=", ")
            raise InputError(
                f"{path}: has {len(clouds):,} arrays with rows: {named}; choose one "
                f"with {option('tensor')} NAME"
            )
        tensor = clouds[0]
    elif tensor not in infos:
        raise InputError(
            f"{path}: has no array {tensor!r}; it has {', '.join(list(infos)[:_NAMED])}"
            f"{did_you_mean(tensor, infos)}"
        )
    return reader.read(tensor), f"{path}: {tensor}"


def _of_table(path: Path, columns: Sequence[str]) -> np.ndarray:
    import pyarrow as pa
    import pyarrow.parquet as pq

    blob = LocalBlob(path)
    try:
        with pq.ParquetFile(path) as file:
            schema, rows = file.schema_arrow, file.metadata.num_rows
            names = _chosen(path, schema, columns)
            if 8 * rows * len(names) > LARGEST:
                raise InputError(
                    f"{path}: claims {rows:,} rows of {len(names):,} columns; choose with {option('columns')}"
                )
            table = file.read(columns=names)
        parts = [_column(path, name, table.column(name)) for name in names]
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise InputError(
            f"{blob.label}: is not a valid parquet file ({_short(error)}); write it again"
        ) from error
    return np.column_stack(parts)


def _chosen(path: Path, schema: Any, columns: Sequence[str]) -> list[str]:
    """Return the names of the columns that are coordinates: the given ones, or all."""
    missing = [name for name in columns if name not in schema.names]
    if missing:
        raise InputError(
            f"{path}: has no column {missing[0]!r}; it has {', '.join(schema.names[:_NAMED])}"
            f"{did_you_mean(missing[0], schema.names)}"
        )
    names = list(columns) or list(schema.names)
    for name in names:
        if schema.names.count(name) > 1:
            raise InputError(f"{path}: column {name!r} occurs twice; rename one")
        if not _is_numeric(schema.field(name).type):
            raise InputError(
                f"{path}: column {name!r} is {schema.field(name).type}, no number; name the columns that are "
                f"coordinates with {option('columns')}"
            )
    return names


def _is_numeric(kind: Any) -> bool:
    import pyarrow.types as of

    if of.is_list(kind) or of.is_large_list(kind) or of.is_fixed_size_list(kind):
        return _is_numeric(kind.value_type) and not of.is_nested(kind.value_type)
    return of.is_integer(kind) or of.is_floating(kind)


def _column(path: Path, name: str, column: Any) -> np.ndarray:
    """Return a column as numbers (n,), or a column of vectors as (n, d)."""
    import pyarrow.types as of

    if column.null_count:
        raise InputError(
            f"{path}: column {name!r} has {column.null_count} empty cells; drop or fill these rows"
        )
    if not of.is_nested(column.type):
        return column.to_numpy().astype(np.float64)
    rows = column.to_numpy(zero_copy_only=False)
    widths = {len(row) for row in rows}
    if len(widths) != 1:
        raise InputError(
            f"{path}: column {name!r} has vectors of {len(widths):,} different lengths; points need one"
        )
    return np.stack([np.asarray(row, np.float64) for row in rows])


def _short(error: BaseException) -> str:
    if "pickle" in str(error):
        return "it contains Python objects"
    return " ".join(str(error).split())[:120] or type(error).__name__
