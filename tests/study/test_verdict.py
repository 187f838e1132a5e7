"""What the verdict says of leads and lags, shared steps of a rate, spikes and smoothing, end to end."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from toposcope import analyze
from toposcope.core.forms import lag_cell
from toposcope.page.tables import families_table
from toposcope.statistics.trends import _sweeps as sweeps
from toposcope.statistics.trends import refusals
from toposcope.statistics.trends import simulators as sim
from toposcope.statistics.trends.basis import trend_family
from toposcope.statistics.trends.innovations import innovation_test, scores
from toposcope.statistics.trends.joint import RunInnovations, joint_test
from toposcope.statistics.trends.pooling import (
    NOTHING_LEFT,
    RunPair,
    parts_of,
    pooled,
    too_few,
    without_rules,
)
from toposcope.statistics.trends.refusals import SWINGS, TOO_SMOOTH, rich
from toposcope.statistics.trends.signs import LAG_SHARE, LAGS, OWN_SHARE, SPIKE_SHARE, pair_products
from toposcope.statistics.trends.whitening import whiten
from toposcope.study import from_frame
from toposcope.study.compact import lines_of_reasons, of_frame, verdict_table
from toposcope.study.figure import draw_verdict
from toposcope.study.trends.verdicts import NOTHING_SHARED, SCREENED, UNKNOWN_RATE, family_table, judged

STEPS = np.arange(51) * 100.0
PYTHIA = np.r_[0, 2 ** np.arange(10), np.arange(1000, 143_001, 1000)].astype(float)


def rate_of(n: int, at: float = 0.55) -> np.ndarray:
    return np.where(np.linspace(0.0, 1.0, n) < at, 1e-3, 1e-4)


def answer(rate: np.ndarray, lag: float, size: float) -> np.ndarray:
    out = rate / rate[0]
    for i in range(1, len(out)):
        out[i] += (out[i - 1] - out[i]) * np.exp(-1.0 / lag)
    return size * out / np.ptp(out)


def dropped(seed: int, noise: float = 0.002) -> pd.DataFrame:
    """Return a loss and a feature that answer one drop of the learning rate, and share nothing else."""
    g, n = np.random.default_rng(seed), len(STEPS)
    loss = (STEPS + 100) ** -0.3 + answer(rate_of(n), 0.5, 0.2) + noise * g.standard_normal(n)
    feature = np.log(STEPS + 100) / 5 + answer(rate_of(n), 0.8, -0.3) + noise * g.standard_normal(n)
    return pd.DataFrame({"step": STEPS, "loss": loss, "h0": feature})


def leading(lag: int, seed: int, steps: np.ndarray = STEPS, r: float = 0.95) -> pd.DataFrame:
    """Return a feature whose noise the loss repeats `lag` checkpoints later."""
    g, n = np.random.default_rng(seed), len(steps)
    a, b = g.standard_normal((2, n + 4))
    b = r * a + np.sqrt(1.0 - r * r) * b
    loss = (steps + 100) ** -0.3
    noise = 0.05 * np.ptp(loss)
    return pd.DataFrame(
        {
            "step": steps,
            "loss": loss + noise * b[2 - lag : 2 - lag + n],
            "h0": np.log(steps + 100) / 5 + 0.05 * a[2 : 2 + n],
        }
    )


def row_of(frame: pd.DataFrame) -> pd.Series:
    return family_table(from_frame(frame, features=["h0"]), targets=["loss"]).iloc[0]


def test_a_step_that_both_answer_is_no_verdict_where_the_rate_is_not_known() -> None:
    told = [row_of(dropped(seed)) for seed in range(8)]
    assert {row["verdict"] for row in told} == {"cannot tell"}
    assert not any(row["rate_known"] for row in told)
    for row in told:
        assert re.fullmatch(r"both turn at steps [\d–, ]+, learning rate not known", row["reason"])
    known = [row_of(dropped(seed).assign(learning_rate=rate_of(51))) for seed in range(8)]
    assert all(row["rate_known"] for row in known)
    assert sum(row["verdict"] == "adds" for row in known) <= 1
    assert not any("learning rate" in row["reason"] for row in known)


def test_a_reason_names_the_column_of_the_target_as_the_table_does() -> None:
    rows = leading(0, 2).assign(learning_rate=1e-3)
    table = from_frame(rows.rename(columns={"loss": "my_score"}), features=["h0"], targets=["my_score"])
    row = family_table(table, targets=["my_score"]).iloc[0]
    assert (row["target"], row["reason"]) == ("my_score", "moves with the my_score beyond trend")


def test_a_row_that_adds_says_that_the_rate_is_not_known() -> None:
    bare, known = row_of(leading(0, 2)), row_of(leading(0, 2).assign(learning_rate=1e-3))
    assert bare["verdict"] == known["verdict"] == "adds"
    assert bare["reason"] == "moves with the loss beyond trend; learning rate not known"
    assert known["reason"] == "moves with the loss beyond trend"


def test_the_first_screen_says_that_the_rate_is_not_known() -> None:
    bare = analyze(leading(0, 2)).findings.first
    known = analyze(leading(0, 2).assign(learning_rate=1e-3)).findings.first
    assert bare.title.endswith("The learning rate is unknown, and a change in it may move both.")
    assert bare.checks[-1].text.endswith("; the learning rate is not known")
    assert bare.next.startswith("Add the learning rate of each step")
    assert "rate" not in known.title + known.checks[-1].text + known.next


@pytest.mark.parametrize("lag", [1, -1, 2, -2])
def test_a_lead_is_found_and_named(lag: int) -> None:
    told = [row_of(leading(lag, seed).assign(learning_rate=1e-3)) for seed in range(1, 5)]
    assert [row["lag"] for row in told] == [lag] * 4
    assert [row["lag_steps"] for row in told] == [lag * 100.0] * 4
    assert {row["first"] for row in told} == {"feature" if lag > 0 else "target"}
    for row in told:
        assert row["verdict"] == "adds"
        assert f"{abs(lag)} checkpoint" in row["reason"]
        assert f"{abs(lag) * 100} steps" in row["reason"]
        assert (row["r_low"] > 0) == (row["p"] <= 0.05)


def test_at_uneven_steps_a_lag_is_counted_in_checkpoints() -> None:
    uneven = np.unique(np.r_[0, np.geomspace(1, 143_000, 50).round()])
    told = [row_of(leading(1, seed, uneven).assign(learning_rate=1e-3)) for seed in range(4)]
    found = [row for row in told if row["verdict"] == "adds"]
    assert len(found) >= 3
    assert {row["lag"] for row in found} == {1}
    assert all(np.isnan(row["lag_steps"]) and "steps" not in row["reason"] for row in found)


def test_several_runs_are_one_test_at_every_lag() -> None:
    frames = [leading(1, seed, r=0.5).assign(run=f"r{seed}") for seed in range(4)]
    row = row_of(pd.concat(frames))
    alone = [row_of(frame) for frame in frames]
    assert (row["verdict"], row["lag"], row["runs"]) == ("adds", 1, 4)
    assert row["p"] < min(one["p"] for one in alone)


def test_the_six_parts_share_the_level() -> None:
    assert sum(LAG_SHARE if lag else OWN_SHARE for lag in LAGS) + SPIKE_SHARE == pytest.approx(1.0)


@pytest.mark.parametrize("lag", [0, 1, -2])
def test_interval_and_p_agree_at_every_lag(lag: int) -> None:
    g = np.random.default_rng(5)
    a, b = g.standard_normal((2, 51, 120))
    b = 0.45 * np.roll(a, lag, axis=0) + np.sqrt(1 - 0.45**2) * b
    test = innovation_test(whiten(a, STEPS), whiten(b, STEPS))
    known = np.isfinite(test.p)
    assert (((test.low > 0) | (test.high < 0)) == (test.p <= 0.05))[known].all()
    assert 0.2 < np.mean(test.p[known] <= 0.05) < 0.9
    assert np.mean(test.lag[known & (test.p <= 0.05)] == lag) > 0.8


def test_a_null_pair_keeps_the_level_over_all_lags() -> None:
    g = np.random.default_rng(6)
    test = innovation_test(*(whiten(g.standard_normal((51, 400)), STEPS) for _ in range(2)), intervals=False)
    assert np.mean(test.p <= 0.05) <= 0.05 + 2 * 0.011


@pytest.mark.parametrize("shift", [0.0, 50.0])
def test_the_products_of_runs_are_added_whether_or_not_they_share_their_steps(shift: float) -> None:
    g = np.random.default_rng(11)
    ones, gone = (np.ones(51),) * 2, (np.full(51, np.nan),) * 2
    runs = [RunInnovations(STEPS + shift * k, *g.standard_normal((2, 51)), ones, gone) for k in range(3)]
    every = slice(None)
    parts = [pair_products(run.e, run.f, every, every, np.ones(51))[:2] for run in runs]
    product, square = (sum(float(part[side].sum()) for part in parts) for side in (0, 1))
    assert joint_test(runs).r == pytest.approx(product / square, rel=1e-12)


def test_what_rests_on_three_checkpoints_is_in_doubt() -> None:
    g = np.random.default_rng(0)
    ones, noise = np.ones(51), g.standard_normal((2, 51))
    noise[:, 30:33] = 25.0 * np.array([1.0, -1.0, 1.0])
    run = RunInnovations(STEPS, *noise, (ones, ones), (np.full(51, np.nan),) * 2)
    narrow = joint_test([run])
    assert narrow.p > 0.05 or "3000 to 3200" in narrow.doubt
    both = g.standard_normal(51)
    broad = joint_test([RunInnovations(STEPS, both, both, (ones, ones), (both, both))])
    assert broad.p < 0.001
    assert broad.doubt == ""


def test_scores_of_skewed_noise_have_no_mean() -> None:
    g = np.random.default_rng(0)
    up = np.where(g.random((300, 40)) < 0.08, g.exponential(20.0, (300, 40)), 0.0) + g.standard_normal(
        (300, 40)
    )
    e = up - up.mean(axis=0)
    assert np.abs(scores(e).mean(axis=0)).max() < 1e-12
    holes = e.copy()
    holes[7] = 0.0
    assert (scores(holes)[7] == 0.0).all()


@pytest.mark.calibration
def test_spikes_upwards_at_independent_checkpoints_are_nothing() -> None:
    g, n = np.random.default_rng(1), 300
    x, y = (
        np.where(g.random((n, 80)) < 0.08, g.exponential(20.0, (n, 80)), 0.0) + g.standard_normal((n, 80))
        for _ in range(2)
    )
    steps = np.arange(n) * 100.0
    p = innovation_test(whiten(x, steps), whiten(y, steps), intervals=False).p
    assert np.mean(p <= 0.05) < 0.25  # 59% before the scores were centred


def test_white_noise_takes_no_trend_beyond_the_core() -> None:
    basis, sizes = trend_family(STEPS)
    assert whiten(np.random.default_rng(0).standard_normal((51, 1)), STEPS).trends[0] == len(
        basis[: sizes[0]]
    )


def test_leftovers_of_smooth_curves_are_too_smooth_to_test() -> None:
    x, y = (whiten(sim.curve(sim.power_law, 0.0)(np.random.default_rng(s), STEPS, 60), STEPS) for s in (0, 1))
    test = innovation_test(x, y, intervals=False)
    assert (test.why == TOO_SMOOTH).mean() > 0.95
    noise = whiten(np.random.default_rng(2).standard_normal((51, 60)), STEPS)
    assert rich(noise, noise).mean() > 0.8


def chirps(n: int, slow: float, fast: float, pairs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return independent waves whose period goes from `slow` to `fast` checkpoints, under noise."""
    g = np.random.default_rng(seed)
    phase = 2 * np.pi * np.cumsum(1 / slow + (1 / fast - 1 / slow) * np.linspace(0, 1, n))[:, None]
    x, y = (np.sin(phase + g.uniform(0, 6.3, pairs)) + 0.2 * g.standard_normal((n, pairs)) for _ in range(2))
    return x, y


