"""The judgement of the runs of a store by their logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from toposcope.core.observations import AuditFinding
from toposcope.rules.judgement import TOO_EARLY, Judgement
from toposcope.rules.replaying import Replays
from toposcope.runs.judging import counted, judged

if TYPE_CHECKING:
    from toposcope.store import Store
    from toposcope.watch.loss_health import StoredLog


def judged_runs(
    store: Store,
    logs: Iterable[StoredLog],
    replays: Replays | None = None,
    audit: Sequence[AuditFinding] | None = None,
) -> Mapping[str, Judgement]:
    """Return the judgement of each run of a store that has losses, the same as from `toposcope check`.

    `logs` are those of the store, as `logs_of` reads them; `replays` caches replayed logs. `audit` has the
    store's findings, if already read.
    Runs for which it is too early to judge are left out: a watch judges them again when there is more data.
    """
    audit, steps = store.audited() if audit is None else audit, store.measured_steps()
    judgements = {}
    for log in logs:
        if log.column not in log.rows or not log.rows[log.column].notna().any():
            continue
        judgement = judged(
            log.rows, log.column, log.curve, log.remarks,
            count=counted(log.rows, log.column, of_log=log.run not in steps),
            audit=[finding for finding in audit if log.run in finding.every_run],
            last_checkpoint=max(steps.get(log.run, ()), default=None),
            wrong=log.wrong,
            replays=replays,
        )  # fmt: skip
        judgements[log.run] = replace(
            judgement, grounds=tuple(g for g in judgement.grounds if g.kind != TOO_EARLY)
        )
    return judgements
