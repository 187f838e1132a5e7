"""A paper's claims: each with its source's number, our number, and one of five judgements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from toposcope.studies.sections import Section


class Standing(StrEnum):
    """The five judgements of a claim."""

    HOLDS = "holds"
    DRIFT = "holds only as drift"
    OUTDONE = "holds, but simpler numbers do better"
    FAILS = "does not hold"
    UNTESTED = "cannot be tested here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim: the source's statement and number, this study's number, and the statistic that judges it."""

    text: str
    source: str
    here: str
    statistic: str
    judgement: Standing


def of_verdict(as_written: bool, verdict: str) -> Standing:
    """Judge a correlation: first whether it holds as written, then whether it remains beyond the drift.

    `verdict` is that of the test on innovations: "adds", "trend only" or "cannot tell".

    >>> of_verdict(True, "trend only").value, of_verdict(False, "adds").value
    ('holds only as drift', 'does not hold')
    """
    if not as_written:
        return Standing.FAILS
    return {"adds": Standing.HOLDS, "trend only": Standing.DRIFT}.get(verdict, Standing.UNTESTED)


def beyond_drift(line: Mapping[Any, Any]) -> str:
    """Return a row of the test on innovations in words.

    >>> beyond_drift({"r": 0.3, "p_holm": 0.01})
    'beyond the drift: r +0.30, p 0.01 (Holm)'
    """
    if not math.isfinite(line["p_holm"]):
        return f"beyond the drift: no test was possible ({line['reason']})"
    return f"beyond the drift: r {line['r']:+.2f}, p {line['p_holm']:.2g} (Holm)"


def holds(claimed: bool) -> Standing:
    """Judge a claim that is either true or false.

    >>> holds(True).value
    'holds'
    """
    return Standing.HOLDS if claimed else Standing.FAILS


def within(low: float, high: float, least: float, most: float) -> Standing:
    """Judge a rate by its interval: it holds if the interval is within the bounds, fails if outside.

    >>> within(0.0, 0.006, 0.0, 1 / 700).value
    'cannot be tested here'
    """
    if least <= low and high <= most:
        return Standing.HOLDS
    return Standing.FAILS if high < least or low > most else Standing.UNTESTED


def claims_section(claims: Sequence[Claim]) -> Section:
    """Return the claims as the first table of a study; its title counts the judgements.

    >>> one = Claim(text="H0 grows", source="", here="falls", statistic="5 of 5", judgement=Standing.FAILS)
    >>> claims_section([one]).title
    'Of 1 claim, 1 does not hold'
    """
    counts = {standing: sum(claim.judgement is standing for claim in claims) for standing in Standing}
    plural = {Standing.HOLDS: "hold", Standing.DRIFT: "hold only as drift", Standing.FAILS: "do not hold",
              Standing.OUTDONE: "hold, but simpler numbers do better"}  # fmt: skip
    judgements = [
        f"{count} {plural.get(standing, standing.value) if count > 1 else standing.value}"
        for standing, count in counts.items()
        if count
    ]
    rows = [
        (claim.text, claim.source, claim.here, claim.statistic, claim.judgement.value) for claim in claims
    ]
    return Section(
        f"Of {len(claims):,} claim{'s' * (len(claims) != 1)}, {', '.join(judgements)}",
        ("claim", "source", "here", "statistic", "judgement"),
        tuple(rows),
        "A claim holds only as drift if the quantities move together because both change steadily with the "
        "step: no relation was found beyond a smooth trend and the past of each.",
    )
