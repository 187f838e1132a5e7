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
    odd_runs = study.odd
    if odd_runs.runs < 2:
        return None
    seeds = ",".join(map(str, range(1, FEWEST + 2)))
    numbers = {
        "compared": odd_runs.compared,
        "runs": odd_runs.runs,
        "fewest": FEWEST,
        "level": LEVEL * (2 if len(study.features) else 1),  # one test of the losses, one with the features
        "features": len(study.features) > 0,
        "seeds": max(len(group.runs) for group in study.sizes),
        "command": runnable("train", out="DIR", seeds=seeds) if not _of_a_log(study) else "",
        "leave_out": option("without", odd_runs.found[0].run) if odd_runs.found else "",
        "odd": [
            {
                "run": odd_run.run, "sentence": odd_run.sentence, "p": odd_run.p, "since": odd_run.since,
                "better": odd_run.ends_lower, "siblings": list(odd_run.siblings),
                "differs": list(odd_run.differs), "frozen": list(odd_run.frozen),
                "where": [[b.label, b.value, b.low, b.high] for b in odd_run.beside],
            }
            for odd_run in odd_runs.found
        ],
    }  # fmt: skip
    strength = "odd" if odd_runs.found else "alike" if odd_runs.compared else "alone"
    return Finding("odd", strength, numbers, "F of the distance to the other runs")


def _of_a_log(study: StudyTables) -> bool:
    """Whether these runs come from a log or a table: `toposcope train` cannot make more of them."""
    return study.log is not None and study.log.logged is not None
