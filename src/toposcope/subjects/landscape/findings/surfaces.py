"""The sampled surfaces: how many have one minimum, and how many branches exceed the noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposcope.study.findings.base import Finding, Question, sentences_in
from toposcope.subjects.landscape.tables.surfaces import SURFACES

if TYPE_CHECKING:
    from toposcope.study.tables import StudyTables


def surfaces(study: StudyTables) -> Finding | None:
    """Strength: "trivial" (more than half of all surfaces have one minimum), "rugged"; None without any."""
    table = study.own[SURFACES.name]
    if table.empty:
        return None
    rows = table.to_dict("records")
    lead = rows[0]
    numbers = {"lead": lead, "others": rows[1:], "of_saddles": "minima - 1"}
    strength = "trivial" if lead["trivial"] > 0.5 else "rugged"
    return Finding("surfaces", strength, numbers, "counts, no test")


QUESTIONS = (
    Question(
        name="surfaces",
        words="What is on the surfaces?",
        find=surfaces,
        sentences=sentences_in(__package__, "surfaces"),
        leads=True,
    ),
)
