"""The plan: shards share the units out, and neighbours stay together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toposcope.core.types import Checkpoint
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.weights.options import WeightOptions
from toposcope.sweep.plan import Shard, by_run, plan

PROBES = weight_probes(["all"], WeightOptions())


@given(st.lists(st.integers(1, 40), min_size=1, max_size=4), st.integers(1, 7), st.integers(1, 4))
def test_shards_partition_the_units(lengths: list[int], count: int, jobs: int) -> None:
    runs = by_run(Checkpoint(f"run-{r}", step) for r, n in enumerate(lengths) for step in range(n))
    units = [
        (task.run, index, probe)
        for shard in range(1, count + 1)
        for task in plan(runs, PROBES, Shard(shard, count), jobs=jobs)
        for index in task.indices
        for probe in task.probes
    ]
    everything = {(f"run-{r}", i, p.name) for r, n in enumerate(lengths) for i in range(n) for p in PROBES}
    assert len(units) == len(set(units))
    assert set(units) == everything


@given(st.integers(1, 60), st.integers(1, 4))
def test_tasks_are_consecutive(n: int, jobs: int) -> None:
    runs = by_run(Checkpoint("a", step) for step in range(n))
    for task in plan(runs, PROBES, Shard(), jobs=jobs):
        assert list(task.indices) == list(range(task.indices[0], task.indices[-1] + 1))


def test_checkpoints_are_in_the_order_of_their_steps() -> None:
    runs = by_run([Checkpoint("b", 2), Checkpoint("a", 10), Checkpoint("a", 9)])
    assert {run: [c.step for c in checkpoints] for run, checkpoints in runs.items()} == {
        "a": [9, 10],
        "b": [2],
    }
