"""A feature is declared once: its name, and its probe's, are text nowhere but where they are declared."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import toposcope
from tests.syntax import parsed
from toposcope.store.schema import TABLES
from toposcope.subjects.catalogue import declared_features

ROOT = Path(toposcope.__file__).parent
DECLARING = ("subjects/", "topology/")
"""The rooms that declare and compute features: what a number is called where it is made."""
DRAWING = ("/page/", "/figures/", "/tables/", "/findings/")
"""The folders of a subject that draw and judge what was measured: they import what they name."""
PAPERS = ("studies/", "published/")
"""A paper names what it measured in words of its own: its presets and its published series are data."""
LOGGED = {*TABLES["metrics"].names, *TABLES["runs"].names}
"""What a training log calls its columns, such as weight_norm: measured by no probe."""
NAMES = {feature.name for features in declared_features().values() for feature in features} | set(
    declared_features()
)
WORDS = {name for name in NAMES if name.isalpha()}
"""Names that are words of English, too: `range`, `minima`, `surface`. They count beside feature or probe."""
OTHER_MEANINGS: dict[tuple[str, str], str] = {}
"""Text that is a declared name by its letters and something else by its meaning, with the reason."""


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        drawing = any(folder in name for folder in DRAWING)
        if drawing or not name.startswith((*DECLARING, *PAPERS)):
            yield name, parsed(path)


def _texts(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the text constants of a module that are no docstrings."""
    spoken = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in spoken:
            yield node


def _chosen_by(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the texts that rows are chosen by: compared with a column feature or probe, or given as one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            keys = {side.slice.value for side in sides if _is_column(side)}
            if keys & {"feature", "probe"}:
                yield from (one for side in sides for one in _texts(side) if not _is_column(side))
        elif isinstance(node, ast.Call):
            yield from (
                one
                for word in node.keywords
                if word.arg in ("feature", "probe")
                for one in _texts(word.value)
            )


def _is_column(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)


def _found(name: str, tree: ast.Module) -> list[str]:
    spelt = [
        (one.lineno, one.value)
        for one in _texts(tree)
        if {*one.value.strip("/").split("/")} & (NAMES - WORDS - LOGGED)
    ]
    spelt += [(one.lineno, one.value) for one in _chosen_by(tree) if one.value in WORDS]
    return [f"{name}:{line}: {text!r}" for line, text in spelt if (name, text) not in OTHER_MEANINGS]


def test_no_module_spells_the_name_of_a_feature_that_it_does_not_declare() -> None:
    found = [line for name, tree in _modules() for line in _found(name, tree)]
    assert not found, "import the Feature, or choose by what it declares: " + "; ".join(found)


@pytest.mark.parametrize(
    "source",
    [
        'H0 = "rips/euclidean/pooled/h0_total"',
        'rows = features[features["feature"] == "h0_total"]',
        'rows = features[(features["probe"] == "surface") & (features["feature"] == f(x))]',
        'rows = store.diagrams(probe="rips")',
        'PANELS = (("H1 total", "h1_total"),)',
    ],
)
def test_a_name_that_is_spelt_is_found(source: str) -> None:
    assert _found("figures/mine.py", ast.parse(source))


@pytest.mark.parametrize(
    "source",
    [
        '"""Used: probe "rips", feature "h0_total"."""',
        'table = losses["weight_norm"]',
        'title = "minima"',
        'rows = features[features["feature"] == H0_TOTAL.name]',
    ],
)
def test_words_and_what_a_log_calls_its_columns_are_no_names(source: str) -> None:
    assert not _found("figures/mine.py", ast.parse(source))


def test_every_exception_is_still_there() -> None:
    spelt = {(name, one.value) for name, tree in _modules() for one in _texts(tree)}
    assert {*OTHER_MEANINGS} <= spelt
