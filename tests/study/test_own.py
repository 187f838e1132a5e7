"""The tables and questions that a subject declares: found by its studies, refused if they cannot be."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from tests.on_page import with_tables
from toposcope.cli.analyze import _TABLES
from toposcope.core.errors import InputError
from toposcope.study.analysis import PARTS, Analysis, analysis_of
from toposcope.study.findings.base import Finding, Question
from toposcope.study.own import SubjectTable, questions_of, tables_of
from toposcope.subjects.subject import TABLE

STEP = np.arange(0, 2000, 50)
FRAME = pd.DataFrame({"step": STEP, "loss": 5 * (STEP + 100.0) ** -0.3, "mine": np.log(STEP + 50.0)})


def _lengths(study):
    return study.series.values.groupby("run").size().rename("checkpoints").reset_index()


def _longest(study):
    return Finding("length", "known", {"most": int(study.own["lengths"]["checkpoints"].max())})


TABLES = (SubjectTable(name="lengths", make=_lengths, title="Lengths"),)
QUESTIONS = (
    Question(
        name="length",
        words="How long are they?",
        find=_longest,
        sentences={"known": "The longest run has {{ most }} checkpoints."},
    ),
)


@pytest.fixture
def mine(monkeypatch):
    """Return the analysis of a table whose subject declares a table and a question."""
    monkeypatch.setitem(sys.modules, "mine", SimpleNamespace(TABLES=TABLES, QUESTIONS=QUESTIONS))
    (study,) = analysis_of(FRAME).studies
    return Analysis(
        (replace(study, subject=replace(TABLE, tables="mine:TABLES", questions="mine:QUESTIONS")),)
    )


def test_a_subjects_table_is_among_the_tables_and_in_the_json(mine):
    assert list(mine.tables) == [*PARTS, "lengths"]
    assert mine.tables["lengths"].to_dict("records") == [{"run": "run", "checkpoints": 40}]
    assert mine.to_json(["lengths"])["lengths"] == [{"run": "run", "checkpoints": 40}]
    assert not {*PARTS, "lengths"} & set(mine.to_json())
    assert "lengths" not in mine.to_json(["families"])
    given = replace(mine, studies=(with_tables(mine.studies[0], lengths=pd.DataFrame({"run": ["b"]})),))
    assert given.table("lengths")["run"].tolist() == ["b"]


def test_a_study_of_another_subject_has_no_such_table():
    plain = analysis_of(FRAME)
    assert list(plain.tables) == list(PARTS)
    with pytest.raises(InputError, match="no table 'lengths'; there are families, trends"):
        plain.table("lengths")
    few = analysis_of(FRAME.iloc[:4])
    with pytest.raises(InputError, match="no table 'lengths'; there are families, trends"):
        few.refuse_nothing(["lengths"])


def test_the_command_offers_the_tables_of_every_analysis():
    assert _TABLES == PARTS


def test_a_subjects_question_is_answered_after_those_of_every_study(mine):
    found = mine.findings
    *_, last = found
    assert (last.question, found.title(last)) == ("length", "How long are they?")
    assert found.said(last).text == "The longest run has 40 checkpoints."
    assert "length" not in analysis_of(FRAME).findings


@pytest.mark.parametrize("place", ["nowhere:TABLES", "mine:ABSENT", "mine", "mine:NUMBER"])
def test_a_place_without_a_tuple_is_refused(monkeypatch, place):
    monkeypatch.setitem(sys.modules, "mine", SimpleNamespace(NUMBER=3))
    with pytest.raises(
        InputError, match=f"'table': tables is '{place}', which cannot be read .*give MODULE:NAME"
    ):
        tables_of(replace(TABLE, tables=place))


def test_another_object_and_a_taken_name_are_refused(monkeypatch):
    def declared(**listed):
        monkeypatch.setitem(sys.modules, "mine", SimpleNamespace(**listed))
        return replace(TABLE, tables="mine:T", questions="mine:Q")

    with pytest.raises(InputError, match="which has a str; list only objects of SubjectTable"):
        tables_of(declared(T=("lengths",)))
    with pytest.raises(InputError, match="the name 'trends', which is taken; choose another name"):
        tables_of(declared(T=(replace(TABLES[0], name="trends"),)))
    with pytest.raises(InputError, match="the name 'lengths', which is taken"):
        tables_of(declared(T=TABLES * 2))
    with pytest.raises(InputError, match="the name 'changed', which is taken"):
        questions_of(declared(Q=(replace(QUESTIONS[0], name="changed"),)))
