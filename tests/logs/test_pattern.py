# ruff: noqa: E501 -- so are patterns
"""A text that no dialect knows: one line that quotes it and offers a pattern, which works as typed."""

from __future__ import annotations

import re
import shlex
import threading
import time

import pytest

import toposcope as ts
from toposcope.cli.main import main
from toposcope.core.errors import InputError
from toposcope.logs import read_log

LINES = {
    "short": "it={n}/5000 L={x:.3f} lr=1e-3",
    "led": "{n:05d}: obj {x:.4f} (peak 3.2)",
    "clock": "[12:00:01] tick {n} -> objective: {x:.4f} | g 1.2",
    "quotes": "batch {n}/600 'q' value={x:.4f}",
    "marks": "<{n}> {{{x:.4f}}}",
    "dollar": "k {n}, avg$ [{x:.3f}]",
    "commas": "k {n:,} val^2 {x:.3f}",
}


def _text(line: str) -> str:
    rows = (line.format(n=n, x=2 + 4 / n**0.5) for n in range(990, 1080))
    return "version 1.2.3 of 2024-01-01\nstarting 7 workers\n" + "\n".join(rows) + "\n"


def _printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    with pytest.raises(SystemExit) as ended:
        main(words)
    printed = capsys.readouterr()
    return ended.value.code, printed.out + printed.err


@pytest.mark.parametrize("name", LINES)
def test_the_pattern_that_is_offered_works_as_typed(name, tmp_path, capsys):
    file = tmp_path / "train.log"
    file.write_text(_text(LINES[name]))
    code, said = _printed(["check", str(file)], capsys)
    assert (code, len(said.splitlines())) == (2, 1)
    assert LINES[name].format(n=990, x=2 + 4 / 990**0.5) in said.replace('"', "'")
    typed = re.search(r"(--pattern .*)$", said)
    assert typed is not None
    code, said = _printed(["check", str(file), *shlex.split(typed[1])], capsys)
    assert (code, "at step 1,079 (loss 2.122)" in said) == (0, True), said


def test_every_command_and_function_takes_a_pattern(tmp_path, capsys):
    paths = [tmp_path / name for name in ("a.log", "b.log", "c.log")]
    for file in paths:
        file.write_text(_text(LINES["short"]))
    pattern = r"it=(?P<step>\d+)/\S+ L=(?P<loss>\S+)"
    log = read_log(paths[0], pattern=pattern)
    assert (log.dialect, len(log.table)) == ("the pattern", 90)
    words = [str(paths[0]), "--pattern", pattern]
    assert _printed(["forecast", *words, "--horizon", "3000"], capsys)[0] == 0
    assert _printed(["analyze", *words], capsys)[0] == 0
    assert _printed(["report", *words, "--out", str(tmp_path / "page")], capsys)[0] == 0
    assert _printed(["compare", *map(str, paths[:2]), "--siblings", str(paths[2]), *words[1:]], capsys)[
        0
    ] in (0, 1)
    assert ts.check(paths[0], pattern=pattern).ok
    assert ts.forecast(paths[0], pattern=pattern, horizon=3000).table is not None
    assert ts.analyze(paths[0], pattern=pattern) is not None
    code, said = _printed(["watch", str(tmp_path), "--pattern", pattern, "--once"], capsys)
    assert (code, "give --losses FILE as well" in said) == (2, True)


def test_groups_of_a_pattern_are_the_columns_and_its_epochs_count_steps_on(tmp_path):
    file = tmp_path / "a.log"
    file.write_text(
        "".join(
            f"{e}.{p} L {3 - e - p / 100:.2f} H {9 - e} r 1e-3 q {p}\n" for e in range(3) for p in (0, 10, 20)
        )
    )
    log = read_log(
        file,
        pattern=r"(?P<epoch>\d+)\.(?P<step>\d+) L (?P<loss>\S+) H (?P<heldout_loss>\S+) r (?P<learning_rate>\S+) q (?P<q>\d+)",
    )
    assert log.table["step"].tolist() == [0, 10, 20, 30, 40, 50, 60, 70, 80]
    assert log.table["heldout_loss"].tolist() == [9, 9, 9, 8, 8, 8, 7, 7, 7]
    assert {"learning_rate", "q", "epoch"} <= set(log.table)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "it is no regular expression"),
        (r"loss (?P<loss>\S+)", "it has no group step or epoch"),
        (r"it (?P<step>\d+)", "it has no group loss or heldout_loss"),
        (r"(?P<step>(\d+)+) (?P<loss>x)", "a repetition within a repetition"),
        (r"(?P<step>\d)(?:a|aa)*(?P<loss>x)", "a repetition within a repetition"),
        (r"nothing (?P<step>\d+) (?P<loss>\d+)", "no line matches"),
    ],
)
def test_a_pattern_that_cannot_work_is_one_line(pattern, why, tmp_path, capsys):
    file = tmp_path / "a.log"
    file.write_text(_text(LINES["short"]))
    code, said = _printed(["check", str(file), "--pattern", pattern], capsys)
    assert (code, len(said.splitlines()), why in said) == (2, 1, True), said


def test_a_search_without_end_is_ended(tmp_path):
    file = tmp_path / "a.log"
    file.write_text("it=1 L=2.5\n" + "1 " * 2000 + "\n")
    pattern = r"(?P<step>\d+).*L=.*(?P<loss>\S+)|(.*,.*,.*,.*,.*;)|(\S* \S* .* .* .* .* .* .* .* .*#)"
    began = time.monotonic()
    with pytest.raises(InputError, match="takes more than 2 seconds for one line"):
        read_log(file, pattern=pattern)
    assert time.monotonic() - began < 20
    read: list[object] = []
    short = r"it=(?P<step>\d+) L=(?P<loss>\S+)"
    other = threading.Thread(target=lambda: read.append(len(read_log(file, pattern=short).table)))
    other.start()
    other.join()
    assert read == [1]
