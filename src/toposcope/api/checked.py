"""What a check answers: a line for each run that one can act on, its ground, and what was not checked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toposcope.api.bounds import WIDE
from toposcope.core.forms import chance, near, sentences
from toposcope.core.tabular import Tables, answered
from toposcope.core.wording import option, rendered
from toposcope.forecasting.health.judgement import ALL_RIGHT, LEVELS, LOOK, STOP, Judgement, written

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from toposcope.api.checking import Logged
    from toposcope.forecasting import Forecast
    from toposcope.forecasting.health.judgement import Ground
    from toposcope.study.findings import Finding

MOST_TOLD = 3
"""Runs of several whose grounds are told."""
_MOST_NAMED, _MOST_SHARED = 5, 3
_COLUMNS = ("run", "answer", "step", "of", "loss", "end", "low", "high", "ground")


@dataclass(frozen=True)
class RunCheck:
    """The answer for one run: `level` is "all right", "look" or "stop", and `line` says it.

    `name` is what the run is called here, `source` where it was read and `run` its name there. `judgement`
    holds the grounds; `step` and `loss` are the last logged ones, `horizon` the step at which the run is to
    end (None where nothing says it), `ended` whether it has. `forecast` is that of `toposcope.forecast`, None
    where there is nothing to forecast. `losses` and `checkpoints` are how many were looked at, `read` what
    was taken as step and loss, `unseen` what was not checked, `limits` what else to know, `logged` the log.
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
        return f"{self.name} at step {written(self.step)}{of}{loss}"

    @property
    def line(self) -> str:
        """The answer in one line: what to do, about what, and why or where it will end."""
        if self.level != ALL_RIGHT:
            return f"{self.level}: {self.subject}: {self.judgement.grounds[0]}"
        return f"{self.level}: {self.subject} {self.end}"

    @property
    def end(self) -> str:
        """Where the run will end, in words."""
        if self.ended:
            return "has reached its last step"
        if self.horizon is None:
            return rendered(
                "has no problem so far; its last step is unknown, so give "
                f"{option('horizon')} STEP for a forecast"
            )
        if self.forecast is None:
            return "cannot be forecast, because its steps are not whole numbers"
        return _end(self.forecast)

    @property
    def lines(self) -> tuple[str, ...]:
        """The answer, then its ground, what was noticed, the forecast, and what was not checked."""
        found = [self.line, *self.grounds]
        if self.level != ALL_RIGHT and self.forecast is not None:
            found.append(f"End: it {_end(self.forecast)}.")
        if self.limits:
            found.append(f"Limits: {sentences(self.limits)}")
        if self.unseen:
            found.append(f"Not checked: {', '.join(self.unseen)}.")
        return (*found, f"Log: {self.read}.")

    @property
    def grounds(self) -> tuple[str, ...]:
        """What the answer rests on, a line for each ground beyond the first; what was noticed comes last."""
        found = [f"Also: {ground}." for ground in self.judgement.grounds[1:]]
        if self.level == ALL_RIGHT:
            seen = f"{self.losses:,} losses"
            if self.checkpoints:
                seen += f" and {_checkpoints(self.checkpoints)}"
            found.append(f"Checked: {seen}; no problem was found.")
        if noticed := self.judgement.noticed:
            found.append(f"Noticed, but no action is needed: {_noticed(noticed)}.")
        return tuple(found)

    def differs(self, before: RunCheck) -> bool:
        """Say whether the answer is another one: its level, its kinds of grounds, or where the run ends.

        Another end is one outside the interval of before. Of what passed by itself the number counts.
        """
        kinds, were = ({one.kind for one in given.judgement.grounds} for given in (self, before))
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
        made = self.forecast
        return {
            "run": self.name, "source": self.source, "name": self.run, "level": self.level,
            "answer": self.line, "step": self.step, "planned_steps": self.horizon, "ended": self.ended,
            "loss": self.loss, "losses": self.losses, "checkpoints": self.checkpoints,
            "grounds": [_ground(one) for one in self.judgement.grounds],
            "noticed": [_ground(one) for one in self.judgement.noticed],
            "forecast": None if made is None else {
                "final_loss": made.final, "low": made.low, "high": made.high, "level": made.level,
                "method": made.method, "status": made.status, "reason": made.reason,
                "interval_from": made.interval_from, "used": dict(made.used),
            },
            "limits": list(self.limits), "not_looked_at": list(self.unseen),
            "read": self.read,
        }  # fmt: skip


