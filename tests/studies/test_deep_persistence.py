"""The section on deep graph persistence of two studies: its verdict, and what explains it."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from toposcope import open_series
from toposcope.sources import Series
from toposcope.studies.deep_persistence import measure, section
from toposcope.studies.sections import Section

STEPS = np.arange(0, 2400, 100)


def series(names: tuple[str, str]) -> Series:
    """Return two runs of two matrices whose tails grow while the loss falls: only the drift is shared."""
    generator = np.random.default_rng(0)
    weights, losses = {}, []
    for run in ("a", "b"):
        start = [generator.normal(size=shape) for shape in ((24, 6), (6, 24))]
        weights[run] = {
            int(step): {
                name: np.sign(W) * np.abs(W) ** (1 + step / 2400) + 0.05 * generator.normal(size=W.shape)
                for name, W in zip(names, start, strict=True)
            }
            for step in STEPS
        }
        loss = 4 - step_share() + 0.02 * generator.normal(size=len(STEPS))
        losses.append(pd.DataFrame({"run": run, "step": STEPS, "loss": loss}))
    return open_series(weights, losses=pd.concat(losses))


def step_share() -> np.ndarray:
    return STEPS / STEPS[-1]


@pytest.fixture(scope="module")
def studied() -> Section:
    pair = ("layers.0.mlp.fc1.weight", "layers.0.mlp.fc2.weight")
    return section(measure(series(pair), None, quiet=True))


def test_every_quantity_has_its_verdict(studied: Section) -> None:
    by_name = {row[0]: dict(zip(studied.columns[1:], row[1:], strict=True)) for row in studied.rows}
    assert list(by_name) == [
        "deep graph persistence", "deep graph persistence − shuffled", "of up and down", "neural persistence",
    ]  # fmt: skip
    deep = by_name["deep graph persistence"]
    assert deep["last"] > deep["first"]
    assert deep["rho with the loss"].startswith("-")
    assert deep["verdict"] in studied.title
    assert deep["verdict"] != "adds"
    assert str(deep["moves first in"]).endswith("of 2")


def test_what_explains_it_is_said_with_numbers(studied: Section) -> None:
    said = studied.note
    shuffles, spread = (
        float(re.search(before + r" ([\d.]+\d)", said)[1])  # type: ignore[index]
        for before in ("the shuffles explain R2", "over the largest weight")
    )
    assert min(shuffles, spread) > 0.5
    assert "of 2 runs" in said


def test_matrices_that_do_not_compose_are_said() -> None:
    found = section(measure(series(("first.weight", "second.weight")), None, quiet=True))
    assert found.title.endswith("no two matrices compose")
    assert [row[0] for row in found.rows] == ["neural persistence"]
