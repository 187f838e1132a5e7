"""The public functions: results answer first, and everything that README and docs/python.md show runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import matplotlib.axes
import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope import api
from toposcope.api.laws import ScalingLaw
from toposcope.cli.main import COMMANDS, main
from toposcope.core.errors import InputError
from toposcope.core.types import Diagram
from toposcope.forecasting.families import LastValue
from toposcope.scaling.table import FORMULAS, law_points, law_table
from toposcope.subjects.representations.options import RepresentationOptions
from toposcope.subjects.representations.saved_states import SavedStates, read_states

README = Path(__file__).parents[1] / "README.md"
FROM_PYTHON = README.parent / "docs" / "python.md"


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    step = np.arange(0, 3000, 100)
    noise = np.random.default_rng(0).standard_normal((2, 3, len(step)))
    return pd.concat(
        pd.DataFrame(
            {"run": f"r{i}", "step": step, "parameters": 1000 * 4**i,
             "mine": np.log(step + 50.0) + 0.1 * noise[0, i],
             "loss": 5 * (step + 100.0) ** -0.3 + 0.01 * noise[1, i]}
        )
        for i in range(3)
    )  # fmt: skip


def _blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.S)


@pytest.mark.slow
def test_the_blocks_of_the_readme_and_of_the_page_on_python_run(tmp_path, monkeypatch):
    """Run them in one namespace, the README's last; none takes more than five statements."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.log").write_text("".join(f"step {n} loss {5 / (n + 2):.4f}\n" for n in range(200)))
    blocks = _blocks(FROM_PYTHON.read_text(encoding="utf-8"))
    assert len(blocks) == 9
    text = README.read_text(encoding="utf-8").split("## From Python")[1].split("\n## ")[0]
    blocks += (shown := _blocks(text))
    assert len(shown) == 1
    space: dict[str, object] = {}
    for block in blocks:
        assert (
            len([line for line in block.splitlines() if line and not line.startswith(("import", "from"))])
            <= 5
        )
        exec(block, space)
    assert (tmp_path / "report" / "index.html").is_file()
    assert (tmp_path / "report-again" / "index.html").is_file()
    assert len(space["store"].features()) > 100  # type: ignore[attr-defined]
    assert re.search(r"^(yes|no|--) +topology ", repr(space["analysis"]), re.MULTILINE)
    assert {"h1_total", "perplexity"} <= set(space["states"].features()["feature"])  # type: ignore[attr-defined]
    assert set(space["slopes"].features()["probe"]) == {"sharpness"}  # type: ignore[attr-defined]
    assert set(space["both"].features()["run"]) == {place.name for place in space["places"]}  # type: ignore
    assert (tmp_path / "tables" / "features.csv").is_file()
    assert len(space["tables"]) == 11  # type: ignore[arg-type]
    assert space["monitor"].counts["measured"] >= 1  # type: ignore[attr-defined]
    assert {"column", "verdict"} <= set(space["analysis"].families)  # type: ignore[attr-defined]


