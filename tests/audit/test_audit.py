from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from toposcope.cli.main import main
from toposcope.sources import open_series
from toposcope.sources.audit import audit
from toposcope.store import Store
from toposcope.sweep import Execution, sweep

sys.path.insert(0, str(Path(__file__).parent))
from planted import CATALOGUE, HEAD, STEPS, Fault, file, walk, write

KINDS = ("walk", "decay", "stationary")


def test_the_catalogue_has_more_than_twenty_kinds():
    assert len({fault.name for fault in CATALOGUE}) >= 30
    assert len({fault.fault for fault in CATALOGUE}) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["walk", "decay"])
@pytest.mark.parametrize("fault", CATALOGUE, ids=lambda fault: fault.name)
def test_every_planted_fault_is_found(tmp_path: Path, fault: Fault, kind: str):
    folder = tmp_path / "run"
    write(folder, walk(3, kind))
    fault.plant(folder)
    for cheap in (False, True):
        found = [(f.fault, f.step, f.tensor) for f in audit(open_series(folder), cheap=cheap)]
        if not cheap or fault.cheap:
            assert (fault.fault, fault.step, fault.tensor) in found, (cheap, found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_found_in_a_healthy_series(tmp_path: Path, kind: str, seed: int):
    folder = tmp_path / "run"
    write(folder, walk(seed, kind))
    assert audit(open_series(folder)) == []
    assert audit(open_series(folder), cheap=True) == []


def test_nothing_is_found_with_logarithmic_steps(tmp_path: Path):
    steps = (0, *(2**power for power in range(10)), *range(1000, 10000, 1000))
    folder = tmp_path / "run"
    write(folder, walk(1, "walk", len(steps)), steps)
    assert audit(open_series(folder)) == []


@pytest.mark.parametrize("cheap", [True, False])
@pytest.mark.parametrize(
    ("rates", "found"),
    [
        ((0.0, 1e-3, 0.0), []),
        ((1e-3, 1e-3, 0.0), ["identical"]),
        ((0.0, 1e-3, 1e-3), ["equals-final"]),
        ((), ["identical", "equals-final"]),
    ],
)
def test_weights_that_no_learning_rate_could_move_are_healthy(
    tmp_path: Path, rates: tuple[float, ...], found: list[str], cheap: bool
):
    """The rates are those of the first interval, of those between, and of the last."""
    folder = tmp_path / "run"
    path = walk(1, "walk")
    path[1], path[-1] = path[0], path[-2]
    write(folder, path)
    if rates:
        of = [rates[0] if step < STEPS[1] else rates[2] if step >= STEPS[-2] else rates[1] for step in STEPS]
        log = [{"step": step, "loss": 3.0, "lr": rate} for step, rate in zip(STEPS, of, strict=True)]
        (folder / "training_log.json").write_text(json.dumps(log))
    assert [finding.fault for finding in audit(open_series(folder), cheap=cheap)] == found


def test_weights_that_start_from_zero_are_healthy(tmp_path: Path):
    folder = tmp_path / "run"
    path = walk(1, "decay")
    path[0]["layers.0.mlp.fc2.weight"] = 0 * path[0]["layers.0.mlp.fc2.weight"]
    write(folder, path)
    assert audit(open_series(folder)) == []


@pytest.mark.slow
def test_no_fault_is_found_in_the_five_small_runs(shared_data: Path):
    """A position embedding of eight rows that learns from near 0 is remarked on in one of them."""
    series = open_series(shared_data / "seed_runs")
    assert len(series) == 255
    for cheap in (False, True):
        found = audit(series, cheap=cheap)
        assert [one.fault for one in found if not one.is_remark] == []
        assert {one.run for one in found} <= {"tiny-3k"}


def test_one_fault_is_one_finding(tmp_path: Path):
    folder = tmp_path / "run"
    write(folder, walk(3, "walk"))
    next(fault for fault in CATALOGUE if fault.name == "one NaN").plant(folder)
    assert [f.fault for f in audit(open_series(folder))] == ["non-finite"]


@pytest.mark.parametrize("cheap", [False, True])
def test_many_equal_findings_are_one_with_their_number(tmp_path: Path, cheap: bool):
    folder = tmp_path / "run"
    write(folder, walk(0, "walk"))
    for step in STEPS:
        path = file(folder, step)
        save_file(load_file(path), path, metadata={"step": str(step + 7)})
    found = [f for f in audit(open_series(folder), cheap=cheap) if f.fault == "step-mismatch"]
    assert len(found) == 1
    assert found[0].step == STEPS[0]
    assert found[0].message == (
        f"its file or trainer's state says step {STEPS[0] + 7}; so at {len(STEPS)} steps "
        f"from {STEPS[0]:,} to {STEPS[-1]:,}"
    )


def test_a_sweep_finds_exchanged_steps_before_it_measures(tmp_path: Path):
    folder = tmp_path / "run"
    write(folder, walk(3, "walk"))
    next(fault for fault in CATALOGUE if fault.name == "two steps exchanged").plant(folder)
    store = Store.create(tmp_path / "store", recipe={})
    sweep(open_series(folder), [], store, execution=Execution(quiet=True))
    assert [tuple(row) for row in store.audit()[["fault", "step"]].to_numpy()] == [("out-of-order", 900)]


def test_the_command_prints_a_table_and_exits_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "run"
    write(folder, walk(3, "walk"))
    with pytest.raises(SystemExit) as done:
        main(["audit", str(folder)])
    assert done.value.code == 0
    assert f"{len(STEPS)} checkpoints of 1 run read: nothing found" in capsys.readouterr().out
    next(fault for fault in CATALOGUE if fault.name == "all zero").plant(folder)
    with pytest.raises(SystemExit) as done:
        main(["audit", str(folder)])
    assert done.value.code == 1
    assert "zero-tensor" in capsys.readouterr().out
    with pytest.raises(SystemExit) as done:
        main(["audit", str(folder), "--json"])
    assert done.value.code == 1
    payload = json.loads(capsys.readouterr().out)
    assert payload["findings"][0]["step"] == 1000
    assert payload["findings"][0]["tensor"] == "layers.0.mlp.fc1.weight"


@pytest.mark.calibration
@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ("two steps exchanged", "1 out-of-order"),
        ("one step repeated", "1 identical"),
    ],
)
def test_a_finding_is_the_headline_of_the_answer_and_of_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], planted: str, said: str
):
    def call(*arguments: object) -> list[str]:
        with pytest.raises(SystemExit) as done:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        assert done.value.code == 1, printed.err
        return printed.out.splitlines()

    folder, store = tmp_path / "run", tmp_path / "store"
    path = walk(3, "walk")
    if planted == "one step repeated":
        path[9] = path[8]
    write(folder, path)
    if planted == "two steps exchanged":
        next(fault for fault in CATALOGUE if fault.name == planted).plant(folder)
    call("weights", folder, "--out", store, "--features", "baselines")
    first = "".join("".join(call("analyze", store)[:2]).split())
    wanted = f"Check the checkpoints first: the audit found 1 fault in 1 run ({said})"
    assert first.startswith("".join(wanted.split()))
    call("report", store, "--out", tmp_path / "page")
    page = (tmp_path / "page" / "index.html").read_text()
    assert wanted in page[: page.index("<figure")]
    assert wanted in (tmp_path / "page" / "report.md").read_text()[:600]


