"""Series behind fsspec: memory, file and a loopback HTTP server."""

from __future__ import annotations

import functools
import re
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import fsspec
import numpy as np
import pytest
from safetensors.numpy import load_file

from toposcope.core.errors import SourceError
from toposcope.sources import open_series


@pytest.fixture
def memory():
    fs = fsspec.filesystem("memory")
    yield fs
    fs.store.clear()
    fs.pseudo_dirs[:] = [""]


def same(series, folder: Path) -> None:
    assert [c.step for c in series] == [0, 100, 200]
    for checkpoint in series:
        stored = load_file(folder / f"step_{checkpoint.step:06d}.safetensors")
        got = {m.name: m.values for m in series.matrices(checkpoint)}
        assert len(got) == 7
        for name, values in got.items():
            np.testing.assert_array_equal(values, stored[name])


def test_memory_file_system(memory, series_of_files):
    folder = series_of_files()
    memory.put(str(folder), "/bucket/run", recursive=True)
    same(open_series("memory://bucket/run"), folder)
    (checkpoint,) = open_series("memory://bucket/run/step_000100.safetensors")
    assert (checkpoint.run, checkpoint.step) == ("run", 100)


def test_memory_runs_of_a_folder(memory, series_of_files):
    memory.put(str(series_of_files("a")), "/runs/a", recursive=True)
    memory.put(str(series_of_files("b")), "/runs/b", recursive=True)
    assert [run.run for run in open_series("memory://runs").runs] == ["a", "b"]


def test_file_addresses_are_local(series_of_files):
    folder = series_of_files()
    same(open_series(f"file://{folder}"), folder)


class _Ranged(SimpleHTTPRequestHandler):
    """Serve files with ranges, and record them."""

    seen: ClassVar[list[str | None]] = []

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not path.is_file() or not asked:
            return super().do_GET()
        self.seen.append(asked[0])
        data = path.read_bytes()
        start, stop = int(asked[1]), int(asked[2] or len(data) - 1) + 1
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data[start:stop])))
        self.end_headers()
        self.wfile.write(data[start:stop])
        return None


@pytest.fixture
def http(tmp_path: Path):
    pytest.importorskip("aiohttp")
    _Ranged.seen.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Ranged, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_http_file_is_read_by_range(http: str, series_of_files):
    folder = series_of_files()
    series = open_series(f"{http}/run/step_000100.safetensors")
    (checkpoint,) = series
    stored = load_file(folder / "step_000100.safetensors")
    with series.reading(checkpoint) as reader:
        _Ranged.seen.clear()
        np.testing.assert_array_equal(reader.rows("head.weight", 2, 4), stored["head.weight"][2:4])
    (asked,) = _Ranged.seen
    first, last = re.findall(r"\d+", asked)
    assert int(last) - int(first) + 1 == 2 * 8 * 4


def test_http_folder_listing(http: str, series_of_files):
    folder = series_of_files()
    same(open_series(f"{http}/run/"), folder)


def test_http_errors_are_one_line(http: str):
    with pytest.raises(SourceError, match=r"does not exist; check the address|cannot be read"):
        open_series(f"{http}/nothing/step_1.safetensors")


@pytest.mark.parametrize("uri", ["s3://bucket/run", "gs://bucket/run", "nonsense://x"])
def test_a_file_system_that_is_not_installed_is_named(uri: str):
    try:
        fsspec.get_filesystem_class(uri.split(":")[0])
        pytest.skip("its package is installed")
    except (ImportError, ValueError):
        pass
    with pytest.raises(SourceError, match=uri.split(":")[0]):
        open_series(uri)
