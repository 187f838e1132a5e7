"""Arguments that name nothing, or a link to itself: one line, and nothing is read or written."""

import os

import numpy as np
import pytest
from safetensors.numpy import save_file

from toposcope.cli.main import main

READING = ("check", "forecast", "audit", "watch", "report", "analyze", "export", "weights", "compare")


def ended(capsys, *words):
    with pytest.raises(SystemExit) as end:
        main(list(map(str, words)))
    return end.value.code, capsys.readouterr()


@pytest.mark.parametrize("command", READING)
def test_an_empty_argument_is_not_the_current_folder(command, tmp_path, capsys, monkeypatch):
    (tmp_path / "train.csv").write_text("step,loss\n" + "".join(f"{i},{4 - i / 99}\n" for i in range(50)))
    monkeypatch.chdir(tmp_path)
    for words in ((command, ""), (command, "train.csv", "--out=")):
        code, printed = ended(capsys, *words)
        assert (code, printed.err.count("\n")) == (2, 1)
        assert "an argument is empty" in printed.err
    assert os.listdir() == ["train.csv"]


@pytest.mark.parametrize("command", READING)
def test_a_link_to_itself_is_refused_in_one_line(command, tmp_path, capsys):
    link = tmp_path / "run.log"
    link.symlink_to("run.log")
    out = ("--out", tmp_path / "out") if command in ("watch", "report", "export", "weights") else ()
    more = (link,) if command == "compare" else ()
    code, printed = ended(capsys, command, link, *more, *out, *(("--once",) if command == "watch" else ()))
    assert (code, printed.err.count("\n")) == (2, 1), printed.err
    assert str(link) in printed.err
    assert not (tmp_path / "out").exists()


def test_a_tensor_larger_than_the_memory_is_named_and_the_rest_is_audited(tmp_path, capsys, monkeypatch):
    rng = np.random.default_rng(0)
    for step in (0, 10, 20):
        save_file({"fc.weight": rng.normal(size=(24, 8))}, tmp_path / f"step_{step}.safetensors")
    empty = np.empty

    def little(shape, *words, **named):
        if isinstance(shape, int) and shape > 2500:
            raise MemoryError("unable to allocate")
        return empty(shape, *words, **named)

    save_file({"fc.weight": rng.normal(size=(48, 8))}, tmp_path / "step_30.safetensors")
    monkeypatch.setattr("toposcope.files.blobs.np.empty", little)
    code, printed = ended(capsys, "audit", tmp_path)
    assert code == 1
    assert "unreadable" in printed.out
    assert "step 30" in printed.out
    assert "step 20" not in printed.out


def test_squares_beyond_float64_are_judged_without_a_warning(tmp_path, capsys):
    rng = np.random.default_rng(0)
    for step in (0, 10, 20):
        save_file({"fc.weight": rng.normal(size=(24, 8))}, tmp_path / f"step_{step}.safetensors")
    save_file({"fc.weight": np.full((24, 8), 1e300)}, tmp_path / "step_30.safetensors")
    code, printed = ended(capsys, "audit", tmp_path)
    assert code == 1
    assert "Warning" not in printed.err