def test_the_page_on_python_has_the_function_of_every_command():
    table = FROM_PYTHON.read_text(encoding="utf-8").split("| command | in Python |")[1].split("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in table.splitlines()[2:])))
    assert named == set(COMMANDS)
    for name in re.findall(r"`ts\.(\w+)`", table):
        assert callable(getattr(ts, name))


def test_the_packages_of_a_functions_name_are_called_whatever_is_imported_first():
    import toposcope.page.page
    import toposcope.training.loop

    assert callable(ts.report)
    assert callable(ts.train)
    with pytest.raises(InputError, match="neither a store"):
        ts.report(__file__, "nowhere")
    assert toposcope.page.page.PAGE == "index.html"


@pytest.mark.slow
def test_an_analysis_answers_first_and_holds_every_table(frame):
    analysis = ts.analyze(frame)
    first = repr(analysis).splitlines()[0]
    assert first.startswith(("The other column adds nothing here", "It is unknown whether", "1 of "))
    assert analysis._repr_html_().startswith("<p><strong>" + first[:20])
    assert set(analysis.trends["run"]) == {"r0", "r1", "r2"}
    for name in ("families", "phases", "segments", "scaling", "saturation", "forecasts", "lags"):
        assert isinstance(getattr(analysis, name), pd.DataFrame)
    assert isinstance(analysis.plot(), matplotlib.axes.Axes)
    data = analysis.to_json(("families",))
    assert data["findings"][0]["answer"].startswith(first[:30])  # type: ignore[index]
    with pytest.raises(InputError, match="no table 'nothing'; there are families"):
        analysis.table("nothing")


def _printed(command: list[str], capsys) -> dict:
    with pytest.raises(SystemExit) as ended:
        main([*command, "--json"])
    assert ended.value.code == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_a_law_and_the_tests_error_rates_are_those_of_the_commands(frame, tmp_path, capsys):
    frame.to_csv(tmp_path / "mine.csv", index=False)
    told = _printed(["analyze", str(tmp_path / "mine.csv"), "--law", "power"], capsys)
    law = ts.fit_scaling_law(frame, "power")
    assert not law.failed
    assert (told["formula"], told["models"], told["sizes"]) == (law.formula, 3, law.sizes)
    numbers = [row["value"] for row in told["fit"]]
    assert numbers == [None if value != value else value for value in law.table["value"]]
    assert repr(law) in law._repr_html_()
    assert law.counted == "90 rows, the last rows of 3 runs, 3 distinct sizes"
    with pytest.raises(InputError, match="no quantity 'width'; the quantities are size"):
        ts.fit_scaling_law(frame, "offset", columns={"width": "n"})
    with pytest.raises(InputError, match="no law called 'gold'"):
        ts.fit_scaling_law(frame, "gold")
    told = _printed(["analyze", str(tmp_path / "mine.csv"), "--calibrate", "--draws", "100"], capsys)
    rates = ts.analyze(frame).calibrated(draws=100)
    assert [row["rate"] for row in told["rates"]] == rates["rate"].tolist()
    assert len(told["steps"]) == 30


@pytest.mark.parametrize(
    ("law", "columns", "gives"),
    [
        ("power", {"loss": "score"}, "score"),
        ("offset", {}, "loss"),
        ("chinchilla", {}, "loss"),
        ("kaplan", {}, "loss"),
        ("size-steps", {}, "loss"),
        ("loss-to-loss", {}, "heldout_loss"),
        ("two-stage", {}, "score"),
    ],
)
def test_every_law_draws_its_points_and_gives_back_what_it_was_fitted_to(law, columns, gives):
    size = np.repeat([1e6, 4e6, 16e6, 64e6, 256e6], 3)
    data, steps = size * np.tile([5.0, 20.0, 80.0], 5), np.tile([1e3, 4e3, 16e3], 5)
    loss = {
        "offset": 1.5 + 100.0 * size**-0.3,
        "chinchilla": 1.7 + 400.0 / size**0.34 + 410.0 / data**0.28,
        "kaplan": ((8e9 / size) ** (0.3 / 0.35) + 5e9 / data) ** 0.35,
        "size-steps": (8e9 / size) ** 0.2 + (2e3 / steps) ** 0.5,
        "two-stage": 1.5 + 900.0 * (6.0 * size * data) ** -0.16,
    }.get(law, 1.5 + 100.0 * size**-0.3)
    frame = pd.DataFrame({
        "parameters": size, "tokens": data, "step": steps, "loss": loss,
        "heldout_loss": 0.9 * (loss - 1.2) ** 1.1 + 1.3,
        "score": size**0.25 if law == "power" else 1.0 / (1.0 + np.exp(2.0 * (loss - 3.0))),
    })  # fmt: skip
    by_size = law in ("power", "offset")
    table = law_table(frame, law, columns=columns, by_size=by_size, draws=0)
    points = law_points(frame, law, columns=columns, by_size=by_size)
    found = ScalingLaw(law, FORMULAS[law], table, 15, 15, 5, points)
    name = {"score": "loss" if law == "power" else "score", "heldout_loss": "other"}.get(gives, gives)
    np.testing.assert_allclose(found.fitted, points[name], rtol=2e-3)
    ax = found.plot()
    drawn = np.concatenate([line.get_xydata() for line in ax.lines if line.get_marker() == "o"])
    assert len(drawn) == len(points) == (5 if by_size else 15)
    assert ax.get_title(loc="left") == FORMULAS[law]


def test_a_law_without_numbers_draws_its_points_alone():
    frame = pd.DataFrame({"parameters": [1e6, 2e6], "loss": [3.0, 2.0]})
    found = ts.fit_scaling_law(frame, "offset")
    assert np.isnan(found.fitted).all()
    ax = found.plot()
    assert [len(line.get_xdata()) for line in ax.lines if line.get_marker() == "o"] == [2]


def test_a_csv_a_frame_and_a_path_give_the_same_analysis(frame, tmp_path):
    frame.to_csv(tmp_path / "mine.csv", index=False)
    pd.testing.assert_frame_equal(
        ts.analyze(frame).families, ts.analyze(tmp_path / "mine.csv").families, check_exact=False
    )
    with pytest.raises(InputError, match="'nothing' is not in the table"):
        ts.analyze(frame, columns=["nothing"])
    with pytest.raises(InputError, match="column 'nothing' is missing"):
        ts.analyze(frame, targets="nothing")


@pytest.mark.parametrize(("n", "said"), [(8, "has 8 checkpoints, a test needs 12; add some"), (2, "has 2")])
def test_nothing_computed_names_the_checkpoints_that_are_lacking(n, said):
    few = pd.DataFrame({"step": range(n), "loss": np.linspace(3, 2, n), "mine": np.arange(n) ** 2.0})
    with pytest.raises(InputError, match=said):
        ts.analyze(few).refuse_nothing(("trends",))


def test_a_missing_column_names_its_remedy(frame):
    with pytest.raises(
        InputError, match=r"column 'step' is missing .*: `rename=\{'COLUMN': 'step'\}`; did you mean 'stepp'"
    ):
        ts.analyze(frame.rename(columns={"step": "stepp"}))


def test_a_table_gets_a_page_of_its_own(frame, tmp_path):
    made = ts.report(ts.analyze(frame), tmp_path / "report")
    text = made.page.read_text(encoding="utf-8")
    assert " adds nothing here: " in repr(made).splitlines()[0]
    assert "Columns of a table of training runs" in text
    assert 'id="figure-table_correlations"' in text


def test_a_forecast_prints_a_line_for_each_run(frame):
    made = ts.forecast(frame, horizon=6000)
    assert list(made.table.columns[:2]) == ["run", "method"]
    assert [line.split(" may end ")[0] for line in repr(made).splitlines()] == ["r0", "r1", "r2"]
    assert made._repr_html_().startswith("<p><strong>r0 may end between")
    assert isinstance(made.plot(), matplotlib.axes.Axes)
    advised = made.advise(1e12, tokens_per_step=64)
    assert [line.split(":")[0] for line in repr(advised).splitlines()] == ["r0", "r1", "r2"]
    assert set(advised.table["action"]) == {"continue", "stop", "scale"}
    with pytest.raises(InputError, match="budget 0: not a finite number above 0"):
        made.advise(0)
    with pytest.raises(InputError, match=r"tokens in a step \(`tokens_per_step`\) is not stated"):
        made.advise(1e12)


def test_finished_runs_are_scored_from_python_as_by_the_command(frame, tmp_path, capsys):
    frame = frame.rename(columns={"loss": "nll"})
    made = ts.forecast(frame, rename={"nll": "loss"}, cuts=[0.5], methods=[LastValue()])
    assert repr(made).startswith("no run to forecast: 3 runs are taken as ended where their logs end")
    frame.to_csv(tmp_path / "runs.csv", index=False)
    command = ["forecast", str(tmp_path / "runs.csv"), "--rename", "nll=loss", "--cuts", "0.5", "--json"]
    with pytest.raises(SystemExit, match="0"):
        main(command)
    told = json.loads(capsys.readouterr().out)
    by_command = next(row for row in told["summary"] if row["method"] == LastValue().name)
    mine = made.summary[made.summary["method"] == LastValue().name].iloc[0]
    assert mine["mae"] == pytest.approx(by_command["mae"], rel=1e-12)
    twice = ts.forecast([tmp_path / "runs.csv"] * 2, rename={"nll": "loss"})  # a file given twice counts once
    assert len(twice.ended) == len(made.ended)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"level": 2.0}, "level 2: not a confidence level"),
        (
            {"cuts": [0.2, 1.0]},
            "cuts '0.2,1': not all of these are shares of the training; give numbers between 0 and 1",
        ),
        ({"methods": "some"}, "methods 'some': give"),
        ({"parameters": -3}, "parameters -3: not a finite number above 0"),
        ({"rename": {"nothing": "loss"}}, "no such column in any of the tables"),
    ],
)
def test_an_option_of_a_forecast_without_meaning_is_named(frame, options, says):
    with pytest.raises(InputError, match=says):
        ts.forecast(frame, **options)


