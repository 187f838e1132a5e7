"""How often a healthy seed is called odd, and how often planted odd runs are found.

Run: python -m benchmarks.odd_runs [--runs FOLDER] [--curves FOLDER].

- Simulated: groups of 4, 5, 10 and 20 healthy runs with one or six quantities. Offsets of seeds that last for
  the whole run are the null that the test was designed for. The others are not: walks, noise at every
  checkpoint, and unkind ones, which are offsets with heavy or skewed tails, and spikes.
- `--runs FOLDER` holds folders of trained runs: `healthy`, and others, each named after what is odd. Groups
  are drawn from `healthy`; in the other cases one run of a group is an odd one. Runs are compared by their
  losses, as `check` does, and if FOLDER/KIND-store exists also by the primary features, as `analyze` does.
- `--curves FOLDER` holds `runs.csv.gz` and `curves.csv.gz` of public runs: folders of repeats, a seed each.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from toposcope.core.seeding import rng
from toposcope.logs.facts import Stated, stated
from toposcope.runs.odd import Member, odd_of
from toposcope.statistics.odd import odd_runs
from toposcope.store import Store
from toposcope.study._labels import Labels
from toposcope.study.table import series_table

CHECKPOINTS = 26
Offsets = Callable[[np.random.Generator, int, int], np.ndarray]


def _lasting(draw: Callable[[np.random.Generator, tuple[int, int, int]], np.ndarray]) -> Offsets:
    return lambda g, runs, many: draw(g, (runs, many, 1)) * np.ones(CHECKPOINTS)


def _spiked(g: np.random.Generator, runs: int, many: int) -> np.ndarray:
    lasting = g.standard_normal((runs, many, 1)) + 0.3 * g.standard_normal((runs, many, CHECKPOINTS))
    return lasting + 20.0 * (g.random((runs, 1, CHECKPOINTS)) < 0.02)


HEALTHY: dict[str, Offsets] = {
    "offsets that last": _lasting(lambda g, size: g.standard_normal(size)),
    "one offset in all quantities": lambda g, r, q: g.standard_normal((r, 1, 1)) * np.ones((q, CHECKPOINTS)),
    "random walks": lambda g, r, q: np.cumsum(g.standard_normal((r, q, CHECKPOINTS)), axis=2),
    "noise at every checkpoint": lambda g, r, q: g.standard_normal((r, q, CHECKPOINTS)),
    "lasting, and spikes at 2%": _spiked,
    "lasting, t(5)": _lasting(lambda g, size: g.standard_t(5, size)),
    "lasting, t(3)": _lasting(lambda g, size: g.standard_t(3, size)),
    "lasting, log-normal": _lasting(lambda g, size: np.exp(0.7 * g.standard_normal(size))),
}


def simulated(draws: int) -> None:
    steps = np.arange(CHECKPOINTS) * 16.0
    print("healthy groups with an odd run, %; error at most", round(100 * np.sqrt(0.25 / draws), 1))
    sizes = [(runs, many) for runs in (4, 5, 10, 20) for many in (1, 6)]
    print(f"{'':32}", *(f"{r}x{q}".rjust(6) for r, q in sizes))
    for name, make in HEALTHY.items():
        cells = []
        for runs, many in sizes:
            g = rng(name="odd runs", case=name, runs=runs, many=many)
            groups = (make(g, runs, many) for _ in range(draws))
            found = [odd_runs({str(q): z[:, q] for q in range(many)}, steps) for z in groups]
            cells.append(f"{100 * np.mean([bool(one) for one in found]):6.1f}")
        print(f"{name:32}", *cells, flush=True)


def members_of(folder: Path, store: Path | None) -> list[Member]:
    """Return the runs of a folder: their losses, and the primary features where a store has them."""
    found = []
    table = None
    if store is not None and store.exists():
        opened = Store.open(store)
        table = series_table(opened.features(), opened.metrics(), opened.runs(), catalogue=opened.catalogue())
    for path in sorted(folder.iterdir()):
        config = json.loads((path / "run.json").read_text())
        logged = pd.concat([pd.read_parquet(part) for part in sorted((path / "metrics").glob("*.parquet"))])
        logged = logged.drop_duplicates("step").set_index("step")
        losses = {name: logged[name].dropna().astype(float) for name in ("loss", "heldout_loss")}
        features: dict[str, pd.Series] = {}
        if table is not None:
            rows = table.of_run(path.name).set_index("step")
            features = {name: rows[name].dropna() for name in Labels(table).primary()}
        facts = stated({"config": config["config"]})
        found.append(Member(Stated(path.name, facts, 1.0), losses, {"weights": features} if features else {}))
    return found


def trained(folder: Path, draws: int) -> None:
    for what, stores in (("losses", False), ("losses and features", True)):
        kinds = sorted(
            path.name for path in folder.iterdir() if (path / "").is_dir() and any(path.glob("*/run.json"))
        )
        runs = {
            kind: members_of(folder / kind, folder / f"{kind}-store" if stores else None) for kind in kinds
        }
        if stores and not any((folder / f"{kind}-store").exists() for kind in kinds):
            return
        print(f"trained runs, by {what}: {', '.join(f'{k} {len(v)}' for k, v in runs.items())}")
        for size in (5, 10):
            g = rng(name="odd groups", size=size)
            for kind in kinds:
                hits = named = wrong = 0
                for _ in range(draws):
                    rest = g.choice(len(runs["healthy"]), size, replace=False)
                    group = [runs["healthy"][i] for i in rest]
                    odd = ""
                    if kind != "healthy":
                        group[0] = runs[kind][g.integers(len(runs[kind]))]
                        odd = group[0].run
                    found = odd_of(group).found
                    hits += any(one.run == odd for one in found)
                    named += any(one.run == odd and one.differs for one in found)
                    wrong += any(one.run != odd for one in found)
                print(
                    f"  {kind:12} of {size:2}: found {100 * hits / draws:5.1f}%, cause named "
                    f"{100 * named / draws:5.1f}%, another run called odd {100 * wrong / draws:4.1f}%"
                )


def public(folder: Path) -> None:
    """Print what is found among public repeats: folders in which every run has a seed of its own."""
    runs, curves = (pd.read_csv(folder / f"{name}.csv.gz") for name in ("runs", "curves"))
    by_run = dict(tuple(curves.groupby("run")))
    runs["folder"] = runs["path"].str.rsplit("/", n=1).str[0]
    tested = odd = 0
    for (name, _), group in runs.groupby(["folder", "parameters"]):
        if len(group) < 4 or group["seed"].nunique() < len(group):
            continue
        members = [
            Member(
                Stated(run, {}),
                {
                    "loss": by_run[run]
                    .dropna(subset=["train_loss"])
                    .drop_duplicates("step")
                    .set_index("step")["train_loss"]
                },
            )
            for run in group["run"]
            if run in by_run
        ]
        found = odd_of(members)
        tested += found.compared > 0
        odd += bool(found.found)
        print(f"  {name[-48:]:50}{len(members):3} repeats: {[str(one.sentence) for one in found.found]}")
    print(f"public repeats: {odd} of {tested} groups have an odd run")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--curves", type=Path)
    options = parser.parse_args()
    if options.runs is not None:
        trained(options.runs, options.draws)
    if options.curves is not None:
        public(options.curves)
    if options.runs is None and options.curves is None:
        simulated(options.draws)


if __name__ == "__main__":
    main()
