"""The rows of the weight-space paper's study: written, read back, judged without weights, and refused."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import toposcope as ts
from toposcope.cli.reproduce import command as reproduce
from toposcope.core.errors import InputError
from toposcope.studies.seed004.page import from_rows
from toposcope.studies.seed004.rows import COLUMNS, read_rows, rows_of, schema, write_rows
from toposcope.studies.seed004.runs import printed

STEPS = np.arange(0, 1300, 100)


def simulated(*, seeds: int = 1, offset: float = 0.0) -> pd.DataFrame:
    """Return rows of the five sizes: the loss falls as a power of size and step, H0 rises with the step."""
    g = np.random.default_rng(3)
    frames = []
    for size, model in printed()["models"].items():
        for seed in range(42, 42 + seeds):
            noise = 0.01 * g.standard_normal((6, len(STEPS)))
            loss = offset + 8 * float(size) ** -0.15 * (STEPS + 100.0) ** -0.05 + noise[0]
            h0 = 10 * np.log(STEPS + 100.0) * float(size) ** 0.2 + noise[1]
            frames.append(pd.DataFrame({
                "corpus": "text", "tokenizer": "characters", "model": model["name"],
                "run": f"{model['name']}-seed{seed}", "parameters": int(size), "seed": seed, "step": STEPS,
                "tokens": STEPS * 8192, "loss": loss, "loss_smooth": loss, "heldout_loss": loss + 0.1,
                "learning_rate": 1e-3, "weight_norm": 10 + noise[2], "neural_persistence": 0.4 + noise[3],
                "h0_total": h0, "h0_total_sd": 0.1, "h1_total": 1 + noise[4], "h1_total_sd": 0.1,
                "neural_persistence_network": 0.5 + noise[5], "h0_total_layers": h0 * 2,
                "h1_total_layers": 2 + noise[4],
            }))  # fmt: skip
    return pd.concat(frames, ignore_index=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    simulated().to_csv(path, index=False)
    return path


def test_rows_are_written_as_they_were_read_and_fit_their_schema(file: Path, tmp_path: Path) -> None:
    given = pd.read_csv(file)
    written, described = write_rows(read_rows(file), tmp_path / "again")
    again = pd.read_csv(written)
    assert list(again.columns) == list(given.columns) == [column.name for column in COLUMNS]
    pd.testing.assert_frame_equal(again, given, rtol=1e-6, check_dtype=False)
    assert json.loads(described.read_text()) == schema()
    rows = again.astype(object).where(again.notna(), None).to_dict("records")
    for row in rows:
        jsonschema.validate(row, schema())
    del rows[0]["loss"]
    with pytest.raises(jsonschema.ValidationError, match="'loss' is a required property"):
        jsonschema.validate(rows[0], schema())


def test_the_claims_are_judged_from_rows(file: Path) -> None:
    result = CliRunner().invoke(reproduce, ["seed004", "--rows", str(file), "--json"], catch_exceptions=False)
    sections = json.loads(result.stdout)["sections"]
    judged = {row["claim"]: row for row in sections[0]["rows"]}
    law = judged["The final loss scales as a power of the size"]
    assert law["judgement"] == "holds"
    assert float(law["here"].split("^")[1].split(",")[0]) == pytest.approx(-0.15, abs=0.01)
    drift = judged["H0 total persistence is anticorrelated with the loss in every model"]
    assert drift["judgement"] in {"holds only as drift", "cannot be tested here"}
    titles = [section["title"].partition(":")[0] for section in sections]
    assert "Table 3" in titles
    assert "Table 2" not in titles  # it is about single draws, which rows do not have


def test_two_files_stand_side_by_side(tmp_path: Path) -> None:
    simulated().to_csv(tmp_path / "first.csv", index=False)
    rising = simulated(seeds=2)
    rising["h0_total"] = -rising["h0_total"]
    rising.to_csv(tmp_path / "second.csv", index=False)
    judgements, numbers, _ = from_rows(tmp_path)
    assert judgements.columns == ("claim", "first", "second")
    differs = {row[0] for row in judgements.rows if row[1] != row[2]}
    assert "H0 total persistence is anticorrelated with the loss in every model" in differs
    assert (
        judgements.title == f"Of 10 claims that all 2 files can answer, {10 - len(differs)} are judged alike"
    )
    assert "1 on first, 2 on second" in judgements.note
    by_name = {str(row[0]): row[1:] for row in numbers.rows}
    paper, first, second = by_name["exponent of the minibatch loss"]
    assert paper == "-0.144"
    assert float(str(first)) == pytest.approx(-0.15, abs=0.01)
    assert "[" in str(second)  # an interval over its two seeds
    assert (
        float(str(by_name["rho of H0 and the loss, XL-97K"][1]))
        < 0
        < float(str(by_name["rho of H0 and the loss, XL-97K"][2]).split()[0])
    )


def test_a_file_of_two_sizes_has_no_exponent(tmp_path: Path) -> None:
    simulated().to_csv(tmp_path / "all.csv", index=False)
    two = simulated()
    two[two["parameters"] < 10_000].to_csv(tmp_path / "two.csv", index=False)
    judgements, numbers, _ = from_rows(tmp_path)
    assert judgements.title.startswith("Of 4 claims that all 2 files can answer")
    _, whole, few = next(row[1:] for row in numbers.rows if row[0] == "exponent of the minibatch loss")
    assert whole is not None
    assert few is None


def test_a_file_of_rows_is_analysed_like_any_table(file: Path) -> None:
    columns = ["neural_persistence", "h0_total", "h1_total"]
    analysis = ts.analyze(file, columns=columns)
    assert set(analysis.trends["column"]) == set(columns)
    assert set(analysis.families["target"]) >= {"loss", "heldout_loss"}
    assert set(analysis.trends["run"]) == set(pd.read_csv(file)["run"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.drop(columns="h0_total"), "no column 'h0_total'"),
        (lambda rows: rows.assign(loss=["x", *rows["loss"][1:]]), "'loss' has cells that are no numbers"),
        (lambda rows: rows.assign(loss=[np.nan, *rows["loss"][1:]]), "'loss' is empty in row 1"),
        (lambda rows: rows.assign(parameters=5), "has 5 parameters"),
        (lambda rows: rows.iloc[:0], "has no rows|has cells that are no numbers"),
        (lambda rows: pd.concat([rows, rows[:1]]), "two rows of run TINY-3K-seed42 step 0"),
    ],
)
def test_other_tables_are_refused(change, message: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "rows.csv"
    change(simulated()).to_csv(path, index=False)
    with pytest.raises(InputError, match=message):
        read_rows(path)


def test_places_without_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no file of rows"):
        from_rows(tmp_path)
    with pytest.raises(InputError, match="is not there"):
        from_rows(tmp_path / "nowhere.csv")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(InputError, match="is not a table"):
        read_rows(tmp_path / "empty.csv")
    for more in (["--corpus", "python-docs"], ["--seeds", "3"], ["--runs", "x"]):
        with pytest.raises(InputError, match="leave one of them out"):
            CliRunner().invoke(reproduce, ["seed004", "--rows", str(tmp_path), *more], catch_exceptions=False)


def _dictionary() -> str:
    """Return the columns as a Markdown table."""
    lines = ["| column | type | unit | meaning |", "| --- | --- | --- | --- |"]
    for column in COLUMNS:
        empty = "; may be empty" if column.empty else ""
        lines.append(f"| `{column.name}` | {column.kind} | {column.unit} | {column.meaning}{empty} |")
    return "\n".join(lines)


def test_the_committed_rows_are_those_of_the_code() -> None:
    folder = Path(__file__).parents[2] / "data" / "seed004"
    assert json.loads((folder / "schema.json").read_text()) == schema()
    assert _dictionary() in (folder / "README.md").read_text()
    files = sorted(folder.glob("*.csv"))
    validator = jsonschema.Draft202012Validator(schema())
    assert {"python-docs-characters", "wikitext2-bpe", "wikitext2-characters"} <= {f.stem for f in files}
    for file in files:
        rows = pd.read_csv(file)
        steps = rows.groupby("run")["step"]
        assert (steps.size() == 51).all()
        assert (steps.max() == 5000).all()
        for row in rows.astype(object).where(rows.notna(), None).to_dict("records"):
            validator.validate(row)
        assert len(read_rows(file).sizes) == rows["run"].nunique()


def test_the_committed_rows_have_ten_seeds_of_the_papers_sizes() -> None:
    rows = pd.read_csv(Path(__file__).parents[2] / "data" / "seed004" / "wikitext2-characters.csv")
    seeds = rows.groupby("parameters")["seed"].unique()
    assert [int(size) for size in seeds.index] == [int(size) for size in printed()["models"]]
    assert all(sorted(found) == list(range(42, 52)) for found in seeds)


def test_the_committed_rows_are_analysed() -> None:
    file = Path(__file__).parents[2] / "data" / "seed004" / "wikitext2-bpe.csv"
    families = ts.analyze(file, columns=["h0_total"]).families
    line = families[families["target"] == "heldout_loss"].iloc[0]
    assert line["verdict"] in {"trend only", "cannot tell"}


@pytest.mark.slow
def test_rows_give_the_judgements_of_the_stores(shared_data: Path, tmp_path: Path) -> None:
    from toposcope.studies.seed004.page import sections
    from toposcope.studies.seed004.runs import measure

    measured = measure(shared_data / "seed_runs", tmp_path / "stores", quiet=True)
    file, _ = write_rows(measured, tmp_path)
    assert len(rows_of(measured)) == 255
    full = {section.title: section for section in sections(measured)}
    for section in from_rows(file):
        assert section.as_markdown() == full[section.title].as_markdown()
