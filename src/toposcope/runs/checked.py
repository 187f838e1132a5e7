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
    from toposcope.runs._figure import CheckedCurve, CheckMark

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
        return max((earlier.level for earlier in self.runs), key=LEVELS.index)

    @property
    def ok(self) -> bool:
        """Whether every run is all right and everything could be read."""
        return self.level == ALL_RIGHT and not self.problems

    def differs(self, before: Check | None) -> bool:
        """Return whether the answer has changed: for any run, or in what could not be read."""
        if before is None or self.problems != before.problems:
            return True
        run = {checked_run.name: checked_run for checked_run in before.runs}
        if run.keys() != {checked_run.name for checked_run in self.runs}:
            return True
        return any(checked_run.differs(run[checked_run.name]) for checked_run in self.runs)

    @property
    def line(self) -> str:
        """The answer in one line."""
        bad = len(self.problems)
        more = "; not all belong together, see below" if self.several_groups else ""
        more += f"; {bad} problem{'s' * (bad > 1)} with the input, listed below" if bad else ""
        return (self.runs[0].line if len(self.runs) == 1 else self._summary()) + more

    def _summary(self) -> str:
        counts = Counter(run.level for run in self.runs)
        total = len(self.runs)
        if counts[ALL_RIGHT] == total:
            ended = sum(run.ended for run in self.runs)
            unknown = sum(run.horizon is None for run in self.runs)
            ways = (
                (ended, "finished"), (total - ended - unknown, "under way"),
                (unknown, "without a known last step"),
            )  # fmt: skip
            tally = ", ".join(f"{count} {what}" for count, what in ways if count)
            return f"{ALL_RIGHT}: {total:,} of {total:,} runs ({tally})"
        parts: list[str] = []
        for level, what in _TO_DO:
            if counts[level]:
                names = [run.name for run in self.runs if run.level == level]
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
        worst = [run for run in self.runs if run.level != ALL_RIGHT]
        lines = [self.line]
        shown = worst[:MOST_SHOWN] if table else self.runs
        well = [run for run in self.runs if run.level == ALL_RIGHT]
        silent = [*worst[MOST_SHOWN:], *well] if table else []
        for run in shown:
            lines += [run.line, *(f"  {ground}" for ground in run.grounds)]
        if table and len(worst) > MOST_SHOWN:
            lines.append(f"The table names the reasons of the other {len(worst) - MOST_SHOWN}.")
        if noticed := sum(len(run.judgement.noticed) for run in silent):
            events = "1 thing" if noticed == 1 else f"{noticed:,} things"
            where = "in the other runs" if shown else "over all runs"
            lines.append(f"Noticed {where}, but no action is needed: {events}. The JSON answer lists them.")
        lines += _shared("Limits", [run.limits for run in self.runs], least=2, whole=True)
        lines += _shared("Not checked", [run.unseen for run in self.runs])
        lines += _shared("Log", [(run.read,) if run.read else () for run in self.runs])
        return (*lines, *self._remarks())

    def _remarks(self) -> list[str]:
        return [
            *(f"problem: {problem}" for problem in self.problems),
            *(f"note: {note}" for note in self.notes),
        ]

    @property
    def table(self) -> pd.DataFrame:
        """A row for each run, worst first: its answer, how far it is, where it will end, and why."""
        import pandas as pd

        return pd.DataFrame([_row(run) for run in self.runs], columns=list(_COLUMNS))

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
                run.name, run.level, None if run.step is None else step_text(run.step),
                None if run.horizon is None else f"{run.horizon:,}", run.loss, _short_end(run),
                ", ".join(dict.fromkeys(ground.kind for ground in run.judgement.grounds)),
            )
            for run in self.runs
        ]  # fmt: skip
        return (columns, rows) if any(row[-1] for row in rows) else (columns[:-1], [row[:-1] for row in rows])

    @property
    def tables(self) -> Tables:
        """`table` under the name "runs", and every ground and every notice under "grounds"."""
        return Tables(runs=lambda: self.table, grounds=self._grounds)

    def _grounds(self) -> pd.DataFrame:
        import pandas as pd

        rows = [
            {"run": run.name, **ground_as_data(ground)}
            for run in self.runs
            for ground in (*run.judgement.grounds, *run.judgement.noticed)
        ]
        return pd.DataFrame(rows, columns=["run", "level", "kind", "step", "sentence", "remedy"])

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Whether each run is all right, with its forecast and its grounds in numbers."""
        from toposcope.core.observations import Finding

        return tuple(Finding("on", run.level, run.to_dict(), left_out=tuple(run.unseen)) for run in self.runs)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw each run's loss with what was found on it, and its forecast to the end; return the axes."""
        from toposcope.runs._figure import draw_checked

        return draw_checked([_curve(run) for run in self.runs], ax)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "answer": self.line, "level": self.level, "ok": self.ok,
            "runs": [run.to_dict() for run in self.runs],
            "problems": list(self.problems), "notes": list(self.notes),
        }  # fmt: skip

    def __repr__(self) -> str:
        """Return the answer, its ground, and what was not checked."""
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        return answered(repr(self), self.table if len(self.runs) > 1 else None, self.plot)


