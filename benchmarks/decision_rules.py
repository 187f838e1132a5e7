"""Rules for when to give up a run, beside the one that `toposcope forecast --advise` follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toposcope.forecasting.decision.advice import CONTINUE, SCALE, STOP, Option, by_loss, chance_cheaper
from toposcope.logs.curve import Curve
from toposcope.published.phase_rules import IN_A_ROW, SMOOTHING, coded_rule
from toposcope.subjects.weights.features import PERSISTENCE

CONFIDENCE = 0.9
"""How sure `by_certainty` must be that something else is better before it leaves the run."""

Rule = Callable[[Sequence[Option], Curve], tuple[str, str]]


def by_certainty(
    options: Sequence[Option], seen: Curve, *, confidence: float = CONFIDENCE
) -> tuple[str, str]:
    """Continue, unless another option is cheaper with probability `confidence` (normal log losses)."""
    action, why = by_loss(options, seen)
    usable = {option.action: option for option in options if option.status == "ok"}
    if action == CONTINUE or CONTINUE not in usable:
        return action, why
    if chance_cheaper(usable[action], usable[CONTINUE]) < confidence:
        return CONTINUE, f"nothing else is better with {confidence:.0%} confidence"
    return action, why


def always_continue(options: Sequence[Option], seen: Curve) -> tuple[str, str]:
    """Go on, whatever is known: what every rule has to beat."""
    return CONTINUE, "always"


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
    return len(value) >= SMOOTHING + IN_A_ROW and coded_rule(value)[1] is not None


RULES: dict[str, Rule] = {
    "loss (default)": by_loss,
    "loss, if 90% sure": by_certainty,
    "always continue": always_continue,
}

WITH_TOPOLOGY: dict[str, Rule] = {**RULES, "topology": by_topology, "loss and topology": by_both}
"""These and the weight-space paper's."""
