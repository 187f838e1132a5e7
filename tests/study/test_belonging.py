"""Runs that do not belong together are told apart, by their files and losses, wherever runs are pooled."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

import toposcope as ts
from toposcope.cli.main import main
from toposcope.core.errors import InputError
from toposcope.core.types import Feature, Kind, Row, RunRecord
from toposcope.logs.belonging import groups_of, said
from toposcope.store import Store
from toposcope.store.units import Unit

CURVES = Path(__file__).parents[3] / "shared" / "data" / "curves"
STEP = np.arange(0, 600, 20)
SIZES = {"tiny": 3_000, "small": 12_000, "med": 46_000, "large": 97_000}


def _apart(runs: pd.DataFrame, losses: pd.DataFrame | None = None) -> list[set[str]]:
    return [set(group.runs) for group in groups_of(runs, losses)]


def _facts(**columns: list) -> pd.DataFrame:
    n = len(next(iter(columns.values())))
    return pd.DataFrame({"run": [f"r{i}" for i in range(n)], **columns})


@pytest.mark.parametrize(
    "columns",
    [
        {"tokenizer": ["bpe", "bpe", "characters"]},
        {"corpus": ["a", "a", "b"]},
        {"task": ["language", "language", "copy"]},
        {"family": ["gpt", "gpt", "llama"]},
        {"vocab_size": [512, 512, 128]},
        {"dataset": ["x", "x", "y"]},
        {"config": [json.dumps({"vocab_size": size}) for size in (50257, 50304, 32000)]},
        {"config": [{"tokenizer": name} for name in ("bpe", "bpe", "characters")]},
        {"parameters": [10, 10, 10], "config": [{"batch_size": size} for size in (8, 8, 64)]},
    ],
)
def test_what_files_state_sets_runs_apart(columns):
    assert _apart(_facts(**columns)) == [{"r0", "r1"}, {"r2"}]


@pytest.mark.parametrize(
    "columns",
    [
        {"seed": [1, 2, 3], "parameters": [10, 10, 10], "family": ["gpt"] * 3},
        {"parameters": [3_000, 21_000, 97_000], "config": [{"batch_size": n} for n in (8, 16, 64)]},
        {"config": [{"vocab_size": size} for size in (50304, 50432, 50688)]},  # Pythia's, padded
        {"config": [{"steps": steps} for steps in (100, 200, 400)], "parameters": [10, 10, 10]},
        {"corpus": ["x", None, "x"]},
        {"config": ["not json", None, "{}"]},
    ],
)
def test_seeds_sizes_and_paddings_set_nothing_apart(columns):
    assert _apart(_facts(**columns)) == [{"r0", "r1", "r2"}]


def test_a_run_that_states_less_joins_the_only_group_it_can_be_of():
    tokenizers = {"tokenizer": ["bpe", "bpe", "characters", None], "family": ["gpt", "gpt", "rnn", "gpt"]}
    assert _apart(_facts(**tokenizers)) == [{"r0", "r1", "r3"}, {"r2"}]
    assert _apart(_facts(tokenizer=["bpe", "characters", None])) == [{"r0"}, {"r1"}, {"r2"}]


def _curve(run: str, first: float, last: float, seed: int, *, start: int = 0) -> pd.DataFrame:
    noise = 1 + 0.01 * np.random.default_rng(seed).standard_normal(len(STEP))
    share = (1 + STEP / 40.0) ** -0.8
    share = (share - share[-1]) / (1 - share[-1])
    rows = pd.DataFrame({"run": run, "step": STEP, "loss": (last + (first - last) * share) * noise})
    return rows[rows["step"] >= start]


def _losses(*curves: tuple[str, float, float], start: int = 0, seed: int = 0) -> pd.DataFrame:
    return pd.concat([_curve(*one, seed + i, start=start) for i, one in enumerate(curves)])


@pytest.mark.parametrize("seed", range(5))
def test_losses_set_apart_where_files_say_nothing(seed):
    family = [(name, np.log(97), last) for name, last in zip(SIZES, (2.9, 2.6, 2.2, 1.9), strict=True)]
    runs = pd.DataFrame({"run": [*SIZES, "odd"]})
    for odd in (("odd", np.log(97), 0.01), ("odd", np.log(8), 0.002), ("odd", np.log(50257), 3.1)):
        losses = _losses(*family, odd, seed=10 * seed)
        assert _apart(runs, losses) == [set(SIZES), {"odd"}], odd
    assert _apart(runs, _losses(*family, ("odd", np.log(97), 3.4), seed=seed)) == [{*SIZES, "odd"}]


@pytest.mark.parametrize("start", [0, 20, 200])
def test_a_healthy_family_is_one_group_from_wherever_its_log_begins(start):
    family = [(name, 10.9, last) for name, last in zip(SIZES, (4.4, 3.6, 2.9, 2.2), strict=True)]
    assert len(groups_of(pd.DataFrame({"run": list(SIZES)}), _losses(*family, start=start))) == 1


def test_grokked_seeds_of_one_task_are_one_group():
    runs = _facts(corpus=["mod 97"] * 3)
    losses = _losses(("r0", 4.5, 1e-4), ("r1", 4.5, 1e-2), ("r2", 4.5, 3.9))
    assert len(groups_of(runs, losses)) == 1
    unstated = _losses(("r0", 4.5, 1e-4), ("r1", 4.5, 1e-2))
    assert len(groups_of(runs[["run"]].iloc[:2], unstated)) == 1


@pytest.mark.skipif(not CURVES.is_dir(), reason="the published curves are not here")
def test_published_families_are_one_group():
    table = pd.read_csv(CURVES / "gemstones" / "hot_width_le_768.csv")
    table = table.rename(columns={"run_name": "run", "final_loss": "loss"})
    for least in (0, 10_000):
        late = table[table["step"] >= least]
        assert len(groups_of(late[["run"]].drop_duplicates(), late)) == 1
    for folder in ("csv_25", "csv_100"):
        logs = [
            pd.read_csv(path).assign(run=path.stem)
            for path in sorted((CURVES / "multipowerlaw" / folder).glob("*.csv"))
        ]
        both = pd.concat(logs)
        assert len(groups_of(both[["run"]].drop_duplicates(), both)) == 1


def test_a_line_names_what_differs_and_the_runs():
    runs = _facts(tokenizer=["bpe", "bpe", "characters"], family=["gpt"] * 3, vocab_size=[512, 512, 128])
    line = said(groups_of(runs))
    assert line.startswith("2 groups of runs do not belong together")
    assert "bpe, vocabulary 512 (r0, r1); characters, vocabulary 128 (r2)" in line
    assert said(groups_of(runs.iloc[:2])) == ""
    assert groups_of(runs.iloc[:0]) == ()


# ---- wherever runs are pooled ---------------------------------------------------------------------


def _mixed() -> pd.DataFrame:
    """Two tokenizers at the same three sizes, with a feature."""
    parts = []
    for place, (first, lasts) in {"bpe": (6.2, (4.4, 4.0, 3.7)),
                                  "characters": (4.6, (2.9, 2.6, 2.4))}.items():  # fmt: skip
        for i, (name, last) in enumerate(zip(list(SIZES)[:3], lasts, strict=True)):
            rows = _curve(f"{place}-{name}", first, last, seed=i)
            rows = rows.assign(tokenizer=place, parameters=SIZES[name], family="gpt")
            own = np.random.default_rng(len(parts)).standard_normal(len(rows))
            slope = 2.0 if place == "bpe" else 1.0
            parts.append(rows.assign(mine=slope * np.log(rows["step"] + 30.0) + 0.05 * own))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def mixed() -> pd.DataFrame:
    return _mixed()


@pytest.fixture(scope="module")
def analysis(mixed):
    return ts.analyze(mixed)


@pytest.mark.slow
def test_analyze_judges_each_group_apart(analysis, mixed):
    assert [group.label for group in analysis.groups] == ["bpe", "characters"]
    assert repr(analysis).startswith("2 groups of runs do not belong together")
    ranges = [found["changed"].numbers["quality"]["ranges"] for found in analysis.all_findings]
    assert [len(one) for one in ranges] == [1, 1]
    assert max(ranges[1][0]["first"]) < 5.0 < min(ranges[0][0]["first"])
    assert set(analysis.families["group"]) == {"bpe", "characters"}
    for label, rows in mixed.groupby("tokenizer"):
        alone = ts.analyze(rows)
        of_group = analysis.families[analysis.families["group"] == label].drop(columns="group")
        pd.testing.assert_frame_equal(of_group.reset_index(drop=True), alone.families, check_dtype=False)
        scale = analysis.scaling[analysis.scaling["group"] == label]
        assert scale["n_sizes"].tolist() == alone.scaling["n_sizes"].tolist() == [3] * len(scale)
    assert analysis.to_json(["families"])["groups"][0]["label"] == "bpe"


def test_one_group_has_no_group_column(mixed):
    alone = ts.analyze(mixed[mixed["tokenizer"] == "bpe"])
    assert alone.groups == ()
    assert alone.apart == ""
    assert "group" not in alone.families


@pytest.mark.slow
def test_forecasts_are_of_one_group(mixed):
    made = ts.forecast(mixed)
    assert repr(made).startswith("2 groups of runs do not belong together")
    apart = made.scores
    for label, rows in mixed.groupby("tokenizer"):
        mine = apart[apart["group"] == label].drop(columns="group").reset_index(drop=True)
        pd.testing.assert_frame_equal(mine, ts.forecast(rows).scores, check_dtype=False)
    assert set(made.summary["group"]) == set(made.largest["group"]) == {"bpe", "characters"}


@pytest.mark.slow
def test_an_unfinished_run_learns_from_its_group_alone(mixed):
    young = (mixed["run"] == "bpe-med") & (mixed["step"] > 300)
    table = ts.forecast(mixed[~young]).table.set_index("run")
    alone = ts.forecast(mixed[~young & (mixed["tokenizer"] == "bpe")]).table.set_index("run")
    assert table.loc["bpe-med", "final_loss"] == pytest.approx(alone.loc["bpe-med", "final_loss"])
    assert "characters-tiny" in table.loc["bpe-med", "reason"]


def test_a_run_to_come_is_not_forecast_from_two_groups(mixed, tmp_path):
    plan = tmp_path / "plan.csv"
    pd.DataFrame({"step": [0, 300, 600], "lr": [1e-3, 5e-4, 0.0]}).to_csv(plan, index=False)
    with pytest.raises(InputError, match="2 groups of runs do not belong together"):
        ts.forecast(siblings=mixed.assign(lr=1e-3), schedule=plan)


def test_a_law_is_of_one_group(mixed):
    last = mixed.sort_values("step").groupby("run").last().reset_index()
    law = ts.fit_scaling_law(last, "offset")
    assert law.failed
    assert "bpe" in repr(law)


def _run(arguments: list[str]) -> object:
    with pytest.raises(SystemExit) as done:
        main(arguments)
    return done.value.code


def _store(path: Path, runs: dict[str, tuple[float, float]], tokenizer: str) -> Store:
    store = Store.create(path, recipe={"points": 200})
    config = {"tokenizer": tokenizer}
    store.write_runs([RunRecord(f"{name}-{tokenizer}", config=config, parameters=3000) for name in runs])
    curves = [(f"{name}-{tokenizer}", *ends) for name, ends in runs.items()]
    store.write_metrics(_losses(*curves))
    store.write_catalogue("baselines", [Feature("weight_norm", "weight norm", "weight", Kind.BASELINE)])
    for name in runs:
        run = f"{name}-{tokenizer}"
        for step in map(int, STEP):
            unit = Unit(run, step, "baselines", 1, f"{run}-{step}")
            store.write(unit, [Row(run, step, "baselines", "weight_norm", 3.0 + np.sqrt(step))])
    return store


@pytest.fixture(scope="module")
def stores(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("stores")
    made = {"bpe": (6.2, 4.0), "characters": (4.6, 2.5)}
    for name, (first, last) in made.items():
        _store(folder / name, {"a": (first, last), "b": (first, last + 0.1)}, name)
    return [folder / name for name in made]


@pytest.mark.slow
def test_stores_of_two_tokenizers_are_judged_apart_and_said_first(stores, tmp_path, capsys):
    out = tmp_path / "both"
    report = ["report", *map(str, stores), "--out", str(tmp_path / "page")]
    merged = ["merge", *map(str, stores), "--out", str(out)]
    for command in (merged, ["analyze", str(out)], ["forecast", str(out)], report):
        _run(command)
        assert capsys.readouterr().out.startswith("2 groups of runs do not belong together"), command
    page = (tmp_path / "page" / "index.html").read_text()
    assert page.index("2 groups of runs do not belong together") < page.index("<figure")
    tables = {path.name for path in (tmp_path / "page" / "tables").iterdir()}
    assert {"families.csv", "families_2.csv"} <= tables
    for part in ("weights", "weights_2"):
        assert f'href="#{part}-questions"' in page
        assert f'id="{part}-tables"' in page


@pytest.mark.slow
def test_the_live_page_says_it_first(stores, tmp_path):
    from toposcope.store.merge import merge
    from toposcope.study.published import NOTHING
    from toposcope.watch.page.answers import stages

    both, _ = merge([Store.open(path) for path in stores], tmp_path / "both")
    *_, last = stages(both.path, NOTHING)
    assert last["apart"].startswith("2 groups of runs do not belong together")
    assert [part["subject"].split(":")[0] for part in last["parts"]] == ["bpe", "characters"]


def test_the_audit_of_two_families_says_so(tmp_path, capsys):
    rng = np.random.default_rng(0)
    names = {"a": "transformer.h.0.attn.c_proj.weight", "b": "model.layers.0.mlp.up_proj.weight"}
    for run, name in names.items():
        for step in (0, 10):
            folder = tmp_path / run / f"step_{step}"
            folder.mkdir(parents=True)
            save_file({name: rng.standard_normal((8, 6))}, folder / "model.safetensors")
    found = ts.audit(tmp_path)
    assert len(found.groups) == 2
    assert "do not belong together" in repr(found).splitlines()[0]
    assert _run(["audit", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "do not belong together" in printed.splitlines()[0]
    assert "nothing found" not in printed
    _run(["audit", str(tmp_path / "a")])
    assert "nothing found" in capsys.readouterr().out
