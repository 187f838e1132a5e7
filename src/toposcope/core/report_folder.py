"""The folder that `toposcope report` writes: how it is recognised, and what is said where it is no input."""

from __future__ import annotations

from pathlib import Path

PAGE = "index.html"
MARK = "<!-- toposcope report -->"
"""A line near the top of every page."""


def is_report(folder: Path) -> bool:
    """Return whether a folder holds a written report."""
    page = folder / PAGE
    return page.is_file() and MARK in page.read_text(encoding="utf-8", errors="replace")


def not_an_input(folder: Path) -> str:
    """Say that a folder is a report, and what to do with it."""
    return (
        f"{folder} is a written report; open {folder / PAGE}, or name the store or the log that it was "
        "written from"
    )
