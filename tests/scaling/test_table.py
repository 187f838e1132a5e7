"""Scaling laws of plain tables, and from the command line."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from toposcope.cli.analyze import LAWS
from toposcope.cli.main import main
from toposcope.core.errors import InputError
from toposcope.scaling.table import NEEDS, law_table
from toposcope.study.finals import scaling_table
from toposcope.study.table import from_frame

SIZES, TOKENS = np.geomspace(1e6, 1e9, 6), np.geomspace(1e8, 1e11, 6)
GRID = pd.DataFrame(list(itertools.product(SIZES, TOKENS)), columns=["parameters", "tokens"])
NOISE = np.exp(0.002 * np.random.default_rng(0).standard_normal(len(GRID)))


def values(table: pd.DataFrame) -> dict[str, float]:
    return table.set_index("parameter")["value"].to_dict()


def test_every_law_of_the_command_has_its_needs() -> None:
    assert set(LAWS) == set(NEEDS)


@pytest.mark.parametrize(
    ("law", "loss", "truth"),
    [
        (
            "chinchilla",
            1.7 + 400 / GRID["parameters"] ** 0.34 + 410 / GRID["tokens"] ** 0.28,
            {"E": 1.7, "alpha": 0.34, "beta": 0.28},
        ),
        (
            "kaplan",
            ((8.8e13 / GRID["parameters"]) ** (0.076 / 0.095) + 5.4e13 / GRID["tokens"]) ** 0.095,
            {"alpha_N": 0.076, "alpha_D": 0.095},
        ),
        (
            "size-steps",
            (8e13 / GRID["parameters"]) ** 0.07 + (2e3 / (GRID["tokens"] / 1e5)) ** 0.7,
            {"alpha_N": 0.07, "alpha_S": 0.7},
        ),
    ],
)
def test_surfaces_are_recovered_within_their_intervals(law, loss, truth) -> None:  # type: ignore[no-untyped-def]
    frame = GRID.assign(loss=loss * NOISE, step=GRID["tokens"] / 1e5)
    table = law_table(frame, law, draws=10).set_index("parameter")
    for name, value in truth.items():
        assert abs(table.loc[name, "value"] - value) <= max(5 * table.loc[name, "error"], 0.02 * value)


def test_one_dimensional_laws_and_two_stages() -> None:
    compute = np.geomspace(1e15, 1e21, 12)
    loss = 40 * compute**-0.09 + 1.5
    score = 0.25 + 0.75 / (1 + np.exp(4 * (loss - 2.6)))
    frame = pd.DataFrame({
        "parameters": np.geomspace(1e4, 1e8, 12), "flop": compute, "loss": loss, "score": score,
        "heldout_loss": 1.1 * (loss - 1.5) ** 0.9 + 1.6,
    })  # fmt: skip
    assert values(law_table(frame, "two-stage", chance=0.25, draws=10))["midpoint"] == pytest.approx(
        2.6, abs=0.05
    )
    assert values(law_table(frame, "loss-to-loss", draws=10))["power"] == pytest.approx(0.9, abs=0.1)
    frame["loss"] = 5 * frame["parameters"] ** -0.2
    assert values(law_table(frame, "power"))["exponent"] == pytest.approx(-0.2)
    frame["loss"] += 1.0
    assert values(law_table(frame, "offset"))["offset"] == pytest.approx(1.0, abs=0.01)


def test_points_that_would_bend_a_law_are_left_out_and_counted() -> None:
    frame = pd.DataFrame({
        "parameters": [1e3, 1e4, 1e5, 1e6], "loss": [8.0, 4.0, 2.0, 9.9],
        "learning_rate": [0.0, 0.0, 0.0, 1e-3], "peak_learning_rate": 1e-3,
    })  # fmt: skip
    table = law_table(frame, "power")
    assert values(table)["exponent"] == pytest.approx(np.log10(0.5))
    assert (table["left_out"] == 1).all()
    assert table["reason"].str.contains("before the learning rate had decayed").all()


def test_errors_name_the_column() -> None:
    with pytest.raises(InputError, match="no column 'tokens' for its data"):
        law_table(pd.DataFrame({"parameters": [1.0], "loss": [1.0]}), "chinchilla")
    with pytest.raises(InputError, match="no law called 'x'"):
        law_table(GRID, "x")


def run(arguments: list[str], capsys) -> tuple[int, str, str]:  # type: ignore[no-untyped-def]
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


def test_the_command_fits_a_named_law(tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "models.csv"
    pd.DataFrame({"N": [1e3, 1e4, 1e5], "loss": [8.0, 4.0, 2.1]}).to_csv(file, index=False)
    code, out, _ = run(["analyze", str(file), "--law", "power", "--quantity", "size=N", "--json"], capsys)
    assert code == 0
    assert json.loads(out)["fit"][1]["value"] == pytest.approx(-0.29, abs=0.01)
    code, _, err = run(["analyze", str(file), "--law", "power", "--quantity", "N"], capsys)
    assert code == 2
    assert "--quantity 'N': not QUANTITY=COLUMN" in err
    code, printed, _ = run(["analyze", str(file), "--law", "offset", "--quantity", "size=N"], capsys)
    assert code == 1
    assert "3 distinct sizes are too few for a law with a floor E, which needs 4" in printed
    pd.DataFrame({"N": [1e3, 1e4, 1e5, 1e6], "loss": [8.0, 4.0, 2.1, 1.3]}).to_csv(file, index=False)
    code, _, _ = run(["analyze", str(file), "--law", "offset", "--quantity", "size=N"], capsys)
    assert code == 0


def test_sizes_without_scatter_are_said_to_show_no_noise(tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "exact.csv"
    for bend, said in ((0.0, True), (0.01, False)):
        sizes = np.array([1e6, 4e6, 16e6, 64e6])
        loss = 126.5 * sizes**-0.25 * np.exp(bend * np.array([1, -1, 1, -1]))
        pd.DataFrame({"parameters": sizes, "loss": loss}).to_csv(file, index=False)
        _, printed, _ = run(["analyze", str(file), "--law", "power"], capsys)
        assert ("exactly on the law, so its interval contains no noise" in printed.splitlines()[0]) == said


CLOSE = {"parameters": [1.0e6, 1.8e6, 2.9e6, 4.1e6], "loss": [3.9679, 3.661, 3.5053, 3.4046]}
"""1.6 (N / 1e6)^-.34 + 2.4 with 1% noise, over less than a decade of sizes."""


def test_the_command_says_where_a_floor_is_not_identified(tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "close.csv"
    pd.DataFrame(CLOSE).to_csv(file, index=False)
    code, printed, _ = run(["analyze", str(file), "--law", "offset"], capsys)
    assert code == 0
    first = printed.splitlines()[0]
    assert first.startswith("No number can be given: E is not identified by 4 sizes: E from 0 to ")
    assert first.endswith("no exponent is given")
    code, out, _ = run(["analyze", str(file), "--law", "offset", "--json"], capsys)
    (row,) = json.loads(out)["fit"]
    assert row["parameter"] == "exponent"
    assert row["value"] is None
    assert row["low"] < -0.34 < row["high"] < 0
    _, printed, _ = run(["analyze", str(file), "--law", "power"], capsys)
    assert "a law without one gives too shallow an exponent" in printed.splitlines()[0]


def test_a_feature_may_fall_below_zero_in_its_law_with_an_offset() -> None:
    frame = pd.DataFrame({"parameters": SIZES, "feature": 5 * (SIZES / 1e6) ** -0.5 - 3})
    assert values(law_table(frame, "offset", columns={"loss": "feature"}))["offset"] == pytest.approx(-3)


@pytest.mark.parametrize(
    ("column", "plural"),
    [
        ("family", "families"),
        ("tokenizer", "tokenisers"),
        ("tokeniser", "tokenisers"),
        ("corpus", "corpora"),
        ("task", "tasks"),
    ],
)
def test_a_mixture_shares_no_law(column: str, plural: str, tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "mixed.csv"
    pd.DataFrame(CLOSE).assign(**{column: ["a", "a", "b", "b"]}).to_csv(file, index=False)
    for law in ("power", "offset"):
        code, printed, _ = run(["analyze", str(file), "--law", law], capsys)
        assert code == 1
        assert printed.splitlines()[0] == (
            f"No number can be given: 2 {plural} (a, b) do not share a law; fit each separately"
        )


def test_a_store_of_two_corpora_has_no_law_of_both() -> None:
    sizes = 10.0 ** np.arange(3, 9)
    runs = pd.DataFrame(
        {"run": list("abcdef"), "parameters": sizes, "family": "gpt", "corpus": list("xxxyyy")}
    )
    frame = pd.DataFrame({"run": list("abcdef"), "step": 1, "loss": [4.99, 3.5, 2.75, 3.374, 3.19, 3.09]})
    row = scaling_table(from_frame(frame, features=[], runs=runs)).iloc[0]
    assert row["reason"] == "2 families (gpt on x, gpt on y) do not share a law; fit each separately"
    assert np.isnan(row["exponent"])
    one = scaling_table(from_frame(frame, features=[], runs=runs.assign(corpus="x"))).iloc[0]
    assert "share a law" not in one["reason"]


def test_checkpoints_of_a_run_and_seeds_of_a_size_are_no_models(tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    rows = [
        {"run": f"{size}-{seed}", "step": step, "parameters": size, "loss": loss, "tokens": step}
        for size in (1e3, 1e4, 1e5, 1e6)
        for seed in (1, 2)
        for step, loss in ((0, 9.0), (10, 5.0), (20, 4 * size**-0.1 * (1 + 0.01 * seed)), (30, np.nan))
    ]
    file = tmp_path / "runs.csv"
    pd.DataFrame(rows).sample(frac=1, random_state=0).to_csv(file, index=False)
    code, out, _ = run(["analyze", str(file), "--law", "power", "--json"], capsys)
    found = json.loads(out)
    assert code == 0
    assert (found["rows"], found["models"], found["sizes"]) == (32, 8, 4)
    exponent = found["fit"][1]
    assert exponent["n"] == 4
    assert exponent["value"] == pytest.approx(-0.1, abs=1e-9)
    _, out, _ = run(["analyze", str(file), "--law", "power"], capsys)
    assert "32 rows, the last rows of 8 runs, 4 distinct sizes" in out


def test_rows_with_few_tokens_a_parameter_are_left_out_only_if_both_are_known() -> None:
    table = pd.DataFrame({"parameters": SIZES, "loss": 5 * SIZES**-0.1})
    with pytest.raises(InputError, match="need both numbers; name the columns of size and data"):
        law_table(table, "power", leave_out=1)
