# ruff: noqa: E501 -- the lines of trainers are this long
"""Kinds of lines and tables that real logs have: other languages, bits per byte, rows under names, sums."""

from pathlib import Path

import numpy as np
import pytest

import toposcope as ts
from toposcope.core.errors import InputError

COUNT = 12
LOSSES = [round(2 + 4 / (i + 1), 4) for i in range(COUNT)]


def read(tmp_path: Path, content: str, name: str = "train.log") -> ts.Log:
    (tmp_path / name).write_text(content)
    return ts.read_log(tmp_path / name)


def lines(line: str) -> str:
    return "".join(line.format(i=i, s=i + 1, x=x, y=x + 1) + "\n" for i, x in enumerate(LOSSES))


TEXTS = {
    "ordinals": "current step: {s}th step\nbatch loss:{x}",
    "ordinals in a row": "In the {s}th epoch, train loss: {x}\nval loss: {y}",
    "spanish": "Época {s}/20\n  Pérdida: {x}",
    "portuguese": "Epoca {s} - perda: {x} - val loss: {y}",
    "german": "Epoche {s}: Verlust {x}",
    "an evaluation called CV": "TRAIN Batch 4/{s} loss {x} loss_att 9.5\nCV Batch 4/{i} loss {y} loss_att 8.5",
    "a tag with more": "[Train] Epoch {s:03}: loss = {x}\n[Diff-Val(Test-Normal)] Epoch {s:03} (Det): loss = {y}",
    "another tag with more": "[Train] Epoch {s}: loss = {x}\n[ema_eval (2 crops)] Epoch {s}: loss = {y}",
    "no word for the loss": "[pre] epoch {s}/20  train={x}  heldout={y}  lr=1.50e-04  (best)",
    "no word for the loss, colons": "Epoch {s} | train: {x} | val: {y}",
    "a time that is called cost": "Epoch {s} Train, Loss: {x}, Cost: 715.7 sec",
    "counts before their words": "{s}epoch results: [train] time=0.1, loss_ctc=9.5, loss={x}, [valid] loss_ctc=8.5, loss={y}",
    "a count beside a tag": "[ Train | {s:03}/100 ] loss = {x}\n[ Valid | {s:03}/100 ] loss = {y}",
    "a number sign": "[BEST] Epoch #{s}: train_loss={x}, val_loss={y}, time=0.94s",
    "a size called batch": "[{s:06}/50000] X4K    | loss {x} | VRAM 1.4/15.9GB (9%) | batch 16",
    "a mean before its name": " {s}: {x}, 9.5 avg loss, 0.001000 rate, 8.16 seconds, 136448 images",
    "absl's writer": "I1002 21:38:13.425730 139917864867392 logging_writer.py:35] [{s}] steps_per_second=1.5, train_loss={x}",
    "a table with shares and notes": " Epoch | TrainLoss | TrainAcc | ValLoss | Time\n {s} | {x} | 50.80% | {y} | 19.6s  ← best",
    "a loop's variable": "epoch=0 i={s}/530 total loss={x} spectro loss=1.5 vocoder loss=0.005",
    "an array of one": "train --- Current batch:{s}/1600  loss:[ {x}]",
    "rounds": "[ROUND {s}] loss: {x}",
    "the change of an update": "Lr: 9.9e-03 | Update: 5.8e-04 mean,9.4e-04 std | Epoch: [1][{s}/99] | Loss {x} (3.5)",
    "a value function's loss": "{{'value_loss': 0.5, 'value_mean': 0.25}}\nStep: {s} | Loss: {x}",
    "train_loss beside a benchmark's": "epoch {s} lr 0.1\ntrain_loss {x}\ncifar10 train : [loss = 0.07, top1 = 97%]",
}


