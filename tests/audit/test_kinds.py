"""The page on the audit has every kind of finding, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import toposcope
from toposcope.core.observations import REMARKS

SOURCE = Path(toposcope.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
MAKERS = {"_finding": 1, "_Failed": 0, "_with_cause": 1}
"""The functions that make a finding, and at which place they take its kind."""


def texts(node: ast.AST) -> Iterator[str]:
    """The texts that an expression may be: both sides of a condition."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from (*texts(node.body), *texts(node.orelse))
    elif isinstance(node, ast.Tuple) and node.elts:
        yield from texts(node.elts[0])  # fault, what = ("zero-tensor", "is zero throughout") if ... else ...


def kinds_in(tree: ast.Module) -> Iterator[str]:
    """The kinds of findings that a module makes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            made = node.func.id if isinstance(node.func, ast.Name) else ""
            at = MAKERS.get(made)
            yield from texts(node.args[at]) if at is not None and len(node.args) > at else ()
            yield from (one for word in node.keywords if word.arg == "fault" for one in texts(word.value))
        elif isinstance(node, ast.Assign):
            names = {
                one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name)
            }
            if names & {"fault", "kind", "WITHOUT_DATA", "NOT_IN_INDEX", "NOT_LOOKED_AT"}:
                yield from texts(node.value)


def test_the_tables_of_the_page_have_every_kind_of_finding_of_the_audit() -> None:
    files = [
        *(SOURCE / "sources").glob("*.py"), SOURCE / "core" / "observations.py",
        SOURCE / "files" / "formats" / "reader.py",
    ]  # fmt: skip
    made = {kind for file in files for kind in kinds_in(ast.parse(file.read_text(encoding="utf-8")))}
    part = PAGE.read_text(encoding="utf-8").partition("## The audit")[2].partition("\n## ")[0]
    faults, remarks = part.split("| remark | meaning |")
    named = [
        {
            kind
            for line in lines.splitlines()
            if line.startswith("| `")
            for kind in re.findall("`([a-z-]+)`", line.split("|")[1])
        }
        for lines in (faults, remarks)
    ]
    assert {
        "unreadable",
        "identical",
        "replaced-rows",
        "zero-tensor",
        "unusual-change",
        "tensor-without-data",
    } <= made
    assert named[0] | named[1] == made
    assert named[1] == REMARKS
