from __future__ import annotations

import dataclasses
import html
import re
from html.parser import HTMLParser

import pandas as pd
import pytest
from click.testing import CliRunner

from tests.on_page import captions, drawn
from toposcope.cli.report import command
from toposcope.core.drawing.rendering import Rendered
from toposcope.core.errors import InputError
from toposcope.page import page as page_module
from toposcope.page import parts as parts_module
from toposcope.page import write_studies
from toposcope.study.findings.summary import WORDS
from toposcope.subjects.weights.figures.loss_against_h0 import rho_notes
from toposcope.watch.journal import Journal, alarms_of

HOSTILE = '<script>alert("x")</script>|`*'


class _Outline(HTMLParser):
    def __init__(self):
        super().__init__()
        self.stack, self.images, self.links, self.headings, self.problems, self.tables = [], [], [], [], [], 0

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag == "img":
            self.images.append(attributes)
        self.links += [value for name, value in attrs if name in ("href", "src") and value]
        if tag in ("iframe", "object") or (tag == "script" and "src" in attributes):
            self.problems.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "table":
            self.tables += 1
        if tag not in ("img", "meta", "link", "br", "source"):
            self.stack.append(tag)

    def handle_endtag(self, tag):
        if not self.stack or self.stack.pop() != tag:
            self.problems.append(f"</{tag}>")


@pytest.fixture
def one_picture(monkeypatch):
    """Draw one small figure in the place of all, where a test is about something else."""

    def begin(figures, *, expected):
        next(iter(figures))
        return lambda: [Rendered(b"<svg/>", b"PNG")]

    monkeypatch.setattr(parts_module, "begin_rendering", begin)


@pytest.fixture
def replaceable(study, tmp_path, one_picture):
    write_studies([study], tmp_path / "report", title="A title")
    return tmp_path / "report"


def _outline(folder):
    outline = _Outline()
    outline.feed((folder / "index.html").read_text())
    assert not outline.stack
    return outline


@pytest.mark.slow
def test_the_page_is_well_formed_self_contained_and_described(written):
    outline = _outline(written)
    assert outline.problems == []
    assert len(outline.images) == 10
    assert all(len(image["alt"]) > 30 for image in outline.images)
    assert all(link.startswith(("#", "data:", "https://arxiv.org/abs/")) for link in outline.links)
    assert outline.headings[0] == 1
    assert all(b - a <= 1 for a, b in zip(outline.headings, outline.headings[1:], strict=False))


def test_every_table_has_a_caption_and_every_figure_its_two_conclusions(written):
    text = (written / "index.html").read_text()
    assert text.count("<caption>") == _outline(written).tables
    assert text.count("Can be concluded:") == text.count("Cannot be concluded:") == 10


def test_the_first_screen_has_the_title_the_checks_one_thing_to_do_and_a_chart(written, study):
    text = (written / "index.html").read_text()
    first = study.findings.first
    shown = html.unescape(re.sub(r"<[^>]+>", "", text[text.index("<body>") : text.index("<nav")]))
    told = [first.title, *(WORDS[one.mark] for one in first.checks), *(one.text for one in first.checks)]
    assert all(one in shown for one in (*told, first.to_do[0], first.to_do[1]))
    assert shown.count("Next:") == 1
    assert text.index("</header>") < text.index('<figure id="figure-loss"') < text.index("<nav")
    assert text[: text.index("<nav")].count("<figure") == 1
    twin = (written / "report.md").read_text()
    assert twin.startswith(f"# {first.title}")
    assert all(f"| {WORDS[one.mark]} | {one.name} | " in twin for one in first.checks)


def test_every_question_has_a_card_with_its_picture_and_the_numbers_behind_it(written, study):
    text = (written / "index.html").read_text()
    cards = re.findall(r'<article class="card">(.*?)</article>', text, re.S)
    silent = [("odd", "alone"), ("end", "unscored"), ("on", "finished")]  # a check says it, or nothing can
    asked = [
        study.findings.title(one)
        for one in study.findings
        if one.question not in ("trained", "rivals") and (one.question, one.strength) not in silent
    ]
    assert [html.unescape(re.search(r"<h3>(.*?)</h3>", card)[1]) for card in cards] == asked
    shown = {
        re.search(r"<h3>(.*?)</h3>", card)[1]: re.findall(r'href="#figure-(\w+)"', card) for card in cards
    }
    assert shown["What changed?"] == ["h0"]
    assert shown["Where will it end?"] == ["forecast"]
    assert shown["Does it scale?"] == ["weights_law"]
    assert shown["Are the measurements sound?"] == []
    assert not any("data:image" in card for card in cards)
    assert text.count("The numbers behind it") >= len(cards) - 2


def test_the_page_defines_the_words_that_it_uses_and_no_others(written):
    for name in ("index.html", "report.md"):
        text = (written / name).read_text()
        assert "The loops of a cloud of points" in text
        assert "next value that its smooth trend and its own past do not explain" in html.unescape(text)
        assert "Centred kernel alignment" not in text


