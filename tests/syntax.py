"""The syntax of the sources, parsed once for all the tests of a worker that read it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """Return the tree of a file; no test changes it."""
    return ast.parse(path.read_text(encoding="utf-8"))
