"""What a figure declares of itself is refused where it is wrong, and decides where the figure stands."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pandas as pd
import pytest
from matplotlib.figure import Figure

import toposcope.page.figures
from tests.on_page import captions
from toposcope.core import plugins
from toposcope.core.drawing.rendering import Rendered
from toposcope.core.drawing.style import new_figure
from toposcope.core.errors import InputError
from toposcope.core.processes import cores
from toposcope.page import parts, roster
from toposcope.page.on_page import Caption, OnPage
from toposcope.page.parts import part_of
from toposcope.study import tables
from toposcope.subjects.roster import FOLDERS, subjects
from toposcope.subjects.subject import TABLE

WORDS = Caption("Mine", "It shows.", "One can.", "One cannot.", "A figure of mine.")
MINE = OnPage(
    "mine",
    questions={"changed": 0},
    draw=lambda study: new_figure(2.0)[0],
    caption=lambda study: WORDS,
    about="weights",
)


@pytest.fixture(autouse=True)
def nothing_added(monkeypatch):
    monkeypatch.setattr(roster, "_ADDED", [])


@pytest.fixture
def unprinted(monkeypatch):
    blank = Rendered(b"<svg/>", b"PNG")
    begin = lambda figures, expected: partial(list, [blank for _ in figures])  # noqa: E731
    monkeypatch.setattr(parts, "begin_rendering", begin)


def _brought(monkeypatch, made):
    """Let an installed package bring a figure."""
    point = SimpleNamespace(name="mine", value="mine:ON_PAGE", load=lambda: made)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point] * (group == roster.GROUP))
    roster._installed.cache_clear()


@pytest.mark.parametrize("name", ["", "Mine", "my figure", "../mine", "mine.svg", "{run}_mine"])
def test_a_name_that_is_no_file_of_the_page_is_refused(name):
    with pytest.raises(InputError, match="may contain only small letters, digits and _; change it"):
        replace(MINE, name=name)


def test_a_question_that_no_page_asks_is_refused_with_those_that_are():
    with pytest.raises(
        InputError, match="questions has 'why', which no page asks; use trained, sound, odd, changed"
    ):
        replace(MINE, questions={"why": 1})


def test_a_name_that_is_taken_is_refused():
    with pytest.raises(InputError, match="figure 'loss' exists already; give yours another name"):
        roster.add_figure(replace(MINE, name="loss"))
    with pytest.raises(InputError, match="'loss_landscape' exists already"):  # another part's file
        roster.add_figure(replace(MINE, name="loss_landscape"))
    roster.add_figure(MINE)
    assert roster.add_figure(MINE) is MINE
    with pytest.raises(InputError, match="'mine' exists already"):
        roster.add_figure(replace(MINE, questions={}))


def test_a_figure_of_every_part_needs_the_subject_in_its_name():
    with pytest.raises(InputError, match=r"give it `about`, or put \{subject\} into its name"):
        roster.add_figure(replace(MINE, about=""))
    everywhere = roster.add_figure(replace(MINE, name="mine_{subject}", about=""))
    for subject in (*subjects().values(), TABLE):
        assert roster.figures_of(subject)[-1] is everywhere
        assert everywhere.file_name(subject.name) == f"mine_{subject.name}"


def test_a_figure_about_no_subject_is_refused_with_those_that_there_are():
    with pytest.raises(InputError, match=r"about 'wieghts', which is not a subject; use one of .*weights"):
        roster.add_figure(replace(MINE, about="wieghts"))


def test_what_an_installed_package_brings_is_a_figure_and_stands_on_its_subjects_part(monkeypatch, capsys):
    _brought(monkeypatch, "a text")
    roster.figures_of(TABLE)
    assert "mine = mine:ON_PAGE is left out, because it is not of the kind OnPage" in capsys.readouterr().err
    _brought(monkeypatch, MINE)
    assert roster.figures_of(subjects()["weights"])[-1] is MINE
    assert MINE not in roster.figures_of(subjects()["gradients"])
    assert roster.on_cards([subjects()["weights"]])[:3] == ["loss", "mine", "h0"]
    monkeypatch.undo()
    roster._installed.cache_clear()


def test_the_card_shows_the_lowest_place_that_was_drawn(study, unprinted):
    def card(**changes):
        brought = replace(MINE, **changes)
        roster._ADDED[:] = [brought]
        part = part_of(study)
        (answer,) = (one for one in part.answers if one.question == "What changed?")
        assert ("mine" in [picture.name for picture in part.pictures]) == brought.needs(study)
        return answer.picture.name

    assert card() == "mine"
    assert card(questions={"changed": 1}) == "h0"  # of equal ones the first in reading order
    assert card(questions={"changed": 2}) == "h0"
    assert card(needs=lambda study: False) == "h0"


def test_the_curves_that_lead_are_drawn_last_and_stand_first(study, unprinted, monkeypatch):
    """They wait for the findings, and the other figures do not."""
    drawn = []

    def noted(name, **changes):
        return replace(MINE, name=name, draw=lambda study: drawn.append(name) or Figure(), **changes)

    listed = [noted("first", leads=True), noted("second"), noted("no", needs=lambda study: False)]
    monkeypatch.setattr(parts, "figures_of", lambda subject: listed)
    part = part_of(study)
    assert drawn == ["second", "first"]
    assert part.figures == ["first", "second"]


def test_features_that_a_second_process_judges_have_the_verdicts_of_this_one(make_study, monkeypatch):
    made = make_study(seeds=2)
    rest = {name: table for name, table in made.given.items() if name != "families"}
    here, there = replace(made, given=rest), replace(made, given=rest)
    monkeypatch.setattr(tables, "_MUCH", 1)
    there.begin()
    assert "_judging" in vars(there) or cores() == 1
    pd.testing.assert_frame_equal(there.families, here.families)


def test_a_caption_of_means_says_over_which_runs(make_study):
    study = make_study(seeds=2)
    roster._ADDED[:] = [MINE]
    assert captions(study)["mine"] == WORDS
    roster._ADDED[:] = [replace(MINE, means=True)]
    assert captions(study)["mine"].shows == WORDS.shows + parts.of_means(study)


def test_every_figure_of_the_package_is_listed_and_has_a_file_of_its_own():
    folders = [toposcope.page.figures]
    folders += [importlib.import_module(f"toposcope.subjects.{folder}.figures") for folder in FOLDERS
                if subjects()[folder].figures]  # fmt: skip
    declared = [
        made
        for folder in folders
        for found in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}.")
        for made in vars(importlib.import_module(found.name)).values()
        if isinstance(made, OnPage)
    ]
    assert len(declared) > 30
    listed = [one for subject in (*subjects().values(), TABLE) for one in roster.figures_of(subject)]
    words = {id(one.caption) for one in listed}  # under another name it is another object
    assert [one.name for one in declared if id(one.caption) not in words] == []
    for subject in (*subjects().values(), TABLE):
        names = [one.file_name(subject.name) for one in roster.figures_of(subject)]
        assert len(set(names)) == len(names)


def test_what_several_figures_read_is_made_once(make_study):
    study, made = make_study(), []

    def read(of):
        made.append(of)
        return len(made)

    assert (study.once(read), study.once(read)) == (1, 1)
    assert replace(study).once(read) == 2
    assert made[0] is study
