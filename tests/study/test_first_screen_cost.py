"""What the first screen does not show is not computed for it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from toposcope.cli.main import main
from toposcope.logs import _history_copies as history_copies
from toposcope.study import tables


def table(steps: np.ndarray) -> pd.DataFrame:
    g = np.random.default_rng(0)
    loss = 2 + 5 * steps**-0.4 + 0.01 * g.standard_normal(len(steps))
    return pd.DataFrame({"step": steps, "loss": loss, "mine": g.standard_normal(len(steps))})


def test_the_terminal_waits_for_no_search_for_bends(monkeypatch, tmp_path, capsys):
    def refused(*args, **kwargs):
        raise AssertionError("a search for bends at uneven steps takes ten seconds")

    monkeypatch.setattr(tables, "segment_table", refused)
    steps = np.cumsum(np.random.default_rng(1).integers(70, 131, 40)).astype(float)
    table(steps).to_csv(tmp_path / "uneven.csv", index=False)
    with pytest.raises(SystemExit):
        main(["analyze", str(tmp_path / "uneven.csv")])
    assert "\nWhen: " in capsys.readouterr().out


def test_the_whole_answer_has_the_search_for_bends():
    import toposcope as ts

    made = ts.analyze(table(np.arange(100.0, 4100.0, 100.0)))
    answers = {one["question"]: one for one in made.to_json()["findings"][0]["answers"]}
    assert "searched" in answers["when"]["numbers"]


def test_a_column_with_another_first_row_needs_no_search_for_a_decay(monkeypatch):
    def refused(*args):
        raise AssertionError("80 averages of a column that cannot be one")

    monkeypatch.setattr(history_copies, "_weighted", refused)
    x = np.random.default_rng(0).standard_normal(60)
    assert not history_copies.history_of([(x, x[::-1].copy())], 1e-9, 1e-9)
