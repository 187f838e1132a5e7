"""The positive control on embeddings whose transition was planted, and on noise that has none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from toposcope.cli.main import main
from toposcope.errors import InputError
from toposcope.studies import grokking, grokking_tables
from toposcope.studies.grokking import GrokkingRun, fourier_bars, key_frequencies, read_runs, study_run

P, WIDTH, KEYS = 31, 24, (2, 5, 7, 11, 13)
STEPS = np.arange(0.0, 3001.0, 60.0)
ONSET = 1200.0


def planted(*, circles: bool, growth: bool = False, seed: int = 0) -> GrokkingRun:
    """Return a run of slowly moving noise; five circles grow out of it from `ONSET` on, if asked for."""
    g = np.random.default_rng(seed)
    drift = (
        g.standard_normal((len(STEPS), P, WIDTH)) * np.r_[1.0, np.full(len(STEPS) - 1, 0.15)][:, None, None]
    )
    noise = np.cumsum(drift, axis=0)
    angles = 2.0 * np.pi * np.outer(np.arange(P), KEYS) / P
    frame, _ = np.linalg.qr(g.standard_normal((WIDTH, 2 * len(KEYS))))
    wheel = np.concatenate([np.cos(angles), np.sin(angles)], axis=1) @ frame.T
    grown = np.maximum(np.log(np.maximum(STEPS, 1.0) / ONSET), 0.0)[:, None, None]
    embeddings = noise + (15.0 * grown * wheel if circles else 0.0)
    if growth:
        embeddings *= 1.0 + 9.0 * grown
    loss = 4.0 - 3.0 * grown[:, 0, 0] + 0.01 * g.standard_normal(len(STEPS)).cumsum()
    return GrokkingRun(f"planted-{seed}", STEPS, embeddings, np.exp(-STEPS / 100.0), loss)


@pytest.fixture(scope="module")
def studied() -> grokking.StudiedRun:
    return study_run(planted(circles=True, seed=3))


def test_planted_circles_are_found() -> None:
    """The loss has a kink and is always found; bars grow out of noise, and a trend follows some of them."""
    found = 0
    for seed in range(4):
        one = study_run(planted(circles=True, seed=seed))
        turn, loss = one.findings["own", "scaled"].first, one.findings["", "heldout_loss"].first
        assert loss is not None
        assert loss.low <= ONSET <= loss.high
        assert one.findings["", "heldout_loss"].raised is not None
        assert sorted(key_frequencies(one.run.embeddings[-1]).tolist()) == list(KEYS)
        if turn is not None:
            found += 1
            assert turn.low - 180 <= ONSET <= turn.high + 180
    assert found >= 2


def test_noise_is_not_taken_for_a_transition() -> None:
    findings = [
        study_run(planted(circles=False, seed=seed)).findings["own", "scaled"] for seed in range(1, 13)
    ]
    # at 5% a run, three or more of twelve have probability .02
    assert sum(finding.first is not None for finding in findings) <= 2
    assert sum(finding.raised is not None for finding in findings) <= 2


def test_growth_alone_moves_the_bars_but_not_their_share_of_the_radius() -> None:
    one = study_run(planted(circles=False, growth=True, seed=3))
    bars = one.bars["own"]
    assert bars["longest"].iloc[-1] > 5 * bars["longest"].iloc[0]
    assert bars["scaled"].iloc[-1] < 2 * bars["scaled"].iloc[0]
    assert one.findings["own", "scaled"].first is None


def test_a_perfect_circle_reaches_the_mark_and_has_no_second_bar() -> None:
    angles = 2.0 * np.pi * np.outer(np.arange(P), KEYS) / P
    wheel = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    table = fourier_bars(np.stack([wheel, 3.0 * wheel]), "own")
    np.testing.assert_allclose(table["scaled"], grokking.circle_bar(P))
    np.testing.assert_allclose(table["longest"].iloc[1], 3.0 * table["longest"].iloc[0])
    assert np.isinf(table["ratio"]).all()
    assert (table["second_share"] == 0).all()
    np.testing.assert_allclose(grokking.power_share(wheel[None], "own"), 1.0)


def test_the_steps_between_are_those_of_the_two_turns(studied: grokking.StudiedRun) -> None:
    section = grokking_tables.lags([studied])
    first = section.as_json()["rows"][0]  # type: ignore[index]
    bar, loss = studied.findings["own", "scaled"].first, studied.findings["", "heldout_loss"].first
    assert bar is not None
    assert loss is not None
    assert first["difference"] == bar.step - loss.step
    assert (first["from"], first["to"]) == (bar.low - loss.high, bar.high - loss.low)
    assert "in the one run" in section.note


def test_the_average_over_runs_carries_its_interval() -> None:
    said = grokking_tables._over_runs("bar", "first turn", np.array([100.0, 200.0, 300.0]), 4)
    assert "200 steps after" in said
    assert "3 of 4 runs (95% interval over runs -48 to 448)" in said
    assert "no run has both" in grokking_tables._over_runs("bar", "first turn", np.array([]), 2)


def test_a_control_that_fires_too_often_is_called_out(
    studied: grokking.StudiedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = {"longest": (9, 0), "scaled": (1, 0), "second_share": (0, 1)}
    monkeypatch.setattr(grokking_tables, "control", lambda *_, **__: counts)
    section = grokking_tables.false_alarms([studied], 20, True)
    assert [row[-1] for row in section.rows] == ["yes", "no", "no"] * 2
    assert section.rows[0][3] == 0.45
    assert "Beyond the stated rate: longest bar, residues shuffled; longest bar, random" in section.note
    assert "no evidence of circles" in section.note


def test_the_controls_lose_the_planted_circles(studied: grokking.StudiedRun) -> None:
    for kind in grokking.CONTROLS:
        fired = grokking.control(studied.run, kind, draws=4, quiet=True)
        assert fired == grokking.control(studied.run, kind, draws=4, quiet=True)
    order = np.random.default_rng(0).permutation(P)
    shuffled = fourier_bars(studied.run.embeddings[-1:, order], "own")["scaled"].item()
    assert shuffled < 0.6 * fourier_bars(studied.run.embeddings[-1:], "own")["scaled"].item()


def write(run: GrokkingRun, folder: Path, *, heldout: bool = True) -> Path:
    """Write a planted run as safetensors files with a loss history beside them."""
    folder.mkdir()
    for step, table in zip(run.steps, run.embeddings, strict=True):
        tensors = {"token_emb.weight": table, "pos_emb.weight": table[:2]}
        save_file({k: np.ascontiguousarray(v, np.float32) for k, v in tensors.items()},
                  folder / f"step_{int(step)}.safetensors")  # fmt: skip
    history = {"step": run.steps.astype(int), "loss": run.loss}
    if heldout:
        history["heldout_loss"] = run.heldout_loss
    (folder / "training_log.json").write_text(pd.DataFrame(history).to_json(orient="records"))
    return folder


def test_the_command_prints_the_tables_and_draws_the_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grokking, "DRAWS", 2)
    folder = write(planted(circles=True), tmp_path / "run")
    call = ["reproduce", "grokking", "--runs", str(folder), "--out", str(tmp_path / "out"), "--json"]
    with pytest.raises(SystemExit) as ended:
        main(call)
    output = capsys.readouterr()
    assert ended.value.code == 0, output.err
    sections = json.loads(output.out)["sections"]
    assert [len(section["rows"]) for section in sections] == [9, 12, 7, len(STEPS)]
    assert "detected in 1 of 1 runs" in sections[0]["note"]
    (picture,) = (tmp_path / "out").glob("grokking-*.png")
    assert picture.stat().st_size > 5000
    assert "Negative control" in (tmp_path / "out" / "grokking.md").read_text()


def test_without_runs_the_recipe_is_trained_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(recipe: str, out: Path, *, jobs: int, quiet: bool) -> None:
        assert (recipe, jobs, quiet) == ("grokking", 1, True)
        out.mkdir()
        write(planted(circles=True), out / "planted")

    monkeypatch.setattr("toposcope.train.train", train, raising=False)
    monkeypatch.setattr(grokking, "DRAWS", 1)
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "grokking", "--json"])
    output = capsys.readouterr()
    assert ended.value.code == 0, output.err
    assert "detected in 1 of 1 runs" in output.out


def test_runs_that_cannot_be_judged_are_refused(tmp_path: Path) -> None:
    run = planted(circles=True)
    short = GrokkingRun("s", run.steps[:9], run.embeddings[:9], run.loss[:9], run.heldout_loss[:9])
    with pytest.raises(InputError, match="has 9 checkpoints; dating a transition needs 14"):
        read_runs(str(write(short, tmp_path / "short")), quiet=True)
    with pytest.raises(InputError, match="has a held-out loss at 0 of its checkpoints"):
        read_runs(str(write(run, tmp_path / "blind", heldout=False)), quiet=True)
    small = GrokkingRun("s", run.steps, run.embeddings[:, :9], run.loss, run.heldout_loss)
    with pytest.raises(InputError, match="has 9 rows; 5 frequencies need at least 10"):
        read_runs(str(write(small, tmp_path / "small")), quiet=True)
