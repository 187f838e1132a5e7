"""`landscape`, hurt from outside: it ends, says so in a line, and repeating it goes on to the same bits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.injury import command, finish, hurt, write_recipe
from toposcope.store import Store

pytest.importorskip("torch")
FEW = ("--features", "sharpness,surface", "--resolution", 21, "--length", 16, "--sequences", 4)


def line(runs: Path, out: Path) -> list[str]:
    return command("landscape", runs, "--out", out, "--batches", 1, "--seeds", 1, "--jobs", 2, *FEW)


def measured(store: Path) -> str:
    return Store.open(store).features().drop(columns="seconds").to_csv(index=False)


@pytest.mark.slow
def test_surfaces_hurt_in_the_middle_go_on_to_the_same_end(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=40, every=20)
    recipe.write_text("[[models]]".join(recipe.read_text().split("[[models]]")[:2]))
    ended = finish(command("train", "--recipe", recipe, "--out", tmp_path / "runs", "--jobs", 1))
    assert ended.code == 0, ended.err
    whole = finish(line(tmp_path / "runs", tmp_path / "whole"))
    assert whole.code == 0, whole.err
    for fault, code in (("a worker killed", 0), ("SIGTERM", 1)):
        out = tmp_path / fault.replace(" ", "-")
        ending, had = hurt(line(tmp_path / "runs", out), fault, lambda at=out: any(at.glob("features/*")))
        assert had, "the fault came after the end"
        assert ending.code == code, ending.err
        if code:
            assert "interrupted; what was finished is kept" in ending.err.splitlines()[-1]
        assert "Traceback" not in ending.err
        again = finish(line(tmp_path / "runs", out))
        assert again.code == 0, again.err
        assert measured(out) == measured(tmp_path / "whole")
