"""One log is read alike by every command and by Python."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope.api.laws import fit_scaling_law
from toposcope.cli.main import main
from toposcope.core.errors import InputError
from toposcope.logs import history
from toposcope.logs.schedule import read_schedule
from toposcope.runs.reading import Reading, read_curves
from toposcope.watch.losses import LossFile

STEP = np.arange(10, 410, 10)
LOSS = 2 + 5 * STEP**-0.5 + 0.01 * np.random.default_rng(0).standard_normal(len(STEP))
MINE = np.random.default_rng(1).standard_normal(len(STEP)).cumsum()


def written(kind: str, folder):
    """Write the one log in a dialect; return its path."""
    frame = pd.DataFrame({"step": STEP, "loss": LOSS, "mine": MINE})
    file = folder / f"{kind}.csv"
    if kind == "wandb":
        named = {"step": "Step", "loss": "run-1 - train/loss", "mine": "run-1 - mine"}
        wide = frame.rename(columns=named)
        for end in ("__MIN", "__MAX"):
            wide[f"run-1 - train/loss{end}"] = LOSS
            wide[f"run-1 - mine{end}"] = MINE
        wide.to_csv(file, index=False)
    elif kind == "history":
        frame.rename(columns={"step": "train/global_step", "loss": "train/loss"}).assign(
            _step=range(len(STEP)), _runtime=2.0
        ).to_csv(file, index=False)
    elif kind == "iter":
        frame.rename(columns={"step": "iter", "loss": "train/loss"}).to_csv(file, index=False)
    elif kind == "jsonl":
        file = folder / "log.jsonl"
        rows = [
            {"iteration": int(s), "lm loss": x, "mine": y} for s, x, y in zip(STEP, LOSS, MINE, strict=True)
        ]
        file.write_text("\n".join(map(json.dumps, rows)))
    else:
        file = folder / "train.log"
        rows = [
            f"step:{s}/1000 train_loss:{x!r} mine:{y!r}"
            for s, x, y in zip(STEP, LOSS.tolist(), MINE.tolist(), strict=True)
        ]
        file.write_text("\n".join(rows))
    return file


@pytest.mark.parametrize("kind", ["wandb", "history", "iter", "jsonl", "text"])
def test_one_log_has_one_step_and_one_loss_everywhere(kind, tmp_path):
    file = written(kind, tmp_path)
    table = ts.read_log(file).table
    assert table["step"].tolist() == STEP.tolist()
    np.testing.assert_allclose(table["loss"], LOSS)
    series = ts.analyze(file).studies[0].series
    assert series.targets[0] == "loss"
    np.testing.assert_allclose(series.values["loss"], LOSS)
    assert series.values["step"].tolist() == STEP.tolist()
    assert "mine" in series.columns()
    assert not [c for c in series.columns() if c.endswith(("__MIN", "__MAX"))]
    (curve,), problems, notes = read_curves([str(file)], Reading())
    assert problems == []
    np.testing.assert_allclose(curve.loss, LOSS)
    assert curve.step.tolist() == STEP.tolist()
    assert notes
    assert curve.horizon == (1000 if kind == "text" else 400)
    for read in (history.read_losses(str(file)), LossFile(file)._table):
        tidy = history.tidy(read, "a")
        assert tidy["step"].tolist() == STEP.tolist()
        np.testing.assert_allclose(tidy["loss"], LOSS)


def test_several_runs_of_an_export_are_several_runs_everywhere(tmp_path):
    wide = pd.DataFrame(
        {"Step": STEP, "a - train/loss": LOSS, "b - train/loss": LOSS + 1, "a - train/loss__MIN": LOSS}
    )
    wide["a - mine"], wide["b - mine"] = MINE, MINE[::-1]
    wide.to_csv(tmp_path / "two.csv", index=False)
    assert ts.analyze(tmp_path / "two.csv").studies[0].series.run_names == ["a", "b"]
    curves, _, _ = read_curves([str(tmp_path / "two.csv")], Reading())
    assert [curve.run for curve in curves] == ["a", "b"]


@pytest.mark.slow
def test_commands_say_in_one_line_what_was_taken(tmp_path, capsys):
    file = written("wandb", tmp_path)
    for call in (["analyze", str(file), "--table", "families"], ["forecast", str(file), "--horizon", "800"]):
        with pytest.raises(SystemExit):
            main(call)
        err = [line for line in capsys.readouterr().err.splitlines() if "recognised as" in line]
        assert len(err) == 1
        assert "step from '_step', loss from 'train/loss'" in err[0]


def test_rename_counts_in_every_command(tmp_path):
    pd.DataFrame({"step": STEP, "loss": 1.0, "nll": LOSS, "mine": MINE}).to_csv(
        tmp_path / "a.csv", index=False
    )
    named = {"nll": "loss"}
    series = ts.analyze(tmp_path / "a.csv", rename=named).studies[0].series
    np.testing.assert_allclose(series.values["loss"], LOSS)
    (curve,), _, _ = read_curves([str(tmp_path / "a.csv")], Reading(rename=named))
    np.testing.assert_allclose(curve.loss, LOSS)
    np.testing.assert_allclose(history.read_losses(str(tmp_path / "a.csv"), named)["loss"], LOSS)


def test_what_is_no_log_is_refused_alike(tmp_path):
    (tmp_path / "a.txt").write_text("nothing here\n")
    for call in (ts.read_log, ts.analyze, ts.forecast, lambda p: fit_scaling_law(p, "power"), LossFile):
        with pytest.raises(InputError, match="neither a store nor a log in a known format") as caught:
            call(tmp_path / "a.txt")
        assert "\n" not in str(caught.value)


def test_a_planned_schedule_may_be_a_log(tmp_path):
    (tmp_path / "plan.csv").write_text("iter,learning_rate\n0,0.1\n100,0.01\n")
    assert read_schedule(tmp_path / "plan.csv").step.tolist() == [0, 100]
