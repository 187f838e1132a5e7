"""The research plan as a study: on the runs that are given, or on those that are trained first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from toposcope.studies.study import CORPUS, RUNS, SEEDS, Reproduction, StudyCall, trained

if TYPE_CHECKING:
    from toposcope.studies.sections import Section


def sections(
    call: StudyCall, *, runs: str | None = None, seeds: int = 1, corpus: str | None = None,
    updates: int | None = None,
) -> Sequence[Section]:  # fmt: skip
    """Carry out the research plan with five sizes of models.

    They are trained on subwords, and their gradients are measured, too. The plan's four hypotheses and three
    success criteria are judged one by one, as the plan words them and by a statistic that allows for drift.
    With --seeds above 1 the differences between sizes are compared with those between seeds.
    """
    from toposcope.studies.seed001.page import reproduce

    with call.folder() as folder:
        changes = {"corpus": corpus, "steps": updates, "gradients": True}
        where = runs or trained("seed001", folder, call, seeds=seeds, overrides=changes)
        return reproduce(where, folder / "stores", jobs=call.processes, quiet=call.quiet)


STUDY = Reproduction(
    "The research plan",
    "Five sizes on subwords, 10,000 steps: four hypotheses, three criteria.",
    sections,
    (
        RUNS,
        SEEDS,
        CORPUS,
        click.option(
            "--updates", type=click.IntRange(min=1),
            help="How long to train: the number of optimiser steps.  [default: 10000]",
        ),
    ),
)  # fmt: skip
