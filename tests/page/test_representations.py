"""The part on representations, from a small store that is written through the real store's face."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from tests.on_page import captions, drawn, with_tables
from toposcope.api import analyze, report
from toposcope.cli.main import main
from toposcope.cli.report import command
from toposcope.core.drawing.rendering import Rendered
from toposcope.core.errors import InputError
from toposcope.core.types import Diagram, Role, Row, RunRecord, Scope, Status
from toposcope.published.rules import PUBLISHED
from toposcope.store import KeptDiagram, Result, Store, Unit
from toposcope.studies.seed003.report_files import tidy_rows
from toposcope.study.analysis import study_of_rows
from toposcope.study.catalogue import column_of
from toposcope.study.findings.rivals import strengths
from toposcope.study.findings.when import fixed_phases
from toposcope.study.studies import chosen_target
from toposcope.study.targets import read_targets
from toposcope.subjects.catalogue import declared_features, own_catalogue
from toposcope.subjects.representations.page import part
from toposcope.subjects.representations.subject import SUBJECT as REPRESENTATIONS
from toposcope.subjects.representations.tables.rows import QUALITY

TOTAL = "representations/euclidean/hidden/h1_total"
STEPS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 2000, 3000)
MODELS = {"small": 1_000, "large": 9_000}
LAYERS = (0, 1, 2)


def studies_of(store, **more):
    return analyze(store, **more).studies


def tables(study):
    return {table.name: table for table in part.tables(study) if table.rows}


def answers(study):
    """Return the headline, and every question with its words."""
    found = study.findings
    return found.headline, {one.question: found.said(one).text for one in found}


def build(features, metrics, runs, **more):
    return replace(study_of_rows(REPRESENTATIONS, features, metrics, runs, **more), published=PUBLISHED)


def _noise(*axes):
    seed = np.frombuffer("/".join(map(str, axes)).encode().ljust(64, b"."), dtype=np.uint32)
    return float(np.random.default_rng(seed).standard_normal())


def _row(run, step, feature, value, **more):
    base = {
        "run": run, "step": step, "tokens": 10 * step, "probe": "representations", "name": "hidden",
        "scope": Scope.LAYER,
        "role": Role.MODEL, "layer": None, "head": None, "filtration": "", "draw": None, "status": Status.OK,
        "note": "",
    }  # fmt: skip
    return Row(**{**base, **more}, feature=feature, value=value)


def _hidden(run, step, layer, parts):
    part = np.log1p(step) / np.log1p(3000)
    size = 1.0 + list(MODELS).index(run)
    wobble = {name: 0.05 * _noise(run, step, layer, name) for name in ("count", "total", "rank", "top")}
    at = {"layer": layer, "filtration": "euclidean"}
    shape = {
        "h1_count": round(100 * (1 + wobble["count"] - 0.2 * part)),
        "h1_total": size * (5 - 4 * part + 20 * part**4) * (1 + wobble["total"]),
        "h1_entropy": 4.6 - 0.3 * part + wobble["count"],
        "h1_entropy_normalized": 0.98 - 0.02 * part,
        "h1_max": 0.5 + part,
        "h0_total": size * (100 + 50 * part),
        "h1_total_scaled": 3.0 + wobble["total"],
    }
    yield from (_row(run, step, name, value, **at) for name, value in shape.items())
    if "null" in parts:
        for draw in range(5):
            value = shape["h1_total"] * (2.0 + 0.01 * draw)
            yield _row(run, step, "h1_total_null", value, draw=draw, **at)
    spectrum = {
        "rankme_eigenvalues": 30 - 15 * part + wobble["rank"], "participation_ratio": 12 - 5 * part,
        "top_eigenvalue": np.exp(2 * part + wobble["top"]), "alpha_req": 1.5 + wobble["rank"],
        "explained": 0.9,
    }  # fmt: skip
    yield from (_row(run, step, name, value, layer=layer) for name, value in spectrum.items())
    if "dimension" in parts:
        note = "95% interval 9 to 12"
        yield _row(run, step, "twonn", 10.5 - part, layer=layer, note=note)
    if step and "distances" in parts:
        yield _row(run, step, "wasserstein1_h1", 1.0 + part, **at)
    if layer < LAYERS[-1] and "layers" in parts:
        yield _row(run, step, "cka", 0.9 - 0.1 * part, layer=layer)
        yield _row(run, step, "carried_h1", 0.95 - 0.2 * part, **at)
    if "probe" in parts:
        yield _row(run, step, "probe_accuracy", 0.6 + 0.2 * part, layer=layer)
        yield _row(run, step, "probe_accuracy_sd", 0.02, layer=layer)


def _of_model(run, step, parts):
    part = np.log1p(step) / np.log1p(3000)
    model = {"name": "model", "scope": Scope.MODEL}
    if "perplexity" in parts:
        yield _row(run, step, "perplexity", 2000.0 * np.exp(-3.5 * part + 0.1 * _noise(run, step)), **model)
    if "probe" in parts:
        yield _row(run, step, "majority_accuracy", 0.55, **model)
    if "attention" in parts:
        for layer, head in np.ndindex(2, 2):
            at = {
                "name": "attention",
                "role": Role.ATTENTION,
                "layer": layer,
                "head": head,
                "scope": Scope.HEAD,
            }
            yield _row(run, step, "attention_h0", 0.9 - 0.1 * layer * part, filtration="attention", **at)
    if "gradients" in parts:
        cloud = {"probe": "gradient_rips", "name": "pooled", "scope": Scope.POOLED, "filtration": "euclidean"}
        yield _row(run, step, "h0_total", 3.0 - part + 0.1 * _noise(run, step, "g"), **cloud)
    if "weights" in parts:
        at = {"probe": "rips", "name": "pooled", "scope": Scope.POOLED, "filtration": "euclidean"}
        yield _row(run, step, "h0_total", 10 + part, **at)


ALL = (
    "perplexity", "null", "dimension", "distances", "layers", "probe", "attention", "diagrams", "sensitivity",
    "gradients",
)  # fmt: skip


def _sensitivity(run, step):
    part = np.log1p(step) / np.log1p(3000)
    for i, setting in enumerate(("pca25/texts100", "pca50/texts100")):
        value = 5 + 3 * part + i + 0.1 * _noise(run, step, setting)
        yield _row(
            run, step, "h1_total", value, probe="sensitivity", name=setting, scope=Scope.SETTING, draw=0
        )


def _write(path, parts, layers=LAYERS, steps=STEPS):
    store = Store.create(path, recipe={"points": 200})
    for probe in ("representations", "gradient_rips", "rips", "sensitivity"):
        store.write_catalogue(probe, declared_features()[probe])
    store.write_runs(
        RunRecord(run, "neox", n, 1, "cosine", "texts", f"runs/{run}") for run, n in MODELS.items()
    )
    for run in MODELS:
        results = []
        for step in steps:
            rows = [row for layer in layers for row in _hidden(run, step, layer, parts)]
            rows += list(_of_model(run, step, parts))
            if "sensitivity" in parts:
                rows += list(_sensitivity(run, step))
            bars = Diagram(1, np.array([1.0, 1.2]), np.array([1.5, 2.0 + step / 3000]))
            kept = (
                (KeptDiagram(bars, "hidden", Role.MODEL, layers[-1], scope=Scope.LAYER),)
                if "diagrams" in parts
                else ()
            )
            unit = Unit(run, step, "representations", 1, f"{run}{step}")
            results.append(Result(unit, tuple(rows), kept, 1.0))
        store.write_results(results, keep_diagrams="diagrams" in parts)
    return store


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    return _write(tmp_path_factory.mktemp("store") / "full", ALL)


@pytest.fixture(scope="module")
def study(full):
    (found,) = studies_of(full)
    return found


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    parts = [part for part in ALL if part != "gradients"]
    return report(_write(folder / "store", parts), folder / "report", title="A title").page.parent


@pytest.fixture
def unprinted(monkeypatch):
    """Draw the figures but leave out their files, which take most of the time."""
    blank = Rendered(b"<svg/>", b"PNG")
    begin = lambda figures, expected: partial(list, [blank for _ in figures])  # noqa: E731
    monkeypatch.setattr("toposcope.page.parts.begin_rendering", begin)


FIGURES = {
    "h1_of_representations", "topology_of_representations", "gaussian_null", "spectrum_of_representations",
    "perplexity", "topology_against_target", "topological_against_spectral", "representation_correlations",
    "rate_of_change", "crocker", "layer_map_h1_total_scaled", "layer_map_rankme_eigenvalues", "across_layers",
    "attention", "linear_probe", "dimension", "representation_scaling",
    "barcode_of_texts",
}  # fmt: skip
TRENDS = "representation_trends"
TABLES = {
    "families", "last_checkpoint", TRENDS, f"{TRENDS}_probe_accuracy",
    "spectral_against_topological", "representation_phases", "trajectories", "layers_of_representations",
    "attention_graphs", "dimensions", "linear_probe", "sensitivity",
}  # fmt: skip


@pytest.mark.slow
def test_the_page_has_every_figure_and_table_as_a_file(page):
    assert {path.stem for path in (page / "figures").iterdir()} == FIGURES
    assert {path.stem for path in (page / "tables").iterdir()} == TABLES
    text, twin = (page / "index.html").read_text(), (page / "report.md").read_text()
    assert text.count("<figure") == len(FIGURES)
    assert text.count("<caption>") == len(TABLES) + 1 + (1 if "What could not be measured" in text else 0)
    for question in (
        "What changed?",
        "add anything to the log perplexity?",
        "When did it change?",
        "from layer to layer?",
    ):
        assert question in text
        assert question in twin


@pytest.mark.slow
@pytest.mark.parametrize(
    ("without", "figures", "tables_lost"),
    [
        (("attention", "distances"), {"attention", "rate_of_change"}, {"attention_graphs"}),
        (("probe", "null"), {"linear_probe", "gaussian_null"}, {"linear_probe", f"{TRENDS}_probe_accuracy"}),
        (("diagrams", "sensitivity"), {"crocker", "barcode_of_texts"}, {"sensitivity"}),
        (("layers", "dimension"), {"across_layers", "dimension"}, {"dimensions"}),
    ],
)
def test_what_was_not_measured_loses_its_sections_and_nothing_else(
    tmp_path, unprinted, without, figures, tables_lost
):
    parts = [part for part in ALL if part not in (*without, "gradients")]
    folder = report(_write(tmp_path / "store", parts), tmp_path / "report").page.parent
    assert {path.stem for path in (folder / "figures").iterdir()} == FIGURES - figures
    assert {path.stem for path in (folder / "tables").iterdir()} == TABLES - tables_lost


def test_an_encoder_without_perplexity_is_described_and_not_judged(tmp_path):
    (study,) = studies_of(_write(tmp_path / "store", ()))
    headline, said = answers(study)
    assert re.match("Total H1 |H1 total |H0 ", headline), headline
    assert "no loss, perplexity or other target" in said["beyond"]
    assert "No perplexity was measured" in said["changed"]
    assert "rivals" not in said
    assert "representation_trends" not in tables(study)


def test_an_encoder_without_perplexity_gets_its_page(tmp_path, unprinted):
    page = report(_write(tmp_path / "store", ("layers",)), tmp_path / "report").page
    figures = {path.stem for path in (page.parent / "figures").iterdir()}
    assert {"topology_of_representations", "across_layers"} <= figures
    assert not figures & {"representations_law", "perplexity", "topological_against_spectral"}


def test_one_layer_has_no_layer_sections(tmp_path):
    (study,) = studies_of(_write(tmp_path / "store", ("perplexity",), layers=(0,)))
    assert "layers_of_representations" not in tables(study)
    assert "layers" not in answers(study)[1]


def _with_verdicts(study, verdict, *, columns=None):
    families = study.families.copy()
    mine = families["column"].isin(columns) if columns else families["column"].notna()
    if columns:  # as if these had been declared primary
        families.loc[mine, "confirmatory"] = True
    families.loc[mine & families["confirmatory"].astype(bool), "verdict"] = verdict
    return with_tables(study, families=families)


@pytest.mark.slow
def test_the_verdict_is_said_as_its_strength_is(study):
    nothing = _with_verdicts(study, "trend only")
    both_kinds = [TOTAL, "representations/hidden/top_eigenvalue"]
    nothing = _with_verdicts(nothing, "trend only", columns=both_kinds)
    headline, said = answers(nothing)
    assert headline == answers(study)[0], "the runs are the same"
    assert said["beyond"].startswith("The topology of these representations adds nothing here: none of ")
    assert "nothing beyond the trend in" in said["beyond"]
    found = _with_verdicts(nothing, "adds", columns=[TOTAL])
    _, said = answers(found)
    assert re.match(
        r"1 of \d+ primary features? of the topology of these representations moves with the log perplexity "
        r"beyond a shared trend\.",
        said["beyond"],
    )
    assert "Plain norms and spectra do not." in said["beyond"]
    assert "H1 total: r = " in said["beyond"]
    both = _with_verdicts(found, "adds", columns=["representations/hidden/top_eigenvalue"])
    assert "Plain norms and spectra do so too (1 of" in answers(both)[1]["beyond"]
    untested = _with_verdicts(study, "cannot tell")
    assert answers(untested)[1]["beyond"].startswith("It is unknown whether the topology of these")


def test_the_numbers_in_the_words_are_those_of_the_tables(study):
    said = answers(study)[1]
    assert (
        "2 runs of 2 model sizes (1K to 9K parameters) with 14 checkpoints each were measured, from step 0 "
        "to step 3,000" in said["changed"]
    )
    assert "H1 total rose in 2 of 2 runs" in said["changed"]
    table = strengths(study)
    best = table[~table["baseline"].astype(bool)]["raw"].max()
    compared = said["rivals"]
    assert f"with a mean |ρ| of {best:.2f} over 2 runs. The strongest feature without topology" in compared


def test_a_cloud_below_its_null_is_said_to_be_below(study):
    (one,) = study.findings["changed"].numbers["nulls"]
    assert (one["feature"], one["above"], one["below"], one["sizes"]) == ("h1_total", 0, 2, 2)
    assert one["ratio"] == pytest.approx(1 / 2.02, rel=1e-6)
    assert "H1 total lies below it in 2 of 2 sizes (median ratio 0.50)" in answers(study)[1]["changed"]


def test_the_excess_over_the_null_is_a_feature(study):
    values = study.series.values.set_index(["run", "step"])
    excess = values["representations/euclidean/hidden/h1_total_excess"]
    np.testing.assert_allclose(excess, values[TOTAL] * (1 - 2.02), rtol=1e-9)


def test_fixed_phases_say_whether_the_sign_is_what_the_label_says(study):
    table = fixed_phases(study, TOTAL).set_index(["run", "phase"])
    assert table.loc[("small", "refinement"), "agrees"]
    assert table.loc[("small", "collapse"), "end_step"] == 32
    assert table.loc[("small", "reorganisation"), "agrees"] is None
    turned = study.series.values.copy()
    turned[TOTAL] = -turned[TOTAL]
    flipped = fixed_phases(replace(study, series=replace(study.series, values=turned)), TOTAL)
    assert not flipped.set_index(["run", "phase"]).loc[("small", "refinement"), "agrees"]


def test_gradients_are_in_the_correlation_table_and_break_nothing(study):
    rows = tables(study)["representation_trends"].rows
    assert any(row[0] == "gradients: H0 total (pooled)" for row in rows)


def test_confounds_are_columns_and_not_given_themselves(study):
    table = tables(study)["representation_trends"]
    assert {"top eigenvalue", "H1 count"} <= set(table.columns)
    row = next(row for row in table.rows if row[0] == "H1 count")
    assert row[table.columns.index("H1 count")] == "–"
    assert row[table.columns.index("top eigenvalue")] != "–"


def test_last_values_are_of_the_last_layer(study, full):
    features = full.features(probe="representations", feature="h1_total")
    mine = features[(features["run"] == "small") & (features["step"] == 3000) & (features["layer"] == 2)]
    last = tables(study)["last_checkpoint"].frame.set_index("run")
    assert last.loc["small", TOTAL] == pytest.approx(float(mine["value"].iloc[0]))


def test_another_target_is_taken_when_asked_for(full):
    (study,) = studies_of(full, targets="probe_accuracy")
    assert study.target == "probe_accuracy"
    assert set(study.trends["target"]) == {"probe_accuracy"}
    assert "linear probe accuracy" in answers(study)[1]["beyond"]
    with pytest.raises(InputError, match="target 'nonsense': no such target; name"):
        studies_of(full, targets="nonsense")


def test_targets_from_a_file_get_a_table_of_their_own(full, tmp_path):
    lines = ["run,step,piqa", *(f"{run},{step},{0.5 + step / 9000}" for run in MODELS for step in STEPS)]
    (tmp_path / "scores.csv").write_text("\n".join(lines))
    study = build(
        full.features(),
        None,
        full.runs(),
        catalogue=full.catalogue(),
        scores=read_targets(tmp_path / "scores.csv"),
    )
    assert study.target == QUALITY
    assert study.further == ("probe_accuracy", "piqa")
    assert "representation_trends_piqa" in tables(study)


@pytest.mark.slow
def test_weights_and_representations_share_a_page_from_two_stores(tmp_path, page, unprinted):
    weights = Store.create(tmp_path / "weights", recipe={"other": 1})
    for run in MODELS:
        for step in STEPS:
            unit = Unit(run, step, "rips", 1, f"{run}{step}")
            weights.write(unit, list(_of_model(run, step, ("weights",))))
    of_states = page.parent / "store"
    out = tmp_path / "report"
    result = CliRunner().invoke(command, [str(tmp_path / "weights"), str(of_states), "--out", str(out)])
    assert result.exit_code == 0, result.output
    text = (out / "index.html").read_text()
    assert text.index('id="weights-questions"') < text.index('id="representations-questions"')
    assert "Representations: tables" in text
    assert len({path.stem for path in (out / "figures").iterdir()}) == len(FIGURES) + 1  # Rips alone
    with pytest.raises(InputError, match=rf"^{re.escape(str(of_states))} is given twice: leave one out$"):
        report([of_states, of_states], out)


def test_gradients_alone_get_a_part_of_their_own(tmp_path, unprinted):
    store = Store.create(tmp_path / "gradients", recipe={})
    for run in MODELS:
        for step in STEPS:
            unit = Unit(run, step, "gradient_rips", 1, f"{run}{step}")
            store.write(unit, list(_of_model(run, step, ("gradients",))))
    store.write_metrics(
        pd.DataFrame(
            {"run": run, "step": step, "loss": 5.0 - np.log1p(step) / 4} for run in MODELS for step in STEPS
        )
    )
    page = report(store, tmp_path / "report").page
    text = page.read_text()
    assert "Persistent homology of the loss gradients" in text
    assert "unknown whether the topology of the gradients says more than the minibatch loss" in text
    figures = {path.stem for path in (page.parent / "figures").iterdir()}
    assert figures == {"gradients", "gradient_correlations", "loss_gradients"}
    table = pd.read_csv(page.parent / "tables" / "gradient_trends.csv")
    assert set(table["column"]) == {"gradient_rips/euclidean/pooled/h0_total"}


@pytest.mark.slow
def test_gradients_stand_once_on_a_page_of_weights_and_representations(tmp_path, unprinted):
    store = _write(tmp_path / "store", ("perplexity", "weights", "gradients"))
    page = report(store, tmp_path / "report").page
    shown = re.findall(r"figures/(\w+)\.png", (page.parent / "report.md").read_text())
    assert shown.count("gradients") == 1
    assert len(shown) == len(set(shown))


def test_one_checkpoint_has_its_hidden_states_in_the_place_of_curves(tmp_path, unprinted):
    parts = [part for part in ALL if part not in ("gradients", "distances", "sensitivity")]
    page = report(_write(tmp_path / "store", parts, steps=(3000,)), tmp_path / "report").page
    figures = {path.stem for path in (page.parent / "figures").iterdir()}
    assert figures == {"cloud_snapshot", "representation_scaling", "barcode_of_texts"}
    text = re.sub(r"</?a[^>]*>", "", page.read_text())  # marked where a word is used first
    assert "The log perplexity is known at one measured checkpoint" in text
    assert "No perplexity was measured" not in text
    assert "Holm&#39;s method over 0 rows" not in text


@pytest.mark.slow
def test_changepoints_are_marked_on_the_curves_of_hidden_states(study):
    known = study.series.catalogue
    bends = pd.DataFrame(
        {
            "run": ["small"], "column": [column_of(known, "representations", "h1_total")], "segment": [1],
            "start_step": [64.0], "start_low": [32.0], "start_high": [128.0],
        }
    )  # fmt: skip
    bent = replace(study)
    bent.__dict__["bends"] = bends
    figures = drawn(bent)
    for name in ("h1_of_representations", "topology_of_representations"):
        marks = [
            line.get_gid()
            for ax in figures[name].axes
            for line in ax.lines
            if str(line.get_gid()).startswith("changepoint")
        ]
        assert marks == ["changepoint small"]
        assert "A triangle marks a changepoint" in captions(bent)[name].shows
    assert "A triangle" not in captions(bent)["spectrum_of_representations"].shows


@pytest.mark.slow
def test_a_store_of_representations_has_no_part_on_weights(page):
    text = (page / "index.html").read_text()
    assert "neural persistence" not in text.lower()
    assert 'id="weights' not in text


def test_tidy_rows_of_the_embedding_report_are_enough_for_the_page(study):
    names = {"perplexity": QUALITY, "h1_total_persistence": TOTAL}
    lines = study.series.values[["run", "step"]].copy()
    for theirs, ours in names.items():
        lines[theirs] = study.series.values[ours]
    lines["perplexity"] = np.exp(lines["perplexity"])
    again = build(tidy_rows(lines), None, pd.DataFrame({"run": list(MODELS)}), catalogue=own_catalogue())
    np.testing.assert_allclose(again.series.values[TOTAL], study.series.values[TOTAL])
    assert again.target == QUALITY
    assert set(again.leading["column"]) == {TOTAL}


def _report(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["report", *map(str, arguments)])
    return ended.value.code, capsys.readouterr()


@pytest.mark.slow
def test_targets_that_do_not_fit_are_listed_and_few_values_are_not_ranked(full, tmp_path, capsys, unprinted):
    lines = ["run,step,score", "small,0,1.0", "small,8,", "small,3000,2.0", "ghost,5,3.0"]
    (tmp_path / "scores.csv").write_text("\n".join(lines))
    code, printed = _report(
        capsys, full.path, "--scores", tmp_path / "scores.csv", "--target", "score", "--out", tmp_path / "r"
    )
    assert code == 1
    said = ("run ghost, step 5: the run was not measured", "score: no finite value at 26 of 28 checkpoints")
    page = (tmp_path / "r" / "report.md").read_text(encoding="utf-8")
    for line in said:
        assert line in printed.out
        assert line in page
        assert line in (tmp_path / "r" / "index.html").read_text(encoding="utf-8")
    assert "No run has the 4 values of the score" in page
    assert "No primary feature can be tested with 2 checkpoints of the score" in page
    assert "The step itself has" not in page


def test_a_missing_target_is_told_those_that_have_values(full, tmp_path):
    given = build(full.features(), None, full.runs(), catalogue=full.catalogue()).series
    empty = replace(given, values=given.values.assign(nothing=np.nan), targets=(*given.targets, "nothing"))
    with pytest.raises(InputError, match="no such target; name") as refused:
        chosen_target(empty, "nope", preferred=())
    assert QUALITY in str(refused.value)
    assert "nothing" not in str(refused.value)
