"""The width of a terminal breaks lines; it changes no word of what is said."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

import toposcope as ts
from toposcope.api.results import Report
from toposcope.cli.main import main
from toposcope.core.tabular import Table

WIDTHS = (40, 60, 80, 120, 200)
RULES = re.compile(r"[─-╿]|-{8,}")  # what tables are drawn with


def _words(text: str) -> set[str]:
    return set(RULES.sub(" ", text).split())


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    """A table of four runs with two tokenizers and an unfinished run: every sentence there is."""
    parts = []
    step = np.arange(0, 800, 20)
    for i in range(4):
        noise = np.random.default_rng(i).standard_normal((2, len(step)))
        loss = (2.0 + 0.2 * i + 4.0 * (step + 30.0) ** -0.4) * np.exp(0.004 * noise[0])
        rows = pd.DataFrame(
            {
                "run": f"a-rather-long-name-of-a-run-{i}",
                "step": step,
                "loss": loss,
                "persistence": np.log(step + 50.0) + 0.02 * noise[1],
                "parameters": 4000 * 2**i,
            }
        )
        parts.append(rows[rows["step"] <= (400 if i == 3 else 800)])
    path = tmp_path_factory.mktemp("width") / "table.csv"
    pd.concat(parts).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("series")
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((16, 12)).astype(np.float32)
    for step in (0, 10, 20, 30):
        place = folder / "run" / f"step_{step}"
        place.mkdir(parents=True)
        moved = matrix * (1 + 0.01 * step) if step != 20 else np.full_like(matrix, np.nan)
        save_file({"transformer.h.0.mlp.c_fc.weight": moved}, place / "model.safetensors")
    return folder / "run"


def _run(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)


def _at_every_width(arguments: list[str], monkeypatch, capsys) -> list[str]:
    found = []
    for width in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(width))
        _run(arguments)
        found.append(capsys.readouterr().out)
    assert len(found[0]) > 60
    return found


@pytest.fixture(scope="module")
def replies(table) -> dict[str, object]:
    """What the commands' functions return, made once: only how it is printed is looked at here."""
    analysis = ts.analyze(table)
    return {
        "analyze": analysis, "report": Report(Path("page/index.html"), analysis),
        "forecast": ts.forecast([str(table)], methods="all", horizon=800),
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["analyze", "analyze --all", "forecast", "forecast --methods all", "report --out page"]
)
def test_commands_on_a_table_say_the_same_at_every_width(command, table, replies, monkeypatch, capsys):
    name, *options = command.split()
    monkeypatch.setattr(f"toposcope.api.{name}", lambda *_, **__: replies[name])
    printed = _at_every_width([name, str(table), *options], monkeypatch, capsys)
    for width, text in zip(WIDTHS[1:], printed[1:], strict=True):
        assert _words(text) == _words(printed[0]), width


@pytest.mark.parametrize("command", ["audit", "check", "compare", "watch"])
def test_commands_on_checkpoints_say_the_same_at_every_width(
    command, checkpoints, tmp_path, monkeypatch, capsys
):
    arguments = {
        "audit": ["audit", str(checkpoints)],
        "check": ["check", str(checkpoints), *(str(tmp_path / f"{name}.log") for name in "ab")],
        "compare": ["compare", str(checkpoints / "step_0"), str(checkpoints / "step_10")],
        "watch": ["watch", str(checkpoints), "--once", "--rest", "0", "--out", str(tmp_path / "watched")],
    }[command]
    for name, last in (("a", 2.0), ("b", 9.0)):
        lines = [f"step:{step}/500 train_loss:{3 - step / 500}" for step in range(1, 200)]
        text = "\n".join([*lines, f"step:200/500 train_loss:{last}"])
        (tmp_path / f"{name}.log").write_text(text, encoding="utf-8")
    if command == "watch":
        _run(arguments)  # the first pass measures, and says how long it took
        capsys.readouterr()
    printed = _at_every_width(arguments, monkeypatch, capsys)
    for width, text in zip(WIDTHS[1:], printed[1:], strict=True):
        assert _words(text) == _words(printed[0]), width


CELLS = (
    ("a-run", "1.25 [1.00, 1.50]", "one sentence that is rather long, and says why nothing could be told"),
    ("transformer.h.0.attn.c_attn.weight", "", "[bold]not markup[/bold] :smile:"),
)


@pytest.mark.parametrize("width", [8, 20, *WIDTHS])
@pytest.mark.parametrize("compact", [False, True])
def test_a_table_keeps_every_word_of_every_cell(width, compact, capsys):
    made = Table("", "What was found in these runs", "", ("run", "value", "why"), CELLS)
    made.show(width=width, compact=compact)
    out = capsys.readouterr().out
    expected = Counter(word for row in CELLS for cell in row for word in cell.split())
    printed = Counter(RULES.sub(" ", out).split())
    assert not expected - printed
    assert {"What", "runs", "run", "value", "why"} <= set(printed)
    longest = max(len(word) for word in expected)
    assert max(map(len, out.splitlines())) <= max(width, longest + len("run ")), out


def test_a_table_follows_columns_where_no_terminal_is(monkeypatch, capsys):
    made = Table("", "", "", ("a", "b"), ((" ".join(["word"] * 12), "x"),))
    monkeypatch.setenv("COLUMNS", "30")
    made.show()
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 30
    made.show(width=90)
    assert max(map(len, capsys.readouterr().out.splitlines())) > 60
