"""`toposcope.measure` does what the commands do: steps, shards, without the audit."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import toposcope as ts
from toposcope.core.errors import InputError
from toposcope.sweep import Execution, Shard


def _values(store: ts.Store) -> pd.DataFrame:
    keys = ["run", "step", "name", "feature"]
    return store.features()[[*keys, "value"]].sort_values(keys, ignore_index=True)


def test_two_shards_measure_what_one_call_does(runs: Path, tmp_path: Path) -> None:
    whole = ts.measure(runs, tmp_path / "whole", features="baselines")
    for shard in ("1/2", "2/2"):
        execution = Execution(shard=Shard.parse(shard), audit=False, quiet=True)
        shared = ts.measure(runs, tmp_path / "shared", features="baselines", execution=execution)
    pd.testing.assert_frame_equal(_values(whole), _values(shared))
    assert any((whole.path / "audit").glob("*.parquet"))
    assert not any((shared.path / "audit").glob("*.parquet"))


def test_steps_are_chosen_where_the_series_is_opened(runs: Path, tmp_path: Path) -> None:
    last = ts.measure(runs, tmp_path / "last", features="baselines", steps="last").features()
    assert (last.groupby("run")["step"].nunique() == 1).all()
    with pytest.raises(InputError, match="steps 'last': the series is open already"):
        ts.measure(ts.open_series(runs), tmp_path / "no", features="baselines", steps="last")
    assert not (tmp_path / "no").exists()
