"""A command does its work where nobody hears its messages, and says in one line what it cannot take."""

import os
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file

from toposcope.cli.main import main

COMMAND = [sys.executable, "-c", "from toposcope.cli.main import main; main()"]


@pytest.fixture
def run(tmp_path):
    for step in (10, 20):
        matrix = np.random.default_rng(step).normal(size=(6, 5)).astype(np.float32)
        save_file({"layers.0.mlp.fc1.weight": matrix}, tmp_path / f"step_{step}.safetensors")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("how", ["closed", "left"])
def test_a_sweep_whose_messages_nobody_reads_is_done_and_says_so(run, how):
    words = ["weights", run, "--out", run / "store", "--features", "baselines"]
    options = {"preexec_fn": lambda: os.close(2)} if how == "closed" else {}
    if how == "left":
        read, write = os.pipe()
        os.close(read)
        options = {"stderr": write}
    ended = subprocess.run([*COMMAND, *map(str, words)], stdout=subprocess.PIPE, timeout=300, **options)
    assert ended.returncode == 0
    assert b"measurements made" in ended.stdout
    assert b"Measur" not in b"".join(path.read_bytes() for path in run.glob("store/*.json"))


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["weights", "RUN", "--out", "far\udcff"], "is not UTF-8"),
        (["weights", "RUN", "--out", "RUN/s", "--features", "../m:C"], "give MODULE:CLASS"),
    ],
)
def test_words_that_cannot_be_taken_are_one_line(run, capsys, words, match):
    with pytest.raises(SystemExit) as ended:
        main([word.replace("RUN", str(run)) for word in words])
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert match in told
    assert len(told.splitlines()) == 1


def test_a_size_that_no_memory_holds_is_one_line(run, capsys, monkeypatch):
    def full(*_, **__):
        raise MemoryError("Unable to allocate 7.3 TiB")

    monkeypatch.setattr("toposcope.sources.open_series", full)
    with pytest.raises(SystemExit) as ended:
        main(["audit", str(run)])
    assert ended.value.code == 1
    assert "not enough memory (Unable to allocate 7.3 TiB)" in capsys.readouterr().err