@pytest.mark.slow
def test_two_thousand_equal_checkpoints_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "100")  # a worker of pytest-xdist has a terminal of 80 columns
    tensors = {"layers.0.mlp.fc1.weight": np.tile(np.arange(8, dtype=np.float32), (8, 1))}
    save_file(tensors, tmp_path / "step_0.safetensors")
    for step in range(1, 2000):
        (tmp_path / f"step_{step}.safetensors").hardlink_to(tmp_path / "step_0.safetensors")
    with pytest.raises(SystemExit) as done:
        main(["audit", str(tmp_path)])
    shown = capsys.readouterr().out.splitlines()
    assert done.value.code == 1
    assert shown[0] == f"1 finding in 2,000 checkpoints of 1 run: equals-final ({tmp_path.name} step 0)"
    assert len(shown) < 17  # cells break between words, and never within one
    (found,) = audit(open_series(tmp_path))
    assert (
        found.message == "has exactly the weights of the final step 1,999; so at 1,999 steps from 0 to 1,998"
    )


def _spoil(folder: Path, steps: tuple[int, ...] = STEPS) -> None:
    """Make every tensor but one of these steps NaN."""
    for step in steps:
        tensors = load_file(file(folder, step))
        spoilt = {name: np.full_like(value, np.nan) for name, value in tensors.items() if name != HEAD}
        save_file(tensors | spoilt, file(folder, step), metadata={"step": str(step)})


