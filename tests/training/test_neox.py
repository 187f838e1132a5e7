"""The small GPT-NeoX family: its start, what a folder holds, and a killed training that goes on."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import toposcope
from toposcope.core.errors import InputError
from toposcope.training import neox
from toposcope.training.corpus import Corpus, load_corpus
from toposcope.training.neox import NeoxPlan, NeoxShape, new_model, train_neox

SHAPE = NeoxShape(name="neox-tiny", width=16, layers=2, heads=2)
PLAN = NeoxPlan(vocabulary=300, context=32, length=16, batch_size=2, steps=6, warmup=2, seed=7)


@pytest.fixture(scope="module")
def corpus(small_text: Path) -> Corpus:
    return load_corpus(str(small_text))


@pytest.fixture(scope="module")
def trained(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_neox(SHAPE, corpus, tmp_path_factory.mktemp("neox"), PLAN, quiet=True)


def test_a_series_names_its_steps_seed_and_losses(trained: Path) -> None:
    series = toposcope.open_series(trained)
    assert [checkpoint.step for checkpoint in series] == [0, 1, 2, 4, 6]
    assert trained.name == "neox-tiny-seed7"
    (run,) = series.runs
    assert run.seed == 7
    assert run.parameters > 0
    metrics = series.metrics(run.run)
    assert metrics["loss"].notna().sum() == PLAN.steps
    assert set(metrics.loc[metrics["heldout_loss"].notna(), "step"]) == {0, 1, 2, 4, 6}


def test_a_killed_training_ends_bit_identical(
    trained: Path, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = neox._Trainer.update

    def killed(self: neox._Trainer, windows: object) -> None:
        if self.step == 3:
            raise KeyboardInterrupt
        update(self, windows)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(neox._Trainer, "update", killed)
        with pytest.raises(KeyboardInterrupt):
            train_neox(SHAPE, corpus, tmp_path, PLAN, quiet=True)
    folder = train_neox(SHAPE, corpus, tmp_path, PLAN, quiet=True)
    ours, theirs = toposcope.open_series(folder), toposcope.open_series(trained)
    for mine, other in zip(ours, theirs, strict=True):
        assert ours.content_hash(mine) == theirs.content_hash(other)
    assert ours.metrics(folder.name).equals(theirs.metrics(trained.name))


def test_the_start_has_the_deviations_of_pythia() -> None:
    shape = NeoxShape(name="wide", width=128, layers=3, heads=4)
    weights = {name: value.detach().numpy() for name, value in new_model(shape, PLAN).named_parameters()}
    query = next(value for name, value in weights.items() if name.endswith("query_key_value.weight"))
    writes = next(value for name, value in weights.items() if name.endswith("dense_4h_to_h.weight"))
    assert np.std(query) == pytest.approx(math.sqrt(2 / (5 * 128)), rel=0.02)
    assert np.std(writes) == pytest.approx(2 / (3 * math.sqrt(128)), rel=0.02)
    assert all(not value.any() for name, value in weights.items() if name.endswith(".bias"))


def test_another_plan_or_a_short_corpus_is_refused(trained: Path, corpus: Corpus, tmp_path: Path) -> None:
    longer = NeoxPlan(**{**{name: getattr(PLAN, name) for name in PLAN.__dataclass_fields__}, "steps": 8})
    with pytest.raises(InputError, match="another plan or corpus"):
        train_neox(SHAPE, corpus, trained.parent, longer, quiet=True)
    with pytest.raises(InputError, match="too small"):
        train_neox(SHAPE, Corpus("short", "a b c", "d e"), tmp_path, PLAN, quiet=True)


def test_the_published_shape_of_the_schedule() -> None:
    plan = NeoxPlan()
    assert plan.checkpoints()[:4] == [0, 1, 2, 4]
    rates = [plan.rate(step) for step in range(plan.steps)]
    assert max(rates) == pytest.approx(plan.learning_rate, rel=1e-6)
    assert rates[-1] == pytest.approx(plan.learning_rate / 10, rel=1e-2)
