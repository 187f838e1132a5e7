"""The answer of a comparison of logs: the better recipe, since when, and the seeds that would show it."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toposcope.core.answered import Tables, answered
from toposcope.core.wording import option
from toposcope.runs.seeds import SeedComparison
from toposcope.statistics.seeds import INTERIM, LEVEL, MOST_SEEDS, InterimTest

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from toposcope.core.observations import Finding
    from toposcope.statistics.parting import Parting
    from toposcope.statistics.seeds import Difference

TURNED = "in 21% of 4,329 pairs of public recipes the one that led at 40% was worse at the end"
"""How often a lead before the end was reversed later: benchmarks.compare_runs, 2026-11-23."""
BETTER, DIFFERENT, ALIKE, UNKNOWN = "better", "different", "no difference shown", "cannot tell"
SAME, EARLY = "same run", "too early"
"""What a comparison of logs may answer; "different" of a column that is no loss."""
_SHOWN = (BETTER, DIFFERENT)
_OF_LOSS = ("loss", "nll", "perplexity", "ppl", "bpb", "bpc", "error")
"""A column whose name has one of these parts is better when it is lower."""


def is_loss(column: str) -> bool:
    """Return whether less of a column is better, by its name.

    >>> is_loss("val_loss"), is_loss("reward")
    (True, False)
    """
    return any(part in column.lower() for part in _OF_LOSS)


def diverged(made: SeedComparison) -> list[str]:
    """Return which runs of a comparison diverge, and how; they are still compared."""
    import pandas as pd

    from toposcope.logs.remarks import BROKEN
    from toposcope.rules.registry import assess

    problems = []
    for side in (made.first, made.second):
        for run in side.runs:
            rows = pd.DataFrame({"step": run.losses.index, "loss": run.losses.to_numpy()})
            grounds = [remark.sentence for remark in assess(rows) if remark.kind in BROKEN]
            problems += [
                f"{run.name} of {side.name} diverges: {ground}; it is still counted" for ground in grounds
            ]
    return problems


@dataclass(frozen=True)
class RunComparison:
    """Two recipes, or two runs, compared by their losses; printed, it begins with the better one.

    `compared` has the numbers, `column` the loss that was compared. Differences are second minus first, so a
    negative difference means that the second is better. `problems` name what could not be read or was left
    out.

    >>> import numpy as np, pandas as pd
    >>> from toposcope.api import compare
    >>> def seeds(level, first):
    ...     losses = [level + 4 / np.arange(1, 41) + 0.01 * (i + first) for i in range(4)]
    ...     return [pd.DataFrame({"step": np.arange(40), "loss": one}) for one in losses]
    >>> print(compare(seeds(2.0, 0), seeds(1.8, 0)).line)
    second is better than first: its loss at step 39 is 0.200 lower (95%: 0.178 to 0.222, p < 0.0001, 4 \
seeds against 4)
    """

    compared: SeedComparison
    column: str
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether everything was read and compared."""
        return not self.problems

    @property
    def names(self) -> tuple[str, str]:
        """The names of the two."""
        return self.compared.first.name, self.compared.second.name

    @property
    def passed(self) -> InterimTest | None:
        """The first test on the way at which one of the two was better."""
        return next((look for look in self.compared.interim if look.passed), None)

    @property
    def decisive(self) -> Difference | None:
        """The test behind the answer: the test at the end, or one on the way if the runs go on."""
        comparison = self.compared
        if comparison.ended or comparison.test is None:
            return comparison.test
        return None if self.passed is None else self.passed.difference

    @property
    def verdict(self) -> str:
        """One of "better", "different", "no difference shown", "cannot tell", "same run", "too early"."""
        comparison = self.compared
        if comparison.parting is not None and comparison.parting.same:
            return SAME
        if comparison.test is None:
            return UNKNOWN
        if not comparison.ended and not comparison.interim:
            return EARLY
        if self._won_by_survivors:
            return UNKNOWN
        shown = comparison.test.p <= LEVEL if comparison.ended else self.passed is not None
        return ALIKE if not shown else BETTER if is_loss(self.column) else DIFFERENT

    @property
    def _won_by_survivors(self) -> bool:
        """Whether the one with the lower losses lost runs, so that only its other runs were compared."""
        difference = self.decisive
        if difference is None or (self.compared.ended and difference.p > LEVEL) or not is_loss(self.column):
            return False
        return self.compared.broke[int(difference.value < 0)] > 0

    @property
    def best(self) -> str | None:
        """The name of the better one; None if neither is better."""
        difference = self.decisive
        return (
            self.names[int(difference.value < 0)]
            if self.verdict == BETTER and difference is not None
            else None
        )

    @property
    def line(self) -> str:
        """The answer in one line."""
        more = len(self.problems)
        return self._line() + (f"; {more} problem{'s' * (more > 1)}, listed below" if more else "")

    def _line(self) -> str:
        first, second = self.names
        comparison, verdict, test = self.compared, self.verdict, self.compared.test
        if verdict == SAME and comparison.parting is not None:
            return f"{first} and {second} are the same run: {_equal(comparison.parting)}"
        if test is not None and self._won_by_survivors:
            return self._survived(test)
        of_loss = is_loss(self.column)
        question = (
            f"which of {first} and {second} is better" if of_loss else f"whether {first} and {second} differ"
        )
        if test is None:
            return f"one run of each cannot tell {question}: {self._ends()}"
        if verdict == EARLY:
            return f"too early to say {question}: {self._progress()}"
        so_far = "" if comparison.ended else " so far"
        if verdict == DIFFERENT and self.decisive is not None:
            at = comparison.at if comparison.ended or self.passed is None else self.passed.step
            difference = self._difference(self.decisive)
            where = f"the {self.column} of {second} at step {at:,.0f}"
            return f"{first} and {second} differ{so_far}: {where} is {difference}"
        if verdict == BETTER and self.decisive is not None:
            worse = first if self.best == second else second
            at = comparison.at if comparison.ended or self.passed is None else self.passed.step
            lower = self._difference(self.decisive, "lower")
            return f"{self.best} is better than {worse}{so_far}: its loss at step {at:,.0f} is {lower}"
        return f"no difference between {first} and {second} is shown{so_far}: {self._signed(test)}"

    def _survived(self, test: Difference) -> str:
        side = int(test.value < 0)
        name, other, lost = self.names[side], self.names[1 - side], self.compared.broke[side]
        left = len(self.compared.values[side])
        runs = f"{lost:,} of {lost + left:,} runs of {name} ended without a finite loss"
        return (
            f"cannot say that {name} is better than {other}: {runs}, and only its other runs have "
            "lower losses"
        )

    def _difference(self, test: Difference, way: str = "") -> str:
        way = way or ("lower" if test.value < 0 else "higher")
        low, high = sorted((abs(test.low), abs(test.high)))
        if test.low <= 0 <= test.high:  # a test on the way with another level, or no noise at all
            low, high = 0.0, max(low, high)
        value, least, most = _digits(abs(test.value), low, high)
        return f"{value} {way} (95%: {least} to {most}, {_p(test.p)}, {self._counts})"

    def _signed(self, test: Difference) -> str:
        second = self.names[1]
        value, low, high = _digits(abs(test.value), test.low, test.high)
        way = "lower" if test.value < 0 else "higher"
        at = f"at step {self.compared.at:,.0f}" + (
            "" if self.compared.ended else f" of {self.compared.horizon:,.0f}"
        )
        return (
            f"{at} {second} is {value} {way} (difference, 95%: {low} to {high}, {_p(test.p)}, {self._counts})"
        )

    @property
    def _counts(self) -> str:
        k, m = (len(values) for values in self.compared.values)
        around = self.compared.beside
        return f"{k:,} seed{'s' * (k > 1)} against {m}" + (
            f"; noise also from {around:,} siblings" if around else ""
        )

    def _ends(self) -> str:
        first_mean, other = (float(values.mean()) for values in self.compared.values)
        value, first, second = _digits(abs(other - first_mean), first_mean, other)
        way = "lower" if other < first_mean else "higher"
        where = f"at step {self.compared.at:,.0f}"
        return f"{self.names[1]} is {value} {way} {where} ({second} against {first})"

    @property
    def lines(self) -> tuple[str, ...]:
        """The answer, then its ground, the tests on the way, the seeds that would show it, and its limits."""
        texts = [self.line]
        if self.compared.parting is not None and self.verdict != SAME:
            texts.append(f"Same run? {_first_difference(self.compared.parting)}.")
        if self.compared.test is not None and self.verdict != SAME:
            texts += [*self._on_the_way(), *self._seeds(), self._ground(self.compared.test)]
        elif self.verdict == UNKNOWN:
            texts.append(self._no_noise())
            texts.append(self._means())
        texts += [f"problem: {problem}" for problem in self.problems]
        return (*texts, *(f"note: {note}" for note in (*self.compared.notes, *self.notes)))

    def _on_the_way(self) -> list[str]:
        comparison, first = self.compared, self.passed
        how = f"a group-sequential test at {len(INTERIM):,} steps, with an error rate of 5% in all"
        if not comparison.ended:
            turned = f" A lead may not last: {TURNED}." if self.verdict in _SHOWN else ""
            return [
                (
                    f"On the way: {self._progress()}, so this is {how}; "
                    f"give {option('horizon')} {comparison.at:.0f} if the runs have ended.{turned}"
                )
            ]
        if first is None or first.step >= comparison.at:
            return (
                [f"On the way: this could not be said at an earlier step ({how})."]
                if self.verdict in _SHOWN
                else []
            )
        name = self.names[int(first.difference.value < 0)]
        part = f"step {first.step:,.0f}, after {first.step / comparison.at:.0%} of the run"
        difference = self.decisive if self.verdict in _SHOWN else None
        if difference is not None and (difference.value < 0) == (first.difference.value < 0):
            return [f"On the way: this could be said at {part} ({how})."]
        was = f"{name} was better" if is_loss(self.column) else "the two differed"
        return [f"On the way: at {part}, {was}; at the end this is no longer shown ({how})."]

    def _progress(self) -> str:
        comparison = self.compared
        return f"the logs plan {comparison.horizon:,.0f} steps, and all have reached {comparison.at:,.0f}"

    def _seeds(self) -> list[str]:
        comparison = self.compared
        if comparison.needed is None or comparison.finds is None or self.verdict == EARLY:
            return []
        k, m = (len(values) for values in comparison.values)
        size, finds = (f"{value:.2g}" for value in (comparison.needed.difference, comparison.finds))
        these = f"{k} against {m:,} seeds show a difference of {finds}"
        if self.verdict in _SHOWN or comparison.needed.difference == 0:
            return [f"Seeds: {these} or more in 4 of 5 comparisons."]
        wanted = _many(comparison.needed.seeds)
        low, high = _many(comparison.needed.low), _many(comparison.needed.high)
        least = comparison.needed.at_least
        other = "" if least is None else (
            f"; if it is larger or smaller, {_many(least)} or more, without an upper limit"
        )  # fmt: skip
        return [
            f"Seeds: if the true difference is {size}, {wanted} seeds of each show it in 4 of 5 comparisons "
            f"(from {k} against {m:,} seeds: between {low} and {high}){other}; {these}."
        ]

    def _ground(self, test: Difference) -> str:
        how = "Welch's t, because the variances of the two sides differ" if test.welch else "Student's t"
        loss = "held-out loss" if self.column == "heldout_loss" else self.column
        return (
            f"Basis: the mean {loss} of each run over the last tenth of its steps (at least 3 losses); "
            f"the runs have {len(self.compared.steps):,} steps in common; "
            f"noise between seeds {test.sd:.2g} ({_free(test.degrees)}); {how}."
        )

    def _means(self) -> str:
        return (
            "Basis: the loss of a run is its mean over the last tenth of the "
            f"{len(self.compared.steps):,} steps that both have (at least 3 losses)."
        )

    def _no_noise(self) -> str:
        parting = self.compared.parting
        scatter = "" if parting is None or not math.isfinite(parting.scatter) else (
            f"the loss of one run scatters by {parting.scatter:.2g} from step to step, which "
"is not the noise "
            "between seeds; ")  # fmt: skip
        return (
            f"Noise: {scatter}give several seeds of each, or seeds of a similar recipe by "
            f"{option('siblings')}."
        )

    @property
    def table(self) -> pd.DataFrame:
        """A row for each run: recipe, run, last_step, losses, end."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=["recipe", "run", "last_step", "losses", "end"])

    @property
    def rows(self) -> list[tuple[str, str, float, int, float]]:
        """Each run with its recipe, its name, its last step, its number of losses, and its final loss."""
        comparison = self.compared
        return [
            (side.name, run.name, run.last, len(run.losses), float(end))
            for side, ends in zip((comparison.first, comparison.second), comparison.values, strict=True)
            for run, end in zip(side.runs, ends, strict=True)
        ]

    @property
    def tables(self) -> Tables:
        """`table` under the name "runs", and the tests on the way under "on_the_way"."""
        return Tables(runs=lambda: self.table, on_the_way=self._interim)

    def _interim(self) -> pd.DataFrame:
        import pandas as pd

        rows = [
            (look.step, look.difference.value, look.difference.low, look.difference.high, look.difference.p,
             look.threshold, look.passed)
            for look in self.compared.interim
        ]  # fmt: skip
        columns = ["step", "difference", "low", "high", "p", "threshold", "passed"]
        return pd.DataFrame(rows, columns=columns)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Which one is better, in numbers."""
        from toposcope.core.observations import Finding

        test = "Welch's t" if self.decisive is not None and self.decisive.welch else "Student's t"
        return (Finding("better", self.verdict, self.to_dict(), test=test, left_out=self.problems),)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw every run and each mean, less the mean of the first recipe, by step; return the axes."""
        from toposcope.core.drawing.compared_losses import draw_recipes

        comparison = self.compared
        sides = dict(zip(self.names, comparison.losses, strict=True))
        at = None if self.passed is None or self.verdict not in _SHOWN else self.passed.step
        return draw_recipes(sides, comparison.steps, at, ax)

    def figure(self) -> Figure:
        """Draw the same as a figure of its own."""
        from toposcope.core.drawing.style import new_figure

        figure, axes = new_figure(3.6)
        self.plot(axes[0, 0])
        return figure

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        comparison = self.compared
        return {
            "compared": "losses", "answer": self.line, "ok": self.ok, "verdict": self.verdict,
            "better": self.best, "column": self.column,
            "step": comparison.at, "horizon": comparison.horizon, "ended": comparison.ended,
            "runs": self.table.to_dict("records"),
            "test": None if comparison.test is None else dataclasses.asdict(comparison.test),
            "on_the_way": self._interim().to_dict("records"),
            "seeds_needed": None if comparison.needed is None else dataclasses.asdict(comparison.needed),
            "smallest_difference": comparison.finds,
            "parting": None if comparison.parting is None else dataclasses.asdict(comparison.parting),
            "problems": list(self.problems), "notes": [*comparison.notes, *self.notes],
        }  # fmt: skip

    def __repr__(self) -> str:
        """Return the answer, its ground and its limits."""
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        return answered(repr(self), self.table, self.plot)


def _equal(parting: Parting) -> str:
    """Return in words that two logs are equal at every common step."""
    many = f"all {parting.common:,} common steps" if parting.common > 1 else "the only common step"
    up_to = "" if parting.last_equal is None else f", up to step {parting.last_equal:,.0f}"
    if parting.exact:
        return f"equal bit for bit at {many}{up_to}"
    return f"equal to the {parting.decimals} decimals of the shorter numbers at {many}{up_to}"


def _first_difference(parting: Parting) -> str:
    """Return in words up to where two logs are equal, and since when they are not."""
    if parting.last_equal is None:
        return f"No: the two differ from their first common step on, step {parting.first_apart:,.0f}"
    digits = "bit for bit" if parting.exact else f"to {parting.decimals} decimals"
    return (
        f"They are equal {digits} up to step {parting.last_equal:,.0f} ({parting.equal:,} of "
        f"{parting.common:,} "
        f"common steps), and differ from step {parting.first_apart:,.0f} on"
    )


def _many(seeds: int | None) -> str:
    return f"over {MOST_SEEDS:,}" if seeds is None else f"{seeds:,}"


def _free(degrees: float) -> str:
    return f"{degrees:.3g} degree{'s' * (degrees != 1)} of freedom"


def _p(p: float) -> str:
    """Return a p in words.

    >>> _p(0.0312), _p(1e-9)
    ('p = 0.031', 'p < 0.0001')
    """
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"


def _digits(value: float, low: float, high: float) -> tuple[str, str, str]:
    """Return three numbers with the decimals that the distance of the last two justifies.

    >>> _digits(0.01234, 0.0051, 0.0201)
    ('0.012', '0.005', '0.020')
    """
    width = abs(high - low)
    decimals = 4 if not (math.isfinite(width) and width > 0) else min(
        max(1 - math.floor(math.log10(width)), 0), 8)  # fmt: skip
    return f"{value:.{decimals}f}", f"{low:.{decimals}f}", f"{high:.{decimals}f}"
