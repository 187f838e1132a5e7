"""One judgement of a run, on three levels, from what the rules of its log say and from its audit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from toposcope.logs.remarks import LOOK, NOT_FINITE, NOT_JUDGED, NOTICED, STOP, Remark
from toposcope.rules.registry import once
from toposcope.rules.rises import FEWEST

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.core.observations import AuditFinding
    from toposcope.logs.curve import Curve

ALL_RIGHT = "all right"
LEVELS = (ALL_RIGHT, NOT_JUDGED, LOOK, STOP)
"""The levels of a run, from best to worst; one without a log is not judged, unless its audit has a fault."""

TOO_EARLY = "too early"
"""A reason that disappears with time; a watch does not report it."""
NO_LOSS = "no loss"
"""The kind of a run without a finite loss."""
UNREAD = "log"
"""The kind of what is wrong with a run's log itself."""
_NON_FINITE = "non-finite"
"""The audit's fault of weights that are not finite."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of a run: its grounds, worst first, and what was only noticed."""

    grounds: tuple[Remark, ...] = ()
    noticed: tuple[Remark, ...] = ()

    @property
    def level(self) -> str:
        """The worst level that a ground asks for; "all right" without a ground."""
        return worst(ground.level for ground in self.grounds)

    def beside(self, ground: Remark) -> Judgement:
        """Return the judgement with one more ground, worst first."""
        grounds = sorted((*self.grounds, ground), key=lambda remark: -LEVELS.index(remark.level))
        return Judgement(tuple(grounds), self.noticed)

    def with_remedy(self, kind: str, remedy: str) -> Judgement:
        """Return the judgement with another remedy for the grounds of a kind."""
        grounds = [
            replace(ground, remedy=remedy) if ground.kind == kind else ground for ground in self.grounds
        ]
        return Judgement(tuple(grounds), self.noticed)


JudgeOfLog: TypeAlias = "Callable[[pd.DataFrame, str, Curve | None, Sequence[Remark]], Judgement]"
"""Judges a run by its log: rows, the column of the loss, the curve (None: too short), and the remarks."""


def worst(levels: Iterable[str]) -> str:
    """Return the worst of some levels; "all right" if there are none.

    >>> worst(["look", "stop", "all right"]), worst([])
    ('stop', 'all right')
    """
    return max(levels, key=LEVELS.index, default=ALL_RIGHT)


def judge(
    remarks: Sequence[Remark] = (),
    replayed: Sequence[Remark] = (),
    audit: Sequence[AuditFinding] = (),
    *,
    losses: int,
    lost: int = 0,
    last_checkpoint: int | None = None,
    wrong: Sequence[str] = (),
    logged: bool = True,
) -> Judgement:
    """Return the judgement of a run from everything that was found.

    | found | level |
    | --- | --- |
    | what a rule of the log says | that of the remark |
    | an alarm that has not passed | look |
    | an alarm that has passed; a remark of the audit | noticed |
    | logged losses of which none is finite | stop |
    | the weights of the last checkpoint are not finite | stop |
    | any other fault that the audit found; something wrong with the log | look |
    | no loss in its log, or fewer than six | look |
    | no log | not judged |

    Parameters
    ----------
    remarks
        What the rules that look at both sides say of the log (`registry.remarks_on`).
    replayed
        The alarms of a watch over the log (`replay.replay`).
    audit
        What the audit of its checkpoints says.
    losses
        Finite losses in the log.
    lost
        Logged losses that are not finite.
    last_checkpoint
        The step of its last checkpoint.
    wrong
        What else is wrong with its log.
    logged
        Whether it has a log.

    Examples
    --------
    >>> spike = Remark(NOTICED, "loss spike", 40, "loss spike at step 40, back by step 48", passed=48)
    >>> judged = judge(replayed=[spike], losses=90)
    >>> judged.level, [one.kind for one in judged.noticed]
    ('all right', ['loss spike'])
    """
    all_remarks = [*_of_counts(losses, lost, logged=logged), *once(remarks, replayed)]
    all_remarks += [_of_audit(finding, last_checkpoint) for finding in audit]
    all_remarks += [Remark(LOOK, UNREAD, None, text) for text in wrong]
    grounds = [remark for remark in all_remarks if remark.level != NOTICED]
    # A fault is said before that there are too few losses to look for others.
    grounds.sort(key=lambda remark: (-LEVELS.index(remark.level), remark.kind in (TOO_EARLY, NO_LOSS)))
    return Judgement(tuple(grounds), tuple(remark for remark in all_remarks if remark.level == NOTICED))


def _of_counts(losses: int, lost: int, *, logged: bool) -> list[Remark]:
    if lost and not losses:
        text = "the only logged loss is not finite" if lost == 1 else f"none of the {lost:,} losses is finite"
        return [Remark(STOP, NOT_FINITE, None, text, "start again, with a lower rate")]
    if not losses and not logged:
        return [Remark(NOT_JUDGED, NO_LOSS, None, "no log", "put its log into the folder")]
    if not losses:
        return [Remark(LOOK, NO_LOSS, None, "no finite loss is logged", "put its log into the folder")]
    if losses < FEWEST:
        count = "1 loss is" if losses == 1 else f"{losses:,} losses are"
        return [Remark(LOOK, TOO_EARLY, None, f"only {count} logged: too few to judge", "look again later")]
    return []


_BACK = "go back to step"
"""How the audit names the last good checkpoint, which need not be the one before."""


def _of_audit(finding: AuditFinding, last: int | None) -> Remark:
    steps = finding.steps or (() if finding.step is None else (finding.step,))
    at_end = finding.fault == _NON_FINITE and last is not None and last in steps
    at = "" if finding.step is None else f" at step {finding.step:,}"
    tensor = f" {finding.tensor}" if finding.tensor else ""
    what = "checkpoint" if steps else "audit"
    message, _, stated = finding.message.partition("; ") if at_end else (finding.message, "", "")
    sentence = f"{what}{at}:{tensor} {message}"
    if finding.is_remark:
        return Remark(NOTICED, finding.fault, finding.step, sentence)
    before = stated if stated.startswith(_BACK) else "go back to a checkpoint before it"
    remedy = before if at_end else "do not resume from it until it is repaired"
    told = finding.message.partition("; so ")[0]  # what follows says how often, not what to do
    states_remedy = not steps or ("; " in told and not at_end)
    return Remark(
        STOP if at_end else LOOK, finding.fault, finding.step, sentence, "" if states_remedy else remedy
    )
