"""Texts that say a loss in other words than `step 10 | loss 2.5`: the last step, loss and held-out loss."""

from pathlib import Path

import pytest

from toposcope.core.errors import SourceError
from toposcope.logs import read_log

LOSSES = [round(4.0 * 0.95**k + 0.5, 4) for k in range(30)]
LAST = LOSSES[-1]
EPOCHS = list(enumerate(LOSSES[:10], 1))


def in_steps(form: str, stride: int = 10) -> str:
    """Return a line for each loss."""
    return "".join(form.format(step=k * stride, loss=loss) + "\n" for k, loss in enumerate(LOSSES))


FORMS = {
    "cost after": ("Cost after iteration {step}: {loss}", 290),
    "loss after": ("Loss after iteration {step}: {loss}", 290),
    "loss at": ("Training loss (for one batch) at step {step}: {loss}", 290),
    "average at": ("Average loss at step {step}: {loss}", 290),
    "score at": (
        "06:53:32.929 [main] INFO o.d.ScoreIterationListener - Score at iteration {step} is {loss}",
        290,
    ),
    "arrow in brackets": ("[step {step}] loss → {loss}", 290),
    "arrow of two letters": ("step {step} loss -> {loss}", 290),
    "total among losses": (
        "[Epoch 0/3, Batch {step}/900] [Losses: x 0.2, conf 4.3, total {loss}, recall: 0.1]",
        290,
    ),
    "slash and mean": ("it {step} | loss {loss} (avg 9.9)", 290),
    "loguru": ("2024-01-02 10:00:01.123 | INFO     | __main__:train:45 - step={step} loss={loss}", 290),
    "absl": ("I0102 10:00:01.123456 140123 train.py:88] step {step}: loss = {loss}", 290),
    "rich": ("[10:00:01] INFO     step {step} loss {loss}              train.py:88", 290),
    "percent": ("Epoch 1: 45% | step {step} | loss {loss} | acc 45.2%", 290),
    "colours": ("\x1b[32m[train]\x1b[0m step \x1b[1m{step}\x1b[0m loss: \x1b[33m{loss}\x1b[0m", 290),
    "rate in e": ("step: {step}, lr: 3.000e-04, loss: {loss}", 290),
    "quotes of Python": ("INFO:root:{{'iter': {step}, 'train_loss': {loss}, 'lr': 1e-05}}", 290),
    "JSON after a time": ('[2024-01-02 10:00:00] {{"step": {step}, "loss": {loss}}}', 290),
}


@pytest.mark.parametrize("name", FORMS)
def test_step_and_loss(name: str, tmp_path: Path) -> None:
    form, step = FORMS[name]
    table = read_at(tmp_path, in_steps(form))
    assert (table["step"].iloc[-1], table["loss"].iloc[-1]) == (step, LAST)
    assert len(table) == len(LOSSES)
    assert "heldout_loss" not in table


def read_at(folder: Path, text: str, name: str = "train.log"):
    """Return the table of the only run of a text."""
    (folder / name).write_text(text, newline="", encoding="utf-8")
    log = read_log(folder / name)
    assert len(log.runs) == 1
    return log.runs[0].table


def test_epoch_and_batch_in_brackets(tmp_path: Path) -> None:
    lines = [f"[{e}, {s:5d}] loss: {LOSSES[e]}" for e in (1, 2) for s in range(2000, 14000, 2000)]
    table = read_at(tmp_path, "\n".join(lines) + "\n")
    assert (table["step"].iloc[-1], table["loss"].iloc[-1]) == (24_000, LOSSES[2])


@pytest.mark.parametrize("end", ["\n", "\r"])
def test_only_the_last_drawing_of_a_keras_bar_counts(tmp_path: Path, end: str) -> None:
    text = ""
    for epoch, loss in EPOCHS:
        drawings = [f"{k}/100 [==>...] - ETA: 1s - loss: 9.{k}" for k in (10, 50, 90)]
        full = f"100/100 [======] - 2s 20ms/step - loss: {loss} - val_loss: {loss + 1}"
        text += f"Epoch {epoch}/10\n" + end.join([*drawings, full]) + "\n"
    table = read_at(tmp_path, text)
    assert table["step"].tolist() == list(range(1, 11))
    assert table["loss"].tolist() == LOSSES[:10]
    assert table["heldout_loss"].iloc[-1] == LOSSES[9] + 1


def test_a_keras_bar_that_never_ends_is_read_by_its_drawings(tmp_path: Path) -> None:
    bars = "".join(f"{k}/1000 [==>...] - ETA: 1s - loss: {LOSSES[k]}\n" for k in range(1, 20))
    table = read_at(tmp_path, f"Epoch 1/2\n{bars}")
    assert table["loss"].iloc[-1] == LOSSES[19]


def test_a_bar_of_validation_is_no_training(tmp_path: Path) -> None:
    text = ""
    for epoch in range(3):
        text += "\r".join(
            f"Epoch {epoch}: {k}%|# | {k}/10 [00:01<00:10, 9.1it/s, loss={LOSSES[epoch * 9 + k - 1]}]"
            for k in range(1, 11)
        )
        text += "\n" + "\r".join(f"Val: 9%|# | {k}/5 [00:01<00:10, 9.1it/s, loss=9.0]" for k in range(1, 6))
        text += "\n"
    table = read_at(tmp_path, text)
    assert (table["step"].iloc[-1], table["loss"].iloc[-1]) == (30, LOSSES[27])


