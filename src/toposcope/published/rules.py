"""The papers' rules in the form in which `toposcope.analyze` passes them to an analysis."""

from __future__ import annotations

from toposcope.published.forecasters import CALLED, CONTROLS, CombinedRule, LossOnlyRule, published_rules
from toposcope.published.phase_rules import phase_table
from toposcope.study.onward import onward
from toposcope.study.published import FixedPhase, FixedPhases, PublishedRules
from toposcope.subjects.representations.features import H1_TOTAL, REPRESENTATIONS

EMBEDDING_PHASES = FixedPhases(
    "the embedding report",
    (
        FixedPhase("collapse", 0, 32, -1),
        FixedPhase("reorganisation", 32, 1000, 0),
        FixedPhase("refinement", 1000, None, 1),
    ),
    REPRESENTATIONS,
    H1_TOTAL,
    "H1 total persistence",
)
"""Read off a figure of one model's H1 total persistence."""

PUBLISHED = PublishedRules(
    published_rules, lambda table, columns: phase_table(table, columns=columns), EMBEDDING_PHASES,
    CONTROLS, (CombinedRule.name, LossOnlyRule.name), "the weight-space paper", CALLED,
    onward,
)  # fmt: skip
