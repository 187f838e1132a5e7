"""The live page of many runs: first paint, bytes per update to five viewers, memory over many updates.

    python -m benchmarks.live [--runs 20] [--checkpoints 1000] [--layers 100] [--updates 200]

The store is synthetic and in memory, in the form in which the page's reader holds its rows. Reading the rows
is timed separately.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.large_page import STEP, long_rows, metrics
from toposcope.store import Store
from toposcope.watch.page import panels
from toposcope.watch.page.live import Live
from toposcope.watch.page.show import page

VIEWERS = 5
HEAT = "neural_persistence/seed004/matrix/neural_persistence"
CURVE = "neural_persistence/seed004/model/neural_persistence"


def memory() -> float:
    """Return the process's memory now, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def timed(what: str, call, repeats: int = 9):  # type: ignore[no-untyped-def]
    """Print the median seconds and the size of what a call returns."""
    seconds, made = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        made = call()
        seconds.append(time.perf_counter() - start)
    size = len(made if isinstance(made, str) else json.dumps(made, separators=(",", ":")))
    middle, worst = np.median(seconds) * 1e3, max(seconds) * 1e3
    print(f"{what}: median {middle:.0f} ms, worst {worst:.0f} ms, {size / 1e3:.0f} kB")


def main() -> None:
    """Time the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("runs", 20), ("checkpoints", 1000), ("layers", 100), ("updates", 200)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    rows = long_rows(given.runs, given.checkpoints, given.layers)
    names = list(dict.fromkeys(rows["run"]))
    runs = pd.DataFrame(
        {"run": names, "family": "gpt", "parameters": [10_000 * 4 ** int(n[4]) for n in names]}
    )
    losses = metrics(runs, given.checkpoints).assign(
        learning_rate=np.nan, grad_norm=np.nan, weight_norm=np.nan, seconds=np.nan
    )
    with tempfile.TemporaryDirectory() as folder:
        Store.create(Path(folder) / "store", recipe={})
        live = Live(Path(folder) / "store")
    live.runs, live.ready = runs, True
    start = time.perf_counter()
    live.traces.take_features(rows, live.version)
    live.traces.take_metrics(losses, live.version)
    print(
        f"{len(rows):,} rows taken in: {time.perf_counter() - start:.1f} s; {memory():.0f} MB with the rows"
    )
    timed("first paint", lambda: page(live, None))
    timed("loss panel", lambda: panels.curves(live, panels.LOSS))
    timed("measure panel", lambda: panels.curves(live, CURVE))
    timed("heat map", lambda: panels.heat(live, names[0], HEAT))
    shown = ("c:" + panels.LOSS, "c:" + CURVE, f"h:{HEAT}|{names[0]}")
    last = rows[(rows["run"] == names[0]) & (rows["step"] == rows["step"].max())]
    loss = losses[(losses["run"] == names[0]) & (losses["step"] == losses["step"].max())]
    sizes, seconds, held = [], [], []
    for n in range(1, given.updates + 1):
        more = last.assign(step=last["step"] + n * STEP)
        late = loss.assign(step=loss["step"] + n * STEP)
        since = live.version
        start = time.process_time()
        live.traces.take_features(more, since + 1)
        live.traces.take_metrics(late, since + 1)
        live.version += 1
        for _ in range(VIEWERS):
            made = panels.newer(live, shown, since)
        seconds.append(time.process_time() - start)
        sizes.append(len(json.dumps(made, separators=(",", ":"))))
        held.append(memory())
    tenth = max(given.updates // 10, 1)
    print(
        f"{given.updates} updates of {len(more)} rows to {VIEWERS} viewers with three open panels: "
        f"{np.median(sizes) / 1e3:.1f} kB each (worst {max(sizes) / 1e3:.1f}), "
        f"{np.median(seconds[:tenth]) * 1e3:.0f} ms at first, "
        f"{np.median(seconds[-tenth:]) * 1e3:.0f} ms at last of processor time, "
        f"{held[-1] - held[tenth]:+.1f} MB"
    )


if __name__ == "__main__":
    main()
