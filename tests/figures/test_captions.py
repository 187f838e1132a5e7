"""A caption speaks of what its figure shows, and of nothing else."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope.page.figures.scaling import concluded
from toposcope.page.notes import of_seeds

FITS = pd.DataFrame(
    {
        "quantity": ["loss", "h0", "h1", "np"],
        "low": [-0.9, 0.1, -0.2, np.nan],
        "high": [-0.3, 0.4, 0.3, np.nan],
    }
)
STUDY = SimpleNamespace(fits=FITS, labels=SimpleNamespace(label=str.upper))


@pytest.mark.parametrize(
    ("quantities", "said"),
    [
        (["loss"], "for LOSS."),
        (["h0", "h1"], "for H0."),
        (["h1"], "zero."),
        (["np"], "no exponent has an interval."),
    ],
)
def test_a_figure_of_a_law_concludes_about_what_it_draws(quantities, said):
    """Two captions listed three quantities, one under the title '2 of 5'."""
    assert concluded(STUDY, quantities).endswith(said)


def test_runs_without_a_size_are_not_said_to_be_sizes():
    step = np.arange(10, 310, 10)
    rows = [pd.DataFrame({"run": run, "step": step, "loss": 1 + 3 * step**-0.5}) for run in "ab"]
    (study,) = ts.analyze(pd.concat(rows)).studies
    assert of_seeds(study).startswith("no size is stated")
