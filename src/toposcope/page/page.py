"""Write a page: one self-contained HTML file, its Markdown twin, and every figure and table as a file."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from toposcope.core.aside import OLD, beside
from toposcope.core.drawing.rendering import TracedCurve
from toposcope.core.errors import InputError
from toposcope.core.legible import legible, shown
from toposcope.core.report_folder import MARK, PAGE, is_report
from toposcope.core.tabular import escape_markdown
from toposcope.page._cited import cited
from toposcope.page.glossary import FirstUses, anchor, defined
from toposcope.page.parts import Page
from toposcope.study.findings.summary import KINDS, WORDS

TWIN = "report.md"


_IN_A_URL = {"%": "%25", "#": "%23", '"': "'", "&": "&amp;", "\n": "%20", " ": "%20"}
"""What characters of an SVG become in a data URL in an attribute; a blank would end a `srcset` address."""


def write_page(page: Page, out: Path) -> Path:
    """Write `page` into the folder `out`, whole or not at all, and return the path of its HTML file.

    Raises
    ------
    InputError
        When `out` holds something that is not a report.
    """
    check_target(out)
    _replace(out, lambda folder: _write_files(folder, page))
    return out / PAGE


def check_target(out: Path) -> None:
    """Refuse a target that is neither free nor a report.

    Raises
    ------
    InputError
        When `out` is a file, or a folder with something else in it.
    """
    if out.is_dir():
        if not any(out.iterdir()) or is_report(out):
            return
        raise InputError(
            "the folder contains files that are not a report",
            argument="out",
            value=out,
            remedy="choose a new or empty folder",
        )
    if out.exists():
        raise InputError("this is a file", argument="out", value=out, remedy="choose a new or empty folder")


def _write_files(folder: Path, page: Page) -> None:
    figures, csvs = folder / "figures", folder / "tables"
    figures.mkdir()
    csvs.mkdir()
    for part in page.parts:
        for picture in (*part.pictures, *filter(None, [part.opening])):
            (figures / f"{picture.name}.svg").write_bytes(picture.svg)
            (figures / f"{picture.name}.png").write_bytes(picture.png)
        for table in part.tables.values():
            table.csv(csvs / f"{table.name}.csv")
    context = {"page": page, "mark": MARK, "one": len(page.parts) == 1}
    (folder / TWIN).write_text(_markdown().get_template("report.md").render(context), encoding="utf-8")
    context |= {"mark_words": FirstUses()}
    (folder / PAGE).write_text(_html().get_template("page.html").render(context), encoding="utf-8")


def _replace(out: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a folder beside `out`, then replace `out` by it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with beside(out) as aside:
        old = aside.with_suffix(OLD)
        aside.mkdir()
        try:
            write(aside)
            if out.exists():
                os.replace(out, old)
            os.replace(aside, out)
        finally:
            if old.exists() and not out.exists():
                os.replace(old, out)
            shutil.rmtree(old, ignore_errors=True)


def _html() -> Environment:
    environment = Environment(
        loader=PackageLoader("toposcope.page"),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "data_url": data_url,
        "anchor": anchor,
        "kind": KINDS.__getitem__,
        "word": WORDS.__getitem__,
    }
    environment.filters |= {"defined": defined, "cited": cited, "curves": _curves}
    return environment


def _curves(curves: Iterable[TracedCurve]) -> Markup:
    """Return curves as JSON in a page: names and colours, and each curve's points as one flat list."""
    curve_data = [
        [curve.name, curve.colour, [number for point in curve.points for number in point]] for curve in curves
    ]
    return htmlsafe_json_dumps(curve_data, separators=(",", ":"))


def _markdown() -> Environment:
    environment = Environment(
        loader=PackageLoader("toposcope.page"),
        autoescape=False,  # Markdown: every value goes through escape_markdown instead
        finalize=_escaped,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"defined": defined, "cited": cited, "word": WORDS.__getitem__}
    return environment


def data_url(svg: bytes) -> Markup:
    """Return an SVG as a data URL that may stand in an attribute between double quotes.

    Text takes three fifths of the space of base64. An SVG with both kinds of quotes becomes base64.

    >>> data_url(b'<svg id="a"/>')
    Markup("data:image/svg+xml;charset=utf-8,<svg%20id='a'/>")
    """
    if b"'" in svg:
        return Markup("data:image/svg+xml;base64," + base64.b64encode(svg).decode())
    text = svg.decode()
    for sign, code in _IN_A_URL.items():
        text = text.replace(sign, code)
    return Markup(f"data:image/svg+xml;charset=utf-8,{text}")


def _escaped(value: object) -> object:
    return escape_markdown(legible(value)) if isinstance(value, str) else value
