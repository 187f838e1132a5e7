"""A matrix or head that moved beyond its own history."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING

from toposcope.statistics.alarms.panel import Judged, Panel
from toposcope.subjects.optimizer.features import EFFECTIVE_RATE, UPDATE_RMS
from toposcope.subjects.weights import features as of
from toposcope.watch.alarms.base import Alarm, Alert, Culprit, CulpritKind, SeenCheckpoint, Watched
from toposcope.watch.alarms.not_finite import OWN

if TYPE_CHECKING:
    import pandas as pd

NOISE = 0.05
"""If the corrected p-value of the largest move exceeds this, no move counts as above the noise."""

NAMED = 2.0
"""Moves below this many of their own standard deviations are not named beside another culprit."""

_PANEL = (
    of.UPDATE_RELATIVE.name, *(f"{of.UPDATE_RELATIVE.name}_{part}" for part in "qkvo"),
    of.UPDATE_ROW_MAX.name, of.UPDATE_ENTROPY.name, of.QK_NORM.name, of.OV_NORM.name,
    UPDATE_RMS.name, EFFECTIVE_RATE.name,
)  # fmt: skip
_ENTROPIES = (of.UPDATE_ENTROPY.name,)

Key = tuple[str, int, str]
"""Name of the matrix, head (-1: none), feature."""


class MatrixOrHead(Alarm):
    """A number of one matrix or head moved as the others of its kind did not.

    It is an update, a largest row, a spectral entropy, or a QK or OV product, less the move of its kind.

    Where the optimiser's moments are kept, also the update that they make and its rate: these jump before the
    weights do.

    A matrix of which rows are used for the first time begins a new history.
    """

    test = "matrix or head"
    share = 2.0
    next = "compare this checkpoint with the one before{compared}"

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._panel: Panel[Key] = Panel()

    def on_checkpoint(self, checkpoint: SeenCheckpoint) -> list[Alert]:
        """Judge every matrix and head, and name those that moved."""
        assert checkpoint.rows is not None
        values = _panel_values(checkpoint.rows, checkpoint.updates)
        for key in values:
            if key[0] in checkpoint.woken:
                self._panel.forget(key)
        judged = self._panel.update(values)
        if judged is None:
            return []
        checkpoint.compared = True
        checkpoint.culprits += _moved(judged)
        if judged.p > self.spending.level():
            return []
        first = judged.moves[0]
        (name, head, feature), sizes = first.key, abs(first.size)
        who = f"{name}{'' if head < 0 else f' head {head}'} ({feature})"
        return self.alarm_once(checkpoint.step, f"{who} moved by {sizes:.0f} standard deviations", p=judged.p)


def _moved(judged: Judged[Key]) -> list[Culprit]:
    """Return the matrices and heads that moved by at least two of their standard deviations."""
    culprits = []
    for move in judged.moves:
        if abs(move.size) < NAMED:
            break  # the largest come first
        name, head, feature = move.key
        before, now = _unlog(feature, move.before), _unlog(feature, move.now)
        line = {
            "name": name, "head": None if head < 0 else head, "feature": feature, "before": before,
            "now": now, "size": move.size,
            "sentence": f"{'' if head < 0 else f'head {head}: '}{feature} {before:.3g} -> {now:.3g} "
            f"({move.size:+.1f} of its own standard deviations)",
        }  # fmt: skip
        culprits.append(Culprit(CulpritKind.MOVE, name, line, head, abs(move.size), judged.p > NOISE))
    return culprits


def _panel_values(rows: pd.DataFrame, updates: int) -> dict[Key, tuple[Hashable, float]]:
    """Return the logarithms of what is followed; a move of weights is divided by the number of updates."""
    part = rows[rows["feature"].isin(_PANEL) & rows["scope"].isin(OWN) & rows["draw"].isna()]
    heads = part["head"].fillna(-1).astype(int)
    values_by_key: dict[Key, tuple[Hashable, float]] = {}
    for name, head, feature, value, scope in zip(
        part["name"], heads, part["feature"], part["value"], part["scope"], strict=True
    ):
        if feature not in _ENTROPIES:
            over = updates if feature.startswith(of.UPDATE_RELATIVE.name) else 1
            value = math.log(value / over) if value > 0 else math.nan
        values_by_key[name, head, feature] = ((feature, scope), value)
    return values_by_key


def _unlog(feature: str, value: float) -> float:
    return value if feature in _ENTROPIES else math.exp(value)
