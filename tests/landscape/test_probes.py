"""The probes of the loss surface: known answers, nulls, what is kept, and every kind of directions."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import toposcope as ts
from tests.landscape.conftest import tiny_objective
from tests.on_page import drawn
from tests.representations.conftest import TEXTS, write_causal_model
from toposcope.core.drawing.style import INK
from toposcope.core.errors import InputError
from toposcope.core.threads import thread_count
from toposcope.models import ModelLoader, Objective, Texts
from toposcope.sources import open_series
from toposcope.store import Store
from toposcope.subjects.landscape import source as source_module
from toposcope.subjects.landscape._around import AtCentre, Quadratic
from toposcope.subjects.landscape._timed import HessianProducts
from toposcope.subjects.landscape.geometry.directions import random_directions
from toposcope.subjects.landscape.geometry.surface import sample_surface, symmetric_axis
from toposcope.subjects.landscape.options import LandscapeOptions
from toposcope.subjects.landscape.probes import surface as surface_module
from toposcope.subjects.landscape.reach import check_reach, reach_by_rule
from toposcope.subjects.landscape.saved_densities import saved_densities
from toposcope.subjects.landscape.saved_surfaces import read_surface, save_surface, saved_surfaces
from toposcope.subjects.landscape.source import ObjectiveSource
from toposcope.subjects.landscape.study import LandscapeStudy, study_of_texts
from toposcope.subjects.landscape.summaries import summarise
from toposcope.sweep.loop import sweep

pytestmark = pytest.mark.slow

MANY = Texts("words", tuple(f"{text} and {i} more" for i in range(4) for text in TEXTS))
SMALL = LandscapeOptions(
    resolution=5, batches=2, sequences=4, length=8, draws=1, eigenvalues=2, products=12, vectors=2, steps=4,
    nulls=1,
)  # fmt: skip


def run_folder(folder, corpus_folder, **changes):
    from toposcope.training import train

    text = corpus_folder / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 200)
    wanted = {
        "steps": 6, "checkpoint_every": 2, "models": ["tiny-3k"], "batch_size": 4, "warmup_steps": 1,
        **changes,
    }  # fmt: skip
    return train("demo", folder, corpus=str(text), overrides=wanted)[0].folder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_folder(tmp_path_factory.mktemp("run"), tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def store(run, tmp_path_factory) -> Store:
    """Every probe on a run folder, which reads what its training held out."""
    return ts.measure(str(run), tmp_path_factory.mktemp("all") / "s", features="landscape", options=SMALL)


def measured(series, folder, options, names, texts=MANY):
    study = LandscapeStudy(options, ObjectiveSource(texts, ModelLoader()), folder, names)
    made = Store.create(folder, recipe=study.recipe())
    report = sweep(open_series(str(series)), study.probes(), made)
    return report, made


def test_every_probe_measures_every_draw(store: Store) -> None:
    rows = store.features()
    assert set(rows["probe"]) == {"sharpness", "curvature", "surface", "paths"}  # retrain only when named
    assert set(rows["status"]) <= {"ok", "unconverged", "degenerate"}
    draws = rows[rows["scope"] == "model"].groupby("feature")["draw"].nunique()
    assert draws["minima"] == 2
    assert draws["top_eigenvalue"] == 2
    assert draws["top_eigenvalue_null"] == 4
    assert sorted(rows.loc[rows["feature"] == "critical_sharpness", "step"].unique()) == [2, 4, 6]
    assert {"full, every second place", "quarter"} <= set(rows.loc[rows["feature"] == "minima", "name"])
    notes = rows.loc[rows["feature"] == "top_eigenvalue", "note"]
    assert notes.str.contains("residual .* converged; double backward").all()


def test_saddles_are_minima_minus_one(store: Store) -> None:
    rows = store.features(probe="surface").set_index(["step", "name", "draw", "feature"])["value"]
    minima, saddles = (rows.xs(one, level="feature") for one in ("minima", "saddles"))
    assert len(minima) == 4 * 2 * 4
    assert (saddles == minima - 1).all()


def test_the_masked_plane_may_fall_apart_into_a_forest() -> None:
    values = np.array([[1.0, np.nan, 1.0], [0.0, np.nan, 0.5], [1.0, np.nan, 1.0]])
    found = summarise(values, "lattice")
    assert (found["minima"], found["saddles"]) == (2.0, 0.0)  # no sublevel set joins the two
    assert found["masked"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("graph", ["lattice", "kuhn", "knn"])
def test_a_bowl_is_trivial_and_a_product_of_cosines_is_counted(graph: str) -> None:
    x = np.linspace(-1, 1, 21)
    bowl = summarise(x[:, None] ** 2 + x[None] ** 2, graph)
    assert (bowl["minima"], bowl["trivial"], bowl["average_persistence"]) == (1.0, 1.0, 0.0)
    y = np.linspace(0, 4 * np.pi, 41)  # minima of cos x cos y where the product is -1
    tilt = 1e-3 * (y[:, None] + np.sqrt(2) * y[None])
    waves = summarise(np.cos(y)[:, None] * np.cos(y)[None] + tilt, graph)
    assert waves["minima"] == 12.0
    assert ("h1_count" in waves) == (graph != "knn")


def test_the_quadratic_model_agrees_with_the_loss_nearby() -> None:
    objective = tiny_objective()
    directions = random_directions(objective, 2, seed=3)
    model = Quadratic.of(objective, directions, AtCentre.of(objective))
    apart = []
    for reach in (1e-1, 1e-2):
        axes = (symmetric_axis(reach, 5),) * 2
        loss = sample_surface(objective, directions, axes).mean
        apart.append(np.abs(model.on(axes) - loss).max())
    assert apart[1] < 3e-3 * apart[0]  # what is left is of third order
    assert model.on((np.zeros(1), np.zeros(1)))[0, 0] == pytest.approx(objective.loss())


def test_the_rule_reaches_the_first_loss_and_no_further() -> None:
    found = reach_by_rule(lambda s: 1 + s**2 / 3, 1.0, 2.0)
    assert found.reached
    assert found.value == pytest.approx(np.sqrt(3), rel=0.05)
    assert found.value >= np.sqrt(3)
    assert reach_by_rule(lambda s: 1 + s**2, 1.0, 0.5).target == pytest.approx(1.1)
    flat = reach_by_rule(lambda s: 1.0, 1.0, 2.0)
    assert (flat.value, flat.reached) == (16.0, False)
    assert reach_by_rule(lambda s: np.nan if abs(s) > 1 else 1.0, 1.0, 2.0).value == pytest.approx(
        1.0, rel=0.05
    )


def test_surfaces_are_kept_and_not_sampled_again(store: Store, run, monkeypatch, tmp_path) -> None:
    folder = store.path / "landscapes"
    kept = list(saved_surfaces(folder))
    assert [one.step for one in kept] == [0, 2, 4, 6]
    assert kept[0].surface.losses.shape == (5, 5, 4)
    assert [step for _, step, _ in saved_densities(folder)] == [0, 2, 4, 6]
    study = study_of_texts(SMALL, None, store.path, features=["surface"])
    (probe,) = study.probes()
    monkeypatch.setattr(surface_module, "sample_surface", lambda *_, **__: pytest.fail("sampled again"))
    other = Store.create(tmp_path / "other", recipe=study.recipe())
    assert sweep(open_series(str(run)), [probe], other).failures == []
    path = folder / kept[0].run / "step_000000" / "full-0.npz"
    assert read_surface(path, digest="another") is None
    path_of_damage = tmp_path / "damaged.npz"
    path_of_damage.write_bytes(path.read_bytes()[:50])
    assert read_surface(path_of_damage) is None


NOISY = LandscapeOptions(resolution=9, batches=1, sequences=8, length=8, draws=1, range=0.5, eigenvalues=2)


@pytest.fixture
def noisy(monkeypatch) -> None:
    """Two wells that every sequence has, and noise: some branches are confirmed, most are not."""
    sampled = surface_module.sample_surface
    x = np.linspace(-1.5, 1.5, 9)
    wells = 3 * np.add.outer((x**2 - 1) ** 2 + 0.1 * x, x**2)
    generator = np.random.default_rng(0)  # no digest of the losses: their last bits differ between processors

    def with_noise(*arguments, **further):
        found = sampled(*arguments, **further)
        noise = generator.normal(size=found.losses.shape)
        return replace(found, losses=found.losses + wells[..., None] + noise)

    monkeypatch.setattr(surface_module, "sample_surface", with_noise)


def frames_of(folder) -> list[dict]:
    page = (folder / "index.html").read_text()
    return json.loads(re.search(r'id="surface-view-data">(.*?)</script>', page, re.S)[1])["frames"]


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["kuhn", "knn"])
def test_the_page_draws_what_the_probe_found(run, tmp_path, monkeypatch, noisy, graph: str) -> None:
    """Graph, tree, tested branches and homology go from the probe to the page; nothing is computed again."""
    from toposcope.subjects.landscape.figures import shown_surfaces
    from toposcope.topology import sampled_surface

    options = replace(NOISY, graph=graph)
    report, store = measured(run, tmp_path / "s", options, ("surface",), texts=None)
    assert report.failures == []
    rows = store.features()
    rows = rows[rows["name"] == "model"].set_index(["step", "feature"])["value"]
    kept = list(saved_surfaces(store.path / "landscapes"))
    assert len(kept) == 4
    on_lattice = [summarise(one.surface.mean, "lattice")["minima"] for one in kept]
    assert on_lattice != [rows[one.step, "minima"] for one in kept]
    for one in kept:
        found = one.topology
        assert found.graph == graph
        assert (found.tree.persistence > 0).sum() == rows[one.step, "minima"]
        assert found.branches.found == rows[one.step, "branches_found"]
        assert found.branches.confirmed.sum() == rows[one.step, "branches_confirmed"]
        assert [len(d) for d in found.homology[1:]] == (
            [rows[one.step, "h1_count"]] if graph == "kuhn" else []
        )
    confirmed = sum(rows.xs("branches_confirmed", level="feature"))
    assert 0 < confirmed < sum(rows.xs("branches_found", level="feature"))
    monkeypatch.setattr(shown_surfaces, "topology_of", lambda *_: pytest.fail("found again"))
    for name in ("merge_tree", "merge_tree_of_graph", "surface_homology", "branch_intervals"):
        monkeypatch.setattr(sampled_surface, name, lambda *_, **__: pytest.fail("computed again"))
    ts.report(store.path, tmp_path / "page")
    for frame in frames_of(tmp_path / "page"):
        assert len(frame["branches"]) == rows[frame["step"], "minima"]
        assert len(frame["confirmed"]) == rows[frame["step"], "branches_confirmed"]
    (study,) = ts.analyze(store.path).studies
    tree = drawn(study)["merge_tree"].axes[1]
    most = max(kept, key=lambda one: (rows[one.step, "minima"], one.step)).step
    dark = [line for line in tree.lines if line.get_marker() == "o" and line.get_color() == INK]
    assert len(dark) == 1 + rows[most, "branches_confirmed"]  # and the one that never ends


@pytest.mark.slow
def test_a_store_of_losses_alone_is_drawn_on_its_own_graph_and_says_so(run, tmp_path, noisy) -> None:
    """What an earlier version wrote has no trees: they are made for the page, and repeating it keeps them."""
    _, store = measured(run, tmp_path / "s", replace(NOISY, graph="kuhn"), ("surface",), texts=None)
    folder = store.path / "landscapes"
    for path in folder.glob("**/full-0.npz"):
        surface, found = read_surface(path)
        assert found is not None
        save_surface(path, surface)
        assert read_surface(path)[1] is None
    ts.report(store.path, tmp_path / "page")
    page = (tmp_path / "page" / "index.html").read_text()
    assert "The store has no trees" in page
    assert "graph='kuhn'" in html.unescape(page)
    rows = store.features()
    minima = rows[(rows["name"] == "model") & (rows["feature"] == "minima")].set_index("step")["value"]
    for frame in frames_of(tmp_path / "page"):
        assert len(frame["branches"]) == minima[frame["step"]]
    _, again = measured(run, tmp_path / "s", replace(NOISY, graph="kuhn"), ("surface",), texts=None)
    other = Store.create(tmp_path / "other", recipe={})
    study = LandscapeStudy(replace(NOISY, graph="kuhn"), ObjectiveSource(None), again.path, ("surface",))
    sweep(open_series(str(run)), study.probes(), other)
    assert all(one.topology is not None for one in saved_surfaces(folder))


@pytest.mark.parametrize(("kind", "n"), [("hessian", 1), ("trajectory", 2), ("random", 3)])
def test_every_kind_of_directions_is_measured(run, tmp_path, kind: str, n: int) -> None:
    options = LandscapeOptions(
        directions=kind, n=n, resolution=5, batches=1, sequences=4, length=8, draws=1, products=60,
        eigenvalues=3, range=0.5,
    )  # fmt: skip
    report, store = measured(run, tmp_path / "s", options, ("surface",), texts=None)
    assert report.failures == []
    rows = store.features()
    early = rows[(rows["feature"] == "minima") & rows["value"].isna()]
    assert list(early["step"]) == ([0, 2] if kind == "trajectory" else [])
    assert early["note"].str.startswith("no surface: 2 directions of the trajectory need 3 checkpoints").all()
    rows = rows[rows["value"].notna()]
    steps = set(rows.loc[rows["feature"] == "minima", "step"])
    assert steps == ({4, 6} if kind == "trajectory" else {0, 2, 4, 6})
    features = set(rows["feature"])
    assert ("minima_random" in features) == (kind != "random")
    assert {f"h{d}_total" for d in range(1, n)} <= features
    notes = rows.loc[rows["feature"] == "reach", "note"]
    assert notes.str.startswith("range 0.5, as given").all()
    if kind == "trajectory":
        assert notes.str.contains("a random walk draws the same curves").all()


def test_too_early_for_a_trajectory_is_said_by_name(run, tmp_path, capsys, monkeypatch) -> None:
    """What cannot be made is refused or named, by run and step, with the reason."""
    from toposcope.cli.main import main

    monkeypatch.setenv("COLUMNS", "1000")  # no sentence is wrapped
    small = ("--resolution", "5", "--batches", "1", "--sequences", "4", "--length", "8", "--range", "0.5",
             "--directions", "trajectory")  # fmt: skip
    said = []
    for further in (("--steps", "0", "--features", "surface"), ("--features", "surface", "--n", "3")):
        with pytest.raises(SystemExit) as ended:
            main(["landscape", str(run), "--out", str(tmp_path / str(len(said))), *small, *further])
        said.append((ended.value.code, *capsys.readouterr()))
    code, out, error = said[0]
    assert (code, out) == (2, "")
    needed = "2 directions of the trajectory need 3 checkpoints of a run"
    assert f"{needed}, and {run.name} has 1; measure more" in error
    assert not (tmp_path / "0").exists()
    code, out, error = said[1]
    assert code == 0
    assert f"No surface for {run.name} at steps 0, 2 and 4: 3 directions of the trajectory need 4 " in error
    assert "4 measurements made, 0 failed" in out


def test_one_unit_is_one(tmp_path, capsys) -> None:
    from toposcope.cli.sweeping import show_sweep
    from toposcope.sweep.loop import SweepReport

    show_sweep(SweepReport(1, 1, [], [], [], 0.5), tmp_path, as_json=False)
    assert "1 measurement made, 1 was there already, 0 failed" in capsys.readouterr().out


@pytest.mark.slow
def test_an_eigenvalue_that_did_not_converge_enters_no_verdict(run, tmp_path, monkeypatch) -> None:
    """Of two batches one has not converged at step 2: step 2 has no value, in figures and tests alike."""
    from toposcope.subjects.landscape.probes import curvature

    found, counts = curvature.top_eigenpairs, {}

    def stopped(matrix, start, *, axes, **further):
        pairs = found(matrix, start, axes=axes, **further)
        which = axes.get("end", axes.get("matrix", "top"))
        counts[axes["step"], axes["batch"], which] = pairs.products
        bad = (axes["step"], axes["batch"], which) == (2, 1, "top")
        return replace(pairs, converged=pairs.converged & (not bad))

    monkeypatch.setattr(curvature, "top_eigenpairs", stopped)
    options = replace(SMALL, products=40, eigenvalues=1, layers=False)
    _, store = measured(run, tmp_path / "s", options, ("curvature",), texts=None)
    rows = store.features()
    top = rows[rows["feature"] == "top_eigenvalue"].set_index(["step", "draw"])
    assert top.index[top["status"] == "unconverged"].tolist() == [(2, 1)]
    assert "not converged" in top.loc[(2, 1), "note"]
    (study,) = ts.analyze(store.path).studies
    (column,) = [c for c in study.series.values if c.endswith("/top_eigenvalue")]
    values = study.series.values.set_index("step")[column]
    assert values.index[values.isna()].tolist() == [2]
    shown = study.features[study.features["feature"] == "top_eigenvalue"].set_index("step")["value"]
    assert shown.loc[2].isna().all()
    assert shown.drop(2).notna().all()
    said = "top eigenvalue: 1 of 4 checkpoints left out, where it did not converge"
    assert said in study.series.problems

    # every note tells of the products of its own eigenvalue
    notes = rows.set_index(["step", "draw", "feature"])["note"]
    names = {"top": "top_eigenvalue", "low": "bottom_eigenvalue", "gauss-newton": "gauss_newton_top"}
    turned = {"top": "bottom_eigenvalue", "high": "top_eigenvalue"}  # the largest magnitude is the lowest
    for (step, draw, which), products in counts.items():
        of = names | (turned if (step, draw, "high") in counts else {})
        assert f", {products} products" in notes[step, draw, of[which]]
    assert any(
        counts[step, draw, which] != counts[step, draw, "top"]
        for step, draw, which in counts
        if which != "top"
    )
    assert (
        notes.xs("bottom_eigenvalue", level="feature").str.contains("of the distance to the other end").any()
    )


def test_what_did_not_converge_asks_for_products_and_not_for_checkpoints(run, tmp_path, capsys, monkeypatch):
    """As typed: a budget too small, the words that name it, the same command with a larger one."""
    from toposcope.cli.main import main

    monkeypatch.setenv("COLUMNS", "1000")

    def typed(*words):
        with pytest.raises(SystemExit) as ended:
            main([*map(str, words)])
        return ended.value.code, capsys.readouterr()

    quick = ("--features", "curvature", "--batches", "1", "--sequences", "4", "--length", "8", "--no-audit")
    for products, name in ((3, "few"), (60, "enough")):
        code, _ = typed("landscape", run, "--out", tmp_path / name, *quick, "--products", products)
        assert code == 0
    rows = Store.open(tmp_path / "few").features()
    stopped = rows[rows["status"] == "unconverged"]
    assert stopped["note"].str.contains("not converged").all()
    assert set(rows["step"]) == set(stopped.loc[stopped["feature"] == "top_eigenvalue", "step"])
    code, printed = typed("report", tmp_path / "few", "--out", tmp_path / "page")
    assert code == 0
    assert "top eigenvalue: 4 of 4 checkpoints left out, where it did not converge" in printed.out
    assert "again with more --products" in printed.out
    assert "save every" not in printed.out
    assert "| unconverged |" in (tmp_path / "page" / "report.md").read_text()
    assert "with more products=" not in repr(ts.analyze(tmp_path / "few"))
    analysis = ts.analyze(tmp_path / "few")
    assert "again with more `products`" in repr(analysis).replace("\n    ", " ")
    (why,) = {one for one in analysis.families["reason"] if "did not converge" in one}
    assert why.startswith("too few: 0 checkpoints, the test needs 12; 4 of 4 did not converge (steps ")
    assert set(Store.open(tmp_path / "enough").features(feature="top_eigenvalue")["status"]) == {"ok"}
    assert "--products" not in typed("report", tmp_path / "enough", "--out", tmp_path / "page-2")[1].out
    code, printed = typed("landscape", run, "--out", tmp_path / "none", *quick, "--products", 1)
    assert (code, "--products 1: it must be at least 2" in printed.err) == (2, True)


def test_transformers_models_are_measured_with_texts(tmp_path) -> None:
    for seed, step in enumerate((0, 4)):
        write_causal_model(tmp_path / "neox" / f"step{step}", seed)
    report, store = measured(tmp_path / "neox", tmp_path / "s", SMALL, ("sharpness", "surface"))
    assert (report.done, report.failures) == (4, [])
    rows = store.features()
    assert set(rows.loc[rows["feature"] == "batch_loss", "step"]) == {0, 4}
    target = ts.analyze(store.path).studies[0].target
    assert target == "batch_loss"  # no run logged a loss


def test_a_place_without_a_loss_is_masked_and_counted(run, tmp_path) -> None:
    options = LandscapeOptions(
        n=1, resolution=9, batches=1, sequences=4, length=8, draws=1, range=3e38, eigenvalues=2
    )  # fmt: skip
    report, _ = measured(run, tmp_path / "s", options, ("surface",), texts=None)
    assert report.done == 0
    note = report.failures[0].note
    assert "range 3e+38: the loss is finite at 1 of 9 grid points; give a smaller one" in note
    check_reach(np.array([True, True, False]), 1.0)
    with pytest.raises(InputError, match=r"range 2: the loss is finite at 1 of 3 grid points"):
        check_reach(np.array([False, True, False]), 2.0)


@pytest.mark.slow
def test_what_is_masked_is_counted_reported_and_never_filled(run, tmp_path, monkeypatch) -> None:
    """A plane whose first row has no loss, and whose second row is its lowest, from the sweep to the page."""
    sampled = surface_module.sample_surface

    def with_a_hole(*arguments, **further):
        found = sampled(*arguments, **further)
        found.losses[0] = np.nan
        found.losses[1] -= 1.0
        return found

    monkeypatch.setattr(surface_module, "sample_surface", with_a_hole)
    _, store = measured(run, tmp_path / "s", SMALL, ("surface",), texts=None)
    rows = store.features()
    full = rows[rows["name"] == "model"]
    assert (full.loc[full["feature"] == "masked", "value"] == 5 / 25).all()
    notes = full.loc[full["feature"] == "minima", "note"]
    assert notes.str.contains("5 of 25 grid points have no finite loss").all()
    assert (full.loc[full["feature"] == "minima", "value"] >= 1).all()
    for one in saved_surfaces(store.path / "landscapes"):
        assert np.isnan(one.surface.mean[0]).all()
        assert np.isfinite(one.surface.mean[1:]).all()
        tree = summarise(one.surface.mean, "lattice")
        mine = full[(full["step"] == one.step) & (full["draw"] == 0)].set_index("feature")["value"]
        assert mine["range"] == tree["range"] == np.ptp(one.surface.mean[1:])
    page = ts.report(store.path, tmp_path / "page").page.read_text()
    assert "<td>20.0%</td>" in page  # the table of surfaces
    assert "[null, null, null, null, null]" in page  # the turning view leaves the row open


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"resolution": 20}, "resolution 20: every second grid point must form a coarser grid"),
        ({"n": 4}, "n 4: a surface has 1, 2 or 3"),
        ({"range": float("inf")}, "range inf: not a positive finite number"),
        ({"directions": "pca"}, "directions 'pca': unknown; choose random, hessian, trajectory"),
        ({"graph": "grid"}, "graph 'grid': unknown; choose lattice, kuhn, knn"),
        ({"sequences": 3}, "sequences 3: it must be at least 4"),
        ({"directions": "hessian", "eigenvalues": 1}, "eigenvalues 1: 2 directions need at least 2"),
    ],
)
def test_options_that_cannot_be_are_refused(changes, message) -> None:
    with pytest.raises(InputError, match=message):
        LandscapeOptions(**changes)


def test_too_large_a_measurement_is_refused_and_names_the_cheap_one(run, tmp_path) -> None:
    large = LandscapeOptions(n=3, resolution=41, batches=1000, sequences=1000, length=128)
    source = ObjectiveSource(None)
    series = open_series(str(run))
    with pytest.raises(InputError, match="or the critical sharpness"):
        LandscapeStudy(large, source, tmp_path).cost(series)
    assert LandscapeStudy(large, source, tmp_path, ("sharpness",)).cost(series).forwards > 0


@pytest.mark.parametrize("name", ["sharpness", "curvature", "surface", "paths", "retrain"])
def test_the_expected_time_is_that_of_a_pass_that_was_timed(run, tmp_path, monkeypatch, name) -> None:
    study = LandscapeStudy(SMALL, ObjectiveSource(None), tmp_path, (name,))
    (predicted,) = study.probes()
    clock = iter(range(0, 1000, 3))
    monkeypatch.setattr("toposcope.subjects.landscape._timed.time.perf_counter", lambda: float(next(clock)))
    (timed,) = study.of(open_series(str(run))).probes()
    shapes = [(8, 8)]
    assert timed.source.slowness > 1.0  # a pass of three seconds, of a tiny model
    expected = timed.source.slowness * predicted.expected_seconds(shapes)
    assert timed.expected_seconds(shapes) == pytest.approx(expected)


@pytest.mark.parametrize("names", [("curvature",), ("surface",)])
def test_products_of_models_that_are_differentiated_once_are_timed_and_counted(
    tmp_path, monkeypatch, names, once
) -> None:
    """The products of a model from elsewhere; one of the project's own is not opened for it."""
    transformers = pytest.importorskip("transformers")
    write_causal_model(tmp_path / "step_0")
    series = open_series(str(tmp_path))
    (tmp_path / "texts.txt").write_text("\n".join(text * 5 for text in TEXTS[:8]))
    options = replace(SMALL, directions="hessian" if names == ("surface",) else "random", eigenvalues=2)
    twice = study_of_texts(options, str(tmp_path / "texts.txt"), tmp_path, features=names).of(series)
    assert twice.products == HessianProducts(opened=True)
    assert "second derivative" not in twice.announcement(series)
    attention = transformers.models.gpt_neox.modeling_gpt_neox.GPTNeoXMLP
    plain = attention.forward
    monkeypatch.setattr(attention, "forward", lambda self, x: once(plain(self, x)))
    study = study_of_texts(options, str(tmp_path / "texts.txt"), tmp_path, features=names).of(series)
    said = study.announcement(series)
    assert study.products.seconds > 0
    assert f"timed here, takes {study.products.seconds:.2g} s; the estimated time includes this" in said
    (one,), (other,) = study.probes(), twice.probes()
    slower = replace(one, product_seconds=one.product_seconds + 100.0)
    shapes = [(8, 8)]
    count = one.work(shapes).forwards
    products = slower.expected_seconds(shapes) - one.expected_seconds(shapes)
    assert products == pytest.approx(100.0 * one._products)
    assert one._products > 0
    assert count == other.work(shapes).forwards