@pytest.mark.parametrize("sweep", [(18.0, 5.0), (6.0, 22.0)])
def test_waves_that_sweep_alike_do_not_add(sweep: tuple[float, float]) -> None:
    x, y = chirps(51, *sweep, pairs=80, seed=3)
    test = innovation_test(whiten(x, STEPS), whiten(y, STEPS), intervals=False)
    assert test.found.mean() <= 0.125, "5% and three standard errors; a third to a half were found"


def test_a_wave_that_both_keep_is_noted() -> None:
    x, y = chirps(51, 18.0, 5.0, pairs=80, seed=3)
    test = innovation_test(whiten(x, STEPS), whiten(y, STEPS), intervals=False)
    named = [f"{note} {why}" for note, why in zip(test.note, test.why, strict=True)]
    assert sum("a wave of" in text or SWINGS in text for text in named) > 60
    assert any("a wave of" in note for note in test.note)


def test_the_row_says_from_where_to_where_a_wave_drifts() -> None:
    t = np.arange(60)
    turns = 2 * np.pi * (t / 20 + (1 / 5 - 1 / 20) * t**2 / 120)
    noise = 0.1 * np.random.default_rng(0).standard_normal((60, 2))
    found = sweeps.shared((np.cos(turns) + noise[:, 0])[:, None], (np.sin(turns) + noise[:, 1])[:, None])
    assert found.words(0) == "20 to 5 checkpoints"
    steady = np.sin(2 * np.pi * t / 8)[:, None]
    assert sweeps.shared(steady, steady).words(0) == "8 checkpoints"