@pytest.mark.parametrize("name", TEXTS)
def test_lines_are_read_by_their_words(tmp_path: Path, name: str) -> None:
    (run,) = read(tmp_path, lines(TEXTS[name])).runs
    table = run.table[run.table["loss"].notna()]
    assert table["loss"].tolist() == LOSSES
    assert table["step"].tolist() == [*range(1, COUNT + 1)]
    held = "{y}" in TEXTS[name]
    assert ("heldout_loss" in run.table) == held
    if held:
        assert run.table["heldout_loss"].dropna().tolist() == pytest.approx([x + 1 for x in LOSSES])


def test_a_train_loss_of_the_same_record_is_a_mean(tmp_path: Path) -> None:
    (run,) = read(tmp_path, lines("step={s} loss={x} train_loss=4.5")).runs
    assert run.table["loss"].tolist() == LOSSES


@pytest.mark.parametrize("text", ["epoch {s} acc: train={x} val={y}", "train={x} val={y}"])
def test_numbers_of_something_else_are_no_losses(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="no line names a step and a loss"):
        read(tmp_path, lines(text))


def test_a_time_is_offered_as_no_loss(tmp_path: Path) -> None:
    text = lines("Epoch {s} Train, reg:{x}, stage:{y}, Cost: 715.7 sec")
    with pytest.raises(InputError) as refused:
        read(tmp_path, text)
    pattern = str(refused.value).split("pattern=")[1].strip("'\"`").replace("\\\\", "\\")
    log = ts.read_log(tmp_path / "train.log", pattern=pattern)
    assert log.table["loss"].tolist() == LOSSES


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.log", "step {s:05} | loss {x}\nStep {s:05} | Validation bpb: {y}"),
        ("b.log", "epoch {s} train loss {x} eval bpc {y}"),
        ("c.jsonl", '{{"step": {s}, "loss": {x}, "val_bpb": {y}}}'),
    ],
)
def test_bits_per_byte_are_held_out(tmp_path: Path, name: str, content: str) -> None:
    log = read(tmp_path, lines(content), name)
    assert log.table["loss"].tolist() == LOSSES
    assert log.table["heldout_loss"].tolist() == pytest.approx([x + 1 for x in LOSSES])
    assert "is in bits" in log.said
    both = read(tmp_path, lines("step {s} loss {x} val_loss {y} val_bpb 1.25"), "both.log")
    assert both.table["heldout_loss"].tolist() == pytest.approx([x + 1 for x in LOSSES])


def test_held_out_losses_have_longer_names_too(tmp_path: Path) -> None:
    rows = lines('{{"main/loss": {x}, "validation/main/loss": {y}, "iteration": {s}}},')
    log = read(tmp_path, f"[\n{rows.rstrip().rstrip(',')}\n]", "log")
    assert log.table["loss"].tolist() == LOSSES
    assert log.table["heldout_loss"].notna().all()
    csv = "epoca,train_loss,validate_loss\n" + lines("{s},{x},{y}")
    log = read(tmp_path, csv, "historico.csv")
    assert log.table["heldout_loss"].notna().all()
    assert log.table["step"].tolist() == [*range(1, COUNT + 1)]


YOLO = "     Epoch   gpu_mem      GIoU       obj       cls     total   targets  img_size\n"
JDE = "2021-01-25 05:58:00 [INFO]:    Epoch       Batch       box      conf     total  nTargets\n"


def test_rows_below_names_may_have_a_bar_or_a_time(tmp_path: Path) -> None:
    bar = "{row}: {p}%|####| {k}/2 [00:01<00:01,  1.0s/it]\r"
    rows = "     {i}/11        0G      2.72     0.107     0.022    {x}        69       640"
    text = "".join(
        bar.format(row=rows.format(i=i, x=x + (1 if k < 2 else 0)), p=50 * k, k=k)
        for i, x in enumerate(LOSSES)
        for k in (1, 2)
    )
    (run,) = read(tmp_path, YOLO + text).runs
    assert run.table["loss"].tolist() == LOSSES
    assert run.table["step"].tolist() == [*range(COUNT)]
    assert run.planned_steps == 11
    timed = "2021-01-25 05:58:59 [INFO]:     {i}/11       0/165     0.227      2.06    {x}      83.0\n"
    text = "".join(timed.format(i=i, x=x) for i, x in enumerate(LOSSES))
    (run,) = read(tmp_path, JDE + "loaded 3 files\n" + text).runs
    assert run.table["loss"].tolist() == LOSSES


