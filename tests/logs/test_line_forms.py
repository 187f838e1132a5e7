"""Texts that only the forms of their lines tell: records that come again, and numbers told by behaviour."""

from pathlib import Path

import numpy as np
import pytest

import toposcope as ts
from toposcope.core.errors import InputError
from toposcope.logs.line_forms import run_of_forms

COUNT = 12
LOSSES = [round(2 + 4 / (i + 1), 4) for i in range(COUNT)]


def read(tmp_path: Path, content: str | bytes) -> ts.Log:
    data = content.encode() if isinstance(content, str) else content
    (tmp_path / "train.log").write_bytes(data)
    return ts.read_log(tmp_path / "train.log")


def lines(form: str) -> list[str]:
    return "".join(form.format(i=i, s=i + 1, x=x, y=x + 1) + "\n" for i, x in enumerate(LOSSES)).split("\n")


FORMS = {
    "a counter without a word": "[{s}00] speed = 1.5 ... train loss ~> {x}",
    "a place beside a size": "# {s}00 / 5000 # loss @ {x} # memory 1.4 # batch 16",
    "an epoch and a place": "ep {i}: {s}0 of 990 >> loss ({x})",
}


@pytest.mark.parametrize("name", FORMS)
def test_a_form_that_comes_again_is_a_record(name: str) -> None:
    run = run_of_forms(lines(FORMS[name]), "log")
    assert run is not None
    assert run.table["loss"].tolist() == LOSSES
    step = run.table["step"].to_numpy()
    assert (np.diff(step) > 0).all()


def test_a_form_with_a_held_out_word_is_held_out() -> None:
    run = run_of_forms(lines("train : {s}0 ; loss -- {x}\nvalid : {s}0 ; loss -- {y}"), "log")
    assert run is not None
    held = run.table[run.roles["heldout_loss"]].dropna()
    assert run.table[run.roles["loss"]].dropna().tolist() == LOSSES
    assert held.tolist() == [x + 1 for x in LOSSES]


def test_records_without_a_step_are_counted_and_said_to_be(tmp_path: Path) -> None:
    log = read(tmp_path, "\n".join(lines("after a while the loss ~ {x}")))
    assert log.table["step"].tolist() == [*range(1, COUNT + 1)]
    assert log.table["loss"].tolist() == LOSSES
    assert "counted" in log.said


def test_settings_and_summaries_are_no_records(tmp_path: Path) -> None:
    content = "[layer] iou loss: mse (2), scale 1.00\n" * 3 + "lowest loss yet: 2.5\nlowest loss yet: 2.4\n"
    with pytest.raises(InputError, match="no line names a step and a loss"):
        read(tmp_path, content)


def test_a_step_that_falls_at_random_is_none(tmp_path: Path) -> None:
    chance = [3, 1, 2, 1, 3, 0, 2, 1, 4, 0, 2, 1]
    pairs = enumerate(zip(chance, LOSSES, strict=True), 1)
    content = "".join(f"{i}00 of 5000 # iter {k} # loss: {x}\n" for i, (k, x) in pairs)
    (run,) = read(tmp_path, content).runs
    assert run.table["step"].tolist() == [100 * i for i in range(1, COUNT + 1)]


CHINESE = "当前Batch：{s}0/990 | 当前损失值：{x} | 当前准确率：9.00%"


@pytest.mark.parametrize("coding", ["utf-8", "gb18030"])
def test_chinese_lines_are_read_in_both_encodings(tmp_path: Path, coding: str) -> None:
    (run,) = read(tmp_path, "\n".join(lines(CHINESE)).encode(coding)).runs
    assert run.table["loss"].tolist() == LOSSES
    assert run.table["step"].tolist() == [10 * i for i in range(1, COUNT + 1)]


def test_accents_in_latin_1_are_letters(tmp_path: Path) -> None:
    (run,) = read(tmp_path, "\n".join(lines("Época {s}/20 - pérdida: {x}")).encode("latin-1")).runs
    assert run.table["loss"].tolist() == LOSSES


def test_damaged_bytes_do_not_change_the_encoding(tmp_path: Path) -> None:
    data = "\n".join(lines("époque {s}/20 ✓ perte: {x}")).encode() + b"note \xe9\xff\n"
    (run,) = read(tmp_path, data).runs
    assert run.table["loss"].tolist() == LOSSES


def test_a_record_over_two_lines_has_the_place_of_the_first(tmp_path: Path) -> None:
    record = "Epoch [1][{s}0/990] lr: 0.1, loss_cls: 0.5, loss_box: 0.25,\n loss_mask: 0.1, loss: {x}"
    (run,) = read(tmp_path, "\n".join(lines(record))).runs
    assert run.table["loss"].tolist() == LOSSES
    assert run.table["step"].tolist() == [10 * i for i in range(1, COUNT + 1)]
    assert set(run.table["loss_cls"]) == {0.5}


def test_records_after_a_line_of_evaluation_are_held_out(tmp_path: Path) -> None:
    training = "".join(f"  batch count: {k}/9, iter: {{e}}{k}, loss: {{x}}\n" for k in range(3))
    content = "".join(
        f"Training at epoch {e}\n{training.format(e=e, x=x)}"
        f"Validation at epoch {e}\n  batch count: 0/5, iter: 0, loss: {x + 1}\n"
        for e, x in enumerate(LOSSES, 1)
    )
    (run,) = read(tmp_path, content).runs
    assert run.table["loss"].dropna().tolist()[-1] == LOSSES[-1]
    assert run.table["heldout_loss"].dropna().tolist() == [x + 1 for x in LOSSES]
    assert run.table["step"].is_monotonic_increasing


WRITERS = {
    "syslog": "Nov 27 10:00:{i:02} node1 train[{pid}]: step {s}0 loss {x}",
    "a process named in the line": "INFO pid={pid} step {s}0 loss {x}",
}


@pytest.mark.parametrize("name", WRITERS)
def test_of_two_processes_that_alternate_one_is_read(tmp_path: Path, name: str) -> None:
    content = "".join(
        WRITERS[name].format(i=i, s=i + 1, x=round(x + pid % 2, 4), pid=pid) + "\n"
        for i, x in enumerate(LOSSES)
        for pid in (712, 713)
    )
    log = read(tmp_path, content)
    (run,) = log.runs
    assert run.table["loss"].tolist() == LOSSES
    assert "2 processes write into this log: process 712 is read" in log.said
