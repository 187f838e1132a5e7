"""What a sweep says before it starts."""

from __future__ import annotations

from pathlib import Path

from toposcope.probes.registry import weight_probes
from toposcope.probes.weights.options import WeightOptions
from toposcope.sources import open_series
from toposcope.sweep.expect import expect
from toposcope.sweep.plan import Shard, by_run

PROBES = weight_probes(["all"], WeightOptions())
BYTES = 4 * (20 * 6 + 18 * 6 + 6 * 6 + 24 * 6 + 6 * 24 + 20 * 6)


def test_sizes_are_those_of_the_matrices(runs: Path) -> None:
    series = open_series(runs)
    found = expect(series, by_run(series), PROBES)
    assert (found.runs, found.checkpoints, found.units) == (2, 20, 100)
    assert found.bytes == 20 * BYTES
    assert found.largest_tensor_bytes == 4 * 24 * 6
    assert found.memory_bytes > 300 * 2**20
    assert found.small
    assert found.together == 16
    assert found.sentence().startswith(
        "20 checkpoints of 2 runs, 0.1 MB of weights, 100 units of work; expecting"
    )


def test_shards_and_processes_share_the_work(runs: Path) -> None:
    series = open_series(runs)
    whole = expect(series, by_run(series), PROBES)
    part = expect(series, by_run(series), PROBES, shard=Shard(1, 4), jobs=2)
    assert part.units == whole.units / 4
    assert abs(part.seconds - whole.seconds / 8) < 1e-9
    assert part.memory_bytes == 2 * whole.memory_bytes


def test_an_unreadable_first_checkpoint_is_left_to_the_sweep(runs: Path) -> None:
    series = open_series(runs)
    for path in (runs / "one" / "checkpoints").iterdir():
        path.write_bytes(b"")
    assert expect(series, by_run(series), PROBES).bytes == 10 * BYTES
