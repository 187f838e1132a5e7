"""Compares two recipes by the losses of their seeds at common steps, at the end and before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from toposcope.core.errors import InputError
from toposcope.core.wording import option
from toposcope.logs.belonging import grouped
from toposcope.logs.facts import Stated
from toposcope.statistics.parting import Parting, parting
from toposcope.statistics.seeds import (
    Difference,
    InterimTest,
    SeedsNeeded,
    difference,
    interim_tests,
    seeds_needed,
    smallest_found,
    stretch_means,
)

FEWEST_STEPS = 3
"""The fewest common steps for a comparison: a stretch has three losses."""
MANY_STEPS = 10
"""With at least this many common steps, nothing is interpolated."""
SHORT = 0.5
"""A run that ends before this part of the median of its recipe's runs was cut off, and is left out."""
ENDED = 0.99
"""A run has ended at this share of its planned steps: logs stop before their last step."""


@dataclass(frozen=True, slots=True)
class SeedRun:
    """A run: what its files state, its finite losses by step, and the step at which it is planned to end.

    `broken` are the steps at which its loss is not finite.
    """

    stated: Stated
    losses: pd.Series
    planned: int | None = None
    broken: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """The run's name."""
        return self.stated.run

    @property
    def last(self) -> float:
        """Its last step with a finite loss."""
        return float(self.losses.index[-1])

    @property
    def broke(self) -> bool:
        """Whether its last logged losses are not finite."""
        return bool(self.broken) and (not len(self.losses) or max(self.broken) > self.last)


@dataclass(frozen=True, slots=True)
class Recipe:
    """The runs of one recipe, under the name of the place where they lie."""

    name: str
    runs: tuple[SeedRun, ...]


@dataclass(frozen=True)
class SeedComparison:
    """The comparison of the losses of two recipes, second minus first.

    `losses` (runs, steps) are those at the common `steps`, `at` is the last of these. `first` and `second`
    are the runs that were compared, `values` the mean loss of each at the end. `test` is None if the noise
    between runs is unknown. `interim` are the tests on the way, `horizon` the step at which the runs end and
    `ended` whether they have ended. `needed` and `finds` say what a number of seeds can show, `beside` how
    many siblings count. `broke` counts the runs of each whose last losses are not finite. `parting` is there
    for one run of each. `problems` say what was left out and why, `notes` how steps were brought together.
    """

    first: Recipe
    second: Recipe
    steps: np.ndarray
    losses: tuple[np.ndarray, np.ndarray]
    at: float
    values: tuple[np.ndarray, np.ndarray]
    test: Difference | None
    interim: tuple[InterimTest, ...]
    needed: SeedsNeeded | None
    finds: float | None
    horizon: float
    ended: bool
    beside: int
    broke: tuple[int, int] = (0, 0)
    parting: Parting | None = None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def compare_recipes(
    first: Recipe,
    second: Recipe,
    beside: Sequence[Recipe] = (),
    *,
    horizon: float | None = None,
    of_loss: bool = True,
) -> SeedComparison:
    """Compare two recipes by the losses of their runs, at the steps that all of these have.

    Parameters
    ----------
    first, second
        One run or more of each.
    beside
        Other recipes with two runs or more: the noise between their seeds counts, too.
    horizon
        The step at which the runs end; by default the one that they plan.
    of_loss
        Whether these are losses, whose levels group the runs if nothing else does.

    Raises
    ------
    InputError
        When a recipe has no run with a finite loss, its runs do not belong together, or the two have fewer
        than three steps in common.
    """
    problems: list[str] = []
    sides = [_usable(side, problems, of_loss=of_loss) for side in (first, second)]
    problems += _strangers(*sides, of_loss=of_loss)
    _name_shared(sides[0], sides[1], problems)
    usable = (_without_copies(_usable(side, problems, of_loss=of_loss), problems, sides) for side in beside)
    others = [side for side in usable if len(side.runs) > 1]
    runs = [run for side in sides for run in side.runs]
    steps, notes = _common_steps(runs)
    steps = steps if horizon is None else steps[steps <= horizon]
    if len(steps) < FEWEST_STEPS:
        raise InputError(
            f"the logs have {len(steps):,} steps in common, too few to compare",
            remedy="give logs that overlap",
        )
    tables = [_losses(side.runs, steps) for side in sides]
    spread = [(_own_steps(side.runs), side) for side in others]
    around = [(grid, _losses(side.runs, grid)) for grid, side in spread if len(grid) >= FEWEST_STEPS]
    at = float(steps[-1])
    values = (stretch_means(steps, tables[0], at), stretch_means(steps, tables[1], at))
    near = [stretch_means(grid, table, at) for grid, table in around]
    test = difference(values[0], values[1], near)
    planned = max((run.planned for run in runs if run.planned), default=None)
    end = float(horizon or planned or at)
    comparison = SeedComparison(
        sides[0], sides[1], steps, (tables[0], tables[1]), at, values, test,
        interim_tests(steps, tables[0], tables[1], end, around) if test is not None else (),
        None, None, end, at >= ENDED * end, sum(len(side.runs) for side in others),
        broke=(sum(run.broke for run in first.runs), sum(run.broke for run in second.runs)),
        problems=tuple(problems), notes=tuple(notes),
    )  # fmt: skip
    if len(runs) == 2:
        comparison = replace(comparison, parting=_parting(*runs))
    return comparison if test is None else _planned(comparison, test)


