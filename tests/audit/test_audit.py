from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from toposcope.cli.main import main
from toposcope.sources import audit, open_series
from toposcope.store import Store
from toposcope.sweep import Execution, sweep

sys.path.insert(0, str(Path(__file__).parent))
from planted import CATALOGUE, STEPS, Fault, file, walk, write

KINDS = ("walk", "decay", "stationary")


def test_the_catalogue_has_more_than_twenty_kinds():
    assert len({fault.name for fault in CATALOGUE}) >= 30
    assert len({fault.fault for fault in CATALOGUE}) >= 20


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


def test_weights_that_start_from_zero_are_healthy(tmp_path: Path):
    folder = tmp_path / "run"
    path = walk(1, "decay")
    path[0]["layers.0.mlp.fc2.weight"] = 0 * path[0]["layers.0.mlp.fc2.weight"]
    write(folder, path)
    assert audit(open_series(folder)) == []


def test_nothing_is_found_in_the_five_small_runs(shared_data: Path):
    series = open_series(shared_data / "seed_runs")
    assert len(series) == 255
    assert audit(series) == []
    assert audit(series, cheap=True) == []


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
        f"its file says step {STEPS[0] + 7} "
        f"(and so at {len(STEPS) - 1} more steps, the last of them {STEPS[-1]})"
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
