"""Links of a page that lead out of the folder of pages: to the page of the site with the same text."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

HERE = {
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks.md",
}
"""Files beside the folder of pages, and the page that includes each."""


def _inside(source: str, docname: str) -> str:
    depth = "../" * docname.count("/")
    for outside, page in HERE.items():
        source = re.sub(rf"\]\((?:\.\./)+{re.escape(outside)}(#[^)]*)?\)", rf"]({depth}{page}\1)", source)
    return source


def read_source(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace the addresses of a page's links."""
    source[0] = _inside(source[0], docname)


def read_included(_app: Sphinx, _path: Path, docname: str, source: list[str]) -> None:
    """Do the same in a text that a page includes: it stands one folder higher."""
    text = re.sub(r"\]\((?:\.\./)?docs/", "](", source[0])
    for outside, page in HERE.items():
        text = re.sub(rf"\]\((?:\.\./)?{re.escape(outside)}(#[^)]*)?\)", rf"]({page}\1)", text)
    source[0] = _inside(text, docname)


def setup(app: Sphinx) -> dict[str, object]:
    """Look at every page as it is read."""
    app.connect("source-read", read_source)
    app.connect("include-read", read_included)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
