"""Every dialect of logs, as its trainer's source prints it: step, losses, plan, and what is said."""

from __future__ import annotations

import json
import math
import sqlite3
import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from toposcope.core.errors import InputError
from toposcope.logs import read_log

SCRIPT = """import os
val_loss_every = int(os.environ.get("VAL_LOSS_EVERY", 1000))
print(f"step:{step}/{args.iterations} train_loss:{train_loss.item():.4f}")
print0(f"iter {iter_num}: loss {lossf:.4f}, time {dt*1000:.2f}ms")
"""
TEXTS = {
    "modded-nanogpt": (
        SCRIPT
        + "step:0/40 val_loss:6.9304 val_bpb:4.1046 train_time:0ms step_avg:0.01ms\n"
        "step:10/40 train_loss:6.5 train_time:143ms step_avg:143.45ms\n"
        "step:20/40 train_loss:5.25 lr_scale:1.0000 train_time:155ms step_avg:77.57ms\n"
        "step:20/40 val_loss:5.5 val_bpb:4.0 train_time:0ms\n"
        "stopping_early: wallclock_cap train_time:600090ms step:20/40\n"
        "final_int8_zlib_roundtrip val_loss:2.0252 val_bpb:1.1995 eval_time:2235ms\n",
        [(0, math.nan, 6.9304), (10, 6.5, math.nan), (20, 5.25, 5.5)],
        40,
    ),
    "Megatron-LM": (
        "using world size: 8, data-parallel size: 8\n"
        " [2024-05-01 10:00:00] iteration       10/      40 | consumed samples:          320 | "
        "elapsed time per iteration (ms): 512.3 | learning rate: 1.500000E-04 | global batch size:    32 | "
        "lm loss: 6.500000E+00 | loss scale: 1.0 | grad norm: 1.234 | number of skipped iterations:   0 | "
        "number of nan iterations:   0 |\n"
        " [2024-05-01 10:00:09] iteration       20/      40 | consumed samples:          640 | "
        "elapsed time per iteration (ms): 512.3 | learning rate: 1.400000E-04 | global batch size:    32 | "
        "lm loss: 5.250000E+00 | loss scale: 1.0 | grad norm: 1.1 | number of skipped iterations:   0 |\n"
        "------------------------------------------------------------------------------------------\n"
        " validation loss at iteration 20 | lm loss value: 5.500000E+00 | lm loss PPL: 2.446919E+02 | \n",
        [(10, 6.5, math.nan), (20, 5.25, 5.5)],
        40,
    ),
    "transformers": (
        "***** Running training *****\n  Num examples = 320\n  Num Epochs = 2\n"
        "  Total optimization steps = 40\n"
        "  0%|          | 0/40 [00:00<?, ?it/s]\r"
        " 25%|##5       | 10/40 [00:01<00:03,  9.0it/s]\r"
        "{'loss': 6.5, 'grad_norm': 1.25, 'learning_rate': 3e-05, 'epoch': 0.5}\n"
        " 50%|#####     | 20/40 [00:02<00:02,  9.0it/s]\n"
        "{'loss': '5.25', 'grad_norm': '1.1', 'learning_rate': '2e-05', 'epoch': '1.0'}\n"
        "  0%|          | 0/5 [00:00<?, ?it/s]\r100%|####| 5/5 [00:00<00:00, 50.0it/s]\n"
        "{'eval_loss': 5.5, 'eval_runtime': 0.1, 'eval_samples_per_second': 100.0, 'epoch': 1.0}\n"
        "{'train_runtime': 4.0, 'train_samples_per_second': 80.0, 'train_loss': 5.9, 'epoch': 2.0}\n",
        [(10, 6.5, math.nan), (20, 5.25, 5.5)],
        40,
    ),
    "nanoGPT": (
        SCRIPT
        + "number of parameters: 10.65M\nstep 0: train loss 6.6, val loss 6.7\n"
        "iter 0: loss 6.625, time 4302.11ms, mfu -100.00%\niter 10: loss 6.5, time 43.11ms, mfu 12.30%\n"
        "step 20: train loss 5.2, val loss 5.5\niter 20: loss 5.25, time 43.2ms, mfu 12.31%\n",
        [(0, 6.625, 6.7), (10, 6.5, math.nan), (20, 5.25, 5.5)],
        None,
    ),
    "LitGPT": (
        "Seed set to 42\nTime to instantiate model: 0.05 seconds.\nTotal parameters: 14,067,712\n"
        "Epoch 1 | iter 30 step 7 | loss train: 6.700, val: n/a | iter time: 120.33 ms remaining time: 0:01:02\n"  # noqa: E501
        "Epoch 1 | iter 40 step 10 | loss train: 6.500, val: n/a | iter time: 120.33 ms (step) remaining time: 0:01\n"  # noqa: E501
        "Epoch 1 | iter 80 step 20 | loss train: 5.250, val: n/a | iter time: 119.00 ms (step) remaining time: 0:00\n"  # noqa: E501
        "Validating ...\niter 80: val loss 5.5000, val time: 812.10 ms\n",
        [(7, 6.7, math.nan), (10, 6.5, math.nan), (20, 5.25, 5.5)],
        None,
    ),
    "llm.c": (
        "| Parameter             | Value      |\n"
        "val loss 6.93\n"
        "step   10/40 | loss 6.500000 (+nanz)| norm 15.37 (+nanz)| lr 8.57e-07 | 3056.36 ms | 42.6% bf16 MFU\n"  # noqa: E501
        "step   20/40 | loss 5.250000 (+0.12z)| norm 2.1 (+0.10z)| lr 1.71e-06 | 2852.10 ms | 45.7% bf16 MFU\n"  # noqa: E501
        "val loss 5.500000\n",
        [(0, math.nan, 6.93), (10, 6.5, math.nan), (20, 5.25, 5.5)],
        40,
    ),
    "torchtitan": (
        "[rank0]:[titan] 2024-09-01 10:00:00,000 - root - INFO - Training starts at step 1, with local batch "
        "size 8, global batch size 64, sequence length 2048, total steps 40 (warmup 4)\n"
        "[rank0]:[titan] 2024-09-01 10:00:01,000 - root - INFO - \x1b[31mstep: 10  \x1b[32mloss:  6.5000  "
        "\x1b[38;2;180;60;0mgrad_norm:  1.2000  \x1b[38;2;54;234;195mmemory:  9.60GiB(10.10%)  "
        "\x1b[34mtps: 5,123  \x1b[36mtflops: 30.10  \x1b[35mmfu: 9.65%\x1b[39m\n"
        "[rank0]:[titan] 2024-09-01 10:00:02,000 - root - INFO - step: 20  loss:  5.2500  grad_norm:  1.1000  "  # noqa: E501
        "memory:  9.60GiB(10.10%)  tps: 5,123  tflops: 30.10  mfu: 9.65%\n"
        "[rank0]:[titan] 2024-09-01 10:00:03,000 - root - INFO - validate step: 20  loss:  5.5000  memory: "
        "9.60GiB(10.10%)  tps: 9,000\n",
        [(10, 6.5, math.nan), (20, 5.25, 5.5)],
        40,
    ),
    "verl": (
        "(TaskRunner pid=12) config: {'trainer': {'total_epochs': 2}}\n"
        "(TaskRunner pid=12) step:10 - train/loss:6.5 - train/lr(1e-3):0.01 - train/time(s):np.float64(0.5)\n"
        "(TaskRunner pid=12) step:20 - train/loss:5.25 - train/lr(1e-3):0.02\n"
        "(TaskRunner pid=12) step:20 - val/loss:np.float64(5.5)\n",
        [(10, 6.5, math.nan), (20, 5.25, 5.5)],
        None,
    ),
    "OLMo": (
        "2024-05-01 10:00:00.000\thost:0\tolmo.train:1\tINFO\t[step=10/40,epoch=0]\n"
        "    train/CE loss=6.500\n    optim/total grad norm=1.250\n    optim/LR (group 0)=3.0E-4\n"
        "    throughput/device/TPS=12,345\n"
        "2024-05-01 10:00:01.000\thost:0\tolmo.train:1\tINFO\t[step=20/40,epoch=0]\n"
        "    train/CE loss=5.250\n    eval/CE loss=5.500\n"
        "2024-05-01 10:00:02.000\thost:0\tolmo.train:1\tINFO\tSaving checkpoint...\n",
        [(10, 6.5, math.nan), (20, 5.25, 5.5)],
        40,
    ),
    "JSON in text": (
        'INFO start {"config": 1}\nINFO {"step": 10, "train": {"loss": 6.5}}\n'
        'INFO {"step": 20, "train": {"loss": 5.25}, "val": {"loss": "5.5"}}\nINFO {"step": 30, "tr',
        [(10, 6.5, math.nan), (20, 5.25, 5.5)],
        None,
    ),
    "progress bar": (
        "Sanity Checking DataLoader 0: 100%|##########| 2/2 [00:00<00:00, 90.0it/s]\r"
        "Epoch 0:  50%|#####     | 10/20 [00:01<00:01, 9.0it/s, v_num=0, train_loss=6.50]\r"
        "Validation DataLoader 0: 100%|###| 5/5 [00:00<00:00, 90.0it/s, val_loss=9.9]\r"
        "Epoch 0: 100%|##########| 20/20 [00:02<00:00, 9.0it/s, v_num=0, train_loss=5.25, val_loss=5.50]\n",
        [(10, 6.5, math.nan), (20, 5.25, 5.5)],
        None,
    ),
    "text": (
        "Epoch 1 [step 10/40] loss = 6.5, lr = 1e-4\nsaved model.pt\nEpoch 1 [step 20/40] loss = 5.25 val_loss = 5.5\n",  # noqa: E501
        [(10, 6.5, math.nan), (20, 5.25, 5.5)],
        40,
    ),
}  # fmt: skip