def test_a_word_is_defined_where_it_stands_first(written):
    text = (written / "index.html").read_text()
    marked = re.findall(r'<a class="word" href="#(words-[\w-]+)" title="([^"]+)">([^<]+)</a>', text)
    places = [place for place, _, _ in marked]
    assert len(places) == len(set(places)) > 3
    for place, meaning, used in marked:
        assert f'<dt id="{place}">' in text
        assert f"<dd>{meaning}</dd>" in text
        assert used.lower().startswith(place.removeprefix("words-").replace("-", " "))


@pytest.mark.slow
def test_a_store_without_losses_has_no_figure_of_them(make_study, tmp_path):
    study = make_study(trends=False, errors={})
    bare = dataclasses.replace(study, target="", metrics=study.metrics.iloc[:0])
    figures = drawn(bare)
    assert list(figures) == ["h0", "neural_persistence", "vietoris_rips", "scaling", "layers"]
    assert bare.findings.headline.startswith("H0 total (pooled) rose in 3 of 3 runs")


def test_every_figure_and_table_is_a_file(written):
    figures = {path.name for path in (written / "figures").iterdir()}
    assert len(figures) == 20
    assert {path.suffix for path in (written / "figures").iterdir()} == {".png", ".svg"}
    trends = pd.read_csv(written / "tables" / "trends.csv")
    assert (trends["spearman"] == -0.9).all()


def test_the_markdown_twin_has_the_same_words_and_links_that_resolve(written):
    page, twin = (written / "index.html").read_text(), (written / "report.md").read_text()
    headline = re.search(r"<h1>(.*?)</h1>", page)
    assert headline
    assert html.unescape(re.sub(r"<[^>]*>", "", headline[1])) in twin
    links = re.findall(r"\]\(([^)]+)\)", twin)
    assert len(links) > 20
    papers = [link for link in links if link.startswith("https://arxiv.org/abs/")]
    assert papers
    assert all((written / link).is_file() for link in links if link not in papers)


def test_tables_of_the_twin_are_rectangular(written):
    lines = (written / "report.md").read_text().split("\n")
    blocks, block = [], []
    for line in [*lines, ""]:
        if line.startswith("|"):
            block.append(line.count("|") - line.count("\\|"))
        elif block:
            blocks.append(block)
            block = []
    assert len(blocks) >= 5
    assert all(len(set(block)) == 1 for block in blocks)


def test_names_from_files_are_text_not_markup(make_study, tmp_path, one_picture):
    study = make_study({HOSTILE: 1_000, "b": 10_000})
    write_studies([study], tmp_path / "report", title=HOSTILE)
    page, twin = (tmp_path / "report/index.html").read_text(), (tmp_path / "report/report.md").read_text()
    assert "<script" not in page
    assert html.escape("<script>") in page
    assert "<script" not in twin
    assert _outline(tmp_path / "report").problems == []


@pytest.mark.slow
def test_the_same_study_gives_the_same_files(study, tmp_path, one_picture):
    for name in ("a", "b"):
        write_studies([study], tmp_path / name, title="T")
    for path in sorted((tmp_path / "a").rglob("*.*")):
        assert path.read_bytes() == (tmp_path / "b" / path.relative_to(tmp_path / "a")).read_bytes(), path


@pytest.mark.slow
def test_a_report_is_replaced_as_a_whole(study, replaceable):
    (replaceable / "figures" / "stale.png").write_bytes(b"old")
    write_studies([study], replaceable, title="Another")
    assert not (replaceable / "figures" / "stale.png").exists()
    assert "Another" in (replaceable / "index.html").read_text()
    assert [path.name for path in replaceable.parent.iterdir()] == ["report"]


@pytest.mark.slow
def test_a_failure_while_writing_leaves_the_old_report(study, replaceable, monkeypatch):
    before = (replaceable / "index.html").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(page_module, "_write_files", full)
    with pytest.raises(OSError, match="No space left"):
        write_studies([study], replaceable, title="Another")
    assert (replaceable / "index.html").read_bytes() == before
    assert [path.name for path in replaceable.parent.iterdir()] == ["report"]


def test_a_folder_that_is_no_report_is_left_alone(study, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(
        InputError, match="contains files that are not a report; choose a new or empty folder"
    ):
        write_studies([study], tmp_path, title="T")
    with pytest.raises(InputError, match="this is a file; choose a new or empty folder"):
        write_studies([study], tmp_path / "thesis.tex", title="T")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_findings_and_failures_are_on_the_page(make_study, tmp_path, one_picture):
    audit = pd.DataFrame(
        {
            "run": ["small"],
            "step": [300],
            "fault": ["identical"],
            "tensor": ["head"],
            "message": ["same as step 200"],
        }
    )
    study = make_study(audit=audit)
    study.features.loc[0, ["status", "note"]] = ["failed", "weights are not finite"]
    write_studies([study], tmp_path / "report", title="T")
    for name in ("index.html", "report.md"):
        text = (tmp_path / "report" / name).read_text()
        assert "same as step 200" in text
        assert "weights are not finite" in text
    assert "The audit found something wrong in 1 of" in text  # drawn, and drawn first


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [{"trends": False, "errors": {}}, {"steps": (0,)}, {"sizes": {"one": 0}}]
)
def test_poor_stores_still_get_a_page(make_study, tmp_path, arguments):
    write_studies([make_study(**arguments)], tmp_path / "report", title="T")
    assert _outline(tmp_path / "report").problems == []


