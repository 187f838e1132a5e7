"""check, analyze and the page say the same of an odd run: its value, its step and its cause."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

import toposcope as ts
from toposcope.cli.main import main
from toposcope.runs.odd import Odd

STEPS = np.arange(10, 410, 10)


def logged(i: int, odd: int = 3) -> pd.DataFrame:
    """The log of a seed; from step 200 on the odd one has a higher loss, and its rate is 9 times as high."""
    g = np.random.default_rng(i)
    loss = (2 + 4 * STEPS**-0.4) * (1 + 0.005 * g.standard_normal()) + 0.01 * g.standard_normal(len(STEPS))
    rate = 5e-5 * (1 - STEPS / 500) * (9 if i == odd else 1)
    loss = loss + (0.5 if i == odd else 0.0) * (STEPS >= 200)
    return pd.DataFrame(
        {"step": STEPS, "loss": loss, "learning_rate": rate, "grad_norm": g.random(len(STEPS))}
    )


def measured(folder: Path, store: Path, features: str = "updates,baselines") -> None:
    """Measure checkpoints into a store."""
    with pytest.raises(SystemExit) as ended:
        main(["weights", str(folder), "--out", str(store), "--features", features])
    assert ended.value.code == 0


def checked(place: Path) -> tuple[str, str]:
    """The odd run of `check`, and its sentence."""
    ((run, ground),) = [
        (run.run, ground.sentence)
        for run in ts.check(place).runs
        for ground in run.judgement.grounds
        if ground.kind == "odd run"
    ]
    return run, ground


def agreed(place: Path, page: Path) -> str:
    """The sentence of the odd run s3, which check, analyze and the page have in common."""
    run, sentence = checked(place)
    answer = ts.analyze(place)
    (finding,) = answer.findings["odd"].numbers["odd"]
    assert (run, finding["run"], finding["sentence"]) == ("s3", "s3", sentence)
    assert answer.findings.headline == f"Run s3 is {sentence}."
    ts.report(place, page)
    text = (page / "report.md").read_text().replace("\\", "")
    assert f"Run s3 is {sentence}." in " ".join(text.split())
    return sentence


def assert_names_all(sentence: str) -> None:
    """Value, step and cause are there, once each."""
    assert sentence.startswith("not like its 4 siblings: loss 2.8")
    assert sentence.count("different since step ") == 1
    assert sentence.endswith("; its learning rate is 4.41e-4 at step 10 (the others have 4.9e-5)")


@pytest.mark.slow
def test_the_three_agree_on_a_folder_with_a_log_alone(tmp_path: Path) -> None:
    place = tmp_path / "logs"
    place.mkdir()
    parts = [logged(i).assign(run=f"s{i}", norm=np.log(STEPS) + i) for i in range(5)]
    pd.concat(parts).to_csv(place / "five.csv", index=False)
    sentence = agreed(place / "five.csv", tmp_path / "page")
    assert_names_all(sentence)
    assert checked(place)[1] == sentence


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of five seeds with their logs."""
    folder = tmp_path_factory.mktemp("agrees") / "runs"
    for i in range(5):
        g, place = np.random.default_rng(i), folder / f"s{i}"
        place.mkdir(parents=True)
        names = ("layers.0.mlp.fc1.weight", "layers.1.mlp.fc1.weight")
        weights = {name: g.standard_normal((8, 8)).astype(np.float32) for name in names}
        for step in (100, 200, 300, 400):
            moved = {
                name: one + np.float32(0.001 * step) * np.eye(8, dtype=np.float32)
                for name, one in weights.items()
            }
            save_file(moved, place / f"step_{step:06d}.safetensors")
        (place / "training_log.json").write_text(logged(i).to_json(orient="records"))
    return folder


@pytest.mark.slow
def test_the_three_agree_on_checkpoints_with_logs_and_on_their_store(series: Path, tmp_path: Path) -> None:
    """check of the folder, and check, analyze and the page of the store that was measured from it."""
    run, sentence = checked(series)
    assert run == "s3"
    assert_names_all(sentence)
    assert [(one.run, one.sentence) for one in ts.audit(series).odd] == [("s3", sentence)]
    measured(series, tmp_path / "store")
    assert agreed(tmp_path / "store", tmp_path / "page") == sentence


def test_a_run_that_only_its_features_set_apart_is_named_by_check_of_the_store_too(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    for i in range(6):
        g, place = np.random.default_rng(i), folder / f"s{i}"
        place.mkdir(parents=True)
        values = np.random.default_rng(0).standard_normal((24, 24)) + 0.01 * g.standard_normal((24, 24))
        values = values**5 if i == 3 else values  # a few large weights among small ones
        for step in (100, 200, 300, 400):
            weight = (values + 0.001 * step * np.eye(24)).astype(np.float32)
            save_file({"layers.0.mlp.fc1.weight": weight}, place / f"step_{step:06d}.safetensors")
        log = logged(i, odd=-1)
        (place / "training_log.json").write_text(log.to_json(orient="records"))
    assert not [g for run in ts.check(folder).runs for g in run.judgement.grounds if g.kind == "odd run"]
    measured(folder, tmp_path / "store", "neural_persistence")
    answer = ts.analyze(tmp_path / "store").findings["odd"]
    (finding,) = answer.numbers["odd"]
    assert checked(tmp_path / "store") == ("s3", finding["sentence"])
    assert answer.numbers["level"] == pytest.approx(0.1)


def test_one_sentence_is_made_of_one_judgement() -> None:
    one = Odd("s1", ("a", "b", "c"), 0.01, None, (), ("dropout is 0.3 at step 10 (the others have 0.1)",))
    assert json.dumps(one.sentence).endswith('; its dropout is 0.3 at step 10 (the others have 0.1)"')
