"""One judgement of a run, on three levels, from its health, its alarms and its audit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from toposcope.core.forms import step_text
from toposcope.core.observations import AuditFinding
from toposcope.rules.assess import BROKEN, GAP, Symptom
from toposcope.rules.rises import FEWEST

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.logs.curve import Curve

ALL_RIGHT, LOOK, STOP = "all right", "look", "stop"
LEVELS = (ALL_RIGHT, LOOK, STOP)
"""From best to worst."""

LOSS_LOST = "loss not finite"
"""The alarm that two symptoms of health report, too; it is reported once."""
PLATEAU = "plateau"
"""A symptom that leaves a choice: a lower rate may still help, and the log may not state a planned decay."""
_NOT_FINITE = "non-finite"
TOO_EARLY = "too early"
"""A reason that disappears with time; a watch does not report it."""


@dataclass(frozen=True, slots=True)
class Alarmed:
    """An alarm of a watch over a log: its test, step and sentence, when it passed, and what to do.

    `passed` is None if the series is not back yet.
    """

    test: str
    step: float
    sentence: str
    passed: float | None = None
    remedy: str = ""


NO_LOSS = "no loss"
"""The kind of a run without a finite loss."""


@dataclass(frozen=True, slots=True)
class Ground:
    """A reason for a judgement: the level, what found it, the step, and what to do."""

    level: str
    kind: str
    step: float | None
    sentence: str
    remedy: str = ""

    def __str__(self) -> str:
        """Return what is wrong, and what to do."""
        return f"{self.sentence}; {self.remedy}" if self.remedy else self.sentence

    @property
    def named(self) -> str:
        """Its kind, what is wrong, and what to do; an alarm's sentence begins with its kind."""
        return str(self) if self.sentence.startswith(self.kind) else f"{self.kind}: {self}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of a run: its grounds, worst first, and what was only noticed."""

    grounds: tuple[Ground, ...] = ()
    noticed: tuple[Ground, ...] = ()

    @property
    def level(self) -> str:
        """The worst level that a ground asks for; "all right" without a ground."""
        return worst(ground.level for ground in self.grounds)

    def beside(self, ground: Ground) -> Judgement:
        """Return the judgement with one more ground, worst first."""
        grounds = sorted((*self.grounds, ground), key=lambda one: -LEVELS.index(one.level))
        return Judgement(tuple(grounds), self.noticed)

    def with_remedy(self, kind: str, remedy: str) -> Judgement:
        """Return the judgement with another remedy for the grounds of a kind."""
        grounds = [replace(one, remedy=remedy) if one.kind == kind else one for one in self.grounds]
        return Judgement(tuple(grounds), self.noticed)


JudgeOfLog: TypeAlias = "Callable[[pd.DataFrame, str, Curve | None, Sequence[Symptom]], Judgement]"
"""Judges a run by its log: rows, the column of the loss, the curve (None: too short), and the symptoms."""


def worst(levels: Iterable[str]) -> str:
    """Return the worst of some levels; "all right" if there are none.

    >>> worst(["look", "stop", "all right"]), worst([])
    ('stop', 'all right')
    """
    return max(levels, key=LEVELS.index, default=ALL_RIGHT)


