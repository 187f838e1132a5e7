"""What an audit answers: an object that prints its answer, with tables and a figure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toposcope.core.answered import Tables, answered, counted
from toposcope.core.observations import AuditFinding

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from toposcope.logs.belonging import Group
    from toposcope.runs.odd import Odd
    from toposcope.sources.adapter_state import AdapterState
    from toposcope.sources.coverage import Coverage
    from toposcope.sources.optimizer.resumption import Resumption

_MOST_PLACES = 3
"""Places of a kind of fault that the first line of an audit names."""


@dataclass(frozen=True)
class Audit:
    """The result of an audit of a series: `findings`, and `table` with a row for each of them.

    `steps` are the steps of every run's checkpoints. `groups` are groups of runs that do not belong together;
    it is empty if all do. Several groups are not a fault, but no conclusion should combine two of them.
    `adapters` are the last states of runs whose weights are an adapter's. `odd` are the runs whose losses
    differ from those of their siblings. `coverage` says which tensors were checked, and why others were not.
    `resume` says of the newest checkpoint of each run whether training can be resumed from it.

    >>> found = AuditFinding("a", 10, "", "holds what step 0 holds", fault="identical")
    >>> print(Audit({"a": (0, 10)}, (found,)))
    1 finding in 2 checkpoints of 1 run: identical (a step 10)
    a step 10: identical: holds what step 0 holds
    """

    steps: Mapping[str, tuple[int, ...]]
    findings: tuple[AuditFinding, ...]
    groups: tuple[Group, ...] = ()
    adapters: tuple[AdapterState, ...] = ()
    odd: tuple[Odd, ...] = ()
    coverage: Coverage | None = None
    resume: tuple[Resumption, ...] = ()

    @property
    def faults(self) -> tuple[AuditFinding, ...]:
        """The findings that ask for an action."""
        return tuple(finding for finding in self.findings if not finding.is_remark)

    @property
    def remarks(self) -> tuple[AuditFinding, ...]:
        """The findings that are only worth knowing: training itself can cause them."""
        return tuple(finding for finding in self.findings if finding.is_remark)

    @property
    def ok(self) -> bool:
        """Whether there is no fault and no odd run."""
        return not self.faults and not self.odd

    @property
    def apart(self) -> str:
        """The line that says which runs do not belong together; "" where all do."""
        from toposcope.logs.belonging import said

        return said(self.groups, "draw no conclusion across groups")

    @property
    def checkpoints(self) -> int:
        """The number of checkpoints that were examined."""
        return sum(map(len, self.steps.values()))

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.steps)

    @property
    def table(self) -> pd.DataFrame:
        """The findings as a table: run, step, fault, tensor, message."""
        import pandas as pd

        names = [field.name for field in dataclasses.fields(AuditFinding)]
        return pd.DataFrame(self.findings, columns=names)

    @property
    def tables(self) -> Tables:
        """`table`, under the name "findings"."""
        return Tables(findings=lambda: self.table)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the checkpoints of every run with a sign for each finding at its step; return the axes."""
        from toposcope.core.drawing.checkpoints import draw_checkpoints

        return draw_checkpoints(self.steps, self.findings, ax)

    @property
    def line(self) -> str:
        """The number of findings, and of each kind where it was found: at most three places by name."""
        findings = self.faults or self.findings
        many = len(findings)
        kinds: dict[str, list[str]] = {}
        for finding in findings:
            at = finding.run if finding.step is None else f"{finding.run} step {finding.step:,}"
            kinds.setdefault(finding.fault, []).append(at)
        fault_texts = [
            f"{fault} ({', '.join(where[:_MOST_PLACES])}{' ...' * (len(where) > _MOST_PLACES)})"
            for fault, where in ((fault, list(dict.fromkeys(places))) for fault, places in kinds.items())
        ]
        noun = "finding" if self.faults else "remark, and no fault," if many == 1 else "remark"
        noun += "s" * (many > 1) + ", and no fault," * (many > 1 and not self.faults)
        heading = f"{many} {noun} in {counted(self.checkpoints, self.runs)}"
        return f"{heading}: {', '.join(fault_texts)}"

    @property
    def resume_lines(self) -> list[str]:
        """Whether training can be resumed, a line for each run."""
        from toposcope.sources.optimizer.resumption import lines_of

        return lines_of(self.resume) if self.resume else []

    @property
    def nothing_found(self) -> str:
        """The words for an audit without findings: they hold only for what was checked."""
        if self.coverage is None or self.coverage.is_complete:
            return "nothing found"
        return "nothing found in what was checked" if self.coverage.checked else "no tensor was checked"

    def __repr__(self) -> str:
        """Return the answer, what was checked, and the first findings."""
        note = f" {self.apart}" if self.apart else ""
        seen = (
            "" if self.coverage is None else "".join(f"\n{line}" for line in self.coverage.lines_with_count)
        )
        seen += "".join(f"\n{line}" for line in self.resume_lines)
        does = "".join(
            f"\n{adapter.run} step {adapter.step:,}: {adapter.sentence}" for adapter in self.adapters
        )
        does += "".join(f"\n{odd_run.run} is {odd_run.sentence}" for odd_run in self.odd)
        if not self.findings:
            nothing = "no fault found" if self.odd else self.nothing_found
            read = counted(self.checkpoints, self.runs)
            return f"{read}: {'no other finding.' if note else nothing}{note}{seen}{does}"
        first = self.apart + " " * bool(note) + self.line + seen
        return "\n".join([first, *map(str, self.findings[:5])]) + does

    def _repr_html_(self) -> str:
        return answered(repr(self).partition("\n")[0], self.table)
