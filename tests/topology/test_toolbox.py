"""Every public function of topology has a page that says what it is and what it costs."""

import csv
import inspect
import re
from pathlib import Path

import pytest

from benchmarks import toolbox, toolbox_packages
from toposcope import topology

DOCS = Path(__file__).parents[2] / "docs"
FUNCTIONS = sorted(name for name in topology.__all__ if not inspect.isclass(getattr(topology, name)))
WITHOUT_MATHEMATICS = {
    *(name for name in FUNCTIONS if name.startswith(("check_", "from_", "to_"))),
    "common_grid", "magnitude_quantile", "magnitude_variance", "pooled_rows", "rips_memory",
    "stopping_index", "subsample",
}  # fmt: skip
"""What copies, draws, checks or counts: no paper defines it."""


def table(name):
    with (DOCS / "evidence" / f"{name}.csv").open(newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


def test_every_public_name_has_a_page():
    listed = set(re.findall(r"(?m)^   (\w+)$", (DOCS / "api.md").read_text(encoding="utf-8")))
    assert set(topology.__all__) - listed == set()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_shows_an_example(name):
    assert ">>> " in inspect.getdoc(getattr(topology, name))


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - WITHOUT_MATHEMATICS))
def test_a_function_says_its_unit_and_its_source(name):
    text = inspect.getdoc(getattr(topology, name))
    assert re.search(r"\b[Uu]nits?\b|nats", text), "the unit"
    assert re.search(r"\b(19|20)\d\d\b", text), "the year of the source"


def test_every_function_has_a_measured_cost():
    rows = {row["function"]: row for row in table("toolbox-costs")}
    assert sorted(rows) == FUNCTIONS == sorted(case.name for case in toolbox.CASES)
    for row in rows.values():
        assert 0 < float(row["seconds, small"]) < 10
        assert 0 < float(row["seconds, large"]) < 10


def test_a_cost_is_measured_as_its_row_says():
    case = next(case for case in toolbox.CASES if case.name == "betti_curve")
    row = toolbox.row(case, small=4)
    assert tuple(row) == toolbox.COLUMNS
    assert (row["small"], row["large"]) == ("4", "16")


def test_what_the_table_says_that_we_do_works():
    ours = {row["what"]: row["toposcope"] for row in table("toolbox-packages")}
    tried = {
        what: toolbox_packages.answer(calls[-1], "toposcope")
        for what, calls in toolbox_packages.CAPABILITIES.items()
    }
    assert tried == ours


def test_what_the_table_says_that_gudhi_and_ripser_do_works():
    for package, module, place in (("gudhi", "gudhi", 0), ("ripser.py", "ripser", 1)):
        said = {
            row["what"]: value
            for row in table("toolbox-packages")
            for heading, value in row.items()
            if heading.startswith(package)
        }
        for what, calls in toolbox_packages.CAPABILITIES.items():
            assert toolbox_packages.answer(calls[place], module) == said[what], (package, what)
