"""Which targets correlations are taken with."""

from __future__ import annotations

from collections.abc import Sequence

from toposcope.core.errors import InputError, did_you_mean
from toposcope.study.table import SeriesTable
from toposcope.subjects.subject import Subject


def chosen_target(series: SeriesTable, wanted: str | None, *, preferred: Sequence[str]) -> str:
    """Return the column of `series` that is the target; "" if none was requested and none exists.

    A requested target is a target of the table, one of its columns, or the name of a feature that only one
    column has. Otherwise it is the first of `preferred` with a value at most checkpoints of every run, else
    the one with a value at the most checkpoints.

    Raises
    ------
    InputError
        When the wanted target is not there.
    """
    if wanted is not None:
        columns = [column for column in series.columns() if column in series.values]
        found = [name for name in (*series.targets, *columns) if name == wanted]
        found = found or [column for column in columns if column.endswith(f"/{wanted}")]
        if len(found) != 1:
            usable = [name for name in series.targets if series.values[name].notna().any()]
            have = f"name {', '.join(usable)}, or" if usable else "it has no loss; name"
            near = did_you_mean(wanted, [*usable, *columns])
            raise InputError(
                "no such target", argument="target", value=wanted, remedy=f"{have} one of its features{near}"
            )
        return found[0]
    there = [name for name in preferred if name in series.targets]
    for name in there:
        known = series.values.groupby("run")[name].apply(lambda values: values.notna().mean())
        if (known > 0.5).all():
            return name
    return max(there, key=lambda name: series.values[name].notna().mean(), default="")


def chosen_targets(
    series: SeriesTable, subject: Subject, target: str, wanted: Sequence[str], brought: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the targets that correlations are taken with, and those of them that were brought along.

    If `wanted` were requested, only these and the further ones are used; otherwise the usual losses are.
    Qualities in the rows that the subject does not prefer count as brought along.
    """
    known = {*subject.targets, *series.default_targets}
    along = {*brought, *(name for name in series.own if name not in known)}
    more = tuple(name for name in series.targets if name in along and name != target)
    chosen = wanted if wanted else series.default_targets
    first = [target] if target else []
    return tuple(dict.fromkeys([*first, *chosen, *more])), tuple(t for t in more if t not in wanted)
