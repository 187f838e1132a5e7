"""Columns of a user's table that are functions of the loss or of the step are left out by name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from toposcope.cli.main import main
from toposcope.core.errors import InputError
from toposcope.logs.copies import copies, rounding
from toposcope.study._plain import plain_table
from toposcope.study.analysis import analysis_of

STEP = np.arange(0, 5001, 100)
LOSS, OF_STEP = "a function of the loss", "a function of the step"


def log(seed: int = 0, noise: float = 0.01) -> pd.DataFrame:
    g = np.random.default_rng(seed)
    loss = 2.0 + 12.0 * (STEP + 100.0) ** -0.3 + noise * g.standard_normal(len(STEP))
    return pd.DataFrame({"step": STEP, "loss": loss})


def written(frame: pd.DataFrame) -> pd.DataFrame:
    """Return what a log prints of a loss: copies rounded each in its own way, and clocks."""
    g = np.random.default_rng(9)
    wall = np.cumsum(g.gamma(20.0, 0.5, len(STEP)))
    wall[30:] += 4000.0  # the run was begun anew
    loss = frame["loss"]
    return frame.assign(
        loss=loss.round(4), ppl=np.exp(loss).round(2), bits_per_token=(loss / np.log(2)).round(4),
        epoch=(STEP / 1700).round(3), wall_time=wall.round(1),
    )  # fmt: skip


EVERY = {"ppl": LOSS, "bits_per_token": LOSS, "epoch": OF_STEP, "wall_time": OF_STEP}


def test_copies_of_the_loss_and_clocks_are_left_out_and_the_rest_stays() -> None:
    frame = written(log())
    walk = np.random.default_rng(1).standard_normal(len(STEP)).cumsum()
    table = plain_table(frame.assign(h0=walk))
    assert table.left_out == EVERY
    assert table.columns() == ["h0"]
    assert plain_table(frame).columns() == []


@pytest.mark.parametrize(
    ("name", "make", "why"),
    [
        ("neg", lambda loss: -loss, LOSS),
        ("loss__MIN", lambda loss: loss - 0.001, LOSS),
        ("train/loss__MAX", lambda loss: loss + 0.001 * np.sin(STEP), LOSS),
        ("two_to_the", lambda loss: 2.0**loss, LOSS),
        ("single", lambda loss: np.exp(loss.astype(np.float32)).astype(float), LOSS),
        ("four_digits", lambda loss: [float(f"{value:.4g}") for value in np.exp(loss)], LOSS),
        ("squashed", lambda loss: np.tanh(loss - 3.0), LOSS),
        ("time", lambda loss: np.cumsum(np.random.default_rng(3).random(len(STEP)) + 0.1), OF_STEP),
        ("ts", lambda loss: 1.7e9 + np.cumsum(np.random.default_rng(3).gamma(2, 30, len(STEP))), OF_STEP),
        ("in_epoch", lambda loss: STEP % 1700, OF_STEP),
        ("stage", lambda loss: STEP // 700, OF_STEP),
        ("seen", lambda loss: STEP * 4096 + 17, OF_STEP),
        ("trainGlobalStep", lambda loss: STEP // 8, OF_STEP),
    ],
)
def test_one_function_in_many_dresses(name: str, make: object, why: str) -> None:
    frame = log(4)
    table = plain_table(frame.assign(**{name: make(frame["loss"])}))  # type: ignore[operator]
    assert table.left_out == {name: why}


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("near", lambda loss, g: loss + 0.001 * g.standard_normal(len(STEP))),
        ("path", lambda loss, g: np.cumsum(g.random(len(STEP)) + 0.5)),
        ("accuracy", lambda loss, g: (0.9 - loss / 9 + 0.003 * g.standard_normal(len(STEP))).round(3)),
        ("mean_death_time", lambda loss, g: np.cumsum(g.random(len(STEP)) + 0.5)),
        ("power", lambda loss, g: 5.0 * (STEP + 50.0) ** -0.5),
        ("switch", lambda loss, g: (STEP > 2500).astype(float)),
    ],
)
def test_a_quantity_of_its_own_stays(name: str, make: object) -> None:
    frame = log(5)
    table = plain_table(frame.assign(**{name: make(frame["loss"], np.random.default_rng(6))}))  # type: ignore[operator]
    assert table.left_out == {}
    assert table.columns() == [name]


def test_smooth_curves_that_only_fall_are_no_copies_by_their_order() -> None:
    frame = log(noise=0.0).assign(
        a=5 * (STEP + 10.0) ** -0.5, b=np.exp(-STEP / 900), copy=lambda f: 7 * f["loss"]
    )
    table = plain_table(frame)
    assert table.left_out == {"copy": LOSS}
    assert table.columns() == ["a", "b"]


def test_several_runs_have_one_function_of_the_loss_and_each_its_own_clock() -> None:
    runs = [log(seed).assign(run=f"r{seed}") for seed in range(3)]
    g = np.random.default_rng(8)
    heldout = [run["loss"] + 0.05 + 0.01 * g.standard_normal(len(STEP)) for run in runs]
    parts = [
        run.assign(
            heldout_loss=held, val_ppl=np.exp(held), ppl=np.exp(run["loss"]),
            scaled=(seed + 1.0) * run["loss"], _runtime=(seed + 1.0) * np.cumsum(g.random(len(STEP))),
            lr_group0=np.cos(STEP / 4000.0),
        )
        for seed, (run, held) in enumerate(zip(runs, heldout, strict=True))
    ]  # fmt: skip
    table = plain_table(pd.concat(parts))
    assert table.left_out == {
        "val_ppl": "a function of the held-out loss", "ppl": LOSS, "_runtime": OF_STEP, "lr_group0": OF_STEP,
    }  # fmt: skip
    assert table.columns() == ["scaled"]  # another function in each run
    assert "heldout_loss" in table.targets


def test_equal_runs_say_nothing_of_what_is_a_function_of_the_step() -> None:
    walk = np.random.default_rng(2).standard_normal(len(STEP)).cumsum()
    twice = pd.concat([log(1).assign(run=run, h0=walk) for run in "ab"])
    assert plain_table(twice).left_out == {}


def test_a_column_that_never_changes_along_a_run_is_left_out() -> None:
    noise = np.random.default_rng(0).standard_normal((2, 30))
    table = pd.DataFrame({"step": np.arange(30), "loss": 3 + noise[0] / 100, "mine": noise[1], "plan": 400})
    assert plain_table(table.assign(lost=np.nan)).left_out == {
        "plan": "the same at every step", "lost": "without a value",
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_unrelated_columns_are_never_left_out(seed: int) -> None:
    g = np.random.default_rng(seed)
    frame = log(seed)
    noise = g.standard_normal((4, len(STEP)))
    columns = {
        "walk": noise[0].cumsum(), "white": noise[1], "counts": np.round(0.7 * noise[2]).cumsum(),
        "trend": (np.log(STEP + 50.0) + 0.02 * noise[3]).round(2),
    }  # fmt: skip
    assert copies(frame.assign(run="a", **columns), ["loss"], list(columns)) == {}


def test_rounding_is_read_from_the_digits() -> None:
    assert rounding(np.array([0.5, 0.25, 12.25])) == pytest.approx([0.005, 0.005, 0.005])
    assert rounding(np.array([100.0, 1600.0])) == pytest.approx([0.5, 0.5])
    assert rounding(np.array([1234.0, 0.1234])) == pytest.approx([0.5, 5e-5])
    assert rounding(np.array([np.pi])) == pytest.approx([np.pi * 4e-7])


@pytest.mark.slow
def test_every_face_names_what_was_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "log.csv"
    walk = np.random.default_rng(1).standard_normal(len(STEP)).cumsum()
    written(log()).assign(h0=walk).to_csv(file, index=False)
    study = analysis_of(file).studies[0]
    numbers = study.findings["beyond"].numbers
    assert {one["column"]: one["why"] for one in numbers["left_out_columns"]} == EVERY
    assert numbers["tested"] == 1
    for width in (60, 80, 120):
        text = " ".join(study.findings.as_text(width=width).split())
        for column, why in EVERY.items():
            assert f"{column} ({why})" in text
    page = json.dumps(study.findings.as_data())
    assert all(f"{column} ({why})" in page for column, why in EVERY.items())
    with pytest.raises(SystemExit) as ended:
        main(["analyze", str(file)])
    assert ended.value.code == 0  # a copy is no fault of the table
    out = capsys.readouterr().out
    assert "primary" not in out.lower()
    assert "column" in out
    assert "ppl (a function of the loss)" in " ".join(out.split())


def test_a_table_of_copies_alone_has_nothing_to_test(tmp_path: Path) -> None:
    found = analysis_of(_file(tmp_path, written(log()))).studies[0].findings
    assert found["beyond"].strength == "cannot tell"
    assert "primary" not in found.as_text().lower()
    assert found.headline.startswith("log trained without a fault (minibatch loss ")
    assert found.said(found["beyond"]).act.startswith("No column")


def test_a_copy_that_is_named_is_refused_and_says_why(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'ppl' is a function of the loss"):
        analysis_of(_file(tmp_path, written(log())), columns=("ppl",))


def test_a_column_that_cannot_be_tested_is_named() -> None:
    own = np.random.default_rng(3)
    frame = log().assign(
        stage="warm", ok=True, efficiency=own.standard_normal(len(STEP)), mine=own.standard_normal(len(STEP))
    )
    table = plain_table(frame)
    assert table.columns() == ["mine"]
    assert {name: table.left_out.get(name) for name in ("stage", "ok", "efficiency")} == {
        "stage": "not a number",
        "ok": "not a number",
        "efficiency": "a name reserved for a quantity derived from the loss",
    }
    assert "efficiency" not in plain_table(frame, ("efficiency",)).left_out


@pytest.mark.parametrize(
    ("column", "says"),
    [
        ("stage", "column 'stage' is not a number; name another column"),
        ("loss", "column 'loss' is a target, which columns are compared with; name another column"),
        ("efficiency", r"another name with `rename=\{'efficiency': 'OTHER'\}`"),
        ("nosuch", "'nosuch' is not in the table; .*; columns: mine"),
    ],
)
def test_what_is_wrong_with_a_named_column_is_said(tmp_path: Path, column: str, says: str) -> None:
    own = np.random.default_rng(3).standard_normal((2, len(STEP)))
    frame = log().assign(stage="warm", efficiency=own[0], mine=own[1])
    with pytest.raises(InputError, match=says):
        analysis_of(_file(tmp_path, frame), columns=(column,))


def _file(folder: Path, frame: pd.DataFrame) -> Path:
    frame.to_csv(folder / "log.csv", index=False)
    return folder / "log.csv"


def test_a_copy_of_a_joined_score_is_left_out() -> None:
    frame = log().assign(run="run", seen=np.random.default_rng(5).standard_normal(len(STEP)))
    score = np.random.default_rng(4).standard_normal(len(STEP)).cumsum()
    frame["benchmark_percent"] = (50.0 + 3.0 * score).round(2)
    scores = pd.DataFrame(
        {"run": "run", "step": STEP, "target": "piqa", "value": score, "status": "ok", "reason": ""}
    )
    table = plain_table(frame, scores=scores)
    assert table.left_out == {"benchmark_percent": "a function of piqa"}
    assert table.columns() == ["seen"]