@pytest.mark.parametrize("cheap", [False, True])
def test_many_spoilt_tensors_are_one_line_of_every_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cheap: bool
):
    def call(code: int, *arguments: object) -> str:
        with pytest.raises(SystemExit) as done:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        assert done.value.code == code, printed.err
        return printed.out

    folder, store = tmp_path / "run", tmp_path / "store"
    path = walk(3, "walk")
    write(folder, path)
    late = STEPS[-3:]
    _spoil(folder, late)
    spoilt = [name for name in path[0] if name != HEAD]
    (found,) = audit(open_series(folder), cheap=cheap)
    assert (found.fault, found.step, found.count) == ("non-finite", late[0], len(late) * len(spoilt))
    assert (found.steps, set(found.tensors), found.runs) == (late, set(spoilt), ("run",))
    assert f"; so at 3 steps from {late[0]:,} to {late[-1]:,}, in {len(spoilt)} tensors (" in found.message
    asked = ["audit", folder, *(["--cheap"] if cheap else [])]
    shown = call(1, *asked)
    assert "1 finding" in shown
    assert len(shown.splitlines()) < 13
    payload = json.loads(call(1, *asked, "--json"))
    assert payload["findings"][0]["steps"] == list(late)
    assert payload["findings"][0]["tensors"] == list(found.tensors)
    if cheap:
        return
    lines = call(1, "weights", folder, "--out", store, "--features", "baselines").splitlines()
    assert "look at this first: the audit found 1 fault" in lines[0]
    assert sum("holds NaN" in line for line in lines) <= 3
    call(1, "report", store, "--out", tmp_path / "page")
    page = (tmp_path / "page" / "report.md").read_text()
    assert page.count("so at 3 steps from") >= 2  # the audit's and what could not be measured
    assert sum("holds NaN" in line for line in page.splitlines()) < 6
    found_again = Store.open(store).audit()
    assert [list(steps) for steps in found_again["steps"]] == [list(late)]


def test_equal_faults_of_many_runs_are_one_line(tmp_path: Path):
    for run in range(12):
        write(tmp_path / f"run{run}", walk(0, "walk", 5), STEPS[:5])
        _spoil(tmp_path / f"run{run}", STEPS[4:5])
    (found,) = audit(open_series(tmp_path))
    assert len(found.runs) == 12
    assert "in 12 runs (run0, run1, " in found.message
    assert found.count == 12 * (len(walk(0, "walk", 1)[0]) - 1)


def test_few_findings_and_different_ones_stay_apart(tmp_path: Path):
    folder = tmp_path / "run"
    write(folder, walk(3, "walk"))
    _spoil(folder, STEPS[-1:])
    next(fault for fault in CATALOGUE if fault.name == "all zero").plant(folder)
    found = audit(open_series(folder))
    assert sorted((f.fault, f.count) for f in found) == [("non-finite", 12), ("zero-tensor", 1)]
