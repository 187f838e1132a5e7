"""The positive control on embeddings whose transition was planted, and on noise that has none."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from toposcope.cli.main import main
from toposcope.core.errors import InputError
from toposcope.core.seeding import rng
from toposcope.sources import open_series
from toposcope.statistics.phases.bends import LEAST_POINTS
from toposcope.studies.grokking import fourier
from toposcope.studies.grokking import runs as grokking
from toposcope.studies.grokking import tables as grokking_tables
from toposcope.studies.grokking.fourier import fourier_bars, key_frequencies
from toposcope.studies.grokking.rises import LevelMove, height, rank
from toposcope.studies.sections import Section

P, WIDTH, KEYS = 31, 24, (2, 5, 7, 11, 13)
STEPS = np.arange(0.0, 3001.0, 60.0)
ONSET = 1200.0
RISE = 150.0
"""Steps in which 63% of the circles are there: a sharp rise, for the search and the online detector."""
SLOW = 1200.0
"""Steps that a slow rise takes, 20 of the checkpoints: to the search it is a gentle wave."""


@dataclass(frozen=True)
class Planted:
    """What is written or held: steps (n,), embeddings (n, p, width), and the losses at those steps."""

    name: str
    steps: np.ndarray
    embeddings: np.ndarray
    loss: np.ndarray
    heldout_loss: np.ndarray


def studied_run(run: Planted, *, draws: int = 0) -> grokking.StudiedRun:
    """Measure a planted run from memory."""
    held = {
        int(step): {"token_emb.weight": table, "pos_emb.weight": table[:2]}
        for step, table in zip(run.steps, run.embeddings, strict=True)
    }
    losses = pd.DataFrame({"step": run.steps, "loss": run.loss, "heldout_loss": run.heldout_loss})
    (measured,) = grokking.measure(open_series({run.name: held}, losses=losses), draws=draws, quiet=True)
    return grokking.study_run(measured)


def planted(*, circles: bool, growth: bool = False, slow: bool = False, seed: int = 0) -> Planted:
    """Return a run of slowly moving noise; five circles grow out of it from `ONSET` on, if asked for.

    With `slow` they are half as large, and grow for 20 checkpoints.
    """
    g = np.random.default_rng(seed)
    drift = (
        g.standard_normal((len(STEPS), P, WIDTH)) * np.r_[1.0, np.full(len(STEPS) - 1, 0.15)][:, None, None]
    )
    noise = np.cumsum(drift, axis=0)
    angles = 2.0 * np.pi * np.outer(np.arange(P), KEYS) / P
    frame, _ = np.linalg.qr(g.standard_normal((WIDTH, 2 * len(KEYS))))
    wheel = np.concatenate([np.cos(angles), np.sin(angles)], axis=1) @ frame.T
    grown = -np.expm1(-np.maximum(STEPS - ONSET, 0.0) / RISE)[:, None, None]
    if slow:
        part = np.clip((STEPS - ONSET) / SLOW, 0.0, 1.0)[:, None, None]
        grown = 0.5 * part * part * (3.0 - 2.0 * part)
    embeddings = noise + (15.0 * grown * wheel if circles else 0.0)
    if growth:
        embeddings *= 1.0 + 9.0 * grown
    loss = 4.0 - 3.0 * grown[:, 0, 0] + 0.01 * g.standard_normal(len(STEPS)).cumsum()
    return Planted(f"planted-{seed}", STEPS, embeddings, np.exp(-STEPS / 100.0), loss)


@pytest.fixture(scope="module")
def studied() -> grokking.StudiedRun:
    return studied_run(planted(circles=True), draws=20)


@pytest.mark.slow
def test_planted_circles_are_found_within_the_interval() -> None:
    """Small circles drown in noise: two checkpoints late is no error, and one run of four may be missed."""
    turns = []
    for seed in range(4):
        one = studied_run(planted(circles=True, seed=seed))
        turns.append(one.findings["own", "scaled"].first)
        loss, raised = (
            one.findings["", "heldout_loss"].first,
            one.findings["", "heldout_loss"].raised,
        )
        assert loss is not None
        assert loss.low <= ONSET <= loss.high
        assert raised is not None
        assert raised > ONSET
        assert sorted(key_frequencies(one.run.power[-1]).tolist()) == list(KEYS)
    found = [turn for turn in turns if turn is not None]
    assert len(found) >= 3
    for turn in found:
        assert turn.low - 120 <= ONSET <= turn.high
        assert turn.high - turn.low <= 600


@pytest.mark.slow
def test_bars_are_judged_among_those_of_shuffled_residues(studied: grokking.StudiedRun) -> None:
    finding = studied.findings["own", "scaled"]
    assert finding.p_control == pytest.approx(1 / 21)  # beyond each of 20 draws
    assert finding.raised is not None
    assert finding.raised > ONSET
    assert studied.findings["", "heldout_loss"].p_control is None  # the loss has no shuffles
    values = grokking.bars_of(studied.run, "own")["scaled"].to_numpy()
    assert grokking.beyond_shuffled(studied.run, "scaled", values, 1) == finding
    few = replace(studied.run, control=studied.run.control.query("draw < 18"))
    undecided = grokking.beyond_shuffled(few, "scaled", values, 1)
    assert (undecided.p_control, undecided.rise, undecided.found) == (None, None, False)


@pytest.mark.slow
def test_circles_that_form_slowly_are_found_and_placed() -> None:
    """The search takes them for a gentle wave; the height among the shuffles does not care how fast."""
    findings = [
        studied_run(planted(circles=True, slow=True, seed=seed), draws=20).findings["own", "scaled"]
        for seed in range(2)
    ]
    assert all(finding.found for finding in findings)
    assert not any(finding.first for finding in findings)
    for finding in findings:
        assert finding.rise is not None
        # a circle smaller than the scatter has no long bar, so the bars rise after it began to form
        assert finding.rise.start_high >= ONSET
        assert ONSET < finding.rise.middle < ONSET + SLOW


@pytest.mark.slow
def test_noise_is_not_taken_for_a_transition() -> None:
    findings = [
        studied_run(planted(circles=False, seed=seed), draws=19).findings["own", "scaled"]
        for seed in range(1, 6)
    ]
    # at 5% a run, three or more of five have probability .001
    assert sum(finding.found for finding in findings) <= 2
    assert all(finding.rise is None for finding in findings if not finding.found)
    assert sum(finding.first is not None for finding in findings) <= 2
    assert sum(finding.raised is not None for finding in findings) <= 2


@pytest.mark.slow
def test_shuffles_are_not_found_among_shuffles(studied: grokking.StudiedRun) -> None:
    """Each shuffle in the place of the run, judged among the others: ranks 1 to 20, each once."""
    control = studied.run.control.query("name == 'shuffled' and feature == 'scaled'")
    wide = control.pivot_table(index="step", columns="draw", values="value").to_numpy().T
    heights = [height(values) for values in wide]
    ranks = [rank(own, [*heights[:i], *heights[i + 1 :]]) for i, own in enumerate(heights)]
    np.testing.assert_allclose(np.sort(ranks), np.arange(1, 21) / 20)


@pytest.mark.slow
def test_growth_alone_moves_the_bars_but_not_their_share_of_the_radius() -> None:
    one = studied_run(planted(circles=False, growth=True, seed=3))
    bars = one.bars["own"]
    assert bars["longest"].iloc[-1] > 5 * bars["longest"].iloc[0]
    assert bars["scaled"].iloc[-1] < 2 * bars["scaled"].iloc[0]
    assert one.findings["own", "scaled"].first is None


def test_a_perfect_circle_reaches_the_mark_and_has_no_second_bar() -> None:
    angles = 2.0 * np.pi * np.outer(np.arange(P), KEYS) / P
    wheel = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    table = fourier_bars(np.stack([wheel, 3.0 * wheel]), "own")
    np.testing.assert_allclose(table["scaled"], fourier.circle_bar(P))
    np.testing.assert_allclose(table["longest"].iloc[1], 3.0 * table["longest"].iloc[0])
    assert np.isinf(table["ratio"]).all()
    assert (table["second_share"] == 0).all()
    np.testing.assert_allclose(fourier.power_share(wheel[None], "own"), 1.0)


@pytest.mark.slow
def test_the_steps_between_are_those_of_the_two_rises(studied: grokking.StudiedRun) -> None:
    section = grokking_tables.lags([studied])
    first, second = section.as_json()["rows"][:2]  # type: ignore[index]
    bar, loss = studied.findings["own", "scaled"].rise, studied.findings["", "heldout_loss"].rise
    assert bar is not None
    assert loss is not None
    assert first["difference"] == bar.start - loss.start
    assert (first["from"], first["to"]) == (bar.start_low - loss.start_high, bar.start_high - loss.start_low)
    assert second["difference"] == bar.middle - loss.middle
    assert "in the one run" in section.note


def with_p(studied: grokking.StudiedRun, p: float | None) -> grokking.StudiedRun:
    """Return the run with another rank of its bars."""
    rise = LevelMove(1.0, 0.0, 2.0, 3.0, 2.0, 4.0) if p is not None and p <= 0.05 else None
    bars = replace(studied.findings["own", "scaled"], p_control=p, rise=rise)
    return replace(studied, findings=studied.findings | {("own", "scaled"): bars})


@pytest.mark.slow
def test_the_answer_follows_the_numbers(studied: grokking.StudiedRun) -> None:
    """What passes is counted, what does not is no finding, and what has no shuffles has no verdict."""

    def answer(*ranks: float | None) -> Section:
        return grokking_tables.answer([with_p(studied, p) for p in ranks])

    all_found = answer(0.01, 0.01, 0.02, 0.05, 0.01)
    assert all_found.title == "H1 rises beyond its shuffled residues in 5 of 5 runs, each at a level of 5%"
    assert "5 or more of 5 runs have probability 3.1e-07" in all_found.note
    some = answer(0.01, 0.06, 0.5, 0.3, 0.04)
    assert some.title == "H1 rises beyond its shuffled residues in 2 of 5 runs, each at a level of 5%"
    assert "2 or more of 5 runs have probability 0.023" in some.note
    assert [row[1] for row in some.rows] == [0.01, 0.06, 0.5, 0.3, 0.04]
    assert [row[4] for row in some.rows] == [1.0, None, None, None, 1.0]
    assert (
        answer(0.2, 0.9).title == "H1 rises beyond its shuffled residues in none of 2 runs, at a level of 5%"
    )
    assert answer(None).title == "Not judged: no run has the 19 shuffles that a level of 5% needs"


def test_the_average_over_runs_carries_its_interval() -> None:
    said = grokking_tables._over_runs("bar", "start", np.array([100.0, 200.0, 300.0]), 4)
    assert "200 steps after" in said
    assert "3 of 4 runs (95% interval over runs -48 to 448)" in said
    assert "no run has both" in grokking_tables._over_runs("bar", "start", np.array([]), 2)


@pytest.mark.slow
def test_a_control_that_fires_too_often_is_called_out(
    studied: grokking.StudiedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = {"longest": (9, 0), "scaled": (1, 0), "second_share": (0, 1)}
    monkeypatch.setattr(grokking_tables, "control", lambda *_, **__: counts)
    section = grokking_tables.false_alarms([studied])
    assert [row[-1] for row in section.rows] == ["yes", "no", "no"] * 2
    assert section.rows[0][3] == 0.45
    assert "Beyond the stated rate: longest bar, residues shuffled; longest bar, random" in section.note
    assert "not evidence of circles" in section.note


@pytest.mark.slow
def test_the_controls_lose_the_planted_circles(studied: grokking.StudiedRun) -> None:
    for kind in grokking.CONTROLS:
        rows = studied.run.control[studied.run.control["name"] == kind]
        last = rows[(rows["feature"] == "scaled") & (rows["step"] == STEPS[-1])]
        assert len(last) == 20
        assert last["value"].max() < 0.6 * studied.bars["own"]["scaled"].iloc[-1]


@pytest.mark.slow
def test_what_the_store_gives_is_what_the_embeddings_give(studied: grokking.StudiedRun) -> None:
    """Every number, bit by bit: the planes of both choices, and the draws of both controls."""
    run = planted(circles=True)
    embeddings = run.embeddings.astype(np.float32).astype(float)  # what a series hands out
    for choice in ("own", "last"):
        pd.testing.assert_frame_equal(
            studied.bars[choice], fourier_bars(embeddings, choice), check_exact=True
        )
        np.testing.assert_array_equal(
            grokking.power_of(studied.run, choice), fourier.power_share(embeddings, choice)
        )
    rows = studied.run.control.pivot_table(index="step", columns=["name", "feature", "draw"], values="value")
    order = rng(name="grokking-shuffled", run=run.name, draw=3).permutation(P)
    shuffled = fourier_bars(embeddings[:, order], "own")
    np.testing.assert_array_equal(rows["shuffled", "longest", 3], shuffled["longest"])
    power = fourier.power_share(embeddings[:, order], "own")
    np.testing.assert_array_equal(rows["shuffled", "power", 3], power)
    random = fourier.random_bars(embeddings, rng(name="grokking-random", run=run.name, draw=3))
    np.testing.assert_array_equal(rows["random", "scaled", 3], random["scaled"])


def write(run: Planted, folder: Path, *, heldout: bool = True) -> Path:
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


@pytest.mark.slow
def test_the_command_prints_the_tables_and_draws_the_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grokking, "DRAWS", 19)
    folder = write(planted(circles=True), tmp_path / "run")
    call = ["reproduce", "grokking", "--runs", str(folder), "--out", str(tmp_path / "out"), "--json"]
    with pytest.raises(SystemExit) as ended:
        main(call)
    output = capsys.readouterr()
    assert ended.value.code == 0, output.err
    sections = json.loads(output.out)["sections"]
    assert [len(section["rows"]) for section in sections] == [2, 1, 9, 6, 7, len(STEPS), 1]
    assert sections[0]["title"].startswith("Of 2 claims")
    title = "H1 rises beyond its shuffled residues in 1 of 1 runs, each at a level of 5%"
    assert sections[1]["title"] == title
    assert sections[-1]["title"].endswith("no two matrices compose")  # only an embedding was planted
    (picture,) = (tmp_path / "out").glob("grokking-*.png")
    assert picture.stat().st_size > 5000
    assert "Negative control" in (tmp_path / "out" / "grokking.md").read_text()


@pytest.mark.slow
def test_without_runs_the_recipe_is_trained_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(recipe: str, out: Path, *, overrides: object, jobs: int, quiet: bool) -> list[object]:
        assert (recipe, overrides, jobs, quiet) == ("grokking", {}, 1, True)
        out.mkdir()
        return [SimpleNamespace(folder=write(planted(circles=True), out / "planted"), status="trained")]

    monkeypatch.setattr("toposcope.training.train", train, raising=False)
    monkeypatch.setattr(grokking, "DRAWS", 1)
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "grokking", "--jobs", "1", "--json"])
    output = capsys.readouterr()
    assert ended.value.code == 0, output.err
    assert "Not judged: no run has the 19 shuffles" in output.out


def test_runs_that_cannot_be_judged_are_refused(tmp_path: Path) -> None:
    run = planted(circles=True)
    short = Planted("s", run.steps[:9], run.embeddings[:9], run.loss[:9], run.heldout_loss[:9])
    with pytest.raises(InputError, match=f"has 9 checkpoints; dating a transition needs {LEAST_POINTS + 2}"):
        grokking.measure(open_series(str(write(short, tmp_path / "short"))), quiet=True)
    with pytest.raises(InputError, match="has a held-out loss at 0 of its checkpoints"):
        grokking.measure(open_series(str(write(run, tmp_path / "blind", heldout=False))), quiet=True)
    small = Planted("s", run.steps, run.embeddings[:, :9], run.loss, run.heldout_loss)
    with pytest.raises(InputError, match="has 9 rows; 5 frequencies need at least 10"):
        grokking.measure(open_series(str(write(small, tmp_path / "small"))), quiet=True)