@dataclass(frozen=True)
class Check:
    """The answer for every run that was given, worst first: printed, it begins with what one can act on.

    `runs` holds a `RunCheck` each, `problems` what could not be read, `notes` what else was left out.
    """

    runs: tuple[RunCheck, ...]
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def level(self) -> str:
        """The worst level of any run."""
        return max((one.level for one in self.runs), key=LEVELS.index)

    @property
    def ok(self) -> bool:
        """Whether every run is all right and everything could be read."""
        return self.level == ALL_RIGHT and not self.problems

    def differs(self, before: Check | None) -> bool:
        """Say whether the answer is another one than before: of any run, or in what could not be read."""
        if before is None or self.problems != before.problems:
            return True
        known = {one.name: one for one in before.runs}
        if known.keys() != {one.name for one in self.runs}:
            return True
        return any(one.differs(known[one.name]) for one in self.runs)

    @property
    def line(self) -> str:
        """The answer in one line."""
        bad = len(self.problems)
        more = f"; {bad} problem{'s' * (bad > 1)} with the input, named below" if bad else ""
        return (self.runs[0].line if len(self.runs) == 1 else self._summary()) + more

    def _summary(self) -> str:
        counts = Counter(one.level for one in self.runs)
        total = len(self.runs)
        if counts[ALL_RIGHT] == total:
            ended = sum(one.ended for one in self.runs)
            unknown = sum(one.horizon is None for one in self.runs)
            ways = (
                (ended, "finished"), (total - ended - unknown, "under way"),
                (unknown, "without a known last step"),
            )  # fmt: skip
            said = ", ".join(f"{count} {what}" for count, what in ways if count)
            return f"{ALL_RIGHT}: {total} of {total} runs ({said})"
        parts: list[str] = []
        for level, what in ((STOP, "to stop"), (LOOK, "to look at")):
            if counts[level]:
                names = [one.name for one in self.runs if one.level == level]
                of = "" if parts else f" of {total} runs"
                parts.append(f"{counts[level]}{of} {what} ({_named(names)})")
        parts.append(f"{counts[ALL_RIGHT]} all right")
        return f"{self.level}: {', '.join(parts)}"

    @property
    def lines(self) -> tuple[str, ...]:
        """The answer, then the grounds of the worst few runs, then what holds for several."""
        if len(self.runs) == 1:
            return (self.line, *self.runs[0].lines[1:], *self._told())
        worst = [one for one in self.runs if one.level != ALL_RIGHT]
        found = [self.line]
        for one in worst[:MOST_TOLD]:
            found += [one.line, *(f"  {ground}" for ground in one.grounds)]
        if len(worst) > MOST_TOLD:
            found.append(f"The table has the reasons of the other {len(worst) - MOST_TOLD}.")
        if noticed := sum(len(one.judgement.noticed) for one in self.runs):
            found.append(f"Noticed: {noticed} passing events over all runs; no action is needed.")
        found += _shared("Limits", [one.limits for one in self.runs], least=2, whole=True)
        found += _shared("Not checked", [one.unseen for one in self.runs])
        found += _shared("Log", [(one.read,) for one in self.runs])
        return (*found, *self._told())

    def _told(self) -> list[str]:
        return [*(f"problem: {one}" for one in self.problems), *(f"note: {one}" for one in self.notes)]

    @property
    def table(self) -> pd.DataFrame:
        """A row for each run, worst first: its answer, how far it is, where it will end, and why."""
        import pandas as pd

        return pd.DataFrame([_row(one) for one in self.runs], columns=list(_COLUMNS))

    @property
    def cells(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """The columns and rows of the table that is printed; grounds only where there are some."""
        columns = ("run", "answer", "step", "of", "loss", "where it ends", "reason")
        rows: list[tuple[object, ...]] = [
            (
                one.name, one.level, None if one.step is None else written(one.step),
                None if one.horizon is None else f"{one.horizon:,}", one.loss, _short_end(one),
                "; ".join(ground.sentence for ground in one.judgement.grounds),
            )
            for one in self.runs
        ]  # fmt: skip
        return (columns, rows) if any(row[-1] for row in rows) else (columns[:-1], [row[:-1] for row in rows])

    @property
    def tables(self) -> Tables:
        """`table` under the name "runs", and every ground and every notice under "grounds"."""
        return Tables(runs=lambda: self.table, grounds=self._grounds)

    def _grounds(self) -> pd.DataFrame:
        import pandas as pd

        rows = [
            {"run": one.name, **_ground(ground)}
            for one in self.runs
            for ground in (*one.judgement.grounds, *one.judgement.noticed)
        ]
        return pd.DataFrame(rows, columns=["run", "level", "kind", "step", "sentence", "remedy"])

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Whether each run is all right, with its forecast and its grounds in numbers."""
        from toposcope.study.findings import Finding

        return tuple(Finding("on", one.level, one.to_dict(), left_out=tuple(one.unseen)) for one in self.runs)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw each run's loss with what was found on it, and its forecast to the end; return the axes."""
        from toposcope.api.drawn_check import drawn
        from toposcope.page.figures.checked_runs import draw_checked

        return draw_checked([drawn(one) for one in self.runs], ax)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "answer": self.line, "level": self.level, "ok": self.ok,
            "runs": [one.to_dict() for one in self.runs],
            "problems": list(self.problems), "notes": list(self.notes),
        }  # fmt: skip

    def __repr__(self) -> str:
        """Return the answer, its ground, and what was not checked."""
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        return answered(repr(self), self.table if len(self.runs) > 1 else None, self.plot)