def test_a_diagram_is_an_array_of_pairs_for_others():
    import gudhi
    from gudhi.representations import Landscape
    from gudhi.wasserstein import wasserstein_distance
    from persim import bottleneck, sliced_wasserstein

    points = np.random.default_rng(0).normal(size=(40, 2))
    _, h1 = ts.rips(points)
    assert h1.pairs.shape == (len(h1), 2)
    np.testing.assert_array_equal(np.asarray(h1), h1.pairs)
    assert np.asarray(h1, dtype=np.float32).dtype == np.float32
    shifted = Diagram(1, h1.birth + 0.1, h1.death + 0.1)
    assert gudhi.bottleneck_distance(h1.pairs, shifted.pairs) <= 0.1 + 1e-12
    assert wasserstein_distance(np.asarray(h1), np.asarray(shifted)) > 0
    assert bottleneck(h1.pairs, shifted.pairs) == pytest.approx(
        gudhi.bottleneck_distance(h1.pairs, shifted.pairs)
    )
    # and the diagram itself stands wherever its pairs do
    assert gudhi.bottleneck_distance(h1, shifted) == gudhi.bottleneck_distance(h1.pairs, shifted.pairs)
    assert wasserstein_distance(h1, shifted) == wasserstein_distance(h1.pairs, shifted.pairs)
    assert bottleneck(h1, shifted) == bottleneck(h1.pairs, shifted.pairs)
    assert sliced_wasserstein(h1, shifted) == sliced_wasserstein(h1.pairs, shifted.pairs)
    vectors = [Landscape(num_landscapes=1, resolution=5).fit_transform([one]) for one in (h1, h1.pairs)]
    np.testing.assert_array_equal(*vectors)
    np.testing.assert_array_equal(h1[:, 1] - h1[:, 0], h1.death - h1.birth)
    assert h1.shape == h1.pairs.shape
    assert h1.triples()[None].shape == (1, len(h1), 3)  # giotto-tda: samples, points, (birth, death, dim)
    assert set(h1.triples()[:, 2]) == {1.0}


