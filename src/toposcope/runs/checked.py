"""The answer of a check: for each run a line to act on, the reason, and what was not checked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toposcope.core.answered import Tables, answered
from toposcope.core.forms import listed, near, sentences, step_text
from toposcope.logs.remarks import LOOK, NOT_JUDGED, NOTICED, STOP
from toposcope.rules.judgement import ALL_RIGHT, LEVELS
from toposcope.rules.registry import is_alarm
from toposcope.runs.run_check import MOST_SHOWN, RunCheck, ground_as_data

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from toposcope.core.observations import Finding
    from toposcope.logs.remarks import Remark
    from toposcope.runs.figure import CheckedCurve, CheckMark

_MOST_NAMED, _MOST_SHARED = 5, 3
"""The most runs, and shared remarks, that a line names; the others are counted."""
_TO_DO = ((STOP, "to stop"), (LOOK, "to look at"), (NOT_JUDGED, "not judged"))
_COLUMNS = ("run", "answer", "step", "of", "loss", "end", "low", "high", "ground")


@dataclass(frozen=True)
class Check:
    """The answer for every given run, worst first; printed, it begins with what to do.

    `runs` holds a `RunCheck` each, `problems` what could not be read, `notes` what else was left out.
    `several_groups` is true if runs do not belong together; a note says which.
    """

    runs: tuple[RunCheck, ...]
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    several_groups: bool = False

    @property
    def level(self) -> str:
        """The worst level of any run."""
        return max((one.level for one in self.runs), key=LEVELS.index)

    @property
    def ok(self) -> bool:
        """Whether every run is all right and everything could be read."""
        return self.level == ALL_RIGHT and not self.problems

    def differs(self, before: Check | None) -> bool:
        """Return whether the answer has changed: for any run, or in what could not be read."""
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
        more = "; not all belong together, see below" if self.several_groups else ""
        more += f"; {bad} problem{'s' * (bad > 1)} with the input, listed below" if bad else ""
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
            return f"{ALL_RIGHT}: {total:,} of {total:,} runs ({said})"
        parts: list[str] = []
        for level, what in _TO_DO:
            if counts[level]:
                names = [one.name for one in self.runs if one.level == level]
                of = "" if parts else f" of {total:,} runs"
                parts.append(f"{counts[level]}{of} {what} ({_named(names)})")
        parts.append(f"{counts[ALL_RIGHT]} all right")
        return f"{self.level}: {', '.join(parts)}"

    @property
    def lines(self) -> tuple[str, ...]:
        """The answer, then the grounds of the worst few runs, then what holds for several."""
        return self.lines_beside(table=self.tabular)

    def lines_beside(self, *, table: bool) -> tuple[str, ...]:
        """Return the lines that stand beside the table, or those that say everything without one."""
        if len(self.runs) == 1:
            return (self.line, *self.runs[0].lines[1:], *self._remarks())
        worst = [one for one in self.runs if one.level != ALL_RIGHT]
        found = [self.line]
        shown = worst[:MOST_SHOWN] if table else self.runs
        well = [one for one in self.runs if one.level == ALL_RIGHT]
        silent = [*worst[MOST_SHOWN:], *well] if table else []
        for one in shown:
            found += [one.line, *(f"  {ground}" for ground in one.grounds)]
        if table and len(worst) > MOST_SHOWN:
            found.append(f"The table names the reasons of the other {len(worst) - MOST_SHOWN}.")
        if noticed := sum(len(one.judgement.noticed) for one in silent):
            events = "1 thing" if noticed == 1 else f"{noticed:,} things"
            where = "in the other runs" if shown else "over all runs"
            found.append(f"Noticed {where}, but no action is needed: {events}. The JSON answer lists them.")
        found += _shared("Limits", [one.limits for one in self.runs], least=2, whole=True)
        found += _shared("Not checked", [one.unseen for one in self.runs])
        found += _shared("Log", [(one.read,) if one.read else () for one in self.runs])
        return (*found, *self._remarks())

    def _remarks(self) -> list[str]:
        return [*(f"problem: {one}" for one in self.problems), *(f"note: {one}" for one in self.notes)]

    @property
    def table(self) -> pd.DataFrame:
        """A row for each run, worst first: its answer, how far it is, where it will end, and why."""
        import pandas as pd

        return pd.DataFrame([_row(one) for one in self.runs], columns=list(_COLUMNS))

    @property
    def tabular(self) -> bool:
        """Whether the runs are more than can be told in a sentence each: a table is printed."""
        return len(self.runs) > MOST_SHOWN

    @property
    def cells(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """The columns and rows of the table that is printed; kinds of grounds only where there are some."""
        columns = ("run", "answer", "step", "of", "loss", "where it ends", "reason")
        rows: list[tuple[object, ...]] = [
            (
                one.name, one.level, None if one.step is None else step_text(one.step),
                None if one.horizon is None else f"{one.horizon:,}", one.loss, _short_end(one),
                ", ".join(dict.fromkeys(ground.kind for ground in one.judgement.grounds)),
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
            {"run": one.name, **ground_as_data(ground)}
            for one in self.runs
            for ground in (*one.judgement.grounds, *one.judgement.noticed)
        ]
        return pd.DataFrame(rows, columns=["run", "level", "kind", "step", "sentence", "remedy"])

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Whether each run is all right, with its forecast and its grounds in numbers."""
        from toposcope.core.observations import Finding

        return tuple(Finding("on", one.level, one.to_dict(), left_out=tuple(one.unseen)) for one in self.runs)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw each run's loss with what was found on it, and its forecast to the end; return the axes."""
        from toposcope.runs.figure import draw_checked

        return draw_checked([_curve(one) for one in self.runs], ax)

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
    no_end = made is None or one.level == STOP
    end = (math.nan,) * 3 if no_end or made is None else (made.final, made.low, made.high)
    grounds = "; ".join(ground.sentence for ground in one.judgement.grounds)
    return (one.name, one.level, one.step, one.horizon, one.loss, *end, grounds)


