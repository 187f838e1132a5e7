# ruff: noqa: E501 -- the lines of trainers are this long
"""Texts that say a loss in a sentence, beside a drawn bar, or under a total: the steps and losses read from them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from toposcope.core.errors import InputError
from toposcope.logs import read_log

LOSSES = [round(4.0 * 0.93**k + 0.5, 4) for k in range(30)]
STEPS = [10 * k for k in range(30)]


def in_steps(form: str) -> str:
    """Return a line for each loss: `i` counts them, `s` is the step, `e` and `p` an epoch of ten and its place."""
    return "".join(
        form.format(i=k, s=10 * k, e=k // 10, p=10 * (k % 10), x=x, y=round(x + 1, 4)) + "\n"
        for k, x in enumerate(LOSSES)
    )


def read_at(folder: Path, text: str) -> pd.DataFrame:
    """Return the rows with a loss of the only run of a text."""
    (folder / "train.log").write_text(text, newline="", encoding="utf-8")
    (run,) = read_log(folder / "train.log").runs
    return run.table


FORMS = {
    "is": "step {s}: loss is {x}",
    "is and a colon": "epoch: 0, step: {s}, Loss is: {x}, acc is: 0.5",
    "was": "Step {s} - the loss was {x}, took 2.1s",
    "of": "step {s} ended with a training loss of {x} (lr 0.001)",
    "so far": "Epoch 0, Step {s}, total used time 6.1 (s), avg loss so far is {x}",
    "currently": "iteration {s}: loss currently is {x}",
    "two places": "Loss at epoch {e} and iteration {p} is {x}",
    "two places and commas": "Training loss at epoch {e}, step {p}: {x}",
    "a place of a place": "Average loss at iteration {p} of epoch {e} = {x}",
    "a number before its place": "{s}/300 in 0 epoch finished at time 0:00:27.742635 from start, Loss is {x} Acc is 0.5",
    "of an epoch": "{p}/100 of epoch {e}, loss {x}",
    "an ordinal epoch": "{p}/100 in {e}th epoch: loss = {x}",
    "equals": "loss at step {s} = {x}",
    "after steps": "Train loss after {s} steps: {x}",
    "after iterations": "cost after {s} iterations is {x}",
    "after many": "Mean loss (of a batch) after {s} updates was {x}",
    "total": "[epoch: {e}/3, iter: {p}/100] total: {x} ",
    "total and rate": "epoch {e} step {p} lr=0.0010 Total: {x}",
    "total with an exponent": "epoch: [{e}/3], iter: {p}, total = {x}e+00",
    "a drawn bar": "Validation: |          | 0/? [00:00<?, ?it/s]\x1b[A[\x1b[37m12/09/24 13:56:50\x1b[0m] \x1b[34mINFO\x1b[0m   step {s}: loss {x:.4e}\x1b[0m",
    "a drawn bar of an epoch": "Epoch {e}:  45%|###  | 9/20 [00:01<00:01, 9.1it/s] step {p} loss {x}",
    "a drawn bar without codes": "Testing:   0%|          | 0/12 [00:00<?, ?it/s]Step {s}, loss: {x}",
    "a drawn bar and its cursor": "eval: 100%|####| 12/12 [00:01<00:00, 9.1it/s]\x1b[A\x1b[A | step {s} | loss {x} |",
}


@pytest.mark.parametrize("name", FORMS)
def test_a_loss_in_a_sentence(name: str, tmp_path: Path) -> None:
    table = read_at(tmp_path, in_steps(FORMS[name]))
    assert table["loss"].tolist() == pytest.approx(LOSSES, abs=1e-4)
    assert table["step"].tolist() == STEPS
    assert "heldout_loss" not in table


def test_the_plan_of_a_count_at_the_begin_of_a_line(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(in_steps("{s}/300 in 0 epoch finished, Loss is {x}"))
    assert read_log(tmp_path / "a.log").runs[0].planned_steps == 300


NO_LOSS = {
    "better": "step {s}: loss is 5% lower",
    "times": "step {s}: loss is 3 times lower",
    "improvement": "No improvement in loss after {s} steps: 3",
    "best": "step {s}: best loss so far is {x}",
    "total of seconds": "iter: {s}, data: 0.2, total: {x}",
    "total and unit": "step {s} total: {x}s",
    "total of a benchmark": "iter: {s} total: {x}",
    "lower": "step {s}: the loss is 0.5 lower",
    "total of samples": "step {s} total: 1200",
    "total of an epoch": "epoch: {i}, total: {x}",
}


@pytest.mark.parametrize("name", NO_LOSS)
def test_what_is_said_of_a_loss_is_no_loss(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(in_steps(NO_LOSS[name]))
    with pytest.raises(InputError):
        read_log(tmp_path / "a.log")
    (tmp_path / "a.log").write_text(in_steps("step {s} | loss {x}\n" + NO_LOSS[name]))
    assert read_log(tmp_path / "a.log").table["loss"].tolist() == LOSSES


def test_a_loss_that_is_not_a_number_counts_where_it_stands(tmp_path: Path) -> None:
    text = in_steps("epoch: 0, step: {s}, loss is: {x}")
    lost = read_at(tmp_path, text + "epoch: 0, step: 300, loss is: nan\n")
    assert lost["step"].iloc[-1] == 300
    assert "loss is nan" in lost
    stopped = read_at(tmp_path, text + "Loss is nan, stopping training\n")
    assert (stopped["step"].iloc[-1], stopped["loss"].iloc[-1]) == (290, LOSSES[-1])


BARS = {
    "a blank": "\rSFT:  10%|##   | {s}/300 [52:27<02:10,  5.94s/it, loss {x}]",
    "a blank and a rate": "\r 10%|##   | {s}/300 [52:27<02:10,  5.94s/it, loss {x}, lr 0.001]",
    "a colon": "\r 10%|##   | {s}/300 [52:27<02:10,  5.94s/it, loss: {x}]",
}


@pytest.mark.parametrize("name", BARS)
def test_the_last_drawing_of_a_bar_at_a_step_counts(name: str, tmp_path: Path) -> None:
    before = [9.0, *LOSSES[:-1]]
    text = "".join(
        BARS[name].format(s=10 * k + 10, x=old) + BARS[name].format(s=10 * k + 10, x=x) * 2
        for k, (old, x) in enumerate(zip(before, LOSSES, strict=True))
    )
    table = read_at(tmp_path, text + "\nDone!\n")
    assert table["step"].tolist() == [s + 10 for s in STEPS]
    assert table["loss"].tolist() == LOSSES


@pytest.mark.parametrize("form", ["epoch: {i}/30, loss: {x}", "step={i} loss={x}", "Iter: {i} | loss {x}"])
def test_records_without_ends_of_lines_are_told_apart(form: str, tmp_path: Path) -> None:
    first, rest = in_steps(form).split("\n", 1)
    table = read_at(tmp_path, f"{first}\n{rest.replace(chr(10), '')}\n")
    assert table["loss"].tolist() == LOSSES
    assert table["step"].tolist() == [*range(30)]
