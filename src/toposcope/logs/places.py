"""Where in training a loss stands: the step of each record of a text, from all the places that it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd

from toposcope.logs.dialects.phrases import EPOCH, GLOBAL, LOSS, PART, PLACE, STEP, Phrase, phrase
from toposcope.logs.records import (
    HEADING,
    HELD,
    LEADING,
    NOT_A_NUMBER,
    OF,
    PLACED,
    PLANNED,
    ROUNDED,
)
from toposcope.logs.run import Run, is_nan_column, wanted_rows

_KINDS = (GLOBAL, STEP, PLACE, LEADING, EPOCH)
_ENOUGH = 0.5
"""A place counts if at least this share of the records with a loss names it."""
_PROCESSES, _EPOCHS, _ALIKE = 64, 3, 0.1
"""Several processes print the loss of each epoch if they are at most 64, the epochs at least three, and their
losses differ by less than a tenth of the change over an epoch."""


def placed(run: Run) -> Run:
    """Return a run of a text with a step for each record, and with the columns that are its losses.

    The step is, in this order, a step that never falls, a step or a place within the epoch, the number at the
    begin of a line, the epoch, and what a line above names. What falls where the epoch rises is counted on.
    """
    from toposcope.logs._phases import in_phases
    from toposcope.logs.evaluations import announced_apart, phases_apart

    table = _by_epoch_of(announced_apart(phases_apart(run.table, HELD), HELD, NOT_A_NUMBER))
    roles = losses_of(table)
    main = roles.get("loss") or roles.get("heldout_loss")
    parts = [str(c) for c in table if phrase(str(c)).kind == LOSS]
    losses = [main] if main else parts  # the user chooses
    trained = table[losses].notna().any(axis=1).to_numpy()
    if NOT_A_NUMBER in table:
        trained = trained | table[NOT_A_NUMBER].notna().to_numpy()
    if not trained.any():
        return replace(run, table=_visible(table), roles=roles)
    if not main:  # its parts may stand on lines of their own
        often = max(losses, key=lambda name: np.count_nonzero(table[name].notna()))
        trained = table[often].notna().to_numpy()
    if not (name := _place(table, trained)):
        return replace(run, table=_visible(table), roles=roles)
    step, planned, notes = _steps(table, name, trained)
    if not (usable := trained | _comparable(table, name, step)).all():
        step = np.where(usable, step, np.nan)
    filled = pd.Series(step).ffill().bfill().to_numpy(float) if np.isnan(step).any() else step
    kept = (filled >= 0) & ~(trained & np.isnan(step))
    rows = _visible(table)
    if (late := trained & np.isnan(step) & _logged(table, roles.get("heldout_loss", ""))).any():
        rows.loc[late, main] = np.nan  # at the end of an epoch, the mean of its losses stands beside
        kept |= late & (filled >= 0)
    epoch = _column(table, EPOCH)
    if not np.isnan(epoch).all() and (notes or not name.endswith(EPOCH)):
        rows["epoch"] = epoch
    if not main and (phase := in_phases(table, losses, step)) is not None:
        rows.insert(0, "loss", phase)
        roles, notes = {"loss": "loss"}, (*notes, f"each run has a loss of its own: {', '.join(losses)}")
    rows.insert(0, "step", filled)
    if planned:
        stated = _of(table, name, trained) == planned
        rows[PLANNED] = _planned(table[name + OF], step, trained, planned) if stated else float(planned)
    rows = wanted_rows(rows, kept).reset_index(drop=True)
    return replace(run, table=rows, roles={"step": "step", **roles}, notes=(*run.notes, *notes))


def _logged(table: pd.DataFrame, name: str) -> np.ndarray:
    """Return which records have a number of this name."""
    return table[name].notna().to_numpy() if name in table else np.zeros(len(table), bool)


def _by_epoch_of(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table in which `Batch 4/203800` is place 203,800 of epoch 4.

    That is so if the second number rises and the first does not, and no epoch is named.

    >>> names = [PLACED + PLACE, PLACED + PLACE + OF]
    >>> rows = pd.DataFrame([[4.0, 100.0], [4.0, 200.0], [5.0, 0.0]], columns=names)
    >>> [name.strip(chr(0)) for name in _by_epoch_of(rows)], [*_by_epoch_of(rows)[names[0]]]
    (['epoch', 'place'], [100.0, 200.0, 0.0])
    """
    name = PLACED + PLACE
    if name + OF not in table or PLACED + EPOCH in table:
        return table
    trained = ~_logged(table, HELD) & table[name + OF].notna().to_numpy()
    first, second = (table[column].to_numpy(float)[trained] for column in (name, name + OF))
    within = np.diff(first) == 0
    if not within.any() or within.mean() < _ENOUGH or not (np.diff(second)[within] > 0).all():
        return table
    place = table[name + OF].where(trained)  # an evaluation counts its own
    return table.rename(columns={name: PLACED + EPOCH}).drop(columns=name + OF).assign(**{name: place})


