"""The tables on a part of the page: those that its subject names, else the plain ones."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from toposcope.core.tabular import Table
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
from toposcope.subjects.subject import TABLE


def tables_on_page(study: Study) -> Iterable[Table]:
    """Return the tables on a study's part of the page, in reading order, empty ones included."""
    named = study.subject.page_tables
    subject_tables: Callable[[Study], Iterable[Table]] = pkgutil.resolve_name(named) if named else _tables
    return subject_tables(study)


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
