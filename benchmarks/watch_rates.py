"""How often `watch` is wrong on healthy runs of loops that are not ours, and what it finds there.

    python -m benchmarks.watch_rates FOLDER --runs 6 --seed-runs ../shared/data/seed_runs

Trains and measures what FOLDER lacks (about 20 minutes of one core for six runs of each kind), judges all,
and prints the tables of docs/watch.md. `--only WORDS` takes the kinds whose name contains the words.
"""

from __future__ import annotations

import argparse
import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.planted import alarms
from benchmarks.planted_measure import rows_of
from benchmarks.watch_kinds import ARCHITECTURES, FAULTS, HEALTHY, OPTIMISERS
from benchmarks.watch_loops import Kind, trained
from toposcope.rules.registry import assess
from toposcope.subjects.weights.probes.updates import Updates

GROUPS = {"healthy": HEALTHY, "architecture": ARCHITECTURES, "optimiser": OPTIMISERS, "fault": FAULTS}

Measured = tuple[pd.DataFrame, pd.DataFrame, int]
"""Rows of the update probe, the log, and the update before which a fault begins."""


def measured(folder: Path, kind: Kind, number: int) -> Measured:
    """Return a run's rows, trained and measured if FOLDER lacks them."""
    place = folder / f"{kind.name}-{number}".replace(" ", "-")
    run = _kept(place.with_suffix(".run"), lambda: trained(kind, number))
    rows = _kept(place.with_suffix(f".rows{Updates.version}"), lambda: rows_of(run.states, run.config))
    return rows, pd.DataFrame(run.log), run.onset


def _kept(place: Path, make: Callable[[], Any]) -> Any:
    """Return what a file has, made and written if it does not exist."""
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_name(f"{place.name}.part")
        part.write_bytes(pickle.dumps(make()))
        part.rename(place)
    return pickle.loads(place.read_bytes())


def said(rows: pd.DataFrame, log: pd.DataFrame) -> list[dict[str, object]]:
    """Return the alarms of a run, and what the rules that look from both sides ask to look at."""
    remarks = [
        {"step": int(one.step or 0), "test": one.kind, "said": one.sentence, "culprits": []}
        for one in assess(log, noticed=False)
    ]
    return [*alarms(rows, log), *remarks]


def lines(folder: Path, kinds: Sequence[Kind], runs: range, *, faults: bool) -> Iterator[dict[str, object]]:
    """Yield a line for each run of each kind."""
    for kind in kinds:
        for number in runs:
            rows, log, onset = measured(folder, kind, number)
            told = said(rows, log)
            after = [one for one in told if one["step"] >= onset] if faults else told
            yield {
                "kind": kind.name, "run": number, "found": bool(after), "before": len(told) - len(after),
                "delay": min((int(str(one["step"])) - onset for one in after), default=None),
                "tests": sorted({str(one["test"]) for one in after}),
                "said": [f"{one['step']}: {one['test']}: {one['said']}" for one in after[:4]],
            }  # fmt: skip


def _rows_of_files(home: Path) -> pd.DataFrame:
    import torch

    states = {}
    for path in sorted(home.glob("*.pt")):
        held = torch.load(path, map_location="cpu", weights_only=False)
        held = held.get("model_state_dict", held)
        states[int(path.stem.split("_")[1])] = {name: np.asarray(one) for name, one in held.items()}
    return rows_of(states, {})


def of_files(folder: Path, source: Path) -> Iterator[dict[str, object]]:
    """Yield a line for each run of a folder of files, of the weights' alarms and the losses' rules."""
    for home in sorted(one for one in source.iterdir() if one.is_dir()):
        rows = _kept(folder / f"files-{home.name}.rows{Updates.version}", partial(_rows_of_files, home))
        log = pd.DataFrame(json.loads((home / "training_log.json").read_text()))
        told = said(rows, log.rename(columns={"lr": "learning_rate"}))
        yield {"kind": "five public models", "run": home.name, "found": bool(told), "before": 0,
               "tests": sorted({str(one["test"]) for one in told}),
               "said": [f"{one['step']}: {one['test']}: {one['said']}" for one in told[:4]]}  # fmt: skip


def table(found: Sequence[dict[str, object]], title: str) -> str:
    """Return the counts of one group of kinds, as Markdown."""
    out = [f"\n| {title} | runs | with an alarm | tests |", "| --- | --- | --- | --- |"]
    for kind in dict.fromkeys(str(one["kind"]) for one in found):
        part = [one for one in found if one["kind"] == kind]
        tests = sorted({str(test) for one in part for test in one["tests"]})  # type: ignore[attr-defined]
        out.append(
            f"| {kind} | {len(part)} | {sum(bool(one['found']) for one in part)} | {', '.join(tests)} |"
        )
    out.append(f"\nwith an alarm: {sum(bool(one['found']) for one in found)} of {len(found)}")
    return "\n".join(out)


def main() -> None:
    """Train, measure and judge, and print the tables."""
    import torch

    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--seed-runs", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--groups", default=",".join(GROUPS), help="comma-separated")
    given = parser.parse_args()
    tables = []
    for title in given.groups.split(","):
        chosen = [kind for kind in GROUPS[title] if given.only in kind.name]
        found = []
        for one in lines(
            given.folder, chosen, range(given.first, given.first + given.runs), faults=title == "fault"
        ):
            found.append(one)
            print(json.dumps(one, default=float), flush=True)
        tables += [table(found, title)] if found else []
    if given.seed_runs is not None:
        found = list(of_files(given.folder, given.seed_runs))
        print("\n".join(json.dumps(one, default=float) for one in found))
        tables.append(table(found, "public models"))
    print("\n".join(tables))


if __name__ == "__main__":
    main()
