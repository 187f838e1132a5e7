"""What several runs of one check say of each other: siblings to learn from, groups, and those left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from toposcope.forecasting import Curve
from toposcope.runs.run_check import RunCheck

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.runs.reading import Reading


def finished_siblings(
    beside: Sequence[str | pd.DataFrame], reading: Reading
) -> tuple[list[Curve], list[str]]:
    """Return the finished runs to forecast from, and why the other given runs are not among them."""
    from toposcope.runs.reading import read_curves, refuse_twins

    curves, left, _ = read_curves(beside, replace(reading, horizon=None, plan=None))
    refuse_twins(curves)
    problems = [f"sibling {sibling.run}: {sibling.reason}" for sibling in left]
    problems += [f"sibling {sibling.run}: it is not finished" for sibling in curves if not sibling.finished]
    return [sibling for sibling in curves if sibling.finished], problems


def left_out(without: str | Sequence[str], runs: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the names of the runs to leave out; an unknown one is refused.

    `runs` has the name of each run at its place and in the answer. Its name at its place will do if no other
    run has it.
    """
    from toposcope.runs.without import as_names, refuse_unknown

    names = as_names(without)
    counts = Counter(run for run, _ in runs)
    known_names = [run if counts[run] == 1 else name for run, name in runs]
    refuse_unknown(names, known_names, [name for _, name in runs])
    return names


def beside_siblings(
    runs: Sequence[RunCheck], curves: Mapping[str, Curve], siblings: Sequence[Curve]
) -> list[RunCheck]:
    """Return the runs; an unfinished run that has left the curve of its finished siblings gets a ground."""
    from toposcope.runs.collapse import off_siblings

    named_curves = _named(curves)
    grounds = off_siblings(named_curves, [*siblings, *named_curves])
    return [
        replace(run, judgement=run.judgement.beside(grounds[run.name])) if run.name in grounds else run
        for run in runs
    ]


def separate_groups(curves: Mapping[str, Curve]) -> str:
    """Return which runs do not belong together; empty where all do."""
    from toposcope.forecasting.kin import groups_of_curves
    from toposcope.logs.belonging import said

    groups = groups_of_curves(_named(curves))
    return said(groups, "no run is forecast from another group").removesuffix(".")


def _named(curves: Mapping[str, Curve]) -> list[Curve]:
    return [replace(curve, run=name) for name, curve in curves.items()]
