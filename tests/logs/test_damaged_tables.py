"""Tables, JSON and notebooks in any encoding, and damaged anywhere: read, or refused in one line."""

from __future__ import annotations

import gzip
import json
import random

import numpy as np
import pytest

from tests.logs.test_tables import AS_THEY_ARE, LOSS, PAIRS, STEP, csv
from toposcope.core.errors import InputError
from toposcope.logs import read_log

WHOLE = csv("step,loss", PAIRS)
TEXT = "".join(f"step {step} loss {loss}\n" for step, loss in zip(STEP, LOSS, strict=True))
DAMAGED = 8
"""How often each form is damaged; the seed is its name."""


def notebook(*outputs: object) -> str:
    cells = [{"cell_type": "code", "source": [], "outputs": [one]} for one in outputs]
    return json.dumps({"cells": cells, "nbformat": 4, "metadata": {}})


def table_of_html(rows, plan: int = 600) -> dict[str, object]:
    head = "<tr><th>Step</th><th>Training Loss</th><th>Validation Loss</th></tr>"
    body = "".join(f"<tr><td>{s}</td><td>{x}</td><td>No log</td></tr>\n" for s, x in rows)
    bar = f"<progress value='60' max='{plan}' style='width:300px'></progress> [60/{plan}]"
    html = f"<div>{bar}</div><table border='1'><thead>{head}</thead><tbody>{body}</tbody></table>"
    return {"output_type": "display_data", "data": {"text/html": html.splitlines(keepends=True)}}


FORMS = {
    **AS_THEY_ARE,
    "tables.ipynb": notebook(table_of_html(zip(STEP, LOSS, strict=True))),
    "printed.ipynb": notebook({"output_type": "stream", "text": [TEXT]}),
    "text.log": TEXT,
}


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
@pytest.mark.parametrize(("name", "text"), [("a.csv", WHOLE), ("a.log", TEXT), ("a.txt", WHOLE)])
def test_a_log_is_read_in_every_unicode_encoding_with_and_without_a_mark(coding, name, text, tmp_path):
    (tmp_path / name).write_bytes(text.encode(coding))
    table = read_log(tmp_path / name).table
    assert table["step"].tolist() == STEP.tolist()
    assert table["loss"].tolist() == LOSS.tolist()


@pytest.mark.parametrize(("name", "text"), [("a.csv.gz", WHOLE), ("a.log.gz", TEXT)])
def test_a_packed_log_that_is_cut_is_read_up_to_the_cut_and_the_log_says_so(name, text, tmp_path):
    packed = gzip.compress(text.encode())
    (tmp_path / name).write_bytes(packed[: len(packed) * 3 // 4])
    log = read_log(tmp_path / name)
    assert "the packed file is cut short" in log.said
    assert 20 < len(log.table) < 60
    assert log.table["loss"].tolist() == LOSS[: len(log.table)].tolist()
    (tmp_path / name).write_bytes(packed)
    assert "cut" not in read_log(tmp_path / name).said


def test_lines_that_a_block_of_zeros_hit_are_left_out_and_said(tmp_path):
    hit = WHOLE.replace("300,2", "30\0" + "\0" * 600 + "2", 1)
    (tmp_path / "a.csv").write_text(hit)
    (tmp_path / "a.log").write_text(TEXT.replace("step 300", "st\0" + "\0" * 600 + "0"))
    (tmp_path / "begin.log").write_text("\0" * 5000 + "\n" + TEXT)
    for name in ("a.csv", "a.log"):
        log = read_log(tmp_path / name)
        assert log.table["step"].tolist() == [step for step in STEP if step != 300]
        assert "zero bytes" in log.said
    assert len(read_log(tmp_path / "begin.log").table) == 60


def test_a_last_number_that_is_cut_is_left_out_of_a_table(tmp_path):
    rows = [f"{step},{loss:.6f}" for step, loss in zip(STEP, LOSS, strict=True)]
    (tmp_path / "a.csv").write_text(csv("step,loss", rows)[:-4])
    assert read_log(tmp_path / "a.csv").table["step"].tolist() == STEP[:-1].tolist()
    (tmp_path / "b.csv").write_text(csv("step,loss", rows)[:-1])
    assert read_log(tmp_path / "b.csv").table["step"].tolist() == STEP.tolist()


def test_half_a_letter_in_json_is_no_traceback(tmp_path):
    rows = [{"step": int(s), "loss": float(x), "\ud800 note": 1.0 * s, "run": "a\udfff"}
            for s, x in zip(STEP, LOSS, strict=True)]  # fmt: skip
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    log = read_log(tmp_path / "a.jsonl")
    assert len(log.table) == 60
    repr(log).encode()
    log.table.to_csv().encode()


def test_a_notebooks_tables_and_printed_lines_are_read_and_an_empty_one_says_what_to_do(tmp_path):
    file = tmp_path / "train.ipynb"
    pairs = [*zip(STEP, LOSS, strict=True)]
    file.write_text(notebook(table_of_html(pairs), table_of_html(pairs[:20], 200)))
    first, second = read_log(file).runs
    assert (len(first.table), first.planned_steps, len(second.table), second.planned_steps) == (
        60,
        600,
        20,
        200,
    )
    assert first.table["loss"].tolist() == LOSS.tolist()
    file.write_text(notebook({"output_type": "stream", "text": [TEXT[:100], TEXT[100:]]}))
    assert read_log(file).table["loss"].tolist() == LOSS.tolist()
    file.write_text(notebook(table_of_html([])))
    with pytest.raises(InputError, match=r"train.ipynb: no output .* save it with its outputs") as caught:
        read_log(file)
    assert "\n" not in str(caught.value)


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Cut, repeat, overwrite, or fill with zeros some piece of a file."""
    out = bytearray(content)
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(len(out))
        size = draw.choice([1, 2, 8, 60])
        kind = draw.randrange(6)
        if kind == 0:
            del out[at:]
        elif kind == 1:
            out[at:at] = out[at : at + size * 8]
        elif kind == 2:
            out[at : at + size] = bytes(draw.randrange(256) for _ in range(size))
        elif kind == 3:
            out[at : at + size] = bytes(size)
        elif kind == 4:
            del out[at : at + size]
        else:
            lines = out.split(b"\n")
            draw.shuffle(lines)
            out = bytearray(b"\n".join(lines))
        if not out:
            return b"\n"
    return gzip.compress(bytes(out))[: -draw.randrange(1, 40)] if draw.random() < 0.1 else bytes(out)


@pytest.mark.parametrize("name", FORMS)
def test_any_damage_to_a_table_is_read_or_refused_in_one_line(name, tmp_path):
    draw = random.Random(name)
    file = tmp_path / name
    for _ in range(DAMAGED):
        file.write_bytes(damaged(FORMS[name].encode(), draw))
        try:
            log = read_log(file)
        except InputError as error:
            said = str(error)
            assert name in said
        else:
            said = log.said
            assert np.isfinite(log.table["step"].to_numpy(float)).all()
            repr(log)
        assert "\n" not in said


def test_commands_take_damaged_tables_without_a_traceback(tmp_path):
    import toposcope as ts

    draw = random.Random(5)
    file = tmp_path / "log.csv"
    for name in ("resumed.csv", "empty_cell.csv", "header_added.csv"):
        for _ in range(3):
            file.write_bytes(damaged(FORMS[name].encode(), draw))
            try:
                said = ts.check(file).line
            except InputError as error:
                said = str(error)
            assert "\n" not in said
