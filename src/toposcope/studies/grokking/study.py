"""The positive control as a study: does H1 show that a transformer has found the circles, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from toposcope.studies.study import RUNS, Reproduction, StudyCall, trained

if TYPE_CHECKING:
    from toposcope.studies.sections import Section


def sections(call: StudyCall, *, runs: str | None = None) -> Sequence[Section]:
    """Test whether H1 shows when a transformer learns addition.

    This is the positive control: the transformer is known to place the numbers on circles, modulo p.
    """
    from toposcope.sources import open_series
    from toposcope.studies import deep_persistence
    from toposcope.studies.grokking.runs import DRAWS, figure, measure, study_run
    from toposcope.studies.grokking.tables import tables

    with call.folder() as folder:
        series = open_series(runs or trained("grokking", folder, call))
        store = None if call.out is None else call.out / "stores" / "grokking"
        measured = measure(series, store, draws=DRAWS, jobs=call.jobs or 1, quiet=call.quiet)
        studied = [study_run(run) for run in measured]
        for study in studied:
            call.draw(figure(study), f"grokking-{study.run.name}")
        kept = None if call.out is None else call.out / "stores" / "deep"
        deep = deep_persistence.measure(series, kept, jobs=call.jobs or 1, quiet=call.quiet)
        return [*tables(studied), deep_persistence.section(deep)]


STUDY = Reproduction(
    "Modular addition", "The positive control: does H1 find the circles, and when?", sections, (RUNS,)
)
