"""A feature of a probe from elsewhere leads wherever it says so, as the package's own do."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from toposcope.core.seeding import rng
from toposcope.core.types import About, Feature, Kind, Row, RunRecord, Scope, Use
from toposcope.page.parts import part_of
from toposcope.store import Result, Store, Unit, catalogue_table
from toposcope.study.analysis import analysis_of
from toposcope.study.catalogue import leads_in
from toposcope.study.forecasts.gather import gather_curves, topological_methods
from toposcope.study.recover import _feature_sets
from toposcope.study.study import Study
from toposcope.study.table import series_table
from toposcope.subjects.catalogue import completed, declared_features, own_catalogue
from toposcope.watch.watchman import Watchman

PROBE, COLUMN, LABEL = "elsewhere", "elsewhere/height", "height of elsewhere"
STEPS = tuple(range(0, 240, 10))
SIZES = {"small": 1_000, "middle": 10_000, "large": 100_000}
EVERYWHERE = dict.fromkeys(Use, 1)


def _features(about: About) -> tuple[Feature, ...]:
    height = Feature("height", LABEL, unit="height", about=about, leads=EVERYWHERE)
    null = Feature("height_null", "its null", kind=Kind.NULL, null_of=height, about=about)
    return height, null


def _rows(run: str, step: int) -> Iterator[Row]:
    part = np.log1p(step) / np.log1p(STEPS[-1])
    noise = float(rng(name="height", run=run, step=step).standard_normal())
    height = np.log(SIZES[run]) + (4.0 * part if step < 100 else 0.0) + 0.05 * noise
    yield Row(run, step, PROBE, "height", height)
    for draw in range(5):
        yield Row(run, step, PROBE, "height_null", 0.5 + 0.01 * draw, draw=draw)


def _store(path: Path, about: About = About.WEIGHTS) -> Store:
    store = Store.create(path, recipe={"made for": "leading features"})
    store.write_catalogue(PROBE, _features(about))
    store.write_runs(RunRecord(run, "gpt", size, 1) for run, size in SIZES.items())
    at = np.arange(STEPS[-1] + 1)
    for run in SIZES:
        loss = 4.0 * (at + 10.0) ** -0.2 + 0.01 * rng(name="loss", run=run).standard_normal(len(at))
        store.write_metrics(pd.DataFrame({"run": run, "step": at, "tokens": 8 * at, "loss": loss}))
        units = [Unit(run, step, PROBE, 1, f"{run} {step}") for step in STEPS]
        store.write_results(
            [Result(unit, tuple(_rows(run, unit.step))) for unit in units], keep_diagrams=False
        )
    return store


@pytest.fixture(params=list(About))
def study(request: pytest.FixtureRequest, tmp_path: Path) -> Study:
    (found,) = analysis_of(_store(tmp_path / "store", request.param)).studies
    assert found.subject.name == request.param
    return found


@pytest.mark.slow
def test_it_leads_the_findings_and_the_power_laws(study: Study) -> None:
    assert all(study.leads(use) == [COLUMN] for use in Use)
    changed = study.findings["changed"].numbers
    assert [move["column"] for move in changed["moves"]] == [COLUMN]
    assert [(null["label"], null["above"]) for null in changed["nulls"]] == [(LABEL, 3)]
    assert set(study.bends["column"]) == {COLUMN}
    assert COLUMN in set(study.finals["quantity"])
    assert {line["label"] for line in study.findings["scale"].numbers["ordered"]} == {LABEL}


@pytest.mark.slow
def test_its_figure_stands_on_the_page_beside_its_null(study: Study) -> None:
    part = part_of(study)
    drawn = {picture.name: picture for picture in part.pictures}[f"leading_{study.subject.name}"]
    assert LABEL in drawn.svg.decode()
    assert drawn.caption.title.startswith("Height of elsewhere ")


def test_exponents_are_predicted_from_it(study: Study) -> None:
    sets = _feature_sets(study.series)
    assert sets["topology"] == sets["norms"] == [COLUMN]


def test_forecasts_take_it_as_their_topology(tmp_path: Path) -> None:
    store = _store(tmp_path / "store")
    told = {"features": store.features(), "catalogue": store.catalogue()}
    curves, problems = gather_curves(store.metrics(), store.runs(), **told)
    assert not problems
    assert {curve.topology for curve in curves} == {("height",)}
    named = {method.name for method in topological_methods(curves, lambda columns: ())}
    assert {"sibling transfer + topology", "sibling transfer + saturating topology"} <= named


def test_a_watch_says_when_it_stops_rising(tmp_path: Path) -> None:
    told = Watchman(_store(tmp_path / "store").path).judge()
    plateaus = [event for event in told if event.data.get("test") == "persistence plateau"]
    assert plateaus
    assert all(event.data["sentence"].startswith(LABEL) for event in plateaus)


def test_its_place_decides_beside_the_packages_own() -> None:
    mine = (Feature("mine", leads={Use.CHANGE: 2}, label="mine"),)
    rows = pd.DataFrame(
        [
            {"run": "a", "step": step, "probe": probe, "feature": feature, "value": 1.0 + step,
             "scope": str(scope), "name": name}
            for step in (0, 1)
            for probe, feature, scope, name in (
                ("elsewhere", "mine", Scope.MODEL, "model"),
                ("rips", "h0_total", Scope.MODEL, "layers"),
                ("rips", "h0_total", Scope.POOLED, "pooled"),
                ("rips", "h0_total_scaled", Scope.POOLED, "pooled"),
                ("neural_persistence", "neural_persistence", Scope.MODEL, "model"),
            )
        ]
    )  # fmt: skip
    ours = {name: declared_features()[name] for name in ("neural_persistence", "rips")}
    declared = catalogue_table({"elsewhere": mine, **ours})
    table = series_table(rows, catalogue=declared)
    assert table.leads(Use.CHANGE, About.WEIGHTS) == [
        "rips/pooled/h0_total", "elsewhere/mine", "rips/pooled/h0_total_scaled",
        "neural_persistence/neural_persistence",
    ]  # fmt: skip
    assert table.leads(Use.CHANGE, About.GRADIENTS) == []
    without = series_table(rows[rows["probe"] != "elsewhere"])
    assert without.leads(Use.CHANGE)[0] == "rips/pooled/h0_total", "rows that no store holds are read, too"


def test_a_store_written_before_is_read_as_the_packages_probes_declare(tmp_path: Path) -> None:
    store = _store(tmp_path / "store")
    for probe in ("rips", "gradient_rips", "representations", "surface"):
        store.write_catalogue(probe, declared_features()[probe])
    new = store.catalogue()
    for path in (store.path / "catalogue").glob("*.parquet"):
        table = pq.read_table(path)
        pq.write_table(table.drop_columns(["about", "leads"]), path)
    shutil.rmtree(store.path / ".ledger")  # stores of that time had none
    old = completed(store.catalogue())
    old = old.iloc[: len(new)]
    ours = new["probe"] != PROBE
    assert old.loc[ours, "about"].tolist() == new.loc[ours, "about"].tolist()
    assert list(map(list, old.loc[ours, "leads"])) == list(map(list, new.loc[ours, "leads"]))
    assert set(old.loc[~ours, "about"]) == {"weights"}
    assert not old.loc[~ours, "leads"].map(len).any()
    (study,) = analysis_of(store).studies
    assert study.leads(Use.CHANGE) == []


def test_what_is_called_so_measures_gradients_and_an_empty_catalogue_says_nothing() -> None:
    mine = catalogue_table({"gradient_mine": (Feature("x", "x"),)}).drop(columns=["about", "leads"])
    assert completed(mine)["about"].iloc[0] == "gradients"
    assert completed(mine.iloc[:0]).equals(own_catalogue())
    assert completed(mine).iloc[1:].reset_index(drop=True).equals(own_catalogue())


def test_no_place_is_taken_twice_within_a_probes_subject() -> None:
    lines = own_catalogue()
    for about in About:
        for use in Use:
            mine = lines[lines["about"] == about]
            places = [lead for leads in mine["leads"] for lead in leads if lead.split("=")[0] == use]
            known = mine.assign(column=mine["feature"], leads=[_decoded(leads) for leads in mine["leads"]])
            assert len(set(places)) == len(places) == len(leads_in(known, use)), (about, use)


def _decoded(leads: list[str]) -> dict[str, int]:
    return {lead.split("=")[0]: int(lead.split("=")[1]) for lead in leads}
