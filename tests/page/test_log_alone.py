"""The page of a log alone: no line without a meaning, no table and no figure of nothing."""

import re

import numpy as np
import pandas as pd
import pytest

import toposcope as ts


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> str:
    steps = np.arange(0, 600, 20)
    loss = 2 + 2 * np.exp(-steps / 150) + np.random.default_rng(1).normal(0, 0.01, len(steps))
    table = pd.DataFrame({"step": steps, "loss": loss, "seconds": steps * 0.1})
    folder = tmp_path_factory.mktemp("log") / "report"
    ts.report(ts.analyze(table), folder)
    return (folder / "index.html").read_text()


def test_no_size_is_named_where_none_is_known(page: str) -> None:
    assert "Model size" not in page


def test_the_question_is_about_columns(page: str) -> None:
    assert "Does any column add anything to the minibatch loss?" in page
    assert "Does topology" not in page


def test_there_is_no_empty_figure_and_no_empty_table(page: str) -> None:
    figures = set(re.findall(r'id="figure-(\w+)"', page))
    assert figures == {"loss_table"}
    assert "Power laws" not in page
    assert "Forecasts of the final loss" not in page
    assert "The verdict on every" not in page


def test_five_losses_are_too_few_to_be_called_sound(tmp_path) -> None:
    """`check` says so of the same log; from six losses on both judge it."""
    step = np.arange(10, 60, 10)
    short = pd.DataFrame({"step": step, "loss": 2 + 5 * step**-0.5})
    few = ts.analyze(short).findings
    assert ts.check(short).runs[0].judgement.grounds[0].kind == "too early"
    assert few["on"].strength == "too few"
    assert "without a fault" not in few.headline
    line = next(one for one in few.first.checks if one.name == "training")
    assert (line.mark, line.text) == ("--", "only 5 losses are logged: too few to judge")
    longer = pd.DataFrame({"step": np.arange(10, 70, 10), "loss": np.linspace(3, 2.5, 6)})
    assert ts.analyze(longer).findings["on"].strength == "finished"


def test_runs_with_few_losses_are_counted_beside_others() -> None:
    step = np.arange(10, 400, 10)
    one = pd.DataFrame({"run": "one", "step": step, "loss": 2 + 5 * step**-0.5})
    two = one.head(4).assign(run="two")
    found = ts.analyze(pd.concat([one, two])).findings
    assert found["on"].numbers["few"] == 1
    assert found["on"].strength != "too few"
