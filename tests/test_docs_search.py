"""The site's search: what people type finds the page that answers it, and no page of records."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sphinx")

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "_ext"))

import searched  # noqa: E402

FIRST = {
    "trust forecast": "trust",
    "how many seeds": "how-many-seeds",
    "exit code": "automation",
    "LoRA broken": "fine-tune",
    "topology negative": "topology",
    "loss spike": "spike",
    "nan loss": "spike",
    "resume training": "resume",
    "install": "start",
    "which number": "which-number",
}
"""Ten queries, and the page that must come first."""
AMONG = {
    "can I trust the forecast": "trust",
    "how many seeds do I need": "how-many-seeds",
    "adapter broken": "fine-tune",
    "exit codes in CI": "automation",
    "is topology negative": "topology",
    "gudhi": "toolbox",
    "false alarm": "error-rates",
    "when should I stop": "trust",
}
"""The same in other words: the page must be among the first five."""


def test_the_words_belong_to_pages_and_each_phrase_to_one() -> None:
    pages = {page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")}
    assert set(searched.TYPED) <= pages
    assert pages >= searched.RECORDS
    assert not searched.RECORDS & set(searched.TYPED)
    phrases = [phrase.lower() for typed in searched.TYPED.values() for phrase in typed]
    assert len(phrases) == len(set(phrases))


def test_a_small_site_has_the_words_and_leaves_records_out(tmp_path: Path) -> None:
    for name in ("index", "changes", "trust"):
        (tmp_path / f"{name}.md").write_text(f"# The page {name}\n\nA sentence.\n")
    (tmp_path / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {str(DOCS / '_ext')!r})\n"
        "extensions = ['myst_parser', 'searched']\nsuppress_warnings = ['toc.not_included']\n"
    )
    made = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-b", "html", str(tmp_path), str(tmp_path / "built")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    index = _index(tmp_path / "built")
    place = index["docnames"].index("trust")
    assert index["terms"]["sentenc"] == [index["docnames"].index("index"), place]  # not the page of changes
    assert index["indexentries"]["trust forecast"] == [[place, "", True]]
    assert index["terms"]["forecast"] == place


def test_the_site_is_written_whole() -> None:
    """Sphinx 9.0 keeps a page's index entries only in the build that writes the page."""
    assert "sphinx --fail-on-warning --nitpicky --write-all" in (ROOT / "Makefile").read_text(
        encoding="utf-8"
    )


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="no node, which runs the site's own search")
def test_what_people_type_finds_the_page_that_answers_it(tmp_path: Path) -> None:
    """On the site as `make docs` builds it, without the gallery's pictures."""
    left_out = shutil.ignore_patterns("auto_gallery", "generated", "__pycache__")
    shutil.copytree(DOCS, tmp_path / "docs", ignore=left_out)
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "src", "benchmarks", "README.md"):
        (tmp_path / name).symlink_to(ROOT / name)
    built = tmp_path / "built"
    made = subprocess.run(
        [
            sys.executable, "-m", "sphinx", "-q", "-D", "plot_gallery=0", "-b", "html",
            str(tmp_path / "docs"), str(built),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    answered = subprocess.run(
        ["node", str(Path(__file__).with_name("search.mjs")), str(built), *FIRST, *AMONG],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    pages = json.loads(answered.stdout)
    assert {query: pages[query][:1] for query in FIRST} == {query: [page] for query, page in FIRST.items()}
    assert {query: pages[query] for query, page in AMONG.items() if page not in pages[query][:5]} == {}
    assert not searched.RECORDS & {page for found in pages.values() for page in found}


def _index(site: Path) -> dict[str, object]:
    text = (site / "searchindex.js").read_text(encoding="utf-8")
    return json.loads(text[text.index("(") + 1 : text.rindex(")")])
