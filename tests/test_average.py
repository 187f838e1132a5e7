"""The average of the last checkpoints: exact, streamed, whole or absent, and only if it pays."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import load_file, save_file

from toposcope.api.averaged import PAYS, UNMEASURED
from toposcope.api.averaging import (
    average,
    average_plan,
    chosen,
    compared,
    gain_of_choosing,
)
from toposcope.cli.average import command
from toposcope.core.errors import InputError, SourceError
from toposcope.sources import averages, open_series

STEPS = (10, 20, 30, 40)


def _tensors(step: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(step)
    return {
        "h.0.fc.weight": draw.normal(size=(9, 7)).astype(np.float32),
        "h.0.fc.bias": draw.normal(size=7).astype(np.float16),
        "wte.weight": draw.normal(size=(11, 4)).astype(ml_dtypes.bfloat16),
        "ids": np.arange(step, step + 3, dtype=np.int64),
        "scale": np.array(1.0 + step, np.float32),
    }


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for step in STEPS:
        place = tmp_path / "run" / f"checkpoint-{step}"
        place.mkdir(parents=True)
        save_file(_tensors(step), place / "model.safetensors")
        (place / "config.json").write_text('{"model_type": "mine"}')
        (place / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    return tmp_path / "run"


@pytest.mark.parametrize("kind", ["uniform", "ema"])
def test_the_average_is_exact_and_keeps_types(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(averages, "BLOCK_BYTES", 64)  # many blocks a tensor
    answer = average(str(run), tmp_path / "mean", last=3, kind=kind, decay=0.5, scored=False)
    assert answer.verdict == UNMEASURED
    assert answer.ok
    made = load_file(tmp_path / "mean" / averages.WEIGHTS_FILE)
    parts = [_tensors(step) for step in (40, 30, 20)]
    shares = np.array([1, 0.5, 0.25]) if kind == "ema" else np.ones(3)
    shares /= shares.sum()
    for name, newest in parts[0].items():
        assert made[name].dtype == newest.dtype
        assert made[name].shape == newest.shape
        if name == "ids":
            np.testing.assert_array_equal(made[name], newest)
            continue
        exact = sum(share * part[name].astype(np.float64) for share, part in zip(shares, parts, strict=True))
        np.testing.assert_array_equal(made[name], exact.astype(newest.dtype))
    assert json.loads((tmp_path / "mean" / "config.json").read_text()) == {"model_type": "mine"}
    assert not (tmp_path / "mean" / "trainer_state.json").exists()
    origin = json.loads((tmp_path / "mean" / averages.ORIGIN_FILE).read_text())["average_of"]
    assert [one["step"] for one in origin] == [40, 30, 20]


def test_a_failed_average_leaves_nothing(run: Path, tmp_path: Path) -> None:
    place = run / "checkpoint-30" / "model.safetensors"
    tensors = load_file(place)
    tensors["scale"] = np.array(np.nan, np.float32)  # the last tensor, so others are written before
    save_file(tensors, place)
    with pytest.raises(SourceError, match="step 30: tensor 'scale' is not finite; leave this step out"):
        average(str(run), tmp_path / "out" / "mean", scored=False)
    assert list((tmp_path / "out").iterdir()) == []


def test_what_cannot_be_averaged_is_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(InputError, match="there is something already"):
        average(str(run), tmp_path / "there", scored=False)
    with pytest.raises(InputError, match="no loss can be measured"):
        average(str(run))
    for given, why in (
        ({"last": 1}, "needs two"),
        ({"kind": "swa"}, "unknown"),
        ({"decay": 1.0}, "between 0"),
    ):
        with pytest.raises(InputError, match=why):
            average(str(run), tmp_path / "x", **given)  # type: ignore[arg-type]
    tensors = load_file(run / "checkpoint-20" / "model.safetensors")
    tensors["wte.weight"] = tensors["wte.weight"][:5]
    save_file(tensors, run / "checkpoint-20" / "model.safetensors")
    with pytest.raises(InputError, match=r"do not have the same tensor 'wte\.weight'"):
        average(str(run), tmp_path / "x", scored=False)
    states = {name: {step: {"w": np.eye(2)} for step in (1, 2)} for name in "ab"}
    with pytest.raises(InputError, match="has 2 runs"):
        average(open_series(states), tmp_path / "x")


def test_each_half_judges_what_the_other_chose() -> None:
    """Two windows are noise: each is the best of one half and worse on the other."""
    first, second = [-0.3, -0.2, -0.3, -0.2], [0.1, 0.2, 0.1, 0.2]
    losses = 3.0 + np.array([[0.0] * 8, first + second, second + first])
    gain = gain_of_choosing(losses)
    assert gain.mean == pytest.approx(0.15)
    assert gain.lower > 0
    assert compared(losses)[1].difference < 0  # on all sequences it looks better
    falls = 3.0 + np.array([[0.0] * 8, [-0.1, -0.11] * 4])
    assert chosen(falls) == 2
    assert gain_of_choosing(falls).upper < 0
    assert chosen(3.0 + np.array([[0.0] * 8, [0.1] * 8])) == 1


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a tiny model at a constant and large rate, so that its last weights jump about their average."""
    pytest.importorskip("torch")
    from toposcope.training.api import train

    folder = tmp_path_factory.mktemp("average")
    draw = np.random.default_rng(0)
    words = ["".join(draw.choice(list("abcdefgh"), 4)) for _ in range(40)]
    (folder / "text.txt").write_text(" ".join(draw.choice(words, 30_000)))
    changes = {
        "models": "tiny-3k", "steps": 150, "checkpoint_every": 5, "batch_size": 8, "context": 32,
        "learning_rate": 2e-2, "final_learning_rate": 2e-2, "warmup_steps": 5, "heldout_batches": 8,
    }  # fmt: skip
    return train("demo", folder / "runs", corpus=str(folder / "text.txt"), overrides=changes)[0].folder


