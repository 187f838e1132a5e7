"""Faults planted in real small runs: which are found, how late, whose culprit is right; and false alarms.

    python -m benchmarks.planted --runs RUNS --first 1001 --healthy 61 --faulty 21
    python -m benchmarks.watch_faults --runs RUNS --stores STORES

Measures the runs that `benchmarks.planted` made as `toposcope watch` does, judges each store, and prints
one line per run and a table. The constants of the alarms were set on runs 1 to 33; the figures are of runs
from 1001 on. Beside the alarms stand two plain rules on the loss and on the gradient norm: the newest value
above the mean of the last 50 by 5 of their standard deviations.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.planted import (
    ATTENTION,
    EMBEDDING,
    EVERY,
    FOLLOWED,
    LATER,
    MLP,
    OUTPUT,
    TINY_BATCHES,
    TRAINED,
    Plan,
    corrupted,
)
from toposcope.monitor.alarms import Watchman
from toposcope.probes.registry import weight_probes
from toposcope.probes.weights.options import WeightOptions
from toposcope.sources import open_series
from toposcope.store import Store
from toposcope.sweep import Execution, sweep

WINDOW, SIGMAS = 50, 5.0
DISK = "corrupted shard"
HEALTHY, NOISY = "healthy", "healthy, tiny batches"
FAULTS = (*TRAINED, DISK)
State = dict[str, np.ndarray]


class Model:
    """Arrays and a configuration, as `open_series` takes them."""

    def __init__(self, state: State, config: Mapping[str, object]) -> None:
        self._state, self.config = state, self
        self._known = dict(config)

    def to_dict(self) -> dict[str, object]:
        """Return the configuration."""
        return self._known

    def state_dict(self, keep_vars: bool = False) -> dict[str, object]:
        """Return the tensors."""
        import torch

        return {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in self._state.items()}


def planned(runs: Path) -> Iterator[tuple[str, Plan]]:
    """Yield every fault and plan that was trained to its end, the healthy ones first."""
    plans = [Plan(number) for number in sorted(int(one.name) for one in (runs / "finished").iterdir())]
    yield from ((HEALTHY if plan.number < TINY_BATCHES else NOISY, plan) for plan in plans)
    hit = [plan for plan in plans if plan.folder(runs, TRAINED[0]).exists()]
    yield from ((fault, plan) for fault in FAULTS for plan in hit)


def measure(plan: Plan, runs: Path, fault: str, place: Path) -> None:
    """Measure a run as a watch does, and put its losses beside."""
    (folder,) = plan.folder(runs, fault if fault in TRAINED else HEALTHY).iterdir()
    series, config = (
        open_series(folder, split="whole"),
        json.loads((folder / "run.json").read_text())["config"],
    )
    last = 10**9 if fault in (HEALTHY, NOISY) else plan.checkpoint + FOLLOWED
    states = {at.step: dict(series.tensors(at)) for at in series if at.step <= last}
    if fault == DISK:
        at = plan.checkpoint + EVERY
        states[at] = {name: value.copy() for name, value in states[at].items()}
        corrupted(plan, states[at])
    options = WeightOptions()
    store = Store.create(place / "aside", recipe=options.recipe())
    models = {"run": {step: Model(state, config) for step, state in states.items()}}
    probes = weight_probes(["updates"], options)
    report = sweep(open_series(models), probes, store, execution=Execution(quiet=True, audit=False))
    assert not report.failures, report.failures[:1]
    metrics = series.metrics(folder.name)
    store.write_metrics(metrics[metrics["step"] <= last].assign(run="run"))
    (place / "aside").rename(place / "store")


def alarms(store: Path) -> list[dict]:
    """Judge a store from the start; return its alarms with the names of the culprits."""
    shutil.rmtree(store / "watch", ignore_errors=True)
    events = Watchman(store).judge()
    late = {
        event.data["test"].removeprefix("culprits of "): event for event in events if event.kind == "notice"
    }
    found = []
    for event in events:
        if event.kind == "alarm":
            told = event if event.data["culprits"] else late.get(event.data["test"], event)
            named = [(c["name"], c["head"]) for c in told.data.get("culprits", ())]
            found.append({"step": event.step, "test": event.data["test"], "culprits": named})
    return found


def culprit(plan: Plan, fault: str) -> str:
    """Return the name of the tensor that a fault hits, empty where it hits all of them."""
    layer = plan.where[0]
    return {
        "one head x 1.5": ATTENTION.format(layer), "dead rows": MLP.format(layer), DISK: MLP.format(layer),
        "swapped embedding rows": EMBEDDING, "dead layer": OUTPUT.format(layer),
    }.get(fault, "")  # fmt: skip


def plain_rule(values: pd.Series) -> list[int]:
    """Return where a value is above the mean of the last 50 by 5 of their standard deviations."""
    before = values.rolling(WINDOW).agg(["mean", "std"]).shift(1)
    return values.index[values > before["mean"] + SIGMAS * before["std"]].tolist()


def line(plan: Plan, fault: str, store: Path) -> dict[str, object]:
    """Return one line of results; whatever alarms before the fault is false."""
    at = plan.checkpoint + LATER if fault not in (HEALTHY, NOISY) else 10**9
    told, table = alarms(store), Store.open(store).metrics().set_index("step")
    after = [alarm for alarm in told if alarm["step"] >= at]
    hit, first = culprit(plan, fault), after[0]["step"] if after else None
    named = [alarm["culprits"][0][0] for alarm in after if alarm["step"] == first and alarm["culprits"]]
    rules = {column: plain_rule(table[column]) for column in ("loss", "grad_norm")}
    return {
        "fault": fault, "run": plan.number, "false": len(told) - len(after), "found": bool(after),
        "delay": None if first is None else first - at, "tests": sorted({alarm["test"] for alarm in told}),
        "culprit": (hit in named) if hit and after else None,
        **{f"rule {column}": any(step >= at for step in steps) for column, steps in rules.items()},
        **{f"rule {column}, false": any(step < at for step in steps) for column, steps in rules.items()},
    }  # fmt: skip


def summary(results: list[dict[str, object]]) -> str:
    """Return the table of all lines."""
    table = pd.DataFrame(results)
    columns = ["found", "culprit", "rule loss", "rule grad_norm"]
    made = table.groupby("fault")[columns].agg(lambda one: one.dropna().astype(float).mean())
    made["delay, median"] = table.groupby("fault")["delay"].median()
    made["delay, worst"] = table.groupby("fault")["delay"].max()
    made["runs"] = table.groupby("fault").size()
    for name in ("false", "rule loss, false", "rule grad_norm, false"):
        made[f"{name}: runs"] = table.groupby("fault")[name].agg(lambda one: int((one > 0).sum()))
    return made.to_string()


def main() -> None:
    """Measure what is not measured yet, judge everything, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--stores", type=Path)
    parser.add_argument("--measure-only", action="store_true", help="Judge nothing yet.")
    parser.add_argument("--part", default="0/1", help="I/N: every N-th run from I on, for N processes.")
    parser.add_argument("--lines", type=Path, nargs="*", help="Print the table of these outputs instead.")
    given = parser.parse_args()
    if given.lines:
        lines = [one for path in given.lines for one in path.read_text().splitlines()]
        print(summary([json.loads(one) for one in lines if one.startswith("{")]))
        return
    i, n = map(int, given.part.split("/"))
    chosen = [(fault, plan) for fault, plan in planned(given.runs) if plan.number % n == i]
    series = [(fault, plan, plan.folder(given.stores, fault)) for fault, plan in chosen]
    for fault, plan, place in series:
        if not (place / "store").exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            measure(plan, given.runs, fault, place)
    if given.measure_only:
        return
    results = []
    for fault, plan, place in series:
        results.append(line(plan, fault, place / "store"))
        print(json.dumps(results[-1], default=float), flush=True)
    print(summary(results))


if __name__ == "__main__":
    main()
