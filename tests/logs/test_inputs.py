"""One door: a path, standard input, a stream, columns, records, a data frame, a store and a run folder."""

from __future__ import annotations

import io
import struct
import sys

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from tests.logs.test_tables import LOSS, PAIRS, ROWS, STEP, csv
from toposcope.cli.main import main
from toposcope.core.errors import InputError
from toposcope.logs.inputs import is_in_memory

WHOLE = csv("step,loss", PAIRS)
TEXT = "".join(f"step {step} loss {loss}\n" for step, loss in zip(STEP, LOSS, strict=True))
IN_MEMORY = {
    "columns": {"step": STEP.tolist(), "loss": LOSS.tolist()},
    "arrays": {"step": STEP, "loss": LOSS},
    "records": ROWS,
    "frame": pd.DataFrame(ROWS),
    "indexed": pd.DataFrame(ROWS).set_index("step"),
}


def given_to_standard_input(monkeypatch, content: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))


@pytest.mark.parametrize("kind", IN_MEMORY)
def test_what_is_in_memory_is_read_as_its_file_is(kind, tmp_path):
    (tmp_path / "run.csv").write_text(WHOLE)
    log = ts.read_log(IN_MEMORY[kind])
    pd.testing.assert_frame_equal(log.table, ts.read_log(tmp_path / "run.csv").table)
    assert ts.check(IN_MEMORY[kind]).ok


def test_kerass_history_counts_its_epochs_and_none_is_no_number():
    history = {"loss": LOSS.tolist(), "val_loss": [*(LOSS[:59] + 0.1).tolist(), None]}
    table = ts.read_log(history).table
    assert table["step"].tolist() == list(range(1, 61))
    assert table["heldout_loss"].notna().sum() == 59
    assert ts.check(history).ok
    assert ts.check({**history, "loss": [*LOSS[:59].tolist(), float("nan")]}).line.startswith("stop")


def test_columns_of_several_lengths_are_refused_and_weights_are_no_columns():
    with pytest.raises(InputError, match="column 'loss' has 2 values, the longest has 3"):
        ts.read_log({"step": [1, 2, 3], "loss": [2.0, 1.5]})
    assert not is_in_memory({"lm_head.weight": np.ones((2, 2))})
    assert not is_in_memory({0: {"fc.weight": np.ones((2, 2))}})


@pytest.mark.parametrize("text", [TEXT, WHOLE])
def test_standard_input_and_a_stream_are_read_as_a_file_is(text, monkeypatch):
    given_to_standard_input(monkeypatch, text)
    for log in (ts.read_log("-"), ts.read_log(io.StringIO(text)), ts.read_log(io.BytesIO(text.encode()))):
        assert log.path == "standard input"
        assert log.table["loss"].tolist() == LOSS.tolist()