def losses_of(table: pd.DataFrame) -> dict[str, str]:
    """Return which columns are the loss and the held-out loss, by their names and how often they stand.

    >>> losses_of(pd.DataFrame({"l1 loss": [0.0], "total_loss": [2.0], "Dev Loss": [3.0]}))
    {'loss': 'total_loss', 'heldout_loss': 'Dev Loss'}
    """
    from toposcope.logs.evaluations import prefixed

    meant = {str(c): phrase(str(c)) for c in table if not str(c).startswith(PLACED)}
    meant = {name: column_meaning for name, column_meaning in meant.items() if not is_nan_column(name)}
    names_by_role: dict[str, str] = {}
    for role, held in (("loss", False), ("heldout_loss", True)):
        names = [
            name
            for name, column_meaning in meant.items()
            if column_meaning.kind == LOSS and column_meaning.held_out == held
        ]
        counts = {name: int(table[name].notna().sum()) for name in names}
        whole = [name for name in names if meant[name].order < PART]
        most = max((counts[name] for name in whole), default=0)
        often = [name for name in whole if counts[name] >= _ENOUGH * most]
        if often:
            first = min(often, key=lambda name: (meant[name].order, "test" in name.lower()))
            names_by_role[role] = first if held else _said_trained(table, first, often, meant)
        elif len(names) == 1:
            names_by_role[role] = names[0]
    if "heldout_loss" not in names_by_role and (
        v_loss := prefixed(list(meant), names_by_role.get("loss", ""))
    ):
        names_by_role["heldout_loss"] = v_loss
    return names_by_role


def _said_trained(table: pd.DataFrame, first: str, names: Sequence[str], meant: Mapping[str, Phrase]) -> str:
    """Return a loss, or one as good that says it is of training, if no record has both.

    In one record they are the loss of this step and a mean.
    """
    alike = (name for name in names if meant[name].trained and meant[name].order == meant[first].order)
    apart = (name for name in alike if not (table[name].notna() & table[first].notna()).any())
    return first if meant[first].trained else next(apart, first)


def _place(table: pd.DataFrame, trained: np.ndarray) -> str:
    """Return the column that the step is taken from; empty if none is named often enough."""
    for before in (PLACED, HEADING + PLACED):
        names = [before + kind for kind in _KINDS if before + kind in table]
        names = [name for name in names if table[name].notna().to_numpy()[trained].mean() >= _ENOUGH]
        if before != PLACED:
            names = [name for name in names if _rises(table, name, trained)]
        if names:  # beside a number that changes, `batch 16` is no place
            return next((name for name in names if _changes(table[name].to_numpy(float), trained)), names[0])
    return ""


def _changes(values: np.ndarray, trained: np.ndarray) -> bool:
    """Return whether the records with a loss have several values, without a table of them."""
    known_trained = trained & ~np.isnan(values)
    return bool(((values != values[int(known_trained.argmax())]) & known_trained).any())


def _rises(table: pd.DataFrame, name: str, trained: np.ndarray) -> bool:
    """Return whether a place that a line above names is another one for most records with a loss."""
    values = table[name].to_numpy(float)[trained]
    return name.endswith(EPOCH) or len(values) == 1 or bool((np.diff(values) != 0).mean() >= _ENOUGH)


def _column(table: pd.DataFrame, name: str) -> np.ndarray:
    """Return a place that a line names, or else the line above it; NaN where neither does."""
    values = np.broadcast_to(np.nan, len(table))  # of a column that no line names, this needs no memory
    for column in (PLACED + name, HEADING + PLACED + name):
        if column in table:
            values = np.where(np.isnan(values), table[column].to_numpy(float), values)
    return values


