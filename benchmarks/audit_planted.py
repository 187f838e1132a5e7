"""How often the audit accuses the healthy runs of the watch's table, written as their trainers write them.

    python -m benchmarks.audit_planted FOLDER --first 99 --runs 9 --seconds 1000

Trains the healthy runs of `benchmarks.planted` that FOLDER lacks, writes every checkpoint in the format of
its run, and audits each series: whole, and its newest checkpoint alone. A run that has its line in
FOLDER/lines.jsonl is not trained again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.audit_rates import upper
from benchmarks.planted_kinds import ODDITIES, Oddity
from benchmarks.planted_model import write
from benchmarks.planted_plan import Plan
from benchmarks.planted_train import Trained, make, settings_of
from toposcope.sources import open_series
from toposcope.sources.audit import audit


def audited(plan: Plan, oddity: Oddity, home: Path) -> dict[str, Any]:
    """Write one healthy run's checkpoints, and return what the audit finds in them."""
    settings = settings_of(plan, over=oddity.settings)
    states = Trained.read(home / f"{oddity.name}.npz").states
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "run"
        for step, state in states.items():
            write(state, folder, step, settings)
        series = open_series(folder)
        whole, newest = audit(series), audit(series, newest=True)

    def rows(findings: list[Any]) -> list[list[Any]]:
        return [[one.fault, one.is_remark, one.step, one.tensor, one.message] for one in findings]

    about = {"run": plan.number, "what": oddity.name, "layout": settings["layout"], "saved": len(states)}
    return about | {"findings": rows(whole), "newest": rows(newest)}


def table(lines: list[dict[str, Any]]) -> str:
    """Return the counts by kind of healthy run: series with a fault, and with a remark alone."""
    out = ["| healthy runs | runs | with a fault | with a remark alone | newest with a fault |"]
    out.append("| --- | --- | --- | --- | --- |")
    for name in (*(oddity.name for oddity in ODDITIES), "all"):
        part = [one for one in lines if name in (one["what"], "all")]
        faulty = [one for one in part if any(not found[1] for found in one["findings"])]
        remarked = sum(bool(one["findings"]) for one in part) - len(faulty)
        newest = sum(any(not found[1] for found in one["newest"]) for one in part)
        out.append(f"| {name} | {len(part)} | {len(faulty)} | {remarked} | {newest} |")
    faults = sum(any(not found[1] for found in one["findings"]) for one in lines)
    return "\n".join(
        [*out, f"with a fault: {faults} of {len(lines)} (95%: at most {upper(faults, len(lines)):.1%})"]
    )


def main() -> None:
    """Train, write and audit runs FIRST, FIRST + 1, ... as far as the time allows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--first", type=int, default=99)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1000, help="of processor time")
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.folder.mkdir(parents=True, exist_ok=True)
    file = given.folder / "lines.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {(one["run"], one["what"]) for one in lines}
    began = time.process_time()
    for plan in map(Plan, range(given.first, given.first + given.runs)):
        left = [oddity for oddity in ODDITIES if (plan.number, oddity.name) not in done]
        if not left or time.process_time() - began > given.seconds:
            continue
        home = given.folder / "runs" / str(plan.number) / "healthy"
        if not all((home / f"{oddity.name}.npz").exists() for oddity in left):
            make([plan], given.folder / "runs", faults=False)
        for oddity in left:
            lines.append(audited(plan, oddity, home))
            with file.open("a") as out:
                out.write(json.dumps(lines[-1]) + "\n")
    print(table(lines))


if __name__ == "__main__":
    main()
