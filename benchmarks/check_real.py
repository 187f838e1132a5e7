"""What `check` says of every log in a folder: python -m benchmarks.check_real FOLDER [--all].

It prints a line for each log that is not all right, with the first ground, and a table of the levels by kind.
The kind is what the loss is (a trend, a policy's, a preference's and so on). If the folder has a
`truth.jsonl`, whose records have `file`, and may have `kind` and `healthy` ("yes", "no", "unclear"), the
table has these kinds, and healthy runs that are accused are listed last. Nothing is written.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

import toposcope as ts
from toposcope.core.errors import InputError

TRUTH = "truth.jsonl"
NOT_READ = "not read"
LEVELS = ("all right", "look", "stop", NOT_READ)


def truth_of(folder: Path) -> Mapping[str, Mapping[str, str]]:
    """Return the records of `truth.jsonl` by the end of their paths, folder and file; empty without one."""
    place = folder / TRUTH
    if not place.is_file():
        return {}
    records = [json.loads(line) for line in place.read_text(encoding="utf-8").splitlines() if line.strip()]
    return {_tail(Path(one["file"])): one for one in records}


def _tail(path: Path) -> str:
    return "/".join(path.parts[-2:])


def checked(folder: Path) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield name, level, what the loss is, ground and seconds of every log in a folder."""
    known = truth_of(folder)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != TRUTH]
    for path in files:
        if known and _tail(path) not in known:
            continue
        began = time.perf_counter()
        try:
            answer = ts.check(str(path))
        except InputError as error:
            level, objective, ground = NOT_READ, "", str(error)
        else:
            worst = answer.runs[0]
            level, objective = worst.level, worst.objective
            ground = "; ".join(f"{one.kind}: {one.sentence}" for one in worst.judgement.grounds)
        yield _tail(path), level, objective, ground, f"{time.perf_counter() - began:.1f}"


def table_of(folder: Path) -> pd.DataFrame:
    """Return a row for each log: level, ground, kind and whether it is known to be healthy."""
    known = truth_of(folder)
    table = pd.DataFrame(checked(folder), columns=["log", "level", "objective", "ground", "seconds"])
    table["kind"] = [known.get(one, {}).get("kind") or what for one, what in
                     zip(table["log"], table["objective"], strict=True)]  # fmt: skip
    table["healthy"] = [str(known.get(one, {}).get("healthy", "")) for one in table["log"]]
    return table


def by_kind(table: pd.DataFrame) -> pd.DataFrame:
    """Return the counts of every level by kind, and in all."""
    counts = pd.crosstab(table["kind"].replace("", "unknown"), table["level"])
    counts = counts.reindex(columns=list(LEVELS), fill_value=0)
    counts.loc["all"] = counts.sum()
    return counts


def main() -> None:
    """Print the logs that are not all right, and the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("folder", type=Path)
    parser.add_argument("--all", action="store_true", help="print the logs that are all right, too")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    table = table_of(given.folder)
    for row in table.itertuples():
        if given.all or row.level != "all right":
            print(f"{row.level}: {row.log} ({row.kind}{', healthy ' * bool(row.healthy)}{row.healthy}): "
                  f"{row.ground[:220]}")  # fmt: skip
    print(by_kind(table).to_string())
    accused = table[(table["healthy"] == "yes") & table["level"].isin(("look", "stop"))]
    if len(accused):
        print(f"healthy, but not all right: {len(accused)} ({(accused['level'] == 'stop').sum()} stop)")


if __name__ == "__main__":
    main()
