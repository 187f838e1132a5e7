"""`toposcope reproduce`: its list, its claims, and the studies that need no data of anyone."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from types import SimpleNamespace

import click
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from toposcope.cli.main import main
from toposcope.cli.reproduce import command as reproduce
from toposcope.core import plugins
from toposcope.core.errors import InputError
from toposcope.published.forecast_rules import NEURAL_PERSISTENCE, OTHERS, error_table
from toposcope.studies.claims import Claim, Standing, claims_section, within
from toposcope.studies.public_runs.logs import read_runs
from toposcope.studies.public_runs.rates import differences, shared_spikes, spike_steps
from toposcope.studies.roster import OWN, studies
from toposcope.studies.sections import Section
from toposcope.studies.study import Reproduction, StudyCall, write_page
from toposcope.study import from_frame


def call(*words: object) -> Result:
    return CliRunner().invoke(reproduce, [str(word) for word in words], catch_exceptions=False)


def section(result: Result, start: str) -> dict:
    return next(one for one in json.loads(result.stdout)["sections"] if one["title"].startswith(start))


def test_without_a_study_all_of_them_are_listed() -> None:
    shown = call().output
    assert all(name in shown for name in OWN)
    assert list(studies()) == list(OWN)


def test_an_installed_package_brings_a_study(monkeypatch: pytest.MonkeyPatch, capsys) -> None:  # type: ignore[no-untyped-def]
    def sections(call: StudyCall, *, times: int) -> list[Section]:
        """Judge what nobody claimed."""
        return [
            claims_section(
                [Claim(text="a", source="", here=str(times), statistic="", judgement=Standing.HOLDS)]
            )
        ]

    mine = Reproduction("My paper", "Does it hold?", sections, (click.option("--times", type=int),))
    points = {"mine": mine, "seed001": mine, "odd": 3}
    offered = [SimpleNamespace(name=n, value=f"{n}:STUDY", load=lambda n=n: points[n]) for n in points]
    monkeypatch.setattr(plugins, "entry_points", lambda group: offered)
    found = studies()
    assert list(found) == [*OWN, "mine"]
    assert found["seed001"].title == "The research plan"
    said = capsys.readouterr().err
    assert "the name 'seed001' is taken" in said
    assert "odd = odd:STUDY is left out" in said
    monkeypatch.setattr("toposcope.cli.reproduce._studies", studies)
    result = call("mine", "--times", 3, "--json")
    assert json.loads(result.stdout)["sections"][0]["rows"][0]["here"] == "3"


def test_an_unknown_study_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "seed01"])
    assert ended.value.code == 2
    assert "did you mean 'seed001'" in capsys.readouterr().err


@pytest.mark.parametrize("study", ["seed001", "seed004", "landscape"])
def test_what_trains_first_needs_a_folder(study: str) -> None:
    with pytest.raises(InputError, match="name a folder with `out`"):
        call(study)


def test_the_title_counts_the_judgements() -> None:
    made = [
        Claim(text="a", source="", here="", statistic="", judgement=one)
        for one in (Standing.HOLDS, Standing.FAILS, Standing.FAILS, Standing.UNTESTED)
    ]
    found = claims_section(made)
    assert found.title == "Of 4 claims, 1 holds, 2 do not hold, 1 cannot be tested here"
    assert [row[-1] for row in found.rows] == [claim.judgement.value for claim in made]


@pytest.mark.parametrize("study", OWN)
def test_the_page_of_every_study_holds_the_claims_it_judges(study: str, tmp_path: Path) -> None:
    made = [
        Claim(text=f"H{i} & <more>", source="0.1", here="0.2", statistic="p 0.3", judgement=one)
        for i, one in enumerate(Standing)
    ]
    page = write_page(study, studies()[study].title, [claims_section(made)], tmp_path / "out")
    assert page.suffix == ".html"
    text = page.read_text()
    assert f"<h1>{studies()[study].title}, reproduced</h1>" in text
    for claim in made:
        cells = (escape(claim.text), claim.source, claim.here, claim.statistic, claim.judgement.value)
        assert "".join(f"<td>{cell}</td>" for cell in cells) in text


def test_a_rate_holds_only_where_its_whole_interval_does() -> None:
    assert within(0.88, 0.92, 0.87, 0.93) is Standing.HOLDS
    assert within(0.86, 0.92, 0.87, 0.93) is Standing.UNTESTED
    assert within(0.50, 0.80, 0.87, 0.93) is Standing.FAILS


def test_topology_of_other_runs_stands_in_for_the_runs_own() -> None:
    """Where every run has the same topology, the control is the mixture itself; where not, it is another."""
    step = np.arange(51) * 100
    loss = 2 + 5 * (step + 100.0) ** -0.4
    topology = np.log(step + 100.0)

    def errors(*shapes: np.ndarray) -> pd.DataFrame:
        runs = [
            pd.DataFrame({"run": f"r{i}", "step": step, "loss": loss + 0.1 * i, NEURAL_PERSISTENCE: shape})
            for i, shape in enumerate(shapes)
        ]
        return error_table(from_frame(pd.concat(runs)))

    same = errors(topology, topology, topology)
    assert np.allclose(same["combined"], same[OTHERS])
    other = errors(topology, 5 * topology, -9 * topology)
    assert not np.allclose(other["combined"], other[OTHERS])


def logs(folder: Path, seeds: int = 3, *, spike: int | None = None) -> Path:
    """Write runs of two recipes, each with so many seeds, in a folder of their own each."""
    for recipe in ("wide", "deep"):
        for seed in range(seeds):
            place = folder / recipe / f"seed{seed}"
            place.mkdir(parents=True)
            noise = np.random.default_rng([seed, len(recipe), ord(recipe[0])]).standard_normal(60)
            step = 20 * np.arange(1, 61)
            loss = 2 + 8 * step**-0.5 + 0.01 * noise
            if spike is not None:
                loss[spike] *= 1.5
            lines = [json.dumps({"step": int(s), "loss": float(v)}) for s, v in zip(step, loss, strict=True)]
            (place / "train.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_public_runs_are_read_from_a_folder_of_logs(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "README.txt").write_text("not a log\n")
    runs = read_runs(logs(tmp_path / "runs"))
    assert len(runs) == 6
    assert {run.seed for run in runs} == {"seed0", "seed1", "seed2"}
    assert {len(run.log) for run in runs} == {60}
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match="no log with a loss"):
        read_runs(empty)


def test_public_runs_read_from_tables_are_the_same(tmp_path: Path) -> None:
    runs = read_runs(logs(tmp_path / "logs"))
    tables = tmp_path / "tables"
    tables.mkdir()
    pd.concat([run.log.assign(run=run.name) for run in runs]).rename(columns={"loss": "train_loss"}).to_csv(
        tables / "curves.csv.gz", index=False
    )
    pd.DataFrame({"run": [run.name for run in runs], "path": [run.name for run in runs]}).to_csv(
        tables / "runs.csv.gz", index=False
    )
    again = read_runs(tables)
    assert [(run.group, run.recipe, run.seed) for run in again] == [
        (run.group, run.recipe, run.seed) for run in runs
    ]
    assert all(np.allclose(a.log, b.log) for a, b in zip(again, runs, strict=True))


def test_a_spike_that_all_runs_share_is_found_and_one_alone_is_not(tmp_path: Path) -> None:
    shared = read_runs(logs(tmp_path / "shared", seeds=4, spike=40))
    assert all(spike_steps(run.log).tolist() == [820.0] for run in shared)
    (found,) = shared_spikes(shared)
    assert (found.step, found.spikes, found.p_holm < 0.05) == (820, 8, True)
    assert shared_spikes(read_runs(logs(tmp_path / "none", seeds=2))) == []


def test_the_difference_of_two_seeds_is_that_of_their_noise(tmp_path: Path) -> None:
    worth = differences(read_runs(logs(tmp_path, seeds=6)))
    assert worth.groups == 2
    # the mean of six losses with noise .01 has a deviation of .01 / sqrt(6)
    assert 0.5 < worth.sd / (0.01 / np.sqrt(6)) < 2.0
    assert worth.quantile(0.5) <= worth.quantile(0.95)
    assert worth.beyond(1.0)[0] == 0.0


@pytest.mark.slow
def test_public_runs_by_the_command(tmp_path: Path) -> None:
    found = call("public-runs", logs(tmp_path / "logs"), "--out", tmp_path / "out", "--json")
    assert found.exit_code == 0
    claims = section(found, "Of 4 claims")["rows"]
    assert claims[0]["here"].startswith("0 of 6;")
    assert (tmp_path / "out" / "public-runs.md").read_text().startswith("# Public runs, reproduced")
    page = (tmp_path / "out" / "public-runs.html").read_text()
    assert "<h1>Public runs, reproduced</h1>" in page
    assert "A spike has its cause in its own run" in page
    assert "<script" not in page


@pytest.mark.slow
def test_known_exponents_by_the_command_and_once_more(tmp_path: Path) -> None:
    first = call("synthetic", "--families", 6, "--out", tmp_path, "--json")
    table = section(first, "Exponents predicted")["rows"]
    assert {row["families"] for row in table} == {6}
    norms = next(row for row in table if row["features"] == "norms and spectra")
    assert norms["error"] < norms["of the mean"]  # the weights contain the spectrum
    page = (tmp_path / "synthetic.html").read_text()
    for claim in section(first, "Of 2 claims")["rows"]:
        assert "".join(f"<td>{escape(claim[key])}</td>" for key in ("claim", "source", "here")) in page
        assert f"<td>{claim['judgement']}</td>" in page
    again = call("synthetic", "--families", 6, "--out", tmp_path, "--json")
    assert json.loads(again.stdout) == json.loads(first.stdout)


@pytest.mark.slow
def test_the_research_plan_on_two_seeds_of_every_size(tmp_path: Path) -> None:
    """A short training of the plan's family: every claim is judged, and what needs seeds is tested."""
    from toposcope.training import train

    changes = {"steps": 60, "checkpoint_every": 4, "batch_size": 8, "gradients": True}
    train("seed001", tmp_path / "runs", seeds=[1, 2], overrides=changes, jobs=2)
    found = call("seed001", "--runs", tmp_path / "runs", "--out", tmp_path / "out", "--json")
    claims = section(found, "Of 8 claims")["rows"]
    assert {claim["claim"].split(":")[0] for claim in claims} == {
        "H1", "H2", "H3", "H4", "Criterion 1", "Criterion 2", "Criterion 3"
    }  # fmt: skip
    assert {claim["judgement"] for claim in claims} <= {one.value for one in Standing}
    courses = section(found, "Criterion 2")["rows"]
    assert len(courses) == 5  # gradients are among them
    assert all(0 < row["p"] <= 1 for row in courses)
    methods = {row["method"] for row in section(found, "H4")["rows"]}
    assert {"rule: combined", "sibling transfer + topology", "sibling transfer + norms"} <= methods


@pytest.mark.slow
def test_the_paper_across_seeds(tmp_path: Path) -> None:
    """With seeds the paper's tables have their intervals; the tables of one run a size stay as they are."""
    from toposcope.training import train

    changes = {"steps": 60, "checkpoint_every": 4, "batch_size": 2}
    train("seed004", tmp_path / "runs", seeds=[7, 3], overrides=changes, jobs=2)
    found = call("seed004", "--runs", tmp_path / "runs", "--out", tmp_path / "out", "--json")
    across = section(found, "Table 1 across seeds")["rows"]
    assert [row["seeds"] for row in across] == [2] * 5
    laws = {row["quantity"]: row for row in section(found, "Table 7 across seeds")["rows"]}
    assert laws["final minibatch loss"]["exponent: paper"] == "-0.144"
    assert laws["final minibatch loss"]["sd"]
    one = next(s["rows"] for s in json.loads(found.stdout)["sections"] if s["title"].startswith("Table 1: "))
    assert [row["parameters"] for row in one] == [2936, 7408, 20640, 46368, 97200]
    claims = section(found, "Of 10 claims")["rows"]
    assert all("nan" not in claim["statistic"] + claim["here"] for claim in claims)