@pytest.mark.parametrize("n", [20, 51, 120])
def test_the_bar_of_waves_is_what_white_series_reach(n: int) -> None:
    white = np.random.default_rng(n).standard_normal((n, 400))
    share = (sweeps.shared(white, white).power > sweeps.bar(n)).mean()
    assert share == pytest.approx(0.5 if n < 40 else 0.75, abs=4 * np.sqrt(0.25 * (1 / 200 + 1 / 400)))


def test_a_pair_in_a_run_is_that_of_the_table() -> None:
    frame = leading(1, 3)
    x, y = frame[["h0"]].to_numpy(), frame["loss"].to_numpy()
    alone = pooled(parts_of(x, y, STEPS, None))
    row = row_of(frame)
    assert [row[name] for name in ("r", "r_low", "r_high", "p", "lag")] == [
        alone[name] for name in ("r", "r_low", "r_high", "p", "lag")
    ]


def test_words_for_lags() -> None:
    assert lag_cell({"r": float("nan"), "lag": 1}) == "–"
    assert lag_cell({"r": 0.4, "lag": -2}) == "2 after"


@pytest.mark.slow
def test_a_table_on_disk_says_lag_direction_and_rate(tmp_path: Path) -> None:
    leading(1, 1).assign(lr=1e-3).to_csv(tmp_path / "lead.csv", index=False)
    dropped(0).to_csv(tmp_path / "bare.csv", index=False)
    analysis = analyze(tmp_path / "lead.csv")
    data = json.loads(json.dumps(analysis.findings.as_data()))
    found = next(one for one in data["answers"] if one["question"] == "beyond")
    assert found["strength"] == "adds"
    assert found["numbers"]["ahead"] == 1
    assert found["numbers"]["r"][0]["lag"] == 1
    assert found["numbers"]["r"][0]["first"] == "feature"
    assert "1 checkpoint (100 steps) before" in found["words"]
    bare = analyze(tmp_path / "bare.csv").findings["beyond"]
    assert bare.strength == "cannot tell"
    assert "learning rate" in bare.numbers["reasons"][0][0]


