"""A restart of transformers' Trainer, resumed well and without the optimiser's state, as its log tells it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import toposcope as ts
from toposcope.logs.remarks import LOOK, NOTICED
from toposcope.runs.run_check import RunCheck

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.slow
STEPS, SAVED, STOPPED = 60, 30, 50


class Rows(transformers.TrainerCallback):
    """Appends what the trainer logs to a file, as a logger does that knows nothing of restarts."""

    def __init__(self, file: Path, stop: int | None) -> None:
        self.file, self.stop = file, stop

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
        if "loss" in logs:
            with self.file.open("a") as file:
                file.write(json.dumps({"step": state.global_step, **logs}) + "\n")

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        control.should_training_stop |= state.global_step == self.stop


def train(folder: Path, stop: int | None) -> None:
    """Train a small model on texts with a pattern; a folder with a checkpoint is resumed."""
    torch.manual_seed(5)
    config = transformers.GPT2Config(n_layer=1, n_embd=16, n_head=2, vocab_size=24, n_positions=16)
    words = torch.randint(0, 24, (256, 1)) + torch.arange(12) * torch.randint(1, 3, (256, 1))
    data = [{"input_ids": one, "labels": one} for one in words % 24]
    options = transformers.TrainingArguments(
        folder, max_steps=STEPS, save_steps=SAVED, logging_steps=1, per_device_train_batch_size=4,
        learning_rate=2e-2, report_to=[], use_cpu=True, disable_tqdm=True, seed=5,
    )  # fmt: skip
    trainer = transformers.Trainer(
        transformers.GPT2LMHeadModel(config), options, train_dataset=data,
        callbacks=[Rows(folder / "log.jsonl", stop)],
    )  # fmt: skip
    trainer.train(resume_from_checkpoint=stop is None)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that stopped at step 50, twenty steps after its only checkpoint."""
    folder = tmp_path_factory.mktemp("run")
    train(folder, STOPPED)
    for last in folder.glob(f"checkpoint-{STOPPED}"):  # a trainer that is told to stop saves once more
        shutil.rmtree(last)
    return folder


def restarted(stopped: Path, folder: Path, *without: str) -> RunCheck:
    """Return what is said of the log of a run that is resumed without some files of its checkpoint."""
    shutil.copytree(stopped, folder)
    for name in without:
        (folder / f"checkpoint-{SAVED}" / name).unlink()
    train(folder, None)
    [run] = ts.check(folder / "log.jsonl").runs
    return run


def told(run: RunCheck) -> tuple[str, str]:
    """Return the level and the sentence of the restart."""
    [found] = [one for one in (*run.judgement.grounds, *run.judgement.noticed) if one.kind == "restart"]
    return found.level, found.sentence


def test_a_restart_with_everything_continues(stopped: Path, tmp_path: Path) -> None:
    level, sentence = told(restarted(stopped, tmp_path / "well"))
    assert level == NOTICED
    assert sentence.startswith(f"restarted at step {SAVED + 1}: the loss continues as the first time, ")
    assert sentence.endswith("the learning rate continues")


def test_a_restart_without_the_state_says_that_the_schedule_began_again(
    stopped: Path, tmp_path: Path
) -> None:
    """The trainer loads the schedule only beside the optimiser's state, and says nothing."""
    level, sentence = told(restarted(stopped, tmp_path / "badly", "optimizer.pt"))
    assert level == LOOK
    assert "times that of the first time, as at the run's beginning: the schedule began again" in sentence
