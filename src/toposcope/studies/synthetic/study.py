"""The study of known exponents: families of simulated runs, and what their topology predicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from toposcope.studies.study import Reproduction, StudyCall

if TYPE_CHECKING:
    from toposcope.studies.sections import Section


def sections(call: StudyCall, *, families: int) -> Sequence[Section]:
    """Test whether topology recovers known scaling exponents.

    The families of runs are simulated, so their exponents are known.
    """
    from toposcope.studies.synthetic.families import reproduce

    with call.folder() as folder:
        return reproduce(folder, families=families, jobs=call.jobs or 1, quiet=call.quiet)


STUDY = Reproduction(
    "Known exponents",
    "Can topology predict scaling exponents that are known?",
    sections,
    (
        click.option(
            "--families", type=click.IntRange(min=5), default=24, show_default=True,
            help="Number of families with random exponents to simulate.",
        ),
    ),
)  # fmt: skip
