"""What the first use after an install costs: python -m benchmarks.cold_start [--only NAMES] [--out FILE].

Each command runs twice as a process of its own, on inputs made here: with an empty folder for compiled
kernels, and again with what the first run compiled. The table has the processor seconds of both, and their
difference. `analyze` and `report` read a store of three small runs with 26 checkpoints each. The last rows
start Python and import the package, print the help, and check a log; they compile nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

MAIN = "from toposcope.cli.main import main; main()"
COMMANDS = {
    "weights": ("weights", "{runs}", "--jobs", "1", "--out", "{out}/store"),
    "embeddings": (
        "embeddings", "{runs}/tiny-3k-seed42", "--steps", "0,160,400", "--jobs", "1",
        "--texts", "{texts}", "--limit", "50", "--out", "{out}/texts",
    ),
    "cloud": ("cloud", "{cloud}", "--draws", "19"),
    "landscape": (
        "landscape", "{runs}/tiny-3k-seed42", "--steps", "0,160,400", "--jobs", "1",
        "--features", "sharpness,surface", "--resolution", "9", "--out", "{out}/surfaces",
    ),
    "analyze": ("analyze", "{store}"),
    "report": ("report", "{store}", "--out", "{out}/page"),
}  # fmt: skip
STARTS = {
    "python": "pass",
    "import toposcope": "import toposcope",
    "ts.check imports": "import toposcope; toposcope.check",
    "--help": f"import sys; sys.argv = ['toposcope', '--help']; {MAIN}",
}


def processor_seconds(line: list[str], environment: dict[str, str]) -> float:
    """Return the processor time of a Python process and all that it starts."""
    process = subprocess.Popen(
        [sys.executable, *line], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    )
    words = process.stderr.read().decode() if process.stderr is not None else ""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{line[-1]}: {words.strip()}")
    return used.ru_utime + used.ru_stime


def inputs(folder: Path) -> dict[str, str]:
    """Train three small runs, and write texts and a cloud; return where each is."""
    given = {name: str(folder / name) for name in ("runs", "texts", "cloud.npy", "store", "out")}
    given["cloud"] = given.pop("cloud.npy")
    g = np.random.default_rng(0)
    np.save(given["cloud"], g.normal(size=(100, 8)))
    words = [f"word{k}" for k in range(12)]
    rows = (" ".join(g.choice(words, 40)) for _ in range(60))
    Path(given["texts"] + ".txt").write_text("\n".join(rows) + "\n")
    given["texts"] += ".txt"
    models = ("--models", "tiny-3k,small-7k,med-21k", "--jobs", "1")
    subprocess.run(
        [sys.executable, "-c", MAIN, "train", "--recipe", "demo", *models, "--out", given["runs"]],
        check=True, capture_output=True,
    )  # fmt: skip
    subprocess.run(
        [sys.executable, "-c", MAIN, "weights", given["runs"], "--out", given["store"]],
        check=True, capture_output=True,
    )  # fmt: skip
    return given


def main() -> None:
    """Print the table; write it as JSON on request."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default=",".join(COMMANDS), help="commands, separated by commas (all)")
    parser.add_argument("--inputs", type=Path, help="keep the inputs in this folder, and use them if present")
    parser.add_argument("--out", type=Path, help="write the figures as JSON to this file")
    options = parser.parse_args()
    table: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        folder = options.inputs or place / "inputs"
        known = folder / "inputs.json"
        if not known.is_file():
            folder.mkdir(parents=True)
            known.write_text(json.dumps(inputs(folder)))
        given = json.loads(known.read_text()) | {"out": str(place / "out")}
        print("command           cold s   warm s   more")
        for name in options.only.split(","):
            line = ["-c", MAIN, *(part.format(**given) for part in COMMANDS[name])]
            environment = {**os.environ, "NUMBA_CACHE_DIR": str(place / name)}
            table[name] = {}
            for turn in ("cold", "warm"):
                shutil.rmtree(place / "out", ignore_errors=True)
                table[name][turn] = processor_seconds(line, environment)
            cold, warm = table[name].values()
            print(f"{name:16} {cold:7.1f} {warm:8.1f} {cold - warm:6.1f}", flush=True)
        for name, code in STARTS.items():
            least = min(processor_seconds(["-c", code], dict(os.environ)) for _ in range(5))
            table[name] = {"warm": least}
            print(f"{name:16} {'':7} {least:8.2f}", flush=True)
    if options.out is not None:
        options.out.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