def judge(
    symptoms: Sequence[Symptom] = (),
    alarms: Sequence[Alarmed] = (),
    audit: Sequence[AuditFinding] = (),
    *,
    losses: int,
    lost: int = 0,
    ended: bool = False,
    last_checkpoint: int | None = None,
    wrong: Sequence[str] = (),
) -> Judgement:
    """Return the judgement of a run from everything that was found.

    | found | level |
    | --- | --- |
    | the last losses are not finite, or none is; the loss diverges | stop |
    | the learning rate has ended while steps are left | stop |
    | the weights of the last checkpoint are not finite | stop |
    | a plateau of a run that has not ended; three spikes or more | look |
    | losses that were not finite for a while | look |
    | an alarm that has not passed | look |
    | any other finding of the audit; something wrong with the log | look |
    | no loss, or fewer than six | look |
    | an alarm that has passed; a plateau of a run that has ended | noticed |

    Any other grave symptom means stop, any other one look.

    Parameters
    ----------
    symptoms
        What `health` says about the log.
    alarms
        The alarms of a watch over the log (`watch.replay`).
    audit
        What the audit of its checkpoints says.
    losses
        Finite losses in the log.
    lost
        Logged losses that are not finite.
    ended
        Whether the run has reached its planned end.
    last_checkpoint
        The step of its last checkpoint.
    wrong
        What else is wrong with its log.

    Examples
    --------
    >>> judged = judge(alarms=[Alarmed("loss spike", 40, "loss is 9 where 3 was expected", 48)], losses=90)
    >>> judged.level, [one.sentence for one in judged.noticed]
    ('all right', ['loss spike at step 40 (loss is 9 where 3 was expected), back to normal by step 48'])
    """
    found = [*_of_counts(losses, lost), *(_of_symptom(one, ended=ended) for one in symptoms)]
    lost_known = any(one.kind in (BROKEN[0], GAP) for one in symptoms)
    found += [_of_alarm(one) for one in alarms if not (lost_known and one.test == LOSS_LOST)]
    found += [_of_audit(one, last_checkpoint) for one in audit]
    found += [Ground(LOOK, "log", None, text) for text in wrong]
    grounds = [one for one in found if one.level != ALL_RIGHT]
    grounds.sort(key=lambda one: -LEVELS.index(one.level))
    return Judgement(tuple(grounds), tuple(one for one in found if one.level == ALL_RIGHT))


def back_by(step: float) -> str:
    """Return the words for an alarm that passed by a step.

    >>> back_by(2048)
    'back to normal by step 2,048'
    """
    return f"back to normal by step {step_text(step)}"


def _of_counts(losses: int, lost: int) -> list[Ground]:
    if lost and not losses:
        text = "the only logged loss is not finite" if lost == 1 else f"none of the {lost:,} losses is finite"
        return [Ground(STOP, BROKEN[0], None, text, "start again, with a lower rate")]
    if not losses:
        return [Ground(LOOK, NO_LOSS, None, "no finite loss is logged", "put its log into the folder")]
    if losses < FEWEST:
        count = "1 loss is" if losses == 1 else f"{losses:,} losses are"
        return [Ground(LOOK, TOO_EARLY, None, f"only {count} logged: too few to judge", "look again later")]
    return []


def _of_symptom(one: Symptom, *, ended: bool) -> Ground:
    level = STOP if one.grave else LOOK
    if one.kind == PLATEAU:
        level = ALL_RIGHT if ended else LOOK
    return Ground(level, one.kind, one.step, one.ground, "" if level == ALL_RIGHT else one.remedy)


def _of_alarm(one: Alarmed) -> Ground:
    said = f"{one.test} at step {step_text(one.step)} ({one.sentence})"
    if one.passed is not None:
        return Ground(ALL_RIGHT, one.test, one.step, f"{said}, {back_by(one.passed)}")
    return Ground(LOOK, one.test, one.step, f"{said}, not back yet", one.remedy)


def _of_audit(one: AuditFinding, last: int | None) -> Ground:
    steps = one.steps or (() if one.step is None else (one.step,))
    at_end = one.fault == _NOT_FINITE and last is not None and last in steps
    at = "" if one.step is None else f" at step {one.step:,}"
    tensor = f" {one.tensor}" if one.tensor else ""
    what = "checkpoint" if steps else "audit"
    sentence = f"{what}{at}:{tensor} {one.message}"
    remedy = "go back to a checkpoint before it" if at_end else "do not resume from it until it is repaired"
    states_remedy = not steps or ("; " in one.message and not at_end)
    return Ground(STOP if at_end else LOOK, one.fault, one.step, sentence, "" if states_remedy else remedy)
