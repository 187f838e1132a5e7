"""A distributed training of two processes: the one of rank 0 watches, and the other writes nothing."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from tests.patience import PATIENCE
from toposcope.store import Store
from toposcope.watch.journal import Journal

pytest.importorskip("torch")

TRAINER = textwrap.dedent(
    """
    import json, os, sys
    import torch
    import torch.distributed as dist
    import toposcope

    out, meeting, order, rank = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])

    def join():
        dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)

    if order == "joins first":
        join()
    monitor = toposcope.Monitor(out, run="both", every=10, features=["updates"])
    if order == "joins later":
        join()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Linear(8, 4))
    for step in range(0, 31):
        if order != "never joins":
            for one in model.parameters():
                shared = torch.randn_like(one)
                dist.all_reduce(shared)
                one.data += 0.01 * shared
        monitor.observe(model, step, loss=2.0 + rank)
        monitor.record(step, grad_norm=1.0 + rank)
        assert monitor.wait()
    monitor.close()
    print(json.dumps({"rank": monitor.rank, "pid": os.getpid(), "counts": monitor.counts}))
    """
)
LAUNCHER = {"WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "OMPI_COMM_WORLD_RANK"}


@pytest.mark.slow
@pytest.mark.parametrize("order", ["joins first", "joins later", "never joins"])
def test_of_two_processes_rank_0_alone_watches_and_writes(tmp_path, order):
    known = {name: value for name, value in os.environ.items() if name not in LAUNCHER}
    known |= {"GLOO_SOCKET_IFNAME": "lo"}
    started = []
    for rank in (0, 1):
        told = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
        words = [str(tmp_path / "store"), f"file://{tmp_path}/meeting", order, str(rank)]
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", TRAINER, *words], stdout=subprocess.PIPE, text=True,
                env=known | (told if order == "never joins" else {}),
            )
        )  # fmt: skip
    try:
        said = [json.loads(one.communicate(timeout=PATIENCE)[0]) for one in started]
    finally:
        for one in started:
            one.kill()
    assert [one["rank"] for one in said] == [0, 1]
    assert said[0]["counts"] == {"observed": 31, "measured": 4, "skipped": 0}
    assert said[1]["counts"] == {"observed": 0, "measured": 0, "skipped": 0}
    measured = [event for event in Journal.of(tmp_path / "store").read() if event.kind == "measured"]
    assert [(event.run, event.step) for event in measured] == [("both", step) for step in (0, 10, 20, 30)]
    assert measured[0].data["problems"] == []
    store = Store.open(tmp_path / "store")
    assert store.measured_steps() == {"both": [0, 10, 20, 30]}
    assert set(store.metrics()["loss"]) == {2.0}
    assert set(store.metrics()["grad_norm"]) == {1.0}
    begun = [event for event in Journal.of(tmp_path / "store").read() if event.kind == "started"]
    assert [event.data["process"] for event in begun] == [said[0]["pid"]]
