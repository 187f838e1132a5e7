"""Is the time left that a command states right? Compares every progress line with the true end.

    python benchmarks/progress.py --commands train,weights,embeddings,landscape,reproduce

Trains the five models of the recipe `seed004` for a few steps, then measures them. Each command runs as a
user types it, but with plain lines every half second. A line is judged between a tenth and nine tenths of the
time that its label took, by the stated seconds left over the true seconds left. Prints a table and a JSON
line.
"""

from __future__ import annotations

import argparse
import json
import pydoc_data.topics
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

EVERY = 0.5
LINE = re.compile(r"^(?P<label>[\w -]+): (?P<done>\d+)/(?P<total>\d+)(?P<rest>.*)$")
LEFT = re.compile(r"(?P<left>[\d.]+) (?P<unit>s|min|h|days) left")
SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "days": 86400.0}
MAIN = (
    f"import toposcope.core.progress as p; p._PLAIN_EVERY_SECONDS = {EVERY}; "
    "from toposcope.cli.main import main; main()"
)


@dataclass(frozen=True)
class Said:
    """A line of progress: when, of what, which share is counted, and the seconds left, where it says any."""

    at: float
    label: str
    counted: float
    left: float | None


def heard(line: list[str]) -> tuple[list[Said], float, float]:
    """Run a command; return its lines of progress, when it started and its exit code."""
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *line], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    said = []
    for text in process.stderr:
        match = LINE.match(text.strip())
        if match is None:
            start = time.monotonic() if "expecting" in text else start
            continue
        left = LEFT.search(match["rest"])
        said.append(
            Said(
                time.monotonic(),
                match["label"],
                int(match["done"]) / int(match["total"]),
                None if left is None else float(left["left"]) * SECONDS[left["unit"]],
            )
        )
    return said, start, process.wait()


def _parts(said: list[Said]) -> list[list[Said]]:
    """Return the lines of each thing that was counted: another label, or a count that begins again."""
    parts: list[list[Said]] = []
    for one in said:
        if not parts or parts[-1][-1].label != one.label or parts[-1][-1].counted > one.counted:
            parts.append([])
        parts[-1].append(one)
    return parts


def judged(said: list[Said], start: float) -> list[dict[str, object]]:
    """Return, for all that took three seconds or more, how right its lines were."""
    found = []
    for mine in _parts(said):
        end = mine[-1].at
        whole = end - start
        begin, start = start, end
        if whole < 3.0 or mine[-1].counted < 1.0:
            continue
        middle = [one for one in mine if 0.1 <= (one.at - begin) / whole <= 0.9]
        ratios = [one.left / (end - one.at) for one in middle if one.left is not None]
        found.append(
            {
                "label": mine[-1].label,
                "seconds": whole,
                "lines": len(middle),
                "withheld": len(middle) - len(ratios),
                "within_two": sum(0.5 <= ratio <= 2.0 for ratio in ratios),
                "lowest": min(ratios, default=float("nan")),
                "highest": max(ratios, default=float("nan")),
            }
        )
    return found


def lines(folder: Path, jobs: int, every: str = "0:60:1") -> dict[str, list[str]]:
    """Return the command lines by name; all but the first measure the runs that the first trains."""
    few = ("--batches", 1, "--seeds", 1, "--resolution", 9)
    plain: dict[str, tuple[object, ...]] = {
        "train": (
            "train", "--recipe", "seed004", "--set", "steps=60", "--set", "checkpoint_every=1",
            "--set", "warmup_steps=10", "--out", folder / "runs",
        ),
        "weights": ("weights", folder / "runs", "--features", "all", "--out", folder / "weights"),
        "embeddings": (
            "embeddings", folder / "runs", "--texts", folder / "texts.txt", "--limit", 60,
            "--steps", every, "--out", folder / "states",
        ),
        "landscape": (
            "landscape", folder / "runs", "--steps", "0:60:8", *few, "--out", folder / "surfaces",
        ),
        "reproduce": ("reproduce", "seed004", "--runs", folder / "runs", "--out", folder / "study"),
    }  # fmt: skip
    return {name: [*map(str, line), "--jobs", str(jobs)] for name, line in plain.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commands", default="train,weights,embeddings,landscape,reproduce")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--place", type=Path, help="a folder that keeps the runs from call to call")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(dir=options.place) as name:
        folder = Path(name)
        if options.place is not None and (options.place / "runs").is_dir():
            (folder / "runs").symlink_to(options.place / "runs")
        texts = "\n".join(" ".join(text.split())[:400] for text in pydoc_data.topics.topics.values())
        (folder / "texts.txt").write_text(texts)
        for name, line in lines(folder, options.jobs).items():
            if name not in options.commands.split(","):
                continue
            said, start, code = heard(line)
            for row in judged(said, start):
                results.append({"command": name, "exit": code, **row})
                print(
                    f"{name:10s} {row['label']:15s} {row['seconds']:5.0f} s, {row['lines']} lines, "
                    f"{row['withheld']} without a time, {row['within_two']} right within two, left over "
                    f"true {row['lowest']:.2f} to {row['highest']:.2f}",
                    flush=True,
                )
    print(json.dumps(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
