"""The loss that is the sum of others: where none is called a total, the numbers say which one is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from toposcope.logs.dialects.phrases import LOSS, phrase
from toposcope.logs.run import is_nan_column

_MOST_PARTS = 14
"""Of more parts there are too many sums to try."""
_LEAST_STEPS = 5
"""By chance, no sum fits so many steps."""
_COMPARED = 50
"""The sums of so many steps are compared."""
_USUAL = 0.9
"""Parts stand beside nearly every total."""
_NEAR = 1e-3
"""The largest relative difference between a total and its parts, which are printed with few digits."""


def total_among(tables: Sequence[pd.DataFrame], step: str, *, held_out: bool) -> tuple[str, list[str]] | None:
    """Return the loss that is the sum of two or more others at every step, and these; None if not one is.

    >>> rows = pd.DataFrame({"step": range(9), "box_loss": 2.0, "cls_loss": range(9)})
    >>> rows["net_loss"] = rows["box_loss"] + rows["cls_loss"]
    >>> total_among([rows], "step", held_out=False)
    ('net_loss', ['box_loss', 'cls_loss'])
    """
    names = [str(c) for c in tables[0] if _is_loss(str(c), held_out)]
    if len(names) < 3 or step not in tables[0]:
        return None
    table = tables[0][[step, *names]]
    for rows in (table[names], table.groupby(step)[names].last()):  # in one record, or in several of a step
        sums = {total: parts for total in names if (parts := _parts(rows, total))}
        whole = [total for total in sums if not any(total in parts for parts in sums.values())]
        if len({tuple(sums[total]) for total in whole}) == 1:
            return whole[0], sums[whole[0]]
    return None


def with_unnamed(
    tables: Sequence[pd.DataFrame], taken: dict[str, str], rename: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Return meanings with losses that no name tells: a sum of others, or else a measure; and notes."""
    from toposcope.logs.measures import with_measures

    sums: list[str] = []
    if taken.get("step", "") not in rename:
        taken, sums = with_totals(tables, taken)
    return (taken, sums) if sums else with_measures(tables, taken)


def with_totals(tables: Sequence[pd.DataFrame], taken: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return meanings with the losses that are sums of others, where no name says which one is; and notes."""
    notes: list[str] = []
    for role in ("loss", "heldout_loss"):
        if total := total_among(tables, taken.get("step", ""), held_out=role != "loss"):
            taken = {**taken, role: total[0]}
            notes.append(f"{total[0]!r} is taken as {role}: it is the sum of {', '.join(total[1])}")
    return taken, notes


def _is_loss(name: str, held_out: bool) -> bool:
    meant = phrase(name)
    return meant.kind == LOSS and meant.held_out == held_out and not is_nan_column(name)


def _parts(rows: pd.DataFrame, total: str) -> list[str]:
    """Return the losses whose sum another one is in its rows; none if it is no sum of two or more."""
    with_total = rows[rows[total].notna()]
    beside = [str(name) for name in with_total if with_total[name].notna().mean() > _USUAL]
    with_total = with_total[beside].dropna().iloc[:_COMPARED]
    target = with_total[total].to_numpy(float)
    if len(with_total) < _LEAST_STEPS or not (target > 0).all():
        return []
    others = [name for name in beside if name != total and with_total[name].any()]
    others = [
        name for name in others if (with_total[name] <= target).all() and (with_total[name] < target).any()
    ]
    if not 1 < len(others) <= _MOST_PARTS:
        return []
    taken = (np.arange(2 ** len(others))[:, None] >> np.arange(len(others))) & 1
    off = (np.abs(taken @ with_total[others].to_numpy(float).T - target) / target).max(axis=1)
    off[taken.sum(axis=1) < 2] = np.inf
    if off.min() >= _NEAR:
        return []
    return [name for name, is_taken in zip(others, taken[off.argmin()], strict=True) if is_taken]