def test_a_history_within_a_text_is_read(tmp_path: Path) -> None:
    head = "Model: bert\nTotal params: 12,345\n_____\n,loss,acc,val_loss,val_acc\n"
    log = read(tmp_path, head + lines("{i},{x},0.5,{y},0.4") + "\n   precision  recall\n0  0.91  0.92\n")
    assert log.table["loss"].tolist() == LOSSES
    assert log.table["heldout_loss"].notna().all()
    assert log.table["step"].tolist() == [*range(COUNT)]


def parts(names: str, between: str = ", ") -> str:
    rng = np.random.default_rng(0)
    made = []
    for step in range(30):
        first, second = rng.uniform(1, 2, 2).round(4)
        values = {"a": first, "b": second, "sum": first + second, "other": rng.uniform(5, 6)}
        made.append(f"epoch {step}{between}" + between.join(
            f"{name}: {values[key]:.4f}" for name, key in (pair.split("=") for pair in names.split())
        ))  # fmt: skip
    return "\n".join(made) + "\n"


@pytest.mark.parametrize("between", [", ", "\n"])
def test_the_sum_of_the_others_is_the_total(tmp_path: Path, between: str) -> None:
    log = read(tmp_path, parts("loss_gen=a loss_mel=b loss_1=sum loss_disc=other", between))
    assert log.taken["loss"] == "loss_1"
    assert "it is the sum of loss_gen, loss_mel" in log.said
    assert len(log.table) == 30
    log = read(tmp_path, parts("tgt_origin_loss=a tgt_cluster_loss=b tgt_loss=sum", between))
    assert log.taken["loss"] == "tgt_loss"


def test_losses_of_which_none_is_the_sum_are_refused_with_a_choice_that_works(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="several losses and none is the total: loss_gen, loss_disc"
    ) as refused:
        read(tmp_path, parts("loss_gen=a loss_disc=other loss_kl=b"))
    assert "rename={'loss_gen': 'loss'}" in str(refused.value)
    log = ts.read_log(tmp_path / "train.log", rename={"loss_gen": "loss"})
    assert len(log.table) == 30


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("train.log", "epoch {s} loss gen: {x}, loss disc: {y}, kl_loss: 0.5"),
        ("train.jsonl", '{{"step": {s}, "loss_G": {x}, "loss_D": {y}, "kl_loss": 0.5}}'),
    ],
)
def test_a_part_is_not_the_loss_because_it_ends_so(tmp_path: Path, name: str, line: str) -> None:
    with pytest.raises(InputError, match="several losses and none is the total") as refused:
        read(tmp_path, lines(line), name)
    column = str(refused.value).split("rename={'")[1].split("'")[0]
    log = ts.read_log(tmp_path / name, rename={column: "loss"})
    assert log.table["loss"].tolist() == LOSSES


def test_a_table_without_a_step_counts_its_rows_whatever_its_ending(tmp_path: Path) -> None:
    head = "total loss\tscore loss\tctc loss\t\n"
    log = read(tmp_path, head + lines("{x}\t0.2463\t9.22\t"), "train_log.txt")
    assert log.table["loss"].tolist() == LOSSES
    assert "the rows are counted" in log.said


