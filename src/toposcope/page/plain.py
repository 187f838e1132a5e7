"""The plain part of a page: a table made elsewhere, and subjects that make no part of their own."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from toposcope.core.tabular import Table
from toposcope.page.parts import PagePart, part_of
from toposcope.page.tables import (
    correlation_table,
    families_table,
    forecasts_table,
    replicates_table,
    scaling_table,
    subject_table,
)
from toposcope.study.own import tables_of
from toposcope.study.study import Study
from toposcope.subjects.subject import TABLE, Subject


def part_maker(subject: Subject) -> Callable[..., PagePart]:
    """Return the function that makes a subject's part of the page: its own, else the plain one."""
    made: Callable[..., PagePart] = pkgutil.resolve_name(subject.part) if subject.part else plain_part
    return made


def plain_part(study: Study, *, beside: Collection[str] = ()) -> PagePart:
    """Word, tabulate and draw a table made elsewhere, or a subject without a part of its own."""
    return part_of(study, _tables, beside=beside)


def _named(study: Study, name: str) -> str:
    """Return the name of a table: it is a file, and no other part of the page has it."""
    return f"{study.subject.name}_{name}"


def _tables(study: Study) -> Iterator[Table]:
    yield families_table(study)
    for declared in tables_of(study.subject):
        yield replace(subject_table(study, declared), name=_named(study, declared.name))
    yield correlation_table(study, study.target, _named(study, "trends"))
    yield replicates_table(study)
    more = [scaling_table(study)] if study.has_sizes else []
    more += [forecasts_table(study)] if study.forecasts["error"].notna().any() else []
    for table in more:
        yield table if study.subject is TABLE else replace(table, name=_named(study, table.name))
