"""The papers' rules as an analysis takes them: `toposcope.analyze` hands them down."""

from __future__ import annotations

from toposcope.papers.fixed_phases import EMBEDDING_PHASES
from toposcope.papers.forecasters import CONTROLS, CombinedRule, LossOnlyRule, published_rules
from toposcope.papers.phase_rules import phase_table
from toposcope.study.published import PublishedRules

PUBLISHED = PublishedRules(
    published_rules, lambda table, columns: phase_table(table, columns=columns), EMBEDDING_PHASES,
    CONTROLS, (CombinedRule.name, LossOnlyRule.name), "the weight-space paper",
)  # fmt: skip
