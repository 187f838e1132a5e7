"""Benchmark every kernel beside its peers and its physical floor.

    python -m benchmarks.kernels [--quick] [--only spanning] [--out build/benchmarks/kernels]

Each case runs in a separate process, alternately with its floor (one pass over the matrix, one product
of the cloud), so the ratios hold on a noisy machine. Writes results.json, table.md and a figure of cost
against size on log-log axes.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from benchmarks.kernels.harness import Case, measure
from benchmarks.kernels.results import draw, table

ROOMS = ("spanning", "rips", "distances", "vectors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small inputs and few repeats")
    parser.add_argument("--only", choices=ROOMS, action="append", help="rooms to run (all)")
    parser.add_argument("--match", default="", help="only cases whose group and method contain this")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks/kernels"))
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one case")
    parser.add_argument("--case", nargs=2, metavar=("ROOM", "INDEX"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        room, index = options.case
        print(json.dumps(measure(_cases(room, options.quick)[int(index)], quick=options.quick)))
        return
    rows = []
    for room in options.only or [room for room in ROOMS if _exists(room)]:
        for index, case in enumerate(_cases(room, options.quick)):
            if options.match in f"{case.group} {case.method}":
                rows.append(_in_a_process(room, index, case, options.quick, options.timeout))
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    document = {"machine": _machine(), "rows": rows}
    (options.out / "results.json").write_text(json.dumps(document, indent=1) + "\n")
    text = table(rows)
    (options.out / "table.md").write_text(text)
    draw(rows, options.out)
    print(text)


def _exists(room: str) -> bool:
    return importlib.util.find_spec(f"benchmarks.kernels.{room}") is not None


def _cases(room: str, quick: bool) -> list[Case]:
    return importlib.import_module(f"benchmarks.kernels.{room}").cases(quick)


def _in_a_process(room: str, index: int, case: Case, quick: bool, timeout: float) -> dict[str, object]:
    """Measure one case in a fresh interpreter; a failure or timeout is a row with its reason."""
    command = [sys.executable, "-m", "benchmarks.kernels", "--case", room, str(index)]
    failed = {"group": case.group, "label": case.label, "size": case.size, "method": case.method}
    try:
        done = subprocess.run(
            [*command, *(["--quick"] if quick else [])],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {**failed, "reason": f"stopped after {timeout:.0f} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return {**failed, "reason": lines[-1] if lines else f"exit code {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def _machine() -> dict[str, object]:
    import numba
    import numpy
    import scipy

    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
    }


if __name__ == "__main__":
    main()
