"""Steps and counts are written in one way in sentences: with separators of thousands."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import toposcope
from tests.syntax import parsed
from toposcope.core.forms import step_text
from toposcope.core.observations import Observation
from toposcope.core.repeats import together
from toposcope.rules.registry import assess
from toposcope.statistics.trends._coincidences import freed
from toposcope.statistics.trends.whitening import whiten
from toposcope.study._plain import plain_table
from toposcope.watch.journal import Event


def health(metrics, **given):
    return list(assess(metrics, **{"noticed": False} | given))


WORD = re.compile(r" [a-z]")
BARE = re.compile(r"\bstep \{(?!step_text|shown|numbers)[^}:!]*\}")
"""A step in the braces of a text without a format; `shown` is a text, and `numbers` has what is no step."""


def test_no_text_has_a_bare_step() -> None:
    sources = Path(toposcope.__file__).parent.rglob("*.py")
    assert [line for source in sources for line in source.read_text().splitlines() if BARE.search(line)] == []


def _bare_counts(source: Path) -> Iterator[str]:
    """Yield each `{len(...)} words` of a text that has no format."""
    for text in ast.walk(parsed(source)):
        for part, after in zip(text.values, text.values[1:], strict=False) if _is_text(text) else ():
            bare = isinstance(part, ast.FormattedValue) and part.format_spec is None
            if bare and _counts(part.value) and isinstance(after, ast.Constant) and WORD.match(after.value):
                yield f"{source.name}:{text.lineno}: {ast.unparse(part)}{after.value[:30]}"


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr)


def _counts(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "len"


def test_no_text_has_a_bare_count() -> None:
    """Of 2,000 checkpoints one sentence said 2000."""
    sources = Path(toposcope.__file__).parent.rglob("*.py")
    outside = [source for source in sources if "studies" not in source.parts]  # claims as they were printed
    assert [line for source in outside for line in _bare_counts(source)] == []


@pytest.mark.parametrize("late", [9.0, np.nan], ids=["diverging", "not finite"])
def test_health_writes_a_step_as_an_alarm_does(late: float) -> None:
    step = 10 * np.arange(400)
    loss = np.where(step > 2400, late, 3.0 + 1 / (step + 1))
    first = health(pd.DataFrame({"step": step, "loss": loss}))[0]
    assert f"step {first.step:,}" in first.sentence
    assert first.step > 2000


def test_steps_of_both_lengths_are_one_line() -> None:
    """Equal messages differ in numbers only, and 1,000 is one number."""
    made = [Observation("a", step, "fc", f"step {step:,} holds NaN") for step in range(990, 1010)]
    (one,) = together(made)
    assert one.message == "step 990 holds NaN; so at 20 steps from 990 to 1,009"


def test_an_event_without_a_step_names_its_run() -> None:
    assert [Event(0, "alarm", "a", step).place for step in (None, 2400)] == ["a", "a step 2,400"]


def test_an_epoch_keeps_its_fraction() -> None:
    assert [step_text(step) for step in (2400, 2400.0, 0.25)] == ["2,400", "2,400", "0.25"]


@pytest.mark.parametrize(
    ("missing", "said"),
    [((1200,), "1,200"), ((800, 1200), "800 and 1,200"), ((800, 1200, 2000), "800; 1,200 and 2,000")],
)
def test_several_steps_are_not_joined_by_commas(missing: tuple[int, ...], said: str) -> None:
    """A comma reads as one more separator: 800, 1,200, 2,000."""
    table = pd.DataFrame({"run": "a", "step": [0, 10], "loss": [2.0, 1.0], "mine": [0.0, 1.0]})
    scores = pd.DataFrame({"run": "a", "step": [0, *missing], "target": "piqa", "value": 0.5})
    read = plain_table(table, [], scores)
    assert f"run a, step {said}: steps that were not measured" in "; ".join(read.problems)


def test_stretches_of_steps_are_not_joined_by_commas() -> None:
    steps = 100 * np.arange(51)
    rise = np.minimum(steps / 1000.0, 1.0) + np.maximum(steps - 3500.0, 0.0) / 1000.0
    noise = 0.01 * np.random.default_rng(1).standard_normal((2, 51, 100))
    *_, turned = freed(*(whiten(rise[:, None] + one, steps) for one in noise))
    assert any("–" in one for one in turned)
    assert [one for one in turned if ", " in one] == []


def test_a_count_in_a_finding_has_separators() -> None:
    step = np.arange(1000)
    table = pd.DataFrame({"step": step, "loss": 2 + 5 / np.sqrt(step + 1), "mine": np.sin(step)})
    findings = toposcope.analyze(table).findings
    assert findings.said(findings["sound"]).check.startswith("1,000 rows of a table")