def test_what_was_not_looked_at_is_said(run, tmp_path) -> None:
    series = open_series(str(run))
    study = LandscapeStudy(SMALL, ObjectiveSource(None), tmp_path, ("curvature",))
    assert "no second derivative, curvature takes up to five times as long" in study.announcement(series)
    assert "second derivative" not in study.of(series).announcement(series)
    sharp = LandscapeStudy(SMALL, ObjectiveSource(None), tmp_path, ("sharpness",))
    assert "second derivative" not in sharp.announcement(series)


def test_a_checkpoint_of_another_model_is_named(tmp_path) -> None:
    one = run_folder(tmp_path / "one", tmp_path)
    other = run_folder(tmp_path / "two", tmp_path, models=["small-7k"])
    last = "checkpoints/step_000006.safetensors"
    (one / last).write_bytes((other / last).read_bytes())
    report, _ = measured(one, tmp_path / "s", SMALL, ("sharpness",), texts=None)
    assert [failure.step for failure in report.failures] == [6]
    assert "is step 6 from another run?" in report.failures[0].note


def test_a_model_that_is_differentiated_once_says_so_in_its_rows(run, tmp_path, monkeypatch) -> None:
    from toposcope.models.curvature import HessianProduct

    monkeypatch.setattr(
        HessianProduct, "_build", lambda *_: (_ for _ in ()).throw(RuntimeError("differentiable once"))
    )
    monkeypatch.setattr("toposcope.models.curvature._NO_SECOND_DERIVATIVE", ("differentiable once",))
    report, store = measured(run, tmp_path / "s", SMALL, ("curvature",), texts=None)
    assert report.failures == []
    rows = store.features()
    assert rows.loc[rows["feature"] == "top_eigenvalue", "note"].str.contains("finite differences").all()


