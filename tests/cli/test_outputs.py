"""Where results go: no command follows a link that is no folder, or writes onto a pipe or a device."""

import contextlib
import os
from pathlib import Path

import click
import pandas as pd
import pytest

from toposcope.cli.main import COMMANDS, main, toposcope
from toposcope.core.errors import InputError
from toposcope.core.outputs import checked_output, for_writing
from toposcope.core.tabular import write_csv
from toposcope.store import Store
from toposcope.store.export import export


def a_pipe(path):
    os.mkfifo(path)


def a_link_to_nothing(path):
    path.symlink_to("gone/elsewhere")


def a_link_to_itself(path):
    path.symlink_to(path.name)


def a_link_to_a_file(path):
    (path.parent / "victim").write_text("years of work")
    path.symlink_to("victim")


def a_device(path):
    path.symlink_to("/dev/full")


ODD = (a_pipe, a_link_to_nothing, a_link_to_itself, a_link_to_a_file, a_device)


@pytest.mark.parametrize("make", ODD)
def test_every_command_refuses_an_odd_place_in_one_line(tmp_path, make):
    make(tmp_path / "out")
    context = click.Context(toposcope)
    checked = 0
    for name in COMMANDS:
        for option in toposcope.get_command(context, name).params:
            if "--out" in option.opts:
                with pytest.raises(InputError, match=r"out: this is .*; remove it, or choose"):
                    option.callback(context, option, tmp_path / "out")
                checked += 1
    assert checked > 10
    assert not (tmp_path / "victim").exists() or (tmp_path / "victim").read_text() == "years of work"


def test_a_command_line_refuses_it_before_it_works(tmp_path, capsys):
    os.mkfifo(tmp_path / "out.png")
    with pytest.raises(SystemExit) as ended:
        main(["compare", "a.csv", "b.csv", "--out", str(tmp_path / "out.png")])
    assert ended.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_folder_a_link_to_one_and_a_new_place_are_taken(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    for name in ("folder", "link", "new"):
        assert checked_output(tmp_path / name) == tmp_path / name


@pytest.mark.parametrize("make", ODD)
@pytest.mark.parametrize("kind", ["csv", "json"])
def test_an_export_writes_onto_no_odd_file(tmp_path, make, kind):
    store = Store.create(tmp_path / "store", recipe={"kind": "weights"})
    whole = {path.name for path in export(store, tmp_path / "first", kind=kind, shape="long")}
    for name in whole:
        folder = tmp_path / f"of {name}"
        folder.mkdir()
        make(folder / name)
        with pytest.raises(InputError, match="this is "):
            export(store, folder, kind=kind, shape="long")
        victim = folder / "victim"
        assert not victim.exists() or victim.read_text() == "years of work"


def test_a_plain_file_is_written_again(tmp_path):
    path = tmp_path / "table.csv"
    for _ in range(2):
        write_csv(pd.DataFrame({"a": [1]}), path)
    assert path.read_text() == "a\n1\n"
    assert for_writing(str(path)) == Path(path)


def test_a_socket_is_refused(tmp_path, monkeypatch):
    import socket

    monkeypatch.chdir(tmp_path)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as one:
        one.bind("out")
        with pytest.raises(InputError, match="not a regular file"):
            checked_output(Path("out"))


def exported(tmp_path):
    store = Store.create(tmp_path / "store", recipe={})
    return store, tmp_path / "out"


@pytest.mark.parametrize("inside", ["", "features", "new/folder"])
@pytest.mark.parametrize("linked", [False, True])
def test_an_export_into_the_store_itself_is_refused(tmp_path, inside, linked):
    store, _ = exported(tmp_path)
    (tmp_path / "link").symlink_to("store")
    before = sorted(store.path.rglob("*"))
    with pytest.raises(InputError, match="inside the store"):
        export(store, tmp_path / ("link" if linked else "store") / inside, kind="csv", shape="long")
    assert sorted(store.path.rglob("*")) == before


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_an_export_replaces_a_file_and_not_what_has_another_name_of_it(tmp_path, kind):
    store, out = exported(tmp_path)
    out.mkdir()
    (tmp_path / "mine").write_text("years of work")
    os.link(tmp_path / "mine", out / f"features.{kind}")
    export(store, out, kind=kind, shape="long")
    assert (tmp_path / "mine").read_text() == "years of work"
    assert not list(out.glob(".*"))


def test_a_file_that_cannot_be_written_whole_stays_as_it_was(tmp_path, monkeypatch):
    write_csv(pd.DataFrame({"a": [1]}), tmp_path / "a.csv")

    def full(*words, **named):
        Path(words[1]).write_text("ha")
        raise OSError("No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    with pytest.raises(OSError, match="No space"):
        write_csv(pd.DataFrame({"a": [2]}), tmp_path / "a.csv")
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {"a.csv": "a\n1\n"}
