"""Recipes compared by the losses of their seeds: from logs of any kind, at the command line and in Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope.cli.main import main
from toposcope.core.errors import InputError
from toposcope.core.types import RunRecord
from toposcope.runs import RunComparison
from toposcope.statistics.seeds import LEVEL, MOST_SEEDS, difference, seeds_needed
from toposcope.store import Store

Call = Callable[..., tuple[int, str, str]]
STEPS = np.arange(10, 1010, 10)


def losses(level: float = 2.0, seed: int = 0, steps: np.ndarray = STEPS) -> np.ndarray:
    """Return a loss that falls to a level, with noise between seeds and from step to step."""
    g = np.random.default_rng(seed)
    offset = 0.004 * g.standard_normal()
    return level + offset + 4.0 / np.sqrt(steps) + 0.01 * g.standard_normal(len(steps))


def write_csv(path: Path, values: np.ndarray, steps: np.ndarray = STEPS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame({"step": steps, "loss": values}).to_csv(path, index=False)
    return path


def write_seeds(folder: Path, level: float, seeds: range, steps: np.ndarray = STEPS) -> Path:
    for seed in seeds:
        write_csv(folder / f"seed{seed}.csv", losses(level, seed, steps), steps)
    return folder


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def run(*args: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return int(str(ended.value.code)), out, err

    return run


def compared(first: object, second: object, **options: object) -> RunComparison:
    made = ts.compare(first, second, **options)  # type: ignore[arg-type]
    assert isinstance(made, RunComparison)
    return made


@pytest.fixture
def recipes(tmp_path: Path) -> tuple[Path, Path]:
    """Return a recipe and a better one, four and five seeds."""
    base = write_seeds(tmp_path / "base", 2.0, range(4))
    return base, write_seeds(tmp_path / "wide", 1.9, range(10, 15))


def test_the_better_recipe_is_named_first_with_its_interval_and_since_when(recipes, call: Call) -> None:
    code, out, err = call("compare", *recipes)
    assert (code, err) == (0, "")
    assert out.startswith("wide is better than base: its loss at step 1,000 is 0.099 lower (95%: ")
    assert "4 seeds against 5" in out.splitlines()[0]
    assert "On the way: this could be said at step 400, after 40% of the run" in out
    assert out.count("seed") >= 9
    code, out, _ = call("compare", *reversed(recipes), "--json")
    stated = json.loads(out)
    assert (stated["verdict"], stated["better"]) == ("better", "wide")
    assert stated["test"]["low"] < 0.1 < stated["test"]["high"]
    assert [one["passed"] for one in stated["on_the_way"]] == [True, True, True]


def test_two_halves_of_one_recipe_are_not_told_apart_and_the_seeds_that_would_be_needed_stand_there(
    tmp_path: Path,
) -> None:
    first = write_seeds(tmp_path / "a", 2.0, range(4))
    second = write_seeds(tmp_path / "b", 2.0, range(4, 8))
    made = compared(first, second)
    assert made.verdict == "no difference shown"
    assert made.best is None
    needed = made.compared.needed
    assert needed is not None
    assert needed.low is not None
    assert needed.seeds is not None
    assert needed.low < needed.seeds
    assert f"{needed.seeds:,} seeds of each show it in 4 of 5 comparisons (from 4 against 4 seeds:" in str(
        made
    )
    assert needed.at_least is not None
    assert f"larger or smaller, {needed.at_least:,} or more, without an upper limit" in str(made)


def _seeds(g: np.random.Generator, kind: str, count: int) -> np.ndarray:
    """Losses of seeds, of mean 0 and standard deviation 1."""
    if kind == "exponential":
        return g.exponential(1.0, count) - 1.0
    if kind == "t(5)":
        return g.standard_t(5, count) / np.sqrt(5 / 3)
    return g.standard_normal(count)


def _held(kind: str, effect: float, groups: int) -> tuple[float, float]:
    """How often the range, and the least number, hold the number that is true, among what is not shown."""
    g = np.random.default_rng(round(10 * effect))
    rows = []
    for _ in range(groups):
        first, second = _seeds(g, kind, 3), _seeds(g, kind, 3) + effect
        found = difference(first, second)
        assert found is not None
        if found.p > LEVEL:
            needed = seeds_needed(found.value, found.sd, found.degrees, (3, 3))
            truth = seeds_needed(found.value, 1.0, 1e6).seeds or MOST_SEEDS + 1
            least = needed.at_least or MOST_SEEDS + 1
            inside = (needed.low or MOST_SEEDS + 1) <= truth <= (needed.high or 10**9)
            rows.append((inside, least <= (seeds_needed(effect, 1.0, 1e6).seeds or 10**9)))
    return tuple(np.mean(rows, axis=0))


@pytest.mark.calibration
@pytest.mark.parametrize("kind", ["normal", "t(5)", "exponential"])
@pytest.mark.parametrize("effect", [0.5, 1.0])
def test_from_three_and_three_seeds_the_ranges_hold_the_truth(kind: str, effect: float) -> None:
    """By the 95% limits of normal seeds 87 to 96% of the ranges held it, and 69% for the true difference."""
    assert min(_held(kind, effect, 500)) >= 0.93


def test_from_three_and_three_seeds_the_least_number_is_small() -> None:
    needed = seeds_needed(1.0, 1.0, 4.0, (3, 3))
    assert needed.low is not None
    assert needed.high is not None
    assert (needed.low, needed.seeds, needed.at_least) == (6, 17, 3)
    assert needed.high > 200


def test_one_run_of_each_says_that_it_cannot_tell_and_what_the_noise_is_not(
    tmp_path: Path, call: Call
) -> None:
    first = write_csv(tmp_path / "a.csv", losses(2.0, 0))
    second = write_csv(tmp_path / "b.csv", losses(1.9, 1))
    code, out, _ = call("compare", first, second)
    assert code == 0
    assert out.startswith("one run of each cannot tell which of a.csv and b.csv is better: b.csv is ")
    assert (
        "not the noise between seeds; give several seeds of each, or seeds of a similar "
        "recipe by --siblings" in out
    )
    assert "Same run? No: the two differ from their first common step on, step 10." in out


def test_siblings_state_the_noise_for_one_run_of_each(tmp_path: Path, recipes) -> None:
    first = write_csv(tmp_path / "a.csv", losses(2.0, 20))
    second = write_csv(tmp_path / "b.csv", losses(1.9, 21))
    made = compared(first, second, siblings=recipes)
    assert made.best == "b.csv"
    assert made.compared.test is not None
    assert made.compared.test.degrees == 7
    assert "noise also from 9 siblings" in made.line
    lonely = compared(first, second, siblings=[first])
    assert lonely.verdict == "cannot tell"
    assert any("one run does not show the noise between seeds" in one for one in lonely.problems)


def test_a_run_and_its_copy_are_the_same_run_and_a_fork_says_where_it_parts(tmp_path: Path) -> None:
    values = losses()
    first = write_csv(tmp_path / "a.csv", values)
    copy = write_csv(tmp_path / "copy.csv", values)
    made = compared(first, copy)
    assert made.verdict == "same run"
    assert made.line == (
        "a.csv and copy.csv are the same run: equal bit for bit at all 100 common steps, up to step 1,000"
    )
    fork = write_csv(tmp_path / "fork.csv", np.where(STEPS > 500, values + 0.02, values))
    parting = compared(first, fork).compared.parting
    assert parting is not None
    assert (parting.last_equal, parting.first_apart, parting.exact) == (500.0, 510.0, True)
    assert "equal bit for bit up to step 500 (50 of 100 common steps), and differ from step 510 on" in str(
        compared(first, fork)
    )


def test_a_log_with_fewer_decimals_is_equal_to_what_it_prints(tmp_path: Path) -> None:
    values = losses()
    first = write_csv(tmp_path / "a.csv", values)
    second = write_csv(tmp_path / "b.csv", values.round(4))
    assert "equal to the 4 decimals" in compared(first, second).line


def test_logs_of_two_dialects_are_compared(tmp_path: Path) -> None:
    folder = tmp_path / "text"
    folder.mkdir()
    for seed in (1, 2, 3):
        lines = [
            f"step {step}: train loss {loss:.4f}, val loss {loss + 0.1:.4f}"
            for step, loss in zip(STEPS, losses(1.9, seed), strict=True)
        ]
        (folder / f"seed{seed}.log").write_text("\n".join(lines) + "\n")
    made = compared(folder, write_seeds(tmp_path / "tables", 2.0, range(4, 8)))
    assert made.best == "text"
    assert made.ok


def test_a_store_is_compared_with_a_log(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "store", recipe={})
    rows = [pd.DataFrame({"run": f"s{seed}", "step": STEPS, "loss": losses(2.0, seed)}) for seed in range(3)]
    store.write_runs([RunRecord(f"s{seed}", "") for seed in range(3)])
    store.write_metrics(pd.concat(rows, ignore_index=True))
    made = compared(tmp_path / "store", write_csv(tmp_path / "other.csv", losses(1.7, 9)))
    assert made.best == "other.csv"
    assert made.compared.test is not None
    assert made.compared.test.degrees == 2
    again = compared(store, write_csv(tmp_path / "other.csv", losses(1.7, 9)))
    assert again.compared.test == made.compared.test


def test_a_folder_with_one_seed_is_one_run(tmp_path: Path, recipes) -> None:
    alone = write_seeds(tmp_path / "alone", 1.9, range(30, 31))
    made = compared(recipes[0], alone)
    assert "4 seeds against 1" in made.line
    assert made.best == "alone"
    assert compared(write_csv(tmp_path / "x.csv", losses()), alone).verdict == "cannot tell"


def test_runs_of_unequal_length_are_compared_up_to_the_shortest(tmp_path: Path, recipes) -> None:
    short = tmp_path / "short"
    for seed in range(3):
        write_csv(short / f"s{seed}.csv", losses(1.9, seed + 40)[:70], STEPS[:70])
    made = compared(recipes[0], short)
    assert made.compared.at == 700
    assert made.best == "short"


def test_a_run_that_was_cut_off_is_left_out_and_named(tmp_path: Path, call: Call) -> None:
    base = write_seeds(tmp_path / "base", 2.0, range(4))
    write_csv(base / "cut.csv", losses(2.0, 9)[:20], STEPS[:20])
    code, _, err = call("compare", base, write_seeds(tmp_path / "wide", 1.9, range(10, 14)))
    assert code == 1
    assert "problem: cut.csv: it ends at step 200, the others near 1,000; left out" in err


def test_logs_at_other_steps_are_interpolated_and_the_note_says_so(tmp_path: Path, recipes) -> None:
    sparse = write_seeds(tmp_path / "sparse", 1.9, range(50, 54), np.arange(7, 1000, 31))
    made = compared(recipes[0], sparse)
    assert made.best == "sparse"
    assert any("interpolated" in note for note in made.compared.notes)


def test_a_loss_that_is_not_finite_is_a_problem_and_the_rest_is_compared(tmp_path: Path, call: Call) -> None:
    base = write_seeds(tmp_path / "base", 2.0, range(4))
    values = losses(2.0, 9)
    values[[30, 31]] = np.nan
    write_csv(base / "hurt.csv", values)
    code, out, err = call("compare", base, write_seeds(tmp_path / "wide", 1.9, range(10, 14)))
    assert code == 1
    assert out.startswith("wide is better than base")
    assert "hurt.csv: 2 losses, the first at step 310, are not finite; skipped" in " ".join(err.split())


def test_a_copy_of_a_seed_is_no_further_seed(tmp_path: Path, recipes) -> None:
    base = recipes[0]
    (base / "copy.csv").write_bytes((base / "seed0.csv").read_bytes())
    made = compared(*recipes)
    assert len(made.compared.first.runs) == 4
    assert made.problems == ("seed0.csv: the same losses as copy.csv; left out",)


def test_lists_of_tables_are_compared_in_python() -> None:
    tables = [
        [pd.DataFrame({"step": STEPS, "loss": losses(level, seed + 9 * i)}) for seed in range(3)]
        for i, level in enumerate((2.0, 1.9))
    ]
    made = compared(*tables)
    assert made.line.startswith("second is better than first")
    assert list(made.table["recipe"]) == ["first"] * 3 + ["second"] * 3


def test_runs_that_go_on_have_the_answer_of_the_test_on_the_way(tmp_path: Path) -> None:
    for name, level, first in (("base", 2.0, 0), ("wide", 1.9, 10)):
        for seed in range(first, first + 4):
            path = write_csv(tmp_path / name / f"s{seed}.csv", losses(level, seed)[:60], STEPS[:60])
            assert path.exists()
    made = compared(tmp_path / "base", tmp_path / "wide", horizon=2000)
    assert made.verdict == "too early"
    assert "too early to say which of base and wide is better" in made.line
    later = compared(tmp_path / "base", tmp_path / "wide", horizon=1000)
    assert (later.best, later.compared.ended) == ("wide", False)
    assert later.line.startswith("wide is better than base so far: its loss at step 400 is ")
    assert "in 21% of 4,329 pairs of public recipes" in str(later)
    assert "give `horizon` 600 if the runs have ended" in str(later)


def test_recipes_whose_losses_measure_different_things_are_a_problem(tmp_path: Path) -> None:
    first = write_seeds(tmp_path / "a", 2.0, range(3))
    for seed in range(3):
        write_csv(tmp_path / "b" / f"s{seed}.csv", 9.0 + losses(2.0, seed + 7))
    made = compared(first, tmp_path / "b")
    assert not made.ok
    assert "differ in what their losses measure" in made.problems[0]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["empty", "base"], "contains no log"),
        (["base", "nothing"], "nothing"),
        (["base", "wide", "--horizon", "0"], "no run can end there"),
        (["base", "wide", "--points", "12"], "it is for weights, but losses are compared"),
        (["base", "wide", "--column", "accuracy"], "accuracy"),
        (["base", "late"], "too few to compare"),
    ],
)
def test_a_bad_call_is_one_line(tmp_path: Path, recipes, call: Call, args: list[str], message: str) -> None:
    (tmp_path / "empty").mkdir()
    write_csv(tmp_path / "late" / "s.csv", losses(), STEPS + 5000)
    places = [arg if arg.startswith("-") or i > 1 else tmp_path / arg for i, arg in enumerate(args)]
    code, out, err = call("compare", *places)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_clouds_of_points_are_sent_to_the_command_for_them(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.npy", "b.npy"):
        np.save(name, np.eye(20))
    Path("train.csv").write_text("step,loss\n1,2\n")
    asked = {
        ("compare", "a.npy", "b.npy"): "toposcope cloud a.npy b.npy",
        ("compare", "train.csv", "b.npy"): "toposcope cloud FIRST b.npy",
        ("check", "a.npy"): "toposcope cloud a.npy",
    }
    for words, remedy in asked.items():
        code, out, err = call(*words)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.endswith(f"{remedy}\n")
    with pytest.raises(InputError, match="an array: is a cloud of points"):
        compared(np.eye(20), np.eye(20))


def test_runs_of_two_recipes_in_one_folder_are_refused(tmp_path: Path) -> None:
    base = write_seeds(tmp_path / "base", 2.0, range(2))
    write_csv(base / "other.csv", 12.0 + losses(2.0, 7))
    with pytest.raises(InputError, match="its runs are of 2 recipes"):
        ts.compare(base, write_seeds(tmp_path / "wide", 1.9, range(10, 13)))


def test_runs_of_two_sizes_in_one_folder_are_refused(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    for seed, size in ((0, 1000), (1, 2000)):
        table = pd.DataFrame({"step": STEPS, "loss": losses(2.0, seed), "parameters": size})
        table.to_csv(base / f"seed{seed}.csv", index=False)
    with pytest.raises(InputError, match="its runs have 2 sizes, from 1,000 to 2,000 parameters"):
        ts.compare(base, write_seeds(tmp_path / "wide", 1.9, range(10, 13)))


def test_the_held_out_loss_is_compared_where_it_is_the_only_one(tmp_path: Path) -> None:
    for name, level in (("a", 2.0), ("b", 1.9)):
        for seed in range(3):
            table = pd.DataFrame({"step": STEPS, "val_loss": losses(level, seed + (name == "b") * 9)})
            (tmp_path / name).mkdir(exist_ok=True)
            table.to_csv(tmp_path / name / f"{seed}.csv", index=False)
    made = compared(tmp_path / "a", tmp_path / "b")
    assert made.best == "b"
    assert made.compared.test is not None
    assert made.compared.test.value == pytest.approx(-0.1, abs=0.02)


@pytest.mark.parametrize("width", [80, 120])
def test_no_name_is_broken_within_a_word(
    tmp_path: Path, call: Call, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    names = ["a-long-name-of-a-recipe-with-rotary-embeddings", "another-long-name-with-learned-positions"]
    for name, level in zip(names, (2.0, 1.9), strict=True):
        for seed in range(3):
            write_csv(tmp_path / name / f"train_log_of_the_run_with_seed_{seed}.csv", losses(level, seed))
    out = call("compare", tmp_path / names[0], tmp_path / names[1])[1]
    for word in (*names, *(f"train_log_of_the_run_with_seed_{seed}.csv" for seed in range(3))):
        assert word in out
    assert max(map(len, out.splitlines())) <= width


def test_the_figure_has_every_run_and_the_mean_of_each_recipe(tmp_path: Path, recipes, call: Call) -> None:
    ax = compared(*recipes).plot()
    assert len(ax.lines) == 4 + 5 + 2 + 1
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["base (4)", "wide (5)"]
    code, out, _ = call("compare", *recipes, "--out", tmp_path / "figures" / "x.png")
    assert code == 0
    assert (tmp_path / "figures" / "x.png").read_bytes().startswith(b"\x89PNG")
    assert out.rstrip().endswith("x.png")


def test_a_recipe_that_lost_a_seed_is_not_better_by_those_that_are_left(tmp_path: Path, call: Call) -> None:
    base = write_seeds(tmp_path / "base", 2.0, range(4))
    wild = write_seeds(tmp_path / "wild", 1.8, range(10, 14))
    first = sorted(wild.iterdir())[0]
    table = pd.read_csv(first)
    table.loc[table.index > len(table) // 4, "loss"] = np.nan
    table.to_csv(first, index=False)
    code, out, err = call("compare", base, wild)
    assert code == 1
    assert out.startswith("cannot say that wild is better than base: 1 of 4 runs of wild ended without a")
    assert f"{first.name}: it has no finite loss after step" in out + err
    code, out, _ = call("compare", write_seeds(tmp_path / "best", 1.5, range(20, 24)), wild)
    assert out.startswith("best is better than wild: ")


def test_runs_that_both_recipes_have_are_named(tmp_path: Path, call: Call) -> None:
    base = write_seeds(tmp_path / "base", 2.0, range(3))
    wide = write_seeds(tmp_path / "wide", 1.99, range(10, 13))
    twin = sorted(wide.iterdir())[0]
    twin.write_bytes(sorted(base.iterdir())[0].read_bytes())
    code, out, err = call("compare", base, wide)
    assert code == 1
    first, *_ = sorted(base.iterdir())
    assert f"problem: wide: {twin.name} has the same losses as {first.name} of base" in out + err
    code, out, err = call("compare", first, sorted(wide.iterdir())[1], "--siblings", base)
    assert code == 1
    assert "noise also from 2 siblings" in out
    named = f"base/{first.name} has the same losses as {first.name}, which is compared"
    assert f"problem: --siblings: {named}; left out" in " ".join((out + err).split())
    code, out, err = call("compare", base, wide, "--siblings", base)
    named = f"base/{first.name} has the same losses as base/{first.name}, which is compared"
    assert f"problem: --siblings: {named}; left out" in " ".join((out + err).split())


def test_counted_records_are_not_held_against_steps(tmp_path: Path, call: Call) -> None:
    stated = write_seeds(tmp_path / "stated", 2.0, range(3))
    counted = tmp_path / "counted"
    counted.mkdir()
    for seed in range(3):
        lines = [f"{{'loss': {value:.4f}}}" for value in losses(1.9, 10 + seed)]
        (counted / f"run{seed}.log").write_text("\n".join(lines) + "\n")
    code, out, err = call("compare", stated, counted)
    assert (code, out) == (2, "")
    assert "counted states no step, so its records were counted" in err


def test_values_below_zero_and_a_column_that_is_no_loss(tmp_path: Path, call: Call) -> None:
    for side, first, level, gain in (("base", 0, -1.0, 0.0), ("wide", 10, -1.4, 0.05)):
        for seed in range(first, first + 4):
            g = np.random.default_rng(seed)
            reward = 1.0 - 3.0 / STEPS + gain + 0.002 * g.standard_normal() + 0.002 * g.standard_normal(100)
            path = write_csv(tmp_path / side / f"seed{seed}.csv", losses(level, seed))
            pd.read_csv(path).assign(reward=reward).to_csv(path, index=False)
    sides = tmp_path / "base", tmp_path / "wide"
    code, out, _ = call("compare", *sides)
    assert code == 0
    assert out.startswith("wide is better than base: its loss at step 1,000 is 0.399 lower (95%: ")
    code, out, _ = call("compare", *sides, "--column", "reward")
    assert code == 0
    assert out.startswith("base and wide differ: the reward of wide at step 1,000 is 0.0496")
    assert " higher (95%: " in out.splitlines()[0]
    assert "Basis: the mean reward of each run" in out
    assert "better" not in out
    made = compared(*sides, column="reward")
    assert (made.verdict, made.best) == ("different", None)


def test_a_seed_that_diverges_is_named_and_counts(recipes: tuple[Path, Path], call: Call) -> None:
    rising = losses(1.9, 12) + np.where(STEPS > 700, 0.02 * (STEPS - 700), 0.0)
    write_csv(recipes[1] / "seed12.csv", rising)
    code, out, err = call("compare", *recipes)
    assert code == 1
    assert "; 1 problem, listed below" in out.splitlines()[0]
    assert "problem: seed12.csv of wide diverges: the loss rose from " in err
    assert len(compared(*recipes).compared.second.runs) == 5


def test_all_kinds_of_comparisons_share_four_keys(recipes: tuple[Path, Path]) -> None:
    weights = [{step: {"fc.weight": np.eye(4) * scale} for step in (0, 10)} for scale in (1.0, 2.0)]
    for made, kind in ((ts.compare(*recipes), "losses"), (ts.compare(*weights), "weights")):
        found = made.to_dict()
        assert (found["compared"], found["ok"], found["problems"]) == (kind, True, [])
        assert found["answer"] == str(made).splitlines()[0]


def write_model(folder: Path, width: int, level: float | None = None) -> Path:
    """Write a run folder's last checkpoint of one width, and its losses beside it."""
    folder.mkdir()
    np.savez(
        folder / "step_1000.npz", **{"layers.0.mlp.fc1.weight": np.vander(range(1, width + 1)).astype(float)}
    )
    if level is not None:
        write_csv(folder / "metrics.csv", losses(level))
    return folder