def runs_of_one_pair(count: int, r: float, seed: int, why: str = "") -> list[RunPair]:
    """Return a pair in several runs, correlated by r; refused where there is a `why`."""
    g, made = np.random.default_rng(seed), []
    for _ in range(count):
        e, f = g.standard_normal((2, 51))
        f = r * e + np.sqrt(1.0 - r * r) * f
        run = RunInnovations(STEPS, e, f, (np.ones(51),) * 2, (np.full(51, np.nan),) * 2, why=why)
        made.append(RunPair(why, 51, 0.0, 45, True, run, replace(run, why="") if why else None))
    return made


@pytest.mark.parametrize(
    ("r", "named"), [(0.9, "; 2 of 5 runs with drifting waves"), (0.0, " (3 of 5 runs)")]
)
def test_a_refusal_is_named_where_the_verdict_would_be_another(r: float, named: str) -> None:
    parts = runs_of_one_pair(3, 0.0, seed=0) + runs_of_one_pair(2, r, seed=1, why=SWINGS)
    out = pd.DataFrame([{"target": "loss", "column": "h0", "reason": "", **pooled(parts)}])
    row = judged(out, ["h0"], 0.05).iloc[0]
    assert (row["verdict"], row["runs"]) == ("trend only", 3)
    assert row["reason"] == f"no shared movement beyond trend{named}"