def losses(table: pd.DataFrame) -> list[tuple[float, ...]]:
    return [tuple(row) for row in table.reindex(columns=["step", "loss", "heldout_loss"]).to_numpy(float)]


def same(found, wanted) -> bool:
    return np.array_equal(np.array(found, float), np.array(wanted, float), equal_nan=True)


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_log_is_read_as_its_trainer_prints_it(name, tmp_path):
    text, wanted, planned = TEXTS[name]
    file = tmp_path / "train.log"
    file.write_text(text, encoding="utf-8")
    log = read_log(file)
    assert log.dialect == name
    assert same(losses(log.table), wanted)
    assert [run.planned_steps for run in log.runs] == [planned]
    assert log.said.startswith(f"recognised as {name}: step from ")
    assert "\n" not in log.said
    assert log.metrics["loss"].dropna().tolist()[-1] == 5.25


@pytest.mark.parametrize("name", TEXTS)
def test_two_runs_in_one_file_are_cut_where_the_step_falls_and_a_run_twice_is_one(name, tmp_path):
    text, wanted, _ = TEXTS[name]
    file = tmp_path / "train.log"
    file.write_text(text.rpartition("\n")[0] + "\n" + text.replace("5.25", "5.75"), encoding="utf-8")
    log = read_log(file)
    assert [run.name for run in log.runs] == ["train-1", "train-2"]
    for run, last in zip(log.runs, (5.25, 5.75), strict=True):
        assert same(
            losses(run.table), [(s, last if loss == 5.25 else loss, held) for s, loss, held in wanted]
        )
    assert "split into 2 runs" in log.said
    file.write_text(text.rpartition("\n")[0] + "\n" + text, encoding="utf-8")
    twice = read_log(file)
    assert [run.name for run in twice.runs] == ["train"]
    assert same(losses(twice.table), wanted)


