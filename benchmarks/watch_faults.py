"""Faults planted in real small runs: which are found, how late, whose culprit is right; and false alarms.

    python benchmarks/watch_faults.py --runs FOLDER [--seeds 6]

Trains the demo recipe's `small-7k` (or takes the runs that FOLDER holds), and plants each fault into every
run at two thirds of it: by editing the series of checkpoints where that is the fault (scaled head, dead
layer, swapped rows, corrupted shard), and by training again from a callback for a bad batch and a learning
rate ten times as large. Healthy runs are the unedited ones. Beside the alarms stand two plain rules on the
loss and the gradient norm: the newest value above the mean of the last 50 by 5 of their standard deviations.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from toposcope.monitor.alarms import Watchman
from toposcope.probes.registry import weight_probes
from toposcope.probes.weights.options import WeightOptions
from toposcope.seeding import rng
from toposcope.sources import open_series
from toposcope.store import Store
from toposcope.sweep import Execution, sweep

State = dict[str, np.ndarray]
Edit = Callable[[State, str], State]
WINDOW, SIGMAS = 50, 5.0
RECIPE = {"steps": 400, "checkpoint_every": 10, "models": ["small-7k"]}
ATTENTION, MLP, EMBEDDING = "layers.0.attn.qkv.weight", "layers.0.mlp.fc1.weight", "token_emb.weight"


def scaled_head(state: State, run: str) -> State:
    """Multiply the query rows of head 1 by 1.5."""
    value = state[ATTENTION].copy()
    width = len(value) // 3 // 2
    value[width : 2 * width] *= 1.5
    return state | {ATTENTION: value}


def dead_layer(state: State, run: str) -> State:
    """Set half the rows of the MLP's first matrix to zero."""
    value = state[MLP].copy()
    value[::2] = 0
    return state | {MLP: value}


