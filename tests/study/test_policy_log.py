"""A policy's log is judged by all its columns, in `analyze` as in `check`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

import toposcope as ts


def exploding(steps: int = 200) -> pd.DataFrame:
    """Return the log of a policy whose KL leaves its course at step 141."""
    g = np.random.default_rng(3)
    step = np.arange(1, steps + 1)
    late = np.maximum(step - 140, 0)
    return pd.DataFrame(
        {
            "step": step,
            "loss": 1e-3 * g.normal(size=steps),
            "reward": 0.2 + 0.5 * (1 - np.exp(-step / 60)) - 0.004 * late + 0.03 * g.normal(size=steps),
            "kl": (0.0005 * step + 0.02 * late) * (1 + 0.1 * g.normal(size=steps)),
            "entropy": 0.3 + np.exp(-step / 70) + 0.02 * g.normal(size=steps),
            "grad_norm": 0.5 + 0.1 * np.abs(g.normal(size=steps)),
        }
    )


def test_an_analysis_tells_what_a_check_tells_of_a_policy() -> None:
    """It was `no finite loss that should fall was logged`, and nothing had to be done."""
    log = exploding()
    checked = ts.check(log)
    assert "look" in str(checked)
    assert "KL" in str(checked)
    found = ts.analyze(log)
    first = found.all_findings[0]
    assert first["on"].strength == "faulty"
    symptom = first["on"].numbers["faulty"][0]
    assert symptom["ground"] in str(checked)
    assert isinstance(symptom["step"], int)
    assert symptom["ground"] in repr(found)
    assert "judged by reward, KL, entropy" in first["end"].numbers["reason"]


def test_the_page_says_of_no_policy_that_its_loss_fell(tmp_path: Path) -> None:
    """The title was `The training loss fell from 0.00 to 0.00`."""
    ts.report(exploding(), out=tmp_path / "page")
    text = (tmp_path / "page" / "report.md").read_text()
    assert "KL explosion" in text.splitlines()[0]
    assert "The loss of every run" in text
    assert "fell from" not in text.partition("## Answers")[0]


def test_a_policys_loss_is_not_said_to_say_it_already() -> None:
    """It was `the minibatch loss already says it: 5 columns tested`, beside `went from 0.01 to 0.00`."""
    log = exploding()
    first = ts.analyze(log).all_findings[0]
    assert first["beyond"].numbers["trendless"]
    assert "already says" not in repr(ts.analyze(log))
    assert "minibatch loss went from" not in repr(ts.analyze(log))
    assert "reward (reward)" not in str(ts.check(log))
