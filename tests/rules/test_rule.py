"""A rule is one class: what it says of a whole log, and how it is added."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from toposcope.core.errors import InputError
from toposcope.rules import registry
from toposcope.rules.registry import add_rule, remarks_on, rules
from toposcope.rules.rule import LOOK, JudgedRun, Remark, Rule


def _run(**columns: object) -> JudgedRun:
    return JudgedRun.of(pd.DataFrame({"step": np.arange(1, 41), "loss": np.linspace(4, 2, 40), **columns}))


class HotExperts(Rule):
    """The share of the busiest expert is above a half at the end."""

    name = "hot experts"
    reads = ("busiest expert",)

    def judge(self, run: JudgedRun) -> Sequence[Remark]:
        """Look at the last share."""
        step, share = run.values("busiest expert")
        if not len(share) or share[-1] <= 0.5:
            return []
        return [Remark(LOOK, self.name, step[-1], f"one expert has {share[-1]:.0%} of the tokens")]


def test_a_rule_that_was_added_speaks_about_a_column_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.EXTENSIBLE, "added", [])
    assert add_rule(HotExperts) is HotExperts
    (said,) = remarks_on(_run(**{"busiest expert": np.linspace(0.1, 0.7, 40)}))
    assert (said.level, said.step, str(said)) == ("look", 40, "one expert has 70% of the tokens")
    assert remarks_on(_run(**{"busiest expert": np.full(40, 0.2)})) == []


def test_two_rules_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.EXTENSIBLE, "added", [])
    with pytest.raises(InputError, match="rule 'overfitting' exists already"):
        add_rule(type("Twin", (Rule,), {"name": "overfitting"}))


def test_every_rule_says_what_it_reads_how_it_speaks_and_how_often_it_is_wrong() -> None:
    for rule in rules():
        assert rule.name
        assert rule.reads
        assert rule.says
        assert rule.rate != Rule.rate, rule.name


def test_the_rows_of_a_run_ascend_under_canonical_names_with_all_other_columns() -> None:
    run = JudgedRun.of(
        pd.DataFrame({"step": [20, 10, 30], "train_loss": [2.0, 3.0, np.inf], "lr": [1, 2, 3], "reward": 0.5})
    )
    assert run.losses.to_numpy().tolist() == [[10, 3.0, 2.0], [20, 2.0, 1.0]]
    assert [list(part) for part in run.values("loss")] == [[10, 20, 30], [3.0, 2.0, np.inf]]
    assert run.policy
