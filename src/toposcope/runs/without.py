"""Runs that are left out of an analysis or a check on request."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import pandas as pd

from toposcope.core.errors import InputError, did_you_mean
from toposcope.core.forms import listed

_NAMED = 12
"""The most runs that an error names; further ones are counted."""


def refuse_unknown(without: Sequence[str], runs: Iterable[str], also: Collection[str] = ()) -> None:
    """Refuse to leave out an unknown run, or every run; `also` are further names of the runs.

    Raises
    ------
    InputError
        With the names of the runs that there are.

    Examples
    --------
    >>> refuse_unknown(["b"], ["a", "b"])
    >>> refuse_unknown(["c"], ["a", "b"])
    Traceback (most recent call last):
    toposcope.core.errors.InputError: without 'c': there is no such run; name one of a, b
    """
    there = list(dict.fromkeys(map(str, runs)))
    among = listed(there, most=_NAMED, last=", ")
    for name in without:
        if name not in there and name not in also:
            raise InputError(
                "there is no such run", argument="without", value=name,
                remedy=f"name one of {among}{did_you_mean(name, there)}",
            )  # fmt: skip
    if without and not set(there) - set(without):
        raise InputError(
            "no run is left", argument="without", value=", ".join(without), remedy="keep at least one run"
        )


def as_names(without: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of runs, each once; one name alone is one run.

    >>> as_names("a"), as_names(["a", "b", "a"])
    (('a',), ('a', 'b'))
    """
    return (without,) if isinstance(without, str) else tuple(dict.fromkeys(map(str, without)))


def without_runs(table: pd.DataFrame, without: Collection[str]) -> pd.DataFrame:
    """Return the rows of the other runs; a table without a run column is returned unchanged.

    >>> without_runs(pd.DataFrame({"run": ["a", "b"]}), ["a"])["run"].tolist()
    ['b']
    """
    if not without or "run" not in table:
        return table
    return table[~table["run"].astype(str).isin(set(without))].reset_index(drop=True)
