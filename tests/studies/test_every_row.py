"""Every table of the sources has its page and its judgement, and all of its rows are counted."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from toposcope.studies.claims import Standing
from toposcope.studies.seed003.report import printed as report
from toposcope.studies.seed004.runs import printed as paper

TABLES = Path(__file__).parents[2] / "docs" / "evidence" / "studies-every-table.csv"
HELD = {
    "1": "models",
    "2": "h0",
    "3": "np",
    "4": "h1",
    "5": "forecast",
    "6": "phases",
    "7": "scaling",
    "8": "pythia",
}


def _lines() -> dict[str, list[str]]:
    """Return the cells of each line of the table of tables, by the first."""
    with TABLES.open(newline="", encoding="utf-8") as handle:
        return {line[0]: line[1:] for line in list(csv.reader(handle))[1:]}


def test_every_table_of_the_paper_is_there_with_all_its_rows() -> None:
    numbers = {}
    for place, cells in _lines().items():
        if found := re.search(r"Table (\d)", place):
            numbers[found.group(1)] = int(cells[0])
    assert set(numbers) == {*HELD, "9"}
    for number, name in HELD.items():
        held = paper()[name]
        assert numbers[number] == len(held.get("rows", held) if isinstance(held, dict) else held), number


def test_every_entry_of_the_reports_trajectories_is_counted() -> None:
    lines = _lines()
    trajectories = report()["trajectory"]
    rows = sum(len(of_model) for of_model in trajectories.values())
    entries = sum(len(row) - 1 for of_model in trajectories.values() for row in of_model)
    cells = lines["embedding report, three trajectories"]
    assert int(cells[0]) == rows
    assert f"of {entries} entries" in cells[1]
    assert int(lines["its correlations"][0]) == len(report()["mean_correlation"])


def test_every_line_ends_in_a_judgement_or_a_page() -> None:
    words = [one.value for one in Standing]
    words += ["only as drift", "cannot be tested", "as above", "holds", "each page"]
    for place, cells in _lines().items():
        assert any(word in cells[-1] for word in words) or ".md" in cells[-1], place
