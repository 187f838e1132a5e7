"""The answer of `two_sample`: whether two groups differ, by how much, and how many a plan needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toposcope.core.answered import Tables, answered
from toposcope.core.forms import probability
from toposcope.topology.planning import LEVEL
from toposcope.topology.two_sample import HALF, POWER

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from toposcope.study.findings import Finding
    from toposcope.topology import TwoSample

DIFFER, NONE, UNKNOWN = "differ", "no difference shown", "cannot tell"
_GROUPS = {
    "diagram": "groups of diagrams", "cloud": "groups of clouds", "block": "clouds", "row": "clouds",
}  # fmt: skip
_SIZES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""The numbers of members in the table of the power, as multiples of those that were given."""


@dataclass(frozen=True)
class TwoSampleAnswer:
    """Whether two clouds or groups differ: printed, it begins with the answer.

    `test` is the test (`topology.TwoSample`), `names` are the names of A and B, `rescaled` says whether size
    was divided out, and `seed` is that of the blocks and the random ways.
    """

    test: TwoSample
    names: tuple[str, ...]
    rescaled: bool
    seed: int

    @property
    def verdict(self) -> str:
        """Return "differ", "no difference shown" or "cannot tell"."""
        if self.test.p <= LEVEL:
            return DIFFER
        return UNKNOWN if self.test.least_p > LEVEL else NONE

    @property
    def line(self) -> str:
        """The answer in one line."""
        test, groups = self.test, _GROUPS[self.test.unit]
        sure = f"p = {probability(test.p)}, {self._ways()}"
        if self.verdict == UNKNOWN:
            least = 6 if test.paired else 4
            return (
                f"Cannot tell whether the two {groups} differ: {self._ways()} allow no p below "
                f"{probability(test.least_p)}; give at least {least * test.rows} {self._members()} of each."
            )
        if self.verdict == NONE:
            missed = test.detectable()
            difference = (
                ""
                if math.isnan(missed)
                else f"; a shift of {_percent(missed)} of the distance is found in 80%"
            )
            of_shape = " in shape" if test.unit == "block" else ""
            return f"No difference{of_shape} shown between the two {groups}: {sure}{difference}."
        by = "" if test.planning is None else f" by {_percent(test.share)}{self._interval()}"
        needed = "" if test.planning is None else f"; {self._needed()} of each find half this shift in 80%"
        return f"The two {groups} differ{by}: {sure}{needed}."

    def _interval(self) -> str:
        """Return the interval of the effect in brackets, if it is known."""
        test = self.test
        return "" if math.isnan(test.low) else f" (95%: {_percent(test.low)} to {_percent(test.high)})"

    def _ways(self) -> str:
        test = self.test
        units = f"{test.unit}s" + (f" of {test.rows} rows" if test.unit == "block" else "")
        how = f"{'all ' if test.exhaustive else ''}{test.splits:,}"
        if test.paired:
            return f"{how} swaps of {test.sizes[0]:,} pairs of {units}"
        return f"{how} splits of {test.sizes[0]:,} + {test.sizes[1]:,} {units}"

    def _members(self) -> str:
        return "rows" if self.test.unit in ("block", "row") else f"{self.test.unit}s"

    def _needed(self) -> str:
        needed = self.test.needed()
        return f"{needed:,.0f} {self._members()}" if math.isfinite(needed) else "over a million"

    @property
    def lines(self) -> tuple[str, ...]:
        """The answer, the effect, the plan, what is tested, and the test's limits."""
        return (self.line, *self._effect(), *self._plan(), self._tested(), _LIMITS)

    def _effect(self) -> list[str]:
        test = self.test
        if test.planning is None:
            return [
                f"Effect: RTD-Lite is {test.statistic:.4g}, and {test.values[1:].mean():.4g} after swaps."
            ]
        return [
            f"Effect: {_percent(test.share)} of the mean distance between the groups is not within "
            f"them{self._interval()}."
        ]

    def _plan(self) -> list[str]:
        test = self.test
        if test.planning is None:
            return ["Plan: no power is known for RTD-Lite of one pair of clouds."]
        if self.verdict == NONE and not math.isnan(half := test.detectable() / 2.0):
            return [
                f"Plan: a shift half as large as these can show, {_percent(half)}, needs "
                f"{_count(test.needed_for(half))} {self._members()} of each for a power of {POWER:.0%}."
            ]
        if self.verdict != DIFFER:
            return []
        here = min(test.sizes) * test.rows
        needed, (low, high) = test.needed(), test.needed_interval()
        if not math.isfinite(needed):
            return ["Plan: no shift was seen, so none can be planned for."]
        ends = "" if math.isnan(low) else f" (95%: {_count(low)} to {_count(high)})"
        return [
            f"Plan: half this shift, as if every fourth {'pair' if test.paired else test.unit} had changed "
            f"sides, needs {needed:,.0f}{ends} {self._members()} of each for a power of {POWER:.0%}; "
            f"{here:,} have {test.power(here):.0%}. The whole shift needs about {_count(test.needed(1.0))}."
        ]

    def _tested(self) -> str:
        test = self.test
        unit = test.unit if test.unit != "block" else f"block of {test.rows} rows"
        how = f"by {test.distance}" + (", with size divided out" if self.rescaled else "")
        who = f"the two members of a pair ({unit})" if test.paired else f"a {unit} of one and of the other"
        place = {
            "block": "; where the clouds lie, and how they are turned, is no part of it",
            "row": "; both clouds must be in the same coordinates",
        }.get(test.unit, "")
        named = f"A is {self.names[0]}, B is {self.names[1]}."
        return f"Tested: whether {who} may change places, {how}{place}. {named}"

    @property
    def tables(self) -> Tables:
        """The result in one row ("test"), and the power for several numbers of members ("power")."""
        return Tables(test=self._row, power=self._power)

    def _row(self) -> pd.DataFrame:
        import pandas as pd

        row = {key: value for key, value in self.to_dict().items() if not isinstance(value, list | dict)}
        return pd.DataFrame([row])

    def _power(self) -> pd.DataFrame:
        import pandas as pd

        test = self.test
        counts = sorted({max(round(min(test.sizes) * size), 2) * test.rows for size in _SIZES})
        rows = [
            {"each": n, "half": test.power(n), "whole": test.power(n, 1.0)} for n in counts
        ]  # fmt: skip
        return pd.DataFrame(rows)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Whether they differ, in numbers."""
        from toposcope.study.findings import Finding

        return (Finding("two_sample", self.verdict, self.to_dict(), test="a permutation test"),)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the statistic of every way beside the given one, and return the axes."""
        from toposcope.clouds.figure import draw_splits

        return draw_splits(self.test.values, f"{self.verdict}, p = {probability(self.test.p)}", ax)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain data; NaN where a number is not known."""
        test = self.test
        (low, high), missed = test.needed_interval(), test.detectable()
        return {
            "answer": self.line, "verdict": self.verdict, "p": test.p, "level": LEVEL,
            "least_p": test.least_p, "statistic": test.statistic, "share": test.share,
            "share_low": test.low, "share_high": test.high, "splits": test.splits,
            "exhaustive": test.exhaustive, "paired": test.paired, "distance": test.distance,
            "rescaled": self.rescaled, "seed": self.seed, "unit": test.unit, "rows_of_unit": test.rows,
            "units": list(test.sizes), "names": list(self.names),
            "plan": {
                "shift": HALF, "power": POWER, "needed": test.needed(), "low": low, "high": high,
                "power_here": test.power(min(test.sizes) * test.rows), "whole": test.needed(1.0),
                "half_of_detectable": test.needed_for(missed / 2.0),
            },
            "detectable": missed, "tested": self._tested(), "limits": [_LIMITS],
        }  # fmt: skip

    def __repr__(self) -> str:
        """Return the answer, the effect, the plan and the limits."""
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        return answered(repr(self), self._power(), self.plot)


_LIMITS = (
    "Limits: members must be independent of each other; consecutive tokens of one text are not. The test "
    "says that two groups differ, not why, and not which is better."
)


def _percent(share: float) -> str:
    """Return a share in percent, with two digits where it is small; a negative one is 0."""
    share = max(share, 0.0)
    return f"{share:.0%}" if share >= 0.1 or share == 0.0 else f"{100.0 * share:.2g}%"


def _count(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) else "over a million"
