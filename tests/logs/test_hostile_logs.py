"""Logs that are damaged, cut short or made to harm are one line of error, or read as far as they go."""

from __future__ import annotations

import gzip
import json
import random
import struct
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.logs.test_dialects import HF, TEXTS, wandb_file
from toposcope.core.errors import InputError
from toposcope.logs import read_log

HUGE = "9" * 400
BAD = {
    "empty.log": b"",
    "zeros.log": b"\0" * 5000,
    "noise.bin2": bytes(random.Random(0).randrange(256) for _ in range(5000)),
    "prose.txt": b"It was the best of times, it was the worst of losses.\n" * 50,
    "source.py": b"print(f'step {step} loss {loss}')\n",
    "cut.json": b'[{"step": 1, "loss": 2.0}, {"st',
    "deep.json": b"[" * 100_000,
    "scalar.json": b"3",
    "rows.json": b"[1, 2]",
    "deep.jsonl": b'{"a": ' * 50_000,
    "middle.jsonl": b'{"step": 1, "loss": 2}\n{"step"\n{"step": 3, "loss": 1}\n',
    "list.jsonl": b"[1, 2]\n[3, 4]\n",
    "header.csv": b"step,loss\n",
    "nothing.csv": b"\n\n\n",
    "ragged.csv": b"step,loss\n1,2\n1,2,3,4,5\n",
    "text.csv": b"run,note\na,b\n",
    "latin.csv": b"step,loss\n1,2\n\xff\xfe\xfa,3\n",
    "quote.csv": b'step,loss\n1,"2\n',
    "cut.parquet": b"PAR1" + b"\0" * 100,
    "cut.wandb": b":W&B",
    "noise.wandb": b":W&B" + bytes(random.Random(1).randrange(256) for _ in range(5000)),
    "other.wandb": b"abcdefg" * 100,
    "cut.db": b"SQLite format 3\0" + b"\x10" * 50,
    "events.out.tfevents.1": bytes(random.Random(2).randrange(256) for _ in range(5000)),
    "bomb.log.gz": b"\x1f\x8b" + b"\0" * 50,
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_log_is_one_line_that_names_the_file(name, tmp_path):
    (tmp_path / name).write_bytes(BAD[name])
    with pytest.raises(InputError) as caught:
        read_log(tmp_path / name)
    said = str(caught.value)
    assert name in said
    assert "\n" not in said
    assert "--" not in said


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_cut_or_scrambled_anywhere_is_read_or_refused(name, tmp_path):
    content = TEXTS[name][0].encode()
    draw = random.Random(name)
    file = tmp_path / "train.log"
    for _ in range(25):
        damaged = bytearray(content[: draw.randrange(1, len(content))])
        for _ in range(draw.randrange(6)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        file.write_bytes(damaged)
        try:
            log = read_log(file)
        except InputError as error:
            said = str(error)
        else:
            said = log.said
            assert (log.table["step"] >= 0).all()
        assert "\n" not in said


def test_a_scrambled_wandb_file_is_read_or_refused(tmp_path):
    content = wandb_file(HF, "bold-sun-1")
    draw = random.Random(3)
    for _ in range(60):
        damaged = bytearray(content)
        for _ in range(4):
            damaged[draw.randrange(draw.choice([200, len(content)]))] = draw.randrange(256)
        (tmp_path / "a.wandb").write_bytes(damaged)
        try:
            said = read_log(tmp_path / "a.wandb").said
        except InputError as error:
            said = str(error)
        assert "\n" not in said


def test_impossible_numbers_are_no_steps_and_no_losses_but_infinite(tmp_path):
    rows = [{"step": 1, "loss": 2.0}, {"step": 2, "loss": float("nan")}, {"step": 3, "loss": int(HUGE)},
            {"step": int(HUGE), "loss": 1.0}, {"step": -5, "loss": 1.0}, {"step": "x", "loss": 1.0},
            {"step": float("inf"), "loss": 1.0}, {"step": 4, "loss": True}]  # fmt: skip
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    lines = [
        f"step:{s}/9 train_loss:{x} train_time:1ms" for s, x in ((1, "2.0"), (2, "nan"), (3, HUGE), (HUGE, 1))
    ]
    (tmp_path / "a.log").write_text("\n".join(lines))
    (tmp_path / "a.csv").write_text(f"step,loss\n1,2.0\n2,nan\n3,{HUGE}\n{HUGE},1\n-5,1\n")
    for name in ("a.jsonl", "a.log", "a.csv"):
        table = read_log(tmp_path / name).table.set_index("step")["loss"]
        assert table.index.tolist()[:3] == [1, 2, 3], name
        assert np.array_equal(table.to_numpy()[:3], [2.0, np.nan, np.inf], equal_nan=True), name
        assert set(table.index) <= {1, 2, 3, 4}, name


@pytest.mark.parametrize(
    "line",
    ["{" * 60_000, "loss " * 12_000, "step:" * 12_000, "step 1 loss" + " " * 60_000, "a-" * 30_000 + " loss",
     "[step=" * 10_000, "iteration 1/2 |" + " " * 60_000, "|" * 60_000 + "iteration 1/ 2 |", "\t" * 60_000,
     "loss step " + "step 1 " * 8_000, "{'loss': " + "'a': " * 10_000, '"step": 1' * 6_000],
)  # fmt: skip
def test_a_long_line_costs_no_more_than_its_length(line, tmp_path):
    text = TEXTS["modded-nanogpt"][0]
    (tmp_path / "a.log").write_text(text + line + "\n" + line + "\n" + text.replace("5.25", "5.5"))
    began = time.process_time()  # of the processor: a busy machine changes nothing
    assert len(read_log(tmp_path / "a.log").runs) == 2
    for name in TEXTS:
        (tmp_path / "b.log").write_text(TEXTS[name][0] + line + "\n")
        read_log(tmp_path / "b.log")
    assert time.process_time() - began < 20  # a quadratic pattern takes minutes


@pytest.mark.slow
def test_a_line_without_an_end_and_a_packed_bomb_are_read_in_little_memory(tmp_path):
    text = "step:1/9 train_loss:6.5\n" + "x" * 30_000_000 + "\nstep:2/9 train_loss:5.25\n"
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(text.encode()))
    tracemalloc.start()
    assert read_log(tmp_path / "a.log.gz").table["loss"].tolist() == [6.5, 5.25]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 25_000_000


def test_a_record_of_names_without_end_is_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"step": i, f"k{i}": 1.0}) for i in range(5000)))
    with pytest.raises(InputError, match="more than 4,096 names"):
        read_log(tmp_path / "a.jsonl")