def test_every_reason_is_one_clause_and_on_the_page_of_the_method() -> None:
    page = (Path(__file__).parents[2] / "docs" / "statistics-evidence.md").read_text(encoding="utf-8")
    reasons = [
        *refusals.IN_SHORT, refusals.FEW_DECIDE, NOTHING_LEFT, NOTHING_SHARED, SCREENED.format(5),
        UNKNOWN_RATE, too_few(7),
    ]  # fmt: skip
    assert len(set(reasons)) == 10
    for reason in reasons:
        assert len(reason.split()) <= 12, reason
        assert f"| {reason}" in page


@pytest.mark.parametrize(
    ("note", "runs", "words"),
    [
        ("a wave of 7 checkpoints", 1, "after a wave of 7 checkpoints that both share is removed"),
        ("a wave of 7 checkpoints", 5, "after a wave that both share is removed in 1 of 5 runs"),
        (
            "a turn at steps 100–200 and 500–600 and a wave of 20 to 4 checkpoints", 5,
            "after a turn and a wave that both share are removed in 1 of 5 runs",
        ),
    ],
)  # fmt: skip
def test_what_was_removed_is_said_in_one_clause(note: str, runs: int, words: str) -> None:
    (part,) = runs_of_one_pair(1, 0.0, seed=0)
    assert part.innovations is not None
    noted = replace(part, innovations=replace(part.innovations, note=note), whole=part.innovations)
    others = runs_of_one_pair(runs - 1, 0.0, seed=1)
    assert [other.rules for other in without_rules([noted, *others])] == [words]


def test_the_terminal_says_why_a_row_has_no_verdict() -> None:
    families = pd.DataFrame({
        "target": "loss", "column": ["a", "b", "c", "d"], "confirmatory": [True, True, True, False],
        "verdict": ["cannot tell", "adds", "cannot tell", "cannot tell"],
        "reason": [SWINGS, "x", SWINGS, "y"],
    })  # fmt: skip
    study = SimpleNamespace(families=families, target="loss", labels=SimpleNamespace(label=str.upper))
    assert lines_of_reasons(study) == [f"cannot tell: A and C: {SWINGS}"]


def test_the_terminal_names_the_rule_without_which_a_verdict_would_be_another() -> None:
    rule = f"{NOTHING_SHARED}; after a wave of 5 checkpoints that both share is removed"
    families = pd.DataFrame({
        "target": "loss", "column": ["a", "b", "c"], "confirmatory": [True, True, False],
        "verdict": "trend only", "reason": [rule, NOTHING_SHARED, rule],
    })  # fmt: skip
    study = SimpleNamespace(families=families, target="loss", labels=SimpleNamespace(label=str.upper))
    assert lines_of_reasons(study) == [f"trend only: A: {rule} (without this rule the verdict would differ)"]


def test_tables_and_figures_carry_the_lag() -> None:
    frame = leading(1, 2).assign(learning_rate=1e-3)
    families = family_table(from_frame(frame, features=["h0"]), targets=["loss"])
    labels = SimpleNamespace(label=str, baseline=lambda _: False)
    study = SimpleNamespace(
        families=families, target="loss", labels=labels, judged="column", group=None,
        series=SimpleNamespace(left_out={}),
    )  # fmt: skip
    for table in (families_table(study), verdict_table(study)):
        cells = dict(zip(table.columns, table.rows[0], strict=True))
        assert cells["lag"] == "1 before"
    assert of_frame("families", families, 5).rows[0][5] in (1, 1.0, "1")
    ax = draw_verdict(study)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["h0 (1 before)"]
    plt.close(ax.figure)
