"""When the weight-space paper would leave a run, as rules beside those of `toposcope.forecasting.decision`."""

from __future__ import annotations

from collections.abc import Sequence

from toposcope.forecasting.curve import Curve
from toposcope.forecasting.decision.advice import CONTINUE, RULES, SCALE, STOP, Option, Rule, by_loss
from toposcope.papers.phase_rules import met_diminishing_returns
from toposcope.subjects.weights.features import PERSISTENCE


def by_topology(options: Sequence[Option], seen: Curve) -> tuple[str, str]:
    """Scale up once neural persistence has met diminishing returns: the weight-space paper's reading.

    The rule is `coded_rule`, on the checkpoints seen so far.
    """
    met = diminishing_returns(seen)
    if met is None:
        return CONTINUE, "no neural persistence was measured"
    if not met:
        return CONTINUE, "neural persistence still changes"
    scale = next((o for o in options if o.action == SCALE and o.status == "ok"), None)
    return (SCALE if scale else STOP), "neural persistence has met diminishing returns"


def by_both(options: Sequence[Option], seen: Curve) -> tuple[str, str]:
    """Leave the run only where loss and topology both say so; then as the loss says."""
    action, why = by_loss(options, seen)
    topological, _ = by_topology(options, seen)
    if action != CONTINUE and topological == CONTINUE:
        return CONTINUE, "the loss would leave the run, its topology would not"
    return action, why


def diminishing_returns(seen: Curve) -> bool | None:
    """Say whether neural persistence has met diminishing returns; None when it was not measured."""
    if PERSISTENCE.name not in seen.features:
        return None
    value = seen.features[PERSISTENCE.name].dropna().to_numpy(float)
    return met_diminishing_returns(value)


WITH_TOPOLOGY: dict[str, Rule] = {**RULES, "topology": by_topology, "loss and topology": by_both}
"""The rules of the core and the paper's, for `regret_table`."""
