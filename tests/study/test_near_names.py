"""A misspelt column is answered with the one that was meant, wherever columns are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from toposcope.cli.main import main
from toposcope.core.errors import InputError
from toposcope.study.studies import chosen_target
from toposcope.study.table import from_frame


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    steps = np.arange(0, 400, 10)
    noise = np.random.default_rng(0).normal(0, 0.01, (2, len(steps)))
    log = pd.DataFrame({"step": steps, "loss": 3 + 20 / (steps + 10) + noise[0]})
    log.assign(h0_total=noise[1], validation_score=noise[0]).to_csv(tmp_path / "t.csv", index=False)
    sizes = np.array([1e3, 1e4, 1e5])
    pd.DataFrame({"params": sizes, "final": 5 * sizes**-0.1}).to_csv(tmp_path / "l.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("analyze t.csv --columns h0_totl", "h0_total"),
        ("analyze t.csv --target validation_scor", "validation_score"),
        ("analyze t.csv --rename h0_totl=x", "h0_total"),
        ("analyze l.csv --law power --quantity size=parms", "parameters"),
        ("analyze l.csv --law power --quantity loss=fnal", "final"),
        ("forecast t.csv --column validation_scre", "validation_score"),
        ("forecast t.csv --rename h0_totl=grad_norm", "h0_total"),
        ("forecast t.csv --column valid --rename validation_scor=valid", "validation_score"),
    ],
)
def test_on_the_command_line(line: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    err = capsys.readouterr().err
    assert ended.value.code == 2
    assert len(err.splitlines()) == 1
    assert f"did you mean '{meant}'?" in err


def test_a_feature_of_a_store_is_known_by_the_end_of_its_key() -> None:
    table = from_frame(pd.DataFrame({"step": [0, 1], "loss": [2.0, 1.0], "rips/rows/h0_total": [1.0, 2.0]}))
    with pytest.raises(InputError, match="did you mean 'rips/rows/h0_total'"):
        chosen_target(table, "h0_totl", preferred=())
    with pytest.raises(InputError, match=r"features$"):
        chosen_target(table, "xyz", preferred=())
