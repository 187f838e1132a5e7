"""The site: every page is in a menu, what a page shows runs, and the build reads nothing from a network."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from toposcope.core.drawing import style

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
QUESTIONS = ["start", "spike", "checkpoint", "fine-tune", "seeds", "phase-change", "automation"]
METHODS = sorted(page.stem for page in (DOCS / "methods").glob("*.md") if page.stem != "index")
SCRIPTS = sorted((DOCS / "gallery").glob("plot_*.py"))
QUICK = {"plot_01_check_a_log", "plot_15_store_to_pandas"}
"""Scripts of the gallery that every run of the tests executes; the build executes all."""
GENERATED = {"auto_gallery/index"}
SAID = {
    "start": ("answer", "all right: train.log at step 400 of 1,000 (loss 2.259) may end between 2.06"),
    "spike": ("spiked", "loss spike at step 240"),
    "checkpoint": ("found", "step 300: non-finite"),
    "fine-tune": ("difference", "1 of 3 matrices differ"),
    "seeds": ("answer", "not like its 5 siblings"),
    "how-many-seeds": ("chance", "{2: 0.22, 3: 0.46, 4: 0.66, 5: 0.79, 10: 0.99, 20: 1.0}"),
    "one-run": ("decision", "faster is better than base"),
    "automation": ("answer", "all right"),
}
"""What a page's last block prints: the name that holds it, and words of it."""