def _of(table: pd.DataFrame, name: str, trained: np.ndarray) -> int:
    """Return how many there are of a place, as most records state it; 0 if they do not."""
    stated = table[name + OF].to_numpy(float)[trained] if name + OF in table else np.array([])
    stated = stated[np.isfinite(stated)]
    if not len(stated):
        return 0
    values, counts = np.unique(stated, return_counts=True)
    return int(values[counts.argmax()])


def _planned(stated: pd.Series, step: np.ndarray, trained: np.ndarray, usual: int) -> np.ndarray:
    """Return the plan of each record: what most records state between two falls of the step, or the usual."""
    rows = np.flatnonzero(trained & np.isfinite(step))
    part = np.zeros(len(step), np.int64)
    part[rows[1:]] = np.diff(step[rows]) < 0
    of = stated.to_numpy(float)
    part, planned = np.cumsum(part), np.full(len(step), float(usual))
    for rows_of_part in (part == k for k in np.unique(part)):
        values, counts = np.unique(of[rows_of_part & trained & np.isfinite(of)], return_counts=True)
        planned[rows_of_part] = values[counts.argmax()] if len(values) else usual
    return planned


def _steps(table: pd.DataFrame, name: str, trained: np.ndarray) -> tuple[np.ndarray, int, Sequence[str]]:
    """Return the step of each record by the place `name`, the planned steps (0: unknown), and notes."""
    values = table[name].to_numpy(float)
    planned = _of(table, name, trained)
    if ROUNDED in table and name in (PLACED + STEP, PLACED + GLOBAL):
        from toposcope.logs._rounded_steps import unrounded

        epoch = _column(table, EPOCH)
        counters = {"epoch": epoch, **{str(c): _visible(table)[c].to_numpy(float) for c in _visible(table)}}
        values, note = unrounded(values, table[ROUNDED].to_numpy(float), trained, counters)
        if note:
            return values, planned, (note,)
    if name.endswith(EPOCH):
        if _of_processes(values[trained], table, trained):
            return values, planned, ("several processes print the loss of each epoch: the last one is read",)
        if _several(values[trained]) or (values[trained] % 1 != 0).any():
            return _counted(values, trained), 0, ("steps counted within the epoch",)
        return values, planned, ()
    epoch = _by_ends(_column(table, EPOCH), values, trained)
    epochs = _of(table, PLACED + EPOCH, trained) or _of(table, HEADING + PLACED + EPOCH, trained)
    if name.endswith(GLOBAL) or np.isnan(epoch)[trained].mean() > _ENOUGH:
        return values, planned if epochs < 2 else 0, ()
    if not _local(values[trained], epoch[trained]):
        single_epoch = np.nanmin(epoch[trained]) == np.nanmax(epoch[trained])
        return values, 0 if single_epoch and epochs > 1 else planned, ()
    first = np.nanmin(epoch[trained])
    if not planned and len(ends := _ends_of_runs(epoch, trained)) > 1:
        steps = np.full(len(values), np.nan)
        for run in (slice(*bounds) for bounds in pairwise([0, *ends])):  # each has epochs of its own length
            length = _length(values[run][trained[run]], epoch[run][trained[run]])
            steps[run] = values[run] + (epoch[run] - first) * length
        return steps, 0, ("steps counted within the epoch and on over the epochs",)
    length = planned if planned >= np.nanmax(values[trained]) else _length(values[trained], epoch[trained])
    note = f"steps counted within the epoch and on over the epochs ({length:,} each)"
    return values + (epoch - first) * length, epochs * length if first <= 1 else 0, (note,)


def _ends_of_runs(epoch: np.ndarray, trained: np.ndarray) -> list[int]:
    """Return where runs end: before the epoch falls back to the first, and at the end of the log.

    >>> _ends_of_runs(np.array([1, 1, 2, 1, 2.0]), np.ones(5, bool))
    [3, 5]
    """
    rows = np.flatnonzero(trained & np.isfinite(epoch))
    epochs_of_rows = epoch[rows]
    falls = np.flatnonzero(
        (np.diff(epochs_of_rows, prepend=epochs_of_rows[:1]) < 0) & (epochs_of_rows <= epochs_of_rows[:1])
    )
    return [*rows[falls].tolist(), len(epoch)]


def _several(epoch: np.ndarray) -> bool:
    """Return whether most epochs have several losses."""
    begins = np.flatnonzero(np.diff(epoch, prepend=np.nan) != 0)
    counts = np.diff(np.append(begins, len(epoch)))
    return bool(np.median(counts[: max(len(counts) - 1, 1)]) > 1)


