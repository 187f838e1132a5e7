"""Which run is odd? The runs whose curves differ from those of their siblings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposcope.core.wording import option, runnable
from toposcope.statistics.odd import FEWEST, LEVEL
from toposcope.study.findings.base import Finding

if TYPE_CHECKING:
    from toposcope.study.tables import StudyTables


def odd(study: StudyTables) -> Finding | None:
    """Strength: "odd" (some run is), "alike" (none is), "alone" (too few siblings); None for one run."""
    found = study.odd
    if found.runs < 2:
        return None
    seeds = ",".join(map(str, range(1, FEWEST + 2)))
    numbers = {
        "compared": found.compared,
        "runs": found.runs,
        "fewest": FEWEST,
        "level": LEVEL * (2 if len(study.features) else 1),  # one test of the losses, one with the features
        "features": len(study.features) > 0,
        "seeds": max(len(group.runs) for group in study.sizes),
        "command": runnable("train", out="DIR", seeds=seeds) if not _of_a_log(study) else "",
        "leave_out": option("without", found.found[0].run) if found.found else "",
        "odd": [
            {
                "run": one.run, "sentence": one.sentence, "p": one.p, "since": one.since,
                "better": one.ends_lower, "siblings": list(one.siblings),
                "differs": list(one.differs), "frozen": list(one.frozen),
                "where": [[b.label, b.value, b.low, b.high] for b in one.beside],
            }
            for one in found.found
        ],
    }  # fmt: skip
    strength = "odd" if found.found else "alike" if found.compared else "alone"
    return Finding("odd", strength, numbers, "F of the distance to the other runs")


def _of_a_log(study: StudyTables) -> bool:
    """Whether these runs come from a log or a table: `toposcope train` cannot make more of them."""
    return study.log is not None and study.log.logged is not None
