"""Kernels are compiled by one process at a time, and it is said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from toposcope.core import compiling
from toposcope.core.compiling import kernel

SOURCE = """
import time
from toposcope.core import compiling
from toposcope.core.compiling import kernel

compiling._WORTH_SAYING = -1.0

@kernel
def total(values):
    out = 0.0
    for value in values:
        out += value
    return out
"""


def test_processes_that_start_together_compile_once(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(SOURCE)
    code = (
        "import sums, numpy as np; print(sums.total(np.ones(3)), sum(sums.total.stats.cache_misses.values()))"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code], cwd=tmp_path, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for _ in range(3)
    ]  # fmt: skip
    ends = [process.communicate() for process in started]
    assert sorted(out.split()[1] for out, _ in ends) == ["0", "0", "1"], ends
    assert {out.split()[0] for out, _ in ends} == {"3.0"}
    assert sum(compiling.NOTE in err for _, err in ends) == 1


def test_a_kernel_that_fails_to_compile_lets_others_compile() -> None:
    @kernel
    def wrong(x):  # type: ignore[no-untyped-def]
        return x.absent

    with pytest.raises(Exception, match="absent"):
        wrong(1)
    assert not compiling._lock.held