def swapped_rows(state: State, run: str) -> State:
    """Exchange two rows of the token embedding."""
    value = state[EMBEDDING].copy()
    norms = np.linalg.norm(value, axis=1)
    first, second = np.argsort(norms)[[-1, len(norms) // 2]]
    value[[first, second]] = value[[second, first]]
    return state | {EMBEDDING: value}


def corrupted_shard(state: State, run: str) -> State:
    """Put noise of the same scale in the place of a quarter of the MLP's first matrix."""
    value = state[MLP].copy()
    rows = len(value) // 4
    value[:rows] = value.std() * rng(run=run, what="shard").standard_normal(value[:rows].shape)
    return state | {MLP: value}


EDITS: Mapping[str, tuple[Edit, str, bool]] = {
    "one head x 1.5": (scaled_head, ATTENTION, False),
    "dead rows": (dead_layer, MLP, True),
    "swapped embedding rows": (swapped_rows, EMBEDDING, False),
    "corrupted shard": (corrupted_shard, MLP, False),
}
"""Fault -> its edit, the culprit, and whether it stays in every later checkpoint."""


def train_runs(folder: Path, seeds: int) -> None:
    """Train what FOLDER lacks, the two faults that need training among it."""
    from toposcope.train import train

    chosen = list(range(1, seeds + 1))
    train("demo", folder / "healthy", overrides=RECIPE, seeds=chosen)
    for name, callback in (("bad batch", bad_batch), ("learning rate x 10", large_rate)):
        train("demo", folder / name, overrides=RECIPE, seeds=chosen, on_step=callback())


def bad_batch() -> Callable[..., None]:
    """Return a callback that replaces the gradient of one step by noise ten times as large."""

    def at(event) -> None:  # type: ignore[no-untyped-def]
        import torch

        if event.step == fault_step():
            g = torch.Generator().manual_seed(event.step)
            for parameter in event.model.parameters():
                size = 10.0 * parameter.grad.std()
                parameter.grad.copy_(size * torch.randn(parameter.shape, generator=g))

    return at


def large_rate() -> Callable[..., None]:
    """Return a callback that makes every update from the fault on ten times as long."""
    last: dict[str, list] = {}

    def at(event) -> None:  # type: ignore[no-untyped-def]
        import torch

        parameters = list(event.model.parameters())
        if event.step > fault_step() and event.run in last:
            with torch.no_grad():
                for parameter, old in zip(parameters, last[event.run], strict=True):
                    parameter.add_(9.0 * (parameter - old))
        last[event.run] = [parameter.detach().clone() for parameter in parameters]

    return at


def fault_step() -> int:
    """Return the step of every fault: the checkpoint at two thirds of the run."""
    steps, every = int(RECIPE["steps"]), int(RECIPE["checkpoint_every"])  # type: ignore[call-overload]
    return steps * 2 // 3 // every * every


def states(folder: Path) -> dict[int, State]:
    """Return a run's tensors by step."""
    series = open_series(folder, split="whole")
    return {at.step: dict(series.tensors(at)) for at in series}


def edited(run: Mapping[int, State], edit: Edit, name: str, stays: bool) -> dict[int, State]:
    """Return the series with a fault from its step on; one that does not stay goes on from the edit."""
    at = fault_step()
    broken = edit(run[at], name)
    if stays:
        return {step: state if step < at else edit(state, name) for step, state in run.items()}
    shift = {key: broken[key] - run[at][key] for key in broken if broken[key] is not run[at][key]}
    return {
        step: state if step < at else state | {key: state[key] + shift[key] for key in shift}
        for step, state in run.items()
    }


def watched(run: Mapping[int, State], metrics: pd.DataFrame, config: Mapping[str, object]) -> list[dict]:
    """Measure a series and return its alarms."""
    options = WeightOptions()
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(Path(folder) / "store", recipe=options.recipe())
        series = open_series({"run": {step: _Model(state, config) for step, state in run.items()}})
        probes = weight_probes(["baselines", "updates"], options)
        report = sweep(series, probes, store, execution=Execution(quiet=True, audit=False))
        assert not report.failures, report.failures[:1]
        store.write_metrics(metrics.assign(run="run"))
        events = Watchman(store.path).judge()
    return [
        {
            "step": event.step,
            "test": event.data["test"],
            "culprits": [c["name"] for c in event.data["culprits"]],
        }
        for event in events
        if event.kind == "alarm"
    ]


class _Model:
    """Arrays and a configuration, as `open_series` takes them."""

    def __init__(self, state: State, config: Mapping[str, object]) -> None:
        self._state, self.config = state, self
        self._known = dict(config)

    def to_dict(self) -> dict[str, object]:
        return self._known

    def state_dict(self, keep_vars: bool = False) -> dict[str, object]:
        import torch

        return {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in self._state.items()}


def plain_rule(values: pd.Series) -> list[int]:
    """Return where a value is above the mean of the last 50 by 5 of their standard deviations."""
    before = values.rolling(WINDOW).agg(["mean", "std"]).shift(1)
    return values.index[values > before["mean"] + SIGMAS * before["std"]].tolist()


def judge(name: str, run: str, alarms: list[dict], metrics: pd.DataFrame, culprit: str) -> dict[str, object]:
    """Return one line of results; alarms before the fault are false."""
    at = fault_step() if name != "healthy" else 10**9
    after = [alarm for alarm in alarms if alarm["step"] >= at]
    table = metrics.set_index("step")
    named = [c for alarm in after for c in alarm["culprits"][:1]]
    rules = {f"rule on {column}": plain_rule(table[column]) for column in ("loss", "grad_norm")}
    return {
        "fault": name,
        "run": run,
        "false": len(alarms) - len(after),
        "found": bool(after),
        "delay": after[0]["step"] - at if after else None,
        "tests": sorted({alarm["test"] for alarm in alarms}),
        "culprit": (culprit in named) if culprit and after else None,
        **{rule: any(step >= at for step in steps) for rule, steps in rules.items()},
        **{f"{rule}, false": any(step < at for step in steps) for rule, steps in rules.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=6)
    chosen = parser.parse_args()
    train_runs(chosen.runs, chosen.seeds)
    results = []
    for kind in ("healthy", "bad batch", "learning rate x 10"):
        for folder in sorted((chosen.runs / kind).iterdir()):
            config = json.loads((folder / "run.json").read_text())["config"]
            run, metrics = states(folder), open_series(folder).metrics(folder.name)
            faults = [(kind, run, "")]
            if kind == "healthy":
                faults += [(n, edited(run, e, folder.name, s), c) for n, (e, c, s) in EDITS.items()]
            for name, series, culprit in faults:
                line = judge(name, folder.name, watched(series, metrics, config), metrics, culprit)
                results.append(line)
                print(json.dumps(line, default=float), flush=True)
    table = pd.DataFrame(results)
    columns = ["found", "culprit", "rule on loss", "rule on grad_norm"]
    summary = table.groupby("fault")[columns].agg(lambda one: one.dropna().astype(float).mean())
    summary["delay, median steps"] = table.groupby("fault")["delay"].median()
    summary["runs"] = table.groupby("fault").size()
    summary["with a false alarm"] = table.groupby("fault")["false"].agg(lambda one: (one > 0).sum())
    print(summary.to_string())


if __name__ == "__main__":
    main()