def _planned(comparison: SeedComparison, test: Difference) -> SeedComparison:
    """Add how many seeds would find the difference, and which one these would find."""
    k, m = (len(values) for values in comparison.values)
    free = max(test.degrees, 1.0)
    finds = smallest_found(test.sd, free, k, m)
    return replace(comparison, needed=seeds_needed(test.value, test.sd, free, (k, m)), finds=finds)


def _usable(side: Recipe, problems: list[str], *, of_loss: bool) -> Recipe:
    """Return the runs that can be compared; what is wrong with the others, or with a loss, is a problem."""
    finite = [run for run in side.runs if len(run.losses)]
    problems += [f"{run.name}: no finite loss; left out" for run in side.runs if not len(run.losses)]
    for run in finite:
        if run.broken:
            first, many = run.broken[0], len(run.broken)
            where = f"{many:,} losses, the first at step {first:,.0f}, are" if many > 1 else (
                f"the loss at step {first:,.0f} is")  # fmt: skip
            problems.append(f"{run.name}: {where} not finite; skipped")
    if not finite:
        raise InputError(f"{side.name}: no run has a finite loss", remedy="give logs of its losses")
    median_last = float(np.median([run.last for run in finite]))
    short = [run for run in finite if run.last < SHORT * median_last]
    problems += [
        f"{run.name}: it has no finite loss after step {run.last:,.0f}; left out"
        if run.broke
        else f"{run.name}: it ends at step {run.last:,.0f}, the others near {median_last:,.0f}; left out"
        for run in short
    ]
    runs = tuple(run for run in finite if run not in short)
    sizes = sorted({run.stated.parameters for run in runs if run.stated.parameters})
    if len(sizes) > 1:
        raise InputError(
            f"{side.name}: its runs have {len(sizes):,} sizes, "
            f"from {sizes[0]:,.0f} to {sizes[-1]:,.0f} parameters",
            remedy="give a folder of seeds of one recipe",
        )
    groups = grouped([run.stated for run in runs], _metrics(runs) if of_loss else None)
    if len(groups) > 1:
        counts = "; ".join(group.counted for group in groups)
        raise InputError(
            f"{side.name}: its runs are of {len(groups):,} recipes ({counts})",
            remedy="give a folder of seeds of one recipe",
        )
    return _without_copies(Recipe(side.name, runs), problems)


def _name_shared(first: Recipe, second: Recipe, problems: list[str]) -> None:
    """Name the runs that both recipes have, where there are several."""
    if len(first.runs) + len(second.runs) > 2:
        for run in second.runs:
            twin = next(
                (earlier_run for earlier_run in first.runs if earlier_run.losses.equals(run.losses)), None
            )
            if twin is not None:
                named = f"{run.name} has the same losses as {twin.name} of {first.name}"
                problems.append(f"{second.name}: {named}")


