"""Damage good and hostile checkpoints at random and read them: one clear error or data, nothing else.

    python benchmarks/mutants.py --count 10000

Every batch runs in a separate process with limits on memory and time, so that a crash, a hang or an
allocation out of proportion is counted and does not end the run. Prints a table and a JSON line.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
BATCH = 500
SECONDS_PER_FILE = 5.0
MEMORY = 6 * 2**30


def _hostile():
    spec = importlib.util.spec_from_file_location("hostile", ROOT / "tests" / "sources" / "hostile.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["hostile"] = module
    spec.loader.exec_module(module)
    return module


def _read(path: Path) -> str:
    from toposcope.core.errors import SourceError
    from toposcope.sources import open_series

    try:
        series = open_series(path)
        for checkpoint in series:
            for _, values in series.tensors(checkpoint):
                assert isinstance(values, np.ndarray)
            list(series.matrices(checkpoint))
    except SourceError as error:
        return "refused" if "\n" not in str(error) and len(str(error)) < 600 else "unclear"
    return "read"


def batch(first: int, count: int) -> Counter[str]:
    """Read the mutants `first` to `first + count`; return how each kind of file ended."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    hostile = _hostile()
    files = list(hostile.good_files().items()) + list(hostile.hostile_files().items())
    ends: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            name, data = files[seed % len(files)]
            path = Path(folder) / name
            path.write_bytes(hostile.mutate(data, np.random.default_rng(seed)))
            start = time.process_time()
            try:
                end = _read(path)
            except BaseException as error:  # whatever it is, it is what this run looks for
                end = f"escaped {type(error).__name__}"
                print(f"seed {seed} ({name}): {error!r:.200}", file=sys.stderr)
            seconds = time.process_time() - start
            if seconds > SECONDS_PER_FILE:
                end = "slow"
                print(f"seed {seed} ({name}): {seconds:.1f} s of processor time", file=sys.stderr)
            ends[f"{name} {end}"] += 1
            path.unlink()
    return ends


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--batch", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.batch:
        print(json.dumps(batch(options.first, options.count)))
        return 0
    total: Counter[str] = Counter()
    for first in range(options.first, options.first + options.count, BATCH):
        count = min(BATCH, options.first + options.count - first)
        command = [sys.executable, __file__, "--batch", "--first", str(first), "--count", str(count)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=BATCH * SECONDS_PER_FILE)
        total += (
            Counter(json.loads(done.stdout))
            if done.returncode == 0
            else Counter({f"batch died {done.returncode}": count})
        )
    for end, count in sorted(total.items()):
        print(f"{count:7d}  {end}")
    bad = sum(count for end, count in total.items() if not end.endswith((" read", " refused")))
    print(json.dumps({"mutants": sum(total.values()), "bad": bad}))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
