"""Long logs: shortcuts that give what the plain rules give, and work that grows with the log alone."""

from __future__ import annotations

import json
import tracemalloc
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toposcope.cli.main import main
from toposcope.core.errors import SourceError
from toposcope.logs import read_log
from toposcope.logs import records as recorded
from toposcope.logs.dialects import _shapes as shapes
from toposcope.logs.dialects import json_files, plain_text
from toposcope.logs.records import BEGINS_AGAIN, MOST_COLUMNS, Columns, parts, replaced

LINES = (
    "step {n} | loss {x:.4f} | lr {r:.3e} | grad_norm {g:.2f}",
    "Epoch [{e}/3], Step [{n}/2000], Loss: {x:.4f}",
    "[{e},  {n}] loss: {x:.3f}",
    "2024-05-0{e} 10:00:{s} INFO iter {n}, train_loss: {x:.3f}, {s}ms/it",
    "step 10,{s}0 loss {x:.2f} ({g:.2f})",
    "Step {s}.{e}K loss {x:.3f} nan tokens {n}",
    "epoch {e}",
    "loss: {x:.3f} in {s}s",
    "layer{e} l1 loss {x:.2f} step {n}",
    "step {n} loss nan",
    "Evaluation Results:",
    "  loss: {x:.3f}",
    "saved to /tmp/step_{n}.pt",
    "Loss at epoch {e} and iteration {n} is {x:.3f}",
)


def mixed_log(seed: int, count: int = 200) -> list[str]:
    random = np.random.default_rng(seed)
    chosen = random.choice(len(LINES), 5, replace=False)
    return [
        LINES[random.choice(chosen)].format(
            n=n, x=random.random() * 9, r=random.random() * 1e-3, g=random.random(), e=n % 4, s=10 + n % 50
        )
        for n in range(count)
    ]


class RulesAlone:
    """Reads every line by the rules."""

    def __init__(self, read: shapes.Read) -> None:
        self._read = read

    def read(self, line: str, title: str = "") -> shapes.Said:
        return self._read(line, title)


@pytest.mark.parametrize("seed", range(12))
def test_lines_read_by_their_shape_say_what_the_rules_say(seed, monkeypatch):
    lines = mixed_log(seed)
    by_shape = list(map(repr, plain_text.records(lines)))
    monkeypatch.setattr(shapes, "LineShapes", RulesAlone)
    assert by_shape == list(map(repr, plain_text.records(lines)))


def test_the_rules_read_few_lines_of_a_long_log(monkeypatch):
    read, ruled = plain_text._read, []
    monkeypatch.setattr(plain_text, "_read", lambda line, title: ruled.append(line) or read(line, title))
    lines = [LINES[0].format(n=n, x=2 + 1 / (n + 1), r=1e-3, g=0.5) for n in range(5000)]
    assert len(list(plain_text.records(lines))) == 5000
    assert len(ruled) < 100


def test_a_name_with_a_digit_has_no_shape():
    read = shapes.LineShapes(plain_text._read)
    said = [read.read(f"step {n} loss{n % 2} 2.5{n}") for n in range(10)]
    assert [sorted(one.said) for one in said] == [[f"loss{n % 2}"] for n in range(10)]
    assert read.learned == []


def test_records_with_other_names_in_another_order_keep_their_rows():
    columns = Columns("log")
    for record in ({"a": 1.0, "b": np.nan}, {}, {"b": 2, "a": 3}, {"c": 4.0}, {"a": 5.0, "b": 6.0}):
        columns.add(record)
    table = columns.table()
    assert [*table] == ["a", "b", *(name for name in table if name not in "abc"), "c"]
    assert table["a"].dropna().to_dict() == {0: 1.0, 2: 3.0, 4: 5.0}
    assert table["b"].dropna().to_dict() == {2: 2.0, 4: 6.0}
    assert table["c"].dropna().to_dict() == {3: 4.0}


