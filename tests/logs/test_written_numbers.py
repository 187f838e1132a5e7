"""Numbers of a table, however a program or a person wrote them; texts that are none are named."""

from __future__ import annotations

import pytest

from toposcope.cli.main import main
from toposcope.core.errors import InputError
from toposcope.logs import read_log

HIGH = [9.125, 8.5, 7.25, 6.875]


@pytest.mark.parametrize(
    ("name", "text", "step"),
    [
        ("comma.csv", "step;loss\n0;9,125\n10;8,5\n20;7,25\n30;6,875\n", [0, 10, 20, 30]),
        ("point.csv", "step;loss\n0;9.125\n10;8.5\n20;7.25\n30;6.875\n", [0, 10, 20, 30]),
        (
            "thousands.csv",
            'step,loss\n"1,000",9.125\n"2,000",8.5\n"3,000",7.25\n"4,000",6.875\n',
            [1000, 2000, 3000, 4000],
        ),
    ],
)
def test_a_tables_numbers_are_read_as_they_are_meant(name, text, step, tmp_path):
    (tmp_path / name).write_text(text)
    table = read_log(tmp_path / name).table
    assert table["loss"].tolist() == HIGH
    assert table["step"].tolist() == step


@pytest.mark.parametrize("values", [("high", "low"), ("9.1 nats", "8.2 nats")])
def test_a_loss_that_is_text_is_no_run_that_broke(values, tmp_path, capsys):
    file = tmp_path / "log.csv"
    file.write_text("step,loss\n" + "".join(f"{n},{values[n > 3]}\n" for n in range(8)))
    with pytest.raises(InputError, match=rf"log.csv: column 'loss' has '{values[0]}', which is not a number"):
        read_log(file)
    with pytest.raises(SystemExit) as ended:
        main(["check", str(file)])
    printed = capsys.readouterr()
    assert ended.value.code == 2
    assert "stop" not in printed.out + printed.err
    assert len(printed.err.splitlines()) == 1


def test_some_texts_among_losses_count_as_missing_and_are_said(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("step,loss\n" + "".join(f"{n},{'waiting' if n < 2 else 9 - n}\n" for n in range(8)))
    log = read_log(file)
    assert log.table["loss"].isna().sum() == 2
    assert "2 values of 'loss' that are not numbers, such as 'waiting', count as missing" in log.said


def test_losses_that_are_all_nan_are_a_run_that_broke(tmp_path, capsys):
    file = tmp_path / "log.csv"
    file.write_text("step,loss\n" + "".join(f"{n},nan\n" for n in range(8)))
    with pytest.raises(SystemExit) as ended:
        main(["check", str(file)])
    assert ended.value.code == 1
    assert "stop" in capsys.readouterr().out


def test_the_column_of_the_step_is_not_suggested_as_the_loss(tmp_path, capsys):
    file = tmp_path / "log.csv"
    file.write_text("step,ce\n" + "".join(f"{n},{9 - n}\n" for n in range(8)))
    with pytest.raises(SystemExit):
        main(["check", str(file)])
    said = capsys.readouterr().err
    assert "no column 'loss'" in said
    assert "did you mean" not in said
