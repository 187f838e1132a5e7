"""The lowest versions that the package declares: `python tests/test_lowest.py` prints them for pip."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def lowest() -> list[str]:
    """Return every core requirement with its least version as the only one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [re.sub(r">=([\d.]+)$", r"==\1", one) for one in project["dependencies"]]


def test_every_core_requirement_has_one_lowest_version() -> None:
    assert [one for one in lowest() if not re.fullmatch(r"[\w-]+(\[\w+\])?==\d+(\.\d+)*", one)] == []


def test_the_names_that_click_must_have_are_there() -> None:
    import click

    assert issubclass(click.exceptions.NoArgsIsHelpError, click.UsageError)  # since 8.2


if __name__ == "__main__":
    print("\n".join(lowest()))
