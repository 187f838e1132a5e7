"""Tables that were not made here: targets that can be worked out, runs that are described."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from toposcope.cli.main import main
from toposcope.core.errors import InputError
from toposcope.study import replicate_table
from toposcope.study._plain import plain_table
from toposcope.study.trends.verdicts import Draws, trend_table

STEP = np.arange(0, 3001, 100)


def made(seeds: int = 3) -> pd.DataFrame:
    parts = []
    for seed in range(seeds):
        noise = np.random.default_rng(seed).standard_normal((4, len(STEP)))
        loss = 3 * (STEP + 100.0) ** -0.25 + 0.001 * noise[0]
        parts.append(
            pd.DataFrame({
                "run": f"s{seed}", "step": STEP, "tokens": STEP * 1000.0, "loss": loss,
                "heldout_loss": loss + 0.1 + 0.01 * noise[1], "mine": np.log(STEP + 50.0) + 0.05 * noise[2],
                "family": "f", "parameters": 5000, "seed": seed,
            })
        )  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def test_targets_are_worked_out_and_descriptions_are_no_features() -> None:
    table = plain_table(made(), ("gap", "efficiency", "efficiency_flop"))
    assert table.columns() == ["mine"]
    assert set(table.targets) == {"loss", "heldout_loss", "gap", "efficiency", "efficiency_flop"}
    values = table.of_run("s0")
    assert np.allclose(values["gap"], values["heldout_loss"] - values["loss"])
    late = values.iloc[10:]
    exact = 3 * 0.25 * late["step"] * (late["step"] + 100.0) ** -1.25
    assert np.abs(late["efficiency"] - exact).max() < 0.3 * exact.max()
    per_flop = late["efficiency"] / (6 * 5000 * late["tokens"])
    assert np.allclose(late["efficiency_flop"], per_flop)
    assert replicate_table(table, targets=("gap",)).loc[0, "seeds"] == 3


def test_runs_with_nothing_but_a_seed_are_replicates() -> None:
    bare = made()[["run", "step", "loss", "mine", "seed"]]
    found = replicate_table(plain_table(bare), targets=("loss",))
    of_family = replicate_table(plain_table(made()), targets=("loss",))
    assert found.loc[0, "seeds"] == 3
    pd.testing.assert_frame_equal(found.drop(columns="family"), of_family.drop(columns="family"))


def test_gap_and_efficiencies_are_tested_by_default_and_leave_the_loss_alone() -> None:
    table = plain_table(made(1))
    few = Draws(100, 100, 100)
    found = trend_table(table, draws=few)
    assert set(found["target"]) == {"loss", "heldout_loss", "gap", "efficiency", "efficiency_flop"}
    alone = trend_table(table, targets=("loss",), draws=few)
    mine = found[found["target"] == "loss"]
    assert mine["p_holm"].tolist() == alone["p_holm"].tolist()


def test_what_cannot_be_worked_out_is_named() -> None:
    with pytest.raises(InputError, match="column 'efficiency_flop' is missing"):
        plain_table(made().drop(columns="tokens"), ("efficiency_flop",))
    with pytest.raises(InputError, match="column 'step' is missing"):
        plain_table(pd.DataFrame({"loss": [1.0]}), ("gap",))


@pytest.mark.slow
def test_the_command_takes_a_foreign_table(tmp_path, capsys) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "mine.csv"
    made().to_csv(file, index=False)
    arguments = ["analyze", str(file), "--target", "gap", "--target", "efficiency", "--json"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, *(f"--table={part}" for part in ("trends", "lags", "replicates"))])
    assert ended.value.code == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["target"] for row in found["trends"]} == {"gap", "efficiency"}
    assert {"p_holm", "q"} <= set(found["trends"][0])
    assert {row["seeds"] for row in found["replicates"]} == {3}
    assert len(found["lags"]) == 6
    assert found["true_rates_of"] == "26 even"


def ended(arguments: list[str], capsys) -> tuple[int, str, str]:  # type: ignore[no-untyped-def]
    with pytest.raises(SystemExit) as left:
        main(arguments)
    printed = capsys.readouterr()
    return int(left.value.code or 0), printed.out, printed.err


@pytest.mark.slow
def test_the_exit_code_says_whether_there_were_problems(tmp_path, capsys) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "mine.csv"
    call = ["analyze", str(file), "--table", "trends"]
    frame = made(1)
    frame.to_csv(file, index=False)
    assert ended(call, capsys)[0] == 0
    short = frame.head(2).assign(run="short")
    # the row stands beside its step: after the end of the run it would be a restart
    pd.concat([frame[:4], frame.iloc[[3]], frame[4:], short]).to_csv(file, index=False)
    code, out, _ = ended(call, capsys)
    assert code == 1
    assert "note: run s0: 1 repeated rows of a step, averaged" in out
    assert "note: run short: too short for a test of the features against the loss: 2 steps with both" in out
    frame.assign(mine=[np.inf, *frame["mine"][1:]]).to_csv(file, index=False)
    code, out, err = ended(call, capsys)
    assert (code, err) == (1, "")
    assert "note: column mine: 1 infinite values count as missing" in out
    short.to_csv(file, index=False)
    code, out, err = ended(call, capsys)
    assert (code, out) == (2, "")
    assert "the longest run has 2 checkpoints" in err
    assert err.count("\n") == 1
    file.write_text("run,step,loss\n")
    assert "the table has no rows" in ended(call, capsys)[2]


def test_a_run_too_short_to_test_is_a_note_and_no_problem(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    file = tmp_path / "mine.csv"
    frame = made(1)
    short = [frame.head(3).assign(run=name) for name in ("b", "c")]
    pd.concat([frame, *short]).to_csv(file, index=False)
    code, out, _ = ended(["analyze", str(file)], capsys)
    (note,) = (line for line in out.splitlines() if line.startswith("note: "))
    assert code == 0
    assert note.startswith("note: runs b and c: too short for a test of the features against the loss: 3 ")
    assert "at least 4 are needed. Measure more checkpoints" in note
    code, out, _ = ended(["analyze", str(file), "--json"], capsys)
    assert (code, json.loads(out)["problems"], len(json.loads(out)["notes"])) == (0, [], 1)


def test_a_log_of_losses_alone_is_answered_and_a_table_of_it_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    step = np.arange(1, 401)
    log = pd.DataFrame({"step": 10 * step, "loss": 2 + 6 * step**-0.5})
    file = tmp_path / "train.csv"
    log.to_csv(file, index=False)
    code, out, _ = ended(["analyze", str(file)], capsys)
    assert code == 0
    assert "there is no column to test besides" in out
    assert "went from 8.00 to 2.30" in out
    code, out, _ = ended(["analyze", str(file), "--json"], capsys)
    assert (code, json.loads(out)["verdict"]) == (0, "all right")
    for more in (["--table", "families"], ["--out", str(tmp_path / "tables")]):
        code, out, err = ended(["analyze", str(file), *more], capsys)
        assert (code, out) == (2, "")
        assert f"toposcope check {file}" in err
    log.head(5).to_csv(file, index=False)
    code, out, err = ended(["analyze", str(file)], capsys)
    assert (code, out) == (2, "")
    assert f"judge its losses alone: toposcope check {file}" in err


def test_a_store_of_few_checkpoints_is_answered_by_its_losses(tmp_path, capsys):
    """`analyze` refused it, and the page of the same store said how the run went."""
    from safetensors.numpy import save_file

    run = tmp_path / "run"
    run.mkdir()
    g = np.random.default_rng(3)
    for step in (200, 400):
        save_file({"fc.weight": g.standard_normal((16, 16)).astype("f4")}, run / f"step_{step}.safetensors")
    step = np.arange(10, 401, 10)
    pd.DataFrame({"step": step, "loss": 2 + 6 * step**-0.5}).to_csv(run / "train.csv", index=False)
    store = tmp_path / "store"
    assert ended(["weights", str(run), "--out", str(store)], capsys)[0] == 0
    out, err = ended(["analyze", str(store)], capsys)[1:]
    assert "the loss fell" in out
    assert "nothing could be computed" not in err


def test_a_log_of_another_trainer_is_not_told_to_train_with_toposcope(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    file = tmp_path / "train.csv"
    step = np.arange(10, 4001, 10)
    pd.DataFrame({"step": step, "loss": 2 + 6 * step**-0.5}).to_csv(file, index=False)
    out = ended(["analyze", str(file)], capsys)[1]
    assert "Next: nothing has to be done about these runs." in out
    assert "toposcope train" not in out
