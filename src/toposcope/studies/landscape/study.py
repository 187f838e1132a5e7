"""The study of loss surfaces: curvature and sampled surfaces of small models against their loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from toposcope.studies.study import RUNS, Reproduction, StudyCall, trained

if TYPE_CHECKING:
    from toposcope.studies.sections import Section


def sections(
    call: StudyCall, *, runs: str | None = None, texts: str | None = None, checkpoints: int | None = None
) -> Sequence[Section]:
    """Test whether the loss surface follows the loss.

    The command measures the curvature and the sampled surfaces of small models. The test requires more than
    a shared trend.
    """
    from toposcope.studies.landscape import surfaces

    with call.folder() as folder:
        where = runs or trained("demo", folder, call)
        measured = surfaces.measure(
            where, folder / "stores" / "landscape", texts=texts, jobs=call.jobs or 1, quiet=call.quiet,
            checkpoints=checkpoints or surfaces.CHECKPOINTS,
        )  # fmt: skip
        return surfaces.sections(measured)


STUDY = Reproduction(
    "The loss surface",
    "Does the surface follow the loss beyond the trend?",
    sections,
    (
        RUNS,
        click.option(
            "--texts", help="Texts that the loss is computed on.  [default: the held-out texts of the runs]"
        ),
        click.option(
            "--checkpoints", type=click.IntRange(min=2),
            help="Number of checkpoints of each run, about evenly in log step.  [default: 26]",
        ),
    ),
)  # fmt: skip
