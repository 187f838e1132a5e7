"""What the user named, runs and columns, is printed as it is written, also where it begins a sentence."""

import re

import numpy as np
import pandas as pd
import pytest

from toposcope import analyze
from toposcope.page.notes import moved
from toposcope.study.analysis import Analysis


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    steps = np.arange(0, 300, 10)
    rng = np.random.default_rng(3)
    loss = 2 + 3 * np.exp(-steps / 80) + rng.normal(0, 0.01, len(steps))
    gain = steps / 100 + rng.normal(0, 0.01, len(steps))
    return analyze(pd.DataFrame({"run": "alpha", "step": steps, "loss": loss, "gain": gain}))


def test_a_column_begins_no_sentence_with_a_capital(analysis: Analysis) -> None:
    said = " ".join(text for _, text in analysis.findings.paragraphs)
    assert "gain rose" in said
    assert not re.search(r"\bGain\b", said)
    assert moved(analysis.studies[0], ["gain"], "").startswith("gain rose")


def test_a_run_begins_no_sentence_with_a_capital(analysis: Analysis) -> None:
    findings = analysis.findings
    said = findings.said(findings["trained"])
    assert said.act.startswith("alpha ")
    assert said.title.startswith("alpha ")


def test_a_word_of_ours_begins_its_sentence_with_a_capital(analysis: Analysis) -> None:
    assert analysis.findings.said(analysis.findings["when"]).act.startswith("The ")
    assert moved(analysis.studies[0], ["nothing"], "topic") == "topic"
