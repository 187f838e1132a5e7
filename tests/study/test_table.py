"""The wide table: keys, draws, roles, targets, and what bad rows become."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from toposcope.core.errors import InputError
from toposcope.study import from_frame, series_table
from toposcope.study.analysis import analysis_of
from toposcope.study.efficiency import local_slope

STEPS = np.arange(0, 1001, 100)


def rows(**changes: object) -> pd.DataFrame:
    base = {"run": "a", "probe": "rips", "filtration": "euclidean", "name": "pooled", "role": "model"}
    return pd.DataFrame({"step": [0, 0, 100], "feature": "h0_total", "value": [1.0, 3.0, 4.0],
                         "draw": [0, 1, 0], "status": "subsampled", **base, **changes})  # fmt: skip


def metrics(steps: np.ndarray | None = None) -> pd.DataFrame:
    steps = np.arange(1001) if steps is None else steps
    loss = 5.0 - 0.5 * np.log(steps + 1.0)
    return pd.DataFrame({"run": "a", "step": steps, "tokens": steps * 64, "loss": loss,
                         "heldout_loss": loss + 0.1, "weight_norm": 1.0 + steps})  # fmt: skip


def test_draws_are_averaged_and_their_spread_is_kept() -> None:
    table = series_table(rows())
    key = "rips/euclidean/pooled/h0_total"
    assert table.values[key].tolist() == [2.0, 4.0]
    assert table.spread[key][0] == pytest.approx(np.sqrt(2.0))
    assert table.catalogue.loc[0, "draws"] == 2


def test_role_means_are_added_once() -> None:
    features = pd.DataFrame({
        "run": "a", "step": 0, "probe": "baselines", "feature": "stable_rank", "role": "mlp",
        "name": ["m1", "m2"], "value": [2.0, 4.0],
    })  # fmt: skip
    assert series_table(features).values["baselines/role=mlp/stable_rank"].tolist() == [3.0]
    own = pd.concat([features, features.iloc[:1].assign(name="role", value=9.0)])
    assert series_table(own).values["baselines/role=mlp/stable_rank"].tolist() == [9.0]


def test_failed_rows_are_missing_values_and_stay_in_the_catalogue() -> None:
    table = series_table(rows(status=["ok", "ok", "failed"]))
    assert len(table.values) == 1
    assert table.catalogue.loc[0, "status"] == "failed"


def test_targets_are_joined_at_the_checkpoints() -> None:
    features = pd.DataFrame({"run": "a", "step": STEPS, "probe": "p", "feature": "f", "value": STEPS * 1.0})
    runs = pd.DataFrame({"run": ["a"], "parameters": [1000]})
    table = series_table(features, metrics(), runs)
    assert {"loss", "heldout_loss", "loss_smooth", "gap", "efficiency", "efficiency_flop"} == set(
        table.targets
    )
    last = table.values.iloc[-1]
    assert last["loss_smooth"] == pytest.approx(metrics()["loss"].tail(100).mean())
    assert last["gap"] == pytest.approx(last["heldout_loss"] - last["loss_smooth"])
    assert last["efficiency"] == pytest.approx(0.5, abs=0.01)
    assert last["efficiency_flop"] == pytest.approx(last["efficiency"] / (6 * 1000 * last["tokens"]))
    assert np.isfinite(table.spread.iloc[-1]["efficiency"])


def test_efficiency_has_an_honest_standard_error() -> None:
    g = np.random.default_rng(0)
    x = np.arange(1.0, 2001.0)
    errors = []
    for _ in range(200):
        slope, error = local_slope(x, -0.3 * np.log(x) + 0.05 * g.standard_normal(2000), np.array([1000.0]))
        errors.append((slope[0] + 0.3) / error[0])
    assert 0.85 < np.std(errors) < 1.15


def test_repeated_steps_and_missing_losses_are_told() -> None:
    features = pd.DataFrame({"run": "a", "step": STEPS, "probe": "p", "feature": "f", "value": 1.0})
    log = metrics(STEPS)
    log.loc[3, ["loss", "heldout_loss"]] = np.nan
    table = series_table(features, pd.concat([log, log.iloc[:2]]))
    assert any("2 repeated steps" in problem for problem in table.problems)
    assert any("1 logged steps without a finite loss" in problem for problem in table.problems)


def test_repeated_steps_are_averaged() -> None:
    frame = pd.DataFrame({"step": [0, 1, 1], "loss": [3.0, 2.0, 1.0], "f": [1.0, 2.0, np.nan]})
    table = from_frame(frame)
    assert table.values["loss"].tolist() == [3.0, 1.5]
    assert table.values["f"].tolist() == [1.0, 2.0]
    assert "1 repeated rows of a step, averaged" in table.problems[0]
    assert table.repeated == {"run": 1}


def test_infinite_values_count_as_missing_and_are_told() -> None:
    frame = pd.DataFrame({"step": [0, 1, 2], "loss": [3.0, np.inf, 1.0], "f": [1.0, 2.0, -np.inf]})
    table = from_frame(frame)
    assert np.isfinite(table.values[["loss", "f"]]).sum().tolist() == [2, 2]
    assert not np.isinf(table.values[["loss", "f"]].to_numpy()).any()
    told = "; ".join(table.problems)
    assert "column loss: 1 infinite values" in told
    assert "column f: 1 infinite values" in told


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"run": [], "step": [], "loss": []}), "the table has no rows"),
        (pd.DataFrame({"step": [0, 1], "loss": ["2.0", "oops"]}), "column 'loss' has 'oops' in row 2"),
        (pd.DataFrame({"step": [0, -100], "loss": 1.0}), "step -100 in row 2 is missing, infinite or neg"),
        (pd.DataFrame({"step": [0, np.nan], "loss": 1.0}), "step nan in row 2"),
        (pd.DataFrame({"step": [0, "x"], "loss": 1.0}), "column 'step' has 'x' in row 2"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_frame(frame)


def test_missing_columns_are_named() -> None:
    with pytest.raises(InputError, match="column 'value' is missing"):
        series_table(pd.DataFrame({"run": ["a"], "step": [0], "probe": ["p"], "feature": ["f"]}))
    with pytest.raises(InputError, match="column 'loss' is missing"):
        from_frame(pd.DataFrame({"step": [0], "f": [1.0]}))
    with pytest.raises(InputError, match="no finite value is left"):
        series_table(rows(value=np.nan))


@pytest.mark.parametrize(
    ("table", "need"), [("replicates", "two runs of one size"), ("forecasts", "3 finished runs")]
)
def test_a_table_that_cannot_be_made_says_what_it_needs(table: str, need: str) -> None:
    steps = np.arange(20)
    noise = np.random.default_rng(0).normal(size=(2, 20))
    frame = pd.DataFrame({"step": steps, "loss": 5 - 0.1 * steps + noise[0], "mine": noise[1]})
    with pytest.raises(InputError, match=f"the table {table} needs {need}; "):
        analysis_of(frame).refuse_nothing([table])


def test_a_table_whose_rows_have_no_result_says_their_reason() -> None:
    noise = np.random.default_rng(0).normal(size=(2, 13))
    frame = pd.DataFrame({"step": np.arange(13), "loss": 5 + noise[0], "mine": noise[1]})
    with pytest.raises(InputError, match="12 checkpoints after step 0: at least 17 are needed; "):
        analysis_of(frame).refuse_nothing(["segments"])
