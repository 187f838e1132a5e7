"""The weight-space paper's tables: on its own runs where they are there, and on small trained runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from toposcope.cli.analyze import command as analyze
from toposcope.cli.reproduce import command as reproduce
from toposcope.core.errors import InputError
from toposcope.store import Store
from toposcope.studies.seed004.runs import printed
from toposcope.studies.seed004.tables import same_digits
from toposcope.study import series_table, trend_table

NP = "neural_persistence/seed004/neural_persistence"
H0 = "rips/euclidean/pooled/h0_total"


@pytest.fixture(scope="module")
def reproduced(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    out = tmp_path_factory.mktemp("seed004")
    result = CliRunner().invoke(
        reproduce,
        ["seed004", "--runs", str(shared_data / "seed_runs"), "--out", str(out), "--json", "--jobs", "1"],
        catch_exceptions=False,
    )  # fmt: skip
    return out, json.loads(result.stdout)


def table(reproduced: tuple[Path, dict], start: str) -> list[dict]:
    return next(s["rows"] for s in reproduced[1]["sections"] if s["title"].startswith(start))


@pytest.mark.slow
def test_tables_agree_with_the_paper_to_every_digit(reproduced: tuple[Path, dict]) -> None:
    for number in ("Table 1", "Table 3", "Table 5", "Table 6"):
        assert {row["agrees"] for row in table(reproduced, number)} == {"to every digit"}, number
    scaling = {row["quantity"]: row["agrees"] for row in table(reproduced, "Table 7")}
    assert scaling["final loss"] == scaling["neural persistence"] == "to every digit"
    assert scaling["H0 total persistence"] == "inside the draws"
    for number in ("Table 2", "Table 4"):
        rows = table(reproduced, number)
        assert rows[0]["agrees"] == "to every digit"
        assert all(row["draws"] == 20 and row["sd"] > 0 for row in rows[1:])


@pytest.mark.slow
def test_the_iid_intervals_are_the_papers_within_three_hundredths(reproduced: tuple[Path, dict]) -> None:
    for row in table(reproduced, "Table 2"):
        ours, paper = (np.array(json.loads(row[k])) for k in ("iid interval", "iid interval: paper"))
        assert np.abs(ours - paper).max() < 0.03


@pytest.mark.slow
def test_the_literal_text_gives_other_phases(reproduced: tuple[Path, dict]) -> None:
    rows = table(reproduced, "Table 6")
    assert [row["peak by the text"] for row in rows] == [100, 200, 200, 300, 200]
    assert [row["diminishing by the text"] for row in rows] == [500, 500, 500, 800, 700]


@pytest.mark.slow
def test_the_headline_is_worth_what_drift_leaves(reproduced: tuple[Path, dict]) -> None:
    rows = [row for row in table(reproduced, "What the correlations") if row["feature"] == "H0 total"]
    assert rows[0]["effective_n"] == pytest.approx(10.7, abs=0.1)
    assert rows[0]["walk_p"] == pytest.approx(0.26, abs=0.02)
    assert rows[0]["partial_step"] is None
    assert all(row["effective_n"] < 6.5 for row in rows[1:])
    assert {row["verdict"] for row in rows} <= {"trend only", "cannot tell"}


@pytest.mark.slow
def test_first_and_last_neural_persistence(reproduced: tuple[Path, dict]) -> None:
    store = Store.open(reproduced[0] / "stores" / "seed004")
    values = series_table(store.features(), store.metrics(), store.runs()).values.set_index(["run", "step"])
    expected = {"tiny-3k": (0.3628, 0.5022), "small-7k": (0.4425, 0.4503), "med-21k": (0.3737, 0.4176),
                "large-46k": (0.3848, 0.4468), "xl-97k": (0.3602, 0.4570)}  # fmt: skip
    for run, (first, last) in expected.items():
        assert round(values.loc[(run, 0), NP], 4) == first
        assert round(values.loc[(run, 5000), NP], 4) == last
    assert values.loc[("tiny-3k", 0), H0] == pytest.approx(7.557, abs=5e-4)
    assert values.loc[("tiny-3k", 5000), H0] == pytest.approx(81.768, abs=5e-4)


def test_the_printed_numbers_are_complete() -> None:
    paper = printed()
    sizes = {"2936", "7408", "20640", "46368", "97200"}
    for name in ("models", "h0", "np", "h1", "phases"):
        assert set(paper[name]) == sizes
    assert same_digits(-0.58986, paper["h0"]["2936"]["rho"])
    assert not same_digits(-0.585, paper["h0"]["2936"]["rho"])


def test_runs_that_are_not_there_and_runs_of_other_sizes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="name a folder with `out`"):
        CliRunner().invoke(reproduce, ["seed004"], catch_exceptions=False)
    with pytest.raises(InputError, match="nowhere"):
        CliRunner().invoke(
            reproduce, ["seed004", "--runs", str(tmp_path / "nowhere")], catch_exceptions=False
        )


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    g = np.random.default_rng(0)
    step = np.arange(51) * 100
    loss = (step + 100.0) ** -0.3 + 0.01 * g.standard_normal(51)
    frame = pd.DataFrame({"run": "a", "step": step, "loss": loss,
                          "mine": np.log(step + 100.0) + 0.1 * g.standard_normal(51)})  # fmt: skip
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    return path


def test_analyze_reads_a_table_made_elsewhere(wide: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        analyze, [str(wide), "--json", "--table", "all", "--out", str(tmp_path / "out")]
    )
    found = json.loads(result.stdout)
    direct = trend_table(_frame(wide)).iloc[0]
    assert found["trends"][0]["spearman"] == pytest.approx(direct["spearman"])
    assert found["true_rates"]["innovations"]["highest"] < 0.07 + 2 * 0.0115  # its error, 500 pairs
    assert (tmp_path / "out" / "trends.csv").exists()
    shown = CliRunner().invoke(analyze, [str(wide), "--table", "all"], catch_exceptions=False)
    assert "trend only" in shown.output or "cannot tell" in shown.output
    assert "True rates at a nominal 5%" in shown.output


def _frame(path: Path):  # type: ignore[no-untyped-def]
    from toposcope.study import from_frame

    return from_frame(pd.read_csv(path))


def test_analyze_names_what_is_wrong(wide: Path, tmp_path: Path) -> None:
    other = tmp_path / "table.txt"
    other.write_text("x")
    for arguments, message in (
        ([str(other)], "neither a store nor a log"),
        ([str(wide), "--columns", "nothing"], "'nothing' is not in the table"),
        ([], "name a store or a table"),
    ):
        with pytest.raises(InputError, match=message):
            CliRunner().invoke(analyze, arguments, catch_exceptions=False)


@pytest.mark.slow
def test_calibrate_prints_the_matrix(wide: Path) -> None:
    result = CliRunner().invoke(
        analyze, [str(wide), "--calibrate", "--draws", "100", "--json"], catch_exceptions=False
    )
    rates = json.loads(result.stdout)["rates"]
    walks = {row["test"]: row["rate"] for row in rates if row["case"] == "random walks"}
    assert walks["Spearman's own p"] > 0.4
    assert walks["innovations"] < 0.15
