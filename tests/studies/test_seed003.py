"""The embedding report from rows: the real ones where they are at hand, planted ones otherwise."""

from __future__ import annotations

import json

import numpy as np
import pytest

from toposcope.core.errors import InputError
from toposcope.studies.sections import Section, markdown
from toposcope.studies.seed003.report import FEATURES
from toposcope.studies.seed003.stored_rows import read_rows, reproduce_rows

STEPS = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 2000, 5000, 10000, 33000, 66000, 100000, 143000]


def _write_rows(folder, *, models=("pythia-70m", "pythia-160m")):
    for seed, model in enumerate(models):
        noise = np.random.default_rng(seed)
        rows = []
        for place, step in enumerate(STEPS):
            row = {"step": step, "perplexity": 60000.0 / (place**3 + 1) if place > 1 else 60000.0}
            for name in FEATURES[:-1]:
                row[name] = float(0.01 * noise.standard_normal() + (5.0 if place > 9 else 0.0))
            row["h1_n_features"] = 100 + place
            row["h1_persistence_entropy"] = 4.0 + 0.01 * place
            rows.append(row)
        (folder / f"{model}_results.json").write_text(json.dumps(rows))


@pytest.fixture
def planted(tmp_path):
    _write_rows(tmp_path)
    return tmp_path


def _by_title(sections, start):
    return next(section for section in sections if section.title.startswith(start))


@pytest.mark.slow
def test_real_rows_give_the_printed_mean_correlations(shared_data):
    sections = reproduce_rows(shared_data / "seed_embeddings")
    table = _by_title(sections, "Rank correlation")
    agrees = {row[0]: row[-1] for row in table.rows}
    assert all(
        agrees[name] == "yes" for name in ("h1_persistence_entropy", "h1_n_features", "h1_max_persistence")
    )
    assert sum(value == "yes" for value in agrees.values()) == 7


@pytest.mark.slow
def test_real_rows_contradict_the_reports_totals(shared_data):
    sections = reproduce_rows(shared_data / "seed_embeddings")
    wrong = {(row[0], row[1], row[2]): row[3:] for row in _by_title(sections, "Trajectories").rows}
    report, rows = wrong[("pythia-70m", 143000, "h1_total_persistence")]
    assert (report, round(rows, 1)) == (64.6, 70.8)
    report, rows = wrong[("pythia-410m", 143000, "h1_total_persistence")]
    assert (report, round(rows, 1)) == (55.8, 125.4)
    assert not any(quantity == "perplexity" for _, _, quantity in wrong)


@pytest.mark.slow
def test_real_rows_show_the_noise_between_equal_models(shared_data):
    noise = _by_title(reproduce_rows(shared_data / "seed_embeddings"), "The noise")
    counts = {row[0]: row[4] for row in noise.rows if row[1] == "h1_n_features"}
    assert counts == {"pythia-70m": 2.0, "pythia-160m": 3.0, "pythia-410m": 2.0}


def test_no_correlation_of_drifting_rows_is_called_an_addition(planted):
    worth = _by_title(reproduce_rows(planted), "What the correlations are worth")
    place = worth.columns.index("verdict")
    assert {row[place] for row in worth.rows} <= {"trend only", "cannot tell"}


def test_the_sections_become_markdown_and_json(planted):
    sections = reproduce_rows(planted)
    page = markdown("The embedding report", sections)
    assert page.count("\n## ") == len(sections)
    assert json.dumps([section.as_json() for section in sections], default=str)


def test_a_section_knows_its_columns():
    with pytest.raises(ValueError, match="argument"):
        Section("t", ("a", "b"), ((1,),)).as_json()


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "not a JSON list"), ('[{"step": 1}]', "lacks 'perplexity'"), ("", "not a JSON list")],
)
def test_bad_rows_are_named(tmp_path, content, message):
    (tmp_path / "pythia-70m_results.json").write_text(content)
    with pytest.raises(InputError, match=message):
        read_rows(tmp_path)


def test_an_empty_folder_is_named(tmp_path):
    with pytest.raises(InputError, match="contains no"):
        read_rows(tmp_path)


def test_the_phases_have_whole_steps_and_say_that_step_0_is_left_out(planted):
    phases = _by_title(reproduce_rows(planted), "Phases")
    places = [phases.columns.index(name) for name in ("start_step", "end_step")]
    steps = [row[place] for row in phases.rows for place in places]
    assert {str(step) for step in steps} >= {"1", "143000"}
    assert not any(isinstance(step, float) for step in steps)
    assert "step 0 is left out" in phases.note


def test_every_finding_of_the_report_is_judged_on_its_rows(shared_data):
    claims = {row[0]: row[1:] for row in reproduce_rows(shared_data / "seed_embeddings")[0].rows}
    assert len(claims) == 10
    fails = claims["The spectrum fails for the largest model, and topology does not"]
    assert "in 1 of 3 runs (p 0.1 at most)" in fails[1]
    assert fails[3] == "does not hold"  # the top eigenvalue is significant there
    grows = claims["After the collapse the total of H1 grows at every checkpoint"]
    assert "in 0 of 3 runs" in grows[1]
    assert grows[3] == "does not hold"
    assert claims["Before training the total of H1 grows with the size"][1] == "23.4, 33.7, 43.5"


def test_rows_that_grow_after_the_collapse_bear_the_report_out(tmp_path):
    _write_rows(tmp_path)
    for path in tmp_path.glob("*.json"):
        rows = json.loads(path.read_text())
        for place, row in enumerate(rows):
            row["h1_total_persistence"] = 20.0 + place
        path.write_text(json.dumps(rows))
    claims = {row[0]: row[1:] for row in reproduce_rows(tmp_path)[0].rows}
    assert claims["After the collapse the total of H1 grows at every checkpoint"][3] == "holds"
