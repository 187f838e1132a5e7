"""A store from somebody else is data: it deletes, writes, runs and reads nothing outside itself."""

import contextlib
import json
import os
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from toposcope.cli.main import main
from toposcope.core.errors import StoreError
from toposcope.store import Store, inside
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.weights.options import WeightOptions
from toposcope.watch._sidecar import Sidecar
from toposcope.watch.follow import Follower
from toposcope.watch.journal import Journal

OPTIONS = WeightOptions(points=20, draws=1, nulls=1)
SECONDS = 60
"""A command that takes longer hangs: each takes some two seconds."""


def checkpoint(folder, step):
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(step)
    state = {f"layers.{i}.mlp.fc1.weight": random.normal(size=(16, 8)).astype("f4") for i in range(2)}
    save_file(state, folder / f"step_{step}.safetensors")


def sidecar(tmp_path):
    store = Store.create(tmp_path / "store", recipe=OPTIONS.recipe())
    return Sidecar(Follower(tmp_path / "out", rest=0), store, weight_probes(["updates"], OPTIONS))


def victim(tmp_path):
    place = tmp_path / "victim" / "thesis"
    place.mkdir(parents=True)
    (place / "chapter.txt").write_text("years of work")
    return place


def rewritten(tmp_path, change):
    """Let `change` alter the record of what was kept in every line of the journal."""
    path = tmp_path / "store" / "watch" / "events.jsonl"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    for event in events:
        if event["data"].get("held"):
            change(event["data"]["held"])
    path.write_text("".join(json.dumps(event) + "\n" for event in events))


def begun(tmp_path):
    checkpoint(tmp_path / "out", 10)
    sidecar(tmp_path).visit()


def goes_on(tmp_path):
    checkpoint(tmp_path / "out", 20)
    sidecar(tmp_path).visit()
    checkpoint(tmp_path / "out", 30)
    sidecar(tmp_path).visit()


@pytest.mark.parametrize(
    "form", ["absolute", "upwards", "of two parts", "of the trainer", "a record of former versions"]
)
def test_a_journal_names_nothing_outside_its_store_to_remove(tmp_path, form):
    begun(tmp_path)
    place = victim(tmp_path)
    held = tmp_path / "store" / "watch" / "held"
    at = {
        "absolute": str(place),
        "upwards": os.path.relpath(place, held),
        "of two parts": "../held/../../../victim/thesis",
        "of the trainer": os.path.relpath(place, tmp_path / "out"),
        "a record of former versions": "",
    }[form]
    rewritten(
        tmp_path,
        lambda kept: kept.update(at=at, path=str(place), own=form != "of the trainer"),
    )
    goes_on(tmp_path)
    assert (place / "chapter.txt").read_text() == "years of work"


@pytest.mark.parametrize("where", ["watch", "watch/held", "watch/held/ENTRY", "watch/held/ENTRY/NAME"])
def test_a_link_in_the_place_of_what_is_kept_is_not_followed(tmp_path, where):
    begun(tmp_path)
    place = victim(tmp_path)
    store = tmp_path / "store"
    (entry,) = (store / "watch" / "held").iterdir()
    (kept,) = entry.iterdir()
    linked = store / where.replace("ENTRY", entry.name).replace("NAME", kept.name)
    if where != "watch/held/ENTRY/NAME":
        shutil.copytree(linked, place, dirs_exist_ok=True)
    before = sorted(path.name for path in place.parent.rglob("*"))
    shutil.rmtree(linked) if linked.is_dir() else linked.unlink()
    linked.symlink_to(place, target_is_directory=True)
    with contextlib.suppress(StoreError):
        goes_on(tmp_path)
    after = sorted(path.name for path in place.parent.rglob("*"))
    assert [name for name in before if name not in after] == []
    assert where == "watch" or after == before  # the journal of a linked `watch` is refused before its events


def test_paths_in_the_journal_do_not_depend_on_the_folder_of_the_shell(tmp_path, monkeypatch):
    checkpoint(tmp_path / "out", 10)
    monkeypatch.chdir(tmp_path)
    store = Store.create(tmp_path / "store", recipe=OPTIONS.recipe())
    probes = weight_probes(["updates"], OPTIONS)
    Sidecar(Follower(Path("out"), rest=0), Store.open(Path("store")), probes).visit()
    checkpoint(tmp_path / "out", 20)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    events = Sidecar(Follower(Path("../out"), rest=0), Store.open(Path("../store")), probes).visit()
    measured = [event for event in events if event.kind == "measured"]
    assert [(event.step, event.data["problems"]) for event in measured] == [(20, [])]
    table = store.features("updates", "update_norm")
    assert table.loc[(table["scope"] == "model") & (table["status"] == "ok"), "step"].tolist() == [20]


NESTED = "[" * 100_000
LINES = {
    "nested": NESTED,
    "a nested field": '{"number":1,"kind":"alarm","run":"a","step":1,"data":' + '{"a":' * 50_000,
    "huge numbers": '{"number":1' + "0" * 400 + ',"kind":"alarm","run":"a","step":1,"data":{"test":"x"}}',
    "a list": "[1,2,3]",
    "text": '"alarm"',
    "no data": '{"number":1,"kind":"alarm","run":"a","step":1}',
    "no test": '{"number":1,"kind":"alarm","run":"a","step":1,"data":{}}',
    "a step of text": '{"number":1,"kind":"alarm","run":"a","step":"x","data":{"test":"x"}}',
    "culprits of numbers": '{"number":1,"kind":"alarm","run":"a","step":1,"data":{"test":"","culprits":[1]}}',
    "a run of numbers": '{"number":1,"kind":"look","run":[1],"step":1,"data":{"test":"x"}}',
    "a look of text": '{"number":1,"kind":"look","run":"a","step":1,"data":{"test":"x","look":"y"}}',
    "files of numbers": '{"number":1,"kind":"skipped","run":"a","step":1,"data":{"files":[3],"why":"x"}}',
    "measured, without its fields": '{"number":1,"kind":"measured","run":"a","step":1,"data":{}}',
    "metrics without steps": '{"number":1,"kind":"metrics","run":"a","step":1,"data":{"first":null}}',
    "a target of text": '{"number":1,"kind":"settings","run":"","step":null,"data":{"target":"x"}}',
    "kept in a number": '{"number":1,"kind":"measured","run":"a","step":1,"data":{"held":7,"files":[]}}',
}


