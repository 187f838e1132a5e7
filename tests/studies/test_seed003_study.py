"""The embedding report's study, whole, on small models: measured, tabulated, and taken up again."""

from __future__ import annotations

import json

import pytest

from tests.representations.conftest import TEXTS, write_causal_model
from toposcope.cli.main import main

STEPS = (0, 1, 2, 4, 8, 16)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    for run in ("small", "large"):
        for seed, step in enumerate(STEPS):
            write_causal_model(folder / run / f"step{step}", seed + 10 * (run == "large"))
    lines = [f"{text} {i} {'and on ' * (i + 3)}" for i in range(4) for text in TEXTS]
    (folder / "texts.txt").write_text("\n".join(line.ljust(100, ".") for line in lines))
    return folder


def _run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "seed003", *map(str, arguments)])
    output = capsys.readouterr()
    return ended.value.code, output.out, output.err


def _sections(out):
    return {section["title"]: section["rows"] for section in json.loads(out)["sections"]}


@pytest.mark.slow
def test_a_series_of_ones_own_is_studied_whole(inputs, tmp_path, capsys):
    call = (
        "--series", inputs / "small", "--series", inputs / "large", "--texts", inputs / "texts.txt",
        "--limit", 16, "--sensitivity-texts", "16,24", "--out", tmp_path, "--json",
    )  # fmt: skip
    code, out, err = _run(capsys, *call)
    assert code == 0
    found = _sections(out)
    assert [(row["model"], row["step"]) for row in found["Trajectories"]] == [
        (run, step) for run in ("large", "small") for step in STEPS
    ]
    null = found["H1 beside a Gaussian cloud of the same covariance"]
    assert {row["quantity"] for row in null} == {
        "h1_n_features", "h1_total_persistence", "h1_persistence_entropy"
    }  # fmt: skip
    assert all(row["Gaussian null"] > 0 for row in null)
    confounds = {(row["model"], row["feature"]): row for row in found["What explains the correlations"]}
    assert confounds["small", "h1_n_features"]["given count"] is None
    sensitivity = found["How far the findings depend on the settings"]
    assert {row["run"] for row in sensitivity} == {"small", "large"}
    assert (tmp_path / "report" / "index.html").is_file()
    assert (tmp_path / "seed003.md").is_file()
    assert "index.html" in err


def test_the_confounds_are_partial_correlations():
    import numpy as np
    import pandas as pd

    from toposcope.studies.seed003.report import BESIDE, TOPOLOGY
    from toposcope.studies.seed003.tables import confound_section

    generator = np.random.default_rng(0)
    step = np.arange(30.0)
    rows = pd.DataFrame({name: generator.permutation(30).astype(float) for name in (*TOPOLOGY, *BESIDE)})
    rows = rows.assign(run="a", step=step, log_perplexity=-step, h1_max_persistence=step)
    rows["top_eigenvalue"] = step + generator.normal(size=30)
    line = next(row for row in confound_section(rows).rows if row[1] == "h1_max_persistence")
    by_name = dict(zip(confound_section(rows).columns, line, strict=True))
    assert by_name["rho"] == pytest.approx(-1.0)
    assert np.isnan(by_name["given step"])  # the step explains it to the last rank


@pytest.mark.slow
def test_models_are_trained_where_none_are_given_and_once(tmp_path, capsys, monkeypatch):
    from toposcope.studies.seed003 import runs as seed003_study

    reported = []
    monkeypatch.setattr("toposcope.studies.seed003.runs.write_page", lambda _, out: reported.append(out))
    corpus, out = tmp_path / "corpus.txt", tmp_path / "out"
    words = "the quick brown fox jumps over the lazy dog and runs away from all the others in the wood "
    corpus.write_text("\n".join(words * 2 + str(i) for i in range(400)))
    call = (
        "--train",
        corpus,
        "--steps",
        2,
        "--limit",
        12,
        "--sensitivity-texts",
        "none",
        "--out",
        out,
        "--json",
    )

    def stop(*_):
        raise KeyboardInterrupt

    def trained():
        return {path: path.stat().st_mtime_ns for path in (out / "models").rglob("*.safetensors")}

    with monkeypatch.context() as stopped:
        stopped.setattr(seed003_study, "measure", stop)
        assert _run(capsys, *call)[0] != 0
    before = trained()
    code, printed, _ = _run(capsys, *call)
    assert code == 0
    assert len(_sections(printed)["Trajectories"]) == len(before) == 3 * 3
    assert trained() == before
    assert reported == [out / "report"]


@pytest.mark.slow
def test_seeds_are_trained_apart_and_have_intervals(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("toposcope.studies.seed003.runs.write_page", lambda *_: None)
    corpus = tmp_path / "corpus.txt"
    words = "the quick brown fox jumps over the lazy dog and runs away from all the others in the wood "
    corpus.write_text("\n".join(words * 2 + str(i) for i in range(400)))
    code, printed, _ = _run(
        capsys, "--train", corpus, "--steps", 4, "--seeds", "1,2", "--limit", 12,
        "--sensitivity-texts", "none", "--out", tmp_path / "out", "--json",
    )  # fmt: skip
    assert code == 0
    found = _sections(printed)
    ends = {row["model"]: row["perplexity"] for row in found["The last checkpoint of every model"]}
    shapes = ("48x2", "80x3", "128x4")
    assert set(ends) == {f"neox-{shape}-seed{seed}" for shape in shapes for seed in (1, 2)}
    smallest = next(row for row in found["Across seeds"] if row["quantity"] == "perplexity")
    mine = [ends[f"neox-48x2-seed{seed}"] for seed in (1, 2)]
    assert smallest["seeds"] == 2
    assert smallest["last"] == pytest.approx(sum(mine) / 2)
    assert smallest["low"] < min(mine) < max(mine) < smallest["high"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--rows FOLDER, --series SERIES, --recipe pythia or --train CORPUS"),
        (("--series", "a", "--train", "b"), "cannot be combined"),
        (("--rows", "rows", "--series", "a"), "--rows, --series, --recipe and --train cannot be combined"),
        (("--series", "a", "--limit", 0), "Invalid value for '--limit'"),
        (("--series", "a", "--device", "tpu"), "--device 'tpu': unknown device"),
        (("--train", "python-docs"), "name a folder for them with --out"),
    ],
)
def test_wrong_calls_are_one_line(capsys, arguments, message):
    code, _, err = _run(capsys, *arguments)
    assert code == 2
    assert message in err
