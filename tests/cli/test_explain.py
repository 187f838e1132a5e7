"""`toposcope explain`: every code has its meaning, its rate and its remedy, in the words of the docs."""

from __future__ import annotations

import ast
import csv
import json
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

import toposcope
from toposcope.cli.explain import command
from toposcope.core.errors import InputError
from toposcope.core.observations import REMARKS
from toposcope.rules.registry import rules
from toposcope.sources.experts import KINDS as KINDS_OF_EXPERTS
from toposcope.watch.alarms.registry import alarms
from toposcope.watch.explained import Explanation, explain, explanations

SOURCE = Path(toposcope.__file__).parent
FORMATS = Path(__file__).parents[2] / "docs" / "formats.md"
EXPERTS = FORMATS.parent / "evidence" / "checkpoint-experts.csv"
KINDS = tomllib.loads((SOURCE / "sources" / "kinds.toml").read_text(encoding="utf-8"))


def test_every_rule_and_every_alarm_has_an_explanation() -> None:
    codes = {one.code for one in explanations()}
    assert {code for rule in rules() for code in rule.speaks_of()} <= codes
    assert {alarm.test for alarm in alarms()} <= codes
    for one in explanations():
        assert one.what, one
        assert one.wrong != "not measured", one
        assert "{" not in one.next, one


_VERB = re.compile(
    r"\b(is|are|was|were|has|have|had|did|cannot|stands?|rises?|rose|falls?|fell|grew|moved|equals?|changed|"
    r"exceed|excludes|states|says|lies|became|hold|do|does|seem|finds|fails|ends?|resembles?|changes)\b"
)


@pytest.mark.parametrize("one", explanations(), ids=lambda one: one.code)
def test_every_entry_is_made_of_whole_sentences(one: Explanation) -> None:
    for text in (one.what, one.wrong, one.next):
        assert text[0].isupper() or text[0].isdigit(), text
        assert text.endswith("."), text
        assert "resume to" not in text, text
    assert _VERB.search(one.what), one.what


def test_no_two_codes_have_one_meaning() -> None:
    counted = Counter(one.what for one in explanations())
    assert [what for what, times in counted.items() if times > 1] == []


@pytest.mark.parametrize("code", ["too early", "no loss", "log"])
def test_what_check_says_of_a_log_that_cannot_be_judged_is_explained(code: str) -> None:
    assert explain(code).said_by.startswith("check")


@pytest.mark.skipif(not FORMATS.is_file(), reason="the documentation is not beside the tests")
def test_the_page_on_the_audit_has_the_same_words() -> None:
    page = FORMATS.read_text(encoding="utf-8")
    for row in (*KINDS["fault"], *KINDS["remark"]):
        for kind, meaning in row["meaning"].items():
            assert f"| `{kind}` | {meaning} |" in page
    assert {kind for row in KINDS["remark"] for kind in row["meaning"]} == REMARKS


def test_every_fault_of_the_state_is_explained() -> None:
    named = {kind for row in KINDS["state"] for kind in row["meaning"]}
    made = set()
    for path in (SOURCE / "sources" / "optimizer").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and re.fullmatch(
                r"(moments|shard|masters|step|updates|schedule|data|unreadable)-[a-z-]+", str(node.value)
            ):
                made.add(node.value)
    assert made <= named


def test_a_code_is_explained_however_it_is_spelt() -> None:
    assert explain("Loss-Spike") == explain("loss spike") == explain("loss_spike")
    with pytest.raises(InputError, match="did you mean 'loss-spike'"):
        explain("los-spike")


def test_the_kinds_of_experts_have_the_rate_of_mixtures() -> None:
    healthy = [
        row
        for row in csv.DictReader(EXPERTS.read_text(encoding="utf-8").splitlines())
        if row["kind"] == "healthy"
    ]
    found, series = (sum(int(row[key]) for row in healthy) for key in ("with a finding", "of"))
    for kind in KINDS_OF_EXPERTS:
        assert explain(kind).wrong.startswith(
            f"{found} of {series} healthy series of mixtures of eight experts"
        )
    assert explain("rescaled-tensor").wrong.startswith("1 of 1,211 healthy series")


def test_the_command_prints_four_lines_and_the_list() -> None:
    shown = CliRunner().invoke(command, ["rescaled-tensor"])
    assert [line.split(":")[0] for line in shown.output.splitlines() if line[0] != " "] == [
        "rescaled-tensor", "Said by", "How often it is wrong", "What to do",
    ]  # fmt: skip
    answer = json.loads(CliRunner().invoke(command, ["growth", "--json"]).output)
    assert answer["code"] == "growth"
    assert "healthy runs" in answer["wrong"]
    listed = json.loads(CliRunner().invoke(command, ["--json"]).output)
    assert len(listed) == len(explanations())
