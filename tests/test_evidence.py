"""The evidence as tables: each file is described and read whole, and each link of a page leads somewhere."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EVIDENCE = ROOT / "docs" / "evidence"
FILES = sorted(path.name for path in EVIDENCE.glob("*.csv") if path.name != "tables.csv")
PAGES = [
    ROOT / "benchmarks" / "README.md",
    *sorted(
        path for path in (ROOT / "docs").rglob("*.md") if not {"generated", "auto_gallery"} & set(path.parts)
    ),
]


def _rows(name: str) -> list[list[str]]:
    with (EVIDENCE / name).open(newline="", encoding="utf-8") as handle:
        return list(csv.reader(handle))


def _anchors(page: Path) -> set[str]:
    """Return the headings of a page as the site spells them."""
    text = page.read_text(encoding="utf-8")
    if included := re.match(r"```\{include\} (\S+)", text):
        return _anchors(page.parent / included[1])
    text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    headings = re.findall(r"(?m)^#+ (.+)$", text)
    spelled = {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
    return spelled | {re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-") for heading in headings}


def test_the_dictionary_describes_every_file_once() -> None:
    heading, *described = _rows("tables.csv")
    assert heading == ["file", "a row is", "columns and units", "command", "date", "machine"]
    assert [row[0] for row in described] == FILES
    assert all(all(row) for row in described)


@pytest.mark.parametrize("name", FILES)
def test_a_table_has_a_heading_and_rows_of_one_length(name: str) -> None:
    heading, *rows = _rows(name)
    assert rows
    assert all(heading)
    assert {len(row) for row in rows} == {len(heading)}


def test_every_table_is_quoted_by_a_page() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [name for name in FILES if f"evidence/{name})" not in text and f"({name})" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_of_a_page_lead_to_a_file_and_a_heading(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    text = re.sub(r"`[^`]*`", "", text)
    missing = []
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", text):
        if "://" in target or "auto_gallery" in target or "generated/" in target:
            continue
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in _anchors(file)):
            missing.append(f"{target}#{anchor}")
    assert missing == []
