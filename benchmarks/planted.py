"""Faults of every kind planted in tiny trainings, and healthy oddities: what the alarms of a watch find.

    python -m benchmarks.planted FOLDER --first 99 --runs 9

Trains the runs that FOLDER lacks, measures them once, judges them, and prints the tables of docs/watch.md.
The levels were set on runs 0, 3 and 6; 9 runs in a row have every size in every format. --judge-only judges
the runs that exist.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.planted_kinds import FAULTS, ODDITIES, Fault
from benchmarks.planted_measure import measured
from benchmarks.planted_plan import Plan
from benchmarks.planted_train import LATER, Trained, kind_of, make
from toposcope.watch.alarms.base import culprits
from toposcope.watch.run_watch import RunWatch

SMOOTHED, ERRORS = 20, 3.0
"""A loss shows a fault once the mean of its excess over the healthy twin's, over so many updates, is so many
standard errors of the noise of batches above 0: what an eye that knew the healthy curve would see."""


def alarms(rows: pd.DataFrame, log: pd.DataFrame) -> list[dict[str, object]]:
    """Judge one run; return its alarms by step, each with the names of its culprits."""
    watch = RunWatch("run")
    table = log.reindex(columns=["step", "loss", "grad_norm", "learning_rate"])
    told, recent = [(one, None) for one in watch.metrics(table) if one.kind == "alarm"], {}
    for step, part in rows.groupby("step", sort=True):
        found = [one for one in watch.checkpoint(int(step), part) if one.kind == "alarm"]
        recent[int(step)] = watch.recent[-1]
        told += [(one, int(step)) for one in found]
    made = []
    for one, at in told:
        after = at if at is not None else next((step for step in sorted(recent) if step >= one.step), None)
        named = [str(line["name"]) for line in culprits(recent[after])] if after is not None else []
        made.append({"step": one.step, "test": one.test, "said": one.sentence, "culprits": named})
    return sorted(made, key=lambda one: one["step"])


def shown_at(plan: Plan, runs: Path, fault: Fault) -> int | None:
    """Return the update from which on the loss shows a fault, None where it does not while it is followed."""
    home = runs / str(plan.number) / "faults"
    logs = [Trained.read(home / f"{name}.npz").log for name in (f"base {kind_of(fault)}", fault.name)]
    healthy, hit = ({row["step"]: row["loss"] for row in log} for log in logs)
    steps = [step for step in sorted(hit) if step in healthy and step >= plan.checkpoint + LATER]
    noise = np.std(np.diff([healthy[step] for step in steps])) / np.sqrt(2.0)
    excess = pd.Series([hit[step] - healthy[step] for step in steps], index=steps).rolling(
        SMOOTHED, min_periods=5
    )
    above = excess.mean() > ERRORS * noise / np.sqrt(excess.count())
    return int(above.index[above.to_numpy()][0]) if above.any() else None


def line(plan: Plan, runs: Path, rows: Path, what: Fault | str) -> dict[str, object] | None:
    """Return one line of results: of a healthy run, or of one with a fault; None where it was not trained."""
    found = measured(plan, runs, rows, what)
    if found is None:
        return None
    told, about = (
        alarms(*found),
        {"run": plan.number, "size": plan.recipe["size"], "layout": plan.recipe["layout"]},
    )
    if isinstance(what, str):
        return about | {"what": what, "false": len(told), "tests": sorted({one["test"] for one in told}),
                        "said": [f"{one['step']}: {one['test']}: {one['said']}" for one in told]}  # fmt: skip
    onset = plan.checkpoint + LATER
    after = [one for one in told if one["step"] >= onset]
    first = after[0]["step"] if after else None
    named = next((one["culprits"] for one in after if one["culprits"]), [])
    hits = what.hits(plan)
    shown = shown_at(plan, runs, what) if what.slow else None
    return about | {
        "what": what.name, "kind": what.kind, "doubling": plan.doubling, "found": bool(after),
        "delay": None if first is None else max(0, first - onset), "false": len(told) - len(after),
        "culprit": _right(named, hits) if hits and after else None, "shown": shown,
        "before": bool(after) and (shown is None or first < shown) if what.slow else None,
        "tests": sorted({one["test"] for one in after}), "said": [one["said"] for one in after[:2]],
    }  # fmt: skip


def _right(named: list[str], hits: tuple[str, ...]) -> bool:
    """Say whether the first culprit is one of the tensors that were hit, or of the layer that was."""
    return bool(named) and any(hit in named[0] for hit in hits)


def table(lines: list[Mapping[str, object]]) -> str:
    """Return the tables of faults and of healthy runs, as Markdown."""
    faults = pd.DataFrame([one for one in lines if "found" in one])
    head = "| fault | kind | found | right culprit first | updates to the alarm, median (worst) |"
    out = [head + " before the loss shows it |",
           "| --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for fault in FAULTS:
        part = faults[faults["what"] == fault.name] if len(faults) else faults
        if not len(part):
            continue
        right = part["culprit"].dropna()
        late = part["delay"].dropna()
        delay = f"{late.median():.0f} ({late.max():.0f})" if len(late) else "-"
        culprit = (
            f"{int(right.sum())} of {len(right)}"
            if len(right)
            else "all are hit"
            if not fault.hits(Plan(0))
            else "-"
        )
        before = f"{int(part['before'].sum())} of {len(part)}" if fault.slow else ""
        found = f"{int(part['found'].sum())} of {len(part)}"
        out.append(f"| {fault.name} | {fault.kind} | {found} | {culprit} | {delay} | {before} |")
    slow = faults[faults["before"].notna()]
    if len(slow):
        out.append(f"\nslow: before the loss in {int(slow['before'].sum())} of {len(slow)}")
        for doubling, part in slow.groupby("doubling"):
            told, early = int(part["found"].sum()), int(part["before"].sum())
            out.append(
                f"doubling in {doubling} checkpoints: told {told} of {len(part)}, before the loss {early}"
            )
    others = pd.DataFrame([one for one in lines if "found" not in one])
    hurt = [oddity.name for oddity in ODDITIES if not oddity.healthy]
    healthy = others[~others["what"].isin(hurt)] if len(others) else others
    out += ["\n| healthy runs | runs | with an alarm | tests |", "| --- | --- | --- | --- |"]
    for oddity in ODDITIES:
        part = healthy[healthy["what"] == oddity.name] if len(healthy) else healthy
        if len(part):
            tests = ", ".join(sorted({test for tests in part["tests"] for test in tests}))
            out.append(f"| {oddity.name} | {len(part)} | {int((part['false'] > 0).sum())} | {tests} |")
    for name in hurt if len(others) else ():
        part = others[others["what"] == name]
        out.append(f"\n{name}: an alarm in {int((part['false'] > 0).sum())} of {len(part)}")
    if len(healthy):
        out.append(f"\nhealthy runs with an alarm: {int((healthy['false'] > 0).sum())} of {len(healthy)}")
    return "\n".join(out)


def main() -> None:
    """Train, measure and judge runs FIRST, FIRST + 1, ..., and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--first", type=int, default=99)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--judge-only", action="store_true", help="Judge what is there.")
    given = parser.parse_args()
    runs, rows = given.folder / "runs", given.folder / "rows"
    plans = [Plan(number) for number in range(given.first, given.first + given.runs)]
    if not given.judge_only:
        import torch

        torch.set_num_threads(1)
        for plan in [plan for plan in plans if not (runs / str(plan.number) / "done").exists()]:
            make([plan], runs, faults=True)
            (runs / str(plan.number) / "done").touch()
    lines = []
    for plan in plans:
        for what in (*(oddity.name for oddity in ODDITIES), *FAULTS):
            one = line(plan, runs, rows, what)
            if one is not None:
                lines.append(one)
                print(json.dumps(one, default=float), flush=True)
    print(table(lines))


if __name__ == "__main__":
    main()