def worst_first(runs: Iterable[RunCheck]) -> tuple[RunCheck, ...]:
    """Return runs by their level, the worst first, else in the order that they were given."""
    return tuple(sorted(runs, key=lambda run: -LEVELS.index(run.level)))


def _row(run: RunCheck) -> tuple[object, ...]:
    forecast = run.forecast
    no_end = forecast is None or run.level == STOP
    end = (math.nan,) * 3 if no_end or forecast is None else (forecast.final, forecast.low, forecast.high)
    grounds = "; ".join(ground.sentence for ground in run.judgement.grounds)
    return (run.name, run.level, run.step, run.horizon, run.loss, *end, grounds)


def _short_end(run: RunCheck) -> str:
    """Return where a run ends as a cell of a table."""
    forecast = run.forecast
    if forecast is None:
        return "has ended" if run.ended else "not known"
    if run.level == STOP or forecast.status in ("failed", "unhealthy"):
        return ""
    if run.without_trend:
        return "does not apply"
    final, low, high = near(forecast.final, forecast.low, forecast.high)
    if not forecast.bounded:
        return "too early to say"
    return f"{final} ({low} to {high}{', no plan' if forecast.status == 'no plan' else ''})"


def _named(names: Sequence[str]) -> str:
    return listed(names, most=_MOST_NAMED, last=", ")


def _shared(
    title: str, of_runs: Sequence[Sequence[str]], least: int = 1, *, whole: bool = False
) -> list[str]:
    """Return once each sentence about at least `least` runs, with their number; `whole` makes sentences."""
    counts = Counter(text for texts in of_runs for text in texts)
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


def _curve(run: RunCheck) -> CheckedCurve:
    """Return the curve of a run with its marks, and with its forecast if the answer has one."""
    import numpy as np

    from toposcope.runs._figure import CheckedCurve

    step, loss = (np.empty(0), np.empty(0)) if run.logged is None else run.logged
    remarks = (*run.judgement.grounds, *run.judgement.noticed)
    marks = tuple(_mark(ground, float(ground.step)) for ground in remarks if ground.step is not None)
    forecast = run.forecast
    bounded = forecast is not None and forecast.bounded
    if forecast is None or not bounded or run.level == STOP or forecast.status in ("failed", "unhealthy"):
        return CheckedCurve(run.name, step, loss, marks)
    end = np.array(
        [math.nan if run.horizon is None else run.horizon, forecast.final, forecast.low, forecast.high]
    )
    ahead = np.empty((0, 4))
    if len(forecast.curve_low) and len(step):
        ahead = np.column_stack([forecast.step, forecast.loss, forecast.curve_low, forecast.curve_high])
        ahead = ahead[(ahead[:, 0] >= step.max()) & np.isfinite(ahead).all(axis=1)]
    return CheckedCurve(run.name, step, loss, marks, ahead, end, forecast.level, forecast.status == "ok")


def _mark(ground: Remark, step: float) -> CheckMark:
    from toposcope.runs._figure import CheckMark

    audit = ground.sentence.startswith(("checkpoint", "audit"))
    what = "audit" if audit else "alarm" if is_alarm(ground.kind) else "health"
    return CheckMark(what, step, ground.kind, ground.level != NOTICED)
