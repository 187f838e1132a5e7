"""How many faults of the newest checkpoint the audit finds: four faults in trained series of four lengths.

    python -m benchmarks.audit_faults FOLDER --first 99 --runs 9

Takes the healthy runs of `benchmarks.audit_planted` in FOLDER (it trains those that are missing), writes
their first 2, 5, 10 or 30 checkpoints in the format of the run, and changes one matrix of the newest: scaled
up by 100, scaled down by 1e-20, replaced by noise of its own size, or by values near 1e-42.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.planted_kinds import ODDITIES, Oddity, State
from benchmarks.planted_model import write, written_as
from benchmarks.planted_plan import Plan
from benchmarks.planted_train import Trained, make, settings_of
from toposcope.core.seeding import rng
from toposcope.sources import open_series
from toposcope.sources.audit import audit

LENGTHS = (2, 5, 10, 30)
WHAT = ("plain", "sharded writer", "SGD with momentum", "fine-tuning of a trained model")
FIRST = 2
"""The first checkpoint of a series: before it most matrices still grow from their first values."""


def _noise(values: np.ndarray) -> np.ndarray:
    draw = rng(name=f"audit faults/{values.shape}/{values.sum():.6g}")
    return values.std() * draw.standard_normal(values.shape)


FAULTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "scaled up": lambda values: 100 * values,
    "scaled down": lambda values: 1e-20 * values,
    "noise": _noise,
    "denormal": lambda values: 1e-42 * np.sign(values),
}


@dataclass(frozen=True)
class Trial:
    """A fault in one series: its kind, the length of the series, its format, and what the audits find."""

    fault: str
    length: int
    layout: str
    whole: bool
    newest: bool


def trials(plan: Plan, oddity: Oddity, home: Path) -> Iterator[Trial]:
    """Plant every fault at the end of series of every length of one run."""
    settings = settings_of(plan, over=oddity.settings)
    states = Trained.read(home / f"{oddity.name}.npz").states
    steps = sorted(states)[FIRST:]
    matrices = [name for name, one in states[steps[0]].items() if one.ndim == 2 and ".h." in name]
    for length in LENGTHS:
        for number, (fault, change) in enumerate(FAULTS.items()):
            name = matrices[(plan.number + length + number) % len(matrices)]
            with tempfile.TemporaryDirectory() as temporary:
                folder = Path(temporary) / "run"
                for step in steps[: length - 1]:
                    write(states[step], folder, step, settings)
                last = steps[length - 1]
                hit = {name: change(states[last][name]).astype(np.float32)}
                found = _found(states[last] | hit, folder, last, settings)
                yield Trial(
                    fault, length, settings["layout"], *(_is_named(one, name, settings) for one in found)
                )


def _found(state: State, folder: Path, step: int, settings: dict) -> list[list]:
    place = write(state, folder, step, settings)
    series = open_series(folder)
    found = [audit(series, newest=newest) for newest in (False, True)]
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    return [[one for one in findings if one.step == step and not one.is_remark] for findings in found]


def _is_named(findings: list, name: str, settings: dict) -> bool:
    names = written_as(name, settings["layout"])
    return any(one.tensor.endswith(each) for one in findings for each in names)


def table(done: list[Trial]) -> str:
    """Return how many faults are found with their tensor, by kind and by the length of the series."""
    out = ["| fault | " + " | ".join(f"{length} checkpoints" for length in LENGTHS) + " |"]
    out.append("| --- |" + " --- |" * len(LENGTHS))
    for fault in FAULTS:
        cells = []
        for length in LENGTHS:
            part = [one for one in done if (one.fault, one.length) == (fault, length)]
            whole, newest = sum(one.whole for one in part), sum(one.newest for one in part)
            cells.append(f"{whole} of {len(part)} (newest alone {newest})")
        out.append(f"| {fault} | {' | '.join(cells)} |")
    layouts = Counter(one.layout for one in done)
    found = Counter(one.layout for one in done if one.whole)
    return "\n".join([*out, *(f"{layout}: {found[layout]} of {count}" for layout, count in layouts.items())])


def main() -> None:
    """Plant every fault in the runs FIRST, FIRST + 1, ..."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--first", type=int, default=99)
    parser.add_argument("--runs", type=int, default=9)
    given = parser.parse_args()
    torch.set_num_threads(1)
    done: list[Trial] = []
    for plan in map(Plan, range(given.first, given.first + given.runs)):
        home = given.folder / "runs" / str(plan.number) / "healthy"
        if not all((home / f"{name}.npz").exists() for name in WHAT):
            make([plan], given.folder / "runs", faults=False)
        for oddity in (one for one in ODDITIES if one.name in WHAT):
            done += trials(plan, oddity, home)
    print(table(done))


if __name__ == "__main__":
    main()
