"""Names from data move no cursor, hide nothing and turn no letters, wherever they are printed."""

import json
import unicodedata

import numpy as np
import pytest
from safetensors.numpy import save_file

from toposcope.cli.main import main

NASTY = "s\x1b[31m\x07\u202e\u200b0"
SHOWN = "s\\x1b[31m\\x07\\u202e\\u200b0"


@pytest.fixture
def runs(tmp_path):
    """Two runs whose names, tensors and columns hold control and format characters."""
    random = np.random.default_rng(0)
    for seed in (1, 2):
        place = tmp_path / "runs" / f"{NASTY}{seed}"
        place.mkdir(parents=True)
        for step in (0, 50, 100):
            state = {f"layers.{i}.mlp.{NASTY}.weight": random.normal(size=(8, 6)) for i in range(2)}
            save_file(
                {name: value.astype("f4") for name, value in state.items()},
                place / f"step_{step}.safetensors",
            )
        rows = [
            {"step": step, "loss": 3 - step / 100, f"a\ud83d{NASTY}": step % 7} for step in range(0, 101, 5)
        ]
        (place / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "runs"


def unseen(text):
    return {
        ascii(sign)
        for sign in text
        if unicodedata.category(sign) in ("Cc", "Cf", "Cs") and sign not in "\n\t"
    }


@pytest.mark.parametrize(
    "words",
    [
        ["check", "RUNS"],
        ["audit", "RUNS"],
        ["forecast", "RUNS", "--horizon", "200"],
        ["compare", "RUNS/1", "RUNS/2"],
        ["compare", "RUNS/1/step_0.safetensors", "RUNS/1/step_100.safetensors"],
        ["weights", "RUNS", "--out", "OUT", "--features", "updates"],
        ["watch", "RUNS", "--out", "OUT", "--once", "--rest", "0", "--features", "updates"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_names_are_printed_legibly(runs, tmp_path, words, capsys):
    places = {"RUNS": str(runs), "OUT": str(tmp_path / "store")}
    for seed in "12":
        places[f"RUNS/{seed}"] = str(runs / f"{NASTY}{seed}")
    words = [next((at + word.removeprefix(key) for key, at in sorted(places.items(), reverse=True)
                   if word == key or word.startswith(f"{key}/")), word) for word in words]  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        main(words)
    said = capsys.readouterr()
    assert ended.value.code in (0, 1), said.err
    assert unseen(said.out) | unseen(said.err) == set()


def test_a_name_is_written_by_the_numbers_of_its_letters(runs, capsys):
    with pytest.raises(SystemExit):
        main(["check", str(runs)])
    assert SHOWN in capsys.readouterr().out


@pytest.mark.slow
def test_pages_show_names_legibly(runs, tmp_path, capsys):
    store = str(tmp_path / "store")
    for words in (["weights", str(runs), "--out", store], ["report", store, "--out", str(tmp_path / "page")]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0, capsys.readouterr().err
    for page in [*(tmp_path / "page").rglob("*.html"), *(tmp_path / "page").rglob("*.md")]:
        assert unseen(page.read_text()) == set(), page