def test_a_window_that_pays_is_written_and_has_the_loss_that_was_said(trained: Path, tmp_path: Path) -> None:
    from toposcope.models import Batch, ModelLoader, Objective
    from toposcope.subjects.gradients.probe import held_out_tokens

    answer = average(str(trained), tmp_path / "mean", last=6)
    assert answer.verdict == PAYS, answer
    assert 1 < answer.window <= 6
    best = answer.windows[answer.window - 1]
    assert best.difference < 0
    assert answer.gain is not None
    assert answer.gain.upper < 0
    # the written weights, in the run's own model, have the loss of the table
    series = open_series(str(trained))
    made = load_file(tmp_path / "mean" / averages.WEIGHTS_FILE)
    from toposcope.models.loading import run_folder_of

    newest = series.of_run(series.names[0])[-1]
    with ModelLoader().model(series, newest) as model:
        folder = run_folder_of(newest)
        assert folder is not None
        batch = Batch.of(held_out_tokens(folder)[:256], last_only=model.last_only)
        objective = Objective(model, batch)
        import torch

        named = {name: torch.tensor(made[name]) for name in objective.shapes}
        losses = objective.at(named).per_sequence_losses()
    assert losses.mean() == pytest.approx(best.loss, rel=1e-6)


def test_where_no_window_pays_nothing_is_written(trained: Path, tmp_path: Path) -> None:
    """The first checkpoints fall fast: every average with an older one is worse."""
    words = [str(trained), "--steps", "0,5,10", "--last", "3", "--out", str(tmp_path / "mean")]
    result = CliRunner().invoke(command, words, standalone_mode=False)
    assert result.return_value == 1
    assert "no window pays: the newest checkpoint has the lowest held-out loss" in result.output
    assert not (tmp_path / "mean").exists()
    assert average_plan(str(trained), last=3).scored


def test_the_command_answers_in_json_and_by_its_exit_code(run: Path, tmp_path: Path) -> None:
    words = [str(run), "--out", str(tmp_path / "mean"), "--last", "2", "--json"]
    result = CliRunner().invoke(command, words, standalone_mode=False)
    assert result.return_value == 0, result.output
    answer = json.loads(result.output)
    assert answer["verdict"] == UNMEASURED
    assert answer["steps"] == [40, 30]
    assert answer["written"] == str(tmp_path / "mean")
    cost = average_plan(str(run), last=3)
    assert cost.steps == (40, 30, 20)
    assert not cost.scored
    assert cost.read_bytes == 3 * sum(one.nbytes for one in _tensors(10).values())
