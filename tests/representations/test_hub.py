"""Texts and models that come from the hub, by the true client against a loopback server."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
import tempfile
from pathlib import Path

import pytest

from tests.representations.conftest import TEXTS, write_causal_model
from toposcope.cli.main import main
from toposcope.core.errors import InputError
from toposcope.models.texts import load_texts

pytest.importorskip("huggingface_hub")
SIZES = ("70m", "160m", "410m")
_PATH = Path(__file__).parents[1] / "sources" / "hub_server.py"


def _load():
    spec = importlib.util.spec_from_file_location("loopback_hub", _PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["loopback_hub"] = module
    spec.loader.exec_module(module)
    return module


hub_server = _load()


def _parquet(texts: list[str], column: str = "text") -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(pa.table({column: texts}), sink)
    return sink.getvalue()


@pytest.fixture
def serve(monkeypatch, tmp_path):
    """Return a function that starts the hub with some repositories."""
    import contextlib

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    with contextlib.ExitStack() as stack:

        def start(*repositories):
            server = stack.enter_context(hub_server.serving(hub_server.Hub(*repositories)))
            monkeypatch.setenv("HF_ENDPOINT", server.url)
            return server

        yield start


def _data_sets():
    wikitext = {
        "wikitext-103-raw-v1/validation/0000.parquet": _parquet(
            ["", " = Title = ", "a first text", "a second"]
        ),
        "wikitext-103-raw-v1/validation/0001.parquet": _parquet(["a third text"]),
        "wikitext-2-raw-v1/validation/0000.parquet": _parquet(["another set"]),
    }
    stories = {
        "default/train/0000.parquet": _parquet(["once"]),
        "default/validation/0000.parquet": _parquet(["once upon a time", "the end"]),
        "default/odd/0000.parquet": _parquet(["x"], column="body"),
    }
    converted = "refs/convert/parquet"
    return (
        hub_server.Repository("Salesforce/wikitext", {converted: wikitext}),
        hub_server.Repository("roneneldan/TinyStories", {converted: stories}),
    )


def test_named_data_sets_come_in_their_own_order(serve):
    serve(*_data_sets())
    assert load_texts("wikitext103", min_chars=9).items == ("= Title =", "a first text", "a third text")
    assert load_texts("wikitext2").items == ("another set",)
    assert load_texts("tinystories").items == ("once upon a time", "the end")
    found = load_texts("hf://datasets/Salesforce/wikitext:wikitext-2-raw-v1")
    assert found.items == ("another set",)


def test_no_more_parts_are_fetched_than_needed(serve):
    server = serve(*_data_sets())
    load_texts("wikitext103", limit=2, min_chars=9)
    assert not any("0001.parquet" in path for method, path, _ in server.log if method == "GET")


@pytest.mark.parametrize(
    ("source", "split", "message"),
    [
        ("tinystories", "test", "has no split 'test'; it has odd, train, validation"),
        ("tinystories", "odd", "no column named 'text' or 'sentence'"),
        ("hf://datasets/Salesforce/wikitext:v9", "validation", "has no configuration 'v9'"),
        ("hf://datasets/nobody/nothing", "validation", "cannot be read from the hub"),
    ],
)
def test_data_sets_that_lack_something_are_named(serve, source, split, message):
    serve(*_data_sets())
    with pytest.raises(InputError, match=message):
        load_texts(source, split=split)


def test_the_recipe_names_every_checkpoint_of_the_report(serve):
    from toposcope.studies.seed003.runs import recipe_series

    names = {"main": {}} | {f"step{step}": {} for step in (0, 1, 2, 143000)}
    serve(*(hub_server.Repository(f"EleutherAI/pythia-{size}", names) for size in SIZES))
    series = recipe_series("pythia")
    assert [run.run for run in series.runs] == ["pythia-160m", "pythia-410m", "pythia-70m"]
    steps = [at.step for at in series if at.run == "pythia-70m"]
    assert steps == [
        0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 2000, 5000, 10000, 33000, 66000, 100000, 143000
    ]  # fmt: skip


@pytest.mark.slow
def test_the_recipe_runs_the_whole_study(serve, tmp_path, monkeypatch, capsys):
    from dataclasses import replace

    from toposcope.studies.seed003 import published_series

    revisions = {}
    for seed, step in enumerate((0, 4)):
        folder = tmp_path / f"model{step}"
        write_causal_model(folder, seed)
        revisions[f"step{step}"] = {file.name: file.read_bytes() for file in folder.iterdir()}
    serve(*(hub_server.Repository(f"EleutherAI/pythia-{size}", revisions) for size in SIZES))
    family = replace(published_series.published("pythia"), steps={"seed003": (0, 4)})
    monkeypatch.setattr(published_series, "published", lambda name: family)
    reported = []
    monkeypatch.setattr("toposcope.studies.seed003.runs.write_page", lambda _, out: reported.append(out))
    (tmp_path / "texts.txt").write_text(
        "\n".join(f"{text} {i} {'and on ' * 16}" for i in range(4) for text in TEXTS)
    )
    out = tmp_path / "out"
    call = [
        "reproduce", "seed003", "--recipe", "pythia", "--texts", tmp_path / "texts.txt", "--limit", 12,
        "--sensitivity-texts", "12,20", "--out", out, "--json",
    ]  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        main(list(map(str, call)))
    assert ended.value.code == 0
    sections = {section["title"]: section for section in json.loads(capsys.readouterr().out)["sections"]}
    rows = next(section for title, section in sections.items() if title == "Trajectories")["rows"]
    assert {(row["model"], row["step"]) for row in rows} == {
        (f"pythia-{size}", step) for size in SIZES for step in (0, 4)
    }
    assert next(row for row in rows if row["model"] == "pythia-70m")["H1 total (report)"] == 22.5
    assert reported == [out / "report"]
    assert not list(tmp_path.glob("toposcope-hub-*"))


def test_without_the_hub_there_is_one_line_at_once(monkeypatch, tmp_path, capfd):
    import socket
    import time

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    with pytest.raises(SystemExit) as ended:
        main(["embeddings", "series", "--texts", "wikitext2", "--out", str(tmp_path / "store")])
    assert ended.value.code == 2
    assert sum(waits) < 1  # the client's own retries wait for 23 s
    err = capfd.readouterr().err
    assert err.count("\n") == 1
    assert "give the file: --texts FILE_OR_FOLDER" in err
