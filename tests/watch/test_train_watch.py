import json

import pytest

from toposcope.cli.main import main
from toposcope.store import Store
from toposcope.watch.journal import Journal

SMALL = [
    "--set",
    "context=16",
    "--set",
    "batch_size=2",
    "--set",
    "heldout_batches=1",
    "--set",
    "warmup_steps=2",
]


def _run(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    return ended.value.code, capsys.readouterr()


def _train(tmp_path, capsys, *words):
    return _run(
        capsys, "train", "--out", tmp_path / "runs", "--models", "tiny-3k,small-7k", "--updates", "8",
        "--set", "checkpoint_every=4", *SMALL, *words,
    )  # fmt: skip


def test_a_watched_training_fills_the_store_that_a_watch_goes_on_with(tmp_path, capsys):
    code, printed = _train(tmp_path, capsys, "--watch")
    assert code == 0
    assert f"the measurements go to {tmp_path / 'runs-watch'}" in printed.err
    store = Store.open(tmp_path / "runs-watch")
    assert set(store.runs()["run"]) == {"tiny-3k-seed42", "small-7k-seed42"}
    metrics = store.metrics("small-7k-seed42")
    assert metrics["step"].tolist() == list(range(9))
    assert metrics["loss"].notna().all()
    measured = [(e.run, e.step) for e in Journal.of(store.path).read() if e.kind in ("measured", "skipped")]
    wanted = [(run, step) for run in ("tiny-3k-seed42", "small-7k-seed42") for step in (0, 4, 8)]
    assert sorted(measured) == sorted(wanted)
    heads = store.features("updates", "qk_norm")
    assert heads[heads["run"] == "small-7k-seed42"]["head"].max() == 1
    code, printed = _run(capsys, "watch", store.path, "--once", "--json")
    count = sum(map(len, store.measured_steps().values()))  # a busy machine skips some
    assert (code, json.loads(printed.out)["answer"]) == (0, f"no alarm in {count} checkpoints of 2 runs")


def test_what_is_watched_from_inside_equals_what_is_measured_from_beside(tmp_path, capsys):
    _train(tmp_path, capsys, "--watch")
    code, _ = _run(
        capsys, "watch", tmp_path / "runs", "--out", tmp_path / "beside", "--once", "--rest", 0,
        "--features", "updates",
    )  # fmt: skip
    assert code == 0
    at = ["run", "step", "name", "head", "feature"]
    inside, beside = (
        Store.open(tmp_path / name).features("updates").set_index(at)["value"]
        for name in ("runs-watch", "beside")
    )
    both = inside.index.intersection(beside.index)
    single = ["zero_rows", "qk_norm", "qk_entropy", "ov_norm", "ov_entropy"]  # of one checkpoint: what is
    both = both[both.get_level_values("feature").isin(single)]  # skipped inside changes what came before
    assert len(both) >= 20
    assert (inside[both] - beside[both]).abs().max() == 0


def test_a_watched_training_is_one_process(tmp_path, capsys):
    code, printed = _train(tmp_path, capsys, "--watch", "--jobs", "2")
    assert code == 2
    assert "--jobs 2: it does not work with --watch" in printed.err
    assert not (tmp_path / "runs-watch").exists()
