"""Losses of evaluations whose names do not say so: the line before does, or a name without a prefix."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from toposcope.logs.dialects.phrases import HELD_OUT, LOSS, TRAINED, phrase
from toposcope.logs.run import is_nan_column

HIDDEN = "\0"
"""Begins the name of a column that is no number of the log."""
ANNOUNCED = HIDDEN + "announced"
"""Marks the first record after a line without numbers that says an evaluation: `testing in eval mode`."""
PHASE = HIDDEN + "phase"
"""Marks the records after a line such as `Validation at epoch 5`, up to the next line of training."""
EVALUATION, OF_TRAINING = "evaluation", "training"
_PHASE = re.compile(
    r"^[^A-Za-z]{0,60}(?:(?:INFO|DEBUG)\W{1,4})?"
    r"(?:[Ss]tart(?:ing|ed)?|[Bb]egin(?:ning)?|[Rr]unning)?(?: of)?(?: the)? ?"
    r"(?i:(valid(?:at(?:e|ion|ing))?|eval(?:uat(?:e|ion|ing))?|test(?:ing)?)|(train(?:ing)?|epoch))\b"
)
_PREFIX = "v_"
_POLICY = ("policy", "reward", "return", "entropy", "actor", "critic", "value", "pi_", "p_", "score", "adv")
"""Beside these, `v_loss` is the loss of a value function."""
_MOSTLY = 0.5
_LONGEST = 120
_WORDS = HELD_OUT - {"dev"}


def announces(line: str) -> bool:
    """Return whether a line without numbers says that an evaluation follows.

    >>> announces("testing in eval mode..."), announces("Validation loss: 2.5"), announces("Now training")
    (True, False, False)
    """
    if len(line) > _LONGEST or any(letter.isdigit() for letter in line):
        return False
    words = {*"".join(c if c.isalpha() else " " for c in line.lower()).split()}
    return bool(words & (_WORDS | {"validating"})) and not words & TRAINED


def phase_of(line: str) -> str:
    """Return the phase that begins with a line: a word for it and an epoch stand first, and no other number.

    >>> phase_of("[10:58:38] Validation at epoch 5"), phase_of("Start training # epoch 1"), phase_of("loss 2")
    ('evaluation', 'training', '')
    >>> phase_of("Validation Loss at epoch 5: 2.5")
    ''
    """
    if "poch" not in line or len(line) > _LONGEST or not (match := _PHASE.match(line)):
        return ""
    rest = line[match.end() :].lower()
    if "." in rest.rstrip(". ") or "loss" in rest or (match[1] and "epoch" not in rest):
        return ""
    return EVALUATION if match[1] else OF_TRAINING


def phases_apart(table: pd.DataFrame, held: str) -> pd.DataFrame:
    """Return a table whose records in phases of evaluation are held out, unless most records are in one."""
    if PHASE not in table:
        return table
    losses = [str(c) for c in table if _is_trained_loss(str(c))]
    inside = table[PHASE].notna().to_numpy()
    others = ~inside & table[losses].notna().any(axis=1).to_numpy()
    table = table.drop(columns=PHASE)
    if inside.sum() > others.sum():
        return table
    table = _moved(table, losses, np.flatnonzero(inside), held)
    places = [str(c) for c in table if str(c).startswith(HIDDEN) and c != held]
    return table.assign(**{name: table[name].mask(inside) for name in places})  # they count the evaluation's


def _moved(table: pd.DataFrame, losses: Sequence[str], at: np.ndarray, held: str) -> pd.DataFrame:
    """Return a table in which the losses of some records are held out."""
    table = table.copy()
    for name in (loss for loss in losses if table[loss].iloc[at].notna().any()):
        moved = np.full(len(table), np.nan)
        moved[at] = table[name].to_numpy(float)[at]
        table[f"eval {name}"] = moved
        table.loc[table.index[at], name] = np.nan
    table.loc[table.index[at], held] = 1.0
    return table


def announced_apart(table: pd.DataFrame, held: str, lost: str) -> pd.DataFrame:
    """Return a table whose announced records are held out, if they name the place of the record before.

    An announced record at a place of its own is one of training, which goes on after the evaluation. `held`
    marks records that are held out, `lost` those with a training loss that is no number.
    """
    if ANNOUNCED not in table:
        return table
    losses = [str(c) for c in table if _is_trained_loss(str(c))]
    rows = np.flatnonzero(table[losses].notna().any(axis=1).to_numpy()) if losses else np.array([], int)
    announced = table[ANNOUNCED].notna().to_numpy()[rows]
    if not announced.any() or announced.sum() > (~announced).sum() + 1:
        return table
    places = [c for c in table if str(c).startswith(HIDDEN) and c not in (ANNOUNCED, held, lost)]
    where = table[places].iloc[rows].astype(float)
    same = _repeats(where.to_numpy(), announced)
    follows = np.r_[False, ~announced[:-1]]
    after, other = same[announced & follows], same[~announced]
    if (len(after) and after.mean() <= _MOSTLY) or (len(other) and other.mean() > _MOSTLY):
        return table
    at = rows[announced]
    table = _moved(table, losses, at, held)
    if lost in table:
        table.loc[table.index[at], lost] = np.nan
    return table


def _repeats(where: np.ndarray, announced: np.ndarray) -> np.ndarray:
    """Return which records stand at the place of the last one before that is not announced, or at none."""
    same = np.zeros(len(where), bool)
    before: np.ndarray | None = None
    for row, (place, is_announced) in enumerate(zip(where, announced, strict=True)):
        if before is not None:
            finite = ~np.isnan(place)
            same[row] = bool((place[finite] == before[finite]).all())
        before = before if is_announced else place
    return same


def _is_trained_loss(name: str) -> bool:
    meant = phrase(name) if not name.startswith(HIDDEN) and not is_nan_column(name) else None
    return meant is not None and meant.kind == LOSS and not meant.held_out


def prefixed(names: Collection[str], loss: str) -> str:
    """Return the name of the held-out loss that is the loss's with `v_` before it; empty if there is none.

    `v_loss` is held out if another quantity stands with and without `v_`, too, or if there is no other loss
    and no word of a policy.

    >>> prefixed(["loss", "v_loss", "kl", "v_kl"], "loss"), prefixed(["loss", "v_loss", "entropy"], "loss")
    ('v_loss', '')
    """
    name = next((plain_name for plain_name in names if plain_name.lower() == _PREFIX + loss.lower()), "")
    if not name:
        return ""
    plain = {plain_name.lower() for plain_name in names}
    if sum(_PREFIX + plain_name in plain for plain_name in plain) > 1:
        return name
    others = [plain_name for plain_name in names if plain_name not in (name, loss)]
    alone = not any(phrase(plain_name).kind == LOSS for plain_name in others)
    return (
        name
        if alone and not any(word in plain_name.lower() for plain_name in others for word in _POLICY)
        else ""
    )