def _without_copies(side: Recipe, problems: list[str], compared: Sequence[Recipe] = ()) -> Recipe:
    """Leave out runs with the same losses as another run: a copy is not another seed.

    A copy of a run that is `compared` is named with the place of both: their names may be the same.
    """
    runs: list[SeedRun] = []
    for run in side.runs:
        twin = next((earlier for earlier in runs if earlier.losses.equals(run.losses)), None)
        there = [
            (earlier_run, side)
            for side in compared
            for earlier_run in side.runs
            if earlier_run.losses.equals(run.losses)
        ]
        if there:
            copy_note = f"{_placed(run, side)} has the same losses as {_placed(*there[0])}, which is compared"
            problems.append(f"{option('siblings')}: {copy_note}; left out")
        elif twin is not None:
            problems.append(f"{run.name}: the same losses as {twin.name}; left out")
        else:
            runs.append(run)
    return Recipe(side.name, tuple(runs))


def _placed(run: SeedRun, side: Recipe) -> str:
    """Return the name of a run with that of its recipe, unless it is the recipe's only file."""
    alone = run.name == side.name or run.name.startswith(f"{side.name}/")
    return run.name if alone else f"{side.name}/{run.name}"


def _strangers(first: Recipe, second: Recipe, *, of_loss: bool) -> list[str]:
    """Return the reason if the losses of the two cannot be compared."""
    runs = [
        replace(run, stated=replace(run.stated, run=f"{place}/{run.name}"))
        for place, side in enumerate((first, second))
        for run in side.runs
    ]
    losses = _metrics(runs) if of_loss else None
    groups = grouped([run.stated for run in runs], losses, settings=False)
    if len(groups) < 2:
        return []
    labels = " and ".join(group.label for group in groups)
    return [f"{first.name} and {second.name} differ in what their losses measure ({labels})"]


def _metrics(runs: Sequence[SeedRun]) -> pd.DataFrame:
    rows = [
        pd.DataFrame({"run": run.name, "step": run.losses.index, "loss": run.losses.to_numpy()})
        for run in runs
    ]
    return pd.concat(rows, ignore_index=True)


def _common_steps(runs: Sequence[SeedRun]) -> tuple[np.ndarray, list[str]]:
    """Return the steps at which runs are compared: those that all have, or else those of the sparsest log."""
    steps = _own_steps(runs)
    sparse = min(runs, key=lambda run: len(run.losses))
    if len(steps) >= min(MANY_STEPS, len(sparse.losses)):
        return steps, []
    first, last = max(run.losses.index[0] for run in runs), min(run.last for run in runs)
    grid = sparse.losses.index.to_numpy(float)
    grid = grid[(grid >= first) & (grid <= last)]
    if len(grid) <= len(steps) >= FEWEST_STEPS:
        return steps, []
    return grid, [f"the logs have few steps in common: losses are interpolated at those of {sparse.name}"]


def _own_steps(runs: Sequence[SeedRun]) -> np.ndarray:
    shared = runs[0].losses.index
    for run in runs[1:]:
        shared = shared.intersection(run.losses.index)
    return np.sort(shared.to_numpy(float))


def _losses(runs: Sequence[SeedRun], steps: np.ndarray) -> np.ndarray:
    """Return the losses (runs, steps); between logged steps they are interpolated."""
    return np.stack([np.interp(steps, run.losses.index, run.losses.to_numpy()) for run in runs])


def _parting(first: SeedRun, second: SeedRun) -> Parting | None:
    """Return up to which common step two runs are equal; None if they share no step."""
    logs = [_with_broken(run) for run in (first, second)]
    shared = logs[0].index.intersection(logs[1].index)
    if not len(shared):
        return None
    return parting(shared.to_numpy(float), *(log.loc[shared].to_numpy(float) for log in logs))


def _with_broken(run: SeedRun) -> pd.Series:
    """Return a run's losses by their steps, NaN where they are not finite."""
    finite = run.losses.set_axis(run.losses.index.astype(float))
    return pd.concat([finite, pd.Series(np.nan, index=pd.Index(run.broken, dtype=float))]).sort_index()
