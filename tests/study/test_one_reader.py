"""A table of losses has one answer, whether it is in memory or in a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope.core.errors import InputError
from toposcope.runs.reading import Reading, read_curves
from toposcope.study.forecasts.gather import with_features

STEP = np.arange(1, 61) * 100
NOISE = np.random.default_rng(0).standard_normal((2, len(STEP)))
LOSS = 2 + 3 * (STEP / 100.0) ** -0.4 + 0.005 * NOISE[0]
MINE = np.cumsum(NOISE[1])


def of(**columns: object) -> pd.DataFrame:
    return pd.DataFrame({"step": STEP, "mine": MINE, **columns})


def seeds(**columns: float) -> pd.DataFrame:
    """Two runs whose losses are called by the names of `columns`, each with an offset."""
    return pd.concat([
        of(**{name: LOSS + more + 0.1 * k for name, more in columns.items()}).assign(run=f"seed{k}")
        for k in range(2)
    ])  # fmt: skip


TABLES = {
    "loss": of(loss=LOSS),
    "a known name": of(train_loss=LOSS),
    "a name that ends in loss": of(my_loss=LOSS),
    "two known losses": of(lm_loss=LOSS + 0.3, train_loss=LOSS),
    "loss and another name of it": of(train_loss=LOSS + 0.3, loss=LOSS),
    "two losses without a known name": of(my_loss=LOSS, other_loss=LOSS + 0.3),
    "a held-out loss without a known name": of(my_loss=LOSS, my_val_loss=LOSS + 0.1),
    "loss and held-out loss": of(loss=LOSS, val_loss=LOSS + 0.1),
    "two held-out losses": of(loss=LOSS, eval_loss=LOSS + 0.2, val_loss=LOSS + 0.1),
    "held-out loss alone": of(val_loss=LOSS),
    "held-out loss beside an empty loss": of(loss=np.nan, val_loss=LOSS),
    "a held-out loss in one run": pd.concat(
        [of(loss=LOSS).assign(run="a"), of(val_loss=LOSS + 0.1).assign(run="b")]
    ),
    "test loss alone": of(test_loss=LOSS),
    "perplexity alone": of(perplexity=np.exp(LOSS)),
    "loss and perplexity": of(loss=LOSS, perplexity=np.exp(LOSS)),
    "several runs": seeds(loss=0.0),
    "several runs, a name that ends in loss": seeds(my_loss=0.0),
    "runs one after the other": seeds(loss=0.0).drop(columns="run"),
    "epochs": of(loss=LOSS).rename(columns={"step": "epoch"}),
    "two steps": of(loss=LOSS, iter=2 * STEP).rename(columns={"step": "global_step"}),
    "no step": of(loss=LOSS).drop(columns="step"),
    "rows without a loss": of(loss=np.where(STEP % 300, np.nan, LOSS)),
    "a row without a step": of(loss=LOSS).assign(step=np.where(STEP == 6000, np.nan, STEP)),
    "a column of text": of(loss=LOSS, note="warm"),
    "a loss that is text": of(loss="x"),
    "a text among the losses": of(loss=[*map(str, LOSS[:9]), "diverged", *map(str, LOSS[10:])]),
    "losses that are objects": of(loss=pd.Series([*LOSS[:30], *map(np.array, LOSS[30:])], dtype=object)),
    "losses that are decimals": of(loss=[Decimal(str(one)) for one in LOSS]),
    "steps in the index": of(loss=LOSS).set_index("step"),
    "runs and steps in the index": seeds(loss=0.0).set_index(["run", "step"]),
    "a norm of the parameters": of(loss=LOSS, param_norm=MINE + 50),
    "two learning rates": of(loss=LOSS, lr=1e-3, learning_rate=2e-3),
    "evaluations in rows of their own": pd.concat(
        [of(loss=LOSS), pd.DataFrame({"step": STEP[9::10], "val_loss": LOSS[9::10]})]
    ).sort_values("step", kind="stable"),
    "no row": of(loss=LOSS)[:0],
}
FUNCTIONS: dict[str, Callable[[object], object]] = {
    "check": ts.check,
    "forecast": lambda source: ts.forecast(source, horizon=10_000),
    "analyze": ts.analyze,
    "compare": lambda source: ts.compare(source, of(loss=LOSS + 0.1)),
}


def answer(function: Callable[[object], object], source: object) -> str:
    """What a function says of a source, without what the source is called."""
    try:
        said = repr(function(source))
    except InputError as error:
        said = f"refused: {error}"
    return " ".join(re.sub(r"the table|\S*\brun\.csv|\bfirst\b", "SOURCE", said).split())


ALWAYS_ANALYZED = (
    "loss", "two known losses", "loss and held-out loss", "a held-out loss in one run", "several runs",
    "epochs", "no step", "a text among the losses", "runs and steps in the index", "no row",
)  # fmt: skip
"""Tables that are analyzed in `make test`, too: all thirty together take a quarter of a minute."""
CASES = [
    pytest.param(
        table, function, id=f"{name}-{call}",
        marks=[pytest.mark.slow] if call == "analyze" and name not in ALWAYS_ANALYZED else [],
    )
    for name, table in TABLES.items()
    for call, function in FUNCTIONS.items()
]  # fmt: skip


@pytest.mark.parametrize(("table", "function"), CASES)
def test_a_table_has_one_answer_in_memory_and_in_a_file(
    table: pd.DataFrame, function: Callable[[object], object], tmp_path: Path
) -> None:
    file = tmp_path / "run.csv"  # its run is called as that of a table in memory
    table.to_csv(file, index=table.index.names != [None])
    assert answer(function, table) == answer(function, file)


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_loss_that_is_text_is_refused(function: Callable[[object], object]) -> None:
    """A check of a table in memory called it a run whose losses are not finite, and said to start again."""
    with pytest.raises(InputError, match="the table: column 'loss' has 'x', which is not a number"):
        function(TABLES["a loss that is text"])


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_refusal_names_the_columns_and_the_remedy(function: Callable[[object], object]) -> None:
    table = TABLES["perplexity alone"]
    with pytest.raises(InputError) as refused:
        function(table)
    assert set(re.findall(r"\w+", str(refused.value))) >= set(table)
    assert "rename={'COLUMN': 'loss'}" in str(refused.value)


@pytest.mark.parametrize("function", [FUNCTIONS[name] for name in ("check", "forecast", "compare")])
def test_two_losses_without_a_total_are_chosen_by_name(function: Callable[[object], object]) -> None:
    with pytest.raises(InputError, match="choose one with "):
        function(TABLES["two losses without a known name"])


def test_a_choice_between_two_losses_is_named() -> None:
    table = TABLES["two known losses"]
    note = "'train_loss' is taken as loss, not 'lm_loss' (to choose the other: `rename={'lm_loss': 'loss'}`)"
    assert note in repr(ts.check(table))
    assert any(note in one for one in ts.forecast(table, horizon=10_000).notes)
    assert note in repr(ts.compare(table, table))
    assert note in ts.analyze(table).studies[0].read[0]
    other = ts.check(table, rename={"lm_loss": "loss"})
    assert "is taken as" not in repr(other)
    assert other.runs[0].loss == pytest.approx(LOSS[-1] + 0.3)


@pytest.mark.parametrize(
    "read", [lambda table, file: table, lambda table, file: file], ids=["memory", "file"]
)
def test_a_loss_that_is_named_is_the_one_that_is_read(
    read: Callable[[object, object], object], tmp_path: Path
) -> None:
    """`column` once meant only what its name means: lm_loss was train_loss."""
    table = TABLES["two known losses"]
    table.to_csv(tmp_path / "a.csv", index=False)
    source = read(table, tmp_path / "a.csv")
    made = ts.forecast(source, column="lm_loss", horizon=10_000)
    assert made.own[0].loss[-1] == pytest.approx(LOSS[-1] + 0.3)
    assert ts.check(source, column="lm_loss").runs[0].loss == pytest.approx(LOSS[-1] + 0.3)


def test_a_held_out_loss_is_forecast_only_without_a_training_loss_and_named() -> None:
    (curve,), problems, notes = read_curves([TABLES["held-out loss alone"]], Reading())
    assert not problems
    assert curve.loss[-1] == LOSS[-1]
    assert "the table: no training loss is logged: the held-out loss 'val_loss' is used" in notes


def test_a_held_out_loss_is_forecast_where_the_training_loss_has_no_value(tmp_path: Path) -> None:
    """A store always has a column of the training loss: it was asked for, and the run was refused."""
    losses = TABLES["held-out loss beside an empty loss"][["step", "loss", "val_loss"]]
    states = {step: {"w": np.random.default_rng(step).normal(size=(8, 6))} for step in (0, 3000, 6000)}
    series = ts.open_series({"mine": states}, losses=losses)
    store = ts.measure(series, tmp_path / "store", features="baselines")
    for source in (losses, store):
        made = ts.forecast(source, horizon=10_000)
        assert made.own[0].loss.tolist() == LOSS.tolist()
        assert any("no training loss is logged" in note for note in made.notes)
        assert "no training loss is logged" in repr(ts.check(source)).lower()


@pytest.mark.parametrize("function", [ts.check, ts.analyze])
def test_each_run_is_judged_by_its_own_loss(function: Callable[[object], object]) -> None:
    """An analysis took one loss for all runs, and said that a run with another one had no fault."""
    diverged = np.where(STEP > 5000, 9.0, LOSS)
    table = pd.concat([of(loss=LOSS).assign(run="a"), of(val_loss=diverged).assign(run="b")])
    said = " ".join(repr(function(table)).split())
    assert "b: diverging" in said or "b at step 6,000 (loss 9): the loss rose" in said


def test_a_held_out_loss_is_not_compared_with_a_training_loss(tmp_path: Path) -> None:
    """The only loss of a file was read as its training loss."""
    of(val_loss=LOSS).to_csv(tmp_path / "a.csv", index=False)
    of(loss=LOSS + 1, val_loss=LOSS).to_csv(tmp_path / "b.csv", index=False)
    assert "the same run" in repr(ts.compare(tmp_path / "a.csv", tmp_path / "b.csv"))


def test_a_row_without_a_step_is_not_the_last_loss() -> None:
    """A check of a table in memory said the loss of such a row."""
    run = ts.check(TABLES["a row without a step"]).runs[0]
    assert (run.step, run.loss) == (5900, LOSS[-2])


def test_two_columns_of_one_name_are_refused() -> None:
    table = of(loss=LOSS)
    table.columns = pd.Index(["step", "loss", "loss"])
    with pytest.raises(InputError, match="the table: two columns are called 'loss'; drop or rename one"):
        ts.check(table)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_losses_that_are_scalars_of_numpy_or_torch_are_numbers(kind: str) -> None:
    """A healthy run whose later losses were np.float32 was called one whose losses are not finite."""
    number = np.float32 if kind == "numpy" else pytest.importorskip("torch").tensor
    mixed = [*LOSS[:30], *(number(one) for one in LOSS[30:])]
    run = ts.check(of(loss=pd.Series(mixed, dtype=object))).runs[0]
    assert run.judgement.level == "all right"
    assert run.loss == pytest.approx(LOSS[-1])


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_columns_of_several_levels_are_refused(function: Callable[[object], object]) -> None:
    """They ended in a KeyError."""
    with pytest.raises(InputError, match=r"column 'step'.*\('a', 'step'\), \('a', 'loss'\)"):
        function(pd.concat({"a": pd.DataFrame({"step": STEP, "loss": LOSS})}, axis=1))


def test_a_column_named_param_is_the_size_only_if_it_is_one() -> None:
    """The norm of the parameters was taken as their number, which was then refused because it changes."""
    reading = Reading(features=with_features)
    (curve,), problems, notes = read_curves([TABLES["a norm of the parameters"]], reading)
    assert (problems, curve.parameters) == ([], 0)
    assert "the table: taken as features: mine, param_norm" in notes
    both = TABLES["a norm of the parameters"].assign(params_total=1000)
    assert read_curves([both], Reading())[0][0].parameters == 1000
    assert read_curves([of(loss=LOSS, param_scale=0.5)], Reading())[0][0].parameters == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a name that ends in loss", "two known losses", "held-out loss alone"])
def test_a_page_of_a_table_is_that_of_its_file(name: str, tmp_path: Path) -> None:
    table, file = TABLES[name], tmp_path / "run.csv"
    table.to_csv(file, index=False)
    first, second = (
        {p.relative_to(tmp_path / out): p.read_text() for p in (tmp_path / out).rglob("*.csv")}
        for out, source in (("memory", table), ("file", file))
        if ts.report(source, tmp_path / out)
    )
    assert first
    assert first == second
