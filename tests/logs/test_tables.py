"""Tables and JSON as people have them: what a row is, which column is the step, what a restart replaced."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope.core.errors import InputError

STEP = np.arange(10, 610, 10)
LOSS = np.round(2 + 4 / np.sqrt(np.arange(60) + 3), 4)
ROWS = [{"step": int(step), "loss": float(loss)} for step, loss in zip(STEP, LOSS, strict=True)]
PAIRS = [f"{step},{loss}" for step, loss in zip(STEP, LOSS, strict=True)]


def csv(header: str, rows) -> str:
    return "\n".join([header, *rows]) + "\n"


def jsonl(rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def in_epochs(row: str) -> list[str]:
    return [row.format(epoch=k // 20, step=10 * (k % 20), loss=loss) for k, loss in enumerate(LOSS)]


RESUMED = [f"{s},{x},{s % 7}" for s, x in zip(STEP[:40], [*LOSS[:25], *[9.5] * 15], strict=True)]
RESUMED += [f"{s},{x},{s % 5}" for s, x in zip(STEP[25:], LOSS[25:], strict=True)]
AS_THEY_ARE = {
    "summary.jsonl": jsonl([
        *({"current_steps": r["step"], "total_steps": 603, "loss": r["loss"], "lr": 1e-5} for r in ROWS),
        {"current_steps": 603, "total_steps": 603, "epoch": 3.0, "percentage": 100.0},
    ]),
    "null.jsonl": jsonl([*ROWS, {"step": 610, "loss": None, "accuracy": 0.6}]),
    "runtime.jsonl": jsonl([*ROWS, {"step": 600, "train_runtime": 9.5, "train_loss": 3.1}]),
    "empty_cell.csv": csv("step,loss,accuracy", [*(f"{row},.5" for row in PAIRS), "610,,.6"]),
    "resumed.csv": csv("step,loss,seconds", RESUMED),
    "resumed.jsonl": jsonl(dict(zip(("step", "loss"), map(float, row.split(",")[:2]), strict=True))
                           for row in RESUMED),
    "comment.csv": csv("# run a\n# seed 3\nstep,loss", PAIRS),
    "comment_is_header.txt": csv("# step loss", (row.replace(",", " ") for row in PAIRS)),
    "tabs.log": csv("step\tloss", (row.replace(",", "\t") for row in PAIRS)),
    "lines.json": jsonl({"iteration": r["step"], "loss_cls": 1.0, "total_loss": r["loss"]} for r in ROWS),
    "list.txt": json.dumps(ROWS, indent=1),
    "two_columns.txt": "".join(f"{row.replace(',', ' ')}\n" for row in PAIRS),
    "notebook_table.txt": csv("Step\tTraining Loss", (row.replace(",", "\t") for row in PAIRS)),
    "markdown.txt": csv("| Step | Loss |\n|---|---|", (f"| {r.replace(',', ' | ')} |" for r in PAIRS)),
    "step_of_steps.jsonl": jsonl({"loss": r["loss"], "epoch": r["step"] / 200,
                                  "global_step/max_steps": f"{r['step']}/1000"} for r in ROWS),
    "step_of_steps.csv": csv("step,loss", (f"{r['step']}/1000,{r['loss']}" for r in ROWS)),
    "nan_gradient.jsonl": jsonl([*({**row, "grad_norm": 1.0} for row in ROWS[:40]),
                                 *({**row, "grad_norm": float("nan")} for row in ROWS[40:])]),
    "semicolons.csv": csv("step;loss", (row.replace(",", ";").replace(".", ",") for row in PAIRS)),
    "padded.csv": csv("           step,      'train/loss'", (f"  {r.replace(',', ',     ')}" for r in PAIRS)),
    "upper.tsv": csv("STEP\tTRAIN_LOSS", (row.replace(",", "\t") for row in PAIRS)),
    "carriage_returns.csv": csv("step,loss", PAIRS).replace("\n", "\r\n"),
    "column_added.csv": csv("step,loss", [*PAIRS[:30], *(f"{row},0.1" for row in PAIRS[30:])]),
    "header_added.csv": csv("step,loss", [*PAIRS[:30], "step,loss,lr", *(f"{r},0.1" for r in PAIRS[30:])]),
    "ends_with_comma.csv": csv("step,loss", (f"{row}," for row in PAIRS)),
    "as_r_writes.txt": csv("step loss", (f'"{k}" {r.replace(",", " ")}' for k, r in enumerate(PAIRS, 1))),
    "zeros.csv": csv("step,loss", [*PAIRS[:30], "\0" * 4096, *PAIRS[30:]]),
    "fairseq.json": jsonl([*({"loss": str(r["loss"]), "num_updates": str(r["step"])} for r in ROWS),
                           {"epoch": 1, "valid_loss": "2.9", "valid_num_updates": "600"}]),
    "golden.json": json.dumps({"lm loss": {"start_step": 10, "end_step": 610, "step_interval": 10,
                                           "values": {str(r["step"]): r["loss"] for r in ROWS}}}),
    "golden_list.json": json.dumps({"lm loss": {"start_step": 10, "step_interval": 10,
                                                "values": LOSS.tolist()}}),
    "losses.json": json.dumps({"train_losses": LOSS.tolist(), "steps": STEP.tolist()}),
    "two_on_a_line.jsonl": jsonl(ROWS).replace("}\n", "}", 1),
    "global_step.csv": csv("epoch,step,global_step,loss",
                           (f"{k // 20},{k % 20},{s},{x}" for k, (s, x) in
                            enumerate(zip(STEP, LOSS, strict=True)))),
}  # fmt: skip

JUDGED = ("summary.jsonl", "null.jsonl", "empty_cell.csv", "resumed.csv", "resumed.jsonl")
"""Those that were "stop", or a traceback, for what is no loss."""


@pytest.mark.parametrize("name", AS_THEY_ARE)
def test_a_table_of_sixty_losses_is_one_run_of_sixty_losses_and_all_right(name, tmp_path):
    (tmp_path / name).write_bytes(AS_THEY_ARE[name].encode())
    log = ts.read_log(tmp_path / name)
    (run,) = log.runs
    known = run.table.dropna(subset=["loss"])
    assert known["step"].tolist() == STEP.tolist()
    np.testing.assert_allclose(known["loss"], LOSS)
    planned = {"step_of_steps": 1000, "summary": 603}.get(name.partition(".")[0])
    assert run.planned_steps == planned
    if name in JUDGED:
        assert ts.check(tmp_path / name).ok


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_rows_that_a_restart_replaced_are_counted_and_kept_beside_the_run(kind, tmp_path):
    (tmp_path / f"resumed.{kind}").write_text(AS_THEY_ARE[f"resumed.{kind}"])
    log = ts.read_log(tmp_path / f"resumed.{kind}")
    (run,) = log.runs
    assert "15 rows were replaced" in log.said
    assert "260 to 400" in log.said
    assert run.replaced["step"].tolist() == list(range(260, 401, 10))
    assert set(run.replaced["loss"]) == {9.5}
    (tmp_path / "whole.csv").write_text(csv("step,loss", PAIRS))
    assert ts.read_log(tmp_path / "whole.csv").runs[0].replaced is None


def test_each_run_of_a_table_has_its_own_restarts(tmp_path):
    rows = [f"{run},{row.rpartition(',')[0]}" for run in "ab" for row in RESUMED]
    (tmp_path / "runs.csv").write_text(csv("run,step,loss", rows))
    table = ts.read_log(tmp_path / "runs.csv").table
    assert table.groupby("run")["step"].apply(list).tolist() == [STEP.tolist()] * 2


def test_a_written_nan_is_told_from_a_record_without_a_loss(tmp_path):
    lost = [*PAIRS[:58], "590,nan", "600,NaN"]
    (tmp_path / "lost.csv").write_text(csv("step,loss", lost))
    rows = [*ROWS[:58], {"step": 590, "loss": float("nan")}, {"step": 600, "loss": float("nan")}]
    (tmp_path / "lost.jsonl").write_text(jsonl(rows))
    for name in ("lost.csv", "lost.jsonl"):
        table = ts.read_log(tmp_path / name).table
        assert table["loss is nan"].tolist() == [False] * 58 + [True] * 2
        assert ts.check(tmp_path / name).line.startswith("stop")
    (tmp_path / "one.csv").write_text(csv("step,loss", [*PAIRS, "610,"]))
    assert ts.check(tmp_path / "one.csv").ok
    pd.read_csv(tmp_path / "lost.csv").to_csv(tmp_path / "pandas.csv", index=False)  # NaN as empty cells
    assert ts.check(tmp_path / "pandas.csv").line.startswith("stop")
    (tmp_path / "held.csv").write_text(csv("step,loss,val_loss", [*(f"{row}," for row in PAIRS), "610,,2.9"]))
    table = ts.read_log(tmp_path / "held.csv").table
    assert "loss is nan" not in table
    assert table["heldout_loss"].tolist()[-1] == 2.9
    assert ts.check(tmp_path / "held.csv").ok


def test_a_data_frame_of_a_trainers_records_ends_with_a_summary_and_no_lost_loss():
    rows = [{**row, "learning_rate": 1e-3} for row in ROWS]
    assert ts.check(pd.DataFrame([*rows, {"step": 600, "train_runtime": 9.5}])).ok
    assert ts.check(
        pd.DataFrame([*rows, *({"step": 600 + k, "learning_rate": 1e-3} for k in range(1, 5))])
    ).line.startswith("stop")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", csv("epoch,step,loss", in_epochs("{epoch},{step},{loss}"))),
        ("a.jsonl", "\n".join(in_epochs('{{"epoch": {epoch}, "step": {step}, "loss": {loss}}}'))),
        ("batch.csv", csv("Epoch,Batch,Loss", in_epochs("{epoch},{step},{loss}"))),
    ],
)
def test_a_step_that_begins_again_in_every_epoch_is_counted_on(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    log = ts.read_log(tmp_path / name)
    (run,) = log.runs
    assert run.table["step"].tolist() == list(range(0, 600, 10))
    assert run.table["loss"].tolist() == LOSS.tolist()
    assert "counted on" in log.said


def test_rows_that_are_called_held_out_have_a_loss_of_their_own(tmp_path):
    rows = [
        {"mode": "train", "epoch": k // 20 + 1, "iter": 10 * (k % 20 + 1), "loss": x}
        for k, x in enumerate(LOSS)
    ]
    for at, loss in ((60, 2.9), (40, 3.0), (20, 3.1)):
        rows.insert(at, {"mode": "val", "epoch": at // 20, "iter": 5000, "loss": loss})
    (tmp_path / "run.log.json").write_text(jsonl([{"seed": 1}, *rows]))
    table = ts.read_log(tmp_path / "run.log.json").table
    known = table.dropna(subset=["loss"])
    assert known["step"].tolist() == list(range(10, 610, 10))
    assert known["loss"].tolist() == LOSS.tolist()
    held = table.dropna(subset=["heldout_loss"])
    assert held[["step", "heldout_loss"]].to_numpy().tolist() == [[200, 3.1], [400, 3.0], [600, 2.9]]


def test_the_losses_of_an_epoch_are_counted_in_order_and_a_restart_counts_from_its_epoch(tmp_path):
    rows = in_epochs("{epoch},{loss}")
    (tmp_path / "a.csv").write_text(csv("epoch,loss", rows))
    log = ts.read_log(tmp_path / "a.csv")
    assert log.table["step"].tolist() == list(range(1, 61))
    assert "counted in order" in log.said
    (tmp_path / "b.csv").write_text(csv("epoch,loss", [*rows, *rows[20:]]))
    (run,) = ts.read_log(tmp_path / "b.csv").runs
    assert run.table["step"].tolist() == list(range(1, 61))
    assert len(run.replaced) == 40


def test_a_header_that_comes_again_is_left_out_and_said(tmp_path):
    rows = [f"{k},{x},{x + 0.1:.4f}" for k, x in enumerate(LOSS)]
    header = "epoch,loss,val_loss"
    (tmp_path / "a.csv").write_text(csv(header, [*rows[:30], header, *rows[30:]]))
    log = ts.read_log(tmp_path / "a.csv")
    assert log.table["step"].tolist() == list(range(60))
    assert "1 repeated header left out" in log.said


def test_points_between_thousands_and_decimal_commas_are_told_apart(tmp_path):
    (tmp_path / "a.csv").write_text("step;loss\n10.000;2,4\n20.000;2,25\n")
    assert ts.read_log(tmp_path / "a.csv").table.to_dict("list") == {
        "step": [10_000, 20_000], "loss": [2.4, 2.25]
    }  # fmt: skip


@pytest.mark.parametrize("extra", ["seconds", "accuracy", "learning_rate", "mine"])
def test_a_step_may_occur_twice_beside_any_other_column(extra):
    draw = np.random.default_rng(0)
    step = np.sort(np.r_[STEP, 300, 300, 310])
    rows = pd.DataFrame({"step": step, "loss": 2 + 4 / step**0.5, extra: draw.random(len(step))})
    for command in (ts.check, ts.forecast):
        assert command(rows) is not None


@pytest.mark.parametrize(
    ("header", "row", "first"),
    [
        (
            "                  epoch,         train/box_loss,   train/cls_loss",
            "{},  {}, 1.0",
            "train/box_loss",
        ),
        ("epoch,loss_G,loss_D", "{},{},1.0", "loss_G"),
    ],
)
def test_losses_without_a_total_are_named_and_the_remedy_works_as_typed(
    header, row, first, tmp_path, monkeypatch, capsys
):
    from toposcope.cli.main import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "results.csv").write_text(csv(header, (row.format(k, x) for k, x in enumerate(LOSS))))
    with pytest.raises(SystemExit) as ended:
        main(["check", "results.csv"])
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert said.endswith(f"choose one with --column {first}\n")
    assert "results.csv" in said
    with pytest.raises(SystemExit) as ended:
        main(["check", "results.csv", *said.split()[-2:]])
    assert ended.value.code == 0
    with pytest.raises(InputError, match="several losses and none is the total"):
        ts.read_log("results.csv")


def test_rows_without_a_step_are_counted_and_said(tmp_path):
    (tmp_path / "a.csv").write_text(csv("loss,accuracy", (f"{x},0.5" for x in LOSS)))
    log = ts.read_log(tmp_path / "a.csv")
    assert log.table["step"].tolist() == list(range(1, 61))
    assert "the rows are counted" in log.said
    (tmp_path / "b.csv").write_text(csv("loss,place", (f"{x},{k}" for k, x in enumerate(LOSS))))
    with pytest.raises(InputError, match="no column for step"):
        ts.read_log(tmp_path / "b.csv")


def test_the_summary_in_a_trainers_state_is_no_loss_of_its_checkpoints():
    from toposcope.logs.history import losses_of

    rows = [*ROWS, {"step": 603, "train_runtime": 9.5, "train_loss": 3.1}]
    metrics = losses_of({"log_history": rows}, "a")
    assert metrics["step"].tolist() == STEP.tolist()
    assert metrics["loss"].tolist() == LOSS.tolist()


def test_lightnings_csv_beside_checkpoints_is_read_as_any_table_is(tmp_path):
    from toposcope.files.blobs import LocalFolder
    from toposcope.logs.history import lightning_metrics

    rows = [f"0,{row}," for row in PAIRS]
    (tmp_path / "metrics.csv").write_text(
        csv("epoch,step,train_loss_step,val_loss", [*rows[:30], "\0" * 64, *rows[30:]])
    )
    metrics = lightning_metrics(LocalFolder(tmp_path), "a")
    assert metrics["loss"].tolist() == LOSS.tolist()


def test_a_column_that_comes_twice_is_named(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text(csv("step,loss,loss", [f"{pair},9.0" for pair in PAIRS]))
    log = ts.read_log(str(path))
    assert log.table["loss"].tolist() == LOSS.tolist()
    assert any("several columns are called 'loss': the first is read" in note for note in log.notes)