@pytest.mark.slow
def test_the_analysis_and_the_page_read_the_store(store: Store, tmp_path) -> None:
    analysis = ts.analyze(store.path)
    (study,) = analysis.studies
    assert study.subject.name == "landscape"
    assert study.findings["beyond"].strength == "cannot tell"  # four checkpoints
    surfaces = study.findings["surfaces"]
    assert surfaces.strength in ("trivial", "rugged")
    assert surfaces.numbers["lead"]["surfaces"] == 8
    page = ts.report(store.path, tmp_path / "page").page.read_text()
    assert "Loss surface" in page or "loss surface" in page
    names = {path.stem for path in (tmp_path / "page" / "figures").glob("*.png")}
    assert {
        "landscape_training",
        "loss_surfaces",
        "merge_tree",
        "surface_diagrams",
        "spectral_density",
    } <= names
    assert (tmp_path / "page" / "tables" / "surfaces.csv").is_file()
    frames = json.loads(re.search(r'id="surface-view-data">(.*?)</script>', page, re.S)[1])["frames"]
    assert [frame["step"] for frame in frames] == [0, 2, 4, 6]
    first = next(one for one in saved_surfaces(store.path / "landscapes") if one.step == 0)
    np.testing.assert_allclose(frames[0]["values"], first.surface.mean, atol=1e-5)
    assert len(frames[0]["branches"]) == summarise(first.surface.mean, "lattice")["minima"]


