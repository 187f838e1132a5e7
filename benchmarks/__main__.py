"""The list of benchmarks, and whether the commands have become slower since another revision.

    python -m benchmarks                        # the benchmarks, a line each
    python -m benchmarks --against REVISION     # every command of this tree and of that revision, in turn

The second form extracts the package of REVISION by git, and runs the same commands on the same inputs with
each: three small models with 26 checkpoints each, and a log of 20,000 losses. Each command runs once
unmeasured, to compile the kernels, then `--repeats` times; the two revisions take turns in going first. For
each command it prints the processor time of both in seconds, the ratio of the pairs (median, lowest and
highest), the ratio of wall times and that of the peaks of memory. A command that only one revision has is
named.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parents[1]
MAIN = "from toposcope.cli.main import main; main()"
MODELS = "tiny-3k,small-7k,med-21k"

COMMANDS = {
    "train": ("train", "--recipe", "demo", "--models", "tiny-3k", "--steps", "150", "--out", "{out}/trained"),
    "audit": ("audit", "{runs}"),
    "weights": ("weights", "{runs}", "--out", "{out}/store"),
    "gradients": ("weights", "{runs}", "--gradients", "--out", "{out}/gradients"),
    "landscape": (
        "landscape",
        "{runs}/tiny-3k-seed42",
        "--features",
        "sharpness,surface",
        "--resolution",
        "9",
        "--out",
        "{out}/surfaces",
    ),
    "analyze": ("analyze", "{out}/store"),
    "report": ("report", "{out}/store", "{out}/gradients", "{out}/surfaces", "--out", "{out}/page"),
    "export": ("export", "{out}/store", "--out", "{out}/exported"),
    "check": ("check", "{log}"),
    "forecast": ("forecast", "{log}", "--horizon", "40000"),
    "watch": ("watch", "{runs}", "--once", "--out", "{out}/watched"),
}
"""The commands in their order: `analyze` and `report` read what the others have measured."""


@dataclass(frozen=True)
class Cost:
    """What one run of a command costs: seconds of processor and of wall time, and its peak in MB."""

    cpu: float
    wall: float
    peak: float


def listed() -> None:
    """Print every benchmark with the first line of what it says of itself."""
    folder = Path(__file__).parent
    files = sorted([*folder.glob("*.py"), *folder.glob("*/__main__.py")])
    for file in files:
        said = ast.get_docstring(ast.parse(file.read_text()))
        if file != Path(__file__) and said and "python" in said:
            name = file.parent.name if file.name == "__main__.py" else file.stem
            print(f"{name:22} {said.splitlines()[0]}")


def package_of(revision: str, place: Path) -> Path:
    """Extract the package of a revision; return the folder to import it from."""
    place.mkdir()
    archive = subprocess.run(
        ["git", "-C", str(HERE), "archive", revision, "src"], capture_output=True, check=True
    ).stdout
    subprocess.run(["tar", "-x", "-C", str(place)], input=archive, check=True)
    return place / "src"


def run(source: Path, line: list[str]) -> Cost | None:
    """Run a command with the package of a folder; None where it refuses the call."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = str(source)
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *line], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env=environment, cwd=source,
    )  # fmt: skip
    said = process.stderr.read().decode() if process.stderr is not None else ""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        print(f"# {line[0]} in {source}: {said.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return Cost(used.ru_utime + used.ru_stime, time.monotonic() - start, used.ru_maxrss / 1e3)


def compare(name: str, sources: dict[str, Path], inputs: dict[str, str], out: Path, repeats: int) -> list:
    """Return the pairs of costs (here, there) of a command; empty where one of the two refuses it."""
    pairs = []
    for turn in range(repeats + 1):
        costs: dict[str, Cost | None] = {}
        order = list(sources) if turn % 2 else list(sources)[::-1]
        for side in order:
            given = {**inputs, "out": str(out / side)}
            line = [part.format(**given) for part in COMMANDS[name]]
            if "--out" in line:  # what the last repeat wrote would be resumed
                shutil.rmtree(line[line.index("--out") + 1], ignore_errors=True)
            costs[side] = run(sources[side], line)
        if None in costs.values():
            missing = [side for side, cost in costs.items() if cost is None]
            print(f"{name:10} not run {' and '.join(missing)}")
            return []
        if turn:
            pairs.append((costs["here"], costs["there"]))
    return pairs


def write_log(path: Path) -> None:
    """Write a log of 20,000 losses with its learning rate."""
    step = np.arange(1, 20_001)
    noise = np.random.default_rng(0).normal(0, 0.02, len(step))
    loss = 2 + 6 * step**-0.35 + noise
    rate = 1e-3 * (0.5 + 0.5 * np.cos(np.pi * step / 40_000))
    rows = (f"{s},{x:.5f},{r:.8f}" for s, x, r in zip(step, loss, rate, strict=True))
    path.write_text("step,loss,lr\n" + "\n".join(rows) + "\n")


def against(revision: str, names: list[str], repeats: int, out: Path | None) -> None:
    """Compare every command with that of a revision, and print a row for each."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        sources = {"here": HERE / "src", "there": package_of(revision, place / "revision")}
        inputs = {"runs": str(place / "runs"), "log": str(place / "train.csv")}
        write_log(Path(inputs["log"]))
        made = run(
            sources["here"],
            ["train", "--recipe", "demo", "--models", MODELS, "--gradients", "--out", inputs["runs"]],
        )
        if made is None:
            raise SystemExit("the runs could not be trained")
        print("command      here s  there s  ratio (lowest, highest)   wall   memory")
        rows = []
        for name in names:
            pairs = compare(name, sources, inputs, place / "out", repeats)
            if not pairs:
                continue
            cpu = sorted(here.cpu / there.cpu for here, there in pairs)
            wall = statistics.median(here.wall / there.wall for here, there in pairs)
            peak = statistics.median(here.peak / there.peak for here, there in pairs)
            here, there = (statistics.median(pair[side].cpu for pair in pairs) for side in (0, 1))
            ratio = statistics.median(cpu)
            print(f"{name:10} {here:8.2f} {there:8.2f}  {ratio:5.2f} ({cpu[0]:.2f}, {cpu[-1]:.2f})"
                  f"        {wall:5.2f}    {peak:5.2f}", flush=True)  # fmt: skip
            rows.append(
                {"command": name, "here": here, "there": there, "ratio": cpu, "wall": wall, "peak": peak}
            )
        if out is not None:
            out.write_text(json.dumps({"revision": revision, "rows": rows}, indent=1) + "\n")


def main() -> None:
    """List the benchmarks, or compare with a revision."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--against", metavar="REVISION", help="a revision that git knows")
    parser.add_argument("--only", default=",".join(COMMANDS), help="commands, separated by commas (all)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, help="write the figures as JSON to this file")
    given = parser.parse_args()
    if given.against is None:
        listed()
        return
    against(given.against, given.only.split(","), given.repeats, given.out)


if __name__ == "__main__":
    main()