def _short_end(one: RunCheck) -> str:
    """Return where a run ends as a cell of a table."""
    made = one.forecast
    if made is None:
        return "has ended" if one.ended else "not known"
    if one.level == STOP or made.status in ("failed", "unhealthy"):
        return ""
    if one.without_trend:
        return "does not apply"
    final, low, high = near(made.final, made.low, made.high)
    if not made.bounded:
        return "too early to say"
    return f"{final} ({low} to {high}{', no plan' if made.status == 'no plan' else ''})"


def _named(names: Sequence[str]) -> str:
    return listed(names, most=_MOST_NAMED, last=", ")


def _shared(
    title: str, of_runs: Sequence[Sequence[str]], least: int = 1, *, whole: bool = False
) -> list[str]:
    """Return once each sentence about at least `least` runs, with their number; `whole` makes sentences."""
    counts = Counter(text for said in of_runs for text in said)
    if not counts:
        return []
    total = len(of_runs)
    parts = [
        text if n == total else f"{text} ({n:,} of {total:,} runs)"
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


def _curve(one: RunCheck) -> CheckedCurve:
    """Return the curve of a run with its marks, and with its forecast if the answer has one."""
    import numpy as np

    from toposcope.runs.figure import CheckedCurve

    step, loss = (np.empty(0), np.empty(0)) if one.logged is None else one.logged
    found = (*one.judgement.grounds, *one.judgement.noticed)
    marks = tuple(_mark(ground, float(ground.step)) for ground in found if ground.step is not None)
    made = one.forecast
    bounded = made is not None and made.bounded
    if made is None or not bounded or one.level == STOP or made.status in ("failed", "unhealthy"):
        return CheckedCurve(one.name, step, loss, marks)
    end = np.array([math.nan if one.horizon is None else one.horizon, made.final, made.low, made.high])
    ahead = np.empty((0, 4))
    if len(made.curve_low) and len(step):
        ahead = np.column_stack([made.step, made.loss, made.curve_low, made.curve_high])
        ahead = ahead[(ahead[:, 0] >= step.max()) & np.isfinite(ahead).all(axis=1)]
    return CheckedCurve(one.name, step, loss, marks, ahead, end, made.level, made.status == "ok")


def _mark(ground: Remark, step: float) -> CheckMark:
    from toposcope.runs.figure import CheckMark

    audit = ground.sentence.startswith(("checkpoint", "audit"))
    what = "audit" if audit else "alarm" if is_alarm(ground.kind) else "health"
    return CheckMark(what, step, ground.kind, ground.level != NOTICED)