def pages() -> set[str]:
    """Return the names of all pages, as a menu spells them."""
    found = {page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")}
    return {page for page in found if not page.startswith(("generated/", "auto_gallery/", "_"))}


def entries(page: str) -> list[str]:
    """Return what the menus of a page hold; a pattern stands for the pages that it matches."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    lines = "\n".join(re.findall(r"```\{toctree\}\n(.*?)```", text, re.S)).splitlines()
    folder = f"{Path(page).parent.as_posix()}/".removeprefix("./")
    names = [re.sub(r".*<(.+)>$", r"\1", line) for line in lines if line and not line.startswith(":")]
    found: list[str] = []
    for name in names:
        some = sorted(one for one in pages() if Path(one).match(name)) if "*" in name else [folder + name]
        found += [one for one in some if one not in found]
    return found


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)


def test_every_page_is_in_one_menu_and_every_entry_is_a_page() -> None:
    listed = entries("index") + entries("methods/index")
    assert set(listed) - GENERATED <= pages()
    assert pages() - {"index"} == set(listed) - GENERATED
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("page", sorted(pages()))
def test_every_row_of_a_table_belongs_to_a_table(page: str) -> None:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    outside_code = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    starts = re.findall(r"(?:^|\n\n)(\|.*)\n(.*)", outside_code)
    assert [row for row, below in starts if not re.fullmatch(r"\|[-:| ]+\|", below)] == []


INCLUDED = {"benchmarks", "changes", "contributing"}
"""Pages that show a file of the source."""
DRAWN = {path.stem.replace("_", "-"): path for path in sorted((DOCS / "pictures").glob("*.py"))}
"""The picture of each question, by its page."""


@pytest.mark.parametrize("page", sorted(pages() - INCLUDED))
def test_a_page_begins_with_its_answer(page: str) -> None:
    lines = (DOCS / f"{page}.md").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    assert lines[2].startswith("> **")


@pytest.mark.parametrize("page", DRAWN)
def test_the_picture_of_a_question_stands_between_the_answer_and_the_code(page: str) -> None:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    drawn = f".. plot:: pictures/{DRAWN[page].name}\n   :alt: "
    assert text.count(".. plot::") == text.count(drawn) == 1
    assert text.split("```")[1].strip().endswith(text[text.index(drawn) :].split("\n```")[0])


@pytest.mark.parametrize("name", METHODS)
def test_a_method_says_its_picture_cost_pitfalls_formula_and_source(name: str) -> None:
    text = (DOCS / "methods" / f"{name}.md").read_text(encoding="utf-8")
    places = [
        text.index(part)
        for part in (".. plot::", "**Cost.**", "**Pitfalls.**", "**Formula.**", "**Source.**")
    ]
    assert places == sorted(places)
    assert ":alt: " in text
    drawn = re.search(r"\.\. plot:: (\S+)", text)
    assert drawn is not None
    assert (DOCS / drawn[1]).is_file()


def test_every_picture_of_a_method_is_shown() -> None:
    drawn = {path.stem for path in (DOCS / "methods" / "pictures").glob("*.py")}
    assert drawn == {name.replace("-", "_") for name in METHODS}
    assert set(DRAWN) <= pages()


def test_every_benchmark_that_a_page_names_is_there() -> None:
    named = {
        (page.name, name)
        for page in DOCS.rglob("*.md")
        for name in re.findall(r"python (?:-m )?benchmarks[./](\w+)", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 40
    places = (ROOT / "benchmarks").iterdir()
    there = {path.stem for path in places}
    assert [one for one in named if one[1] not in there] == []


def test_the_build_needs_no_network() -> None:
    tree = ast.parse((DOCS / "conf.py").read_text(encoding="utf-8"))
    given = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert not [
        text for text in given if "intersphinx" in text or "://" in text or text == "sphinx.ext.mathjax"
    ]
    styles = "".join(path.read_text(encoding="utf-8") for path in (DOCS / "_static").iterdir())
    assert "http" not in styles
    assert "@import" not in styles


def test_the_gallery_says_of_the_odd_seed_what_its_output_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = (DOCS / "gallery" / "plot_08_which_seed_is_odd.py").read_text(encoding="utf-8")
    exec(script, {})
    plt.close("all")
    printed = capsys.readouterr().out
    for words in ("seed3", "2.522", "2.211 to 2.244", "the start", "2.5e-4 at step 1", "1e-3"):
        assert words in printed, words
        assert words.replace("seed3", "Seed 3") in script, words


def test_the_sites_pictures_have_the_houses_style(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx_gallery")
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    import shown_plots

    with mpl.rc_context():
        shown_plots.house_style({}, "")
        assert not mpl.rcParams["axes.spines.top"]
        assert mpl.rcParams["axes.prop_cycle"].by_key()["color"][0] == style.OKABE_ITO[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        *(name for name in QUESTIONS if name != "phase-change"),
        "forecasting",
        "toolbox",
        "how-many-seeds",
        "one-run",
        *(f"methods/{name}" for name in METHODS),
    ],
)
def test_what_a_page_shows_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    beside = Path(sys.executable).parent  # where an installation puts the command
    monkeypatch.setenv("PATH", f"{beside}{os.pathsep}{os.environ['PATH']}")
    space: dict[str, object] = {}
    for block in blocks(DOCS / f"{page}.md"):
        exec(block, space)
    plt.close("all")
    if page in SAID:
        name, words = SAID[page]
        assert words in str(space[name])


def test_the_page_on_changes_finds_the_planted_one() -> None:
    space: dict[str, object] = {}
    for block in blocks(DOCS / "phase-change.md"):
        exec(block, space)
    found = space["changes"].query("column == 'mine'")  # type: ignore[attr-defined]
    starts = found.loc[found["kind"] == "sharp change", "start_step"]
    assert starts.min() <= 2500 <= starts.max()


def test_a_script_of_the_gallery_makes_its_own_data() -> None:
    assert len(SCRIPTS) == 16
    assert {path.stem for path in SCRIPTS} > QUICK
    for path in SCRIPTS:
        text = path.read_text(encoding="utf-8")
        title, line = ast.get_docstring(ast.parse(text)).splitlines()[:2]  # type: ignore[union-attr]
        assert line == "=" * len(title), path.name
        assert "../shared" not in text
        assert "# %%" in text


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(path, id=path.stem, marks=[] if path.stem in QUICK else [pytest.mark.slow])
        for path in SCRIPTS
    ],
)
def test_a_script_of_the_gallery_runs(script: Path, tmp_path: Path) -> None:
    """In a process of its own: a script may add a format or a feature."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=tmp_path, env=os.environ | {"MPLBACKEND": "agg"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
