"""The answer of a check for one run: what to do and why, where the run will end, what was not checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from toposcope.core.forms import listed, sentences, step_text
from toposcope.core.wording import option
from toposcope.forecasting.ends import where_it_ends
from toposcope.logs.remarks import NOT_JUDGED, PLATEAU
from toposcope.rules.judgement import ALL_RIGHT, Judgement

if TYPE_CHECKING:
    import numpy as np

    from toposcope.forecasting import Forecast
    from toposcope.logs.remarks import Remark
    from toposcope.sources.optimizer.resumption import Resumption

MOST_SHOWN = 3
"""The most runs whose grounds are shown, and the most notices shown for one run."""


_ENDED = "has reached its last step"
_NEXT_TIME = "next time, let the rate decay or stop earlier"


class Logged(NamedTuple):
    """The losses of a run as they were logged: `step` and `loss` (n,)."""

    step: np.ndarray
    loss: np.ndarray


@dataclass(frozen=True)
class RunCheck:
    """The answer for one run: `level` is "all right", "look" or "stop", and `line` says it.

    `name` is what the run is called here, `source` where it was read and `run` its name there. `judgement`
    holds the grounds; `step` and `loss` are the last logged ones, `horizon` the planned last step (None if
    unknown), `ended` whether it was reached. `forecast` is that of `toposcope.forecast`, None where there is
    nothing to forecast. `losses` and `checkpoints` count what was examined, `read` names the columns used as
    step and loss, `unseen` is what was not checked, `limits` are caveats, `logged` is the log. `objective` is
    what the loss is (`logs.objective`), and `without_trend` says it where the loss has no trend. `resume`
    says whether its newest checkpoint can be resumed; None without one.
    """

    name: str
    source: str
    run: str
    judgement: Judgement
    step: float | None
    loss: float | None
    horizon: int | None
    ended: bool
    forecast: Forecast | None
    losses: int
    checkpoints: int
    read: str
    unseen: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    logged: Logged | None = field(default=None, repr=False, compare=False)
    objective: str = "trend"
    without_trend: str = ""
    resume: Resumption | None = None

    @property
    def level(self) -> str:
        """The worst level that a ground asks for."""
        return self.judgement.level

    @property
    def subject(self) -> str:
        """The run, how far it is, and its last loss."""
        if self.step is None:
            return f"{self.name} with {_checkpoints(self.checkpoints)}" if self.checkpoints else self.name
        of = f" of {self.horizon:,}" if self.horizon is not None else ""
        loss = "" if self.loss is None else f" (loss {_number(self.loss)})"
        return f"{self.name} at step {step_text(self.step)}{of}{loss}"

    @property
    def line(self) -> str:
        """The answer in one line: what to do about which run, and why, or where it will end."""
        if self.level == NOT_JUDGED:
            ground = self.judgement.grounds[0]
            return f"{self.level}: {ground.sentence} of {self.subject}; {ground.remedy}"
        if self.level != ALL_RIGHT:
            return f"{self.level}: {self.subject}: {self.judgement.grounds[0]}"
        return f"{self.level}: {self.subject} {self.end}"

    @property
    def end(self) -> str:
        """Where the run will end, in words."""
        if self.without_trend:
            return f"{_ENDED if self.ended else 'has no problem so far'}; {self.without_trend}"
        if self.ended:
            flat = self._flat
            return _ENDED if flat is None else f"{_ENDED}; {flat.sentence}; {_NEXT_TIME}"
        if self.horizon is None:
            return (
                "has no problem so far; its last step is unknown, so give "
                f"{option('horizon')} STEP for a forecast"
            )
        if self.forecast is None:
            return "cannot be forecast, because its steps are not whole numbers"
        return where_it_ends(self.forecast)

    @property
    def _flat(self) -> Remark | None:
        """The plateau on which a run ended; it is too late to act on it."""
        flat = (remark for remark in self.judgement.noticed if remark.kind == PLATEAU)
        return next(flat, None) if self.ended and self.level == ALL_RIGHT else None

    @property
    def lines(self) -> tuple[str, ...]:
        """The answer, then its ground, what was noticed, the forecast, and what was not checked."""
        texts = [self.line, *self.grounds]
        if self.level != ALL_RIGHT and self.without_trend:
            texts.append(f"Loss: {self.without_trend}.")
        elif self.level != ALL_RIGHT and self.forecast is not None:
            texts.append(f"End: it {where_it_ends(self.forecast)}.")
        if self.limits:
            texts.append(f"Limits: {sentences(self.limits)}")
        if self.unseen:
            texts.append(f"Not checked: {', '.join(self.unseen)}.")
        return (*texts, f"Log: {self.read}.") if self.read else tuple(texts)

    @property
    def grounds(self) -> tuple[str, ...]:
        """What the answer rests on, a line for each ground beyond the first; what was noticed comes last."""
        texts = [f"Also: {ground}." for ground in self.judgement.grounds[1:]]
        if self.level == ALL_RIGHT:
            seen = f"{self.losses:,} losses"
            if self.checkpoints:
                seen += f" and {_checkpoints(self.checkpoints)}"
            texts.append(f"Checked: {seen}; no problem was found.")
        if self.resume is not None and self.resume.has_state and not self.resume.faults:
            texts.append(f"Resume: {self.resume.line}.")
        if noticed := [remark for remark in self.judgement.noticed if remark is not self._flat]:
            texts.append(f"Noticed, but no action is needed: {_noticed(noticed)}.")
        return tuple(texts)

    def differs(self, before: RunCheck) -> bool:
        """Say whether the answer has changed: its level, its kinds of grounds, or where the run ends.

        The end has changed if it lies outside the earlier interval. Of alarms that have passed, only their
        number counts.
        """
        kinds, were = ({ground.kind for ground in given.judgement.grounds} for given in (self, before))
        noticed = len(self.judgement.noticed) != len(before.judgement.noticed)
        if (self.level, kinds, self.ended) != (before.level, were, before.ended) or noticed:
            return True
        now, then = self.forecast, before.forecast
        if now is None or then is None:
            return now is not then
        if not math.isfinite(then.low) or not math.isfinite(now.low):
            return math.isfinite(then.low) != math.isfinite(now.low)
        return not then.low <= now.final <= then.high

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        end = self.forecast
        return {
            "run": self.name, "source": self.source, "name": self.run, "level": self.level,
            "answer": self.line, "step": self.step, "planned_steps": self.horizon, "ended": self.ended,
            "loss": self.loss, "objective": self.objective, "losses": self.losses,
            "checkpoints": self.checkpoints,
            "grounds": [ground_as_data(ground) for ground in self.judgement.grounds],
            "noticed": [ground_as_data(remark) for remark in self.judgement.noticed],
            "forecast": None if end is None else {
                "final_loss": end.final, "low": end.low, "high": end.high, "level": end.level,
                "method": end.method, "status": end.status, "reason": end.reason,
                "interval_from": end.interval_from, "used": dict(end.used),
            },
            "limits": list(self.limits), "not_examined": list(self.unseen),
            "read": self.read,
            "resume": None if self.resume is None else self.resume.to_dict(),
        }  # fmt: skip


def ground_as_data(one: Remark) -> dict[str, object]:
    """Return a ground, or what was noticed, as plain data."""
    return {
        "level": one.level, "kind": one.kind, "step": one.step,
        "sentence": one.sentence, "remedy": one.remedy,
    }  # fmt: skip


def _noticed(noticed: Sequence[Remark]) -> str:
    return listed([remark.sentence for remark in noticed], "; ", most=MOST_SHOWN, last="; ")


def _number(value: float) -> str:
    return f"{value:.4g}"


def _checkpoints(count: int) -> str:
    return f"{count:,} checkpoint{'s' * (count > 1)}"