def test_the_only_bare_column_that_falls_is_the_loss(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = [(k, 0.6 + k / 999, 4 / (k + 9) + rng.normal(0, 0.0005), k / 99) for k in range(99, 3000, 100)]
    text = "".join(f"{k},{a:.4f},{x:.4f},{b:.4f}\n" for k, a, x, b in rows)
    log = read(tmp_path, text, "log 2023-04-21.csv")
    assert log.table["loss"].tolist() == [round(x, 4) for _, _, x, _ in rows]
    assert "column 1 is taken as the step, column 3 as the loss" in log.said
    epochs = read(tmp_path, text * 2, "epochs.csv")
    assert [len(run.table) for run in epochs.runs] == [30]  # written twice
    two = "".join(f"{k},{x:.4f},{x + 1:.4f}\n" for k, _, x, _ in rows)
    with pytest.raises(InputError, match="have no names"):
        read(tmp_path, two, "two.csv")


def test_one_object_may_be_one_record(tmp_path: Path) -> None:
    state = '{"global_step": 21900, "training_loss": 0.22, "best_metric": {"f1": 0.5}}'
    log = read(tmp_path, state, "trainer_state.json")
    assert (log.table["step"].tolist(), log.table["loss"].tolist()) == ([21900], [0.22])
    assert len(read(tmp_path, '{"iteration": 7, "loss": 2.5, "config": {}}', "last.json").table) == 1


@pytest.mark.parametrize("sets", [("wiki", "code"), ("g0", "g1", "g2")])
def test_of_several_evaluation_sets_the_first_is_held_out(tmp_path: Path, sets: tuple[str, ...]) -> None:
    rows = ['{"step": 10, "loss": 2.5}']
    rows += [f'{{"step": 10, "eval_{one}_loss": 3.5, "eval_{one}_runtime": 2.1}}' for one in sets]
    log = read(tmp_path, "\n".join(rows) + "\n", "log.jsonl")
    assert log.taken["heldout_loss"] == f"eval_{sets[0]}_loss"


def trainer(rows: int, epochs: int, first: float, total: int, *, fine: bool = False) -> str:
    made = [f"  0%|     | 0/{total} [00:00<?, ?it/s]"]
    for k in range(1, rows + 1):
        epoch = k / rows * epochs if fine else round(k / rows * epochs, 2)
        bar = total * k // rows - (k % 3 == 0)
        made.append(f"{bar / total:.0%}|##  | {bar}/{total} [00:01<00:09, 1.1it/s]" if fine else "")
        made.append(f"{{'loss': {first / k:.4f}, 'learning_rate': 1e-05, 'epoch': {epoch}}}")
    made.append(f"{{'train_runtime': 9.1, 'train_loss': 0.1, 'epoch': {float(epochs)}}}")
    return "\n".join([*made, f"100%|####| {total}/{total} [00:09<00:00, 3.1it/s]"]) + "\n"


def test_each_training_that_transformers_printed_is_a_run(tmp_path: Path) -> None:
    text = trainer(12, 3, 8.0, 1200) + "Perplexity: 1.00\n" + trainer(10, 2, 5.0, 500)
    log = read(tmp_path, text)
    assert [len(run.table) for run in log.runs] == [12, 10]
    assert [run.table["step"].iloc[-1] for run in log.runs] == [1200, 500]
    assert [run.planned_steps for run in log.runs] == [1200, 500]


def test_losses_that_go_on_from_the_last_weights_are_another_training(tmp_path: Path) -> None:
    record = "{{'loss': {:.4f}, 'learning_rate': 1e-05, 'epoch': {:.2f}}}\n"
    first = "".join(record.format(3 + 4 / k, k / 50) for k in range(1, 50))
    again = "".join(record.format(3.05 - k / 99, k / 5) for k in range(1, 5))
    assert [len(run.table) for run in read(tmp_path, first + again).runs] == [49, 4]
    restart = "".join(record.format(3 + 4 / k + 0.001, k / 50) for k in range(30, 60))
    assert len(read(tmp_path, first + restart).runs) == 1


def test_an_epoch_with_all_its_digits_says_the_step(tmp_path: Path) -> None:
    (run,) = read(tmp_path, trainer(20, 2, 8.0, 1000, fine=True)).runs
    assert run.table["step"].tolist() == [50 * k for k in range(1, 21)]


def test_a_step_beside_its_plan_in_a_record(tmp_path: Path) -> None:
    record = "{{'loss': {x}, 'epoch': 0.1, 'global_step/max_steps': '{s}0/5000', 'percentage': '7.5%'}}"
    (run,) = read(tmp_path, lines(record)).runs
    assert run.table["step"].tolist() == [10 * s for s in range(1, COUNT + 1)]
    assert (run.table["loss"].tolist(), run.planned_steps) == (LOSSES, 5000)


def test_an_epoch_before_its_place_in_brackets(tmp_path: Path) -> None:
    (run,) = read(tmp_path, lines("INFO:0-epoch ({s}/99): total loss {x}, group: 10.5, lr 1e-05")).runs
    assert run.table["step"].tolist() == [*range(1, COUNT + 1)]
    assert run.table["loss"].tolist() == LOSSES


def test_losses_of_an_epoch_stand_beside_batches(tmp_path: Path) -> None:
    epoch = "8epoch:train:1-{0}batch: loss={1}\n"
    text = "".join(epoch.format(100 * (i + 1), x) for i, x in enumerate(LOSSES))
    text += "8epoch results: [train] loss=9.5, [valid] loss=3.25\n" + epoch.format(1300, 2.25)
    (run,) = read(tmp_path, text).runs
    assert run.table["loss"].dropna().tolist() == [*LOSSES, 2.25]
    assert run.table["heldout_loss"].dropna().tolist() == [3.25]


def test_held_out_records_without_a_step_belong_to_the_step_before(tmp_path: Path) -> None:
    record = '{{"epoch": {s}, "loss": "{x}", "num_updates": {s}00}}\n{{"epoch": {s}, "valid_loss": {y}}}'
    (run,) = read(tmp_path, lines(record), "train.jsonl").runs
    held = run.table[run.table["heldout_loss"].notna()]
    assert held["step"].tolist() == [100 * s for s in range(1, COUNT + 1)]
    assert held["heldout_loss"].tolist() == pytest.approx([x + 1 for x in LOSSES])


def test_evaluations_of_a_nanogpt_beside_lines_of_another_form(tmp_path: Path) -> None:
    text = lines("{s} | loss {x} | lr 9.0e-04 | 70.5ms") + "step 12: train loss 4.5, val loss 4.75\n"
    (run,) = read(tmp_path, text).runs
    assert run.table["loss"].dropna().tolist() == LOSSES
    assert run.table["heldout_loss"].dropna().tolist() == [4.75]


def test_a_last_line_that_is_cut_within_its_loss_is_left_out(tmp_path: Path) -> None:
    text = lines("step {s} | loss {x:.4f} | lr 0.001") + "step 13 | loss 2\n"
    (run,) = read(tmp_path, text).runs
    assert run.table["loss"].tolist() == LOSSES


RANKS = {
    "a date before": "May 18, 2020, 11:47:13: running: [1,{r}]<stdout>:step {s} loss: {x}",
    "within the line": "2022-10-23 14:53:29,352 INFO [train.py:907] ({r}/8) step {s}, loss={x}",
    "at its end": "step {s} loss {x} lr 0.1 rank {r}",
    "processes": "(RayTrainWorker pid={r}71, ip=10.0.0.{r}) step {s} loss {x}",
}


@pytest.mark.parametrize("name", RANKS)
def test_the_lowest_of_several_writers_is_read(tmp_path: Path, name: str) -> None:
    text = "".join(
        RANKS[name].format(r=r, s=s, x=x + r) + "\n" for s, x in enumerate(LOSSES, 1) for r in (3, 1, 2)
    )
    log = read(tmp_path, text)
    assert log.table["loss"].tolist() == [x + 1 for x in LOSSES]
    assert any("write into this log" in note for note in log.notes)


def test_a_process_that_goes_on_after_another_is_read_too(tmp_path: Path) -> None:
    text = "".join(f"(Train pid={7 - (s > 6)}) step {s} loss {x}\n" for s, x in enumerate(LOSSES, 1))
    assert read(tmp_path, text).table["loss"].tolist() == LOSSES


def test_a_rank_of_matrices_is_no_writer(tmp_path: Path) -> None:
    text = "".join(f"step {s} loss {x} rank: {300 + s}\n" for s, x in enumerate(LOSSES, 1))
    assert read(tmp_path, text).table["loss"].tolist() == LOSSES


def test_processes_that_print_the_loss_of_each_epoch(tmp_path: Path) -> None:
    twice = lines("Loss in epoch {s} = {x}\nLoss in epoch {s} = {x}0001")
    (run,) = read(tmp_path, twice).runs
    assert run.table["step"].tolist() == [*range(1, COUNT + 1)]
    assert run.table["loss"].tolist() == pytest.approx(LOSSES, abs=1e-4)
    within = "".join(f"epoch {s} loss {x - k / 5}\n" for s, x in enumerate(LOSSES, 1) for k in (0, 1))
    assert read(tmp_path, within, "two.log").table["step"].tolist() == [*range(1, 2 * COUNT + 1)]


def test_each_run_has_epochs_of_its_own_length(tmp_path: Path) -> None:
    text = "".join(
        f"Epoch: {epoch}, Step: {step}, all_loss: {x + 9 * long}\n"
        for long in (5, 3)
        for epoch, x in enumerate(LOSSES, 1)
        for step in range(0, 200 * long, 200)
    )
    first, second = read(tmp_path, text).runs
    assert (first.table["step"].iloc[-1], second.table["step"].iloc[-1]) == (11 * 1000 + 800, 11 * 600 + 400)


def test_an_epoch_may_be_named_where_it_ends(tmp_path: Path) -> None:
    epoch = "".join(f"Current batch:{20 * k}/80 loss:[ {{x}}]\n" for k in range(1, 5))
    (run,) = read(tmp_path, lines(epoch + "Epoch [{i}]/[20] Training Phase Loss: 9.5")).runs
    logged = run.table[run.table["loss"].notna()]
    assert logged["step"].tolist() == [*range(20, 80 * COUNT + 1, 20)]
    assert logged["loss"].tolist() == [x for x in LOSSES for _ in range(4)]


def test_held_out_losses_stand_between_the_bars_of_training(tmp_path: Path) -> None:
    bar = "Training Epoch {s}: 100%|####| 28/28 [00:59<00:00,  2.13s/it, Batch_Loss={x}]\n"
    text = lines(bar + "Epoch {s}/30, Train Loss: 9.5, Train PSNR: 23.77, Val Loss: {y}")
    (run,) = read(tmp_path, text).runs
    held = run.table[run.table["heldout_loss"].notna()]
    assert held["step"].tolist() == [28 * s for s in range(1, COUNT + 1)]
    assert run.table["loss"].dropna().tolist() == LOSSES


@pytest.mark.parametrize("word", ["Global Batch", "overall iteration", "cumulative step", "global minibatch"])
def test_a_counter_of_the_whole_run_is_the_step_where_epochs_begin(tmp_path: Path, word: str) -> None:
    written = [
        f"2024-11-05 23:17:{i:02} - INFO - Epoch {1 + i // 4}, {word} {5 * i + 5}, Training Loss: {x}, Validation Loss: {x + 1}"
        for i, x in enumerate(LOSSES)
    ]
    (run,) = read(tmp_path, "\n".join(written)).runs
    assert run.table["step"].tolist() == [5 * i + 5 for i in range(COUNT)]
    assert run.table["loss"].tolist() == LOSSES
