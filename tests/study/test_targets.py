"""Scores from a file, and the targets that a store of representations brings itself."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from toposcope.cli.analyze import command
from toposcope.core.errors import InputError
from toposcope.core.types import Feature, Kind
from toposcope.store import catalogue_table
from toposcope.study import read_targets, series_table, trend_table
from toposcope.study.analysis import study_of_rows
from toposcope.study.table import from_frame, with_targets
from toposcope.subjects.catalogue import own_catalogue
from toposcope.subjects.weights.subject import SUBJECT as WEIGHTS


@pytest.fixture
def features():
    rows = [
        {
            "run": run, "step": step, "probe": "representations", "name": "hidden", "layer": layer,
            "feature": "h1_total", "filtration": "euclidean", "value": float(step + layer), "draw": np.nan,
        }
        for run in ("a", "b") for step in (0, 1, 2, 4) for layer in (0, 1)
    ]  # fmt: skip
    rows += [row | {"feature": "h1_total_null", "draw": draw} for row in rows[:] for draw in (0, 1)]
    rows += [
        {
            "run": run,
            "step": step,
            "probe": "representations",
            "name": "model",
            "feature": name,
            "value": value,
        }
        for run in ("a", "b")
        for step in (0, 1, 2, 4)
        for name, value in (("perplexity", np.exp(5.0 - step)), ("loss", 5.0 - step))
    ]
    rows += [
        {
            "run": "a",
            "step": 0,
            "probe": "sensitivity",
            "name": "pca50/texts200",
            "feature": "h1_total",
            "value": 9.0,
        }
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".json", ".parquet"])
def test_every_format_gives_the_same_targets(tmp_path, suffix):
    frame = pd.DataFrame(
        {"run": ["a", "a"], "revision": ["step0", "step512"], "piqa": [0.5, None], "n": ["x", "y"]}
    )
    path = tmp_path / f"scores{suffix}"
    writers = {
        ".csv": lambda: frame.to_csv(path, index=False),
        ".tsv": lambda: frame.to_csv(path, index=False, sep="\t"),
        ".jsonl": lambda: frame.to_json(path, orient="records", lines=True),
        ".json": lambda: frame.to_json(path, orient="records"),
        ".parquet": lambda: frame.to_parquet(path),
    }
    writers[suffix]()
    found = read_targets(path)
    assert found[["run", "step", "target", "status"]].values.tolist() == [
        ["a", 0, "piqa", "ok"],
        ["a", 512, "piqa", "missing"],
    ]
    assert found["value"].iloc[0] == 0.5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("run,piqa\na,0.5\n", "neither a column 'step' nor 'revision'"),
        ("run,step,piqa\na,1.5,0.5\n", "1.5 is not a step"),
        ("run,revision,piqa\na,main,0.5\n", "'main' is not a step"),
        ("run,step,piqa\na,1,0.5\na,1,0.6\n", "run 'a' step 1 appears twice"),
        ("run,step,name\na,1,x\n", "no numeric column"),
        ("run,step,piqa\n", "has no row"),
        ("", "cannot be read as a table"),
    ],
)
def test_bad_files_are_one_line(tmp_path, content, message):
    path = tmp_path / "scores.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=message) as found:
        read_targets(path)
    assert "\n" not in str(found.value)


def test_an_unknown_format_is_named(tmp_path):
    with pytest.raises(InputError, match="targets are read from"):
        read_targets(tmp_path / "scores.xlsx")


def test_a_store_of_representations_brings_its_own_target(features):
    table = series_table(features)
    assert table.targets == ("log_perplexity",)
    np.testing.assert_allclose(table.of_run("a")["log_perplexity"], [5.0, 4.0, 3.0, 1.0])
    assert list(trend_table(table)["target"].unique()) == ["log_perplexity"]


def test_layers_nulls_and_quality_are_not_tested_as_features(features):
    features["scope"] = np.where(features["layer"].notna(), "layer", "model")
    features.loc[features["probe"] == "sensitivity", "scope"] = "setting"
    table = series_table(features, catalogue=own_catalogue())
    assert table.columns(scope="model") == [
        "representations/euclidean/hidden/h1_total_excess",
        "representations/euclidean/hidden/h1_total",
    ]
    assert table.of_run("a")["representations/euclidean/hidden/h1_total"].tolist() == [1.0, 2.0, 3.0, 5.0]
    assert table.columns(scope="layer") == [
        "representations/euclidean/hidden.0/h1_total_excess",
        "representations/euclidean/hidden.0/h1_total",
    ]
    assert set(table.columns(scope="quality")) == {"representations/perplexity", "representations/loss"}
    assert not table.columns(probe="sensitivity")


def test_a_file_joins_and_what_does_not_fit_is_listed(features, tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("run,step,piqa\na,0,0.1\na,1,0.2\na,2,0.3\na,4,\na,9,0.5\nc,1,0.5\n")
    table = series_table(features, targets=read_targets(path))
    assert table.targets == ("log_perplexity", "piqa")
    assert table.of_run("a")["piqa"].tolist()[:3] == [0.1, 0.2, 0.3]
    text = "; ".join(table.problems)
    assert "run a, step 9: steps that were not measured" in text
    assert "run c, step 1: the run was not measured" in text
    assert "target piqa: no finite value at 5 of 8 checkpoints" in text
    assert set(trend_table(table, targets=["piqa"])["target"]) == {"piqa"}


def test_targets_that_fit_nothing_or_clash_are_refused(features):
    def score(run, name="piqa", step=0):
        return pd.DataFrame(
            {"run": [run], "step": [step], "target": [name], "value": [1.0], "status": "ok", "reason": ""}
        )

    table = series_table(features)
    with pytest.raises(InputError, match="no target fits a checkpoint"):
        with_targets(table, score("z"))
    with pytest.raises(InputError, match="the targets state no run, but the table has 2"):
        with_targets(table, score(""))
    with pytest.raises(InputError, match="'log_perplexity' has the name of another column"):
        with_targets(table, score("a", "log_perplexity"))
    alone = from_frame(pd.DataFrame({"step": [0, 1], "loss": [2.0, 1.0], "f": [0.0, 1.0]}))
    assert with_targets(alone, score("")).values["piqa"].tolist()[0] == 1.0


def test_a_checkpoint_that_is_there_twice_is_a_problem_and_not_the_end(features):
    later = features[(features["feature"] == "perplexity") & (features["step"] == 4)].assign(
        value=np.exp(3.0)
    )
    table = series_table(pd.concat([features, later], ignore_index=True))
    assert table.of_run("a")["log_perplexity"].tolist()[-1] == pytest.approx(3.0)
    problems = "; ".join(table.problems)
    assert "2 values appear more than once, such as log_perplexity of run a step 4" in problems


@pytest.mark.slow
def test_analyze_takes_a_target_from_a_file(tmp_path):
    steps = np.arange(20)
    noise = np.random.default_rng(0).standard_normal((2, 20)).cumsum(axis=1)
    table, scores = tmp_path / "t.csv", tmp_path / "s.csv"
    pd.DataFrame({"run": "a", "step": steps, "loss": noise[0], "f": noise[1]}).to_csv(table, index=False)
    pd.DataFrame({"run": "a", "step": steps, "glue": noise[1] ** 3}).to_csv(scores, index=False)
    call = [table, "--scores", scores, "--target", "glue", "--table", "trends", "--json"]
    result = CliRunner().invoke(command, list(map(str, call)), standalone_mode=False)
    rows = json.loads(result.output)["trends"]
    assert [(row["target"], row["column"], row["spearman"]) for row in rows] == [("glue", "f", 1.0)]


def test_a_quality_that_a_probe_of_ones_own_declares_is_a_further_target() -> None:
    lines = [
        {"run": "a", "step": step, "probe": "mine", "name": "model", "feature": name, "value": value}
        for step in range(30)
        for name, value in (("score", 0.1 * step), ("shape", step**0.5))
    ]
    declared = catalogue_table({"mine": (
        Feature("score", "my score", kind=Kind.QUALITY, target="score"),
        Feature("shape", "my shape", primary=True),
    )})  # fmt: skip
    metrics = pd.DataFrame({"run": "a", "step": range(30), "loss": [5.0 / (i + 2) for i in range(30)]})
    metrics["heldout_loss"] = float("nan")
    runs = pd.DataFrame({"run": ["a"], "parameters": [10]})
    study = study_of_rows(WEIGHTS, pd.DataFrame(lines), metrics, runs, catalogue=declared)
    assert study.target == "loss"
    assert study.further == ("score",)
    assert study.labels.label("score") == "my score"