def test_a_diagram_draws_what_it_holds():
    ax = Diagram(0, np.array([0.0, 0.0]), np.array([1.0, np.inf])).plot()
    points = [line.get_xydata().tolist() for line in ax.lines[1:]]
    assert points[0] == [[0.0, 1.0]]
    assert points[1][0][1] > 1.0
    assert Diagram(1, np.array([]), np.array([])).plot() is not None


FEW = RepresentationOptions(components=4, points=12, draws=2, nulls=1, perplexity_texts=4)


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> tuple[Path, ts.Store]:
    """Return where a tiny model's states on twelve texts were kept, and the store made with them."""
    folder = tmp_path_factory.mktemp("kept")
    ts.train("demo", folder / "runs", models=["tiny-3k"], overrides={"steps": 2, "checkpoint_every": 1})
    lines = [f"{n} small cats sat on {n + 1} mats. " * (1 + n % 3) for n in range(24)]
    (folder / "texts.txt").write_text("\n".join(lines))
    asked = api.TextRequest(
        texts=str(folder / "texts.txt"), limit=12, min_chars=40, save_states=folder / "states"
    )
    store = ts.measure(
        folder / "runs", folder / "store", features="representations", texts=asked, options=FEW
    )
    return folder / "states", store


def test_measure_takes_the_texts_that_were_asked_for_and_keeps_their_states(kept):
    folder, store = kept
    series = SavedStates(folder)
    assert [at.step for at in series] == [0, 1, 2]
    # two lines of three have forty characters: twelve of sixteen are read
    assert {len(states) for at in series for states in read_states(folder, at).values()} == {12}
    assert {"h1_total", "perplexity"} <= set(store.features()["feature"])


def test_measure_reads_states_that_were_kept_without_a_model_and_finds_the_same(kept, tmp_path):
    folder, store = kept
    again = ts.measure(SavedStates(folder), tmp_path / "again", features="representations", options=FEW)
    keys = ["run", "step", "feature", "layer", "draw", "name"]
    first, second = (one.features().set_index(keys)["value"].sort_index() for one in (store, again))
    pd.testing.assert_series_equal(first, second, rtol=1e-12)
    few = ts.measure(SavedStates(folder), tmp_path / "few", features="representations", options=FEW, limit=8)
    fewer = few.features().set_index(keys)["value"].sort_index()
    total = [one.xs("h1_total", level="feature").sum() for one in (first, fewer)]
    assert total[1] != total[0]
    with pytest.raises(InputError, match=r"limit 13: .* contains only 12 texts"):
        ts.measure(SavedStates(folder), tmp_path / "many", features="representations", limit=13)
    assert not (tmp_path / "many").exists()


def test_a_name_that_no_probe_has_is_told_before_settings_that_fit_none(tmp_path):
    with pytest.raises(InputError, match="'outliers'"):
        ts.measure({0: {"w": np.eye(3)}}, tmp_path / "store", features="outliers", options=object())
    assert not (tmp_path / "store").exists()