@pytest.mark.parametrize("name", LINES)
def test_a_line_of_another_form_ends_no_command(tmp_path, name, capsys):
    words = ["watch", str(tmp_path / "out"), "--out", str(tmp_path / "store"), "--once", "--rest", "0"]
    words += ["--features", "updates"]
    path = tmp_path / "store" / "watch" / "events.jsonl"
    for step in (10, 20):
        checkpoint(tmp_path / "out", step)
        with pytest.raises(SystemExit) as ended:
            main(words)
        told = step == 20 and name != "measured, without its fields"  # which is an event that states nothing
        assert ended.value.code == told, capsys.readouterr()
        assert ("2 lines are no events and left out" in capsys.readouterr().out) == told
        path.write_text(f"{LINES[name]}\n{path.read_text()}{LINES[name]}\n")
    measured = [event for event in Journal.of(tmp_path / "store").read() if event.data.get("content")]
    assert [event.step for event in measured if event.kind == "measured"] == [10, 20]


# Every kind of file that a store holds, as the store itself shows: a new kind is attacked by itself.


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A store with everything that a watch, a measurement and a log write."""
    place = tmp_path_factory.mktemp("whole")
    for step in (10, 20, 30):
        checkpoint(place / "out" / "a", step)
    rows = "".join(f"{step},{3 - step / 100}\n" for step in range(1, 31))
    (place / "out" / "a" / "log.csv").write_text("step,loss\n" + rows)
    words = ["watch", str(place / "out"), "--out", str(place / "store"), "--once", "--rest", "0"]
    with pytest.raises(SystemExit):
        main([*words, "--features", "updates"])
    return place / "store"


def kinds(store):
    """Return one file of each kind: the folder it lies in, and what it ends with."""
    found = {}
    for path in sorted(store.rglob("*")):
        if path.is_file():
            relative = path.relative_to(store)
            folder = "/".join("ENTRY" if re.search(r"\d{6}", part) else part for part in relative.parts[:-1])
            found.setdefault((folder, path.suffix or path.name), relative)
    return found


def as_link_to_a_device(path):
    path.symlink_to("/dev/zero")


def as_link_outside(path):
    outside = path.parent.parent.parent / "outside.txt"
    outside.write_text("a secret")
    path.symlink_to(outside)


ATTACKS = {
    "a link to a device": as_link_to_a_device,
    "a link outside": as_link_outside,
    "a pipe": os.mkfifo,
    "a folder": os.mkdir,
    "random bytes": lambda path: path.write_bytes(np.random.default_rng(0).bytes(5000)),
    "nesting": lambda path: path.write_text(NESTED),
    "nothing": lambda path: path.write_bytes(b""),
}
COMMANDS = {
    "export": lambda store, out: ["export", str(store), "--out", str(out / "tables")],
    "merge": lambda store, out: ["merge", str(store), "--out", str(out / "merged")],
    "check": lambda store, out: ["check", str(store)],
    "forecast": lambda store, out: ["forecast", str(store)],
    "compare": lambda store, out: ["compare", str(store), str(store)],
    "analyze": lambda store, out: ["analyze", str(store)],
    "report": lambda store, out: ["report", str(store), "--out", str(out / "page")],
    "weights": lambda store, out: [
        "weights", str(store.parent / "runs"), "--out", str(store), "--features", "updates",
    ],
    "watch": lambda store, out: ["watch", str(out / "empty"), "--out", str(store), "--once", "--rest", "0"],
}  # fmt: skip


def within_limits(words):
    """Run a command; return its exit code and fail if it takes longer than `SECONDS`."""

    def late(*_):
        raise TimeoutError(f"{words[0]} hangs")

    former = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        main(words)
    except SystemExit as ended:
        return ended.code
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)
    return 0


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_file_of_a_store_hangs_a_command_or_ends_it_with_a_traceback(
    whole, tmp_path, attack, command, capsys
):
    for number, relative in enumerate(kinds(whole).values()):
        place = tmp_path / str(number)
        shutil.copytree(whole, place / "store", symlinks=True)
        (place / "empty").mkdir()
        checkpoint(place / "runs" / "b", 10)
        target = place / "store" / relative
        target.unlink()
        ATTACKS[attack](target)
        code = within_limits(COMMANDS[command](place / "store", place))
        said = capsys.readouterr()
        assert code in (0, 1, 2), relative
        assert "Traceback" not in said.err + said.out, relative
        assert "unexpected" not in said.err, (relative, said.err)
        assert "a secret" not in said.err + said.out, relative
        for path in (one for one in place.rglob("*.csv") if one.is_file()):
            assert "a secret" not in path.read_text(), relative


def test_the_kinds_of_files_are_those_of_a_whole_store(whole):
    folders = {folder for folder, _ in kinds(whole)}
    assert folders >= {"", "runs", "metrics", "features", "catalogue", "watch", "watch/held/ENTRY"}


def test_a_large_file_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "store.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # sparse
    with pytest.raises(StoreError, match="too many"):
        inside.whole(path)
