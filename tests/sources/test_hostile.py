"""Hostile and broken files: one clear error or correct data, never anything else."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from toposcope.core.errors import SourceError
from toposcope.sources import open_series

_spec = importlib.util.spec_from_file_location("hostile", Path(__file__).with_name("hostile.py"))
hostile = importlib.util.module_from_spec(_spec)
sys.modules["hostile"] = hostile
_spec.loader.exec_module(hostile)


def read(path: Path) -> dict[str, np.ndarray]:
    series = open_series(path)
    for checkpoint in series:
        list(series.matrices(checkpoint))
    return dict(series.tensors(next(iter(series))))


def refused(path: Path) -> str:
    with pytest.raises(SourceError) as caught:
        read(path)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 600
    return message


@pytest.mark.parametrize("name", [name for name in hostile.SAFETENSORS if name != "no tensors"])
def test_malformed_safetensors_headers(tmp_path: Path, name: str):
    path = tmp_path / "step_1.safetensors"
    path.write_bytes(hostile.SAFETENSORS[name])
    assert "step_1.safetensors" in refused(path)


def test_what_the_safetensors_library_refuses_is_refused(tmp_path: Path):
    from safetensors import SafetensorError
    from safetensors.numpy import load

    for name, data in hostile.SAFETENSORS.items():
        try:
            load(data)
        except (SafetensorError, ValueError, KeyError, TypeError, OverflowError, AttributeError):
            path = tmp_path / "step_1.safetensors"
            path.write_bytes(data)
            if name != "no tensors":
                refused(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(hostile.pickles(Path())))
@pytest.mark.parametrize("wrapped", [True, False])
def test_hostile_pickles_run_nothing(tmp_path: Path, name: str, wrapped: bool):
    data = hostile.pickles(tmp_path)[name]
    path = tmp_path / "step_1.pt"
    path.write_bytes(hostile.torch_zip(data, {"0": bytes(16)}) if wrapped else data)
    start = time.process_time()
    message = refused(path)
    assert time.process_time() - start < 10  # this process' own work, whatever else the machine does
    assert not (tmp_path / hostile.SENTINEL).exists()
    if name in ("os.system", "eval", "object with a payload") and wrapped:
        assert "nothing was run" in message


def test_the_good_tensor_pickle_is_read(tmp_path: Path):
    values = np.arange(4, dtype=np.float32)
    path = tmp_path / "step_1.pt"
    path.write_bytes(hostile.torch_zip(hostile._tensor_pickle(), {"0": values.tobytes()}))
    np.testing.assert_array_equal(read(path)["w"], values.reshape(2, 2))


def test_compressed_and_bomb_archives(tmp_path: Path):
    path = tmp_path / "step_1.pt"
    bomb = hostile.torch_zip(hostile._tensor_pickle(), {"0": bytes(50_000_000)}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 100_000
    path.write_bytes(bomb)
    assert "compressed" in refused(path)
    path.unlink()
    shape = (20_000, 2_000)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": shape})
        with archive.open("w.npy", "w", force_zip64=True) as file:
            file.write(head.getvalue())
            for _ in range(shape[0] // 100):
                file.write(bytes(100 * shape[1] * 4))
    npz = tmp_path / "step_1.npz"
    npz.write_bytes(out.getvalue())
    assert "claims to grow" in refused(npz)


@pytest.mark.parametrize(
    "target",
    [
        "../outside.safetensors",
        "/etc/passwd",
        "a/../../outside.safetensors",
        "C:\\x",
        "sub/x.safetensors",
        "",
        3,
    ],
)
def test_index_files_cannot_point_outside(tmp_path: Path, target: object):
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    for place in (tmp_path / "outside.safetensors", folder / "sub" / "x.safetensors"):
        save_file({"w": np.ones((2, 2), np.float32)}, place)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": target}}))
    refused(folder)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": {}}', '{"weight_map": []}', "{" * 100_000])
def test_broken_index_files(tmp_path: Path, text: str):
    (tmp_path / "model.safetensors.index.json").write_text(text)
    refused(tmp_path)


def test_linked_shards_and_folders_cannot_lead_outside(tmp_path: Path):
    outside, folder = tmp_path / "outside", tmp_path / "model"
    outside.mkdir()
    folder.mkdir()
    save_file({"w": np.ones((2, 2), np.float32)}, outside / "model.safetensors")
    (folder / "model.safetensors").symlink_to(outside / "model.safetensors")
    assert "outside the folder that was opened" in refused(folder)
    (folder / "model.safetensors").unlink()
    (folder / "step_1").symlink_to(outside)
    assert "outside the folder that was opened" in refused(folder)
    (folder / "step_1").unlink()
    (folder / "step_1.safetensors").symlink_to("/dev/zero")
    refused(folder)


def test_special_files_are_not_opened(tmp_path: Path):
    import os

    os.mkfifo(tmp_path / "step_1.safetensors")
    refused(tmp_path)


def test_distributed_metadata_cannot_name_other_files(tmp_path: Path):
    import warnings

    import torch
    import torch.distributed.checkpoint as dcp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save({"w": torch.ones(4, 4)}, checkpoint_id=tmp_path / "d", no_dist=True)
    path = tmp_path / "d" / ".metadata"
    data = path.read_bytes()
    assert b"__0_0.distcp" in data
    path.write_bytes(data.replace(b"__0_0.distcp", b"../secret.pt"))
    assert "points outside the folder" in refused(tmp_path / "d")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("shared chunks", "more chunks than locations for them"),
        ("an endless name", "a tensor named by a Record"),
        ("an endless dtype", "tensor 'w' has the unknown dtype a Record"),
        ("long offsets", "a shape that is a tuple of 100000"),
    ],
)
def test_costly_distributed_metadata(tmp_path: Path, name: str, why: str):
    folder = tmp_path / "step_1"
    folder.mkdir()
    (folder / ".metadata").write_bytes(hostile.metadata_pickles()[name])
    (folder / "a").write_bytes(bytes(16))
    assert why in refused(folder)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("long pairs", "it takes more than"),
        ("long sets", "it takes more than"),
        ("copies that are kept", "it takes more than"),
        ("a name that is a record", "a part of it is named by a Record"),
        ("a name that is endless", "a part of it is named by a Record"),
        ("one name twice", "two of its tensors are named 'a.b.w'; rename one"),
        pytest.param("one tensor often", "more than 200,000 entries", marks=pytest.mark.slow),
    ],
)
def test_what_small_pickles_may_cost(tmp_path: Path, name: str, why: str):
    path = tmp_path / "step_1.pt"
    path.write_bytes(hostile.torch_zip(hostile.costly_pickles()[name], {"0": bytes(16)}))
    assert why in refused(path)


def test_settings_that_no_text_names_are_left_out(tmp_path: Path):
    record = hostile._global("torch", "some") + b")Rq\x01"
    data = b"\x80\x02" + record + b"}(Vconfig\n}(h\x01K\x01Vdepth\nK\x02uVw\n"
    path = tmp_path / "step_1.pt"
    tensor = hostile._tensor_pickle()[2:-1]
    path.write_bytes(hostile.torch_zip(data + tensor + b"u.", {"0": bytes(16)}))
    series = open_series([str(path)])
    with series.reading(next(iter(series))) as reader:
        assert reader.facts().config == {"depth": 2}


@pytest.fixture(scope="module")
def good() -> dict[str, bytes]:
    return hostile.good_files()


def test_the_good_files_are_good(tmp_path: Path, good: dict[str, bytes]):
    for number, (name, data) in enumerate(good.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / name).write_bytes(data)
        assert len(read(folder / name)) >= 3


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), which=st.integers(0, 5))
def test_mutants_give_one_clear_error_or_data(
    tmp_path_factory, good: dict[str, bytes], seed: int, which: int
):
    name, data = list(good.items())[which]
    folder = tmp_path_factory.mktemp("mutant")
    (folder / name).write_bytes(hostile.mutate(data, np.random.default_rng(seed)))
    message = ""
    try:
        for values in read(folder / name).values():
            assert isinstance(values, np.ndarray)
    except SourceError as error:
        message = str(error)
    assert "\n" not in message
    assert len(message) < 600
