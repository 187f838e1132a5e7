"""What `toposcope forecast` prints: one line per run first, the tables behind it on demand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from toposcope.cli.output import print_table

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.analysis.forecast import Curve, Forecast
    from toposcope.analysis.forecast.gather import Problem
    from toposcope.analysis.health import Symptom

_MOST_EXPLAINED = 5
"""Runs whose methods are named one by one; more are in --json."""


def record(made: Forecast) -> dict[str, object]:
    """Return a forecast as a JSON object."""
    return {
        "run": made.run, "method": made.method, "share_seen": made.share, "final_loss": made.final,
        "low": made.low, "high": made.high, "level": made.level, "interval_from": made.interval_from,
        "status": made.status, "reason": made.reason, "steps": made.step, "losses": made.loss,
        "curve_low": made.curve_low, "curve_high": made.curve_high, "used": dict(made.used),
    }  # fmt: skip


def show_lines(curves: Sequence[Curve], made: Mapping[str, Forecast], siblings: int) -> None:
    """Print one line per run: value, interval, method, from what; then a reason all share, once."""
    width = max(len(curve.run) for curve in curves)
    reasons = {made[curve.run].reason for curve in curves}
    common = len(curves) > 1 and len(reasons) == 1
    for curve in curves:
        one = made[curve.run]
        seen = f"seen {curve.last / curve.horizon:.0%}"
        if curve.endless:
            seen = f"seen to step {curve.last}, end unknown"
        click.echo(f"{curve.run:{width}}  {_value(one)}  {_source(one)}, {seen}")
        if one.reason and not common:
            click.echo(f"  {one.status}: {one.reason}" if one.status != "ok" else f"  {one.reason}")
    if common and (reason := reasons.pop()):
        click.echo(f"all: {reason}")
    level = next(iter(made.values())).level
    click.echo(
        f"Final loss, mean over the last 2% of the steps, {level:.0%} interval, {siblings} finished siblings"
    )
    explained = [c for c in curves if made[c.run].used][:_MOST_EXPLAINED]
    for curve in explained:
        click.echo(f"{made[curve.run].method} of {curve.run}: {_used(made[curve.run])}")


def _value(one: Forecast) -> str:
    if not math.isfinite(one.final):
        return "no forecast"
    bounds = f"[{one.low:.4g}, {one.high:.4g}]" if math.isfinite(one.low) else "[no interval]"
    return f"{one.final:.4g} {bounds}"


def _source(one: Forecast) -> str:
    return one.method if one.interval_from == "nothing" else f"{one.method} by {one.interval_from}"


def _used(one: Forecast, least: float = 0.01) -> str:
    named = [f"{name} {share:.0%}" for name, share in one.used if share >= least]
    return ", ".join(named)


def show_methods(curves: Sequence[Curve], made: Sequence[Forecast]) -> None:
    """Print every method's forecast, one table per run; a reason that several rows share is said once."""
    for curve in curves:
        rows = [one for one in made if one.run == curve.run]
        notes: dict[str, str] = {}
        for one in rows:
            if one.reason:
                notes.setdefault(one.reason, f"{len(notes) + 1}")
        cells = [
            (one.method, one.final, one.low, one.high, one.interval_from, one.status, notes.get(one.reason))
            for one in rows
        ]
        print_table(
            f"{curve.run}: final loss by every method",
            ("method", "final loss", "low", "high", "from", "status", "note"),
            cells,
        )
        for reason, number in notes.items():
            click.echo(f"  {number}: {reason}")


def show_symptoms(found: Mapping[str, Sequence[Symptom]]) -> None:
    """Print what is wrong with runs, before any forecast."""
    for run, symptoms in found.items():
        for symptom in symptoms:
            click.echo(f"{run}: {symptom}")


def show_scores(summary: pd.DataFrame, largest: pd.DataFrame, level: float) -> None:
    """Print how well finished runs were forecast from the others."""
    names = {
        "method": "method", "cut": "seen", "n": "runs", "mae": "MAE", "mean_relative": "|rel|",
        "worst": "worst", "covered": "held", "bounded": "of", "rank_correlation": "rank",
    }  # fmt: skip
    rows = [[row[c] for c in names] for row in summary.to_dict("records")]
    print_table(f"Every run forecast from the others ({level:.0%} intervals)", tuple(names.values()), rows)
    for reason in dict.fromkeys(r for r in summary["reason"] if r):
        click.echo(f"  failed: {reason}")
    columns = ["method", "run", "cut", "predicted", "low", "high", "actual", "status"]
    print_table(
        "The largest run from the smaller ones", columns,
        largest[columns].itertuples(index=False, name=None),
    )  # fmt: skip


def show_ablation(effects: pd.DataFrame | None, title: str) -> None:
    """Print what features added to sibling transfer, paired by run."""
    if effects is None:
        click.echo(
            "Topology: nothing measured, or fewer than 3 finished siblings; run toposcope weights first."
        )
        return
    names = {
        "cut": "seen", "method": "method", "n": "runs", "effect": "effect", "low": "low", "high": "high",
        "t_p": "t p", "wilcoxon_p": "Wilcoxon p", "smallest_wilcoxon_p": "smallest p", "reason": "reason",
    }  # fmt: skip
    rows = [[row[key] for key in names] for row in effects.to_dict("records")]
    print_table(title, tuple(names.values()), rows)


def show_problems(problems: Sequence[Problem], curves: Sequence[Curve]) -> None:
    """Print what was left out, and what was repaired."""
    for problem in problems:
        kind = "left out" if problem.left_out else "problem"
        click.echo(f"{kind}: {problem.run}: {problem.reason}", err=True)
    for curve in curves:
        for note in curve.notes:
            click.echo(f"note: {curve.run}: {note}", err=True)