def test_an_event_whose_tag_is_a_number_is_refused(tmp_path):
    value = b"\x08\x01"  # field 1, a varint in place of a text
    summary = b"\x0a" + bytes([len(value)]) + value
    event = b"\x10\x05\x2a" + bytes([len(summary)]) + summary
    record = struct.pack("<QI", len(event), 0) + event + b"\0\0\0\0"
    (tmp_path / "events.out.tfevents.1").write_bytes(record)
    with pytest.raises(InputError, match="not a valid event file"):
        read_log(tmp_path / "events.out.tfevents.1")


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_every_command_says_what_to_do_about_a_log_of_nan_losses(kind, tmp_path, monkeypatch, capsys):
    from toposcope.cli.main import main

    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.chdir(tmp_path)
    mine = np.random.default_rng(0).standard_normal(61)
    rows = pd.DataFrame({"step": np.arange(50, 3100, 50), "loss": np.nan, "mine": mine})
    if kind == "csv":
        rows.to_csv("lost.csv", index=False)
    else:
        lines = [json.dumps({"step": int(s), "loss": float("nan")}) for s in rows["step"]]
        Path("lost.jsonl").write_text("\n".join(lines))
    wanted = {
        "check": (1, "none of the 61 losses is finite; start again, with a lower rate"),
        "analyze": (2, "none of the 61 losses in 'loss' is finite; start the run again with a lower"),
        "forecast": (2, "start it again with a lower rate, or choose another loss with --column"),
    }
    for command, (code, words) in wanted.items():
        with pytest.raises(SystemExit) as ended:
            main([command, f"lost.{kind}"])
        printed = capsys.readouterr()
        assert ended.value.code == code, command
        assert words in (printed.err if code == 2 else printed.out.splitlines()[0])
        assert "none is logged" not in printed.out
        assert "Traceback" not in printed.err