def worst_first(runs: Iterable[RunCheck]) -> tuple[RunCheck, ...]:
    """Return runs by their level, the worst first, else in the order that they were given."""
    return tuple(sorted(runs, key=lambda one: -LEVELS.index(one.level)))


def _row(one: RunCheck) -> tuple[object, ...]:
    made = one.forecast
    ill = made is None or one.level == STOP
    end = (math.nan,) * 3 if ill or made is None else (made.final, made.low, made.high)
    grounds = "; ".join(ground.sentence for ground in one.judgement.grounds)
    return (one.name, one.level, one.step, one.horizon, one.loss, *end, grounds)


def _ground(one: Ground) -> dict[str, object]:
    return {
        "level": one.level if one.level != ALL_RIGHT else "noticed", "kind": one.kind, "step": one.step,
        "sentence": one.sentence, "remedy": one.remedy,
    }  # fmt: skip


def _noticed(noticed: Sequence[Ground]) -> str:
    named = "; ".join(one.sentence for one in noticed[:MOST_TOLD])
    left = len(noticed) - MOST_TOLD
    return f"{named}; and {left} more" if left > 0 else named


def _end(made: Forecast) -> str:
    """Return where a forecast says that a run ends, and how sure it is."""
    if made.status == "failed":
        return f"cannot be forecast: {made.reason}"
    final, low, high = near(made.final, made.low, made.high)
    if not math.isfinite(made.low):
        return "cannot be forecast yet: no interval can be given"
    if made.status == "ill":
        return f"would end near {final} without this problem ({low} to {high})"
    if made.high > WIDE * made.low:
        return (
            f"cannot be forecast yet: its final loss may be anything from {made.low:.2g} to {made.high:.2g}"
        )
    if made.status == "no plan":
        sure = "unsure" if made.coverage.startswith("not") else made.coverage
        return f"may end near {final} ({low} to {high} without a plan of the learning rate; {sure})"
    return f"should end near {final} ({chance(made.level)}: {low} to {high})"


def _short_end(one: RunCheck) -> str:
    """Return where a run ends as a cell of a table."""
    made = one.forecast
    if made is None:
        return "has ended" if one.ended else "not known"
    if one.level == STOP or made.status in ("failed", "ill"):
        return ""
    final, low, high = near(made.final, made.low, made.high)
    if not made.high <= WIDE * made.low:
        return "too early to say"
    return f"{final} ({low} to {high}{', unsure' if made.status == 'no plan' else ''})"


def _number(value: float) -> str:
    return f"{value:.4g}"


def _checkpoints(count: int) -> str:
    return f"{count:,} checkpoint{'s' * (count > 1)}"


def _named(names: Sequence[str]) -> str:
    left = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {left} more" if left > 0 else "")


def _shared(
    title: str, of_runs: Sequence[Sequence[str]], least: int = 1, *, whole: bool = False
) -> list[str]:
    """Return what is said of `least` runs or more once, with their number; `whole` as sentences."""
    counts = Counter(text for said in of_runs for text in said)
    if not counts:
        return []
    total = len(of_runs)
    parts = [
        text if n == total else f"{text} ({n} of {total} runs)"
        for text, n in counts.most_common()
        if n >= least
    ]
    left = len(counts) - min(len(parts), _MOST_SHARED)
    if not parts:
        return [f"{title}: {left}; the JSON answer lists them by run."]
    if whole:
        more = [f"the JSON answer lists {left} more by run"] if left > 0 else []
        return [f"{title}: {sentences([*parts[:_MOST_SHARED], *more])}"]
    others = f"; and {left} more, which the JSON answer lists by run" if left > 0 else ""
    return [f"{title}: {'; '.join(parts[:_MOST_SHARED])}{others}."]