@pytest.mark.parametrize("together", [1, 2, 3, 5, 7])
def test_records_that_become_columns_in_parts_make_the_same_table(together, monkeypatch):
    rows = [{"a": float(n), **({"b": np.nan} if n % 3 else {"c": 2.0})} for n in range(10)]
    whole = recorded.collected([*rows, {"d": 1.0, "a": np.nan}], "log")
    monkeypatch.setattr(recorded, "_TOGETHER", together)
    in_parts = recorded.collected([*rows, {"d": 1.0, "a": np.nan}], "log")
    pd.testing.assert_frame_equal(in_parts, whole)


def test_the_numbers_of_a_long_log_are_in_memory_once():
    record = {"step": 1.0, "loss": 2.5, "lr": 1e-3, "grad_norm": 0.5}
    tracemalloc.start()
    table = recorded.collected((record for _ in range(300_000)), "log")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * table.to_numpy().nbytes + 8_000_000  # 13 numbers a row before, of which 4 are the log


def test_too_many_names_are_refused():
    columns = Columns("log")
    for n in range(MOST_COLUMNS):
        columns.add({f"x{n}": 1.0})
    with pytest.raises(SourceError, match="more than 4,096 names"):
        columns.add({"another": 1.0})


def test_plain_records_are_read_as_any_others(tmp_path, monkeypatch):
    rows = [
        {"step": n, "loss": 2.5 if n % 7 else 10**400, "näme": 1, "nan": float("nan"), "on": True}
        for n in range(30)
    ]
    rows += [{"step": 30 + n, "loss": 2.25, "lr": 1e-3} for n in range(30)]
    rows[40] |= {"run": "b"}
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(map(json.dumps, rows)) + "\n")
    quick = read_log(log)
    monkeypatch.setattr(json_files, "_plain", lambda content: None)
    assert [run.table.to_csv() for run in read_log(log).runs] == [run.table.to_csv() for run in quick.runs]


steps = st.lists(st.integers(0, 30).map(float), max_size=60).map(np.array)


@given(steps)
@settings(max_examples=200, deadline=None)
def test_the_parts_of_a_log_are_those_of_their_definition(step):
    part, begin, now = np.zeros(len(step), int), 0, 0
    for at in range(1, len(step)):
        done = step[begin:at]
        falls = step[at] < step[at - 1]
        if (
            falls
            and (step[at] <= done[0] or step[at] < BEGINS_AGAIN * done.max())
            and done.max() > done.min()
        ):
            now, begin = now + 1, at
        part[at] = now
    assert parts(step).tolist() == part.tolist()


@given(steps, st.data())
@settings(max_examples=200, deadline=None)
def test_a_row_is_replaced_if_a_later_training_row_falls_to_its_step_or_below(step, data):
    trained = np.array(data.draw(st.lists(st.booleans(), min_size=len(step), max_size=len(step))), bool)
    at = np.flatnonzero(trained)
    falls = [b for a, b in pairwise(at) if step[b] < step[a]]
    wanted = [any(place < fall and step[place] >= step[fall] for fall in falls) for place in range(len(step))]
    assert replaced(step, trained).tolist() == wanted


def wide(columns: int) -> str:
    names = ",".join(f"norm_{n}" for n in range(columns))
    rows = [f"{step},{3 - step / 100},{','.join('1' for _ in range(columns))}" for step in range(1, 31)]
    return "\n".join([f"step,loss,{names}", *rows])


def test_a_table_of_too_many_columns_is_refused_at_once(tmp_path, capsys):
    log = tmp_path / "wide.csv"
    log.write_text(wide(MOST_COLUMNS))
    with pytest.raises(SystemExit) as ended:
        main(["check", str(log)])
    assert ended.value.code == 2
    assert (
        f"has {MOST_COLUMNS + 2:,} columns, and at most {MOST_COLUMNS:,} are read" in capsys.readouterr().err
    )


def test_a_table_of_many_columns_is_read_without_a_warning(tmp_path, capsys):
    log = tmp_path / "wide.csv"
    log.write_text(wide(300))
    with pytest.raises(SystemExit) as ended:
        main(["check", str(log)])
    assert (ended.value.code, capsys.readouterr().err) == (0, "")
