"""Kernels are compiled by one process at a time, and it is said."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.syntax import parsed
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


def _decorated(node: ast.FunctionDef) -> set[str]:
    """Return the names of a function's decorators."""
    made = (one.func if isinstance(one, ast.Call) else one for one in node.decorator_list)
    return {one.id for one in made if isinstance(one, ast.Name)}


def test_no_python_calls_a_kernel_that_only_kernels_may_call() -> None:
    """Without the wrapper for Python such a call ends the process."""
    root = Path(compiling.__file__).resolve().parents[3]
    paths = [path for top in ("src", "benchmarks", "tests") for path in sorted((root / top).rglob("*.py"))]
    functions = {
        path: [node for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef)]
        for path in paths
        if "kernel" in path.read_text()
    }
    inner = {
        (path.stem, node.name) for path, nodes in functions.items() for node in nodes
        if "inner_kernel" in _decorated(node)
    }  # fmt: skip
    assert len(inner) > 20
    a_name = re.compile(rf"\b({'|'.join(name for _, name in inner)})\b")
    trees = {path: parsed(path) for path in paths if a_name.search(path.read_text())}
    wrong = []
    for path, tree in trees.items():
        known = {name for module, name in inner if module == path.stem}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                module = node.module.rsplit(".", 1)[-1]
                known |= {one.asname or one.name for one in node.names if (module, one.name) in inner}
        compiled = [node for node in functions.get(path, ()) if _decorated(node) & {"kernel", "inner_kernel"}]
        inside = {id(one) for node in compiled for one in ast.walk(node)}
        wrong += [
            f"{path.relative_to(root)}:{node.lineno} {node.func.id}" for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in known
            and id(node) not in inside
        ]  # fmt: skip
    assert wrong == []
