"""A file that is no cloud of finite numbers is refused in one line that names it and the remedy."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from toposcope.clouds.reading import read_cloud
from toposcope.core.errors import InputError
from toposcope.core.wording import typed_options

POINTS = np.random.default_rng(0).standard_normal((12, 3))


def _npy(path):
    np.save(path, POINTS)
    return {}


def _npz(path):
    np.savez(path, bias=np.zeros(3), rows=POINTS)
    return {}


def _npz_of_two(path):
    np.savez(path, rows=POINTS, others=POINTS + 1)
    return {"tensor": "rows"}


def _safetensors(path):
    save_file({"rows": POINTS, "bias": np.zeros(3)}, path)
    return {}


def _parquet(path):
    pq.write_table(pa.table({"x": POINTS[:, 0], "y": POINTS[:, 1], "z": POINTS[:, 2]}), path)
    return {}


def _parquet_of_vectors(path):
    table = {"text": [str(n) for n in range(12)], "vector": POINTS.tolist()}
    pq.write_table(pa.table(table), path)
    return {"columns": ("vector",)}


@pytest.mark.parametrize(
    ("suffix", "write"),
    [
        (".npy", _npy), (".npz", _npz), (".npz", _npz_of_two), (".safetensors", _safetensors),
        (".parquet", _parquet), (".parquet", _parquet_of_vectors),
    ],
)  # fmt: skip
def test_every_format_gives_its_rows(suffix, write, tmp_path):
    path = tmp_path / f"cloud{suffix}"
    options = write(path)
    points, name = read_cloud(path, **options)
    np.testing.assert_array_equal(points, POINTS)
    assert str(path) in name


def _broken(path, kind):
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "truncated":
        path.write_bytes(path.read_bytes()[:-40])
    elif kind == "noise":
        path.write_bytes(np.random.default_rng(1).bytes(400))


@pytest.mark.parametrize("kind", ["empty", "truncated", "noise", "missing"])
@pytest.mark.parametrize(
    ("suffix", "write"),
    [(".npy", _npy), (".npz", _npz), (".safetensors", _safetensors), (".parquet", _parquet)],
)
def test_a_damaged_file_is_one_line(suffix, write, kind, tmp_path):
    path = tmp_path / f"cloud{suffix}"
    if kind != "missing":
        write(path)
    _broken(path, kind)
    with pytest.raises(InputError) as raised:
        read_cloud(path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def _with(**arrays):
    return lambda path: np.savez(path, **arrays)


@pytest.mark.parametrize(
    ("write", "options", "word"),
    [
        (_with(a=POINTS, b=POINTS), {}, "2 arrays with rows: a, b; choose one with --tensor"),
        (_with(a=np.zeros(3)), {}, "no array of numbers with two dimensions, only a"),
        (_with(rows=POINTS), {"tensor": "row"}, "has no array 'row'.*did you mean 'rows'"),
        (_with(a=np.where(POINTS > 1, np.nan, POINTS)), {}, r"a\[\d+, \d+\] is nan"),
        (_with(a=np.where(POINTS > 1, np.inf, POINTS)), {}, r"a\[\d+, \d+\] is inf"),
        (_with(a=np.zeros((2, 3, 4))), {"tensor": "a"}, r"shape \(2, 3, 4\)"),
        (_with(a=np.zeros((0, 3))), {}, "no points"),
        (_with(a=np.ones((9, 3))), {}, "1 distinct point; a ring needs at least 4"),
        (_with(a=POINTS), {"columns": ("x",)}, "--tensor"),
    ],
)
def test_an_archive_without_one_cloud_is_refused(write, options, word, tmp_path):
    path = tmp_path / "cloud.npz"
    write(path)
    with typed_options(), pytest.raises(InputError, match=word):
        read_cloud(path, **options)


def test_objects_are_never_unpickled(tmp_path):
    for name in ("cloud.npy", "cloud.npz"):
        path = tmp_path / name
        (np.save if name.endswith("npy") else np.savez)(path, np.array([{}, {}], object), allow_pickle=True)
        with pytest.raises(InputError, match=r"contains? Python objects|[Oo]bject"):
            read_cloud(path)


def test_a_header_that_claims_more_than_there_is_takes_no_memory(tmp_path):
    path = tmp_path / "cloud.npy"
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000, 1000)}"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + header + b"\n" + bytes(80))
    with pytest.raises(InputError, match=r"not a valid \.npy file"):
        read_cloud(path)


@pytest.mark.parametrize(
    ("table", "options", "word"),
    [
        ({"text": ["a"] * 5, "x": range(5)}, {}, "column 'text' is string, no number.*--columns"),
        ({"x": range(5)}, {"columns": ("y",)}, "has no column 'y'; it has x"),
        ({"x": [1.0, None, 2.0, 3.0, 4.0]}, {}, "column 'x' has 1 empty cells"),
        ({"v": [[1.0], [1.0, 2.0], [3.0], [4.0]]}, {}, "2 different lengths"),
        ({"v": [[["a"]]] * 4}, {}, "no number"),
        ({"x": range(5)}, {"tensor": "x"}, "--columns"),
    ],
)
def test_a_table_that_is_no_cloud_is_refused(table, options, word, tmp_path):
    path = tmp_path / "cloud.parquet"
    pq.write_table(pa.table({name: list(values) for name, values in table.items()}), path)
    with typed_options(), pytest.raises(InputError, match=word):
        read_cloud(path, **options)


@pytest.mark.parametrize(
    ("given", "options", "word"),
    [
        (np.zeros(5), {}, r"X has shape \(5,\)"),
        (np.full((5, 2), np.nan), {}, "not finite"),
        ([["a", "b"]], {}, "type"),
        (POINTS, {"tensor": "a"}, "leave them out"),
    ],
)
def test_an_array_that_is_no_cloud_is_refused(given, options, word):
    with pytest.raises(InputError, match=word):
        read_cloud(given, **options)


def test_folders_and_other_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        read_cloud(tmp_path)
    (tmp_path / "cloud.pkl").write_bytes(b"\x80")
    with pytest.raises(InputError, match=r"give \.npy, \.npz"):
        read_cloud(tmp_path / "cloud.pkl")
