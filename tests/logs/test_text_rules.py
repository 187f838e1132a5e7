# ruff: noqa: E501 -- the lines of trainers are this long
"""Text logs of any trainer: which number is the step, which the loss, and which is held out."""

from __future__ import annotations

import numpy as np
import pytest

from toposcope.core.errors import InputError
from toposcope.logs import read_log

COUNT = 60
LOSSES = [round(2 + 4 / (i + 3) ** 0.5, 4) for i in range(COUNT)]
STEPS = [10 * (i + 1) for i in range(COUNT)]
EPOCHS = [*range(COUNT)]


def _lines(line: str, **more: object) -> str:
    """Return a line for each record: `i` is its number, `s` its step, `x` its loss, `e` and `p` epoch and place."""
    return "".join(
        line.format(i=i, s=s, x=x, y=x + 1, e=i // 20, p=10 * (i % 20), k=s, **more) + "\n"
        for i, (s, x) in enumerate(zip(STEPS, LOSSES, strict=True))
    )


def _ranks() -> str:
    return "".join(
        f"[rank{rank}]:[titan] 2024-01-01 00:00:00,000 - root - INFO - step: {s}  loss:  {x + rank / 10:.4f}  grad_norm: 1.2\n"
        for s, x in zip(STEPS, LOSSES, strict=True)
        for rank in range(4)
    )


BAR = "  {i}%|#    | {s}/600 [00:10<01:00,  1.2it/s]\n{{'loss': {x:.4f}, 'grad_norm': 1.2, 'epoch': 0.5}}"
CASES = {
    "thousands": (_lines("step {s},000 | loss {x:.4f}"), [1000 * s for s in STEPS], None),
    "kilo": (_lines("step {s}k | loss {x:.4f}"), [1000 * s for s in STEPS], None),
    "underscores": (_lines("step {s}_000 | loss {x:.4f}"), [1000 * s for s in STEPS], None),
    "decimal comma": (_lines("step {s} loss {x:.4f}").replace(".", ","), STEPS, None),
    "points and commas": (
        _lines("step {s}.000; loss {x:.4f}").replace(".", ",").replace(",000;", ".000;"),
        [1000 * s for s in STEPS],
        None,
    ),
    "bar of loading": ("Loading checkpoint shards: 100%|####| 2/2 [00:03<00:00, 1.6s/it]\n" + _lines(BAR), STEPS, 600),
    "dev loss": (_lines("Iter: {s} | Train Loss: {x:.4f} | Dev Loss: {y:.4f} | Time: 0:00:31"), STEPS, None),
    "tags": (_lines("[Train] Epoch: {i}, Loss: {x:.4f}\n[Val] Epoch: {i}, Loss: {y:.4f}"), EPOCHS, None),
    "evaluation at the end": (
        _lines("INFO:tensorflow:loss = {x:.5f}, step = {s} (1.2 sec)")
        + "INFO:tensorflow:Saving dict for global step 603: accuracy = 0.5, global_step = 603, loss = 6.21\n",
        STEPS,
        None,
    ),
    "four ranks": (_ranks(), STEPS, None),
    "srun": ("".join(f"{line[5]}: {line[8:]}\n" for line in _ranks().splitlines()), STEPS, None),
    "two columns": (_lines("{s} {x}"), STEPS, None),
    "fastai": ("epoch     train_loss  valid_loss  time\n" + _lines("{i}         {x:.6f}  {y:.6f}    00:12  "), EPOCHS, None),
    "build-nanogpt": ("10 val 4.36\n10 hella 0.25\n" + _lines("{s} train {x:.6f}"), STEPS, None),
    "llama2.c": (_lines("{s} | loss {x:.4f} | lr 5.0e-04 | 120.50ms | mfu 12.30%"), STEPS, None),
    "gpt-2-simple": (_lines("[{s} | 25.00] loss={x:.4f} avg={y:.4f}"), STEPS, None),
    "composer": (_lines("[batch={s}/1000]:\n\t Train time/epoch: 0\n\t Train loss/train/total: {x:.4f}"), STEPS, 1000),
    "OpenNMT": (_lines("[2024-01-01 INFO] Step {s}/1000; acc: 20.0; ppl:  74.4; xent: {x:.4f}; 12/12 tok/s; 3 sec;"), STEPS, 1000),
    "mmengine": (_lines("2024/01/01 - mmengine - INFO - Iter(train) [  {s}/1000]  lr: 1e-4  loss: {x:.4f}"), STEPS, 1000),
    "timm": (_lines("Train: 0 [  {s}/1000 ( 1%)]  Loss: {x:.4f} ({y:.4f})  Time: 0.400s"), STEPS, 1000),
    "RWKV": (_lines("{i} {x:.6f} 74.3 0.00060000 2024-01-01 00:00:00.000000 {i}"), EPOCHS, None),
    "Keras": (_lines("Epoch {i}/100\n100/100 [====] - 5s 50ms/step - loss: {x:.4f} - val_loss: {y:.4f}"), EPOCHS, 100),
    "tensor": (_lines("step {s} loss tensor({x:.4f}, device='cuda:0', grad_fn=<NllLossBackward0>)"), STEPS, None),
    "numpy": (_lines("step {s} loss np.float64({x:.4f})"), STEPS, None),
    "total": (_lines("epoch: 1/1, iter: {s}/1000, total_loss: {x:.4f}, l1_loss: 0.0, cls_loss: 1.0"), STEPS, 1000),
    "zeros": (_lines("step {s} loss {x:.4f}").replace("step 310", "\0" * 64 + "\nstep 310"), STEPS, None),
    "cut number": (_lines("step {s} loss {x:.4f}") + "step 610 loss 2", STEPS, None),
    "global step": (_lines("epoch {e} step {p} global_step {s} loss {x:.4f}"), STEPS, None),
    "step of an epoch": (_lines("Epoch [{e}/3], Step [{p}/200], Loss: {x:.4f}"), [s - 10 for s in STEPS], 600),
    "place": (_lines("Epoch:[{e}/3]({p}/200) loss:{x:.4f} lr:0.0005"), [s - 10 for s in STEPS], 600),
    "samples": (_lines("Train Epoch: {e} [{p}/200 (3%)]\tLoss: {x:.6f}"), [s - 10 for s in STEPS], None),
    "epoch alone": (_lines("2024-01-01 - INFO - Epoch {e} - Batch loss: {x:.4f}"), [*range(1, COUNT + 1)], None),
}  # fmt: skip
HELD = {"dev loss", "tags", "fastai", "Keras", "evaluation at the end", "build-nanogpt"}


@pytest.mark.parametrize("name", CASES)
def test_a_line_says_by_its_words_which_number_is_which(name, tmp_path):
    text, steps, planned = CASES[name]
    (tmp_path / "train.log").write_text(text)
    log = read_log(tmp_path / "train.log")
    (run,) = log.runs
    rows = run.table[run.table["loss"].notna()]
    assert rows["step"].tolist() == steps
    assert rows["loss"].tolist() == pytest.approx(LOSSES, abs=1e-4)
    assert run.planned_steps == planned
    held = run.table.get("heldout_loss")
    assert (held is not None) == (name in HELD)
    if name in ("dev loss", "tags", "fastai", "Keras"):
        assert held.tolist() == pytest.approx([x + 1 for x in LOSSES], abs=1e-4)
    assert "\n" not in log.said


def test_what_was_counted_and_left_out_is_said(tmp_path):
    file = tmp_path / "a.log"
    for name, said in (
        ("step of an epoch", "steps counted within the epoch and on over the epochs (200 each)"),
        ("epoch alone", "steps counted within the epoch"),
        ("four ranks", "4 ranks write into this log: rank 0 is read"),
        ("srun", "4 ranks write into this log: rank 0 is read"),
    ):
        file.write_text(CASES[name][0])
        assert said in read_log(file).said


def test_a_comma_that_may_be_either_is_asked_for(tmp_path):
    file = tmp_path / "a.log"
    file.write_text("".join(f"step {n} loss 2,{500 + n}\n" for n in range(9)))
    with pytest.raises(InputError, match=r"the loss '2,500' may be 2.500 or 2500; write it as") as caught:
        read_log(file)
    assert "\n" not in str(caught.value)
    file.write_text(file.read_text() + "step 10 loss 0,999\n")
    assert read_log(file).table["loss"].iloc[-1] == 0.999
    file.write_text("step 1 loss 2,500\nstep 2 loss 1,250.5\nstep 3 loss 980.25\n")
    assert read_log(file).table["loss"].tolist() == [2500, 1250.5, 980.25]


def test_a_loss_that_is_nan_keeps_its_step(tmp_path):
    lines = CASES["epoch alone"][0].splitlines()
    text = "\n".join(line[:-6] + "nan" if "Epoch 2" in line else line for line in lines) + "\n"
    (tmp_path / "a.log").write_text(text)
    table = read_log(tmp_path / "a.log").table
    assert table["loss"].isna().sum() == 20
    assert table["step"].tolist() == [*range(1, COUNT + 1)]


def test_a_held_out_loss_without_a_step_belongs_to_the_step_before_it(tmp_path):
    lines = [
        f"step {n}/90 loss {9 / n:.3f}" + ("\nValidation loss: 3.5" if n % 30 == 0 else "")
        for n in range(10, 91, 10)
    ]
    (tmp_path / "a.log").write_text("\n".join(lines) + "\n")
    table = read_log(tmp_path / "a.log").table.set_index("step")
    assert table["heldout_loss"].dropna().index.tolist() == [30, 60, 90]
    # The place of a batch of the evaluation is no step of training, and its mean is the loss.
    lines = [f"Train: [{e}/3][{p}/40] loss 3.{e}{p} (3.1)" for e in range(3) for p in (0, 20)]
    lines.insert(4, "Test: [0/5] Loss 4.0 (4.0)\nTest: [4/5] Loss 4.8 (4.4)")
    (tmp_path / "b.log").write_text("\n".join(lines) + "\n")
    table = read_log(tmp_path / "b.log").table.set_index("step")
    assert table.index.tolist() == [0, 20, 40, 60, 80, 100]
    assert table["heldout_loss"].dropna().to_dict() == {60: 4.4}


def test_records_that_the_shell_held_back_get_their_steps_from_their_epochs(tmp_path):
    """The bar goes to another stream, and is at its end before the first record is written."""
    bars = "".join(f" {n}%|##  | {n}/300 [00:10<01:00, 1.2it/s]\r" for n in range(301))
    records = "".join(f"{{'loss': {9 - n / 10:.4f}, 'epoch': {n / 10:.2f}}}\n" for n in range(1, 31))
    (tmp_path / "a.log").write_text(
        bars + records + "{'train_runtime': 3.0, 'train_loss': 3.0, 'epoch': 3.0}\n"
    )
    (run,) = read_log(tmp_path / "a.log").runs
    assert (run.table["step"].tolist(), run.planned_steps) == ([*range(10, 301, 10)], 300)


def test_a_log_in_columns_of_a_page_is_read(tmp_path):
    rows = "".join(f"| {s} | {x:.4f} | {x + 0.1:.4f} |\n" for s, x in zip(STEPS, LOSSES, strict=True))
    (tmp_path / "notes.md").write_text(
        "# Run\n| Step | Training Loss | Validation Loss |\n|---|---|---|\n" + rows
    )
    table = read_log(tmp_path / "notes.md").table
    assert np.allclose(table["heldout_loss"] - table["loss"], 0.1)
    assert table["step"].tolist() == STEPS