def test_what_a_restart_trained_again_is_left_out(tmp_path):
    lines = [f"iter {s}: loss {9 - s / 100:.3f}, time 1.00ms, mfu 1.00%" for s in range(0, 500, 10)]
    again = [f"iter {s}: loss {8 - s / 100:.3f}, time 1.00ms, mfu 1.00%" for s in range(400, 450, 10)]
    (tmp_path / "train.log").write_text("\n".join([*lines, *again]))
    (run,) = read_log(tmp_path / "train.log").runs
    assert run.table["step"].tolist() == list(range(0, 450, 10))
    assert run.table.set_index("step")["loss"][410] == pytest.approx(3.9)


def test_a_bar_counts_the_steps_of_its_epochs_and_one_without_epochs_states_the_plan(tmp_path):
    bar = "Epoch {}: 50%|##   | {}/20 [00:01<00:01, 9.0it/s, train_loss={}]\n"
    (tmp_path / "a.log").write_text(
        "".join(bar.format(e, s, 7 - e - s / 100) for e in (1, 2, 3) for s in (10, 20))
    )
    (run,) = read_log(tmp_path / "a.log").runs
    assert (run.table["step"].tolist(), run.planned_steps) == ([10, 20, 30, 40, 50, 60], None)
    one = "train: 50%|##   | {0}/200 [00:01<00:01, 9.0it/s, loss=6.{0}]\r"
    (tmp_path / "b.log").write_text("".join(one.format(s) for s in (10, 20, 20, 30)))
    (run,) = read_log(tmp_path / "b.log").runs
    assert (run.table["step"].tolist(), run.planned_steps) == ([10, 20, 30], 200)


