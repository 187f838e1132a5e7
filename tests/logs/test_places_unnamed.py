# ruff: noqa: E501 -- the lines of trainers are this long
"""Evaluations, steps and phases that a text does not name in so many words."""

from __future__ import annotations

from pathlib import Path

import pytest

from toposcope.core.errors import InputError
from toposcope.logs import Log, Run, read_log

LOSSES = [round(4.0 * 0.93**k + 0.5, 4) for k in range(30)]
HELD = [round(x + 1, 4) for x in LOSSES]


def log_of(folder: Path, text: str) -> Log:
    (folder / "train.log").write_text(text, newline="", encoding="utf-8")
    return read_log(folder / "train.log")


def run_of(folder: Path, text: str) -> Run:
    (run,) = log_of(folder, text).runs
    return run


def each(form: str, **more: list[object]) -> str:
    return "".join(
        form.format(
            i=k, s=10 * k, x=LOSSES[k], y=HELD[k], **{name: values[k] for name, values in more.items()}
        )
        + "\n"
        for k in range(30)
    )


ANNOUNCED = {
    "in words": "epoch: {i},  loss is: {x}, acc is: 0.9\ntesting in eval mode……\nepoch: {i},  loss is: {y}, acc is: 0.8\nNow continue training……",
    "in dots": "Epoch {i} loss {x}\nValidating...\nEpoch {i} loss {y}",
    "in a rule": "step {s} | loss {x} | lr 0.1\n===== Evaluation =====\nstep {s} | loss {y} | lr 0.1\nsaved",
    "without a place": "step {s} | loss {x}\nRunning validation\nloss {y}",
    "before training": "[{i}/30] loss: {x}\nStart testing for this epoch\nsome note\n[{i}/30] loss: {y}",
    "by a named loss": "Epoch {i} loss {x}\nValidation after the epoch: loss {y}",
    "by a name": "Epoch {i}, Step 25, avg loss so far is {x}\nEpoch {i}, val loss is {y}, val mse is 0.01.",
    "by a name alone": "step {s}: loss {x}\nEval Loss: {y}",
    "by a tag": "step {s}: loss {x}\nValidation results - loss: {y}, acc: 0.5",
    "glued": "step {s}: loss {x} valloss {y}",
    "short": "epoch {i} tr_loss: {x} va_loss: {y}",
    "v and others": "Epoch {i}: v_kl 5.8e+00  kl 5.5e+00  v_loss {y:.4e}  loss {x:.4e}  v_acc 1.32%",
    "v alone": "Epoch {i}: loss={x} v_loss={y} acc=0.3",
    "v below": "Epoch {i}: loss={x}\nEpoch {i}: v_loss={y}",
    "slash": "step {s} train/loss: {x} val/loss: {y}",
    "Chinese": "Epoch: {i} | Loss: {x}\nEpoch {i} 完成 | 训练损失: {x} | 验证损失: {y} | 时间: 388.3s",
    "Russian": "Шаг {s}: потери {x}\nвалидация, потери: {y}",
    "Japanese": "エポック {i} 訓練損失: {x} 検証損失: {y}",
    "dev": "step {s} loss: {x}, dev_loss: {y}",
    "valid": "step {s} loss: {x}, valid loss: {y}",
}


@pytest.mark.parametrize("name", ANNOUNCED)
def test_a_held_out_loss_of_the_last_step(name: str, tmp_path: Path) -> None:
    table = run_of(tmp_path, each(ANNOUNCED[name])).table
    assert table["loss"].dropna().tolist() == pytest.approx(LOSSES, abs=1e-3)
    assert table["heldout_loss"].dropna().tolist() == pytest.approx(HELD, abs=1e-3)
    assert len(table) == 30


NOT_HELD = {
    "a place of its own": "step {s} | loss {x}\nEvaluating...\nsaved the model",
    "a value function": "step {s} loss {x} v_loss {y} entropy 0.5",
    "parts of AlphaZero": "step {s} loss {x} p_loss 0.1 v_loss {y}",
    "many of an epoch": "epoch 0 loss {x}\nTesting the model",
}


