"""The judgement of a run by its log, the same in every command: its health and the replayed alarms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from toposcope.logs.remarks import Remark
from toposcope.logs.run import nan_column
from toposcope.rules.judged_run import JudgedRun, trained
from toposcope.rules.judgement import Judgement, judge
from toposcope.rules.replaying import Replays
from toposcope.rules.rises import FEWEST

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.core.observations import AuditFinding
    from toposcope.forecasting import Curve

_BESIDE = ("learning_rate", "grad_norm")


def judged(
    rows: pd.DataFrame,
    column: str,
    curve: Curve | None,
    remarks: Sequence[Remark] | None = None,
    *,
    count: LossCount | None = None,
    audit: Sequence[AuditFinding] = (),
    last_checkpoint: int | None = None,
    wrong: Sequence[str] = (),
    replays: Replays | None = None,
) -> Judgement:
    """Return the judgement of one run by the rows of its log.

    Parameters
    ----------
    rows
        Its log, a row for each logged step; empty if there is no log.
    column
        The loss to judge.
    curve
        Its loss curve; None if the log is too short for one.
    remarks
        What `remarks_of` returns, if already known.
    count
        What `counted` returns; by default that of a log.
    audit
        What the audit of its checkpoints says.
    last_checkpoint
        The step of its last checkpoint.
    wrong
        What else is wrong with its log.
    replays
        Caches replayed logs.

    Examples
    --------
    >>> import pandas as pd
    >>> step = np.arange(1, 401)
    >>> loss = np.where(step > 300, 9.0, 2 + 5 / np.sqrt(step))
    >>> judged(pd.DataFrame({"step": step, "loss": loss}), "loss", None).level
    'stop'
    """
    from toposcope.runs.log_results import remarks_of, run_of

    losses, lost = count or counted(rows, column)
    trend = not losses or not JudgedRun.of(rows, column=column).policy
    return judge(
        remarks_of(curve, rows, column) if remarks is None else remarks,
        (replays or Replays())(_replayed(rows, column), run_of(rows), trend=trend) if losses else (),
        audit,
        losses=losses, lost=lost, last_checkpoint=last_checkpoint,
        wrong=wrong if losses >= FEWEST else (), logged=len(rows) > 0,
    )  # fmt: skip


class LossCount(NamedTuple):
    """How many losses are finite, and how many training rows have no finite loss."""

    finite: int
    lost: int


def counted(rows: pd.DataFrame, column: str, *, of_log: bool = True) -> LossCount:
    """Return how many losses a run has and how many it lacks.

    `of_log` says that a log was read for its losses. With checkpoints alone, an empty column may mean that
    no losses were kept.
    """
    if column not in rows or not len(rows):
        return LossCount(0, 0)
    finite = np.isfinite(rows[column].to_numpy(float, na_value=np.nan))
    lost = int((~finite & trained(rows, column)).sum())
    return LossCount(int(finite.sum()), lost if of_log or finite.any() else 0)


def _replayed(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the columns that a watch reads from a log, with the judged loss as its loss."""
    beside = (*_BESIDE, "heldout_loss") if column == "loss" else _BESIDE
    columns_kept = rows[["step", *(name for name in beside if name in rows), column]]
    columns_kept = columns_kept.rename(columns={column: "loss"})
    if columns_kept["loss"].dtype != float:  # assigned columns are copied
        columns_kept = columns_kept.assign(loss=rows[column].to_numpy(float, na_value=np.nan))
    if nan_column(column) in rows:
        columns_kept[nan_column("loss")] = rows[nan_column(column)]
    return columns_kept
