"""`reproduce landscape` on a run of four checkpoints: which the test refuses to judge, with the reason."""

from __future__ import annotations

import pytest
import torch

from tests.landscape.test_probes import SMALL, run_folder
from toposcope.core.errors import SourceError
from toposcope.models import ModelLoader
from toposcope.models.gpt import recipe_shape
from toposcope.recipes import load_training_recipe
from toposcope.sources import open_series
from toposcope.studies.landscape.surfaces import QUESTIONS, log_steps, measure, sections
from toposcope.training.model import GPT


def test_steps_are_spread_over_log_step_with_both_ends() -> None:
    chosen = log_steps(list(range(0, 5001, 100)), 14)
    assert (len(chosen), chosen[0], chosen[-1]) == (14, 0, 5000)
    assert chosen == sorted(set(chosen))
    assert sum(step <= 1000 for step in chosen) >= 8
    assert log_steps([5, 1, 3], 14) == [1, 3, 5]


@pytest.mark.slow
def test_the_study_answers_and_says_what_the_design_cannot(tmp_path) -> None:
    run = run_folder(tmp_path / "run", tmp_path)
    store = measure(str(run), tmp_path / "store", options=SMALL)
    claims, answer, surfaces, moved = sections(store)
    assert {row[-1] for row in claims.rows} == {"cannot be tested here"}
    assert "It is unknown whether" in answer.title
    assert [row[0] for row in answer.rows] == [label for _, label in QUESTIONS]
    assert all("the test needs 12" in str(row[-1]) for row in answer.rows)
    shares = {row[0]: row for row in surfaces.rows}
    assert shares["full range"][1] == 4 * SMALL.surfaces
    share = shares["full range"][2]
    assert 0 <= int(str(share).removesuffix("%")) <= 100
    assert shares["full range"][3] == f"{share} to {share}"  # one run
    # twelve products do not converge, and what did not enters nothing
    assert {row[0] for row in moved.rows} == {label for _, label in QUESTIONS} - {"top eigenvalue"}
    assert not any("nan" in str(cell) for row in moved.rows for cell in row)  # two draws have no interval
    assert measure(str(run), tmp_path / "store", options=SMALL).path == store.path


def test_files_of_weights_alone_are_the_models_of_the_recipe(tmp_path) -> None:
    """The five models' original checkpoints are such files; here one of them, with random weights."""
    shape = recipe_shape(load_training_recipe("seed004").of_run("tiny-3k", 42))
    folder = tmp_path / "tiny-3k"
    folder.mkdir()
    for step in range(3):
        torch.save({"model_state_dict": GPT(shape).state_dict()}, folder / f"step_{step:06d}.pt")
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"a line of text with the number {i}\n" for i in range(8)))
    store = measure(str(folder), tmp_path / "store", texts=str(texts), options=SMALL)
    losses = store.features(probe="sharpness", feature="batch_loss")
    assert sorted(losses["step"].unique()) == [0, 1, 2]
    loader = ModelLoader(recipe=load_training_recipe("grokking"))
    series = open_series(str(folder))
    with pytest.raises(SourceError, match="does not have the shapes of any model of the recipe"):
        loader.model(series, series.of_run(series.names[0])[0]).__enter__()
    with pytest.raises(SourceError, match=r"contains weights but no model.*also takes `recipe`"):
        ModelLoader().model(series, series.of_run(series.names[0])[0]).__enter__()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_no_step_is_taken_twice(count: int) -> None:
    assert len(set(log_steps(list(range(30)), count))) == count