def test_runs_of_two_widths_are_compared_by_their_losses(tmp_path: Path, call: Call) -> None:
    narrow, wide = write_model(tmp_path / "narrow", 3, 2.0), write_model(tmp_path / "wide", 4, 1.9)
    code, out, err = call("compare", narrow, wide)
    assert code == 0
    assert out.startswith("one run of each cannot tell which of narrow and wide is better: wide is 0.1")
    assert "note: the two have no matrix of the same name and shape, so their losses are compared" in err
    code, out, err = call("compare", narrow, wide, "--step", 1000)
    assert (code, out) == (2, "")
    assert "no matrix of the same name and shape; leave out --step to compare their losses" in err


def test_two_sizes_are_told_apart_without_measuring_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = []
    monkeypatch.setattr("toposcope.subjects.snapshot.RunReader.__getitem__", measured.append)
    made = compared(write_model(tmp_path / "narrow", 3, 2.0), write_model(tmp_path / "wide", 4, 1.9))
    assert made.notes == ("the two have no matrix of the same name and shape, so their losses are compared",)
    assert measured == []


def test_runs_with_no_matrix_in_common_and_no_losses_are_refused(tmp_path: Path, call: Call) -> None:
    code, out, err = call("compare", write_model(tmp_path / "narrow", 3), write_model(tmp_path / "wide", 4))
    assert (code, out) == (2, "")
    assert "the two have no matrix of the same name and shape, and have no losses to compare" in err
