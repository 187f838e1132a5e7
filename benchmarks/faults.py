"""Disturb commands at random moments, repeat them, and count what hung and what was lost.

    python benchmarks/faults.py --kills 20

Each try starts a command in a fresh folder and disturbs it from outside (a worker killed, all workers killed,
the command killed, SIGTERM, SIGINT, stopped and continued) at a random moment of its usual time. It then
repeats the command until it is done. Prints a table and a JSON line; exits with 1 when anything hung or was
lost. A fault that came after the command's end counts as late.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = "train,weights,analyze,export,report,forecast,merge,embeddings,landscape,reproduce,demo"
SMALL = ("--points", "40", "--draws", "3", "--nulls", "3", "--no-audit")


def _injury():
    spec = importlib.util.spec_from_file_location("injury", ROOT / "tests" / "faults" / "injury.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["injury"] = module
    spec.loader.exec_module(module)
    return module


def _lines(injury, given: Path, out: Path) -> dict[str, list[str]]:
    plain: dict[str, tuple] = {
        "train": ("train", "--recipe", given / "small.toml", "--out", out, "--jobs", 2),
        "weights": ("weights", given / "series", "--out", out, "--jobs", 2, *SMALL),
        "analyze": ("analyze", given / "store", "--out", out),
        "export": ("export", given / "store", "--out", out),
        "report": ("report", given / "store", "--out", out),
        "forecast": ("forecast", given / "runs"),
        "merge": ("merge", given / "store", given / "other", "--out", out),
        "embeddings": (
            "embeddings", given / "runs", "--texts", given / "text.txt", "--out", out, "--jobs", 2,
            "--limit", 30, "--min-chars", 10, "--no-audit",
        ),
        "landscape": (
            "landscape", given / "runs" / "one-seed7", "--out", out, "--jobs", 2, "--batches", 1,
            "--seeds", 1, "--resolution", 9, "--length", 16, "--sequences", 4,
            "--features", "sharpness,surface",
        ),
        "reproduce": ("reproduce", "seed004", "--runs", given / "paper" / "runs", "--out", out, "--jobs", 2),
    }  # fmt: skip
    return {name: injury.command(*line) for name, line in plain.items()} | {
        "demo": injury.demo(out, steps=30)
    }


def _made(injury, name: str, out: Path, printed: str) -> object:
    """Return what a command has made, without what differs from run to run: times and seconds."""
    if name == "forecast":
        return printed
    if name == "train":
        return injury.contents(out, without=("metrics", ".json", "resume", "state", ".aside"))
    if name in ("weights", "embeddings", "landscape", "reproduce", "demo", "merge"):
        stores = {"demo": ("store",), "reproduce": ("stores/seed004", "stores/text")}.get(name, ())
        return injury.measured(out, *stores), [page.read_text() for page in out.glob("*.md")]
    return sorted(injury.contents(out))


def tries(injury, name: str, given: Path, place: Path, count: int, seed: int) -> Counter[tuple[str, str]]:
    """Return how often each fault ended how, over `count` random tries of a command."""
    whole = place / "whole"
    usual = injury.finish(_lines(injury, given, whole)[name], limit=600.0)
    if usual.code not in (0, 1):  # 1: it has done what it could and lists what it could not
        raise SystemExit(f"{name} fails when nothing hurts it: {usual.err[-300:]}")
    expected = _made(injury, name, whole, usual.out)
    chance = random.Random(f"{seed} {name}")
    ends: Counter[tuple[str, str]] = Counter()
    for number in range(count):
        out = place / f"try{number}"
        fault = chance.choice(sorted(injury.FAULTS))
        moment = time.monotonic() + chance.uniform(0.0, usual.seconds)
        line = _lines(injury, given, out)[name]
        limit = 10 * usual.seconds + 300  # hung, and not merely stopped for something else on this machine
        ending, had = injury.hurt(line, (fault, lambda moment=moment: time.monotonic() > moment), limit=limit)
        again = injury.finish(line, limit=limit)
        same = again.code == usual.code and _made(injury, name, out, again.out) == expected
        end = "hung" if ending.code is None else "same" if same else "lost"
        ends[fault, end if had or end != "same" else "late"] += 1
        if ending.code is None or not same:
            print(f"{name} {fault} after {ending.seconds:.1f} s: {again.err[-300:]}", file=sys.stderr)
        shutil.rmtree(out, ignore_errors=True)
    return ends


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="tries per command")
    parser.add_argument("--commands", default=COMMANDS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    injury = _injury()
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "given"
        injury.write_recipe(given, steps=400, every=40)
        injury.write_series(given / "series", runs=2, steps=12)
        injury.write_series(given / "more", runs=3, steps=12)
        shutil.rmtree(given / "more" / "run0")
        injury.finish(
            injury.command("weights", given / "series", "--out", given / "store", *SMALL), limit=600.0
        )
        injury.finish(
            injury.command("weights", given / "more", "--out", given / "other", *SMALL), limit=600.0
        )
        few = ("--set", "steps=40", "--set", "checkpoint_every=10", "--jobs", 1)
        trained = injury.command("train", "--recipe", given / "small.toml", "--out", given / "runs", *few)
        injury.finish(trained, limit=600.0)
        injury.write_paper_runs(given / "paper")
        total: dict[str, dict[str, int]] = {}
        for name in options.commands.split(","):
            place = Path(folder) / name
            place.mkdir()
            ends = tries(injury, name, given, place, options.kills, options.seed)
            for (fault, end), count in sorted(ends.items()):
                print(f"{name:10s} {fault:20s} {end:5s} {count:4d}", flush=True)
            total[name] = dict(Counter({end: 0 for _, end in ends}))
            for (_, end), count in ends.items():
                total[name][end] += count
                bad += count if end in ("hung", "lost") else 0
    print(json.dumps(total))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