def test_mlxs_validation_is_no_training_loss_however_it_is_written(tmp_path):
    rates = "Learning Rate 1.000e-05, It/sec 1.2, Tokens/sec 100.1"
    lines = [f"Iter 10: Val loss 5.500, Val took 3.1s\nIter 10: Train loss 6.500, {rates}",
             f"Iter 20: Train loss 5.250, {rates}\nIter 20: Val loss 5.400, Val took 3.1s"]  # fmt: skip
    (tmp_path / "mlx.log").write_text("\n".join(lines))
    log = read_log(tmp_path / "mlx.log")
    assert same(losses(log.table), [(10, 6.5, 5.5), (20, 5.25, 5.4)])
    assert log.table["learning_rate"].tolist() == [1e-5, 1e-5]


def test_fairseqs_updates_and_llama_factorys_steps_are_steps_and_the_plan_is_read(tmp_path):
    record = 'INFO | train_inner | {{"epoch": 1, "update": 0.{0}, "loss": "6.{0}", "num_updates": "{0}"}}\n'
    (tmp_path / "fairseq.log").write_text("".join(record.format(s) for s in (10, 20)))
    assert losses(read_log(tmp_path / "fairseq.log").table)[-1][:2] == (20, 6.20)
    rows = [{"current_steps": s, "total_steps": 40, "loss": 7 - s / 10, "epoch": s / 40} for s in (10, 20)]
    (tmp_path / "trainer_log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (run,) = read_log(tmp_path / "trainer_log.jsonl").runs
    assert (run.table["step"].tolist(), run.planned_steps) == ([10, 20], 40)


def test_rows_of_a_table_in_no_order_are_one_run_and_many_short_runs_are_many(tmp_path):
    step = np.random.default_rng(0).permutation(np.arange(10, 1210, 10))
    pd.DataFrame({"step": step, "loss": 3.0}).to_csv(tmp_path / "mixed.csv", index=False)
    assert len(read_log(tmp_path / "mixed.csv").runs) == 1
    many = pd.DataFrame({"step": np.tile([1, 2, 3, 4], 20), "loss": np.arange(80.0)})
    many.to_csv(tmp_path / "many.csv", index=False)
    assert len(read_log(tmp_path / "many.csv").runs) == 20


def test_a_last_row_of_a_table_that_is_being_written_is_left_out(tmp_path):
    (tmp_path / "metrics.csv").write_text("epoch,step,train_loss\n0,10,6.5\n0,20,5.25\n0,3")
    assert losses(read_log(tmp_path / "metrics.csv").table)[-1][:2] == (20, 5.25)
    (tmp_path / "whole.csv").write_text("epoch,step,train_loss\n0,10,6.5\n0,20,5.25")
    assert losses(read_log(tmp_path / "whole.csv").table)[-1][:2] == (20, 5.25)


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def _field(number: int, content: bytes | int) -> bytes:
    if isinstance(content, int):
        return _varint(number << 3) + _varint(content)
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def wandb_file(rows: list[dict[str, object]], name: str, config: dict[str, object] | None = None) -> bytes:
    """Return an offline run as W&B's DataStore writes it: blocks of 32 KiB, records of at most a block."""
    said = b"".join(
        _field(1, _field(1, k.encode()) + _field(16, json.dumps(v).encode()))
        for k, v in (config or {}).items()
    )
    records = [_field(17, _field(1, b"abc123") + _field(4, said) + _field(8, name.encode()))]
    for step, row in enumerate(rows):
        items = [
            _field(1, _field(1, k.encode()) + _field(16, json.dumps(v).encode())) for k, v in row.items()
        ]
        records.append(_field(2, b"".join(items) + _field(2, _field(1, step))))
    out = b":W&B" + struct.pack("<HB", 0xBEE1, 0)
    for record in records:
        first = True
        while True:
            left = 32768 - len(out) % 32768
            if left < 7:
                out += b"\0" * left
                continue
            piece, record = record[: left - 7], record[left - 7 :]
            kind = {(True, False): 1, (True, True): 2, (False, True): 3, (False, False): 4}[
                first, bool(record)
            ]
            out += struct.pack("<IHB", 0, len(piece), kind) + piece
            first = False
            if not record:
                break
    return out


HF = [
    {"train/loss": 6.5, "train/global_step": 10, "note": "x" * 40_000},
    {"train/loss": 5.25, "train/global_step": 20},
    {"eval/loss": 5.5, "train/global_step": 20},
]
WANTED = [(10, 6.5, math.nan), (20, 5.25, 5.5)]


def test_an_offline_wandb_file_is_read_and_its_own_counter_is_not_the_step(tmp_path):
    folder = tmp_path / "wandb" / "offline-run-1-abc123"
    folder.mkdir(parents=True)
    content = wandb_file(HF, "bold-sun-1", {"max_steps": 400, "model": {"n_layer": 2}})
    (folder / "run-abc123.wandb").write_bytes(content)
    for place in (folder / "run-abc123.wandb", tmp_path / "wandb", tmp_path):
        log = read_log(place)
        assert (log.dialect, log.runs[0].name) == ("W&B", "bold-sun-1")
        assert same(losses(log.table), WANTED)
        assert log.taken["step"] == "train/global_step"
    (tmp_path / "wandb" / "latest-run").symlink_to(folder)  # as W&B leaves it: the same run again
    assert [run.planned_steps for run in read_log(tmp_path / "wandb").runs] == [400]
    (folder / "run-abc123.wandb").write_bytes(content[:-3])  # a live file
    assert same(losses(read_log(folder).table), [(10, 6.5, math.nan), (20, 5.25, math.nan)])


def test_trackios_database_has_a_run_for_each_name(tmp_path):
    base = sqlite3.connect(tmp_path / "project.db")
    base.execute(
        "create table metrics (id integer primary key, timestamp text, run_name text, step integer, metrics text)"  # noqa: E501
    )
    rows = [
        (run, s, json.dumps({"train/loss": 7 - s / 10 + k})) for k, run in enumerate("ab") for s in (10, 20)
    ]
    base.executemany("insert into metrics (run_name, step, metrics) values (?, ?, ?)", rows)
    base.commit()
    base.close()
    log = read_log(tmp_path / "project.db")
    assert (log.dialect, [run.name for run in log.runs]) == ("trackio", ["a", "b"])
    assert log.table["loss"].tolist() == [6.0, 5.0, 7.0, 6.0]


@pytest.mark.slow  # torch
def test_a_tensorboard_folder_has_a_run_for_each_folder_with_events(tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    for name, shift in (("lr1", 0.0), ("lr2", 1.0)):
        with SummaryWriter(tmp_path / name) as writer:
            for step in (10, 20):
                writer.add_scalar("train/loss", 7 - step / 10 + shift, step)
            writer.add_scalar("eval/loss", 5.5, 20)
    log = read_log(tmp_path)
    assert (log.dialect, [run.name for run in log.runs]) == ("TensorBoard", ["lr1", "lr2"])
    assert log.table["loss"].tolist() == [6.0, 5.0, 7.0, 6.0]
    assert same(losses(read_log(tmp_path / "lr1").table), [(10, 6.0, math.nan), (20, 5.0, 5.5)])


def test_mlflows_folder_and_its_export(tmp_path):
    for run, shift in (("1a", 0.0), ("2b", 1.0)):
        metrics = tmp_path / "mlruns" / "0" / run / "metrics" / "train"
        metrics.mkdir(parents=True)
        (metrics / "loss").write_text("".join(f"171000{s} {7 - s / 10 + shift} {s}\n" for s in (10, 20)))
        (metrics.parents[1] / "params").mkdir()
        (metrics.parents[1] / "params" / "max_steps").write_text("40")
        (metrics.parents[1] / "meta.yaml").write_text(f"artifact_uri: file:x\nrun_name: seed-{run}\n")
    log = read_log(tmp_path / "mlruns")
    assert (log.dialect, [run.name for run in log.runs]) == ("MLflow", ["seed-1a", "seed-2b"])
    assert [run.planned_steps for run in log.runs] == [40, 40]
    assert log.table["loss"].tolist() == [6.0, 5.0, 7.0, 6.0]
    rows = [(r, k, v, s) for r, d in (("a", 0), ("b", 1)) for s in (10, 20)
            for k, v in (("train/loss", 7 - s / 10 + d), ("lr", 0.1))]  # fmt: skip
    pd.DataFrame(rows, columns=["run_id", "key", "value", "step"]).assign(timestamp=1).to_csv(
        tmp_path / "m.csv"
    )
    log = read_log(tmp_path / "m.csv")
    assert [run.name for run in log.runs] == ["a", "b"]
    assert log.table["loss"].tolist() == [6.0, 5.0, 7.0, 6.0]


def test_exports_of_wandb_of_one_and_of_several_runs(tmp_path):
    step = np.arange(0, 50, 10)
    one = pd.DataFrame({"Step": step, "bold-sun-1 - train/loss": 7 - step / 10})
    for end in ("__MIN", "__MAX"):
        one[f"bold-sun-1 - train/loss{end}"] = one["bold-sun-1 - train/loss"]
    one.to_csv(tmp_path / "one.csv", index=False)
    log = read_log(tmp_path / "one.csv")
    assert [run.name for run in log.runs] == ["bold-sun-1"]
    assert list(log.table) == ["step", "loss"]
    two = one.rename(columns={"Step": "train/global_step"})
    two["a - b-2 - train/loss"] = np.where(step < 30, 8 - step / 10, np.nan)
    two["a - b-2 - val/loss"] = np.where(step == 20, 6.5, np.nan)
    two.to_csv(tmp_path / "two.csv", index=False)
    log = read_log(tmp_path / "two.csv")
    assert {run.name: len(run.table) for run in log.runs} == {"bold-sun-1": 5, "a - b-2": 3}
    assert log.runs[1].table["heldout_loss"].tolist()[-1] == 6.5
    history = pd.DataFrame({"_step": [0, 1, 2], "_runtime": 1.0, "train/global_step": [10, 20, 20],
                            "train/loss": [6.5, 5.25, np.nan], "eval/loss": [np.nan, np.nan, 5.5]})  # fmt: skip  # noqa: E501
    history.to_csv(tmp_path / "history.csv", index=False)
    assert same(losses(read_log(tmp_path / "history.csv").table), WANTED)


def test_lightnings_csv_json_jsonl_and_the_trainers_state(tmp_path):
    (tmp_path / "metrics.csv").write_text(
        "epoch,step,train_loss_step,train_loss_epoch,val_loss\n0,10,6.5,,\n0,20,5.25,,\n0,20,,,5.5\n0,20,,6.0,\n"
    )
    rows = [{"step": 10, "loss": 6.5}, {"step": 20, "loss": 5.25}, {"step": 20, "eval_loss": 5.5}]
    (tmp_path / "log.jsonl").write_text('{"config": {"width": 64}}\n' + "\n".join(map(json.dumps, rows)))
    (tmp_path / "log.json").write_text(json.dumps(rows))
    state = {
        "max_steps": 40,
        "global_step": 20,
        "log_history": [*rows, {"step": 20, "train_runtime": 4, "train_loss": 9}],
    }
    (tmp_path / "trainer_state.json").write_text(json.dumps(state))
    (tmp_path / "keras.json").write_text(
        json.dumps({"loss": [6.5, 5.25], "val_loss": [7, 5.5], "step": [10, 20]})
    )
    for name in ("metrics.csv", "log.jsonl", "log.json", "trainer_state.json"):
        assert same(losses(read_log(tmp_path / name).table), WANTED), name
    assert read_log(tmp_path / "trainer_state.json").runs[0].planned_steps == 40
    assert same(losses(read_log(tmp_path / "keras.json").table), [(10, 6.5, 7.0), (20, 5.25, 5.5)])


def test_tensorboards_export_of_one_curve(tmp_path):
    file = tmp_path / "run-.-tag-train_loss.csv"
    file.write_text("Wall time,Step,Value\n1.5,10,6.5\n2.5,20,5.25\n")
    assert same(losses(read_log(file).table), [(10, 6.5, math.nan), (20, 5.25, math.nan)])


def test_a_transformers_log_without_a_bar_takes_the_epoch_and_else_counts(tmp_path):
    text = TEXTS["transformers"][0]
    bare = "\n".join(line for line in text.replace("\r", "\n").split("\n") if "it/s" not in line)
    (tmp_path / "bare.log").write_text(bare)
    log = read_log(tmp_path / "bare.log")
    assert same(losses(log.table), WANTED)
    records = "\n".join(line for line in bare.split("\n") if line.startswith("{"))
    (tmp_path / "records.log").write_text(records)
    log = read_log(tmp_path / "records.log")
    assert same(losses(log.table), [(1, 6.5, math.nan), (2, 5.25, 5.5)])
    assert "step from 'record'" in log.said


def test_rename_counts_more_than_what_names_say(tmp_path):
    (tmp_path / "log.csv").write_text("step,loss,nll,it\n0,1,6.5,10\n1,1,5.25,20\n")
    log = read_log(tmp_path / "log.csv", rename={"nll": "loss", "it": "step"})
    assert same(losses(log.table), [(10, 6.5, math.nan), (20, 5.25, math.nan)])
    with pytest.raises(InputError, match=r"`rename=\{'nl': '...'\}`: no such column; .*did you mean 'nll'"):
        read_log(tmp_path / "log.csv", rename={"nl": "loss"})


def test_packed_and_utf16_logs_are_read(tmp_path):
    import gzip

    text, wanted, _ = TEXTS["nanoGPT"]
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "b.log").write_text(text, encoding="utf-16")
    for name in ("a.log.gz", "b.log"):
        assert same(losses(read_log(tmp_path / name).table), wanted)


def test_the_norm_and_the_rate_have_their_names_in_every_trainer(tmp_path):
    """A norm of the gradient, and a rate, under the names of six trainers."""
    rows = {
        "llmc.log": "step {0}/40 | loss {1} (+nanz)| norm 1.5 (+nanz)| lr 2.00e-04 | 3056.36 ms",
        "buildnanogpt.log": "step {0} | loss: {1} | lr 2e-04 | norm: 1.5 | dt: 270.1ms",
        "verl.log": "step:{0} - train/loss:{1} - train/grad_norm:1.5 - train/lr(1e-3):0.2",
        "fairseq.csv": "{0},{1},1.5,2e-4",
        "espnet.csv": "{0},{1},1.5,2e-4",
        "levanter.csv": "{0},{1},1.5,2e-4",
    }
    heads = {
        "fairseq.csv": "num_updates,loss,gnorm,lr",
        "espnet.csv": "iter,loss,grad_norm,optim0_lr0",
        "levanter.csv": "step,train/loss,grad/norm/total,lr",
    }
    for name, form in rows.items():
        head = [heads[name]] if name in heads else []
        file = tmp_path / name
        file.write_text("\n".join([*head, *(form.format(step, 9 - step / 9) for step in range(1, 40))]))
        told = read_log(file).runs[0].table
        assert told["grad_norm"].tolist() == [1.5] * 39, name
        assert told["learning_rate"].tolist() == pytest.approx([2e-4] * 39), name


def test_a_line_between_bars_keeps_every_name(tmp_path: Path) -> None:
    """`grad_norm` was no name of llm.c's, and the check said that no gradient norm was logged."""
    log = tmp_path / "train.log"
    log.write_text(
        "".join(f"step {n}/40 | train loss {6 - n / 10} | lr 1e-3 | grad_norm {n}.5\n" for n in range(1, 9))
    )
    table = read_log(log).table
    assert table["grad_norm"].tolist() == [n + 0.5 for n in range(1, 9)]
