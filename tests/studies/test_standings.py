"""As strong as the evidence: too little is not tested, and what simpler numbers beat is told."""

from __future__ import annotations

import pandas as pd
import pytest

from toposcope.studies.claims import Claim, Standing, claims_section
from toposcope.studies.public_runs.page import _shared
from toposcope.studies.public_runs.rates import SharedStep
from toposcope.studies.seed003.stored_rows import worth_section
from toposcope.studies.synthetic.families import _claim


@pytest.mark.parametrize(
    ("spikes", "common", "expected"),
    [
        (0, 0, "cannot be tested here"),
        (2, 0, "cannot be tested here"),
        (30, 0, "holds"),
        (30, 5, "does not hold"),
    ],
)
def test_a_few_spikes_show_nothing_about_their_causes(spikes, common, expected):
    alone = [SharedStep(10 * i, 1, 50, 0.1, 0.9, 1.0) for i in range(spikes - common)]
    together = [SharedStep(5, common, 50, 0.1, 1e-9, 1e-6)] if common else []
    assert _shared([*together, *alone]).judgement.value == expected


@pytest.mark.parametrize(
    ("norms", "p", "expected"),
    [(0.02, 0.01, Standing.OUTDONE), (0.2, 0.01, Standing.HOLDS), (0.02, 0.3, Standing.FAILS)],
)
def test_a_prediction_that_norms_beat_does_not_simply_hold(norms, p, expected):
    line = {"mae": 0.06, "mean_mae": 0.3, "effect": -0.24, "low": -0.3, "high": -0.1, "null_p": p}
    rows = {("a", "topology"): line, ("a", "norms"): {"mae": norms}, ("a", "loss"): {"mae": 0.3}}
    claim = _claim(rows, "a")
    assert claim.judgement is expected
    if expected is Standing.OUTDONE:
        title = claims_section([claim, claim]).title
        assert title == "Of 2 claims, 2 hold, but simpler numbers do better"


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [(["cannot tell"] * 3, "of 3 rows none could be tested"),
     (["cannot tell", "trend only", "trend only"], "of 3 rows none of the 2 that could be tested adds"),
     (["adds", "trend only", "cannot tell"], "of 3 rows m0: h1")],
)  # fmt: skip
def test_rows_that_could_not_be_tested_do_not_count_as_tested(verdicts, said):
    numbers = (
        "spearman",
        "partial_step",
        "effective_n",
        "block_low",
        "block_high",
        "walk_p",
        "r",
        "lag",
        "p",
    )
    row = dict.fromkeys(numbers, 0.1) | {"column": "h1", "p_holm": 1.0, "n": 9}
    rows = [row | {"run": f"m{i}", "verdict": verdict} for i, verdict in enumerate(verdicts)]
    assert said in worth_section(pd.DataFrame(rows)).note


def test_a_claim_is_counted_by_its_judgement():
    one = Claim(text="", source="", here="", statistic="", judgement=Standing.OUTDONE)
    assert claims_section([one]).title == "Of 1 claim, 1 holds, but simpler numbers do better"
