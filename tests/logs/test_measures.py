"""Logs in which nothing is called a loss: measures, totals, rows without names, lists in JSON, two networks."""

# ruff: noqa: E501 -- the lines of trainers are this long
import json
from pathlib import Path

import pytest

import toposcope as ts
from toposcope.core.errors import InputError

COUNT = 30
LOSSES = [round(0.1 + 0.7 * 0.9**n, 5) for n in range(COUNT)]
LAST, HELD = LOSSES[-1], round(LOSSES[-1] + 1, 5)


def read(tmp_path: Path, content: str, name: str = "train.log", **given: object) -> ts.Log:
    (tmp_path / name).write_text(content)
    return ts.read_log(tmp_path / name, **given)


def lines(line: str) -> str:
    return "".join(line.format(n=n, x=x, y=round(x + 1, 5), z=x + 0.25) + "\n" for n, x in enumerate(LOSSES))


def last(log: ts.Log) -> tuple[float, float, float | None]:
    table = log.runs[-1].table
    held = round(float(table["heldout_loss"].dropna().iloc[-1]), 5) if "heldout_loss" in table else None
    return float(table["step"].iloc[-1]), round(float(table["loss"].dropna().iloc[-1]), 5), held


TEXTS = {
    "XGBoost": ("[{n}]\ttrain-rmse:{x}\tval-rmse:{y}", (29, LAST, HELD)),
    "XGBoost's error rate": ("[{n}]\ttrain-error:{x}\ttest-error:{y}", (29, LAST, HELD)),
    "LightGBM": ("[{n}]\ttraining's l2: {x}\tvalid_1's l2: {y}", (29, LAST, HELD)),
    "LightGBM's logloss": ("[{n}]\ttraining's binary_logloss: {x}\tvalid_1's binary_logloss: {y}", (29, LAST, HELD)),
    "CatBoost": ("{n}:\tlearn: {x}\ttest: {y}\tbest: {y} ({n})\ttotal: {n}.3ms\tremaining: 1.2s", (29, LAST, HELD)),
    "CatBoost alone": ("{n}:\tlearn: {x}\ttotal: {n}.3ms\tremaining: 1.2s", (29, LAST, None)),
    "darknet": ("{n}: {x}, {z} avg, 0.001000 rate, 3.21 seconds, 64 images", (29, LAST, None)),
    "Torch7": (" | Epoch: [1][{n}/100]    Time 2.384  Data 0.001  Err {x}  top1  90.000  top5  50.0", (29, LAST, None)),
    "a mean squared error": ("Epoch {n}/60 | train MSE {x} | val MSE {y} | R2 0.5 | lr 1e-3", (29, LAST, HELD)),
    "an objective": ("Iter {n} objective: {x} grad_norm: 0.3", (29, LAST, None)),
    "MXNet": ("INFO:root:Epoch[0] Batch [{n}]\tSpeed: 1000.12 samples/sec\tmse={x}", (29, LAST, None)),
    "a total above its parts in a bar": ("[Adam] Tot:{x} PDE:2.9e-03/2.6e-04 IF:3.1e+00:   0%|    | {n}/120 [00:00<1:53:57,  1.75it/s]", (29, LAST, None)),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_a_measure_is_the_loss_where_nothing_is_called_one(tmp_path, name):
    line, wanted = TEXTS[name]
    assert last(read(tmp_path, lines(line))) == wanted


def test_a_note_names_the_measure(tmp_path):
    log = read(tmp_path, lines("[{n}]\ttrain-rmse:{x}"))
    assert "nothing is called a loss: 'train-rmse' is taken as loss" in log.notes


def test_a_measure_beside_unknown_quantities_is_not_taken(tmp_path):
    with pytest.raises(InputError, match="no line names a step and a loss"):
        read(tmp_path, lines("Epoch {n} Train, reg:{x}, stage1:0.7828, mae:84.73, mse:100.34"))
    with pytest.raises(InputError, match="no column for loss"):
        read(tmp_path, "epoch,reg,mse\n" + lines("{n},{x},{y}"), "log.csv")


def test_a_log_likelihood_and_a_count_are_no_losses(tmp_path):
    with pytest.raises(InputError, match="no column for loss"):
        read(tmp_path, "epoch,logprob\n" + lines("{n},-{x}"), "log.csv")
    with pytest.raises(InputError, match="no column for loss"):
        read(tmp_path, "epoch,total\n" + lines("{n},{n}"), "log.csv")


def test_darts_prints_a_batch_and_its_loss_without_names(tmp_path):
    rows = ["2019-01-01 10:00:00,123 epoch 0 lr 2.5e-02"]
    rows += [
        f"2019-01-01 10:00:02,123 train {10 * n:03d} {x:.6e} 20.649511 71.8" for n, x in enumerate(LOSSES)
    ]
    rows += [
        "2019-01-01 train_acc 30.97",
        f"2019-01-01 10:01 valid 000 {HELD:.6e} 21.3 70.1",
        "2019-01-01 valid_acc 38.4",
    ]
    assert last(read(tmp_path, "\n".join(rows) + "\n")) == (290, LAST, HELD)


def test_the_second_column_of_a_screen_is_held_out(tmp_path):
    title = "  Training:" + " " * 70 + "Testing:  \n"
    rows = (
        " " * 80
        + "Epoch 0  Iteration {n} loss = {y} * 1  eval = 0.1\nEpoch 0  Iteration {n}  learning_rate = 0.01 loss = {x} * 1  eval = 0.1"
    )
    assert last(read(tmp_path, title + lines(rows))) == (29, LAST, HELD)


@pytest.mark.parametrize(
    "line", ["iter {n} bits/dim: {x}", "[{n}/30] bpd {x}", "Epoch {n}/30, Train: {x}, Val: {y}"]
)
def test_bits_and_sets_alone_are_losses(tmp_path, line):
    assert last(read(tmp_path, lines(line)))[:2] == (29, LAST)


def test_cuda_convnet_counts_batches_within_epochs_and_tests(tmp_path):
    rows = [f"{n // 10 + 1}.{n % 10 + 1}... logprob:  {x}, 0.398 (0.763 sec)" for n, x in enumerate(LOSSES)]
    title = "======================Test output======================\nlogprob:  0.6537, 0.3593 "
    log = read(tmp_path, "\n".join([*rows[:20], title, *rows[20:]]) + "\n")
    assert last(log) == (COUNT, LAST, 0.6537)


TABLES = {
    "train_mse": ("epoch,train_mse,train_rmse,val_mse,val_rmse,r2\n", "{n},{x},{z},{y},{z},0.9"),
    "DeePMD": ("#  step      rmse_val    rmse_trn    rmse_e_val  rmse_e_trn         lr\n", "{n}      {y}    {x}      4.66e-01    4.67e-01      1.0e-03"),
    "older DeePMD": ("# batch      l2_tst    l2_trn    l2_e_tst  l2_e_trn         lr\n", "{n}      {y}    {x}      4.66e-01    4.67e-01      1.0e-03"),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_columns_of_measures(tmp_path, name):
    header, row = TABLES[name]
    assert last(read(tmp_path, header + lines(row), "log.csv" if "," in header else "out")) == (
        29,
        LAST,
        HELD,
    )


def test_rows_of_yolo_without_names_have_a_total(tmp_path):
    row = "{n}/99     8.42G   {x}  0.25         0   {z}         2       640         1    0.9968    0.0016         0"
    log = read(tmp_path, lines(row), "results.txt")
    assert last(log) == (29, round(LAST + 0.25, 5), None)
    assert log.runs[0].planned_steps == 99


def test_a_time_may_stand_among_columns(tmp_path):
    header = "      Iter       Train Loss   Remaining Time \n"
    assert last(read(tmp_path, header + lines("    {n}     {x}     5.90s "))) == (29, LAST, None)


def _json(name: str) -> object:
    train = [{"step": n, "loss": x} for n, x in enumerate(LOSSES)]
    val = [{"step": n, "loss": x + 1} for n, x in enumerate(LOSSES)][9::10]
    both = {"rmse": LOSSES, "l1": LOSSES}, {"rmse": [x + 1 for x in LOSSES], "l1": LOSSES}
    rows = [{"learn": [x, 3.0], "test": [x + 1, 3.0], "iteration": n} for n, x in enumerate(LOSSES)]
    metrics = [{"best_value": "Min", "name": "RMSE"}, {"best_value": "Max", "name": "R2"}]
    meta = {"learn_metrics": metrics, "test_metrics": metrics, "iteration_count": COUNT}
    return {
        "lists of training and evaluation": {"train": train, "val": val},
        "lists in the other order": {"config": {"lr": 1}, "val_history": val, "train_history": train},
        "by epoch": {f"epoch_{n}": {"loss": x, "val_loss": x + 1} for n, x in enumerate(LOSSES)},
        "by step": {str(n): {"train": {"loss": x}, "val": {"loss": x + 1}} for n, x in enumerate(LOSSES)},
        "pairs": {
            "loss": [[n, x] for n, x in enumerate(LOSSES)],
            "val_loss": [[n, x + 1] for n, x in enumerate(LOSSES)],
        },
        "by set": {
            "loss": {"train": LOSSES, "val": [x + 1 for x in LOSSES]},
            "acc": {"train": LOSSES, "val": LOSSES},
        },
        "LightGBM": {"training": both[0], "valid_1": both[1]},
        "CatBoost": {"meta": meta, "iterations": rows},
    }[name]


@pytest.mark.parametrize(
    "name",
    [
        "lists of training and evaluation",
        "lists in the other order",
        "LightGBM",
        "CatBoost",
        "by epoch",
        "by step",
        "pairs",
        "by set",
    ],
)
def test_json_of_lists(tmp_path, name):
    assert last(read(tmp_path, json.dumps(_json(name)), "log.json"))[1:] == (LAST, HELD)


def test_the_curve_that_tensorboard_exports_as_json(tmp_path):
    curve = [[1.7e9 + n, n, x] for n, x in enumerate(LOSSES)]
    assert last(read(tmp_path, json.dumps(curve), "loss.json")) == (29, LAST, None)


def test_an_object_of_a_mean_is_its_mean(tmp_path):
    rows = [
        {"Loss/loss": {"num": 3, "mean": x, "std": 1.0}, "Progress/tick": {"num": 1, "mean": n, "std": 0.0}}
        for n, x in enumerate(LOSSES)
    ]
    assert last(read(tmp_path, "\n".join(map(json.dumps, rows)), "stats.jsonl")) == (29, LAST, None)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("(epoch: 1, iters: {n}, time: 0.334, data: 0.702) D_A: 0.5 G_A: {x} cycle_A: 2.49 idt_A: 0.9", "G_A"),
        ("(epoch: 1, iters: {n}, time: 0.334, data: 0.702) G_GAN: {x} G_L1: 0.477 D_real: 0.5 D_fake: 0.6", "G_GAN"),
        ("( step: {n}, ) G_Loss: {x} G_ID: 0.130 D_fake: 0.036 D_real: 0.025 D_loss: 0.060", "G_Loss"),
    ],
)  # fmt: skip
def test_losses_of_two_networks_are_offered_by_name(tmp_path, line, name):
    with pytest.raises(InputError, match=f"none is the total: .*{name}") as refused:
        read(tmp_path, lines(line))
    assert "rename=" in str(refused.value)
    assert last(ts.read_log(tmp_path / "train.log", rename={name: "loss"}))[:2] == (29, LAST)
