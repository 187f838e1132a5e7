"""A step is written in one way in sentences: with separators of thousands."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import toposcope
from toposcope.core.forms import step_text
from toposcope.core.repeats import Observation, together
from toposcope.forecasting.health.assess import health
from toposcope.watch.journal import Event

BARE = re.compile(r"\bstep \{(?!step_text|shown|numbers)[^}:!]*\}")
"""A step in the braces of a text without a format; `shown` is a text, and `numbers` has what is no step."""


def test_no_text_has_a_bare_step() -> None:
    sources = Path(toposcope.__file__).parent.rglob("*.py")
    assert [line for source in sources for line in source.read_text().splitlines() if BARE.search(line)] == []


@pytest.mark.parametrize("late", [9.0, np.nan], ids=["diverging", "not finite"])
def test_health_writes_a_step_as_an_alarm_does(late: float) -> None:
    step = 10 * np.arange(400)
    loss = np.where(step > 2400, late, 3.0 + 1 / (step + 1))
    first = health(pd.DataFrame({"step": step, "loss": loss}))[0]
    assert f"step {first.step:,}" in first.ground
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
