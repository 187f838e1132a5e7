"""Plain tables made elsewhere: the columns that describe their runs, and the targets that can be computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from toposcope.core.errors import InputError
from toposcope.core.wording import renaming
from toposcope.logs import facts
from toposcope.logs.copies import copies
from toposcope.logs.described import changing
from toposcope.logs.meanings import canonical
from toposcope.logs.run import is_nan_column
from toposcope.study.efficiency import SMOOTH, TARGETS, targets_of_run
from toposcope.study.table import SeriesTable, from_frame, with_targets

DESCRIBES = tuple(dict.fromkeys(("family", "parameters", "seed", "schedule", "corpus", *facts.DESCRIBES)))
"""Columns that describe a run: constant along it, never features."""
WORKED_OUT = ("gap", "efficiency", "efficiency_flop")
"""Targets that are computed from the losses, as in a store."""
KEPT_NAME = "a name reserved for a quantity derived from the loss"
NO_NUMBER = "not a number"
CONSTANT = "the same at every step"
NO_VALUE = "without a value"
_LOGGED = ("tokens", "weight_norm", "loss", "heldout_loss")


def plain_table(
    frame: pd.DataFrame, targets: Sequence[str] = (), scores: pd.DataFrame | None = None
) -> SeriesTable:
    """Return the series table of a plain one: columns step, features and targets, run and what describes it.

    Except for named targets, columns are also known by the names in `toposcope.logs.meanings.ALIASES`. The
    named targets and the known ones among the columns become targets, the others features. Columns that are
    not numbers, or are functions of a target or of the step (`study.copies`), are left out; `left_out` names
    them. Where `gap`, `efficiency` and `efficiency_flop` are absent they are worked out as in a store:
    held-out minus smoothed training loss; -dL/dlog tokens (log steps without tokens); the same per FLOP, 6 N
    per token. `scores`, as `read_targets` returns them, become targets too.

    Raises
    ------
    InputError
        If `step` or a target is absent and cannot be worked out, no loss is finite, or a value is
        refused by `from_frame`.

    Examples
    --------
    >>> step = np.arange(1.0, 40.0)
    >>> frame = pd.DataFrame({"step": step, "loss": 5 - 0.3 * np.log(step), "epoch": step / 9, "seed": 1})
    >>> frame["mine"] = np.random.default_rng(0).standard_normal(39)
    >>> table = plain_table(frame, ("efficiency",))
    >>> table.targets, table.columns(), round(float(table.values["efficiency"].iloc[20]), 6)
    (('loss', 'efficiency'), ['mine'], 0.3)
    >>> table.left_out
    {'epoch': 'a function of the step'}
    """
    given = frame[[name for name in frame if not is_nan_column(name)]]
    frame = canonical(given, keep=targets)
    written = {str(new): str(old) for new, old in zip(frame, given, strict=True)}
    if "run" not in frame:
        frame["run"] = "run"
    described = [name for name in DESCRIBES if name in frame and name not in targets]
    runs = frame[["run", *described]].drop_duplicates("run").reset_index(drop=True)
    if "parameters" in described:
        runs["parameters"] = _sizes(runs["parameters"])
    target_names = [name for name in ("loss", "heldout_loss", *TARGETS) if name in frame]
    if not targets and scores is None:
        _refuse_lost(frame, target_names)
    later = [name for name in WORKED_OUT if name not in frame] if "loss" in frame else []
    wanted = list(dict.fromkeys([*target_names, *(name for name in targets if name not in later)]))
    table = from_frame(frame.drop(columns=described), targets=wanted or ["loss"], runs=runs)
    untested = _untested(frame, [*described, *targets])
    table = replace(table, left_out={written.get(name, name): why for name, why in untested.items()})
    table = _without_copies(_worked_out(table, later), written)
    absent = [name for name in targets if name not in table.values]
    if absent:
        raise InputError(
            f"the table: column {absent[0]!r} is missing and cannot be worked out (gap needs heldout_loss, "
            "efficiency_flop needs tokens and parameters); add it"
        )
    return table if scores is None else _without_copies(with_targets(table, scores), written)


def _untested(frame: pd.DataFrame, others: Sequence[str]) -> dict[str, str]:
    """Return the columns of a table that are not tested although the user may expect it, and why.

    >>> _untested(pd.DataFrame({"step": [1], "loss": [2.0], "gap": [0.1], "stage": ["a"]}), [])
    {'stage': 'not a number', 'gap': 'a name reserved for a quantity derived from the loss'}
    """
    numbers = {str(column) for column in frame.select_dtypes("number")}
    text = [str(column) for column in frame if str(column) not in {"run", "step", *numbers, *others}]
    reserved = [name for name in TARGETS if name in frame and name not in {"loss", "heldout_loss", *others}]
    return {**dict.fromkeys(text, NO_NUMBER), **dict.fromkeys(reserved, KEPT_NAME)}


def _refuse_lost(frame: pd.DataFrame, targets: Sequence[str]) -> None:
    """Refuse a table whose losses are never finite: nothing can be compared with them."""
    lost = [name for name in targets if not np.isfinite(pd.to_numeric(frame[name], errors="coerce")).any()]
    if len(frame) and lost and len(lost) == len(targets):
        raise InputError(
            f"the table: none of the {len(frame):,} losses in {lost[0]!r} is finite; start the run again "
            f"with a lower learning rate, or name the column of another loss with {renaming('OLD', 'loss')}"
        )


def _without_copies(table: SeriesTable, written: Mapping[str, str]) -> SeriesTable:
    """Return the table without the columns that never change, or are functions of a target or of the step.

    `left_out` has them by the names that are `written` in the file.
    """
    columns = table.columns()
    reasons = {**_constant(table.values, columns), **copies(table.values, table.targets, columns)}
    if not reasons:
        return table
    catalogue = table.catalogue[~table.catalogue["column"].isin(list(reasons))].reset_index(drop=True)
    return replace(
        table,
        values=table.values.drop(columns=list(reasons)),
        catalogue=catalogue,
        left_out={**table.left_out, **{written.get(column, column): why for column, why in reasons.items()}},
    )


def _constant(values: pd.DataFrame, columns: Sequence[str]) -> dict[str, str]:
    """Return the columns that never change along a run, and why: the same value everywhere, or none."""
    still = set(columns).difference(changing(values, columns))
    return {
        column: CONSTANT if values[column].notna().any() else NO_VALUE
        for column in columns
        if column in still
    }


def _sizes(given: pd.Series) -> pd.Series:
    sizes = pd.to_numeric(given, errors="coerce")
    text = given[sizes.isna() & given.notna()]
    if len(text):
        raise InputError(
            f"the table: column 'parameters' has {text.iloc[0]!r}, which is not a number; "
            "give the model's size"
        )
    return sizes.where(np.isfinite(sizes))


def _worked_out(table: SeriesTable, names: Sequence[str]) -> SeriesTable:
    """Return the table with those of the targets that its losses determine."""
    sizes = table.parameters()
    log = table.values.reindex(columns=["run", "step", *_LOGGED]).astype(dict.fromkeys(_LOGGED, float))
    pieces, errors = [], []
    for run, rows in log.groupby("run", sort=False):
        steps = rows["step"].to_numpy(float)
        piece, error = targets_of_run(rows, steps, sizes.get(str(run), np.nan), SMOOTH)
        pieces.append(piece.set_index(rows.index))
        errors.append(error.set_index(rows.index))
    derived, noise = pd.concat(pieces), pd.concat(errors)
    have = [name for name in names if derived[name].notna().any()]
    values, spread = table.values.copy(), table.spread.copy()
    for name in have:
        values.insert(list(values.columns).index("loss") + 1, name, derived[name])
        if name in noise:
            spread[name] = noise[name]
    return replace(table, values=values, spread=spread, targets=(*table.targets, *have))