@pytest.mark.parametrize("name", NOT_HELD)
def test_a_record_at_its_own_place_after_an_evaluation_is_training(name: str, tmp_path: Path) -> None:
    table = run_of(tmp_path, each(NOT_HELD[name])).table
    assert table["loss"].tolist() == LOSSES
    assert "heldout_loss" not in table


def test_an_evaluation_before_training_is_held_out(tmp_path: Path) -> None:
    text = "testing in eval mode\nepoch: 0, loss is: 9.5\n" + each(ANNOUNCED["in words"])
    assert run_of(tmp_path, text).table["loss"].dropna().tolist() == LOSSES


def test_losses_counted_within_an_epoch_keep_the_epoch(tmp_path: Path) -> None:
    table = run_of(tmp_path, each("epoch:  {e} loss:  {x}", e=[k // 10 for k in range(30)])).table
    assert table["step"].tolist() == [*range(1, 31)]
    assert table["epoch"].tolist() == [k // 10 for k in range(30)]


PHASES = {
    "words": ("Epoch {i}: Train MSE Loss: {x}", "Epoch {i}: Train MAE Loss: {x}"),
    "keys": ("step={s} mlm_loss={x}", "step={s} nsp_loss={x}"),
    "stages": ("[stage 1] epoch {i} recon loss {x}", "[stage 2] epoch {i} gan loss {x}"),
}


@pytest.mark.parametrize("name", PHASES)
def test_two_losses_of_runs_one_after_the_other(name: str, tmp_path: Path) -> None:
    first, second = PHASES[name]
    log = log_of(tmp_path, each(first) + "Loaded the encoder\n" + each(second))
    assert [run.table["loss"].tolist() for run in log.runs] == [LOSSES, LOSSES]
    assert "each run has a loss of its own" in log.said


@pytest.mark.parametrize("name", PHASES)
def test_losses_that_alternate_or_go_on_are_asked_for(name: str, tmp_path: Path) -> None:
    first, second = PHASES[name]
    later = each(second.replace("{i}", "{j}").replace("{s}", "{j}"), j=[*range(300, 330)])
    for text in (each(f"{first}\n{second}"), each(first) + later):
        with pytest.raises(InputError, match="several losses"):
            log_of(tmp_path, text)


def thousands(step: float) -> str:
    return f"{step:.0f}" if step < 1000 else f"{step / 1000:.0f}K"


def test_steps_in_thousands_are_evenly_spaced(tmp_path: Path) -> None:
    steps = [400 + 200 * k for k in range(30)]
    run = log_of(
        tmp_path,
        each(
            "step:{t} smpl:{t} ep:{e} epch:{f} loss:{x}",
            t=[*map(thousands, steps)],
            e=[s // 10 for s in steps],
            f=[s / 395 for s in steps],
        ),
    )
    assert run.table["step"].tolist() == steps
    assert "the log rounds its steps: they are taken as 200 apart" in run.said


def test_steps_in_thousands_follow_a_finer_counter(tmp_path: Path) -> None:
    steps = [20_000 + 150 * k + 40 * (k % 3) for k in range(30)]
    log = log_of(
        tmp_path, each("step:{t} tokens:{n} loss:{x}", t=[*map(thousands, steps)], n=[512 * s for s in steps])
    )
    assert log.table["step"].tolist() == pytest.approx(steps, rel=0.02)
    assert log.table["loss"].tolist() == LOSSES
    assert "the log rounds its steps: they are taken from 'tokens'" in log.said


def test_steps_in_thousands_without_a_counter_are_interpolated(tmp_path: Path) -> None:
    steps = [1000 + 80 * k + 5 * k * k for k in range(30)]
    log = log_of(tmp_path, each("step:{t} loss:{x}", t=[*map(thousands, steps)]))
    assert log.table["step"].tolist() == pytest.approx(steps, abs=501)
    assert log.table["step"].is_monotonic_increasing
    assert log.table["loss"].iloc[-1] == LOSSES[-1]
    assert "the log rounds its steps: the steps between are interpolated" in log.said


def test_whole_thousands_stay(tmp_path: Path) -> None:
    log = log_of(tmp_path, each("step {t}k loss {x}", t=[*range(30)]))
    assert log.table["step"].tolist() == [1000 * k for k in range(30)]
    assert "rounds" not in log.said
