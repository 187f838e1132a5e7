"""Write the report: one self-contained HTML page, its Markdown twin, and every figure and table as a file."""

from __future__ import annotations

import base64
import os
import shutil
import uuid
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

import toposcope
from toposcope.errors import InputError
from toposcope.report.pictures import Picture, pictures
from toposcope.report.study import Study, gather
from toposcope.report.tables import Table, failures, findings, provenance, size_labels, tables
from toposcope.report.words import answer
from toposcope.store import Store

PAGE = "index.html"
TWIN = "report.md"
_MARK = "<!-- toposcope report -->"
_LIBRARIES = ("numpy", "scipy", "pandas", "matplotlib")


def write_report(
    store: Store | str | Path, out: str | Path, *, title: str = "The topology of these training runs"
) -> Path:
    """Analyse `store`, write its report into the folder `out` and return the path of the page.

    The folder appears whole or not at all: it is written aside and renamed. It holds `index.html`
    (self-contained), `report.md`, `figures/NAME.png`, `figures/NAME.svg` and `tables/NAME.csv`. A report
    that is there already is replaced; a folder that holds anything else is left alone.

    Raises
    ------
    InputError
        When the store has nothing measured, or `out` holds something that is not a report.
    """
    out = Path(out)
    check_target(out)
    store = store if isinstance(store, Store) else Store.open(store)
    return write_study(gather(store), out, title=title)


def write_study(study: Study, out: str | Path, *, title: str) -> Path:
    """Write the report of a study that is already analysed; see `write_report`."""
    out = Path(out)
    check_target(out)
    context = {
        "title": title,
        "answer": answer(study),
        "sizes": size_labels(study),
        "pictures": list(pictures(study)),
        "tables": tables(study),
        "failures": failures(study),
        "findings": findings(study),
        "audited": bool(len(study.audit)),
        "provenance": (*provenance(study), *_versions()),
        "mark": _MARK,
    }
    _replace(out, lambda folder: _write_files(folder, context))
    return out / PAGE


def check_target(out: Path) -> None:
    """Refuse a target that is not free and not a report.

    Raises
    ------
    InputError
        When `out` is a file, or a folder with something else in it.
    """
    if out.is_dir():
        page = out / PAGE
        if not any(out.iterdir()) or (
            page.is_file() and _MARK in page.read_text(encoding="utf-8", errors="replace")
        ):
            return
        raise InputError(f"--out {out} holds files that are not a report; choose a new or empty folder")
    if out.exists():
        raise InputError(f"--out {out} is a file; choose a new or empty folder")


def _write_files(folder: Path, context: dict) -> None:
    figures, csvs = folder / "figures", folder / "tables"
    figures.mkdir()
    csvs.mkdir()
    for picture in context["pictures"]:
        (figures / f"{picture.name}.svg").write_bytes(picture.svg)
        (figures / f"{picture.name}.png").write_bytes(picture.png)
    for table in context["tables"].values():
        table.frame.to_csv(csvs / f"{table.name}.csv", index=False)
    (folder / TWIN).write_text(_markdown().get_template("report.md").render(context), encoding="utf-8")
    (folder / PAGE).write_text(_html().get_template("page.html").render(context), encoding="utf-8")


def _replace(out: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a folder beside `out`, then put it in the place of `out`."""
    out.parent.mkdir(parents=True, exist_ok=True)
    tag = uuid.uuid4().hex[:8]
    aside, old = out.parent / f".{out.name}.{tag}.partial", out.parent / f".{out.name}.{tag}.old"
    aside.mkdir()
    try:
        write(aside)
        if out.exists():
            os.replace(out, old)
        os.replace(aside, out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        if old.exists() and not out.exists():
            os.replace(old, out)
        shutil.rmtree(old, ignore_errors=True)


def _html() -> Environment:
    environment = Environment(
        loader=PackageLoader("toposcope.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["data_url"] = data_url
    return environment


def _markdown() -> Environment:
    return Environment(
        loader=PackageLoader("toposcope.report"),
        autoescape=False,  # Markdown: every value goes through escape_markdown instead
        finalize=escape_markdown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def data_url(picture: Picture) -> str:
    """Return the picture's SVG as a data URL."""
    return "data:image/svg+xml;base64," + base64.b64encode(picture.svg).decode()


def escape_markdown(value: object) -> object:
    r"""Return text with what Markdown or HTML would read as markup taken literally.

    >>> print(escape_markdown("a|b <i> *c*"))
    a\|b &lt;i> \*c\*
    """
    if not isinstance(value, str):
        return value
    text = " ".join(value.split()).replace("&", "&amp;").replace("<", "&lt;")
    for sign in ("\\", "|", "*", "`", "[", "]"):
        text = text.replace(sign, "\\" + sign)
    return text


def _versions() -> list[tuple[str, str]]:
    lines = [("report written by", f"toposcope {toposcope.__version__}")]
    for name in _LIBRARIES:
        try:
            lines.append((f"report written with {name}", version(name)))
        except PackageNotFoundError:
            continue
    return lines


__all__ = [
    "PAGE",
    "TWIN",
    "Table",
    "check_target",
    "data_url",
    "escape_markdown",
    "write_report",
    "write_study",
]
