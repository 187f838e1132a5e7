"""The sweep: every unit once, whatever stops it, however it is spread."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.patience import PATIENCE
from toposcope.core.errors import InputError, SourceError
from toposcope.core.types import Feature, Row
from toposcope.sources import open_series
from toposcope.store import Store
from toposcope.subjects.base import Measured, Probe
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.snapshot import Snapshot
from toposcope.subjects.weights.options import WeightOptions
from toposcope.sweep import Execution, Shard, SweepReport, sweep

OPTIONS = WeightOptions(points=12, draws=2, nulls=2)
Same = Callable[[Path, Path], None]
ERROR = ValueError("a singular\nmatrix")


def measure(runs: Path, out: Path, features: str = "all", **execution: object) -> SweepReport:
    series = open_series(runs)
    store = Store.create(out, recipe=OPTIONS.recipe())
    how = Execution(**{"quiet": True, "keep_diagrams": True, "audit": False} | execution)  # type: ignore[arg-type]
    return sweep(series, weight_probes(features.split(","), OPTIONS), store, execution=how)


@pytest.fixture
def reference(runs: Path, tmp_path: Path) -> Path:
    measure(runs, tmp_path / "reference")
    return tmp_path / "reference"


def command(runs: Path, out: Path, *more: str) -> list[str]:
    options = [
        "--features",
        "all",
        "--points",
        "12",
        "--draws",
        "2",
        "--nulls",
        "2",
        "--diagrams",
        "--no-audit",
    ]
    call = "from toposcope.cli.main import main; main()"
    return [sys.executable, "-c", call, "weights", str(runs), "--out", str(out), *options, *more]


def test_every_unit_is_there(runs: Path, reference: Path) -> None:
    store = Store.open(reference)
    units = store.features().groupby(["run", "probe"]).step.nunique().unstack()
    assert units.drop(columns="distances").to_numpy().tolist() == [[10] * 5] * 2
    assert units["distances"].tolist() == [9, 9]
    assert store.metrics().groupby("run").loss.count().tolist() == [91, 91]
    assert store.runs().parameters.tolist() == [720, 720]
    assert set(store.features().status) == {"ok", "subsampled"}
    assert len(store.diagrams()) > 0


def test_a_second_sweep_measures_nothing(runs: Path, reference: Path, tmp_path: Path, same: Same) -> None:
    before = {path: path.stat().st_mtime_ns for path in (reference / "features").iterdir()}
    report = measure(runs, reference)
    assert (report.done, report.skipped) == (0, 120)
    assert {path: path.stat().st_mtime_ns for path in (reference / "features").iterdir()} == before


@pytest.mark.slow
def test_new_checkpoints_are_added(
    runs: Path, reference: Path, tmp_path: Path, checkpoint: Callable[..., Path], same: Same
) -> None:
    checkpoint(runs / "one", 100)
    assert measure(runs, reference).done == 6
    measure(runs, tmp_path / "fresh")
    same(reference, tmp_path / "fresh")


def test_a_changed_checkpoint_is_measured_again(
    runs: Path, tmp_path: Path, checkpoint: Callable[..., Path]
) -> None:
    measure(runs, tmp_path / "s", "baselines")
    weights = {"token_emb.weight": np.ones((20, 6), np.float32)}
    for step in range(0, 100, 10):
        checkpoint(runs / "one", step, weights)
    assert measure(runs, tmp_path / "s", "baselines").done == 10


@pytest.mark.slow
def test_processes_give_the_same_store(runs: Path, reference: Path, tmp_path: Path, same: Same) -> None:
    report = measure(runs, tmp_path / "jobs", jobs=2)
    assert (report.done, report.failures) == (120, [])
    same(reference, tmp_path / "jobs")


@pytest.mark.slow
def test_shards_give_the_same_store(runs: Path, reference: Path, tmp_path: Path, same: Same) -> None:
    done = [measure(runs, tmp_path / "shards", shard=Shard(i, 3)).done for i in (3, 1, 2)]
    assert sum(done) == 120
    assert all(0 < n < 120 for n in done)
    same(reference, tmp_path / "shards")


@pytest.mark.slow
def test_diagrams_are_measured_when_they_are_asked_for_later(
    runs: Path, reference: Path, tmp_path: Path
) -> None:
    assert measure(runs, tmp_path / "s", "rips", keep_diagrams=False).done == 20
    assert measure(runs, tmp_path / "s", "rips").done == 20
    assert len(Store.open(tmp_path / "s").diagrams("rips")) == len(Store.open(reference).diagrams("rips"))
    assert measure(runs, tmp_path / "s", "rips", keep_diagrams=False).done == 0


@pytest.mark.faults
@pytest.mark.parametrize("jobs", [1, 2])
def test_killed_anywhere_and_restarted(
    runs: Path, reference: Path, tmp_path: Path, same: Same, jobs: int
) -> None:
    out = tmp_path / "killed"
    for parts in (0, 3):  # killed before anything is stored, and between
        process = subprocess.Popen(
            command(runs, out, "--jobs", str(jobs)), stderr=subprocess.DEVNULL, start_new_session=True
        )
        limit = time.monotonic() + PATIENCE
        while len(list(out.glob("features/*.parquet"))) < parts and process.poll() is None:
            assert time.monotonic() < limit
            time.sleep(0.01)
        os.killpg(process.pid, 9)
        process.wait()
    finished = subprocess.run(
        command(runs, out, "--jobs", str(jobs)), capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    same(reference, out)


@dataclass(frozen=True)
class Faulty(Probe):
    """A probe that fails at step 30: always, or the first time, as the marker file says."""

    marker: Path | None = None
    error: Exception = ERROR
    name: str = "faulty"
    features: tuple[Feature, ...] = (Feature("one", "one"), Feature("x", "x"))

    def measure(self, snapshot: Snapshot) -> Measured:
        at = snapshot.checkpoint
        if at.step == 30 and (self.marker is None or not self.marker.exists()):
            if self.marker is not None:
                self.marker.write_text("")
            raise self.error
        return Measured([Row(at.run, at.step, self.name, "one", 1.0)])


def with_probe(runs: Path, out: Path, probe: Probe, **execution: object) -> SweepReport:
    store = Store.create(out, recipe={})
    how = Execution(**{"quiet": True, "audit": False} | execution)  # type: ignore[arg-type]
    return sweep(open_series(runs), [probe], store, execution=how)


def test_a_failing_unit_is_recorded_and_the_rest_goes_on(runs: Path, tmp_path: Path) -> None:
    report = with_probe(runs, tmp_path / "s", Faulty())
    assert [(f.run, f.step, f.probe, f.note) for f in report.failures] == [
        ("one", 30, "faulty", "ValueError: a singular matrix"),
        ("two", 30, "faulty", "ValueError: a singular matrix"),
    ]
    assert report.done == 18
    table = Store.open(tmp_path / "s").features()
    failed = table[table.status == "failed"]
    assert failed.step.tolist() == [30, 30]
    assert failed.note.tolist() == ["ValueError: a singular matrix"] * 2
    assert failed.value.isna().all()


def test_a_unit_that_fails_once_is_tried_again(runs: Path, tmp_path: Path) -> None:
    report = with_probe(runs / "one", tmp_path / "s", Faulty(marker=tmp_path / "marker"))
    assert (report.done, report.failures) == (10, [])
    assert set(Store.open(tmp_path / "s").features().status) == {"ok"}


@pytest.mark.faults
def test_a_full_disk_stops_the_sweep(runs: Path, tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match="No space left"):
        with_probe(runs, tmp_path / "s", Faulty(error=full))
    steps = Store.open(tmp_path / "s").features().step.tolist()
    assert steps == [0, 10, 20]  # what was finished is kept
    with pytest.raises(OSError, match="No space left"):
        with_probe(runs, tmp_path / "s", Faulty(error=full), jobs=2)


@pytest.mark.faults
def test_a_full_disk_while_writing(
    runs: Path, reference: Path, tmp_path: Path, same: Same, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, calls = pq.write_table, []

    def fills_up(table: object, where: Path, **options: object) -> None:
        calls.append(where)
        if len(calls) > 13:
            Path(where).write_bytes(b"PAR1")
            raise OSError(errno.ENOSPC, "No space left on device", str(where))
        write(table, where, **options)

    with monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", fills_up)
        with pytest.raises(OSError, match="No space left"):
            measure(runs, tmp_path / "s")
    assert len(Store.open(tmp_path / "s").features()) > 0
    measure(runs, tmp_path / "s")
    same(reference, tmp_path / "s")


@pytest.mark.faults
def test_a_really_full_disk(runs: Path, mount: Callable[[str], Path]) -> None:
    disk = mount("size=96k")
    done = subprocess.run(command(runs, disk / "s"), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "the disk is full" in done.stderr.strip().splitlines()[-1]
    assert not list(disk.rglob("*.tmp"))
    for path in disk.rglob("*.parquet"):
        pq.read_table(path)


@pytest.mark.faults
def test_a_process_that_dies_costs_one_task(runs: Path, tmp_path: Path) -> None:
    class Deadly(Probe):  # local, so that it travels to the processes by value
        name, features = "deadly", (Feature("one", "one"),)

        def measure(self, snapshot: Snapshot) -> Measured:
            if snapshot.checkpoint.step == 50 and snapshot.checkpoint.run == "one":
                os._exit(9)
            return Measured([Row(snapshot.checkpoint.run, snapshot.checkpoint.step, "deadly", "one", 1.0)])

    report = with_probe(runs, tmp_path / "s", Deadly(), jobs=2)
    assert {f.note for f in report.failures} == {
        "the process ended with exit code 9; measure with fewer `jobs`"
    }
    assert [(f.run, f.step) for f in report.failures] == [("one", 50)]
    table = Store.open(tmp_path / "s").features()
    assert table.status.value_counts().to_dict() == {"ok": 19, "failed": 1}


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["truncated", "renamed"])
def test_a_bad_checkpoint_is_recorded_and_the_rest_goes_on(
    runs: Path, tmp_path: Path, checkpoint: Callable[..., Path], weights: Callable[..., dict], fault: str
) -> None:
    tensors = weights("one", 40)
    if fault == "renamed":
        tensors["other.weight"] = tensors.pop("head.weight")
    path = checkpoint(runs / "one", 40, tensors)
    if fault == "truncated":
        path.write_bytes(path.read_bytes()[:500])
    report = measure(runs, tmp_path / "s")
    assert {f.step for f in report.failures} == {40}  # step 50 lacks its distances, and says so
    assert all(f.run == "one" for f in report.failures)
    assert report.done == 120 - len(report.failures)
    table = Store.open(tmp_path / "s").features(probe="trajectory", run="one")
    assert "1 unreadable checkpoints left out" in set(table[table.step == 60].note)
    checkpoint(runs / "one", 40)
    again = measure(runs, tmp_path / "s")
    assert again.failures == []
    assert "failed" not in set(Store.open(tmp_path / "s").features().status)


def test_a_sound_checkpoint_after_a_bad_one_is_measured(
    runs: Path, tmp_path: Path, checkpoint: Callable[..., Path], weights: Callable[..., dict]
) -> None:
    path = checkpoint(runs / "one", 40)
    path.write_bytes(path.read_bytes()[:500])
    report = measure(runs, tmp_path / "s", "distances")
    assert [(f.run, f.step) for f in report.failures] == [("one", 40)]
    table = Store.open(tmp_path / "s").features(run="one")
    after = table[table.step == 50]
    assert set(after.status) == {"degenerate"}
    assert after.note.str.contains("previous checkpoint 40 could not be read").all()
    keys = ["name", "draw", "filtration", "feature"]
    assert sorted(map(str, after[keys].to_numpy())) == sorted(
        map(str, table[table.step == 60][keys].to_numpy())
    )
    checkpoint(runs / "one", 40)
    assert measure(runs, tmp_path / "s", "distances").done == 2
    assert "degenerate" not in set(Store.open(tmp_path / "s").features().status)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_tensor_that_is_not_finite_costs_its_own_rows_and_those_that_pool_it(
    runs: Path, tmp_path: Path, checkpoint: Callable[..., Path], weights: Callable[..., dict], jobs: int
) -> None:
    measure(runs / "one", tmp_path / "sound")
    tensors = weights("one", 40)
    tensors["head.weight"][3, 2] = np.nan
    checkpoint(runs / "one", 40, tensors)
    report = measure(runs / "one", tmp_path / "s", jobs=jobs)
    assert (report.done, report.failures) == (60, [])
    assert len(report.problems) == 1
    assert "run 'one' step 40: tensor 'head.weight' holds NaN or infinite weights" in report.problems[0]
    again = measure(runs / "one", tmp_path / "s", jobs=jobs)
    assert (again.done, again.problems) == (0, report.problems), "it is not forgotten"
    key = ["step", "probe", "name", "role", "feature", "filtration", "draw"]
    sound = Store.open(tmp_path / "sound").features().set_index(key)["value"]
    table = Store.open(tmp_path / "s").features()
    failed = table[table.status == "failed"]
    assert failed.note.str.contains("tensor 'head.weight' holds NaN").all()
    assert failed.value.isna().all()
    assert set(failed[failed.step == 40].probe) == {
        "baselines", "deep_graph_persistence", "distances", "neural_persistence", "rips", "trajectory",
    }  # fmt: skip
    assert set(failed.step) == {40, 50}  # the way from step 40 to 50 is not known either
    assert set(failed[failed.step == 50].probe) == {"distances"}
    own = failed[(failed.role != "model") & (failed.name != "role") & (failed.filtration != "rieck")]
    assert set(own.name) == {"head.weight"}
    kept = table[(table.status != "failed") & (table.probe != "trajectory")].set_index(key)["value"]
    expected = sound.reindex(kept.index)
    np.testing.assert_array_equal(kept.to_numpy(), expected.to_numpy())  # nothing else has moved
    assert measure(runs / "one", tmp_path / "s").done == 0  # until its file changes
    checkpoint(runs / "one", 40)
    measure(runs / "one", tmp_path / "s")
    assert "failed" not in set(Store.open(tmp_path / "s").features().status)


def test_a_checkpoint_without_one_finite_tensor_fails(
    runs: Path, tmp_path: Path, checkpoint: Callable[..., Path], weights: Callable[..., dict]
) -> None:
    checkpoint(runs / "one", 40, {name: w * np.nan for name, w in weights("one", 40).items()})
    report = measure(runs / "one", tmp_path / "s", "baselines")
    assert [failure.step for failure in report.failures] == [40]
    assert "holds NaN or infinite weights" in report.failures[0].note


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1e38, 1e-42])
@pytest.mark.parametrize("which", ["head.weight", "all"])
def test_extreme_values_have_a_value_or_a_status_and_no_warning(
    runs: Path,
    tmp_path: Path,
    checkpoint: Callable[..., Path],
    weights: Callable[..., dict],
    scale: float,
    which: str,
) -> None:
    tensors = weights("one", 40)
    for name in tensors if which == "all" else [which]:
        tensors[name] = (tensors[name].astype(np.float64) * scale).clip(-3e38, 3e38).astype(np.float32)
    checkpoint(runs / "one", 40, tensors)
    checkpoint(runs / "one", 60, {name: -tensor for name, tensor in tensors.items()})  # far: beyond float32
    report = measure(runs / "one", tmp_path / "s")
    assert report.failures == []
    table = Store.open(tmp_path / "s").features()
    valued = table.status.isin(["ok", "subsampled", "truncated"])
    assert np.isfinite(table.value[valued]).all()
    assert (table.note[~valued] != "").all()


@pytest.mark.parametrize(
    ("scale", "said"),
    [(1e-200, "which is too small for float32"), (1e200, "which is infinite in float32"), (1e-3, "")],
)
def test_a_float64_tensor_that_float32_cannot_hold_has_a_status(
    runs: Path,
    tmp_path: Path,
    checkpoint: Callable[..., Path],
    weights: Callable[..., dict],
    scale: float,
    said: str,
) -> None:
    tensors = weights("one", 40)
    tensors["head.weight"] = tensors["head.weight"].astype(np.float64) * scale
    checkpoint(runs / "one", 40, tensors)
    report = measure(runs / "one", tmp_path / "s", "baselines")
    assert report.failures == []
    table = Store.open(tmp_path / "s").features()
    table = table[table.step == 40]
    own = table[table.name == "head.weight"]
    if not said:
        assert (report.problems, set(own.status)) == ([], {"ok"})
        return
    assert [said in problem for problem in report.problems] == [True]
    assert (set(own.status), own.value.isna().all()) == ({"failed"}, True)
    assert table.loc[table.name != "head.weight", "status"].eq("ok").any()
    series = open_series(str(runs / "one"))
    (at,) = [one for one in series if one.step == 40]
    with pytest.raises(InputError, match=f"step 40: tensor 'head.weight' holds .*{said}"):
        list(series.matrices(at))


@dataclass(frozen=True)
class Stopped(Probe):
    """A probe that the user stops at its fourth checkpoint."""

    name: str = "stopped"
    features: tuple[Feature, ...] = (Feature("one", "one"), Feature("x", "x"))

    def measure(self, snapshot: Snapshot) -> Measured:
        at = snapshot.checkpoint
        if at.step == 30:
            raise KeyboardInterrupt
        return Measured([Row(at.run, at.step, self.name, "x", 1.0)])


def test_stopping_keeps_what_was_measured(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        with_probe(runs / "one", tmp_path / "s", Stopped())
    assert Store.open(tmp_path / "s").features().step.tolist() == [0, 10, 20]


@pytest.mark.slow
def test_truncated_parts_are_measured_again(runs: Path, reference: Path, tmp_path: Path, same: Same) -> None:
    measure(runs, tmp_path / "s")
    part = sorted((tmp_path / "s" / "features").iterdir())[0]
    part.write_bytes(part.read_bytes()[:100])
    report = measure(runs, tmp_path / "s")
    assert report.problems == [f"{part.name} was damaged and set aside"]
    assert report.done == 10
    same(reference, tmp_path / "s")


def test_nothing_to_measure(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="empty"):
        measure(tmp_path / "empty", tmp_path / "s")


def test_unreadable_metrics_are_a_problem_not_the_end(runs: Path, tmp_path: Path) -> None:
    part = next((runs / "one" / "metrics").iterdir())
    part.write_bytes(b"PAR1 nonsense")
    report = measure(runs, tmp_path / "s", "baselines")
    assert len(report.problems) == 1
    assert part.name in report.problems[0]
    assert report.done == 20
    assert set(Store.open(tmp_path / "s").metrics().run) == {"two"}


def test_impossible_executions() -> None:
    with pytest.raises(InputError, match="jobs 0: it must be at least 1"):
        Execution(jobs=0)
    with pytest.raises(InputError, match="shard '4/3': there is no such part; use i/n with i from 1 to n"):
        Shard(4, 3)
    with pytest.raises(InputError, match="shard 'half': not a part; use i/n"):
        Shard.parse("half")


def test_what_the_audit_finds_goes_into_the_store(runs: Path, tmp_path: Path) -> None:
    checkpoints = runs / "one" / "checkpoints"
    (checkpoints / "step_000050.safetensors").write_bytes(
        (checkpoints / "step_000090.safetensors").read_bytes()
    )
    report = measure(runs, tmp_path / "s", "baselines", audit=True)
    assert report.failures == []
    assert ("one", 50) in {(finding.run, finding.step) for finding in report.findings}
    stored = Store.open(tmp_path / "s").audit()
    assert len(stored) == len(report.findings)
    assert set(stored.uri) == {str(runs)}
    assert measure(runs, tmp_path / "s", "baselines", audit=False).findings == []
    assert measure(runs, tmp_path / "s", "baselines", audit=True, shard=Shard(2, 2)).findings == []
    assert len(Store.open(tmp_path / "s").audit()) == len(stored)


@pytest.mark.sample
@pytest.mark.faults
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_processes_end_when_the_sweep_is_killed(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "s"
    sweep_ = subprocess.Popen(
        command(runs, out, "--jobs", "2"), stderr=subprocess.DEVNULL, start_new_session=True
    )
    limit = time.monotonic() + PATIENCE
    while not list(out.glob("features/*.parquet")):
        assert time.monotonic() < limit
        assert sweep_.poll() is None
        time.sleep(0.01)
    sweep_.kill()
    sweep_.wait()
    while _in_session(sweep_.pid):
        assert time.monotonic() < limit, "processes of a killed sweep are still there"
        time.sleep(0.05)


def _in_session(session: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(folder.name))
    return found
