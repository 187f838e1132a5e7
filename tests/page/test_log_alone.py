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