@pytest.mark.slow
def test_captions_depend_on_the_data(make_study):
    one, many = captions(make_study()), captions(make_study(seeds=3))
    assert "trained once" in one["loss"].cannot
    assert "trained once" not in many["loss"].cannot
    assert not any("trained once" in told.cannot for name, told in one.items() if name != "loss"), "once"
    assert "above the band in 3" in one["neural_persistence"].can
    assert "inside it in 3 of 3" in captions(make_study(above_null=False))["neural_persistence"].can
    assert "3 random subsamples" in one["vietoris_rips"].shows
    assert (
        one["neural_persistence"].title
        == "Neural persistence ends above that of shuffled weights in 3 of 3 sizes"
    )
    few = captions(make_study({"a": 10, "b": 20}))["scaling"]
    assert few.can.startswith("Nothing can be said about scaling: 2 model sizes")


def test_notes_in_the_panels_are_the_tables_numbers(study):
    notes = rho_notes(study.trends, study.runs, target="loss", column="rips/euclidean/pooled/h0_total")
    assert notes["text"].tolist() == ["ρ −0.90\ndepartures +0.05"] * 3


def test_a_store_that_is_none_is_one_clear_error(tmp_path):
    result = CliRunner().invoke(command, [str(tmp_path / "nowhere"), "--out", str(tmp_path / "report")])
    assert isinstance(result.exception, InputError)
    assert "nowhere does not exist; a store is made with" in str(result.exception)
    assert not (tmp_path / "report").exists()


@pytest.mark.slow
def test_a_page_of_one_run_speaks_of_no_sizes(make_study, tmp_path):
    study = make_study(sizes={"small": 1_000}, trends=False, errors={})
    figures = captions(study)
    assert "scaling" not in figures
    assert {"h0", "neural_persistence", "vietoris_rips", "layers"} <= set(figures)
    text = write_studies([study], tmp_path / "report", title="One").read_text()
    assert "Does it scale?" not in text
    assert "Power laws" not in text
    assert "1 runs" not in text
    assert "each size was trained once" not in text
    assert "of 1 sizes" not in text
    assert "is above the band" in text


@pytest.mark.slow
def test_a_page_of_one_checkpoint_has_no_curve(make_study, tmp_path):
    study = make_study(steps=(100,), trends=False, errors={})
    figures = captions(dataclasses.replace(study, metrics=study.metrics.iloc[:0]))
    assert list(figures) == ["snapshot", "weights_law", "scaling"]
    page = write_studies([study], tmp_path / "report", title="One").read_text()
    assert "→" not in page.split("What was measured")[1].split("</table>")[0]
    assert "run by run" not in page
    assert "1 checkpoints" not in page
    assert "This store cannot tell: no leading feature was measured at two checkpoints." in page


def test_no_code_name_stands_on_a_page(written):
    for name in ("index.html", "report.md"):
        text = re.sub(r"base64,[^\"')]*", "", (written / name).read_text())
        assert not re.findall(r"seed00\d|\brieck\b", text)


def test_the_papers_behind_the_words_are_named_with_title_and_link(written):
    text = (written / "index.html").read_text()
    assert '<a href="https://arxiv.org/abs/1812.09764">Neural Persistence: A Complexity Measure' in text
    assert "Similarity of Neural Network Representations" not in text
    twin = (written / "report.md").read_text()
    assert "(https://arxiv.org/abs/1812.09764)" in twin


@pytest.mark.slow
def test_alarms_of_a_watch_stand_on_the_curves_of_its_store(make_study, tmp_path):
    """From the journal in the store's folder to the captions and the figures."""
    study = make_study()
    run = study.ordered[0]
    Journal.of(tmp_path).append("alarm", run, 300, test="loss spike", sentence="far above")
    Journal.of(tmp_path).append("notice", run, 300, test="persistence plateau")
    alarms = alarms_of([tmp_path])
    assert alarms == {run: [("loss spike", 300.0)]}
    alarmed = dataclasses.replace(study, alarms=alarms)
    marked = {
        name for name, figure in drawn(alarmed).items() for ax in figure.axes for line in ax.lines
        if line.get_gid() == f"alarm {run}"
    }  # fmt: skip
    assert marked == {"loss", "h0", "neural_persistence", "vietoris_rips"}
    before, after = captions(study), captions(alarmed)
    captioned = {name for name in after if "is an alarm of a watch" in after[name].shows}
    assert captioned == marked
    assert not any("alarm" in caption.shows for caption in before.values())
    assert "a fault that the log shows" not in after["loss"].shows