def _by_ends(epoch: np.ndarray, values: np.ndarray, trained: np.ndarray) -> np.ndarray:
    """Return the epoch of each record; if only the lines that end an epoch name it, it is the next one's.

    Then a place falls wherever such a line stands before it, and nowhere else.

    >>> epoch = np.array([np.nan, np.nan, 0, np.nan, np.nan, 1, np.nan])
    >>> _by_ends(epoch, np.array([1, 2, np.nan, 1, 2, np.nan, 1]), np.isnan(epoch)).tolist()
    [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 2.0]
    """
    if np.isnan(epoch).all():
        return epoch
    rows = np.flatnonzero(trained & np.isfinite(values))
    if not np.isnan(epoch[rows]).all():
        return epoch
    ended = pd.Series(epoch).bfill().fillna(np.nanmax(epoch) + 1).to_numpy(float)
    falls = np.diff(values[rows]) < 0
    between = np.diff(np.cumsum(np.isfinite(epoch))[rows]) > 0
    return ended if falls.any() and (falls == between).all() else epoch


def _of_processes(epoch: np.ndarray, table: pd.DataFrame, trained: np.ndarray) -> bool:
    """Return whether several processes print the loss of each epoch.

    Then every epoch has as many losses, and they differ by under a tenth of what it changes by over an epoch.
    """
    loss = table.get(losses_of(table).get("loss", ""))
    begins = np.flatnonzero(np.diff(epoch, prepend=np.nan) != 0)
    counts = np.unique(np.diff(np.append(begins, len(epoch))))
    if loss is None or len(counts) != 1 or not 1 < counts[0] <= _PROCESSES or len(begins) < _EPOCHS:
        return False
    values = loss.to_numpy(float)[trained].reshape(len(begins), -1)
    change = np.abs(np.diff(values.mean(axis=1)))
    return bool((np.ptp(values, axis=1)[1:] < _ALIKE * change).all())


def _counted(epoch: np.ndarray, trained: np.ndarray) -> np.ndarray:
    """Return the records with a loss, counted from 1; again from 1 where the epoch returns to the first."""
    step = np.full(len(epoch), np.nan)
    trained_epochs = epoch[trained]
    begins = np.flatnonzero(
        (np.diff(trained_epochs, prepend=np.inf) < 0) & (trained_epochs <= trained_epochs[0])
    )
    starts = np.zeros(len(trained_epochs))
    starts[begins] = np.diff(begins, prepend=0)
    step[trained] = np.arange(1, len(trained_epochs) + 1) - np.cumsum(starts)
    return step


def _local(step: np.ndarray, epoch: np.ndarray) -> bool:
    """Return whether a step begins again with every epoch: it does not rise where the epoch does."""
    finite = np.isfinite(step) & np.isfinite(epoch)
    rises = np.diff(epoch[finite]) > 0
    return bool(rises.any()) and bool((np.diff(step[finite])[rises] <= 0).mean() > _ENOUGH)


def _length(step: np.ndarray, epoch: np.ndarray) -> int:
    """Return the steps of an epoch from the steps that its records name.

    >>> _length(np.array([0, 10, 20, 0, 10.0]), np.array([0, 0, 0, 1, 1.0]))
    30
    """
    finite = np.isfinite(step) & np.isfinite(epoch)
    step, epoch = step[finite], epoch[finite]
    inside = np.diff(step)[np.diff(epoch) == 0]
    stride = float(np.median(inside[inside > 0])) if (inside > 0).any() else 0.0
    return int(max(step.max() + (stride if step.min() == 0 else 0.0), 1.0))


def _comparable(table: pd.DataFrame, name: str, step: np.ndarray) -> np.ndarray:
    """Return which records name a place of training: one of as many as the training's."""
    same = np.isfinite(step)
    if name + OF in table:
        of = table[name + OF].to_numpy(float)
        held = table[HELD].notna().to_numpy() if HELD in table else np.zeros(len(table), bool)
        if (~held).any() and np.isfinite(of[~held]).any():
            same &= ~held | np.isin(of, of[~held & np.isfinite(of)])
    return same


def _visible(table: pd.DataFrame) -> pd.DataFrame:
    return table[[column for column in table if not str(column).startswith(PLACED)]].copy(deep=False)