def test_losses_below_a_title_of_evaluation_are_held_out(tmp_path: Path) -> None:
    text = ""
    for k, loss in enumerate(LOSSES, 1):
        text += f"Epoch 0 | Step {k * 10}/900 | Loss: {loss}\n"
        if k % 10 == 0:
            text += f"Evaluation Results:\n   Loss: {loss + 1}\n   Perplexity: 3.1\n\n"
    table = read_at(tmp_path, text)
    assert (table["step"].iloc[-1], table["loss"].iloc[-1]) == (300, LAST)
    assert table["heldout_loss"].iloc[-1] == LAST + 1


@pytest.mark.parametrize("key", ["type", "event", "split"])
@pytest.mark.parametrize("word", ["val", "eval_step"])
def test_a_record_that_says_evaluation_is_held_out(tmp_path: Path, key: str, word: str) -> None:
    text = ""
    for k, loss in enumerate(LOSSES, 1):
        text += f'{{"{key}": "train", "step": {k}, "loss": {loss}}}\n'
        if k % 5 == 0:
            text += f'{{"{key}": "{word}", "step": {k}, "loss": 9.5}}\n'
    table = read_at(tmp_path, text + f'{{"{key}": "done", "step": 30}}\n', "log.jsonl")
    assert table["loss"].dropna().iloc[-1] == LAST
    assert table["heldout_loss"].dropna().iloc[-1] == 9.5


def test_a_last_step_without_a_loss_is_kept_if_it_has_what_others_have(tmp_path: Path) -> None:
    rows = "".join(f'{{"step": {k}, "loss": {loss}, "reward": {k}}}\n' for k, loss in enumerate(LOSSES))
    kept = read_at(tmp_path, rows + '{"step": 30, "reward": 31}\n', "log.jsonl")
    summary = read_at(tmp_path, rows + '{"step": 30, "runtime": 31}\n', "log.jsonl")
    assert (kept["step"].iloc[-1], summary["step"].iloc[-1]) == (30, 29)


def test_a_loss_beside_accuracy_of_validation_is_held_out(tmp_path: Path) -> None:
    rows = [
        f"epoch {e}: train acc: 50%, loss: {x}\nepoch {e}: val acc: 40%, loss: {x + 1}\n" for e, x in EPOCHS
    ]
    table = read_at(tmp_path, "".join(rows))
    last = table.iloc[-1]
    assert (last["step"], last["loss"], last["heldout_loss"]) == (10, LOSSES[9], LOSSES[9] + 1)


def test_stated_global_steps_say_how_many_batches_of_a_bar_are_training(tmp_path: Path) -> None:
    text = ""
    for epoch in range(3):
        bars = [
            f"Epoch {epoch}: 9%|# | {k}/12 [00:01<00:10, 9.1it/s, loss={LOSSES[epoch]}]" for k in (5, 10, 12)
        ]
        stated = (
            f"Epoch {epoch}, global step {(epoch + 1) * 10}: 'val_loss' reached {LOSSES[epoch] + 1} (best)"
        )
        text += "\r".join(bars) + f"{stated}\n"
    table = read_at(tmp_path, text)
    assert table["step"].tolist() == [5, 10, 15, 20, 25, 30]
    assert table["heldout_loss"].iloc[-1] == LOSSES[2] + 1


@pytest.mark.parametrize("name", ["log.csv", "log.txt"])
def test_bare_columns_are_read_where_one_counts_and_one_varies(tmp_path: Path, name: str) -> None:
    settings = "".join(f"{k * 100}, {loss}, 0.02\n" for k, loss in enumerate(LOSSES))
    table = read_at(tmp_path, settings, name)
    assert (table["step"].iloc[-1], table["loss"].iloc[-1]) == (2900, LAST)
    (tmp_path / "two.csv").write_text("".join(f"{k}, {x}, {x + 1}\n" for k, x in enumerate(LOSSES)))
    with pytest.raises(SourceError, match="have no names"):
        read_log(tmp_path / "two.csv")


def test_the_quickstart_of_pytorch(tmp_path: Path) -> None:
    text = ""
    for epoch in range(3):
        text += f"Epoch {epoch + 1}\n-----\n"
        text += "".join(f"loss: {LOSSES[k]:>7f}  [{k * 6400 + 64:>5d}/60000]\n" for k in range(10))
        text += "Test Error: \n Accuracy: 70.0%, Avg loss: 0.500000 \n\n"
    table = read_at(tmp_path, text)
    trained = table.dropna(subset="loss").iloc[-1]
    assert (trained["step"], trained["loss"]) == (177_664, round(LOSSES[9], 6))
    assert table["heldout_loss"].dropna().iloc[-1] == 0.5


def test_a_loss_before_a_bar(tmp_path: Path) -> None:
    bars = [f"loss: {LOSSES[k]}: 9%|# | {k}/29 [00:01<00:10, 9.1it/s]" for k in range(1, 30)]
    table = read_at(tmp_path, "\r".join(bars) + "\n")
    assert (table["step"].iloc[-1], table["loss"].iloc[-1]) == (29, LAST)


def test_losses_inside_a_printed_dictionary_keep_its_step(tmp_path: Path) -> None:
    table = read_at(tmp_path, in_steps("{{'step': {step}, 'metrics': {{'loss': {loss}, 'acc': 0.5}}}}"))
    assert (table["step"].iloc[-1], table["loss"].iloc[-1]) == (290, LAST)