def test_the_command_says_its_cost_and_rule_first(run, tmp_path, capsys, monkeypatch) -> None:
    from toposcope.cli.main import main

    monkeypatch.setenv("COLUMNS", "1000")  # no sentence is wrapped

    def called(*arguments) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["landscape", *map(str, arguments)])
        output = capsys.readouterr()
        return ended.value.code, output.out, output.err

    small = ("--resolution", 5, "--batches", 1, "--draws", 1, "--sequences", 4, "--length", 8)
    code, out, err = called(run, "--out", tmp_path / "s", "--features", "surface", *small, "--json")
    assert code == 0
    assert json.loads(out)["measured"] == 4
    assert "forward passes of the batch" in err
    assert "until the mean loss of its two ends is as high as at the run's first measured checkpoint" in err
    (tmp_path / "few.txt").write_text("one text\n")
    for arguments, message in [
        ((run, "--texts", "nowhere"), "--texts 'nowhere': this is neither a file"),
        (
            (run, "--texts", tmp_path / "few.txt"),
            "there are 1 texts of at least 1 characters, but 4 are needed",
        ),
        ((run, "--features", "surfaces"), "no such probe of the loss surface"),
        (
            (run, "--features", "surface", "--range", 3e38),
            "--range 3e+38: the loss is finite at 1 of 25 grid points",
        ),
        ((run, "--batches", 999), "are needed: give fewer --batches"),
    ]:
        code, out, err = called(*arguments, "--out", tmp_path / "none", *small[:2], *small[4:], *small[:0],
                                *(() if "--batches" in arguments else small[2:4]))  # fmt: skip
        assert (code, out) == (2, "")
        assert message in err
        assert not (tmp_path / "none").exists()


def test_what_a_model_of_transformers_lacks_is_asked_for_at_once_and_first(tmp_path) -> None:
    """Every unit failed for the tokenizer, and the next command for the texts."""
    write_causal_model(tmp_path / "neox" / "step0", 0)
    with pytest.raises(InputError, match=r"give `texts` FILE, and `tokenizer` FOLDER if they have none"):
        ts.measure(tmp_path / "neox", tmp_path / "s", features="landscape")
    assert not (tmp_path / "s").exists()


def test_a_small_model_is_computed_with_one_thread(run, tmp_path, monkeypatch):
    """Threads wait for one another: on a busy machine that is most of the time of a small model."""
    seen, before = [], torch.get_num_threads()

    def noted(*given):
        seen.append(torch.get_num_threads())
        return Objective(*given)

    monkeypatch.setattr(source_module, "Objective", noted)
    for small in (source_module._SMALL, 0):
        monkeypatch.setattr(source_module, "_SMALL", small)
        measured(run, tmp_path / str(small), SMALL, ("sharpness",), texts=None)
    assert set(seen) == {1, thread_count()}
    assert seen[0] == 1
    assert seen[-1] == thread_count()
    assert torch.get_num_threads() == before