@pytest.mark.parametrize("command", ["check", "forecast", "analyze"])
def test_every_command_reads_standard_input_and_names_it(command, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text('{"max_steps": 7}')  # beside nothing: standard input has no folder
    given_to_standard_input(monkeypatch, TEXT)
    more = ["--horizon", "1000"] if command == "forecast" else []
    with pytest.raises(SystemExit) as ended:
        main([command, "-", *more])
    printed = capsys.readouterr()
    assert ended.value.code == 0, printed.err
    assert command == "analyze" or "standard input" in printed.out.splitlines()[0]
    assert " 7 " not in printed.out


def test_an_empty_standard_input_is_one_line(monkeypatch):
    given_to_standard_input(monkeypatch, "")
    with pytest.raises(InputError, match="standard input: is empty"):
        ts.read_log("-")


def test_two_logs_in_memory_are_compared(monkeypatch):
    given_to_standard_input(monkeypatch, TEXT)
    worse = {"step": STEP.tolist(), "loss": (LOSS + 0.5).tolist()}
    assert "0.50" in ts.compare("-", worse).line


def test_a_store_and_a_run_folder_of_ours_are_logs(tmp_path):
    from toposcope.sources.layout import RunFolder
    from toposcope.store import Store
    from toposcope.training.files import write_metrics

    rows = [{"run": "tiny", **row} for row in ROWS]
    store = Store.create(tmp_path / "store", recipe={})
    store.write_metrics(pd.DataFrame(rows))
    write_metrics(RunFolder(tmp_path / "tiny"), rows, start=0, stop=700)
    for place in (tmp_path / "store", tmp_path / "tiny"):
        (run,) = ts.read_log(place).runs
        assert run.name == "tiny"
        assert run.table["step"].tolist() == STEP.tolist()
        assert run.table["loss"].tolist() == LOSS.tolist()


def event_file(rows) -> bytes:
    """Return TensorBoard records of (step, tag, value), without checksums, which are not read."""
    out = b""
    for step, tag, value in rows:
        scalar = b"\x0a" + bytes([len(tag)]) + tag.encode() + b"\x15" + struct.pack("<f", value)
        summary = b"\x0a" + bytes([len(scalar)]) + scalar
        event = b"\x10" + bytes([step]) + b"\x2a" + bytes([len(summary)]) + summary
        out += struct.pack("<QI", len(event), 0) + event + bytes(4)
    return out


@pytest.mark.parametrize(
    ("train", "held", "tag"),
    [("train", "validation", "epoch_loss"), (".", "eval", "loss"), ("training", "test", "loss")],
)
def test_a_training_and_a_held_out_folder_of_events_are_one_run(train, held, tag, tmp_path):
    run = tmp_path / "run-1"
    for folder, shift in ((train, 0.0), (held, 0.5)):
        (run / folder).mkdir(parents=True, exist_ok=True)
        rows = [(step, tag, 7 - step / 10 + shift) for step in range(1, 13)]
        (run / folder / "events.out.tfevents.1").write_bytes(event_file(rows))
    for place in (tmp_path, run):
        log = ts.read_log(place)
        (one,) = log.runs
        assert one.name == "run-1"
        assert one.table["loss"].tolist() == pytest.approx([7 - step / 10 for step in range(1, 13)])
        assert one.table["heldout_loss"].tolist() == pytest.approx([7.5 - step / 10 for step in range(1, 13)])
        assert "held-out losses of this run" in log.said


def test_an_event_without_a_loss_is_no_loss_and_a_written_nan_is_one(tmp_path):
    rows = [(step, "train/loss", 7 - step / 10) for step in range(1, 61)]
    closing = [(60, "train/train_runtime", 9.0), (61, "train/total_flos", 2.0)]
    (tmp_path / "events.out.tfevents.1").write_bytes(event_file([*rows, *closing]))
    assert ts.check(tmp_path / "events.out.tfevents.1").ok
    (tmp_path / "events.out.tfevents.2").write_bytes(event_file([*rows, (61, "train/loss", float("nan"))]))
    assert ts.check(tmp_path / "events.out.tfevents.2").line.startswith("stop")


def test_the_metrics_of_a_log_have_the_columns_of_a_store():
    from toposcope.logs.metrics import empty
    from toposcope.store.schema import METRICS

    assert list(empty().columns) == METRICS.names


def test_a_store_read_as_a_log_keeps_the_records_of_its_runs(tmp_path):
    from toposcope.core.types import RunRecord
    from toposcope.logs import read_log
    from toposcope.runs.reading import log_of_store
    from toposcope.store import Store

    store = Store.create(tmp_path / "store", recipe={})
    store.write_runs([RunRecord("a", parameters=1000, corpus="pile", config={"max_iters": 900})])
    rows = pd.DataFrame({"run": "a", "step": range(1, 30), "loss": [5 / n for n in range(1, 30)]})
    store.write_metrics(rows)
    (plain,), (known,) = read_log(store.path).runs, log_of_store(store.path).runs
    assert (plain.parameters, dict(plain.config)) == (known.parameters, dict(known.config))
    assert plain.config["max_iters"] == 900
