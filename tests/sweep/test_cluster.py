"""A sweep on a real Ray cluster on this machine, one of whose nodes is killed on the way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import toposcope
from tests.patience import PATIENCE
from toposcope.core.errors import BrokenOffError, InputError
from toposcope.core.types import Feature, Row
from toposcope.sources import open_series
from toposcope.store import Store
from toposcope.subjects.base import Measured, Probe
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.snapshot import Snapshot
from toposcope.subjects.weights.options import WeightOptions
from toposcope.sweep import Execution, SweepReport, sweep

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
OPTIONS = WeightOptions(points=12, draws=2, nulls=2)


def slow_probe(seconds: float) -> Probe:
    class Slow(Probe):  # local, so that it travels by value
        name, features = "slow", (Feature("one", "one"),)

        def measure(self, snapshot: Snapshot) -> Measured:
            time.sleep(seconds)
            at = snapshot.checkpoint
            return Measured([Row(at.run, at.step, "slow", "one", 1.0, tokens=at.tokens)])

    return Slow()


def measure(runs: Path, out: Path, seconds: float, ray: str | None) -> SweepReport:
    probes = [*weight_probes(["neural_persistence", "rips"], OPTIONS), slow_probe(seconds)]
    store = Store.create(out, recipe=OPTIONS.recipe())
    how = Execution(ray=ray, quiet=True, keep_diagrams=True, audit=False)
    return sweep(open_series(runs), probes, store, execution=how)


@pytest.fixture
def cluster() -> Iterator[Any]:
    utils = pytest.importorskip("ray.cluster_utils")
    made = utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    yield made
    made.shutdown()


def test_a_node_killed_on_the_way(
    cluster: Any, runs: Path, tmp_path: Path, same: Callable[[Path, Path], None]
) -> None:
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    measure(runs, tmp_path / "serial", 0.0, None)
    out = tmp_path / "ray"
    killed: list[int] = []

    def kill() -> None:
        limit = time.monotonic() + PATIENCE
        while not list(out.glob("features/*.parquet")) and time.monotonic() < limit:
            time.sleep(0.05)
        cluster.remove_node(nodes[0], allow_graceful=False)
        killed.append(len(list(out.glob("features/*.parquet"))))

    assassin = threading.Thread(target=kill)
    assassin.start()
    report = measure(runs, out, 0.3, cluster.address)
    assassin.join()
    assert killed
    assert 0 < killed[0] < 20  # in the middle
    assert report.failures == []
    same(tmp_path / "serial", out)


@pytest.mark.parametrize("what", ["every node", "the head"])
def test_a_cluster_that_is_lost_is_one_line_and_the_store_goes_on(
    cluster: Any,
    runs: Path,
    tmp_path: Path,
    same: Callable[[Path, Path], None],
    what: str,
) -> None:
    node = cluster.add_node(num_cpus=1)
    out = tmp_path / "ray"

    def kill() -> None:
        limit = time.monotonic() + PATIENCE
        while not list(out.glob("features/*.parquet")) and time.monotonic() < limit:
            time.sleep(0.05)
        if what == "every node":
            cluster.remove_node(node, allow_graceful=False)
        else:
            cluster.head_node.kill_all_processes(check_alive=False, allow_graceful=False)

    assassin = threading.Thread(target=kill)
    assassin.start()
    with pytest.raises(
        BrokenOffError, match=r"the connection to the cluster was lost .*; finished work is in the store"
    ):
        measure(runs, out, 0.3, cluster.address)
    assassin.join()
    assert list(out.glob("features/*.parquet"))
    measure(runs, out, 0.0, None)
    measure(runs, tmp_path / "serial", 0.0, None)
    same(tmp_path / "serial", out)


def test_no_cluster_at_the_address(runs: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with pytest.raises(InputError, match=r"ray '127\.0\.0\.1:9': no cluster answers at this address"):
        measure(runs, tmp_path / "s", 0.0, "127.0.0.1:9")


def test_a_cluster_that_is_not_there_leaves_no_store(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no cluster answers at this address"):
        toposcope.measure(runs, tmp_path / "s", execution=Execution(ray="127.0.0.1:9", quiet=True))
    assert not (tmp_path / "s").exists()
