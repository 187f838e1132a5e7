"""`toposcope forecast`: the final loss of unfinished runs, and what topology adds to the forecast."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toposcope.cli.forecast_advice import Asked, show_advice
from toposcope.cli.forecast_lines import (
    broken,
    listed,
    record,
    show_ablation,
    show_lines,
    show_methods,
    show_problems,
    show_scores,
    show_symptoms,
    symptoms_of,
)
from toposcope.cli.output import json_option, print_json, print_table
from toposcope.cli.sweeping import renamed, step_pattern_option
from toposcope.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.analysis.forecast import Curve, Forecaster, Schedule
    from toposcope.analysis.forecast.gather import Problem


@click.command("forecast")
@click.argument("targets", nargs=-1, metavar="STORE_OR_RUN...")
@click.option(
    "--siblings", multiple=True, metavar="STORE_OR_RUN", help="Finished runs to learn from; repeat."
)
@click.option("--schedule", type=click.Path(path_type=Path), help="Planned learning rate: CSV with step,lr.")
@click.option("--horizon", type=int, help="The step at which the runs will end.")
@click.option(
    "--cuts",
    default="0.2,0.3,0.5",
    show_default=True,
    help="Shares of training at which finished runs are scored.",
)
@click.option(
    "--column", default="loss", show_default=True, help="The loss: loss, heldout_loss, or a table's column."
)
@click.option("--rename", multiple=True, metavar="OLD=NEW", help="What a table's column is; repeat.")
@step_pattern_option
@click.option(
    "--parameters", type=int, default=0, help="Size of runs whose files do not say; of the run to come."
)
@click.option("--level", type=float, default=0.9, show_default=True, help="Confidence of the intervals.")
@click.option("--finished", is_flag=True, help="Every run is finished where its log ends, short ones too.")
@click.option(
    "--methods",
    type=click.Choice(["auto", "all"]),
    default="auto",
    show_default=True,
    help="Which methods to show; all of them and what topology adds: slower.",
)
@click.option("--advise", is_flag=True, help="Continue, stop, or scale up? Needs --budget.")
@click.option("--budget", type=float, help="FLOP that are left, for --advise.")
@click.option(
    "--larger", type=int, help="Parameters of the larger model, for --advise.  [default: twice the run's]"
)
@click.option("--tokens-per-step", type=float, help="Tokens in one step, where the logs do not say.")
@json_option
def command(
    targets: tuple[str, ...],
    siblings: tuple[str, ...],
    schedule: Path | None,
    horizon: int | None,
    cuts: str,
    column: str,
    rename: tuple[str, ...],
    step_pattern: str | None,
    parameters: int,
    level: float,
    finished: bool,
    methods: str,
    advise: bool,
    budget: float | None,
    larger: int | None,
    tokens_per_step: float | None,
    as_json: bool,
) -> int:
    """Forecast the final loss of every unfinished run of STORE_OR_RUN, with an interval.

    STORE_OR_RUN is a store, a run folder, or a CSV or parquet table with columns step, loss and, where known,
    run, lr, tokens, parameters, heldout_loss and features. Finished runs, there or in --siblings, are what
    the forecasts learn from. Where every run is finished, each is forecast from the others at --cuts of its
    training and the methods are scored. With --siblings and --schedule alone, the run that the schedule plans
    is forecast before it begins. What is wrong with a run (it diverges, its losses are not
    finite, it no longer falls, it spikes, its rate has ended) is said first. --methods all shows the forecast
    without topology beside those with it.
    """
    if not 0 < level < 1:
        raise InputError(f"--level {level} is not a confidence; give a number between 0 and 1, such as 0.9")
    if advise and budget is None:
        raise InputError("--advise needs --budget, the FLOP that are left, above 0")
    _positive("--budget", budget)
    _positive("--tokens-per-step", tokens_per_step)
    _positive("--larger", larger)
    _positive("--parameters", parameters or None)
    from toposcope.analysis.forecast.gather import Problem, split_runs
    from toposcope.analysis.forecast.reading import Reading, read_curves, refuse_twins

    plan = _plan(schedule)
    if not targets and (plan is None or not siblings):
        raise InputError(
            "name a store, a run or a table; or give --siblings and --schedule for a run to come"
        )
    reading = Reading(column, renamed(rename), horizon, plan, parameters, step_pattern)
    own, problems, notes = read_curves(targets, reading)
    others, more, noted = read_curves(siblings, replace(reading, horizon=None, plan=None))
    reading.refuse_unmet()
    refuse_twins(own + others)
    for note in dict.fromkeys(notes + noted):
        click.echo(f"note: {note}", err=True)
    problems += more
    problems += [
        Problem(c.run, f"not finished, step {c.last} of {c.horizon}: it cannot serve as a sibling")
        for c in others
        if not c.finished
    ]
    if plan is not None and not targets:
        alike = [curve for curve in others if parameters in (0, curve.parameters)]
        return _planned(plan, alike, problems, level, as_json)
    if not own:
        why = [problem.reason for problem in problems if problem.left_out]
        detail = f": {why[0]}" if why else ""
        raise InputError(f"no run of {', '.join(targets)} can be forecast{detail}")
    ended, begun = split_runs(own, others, all_finished=finished)
    if advise:
        asked = Asked(float(budget or 0), larger, tokens_per_step, level)
        return show_advice(begun, ended, own, problems, asked, as_json=as_json)
    everything = as_json or methods == "all"
    if begun:
        return _forecast(begun, ended, problems, level, as_json, everything)
    return _score(ended, problems, _shares(cuts), level, as_json, everything)


def _positive(option: str, value: float | None) -> None:
    if value is not None and not (math.isfinite(value) and value > 0):
        raise InputError(f"{option} {value:g}: give a finite number above 0")


def _plan(path: Path | None) -> Schedule | None:
    from toposcope.analysis.forecast import read_schedule

    return None if path is None else read_schedule(path)


def _shares(cuts: str) -> list[float]:
    try:
        shares = [float(cut) for cut in cuts.split(",")]
    except ValueError:
        raise InputError(f"--cuts {cuts!r} is not a list of numbers; for example 0.2,0.3,0.5") from None
    if any(not 0 < share < 1 for share in shares):
        raise InputError(f"--cuts {cuts}: every cut lies between 0 and 1, the share of training seen")
    return shares


def _methods(curves: list[Curve]) -> list[Forecaster]:
    from toposcope.analysis.forecast.annealing import PUBLISHED
    from toposcope.analysis.forecast.auto import Auto, default_candidates
    from toposcope.analysis.forecast.families import Exp4, ILog2, Janoschek
    from toposcope.analysis.forecast.gather import topological_methods
    from toposcope.analysis.forecast.laws import MultiPower
    from toposcope.papers.forecasters import published_rules

    laws = (MultiPower(shape=PUBLISHED),)
    families = (Exp4(), ILog2(), Janoschek())
    return [Auto(), *default_candidates(), *laws, *families, *topological_methods(curves, published_rules)]


def _forecast(
    begun: list[Curve], finished: list[Curve], problems: list[Problem], level: float, as_json: bool,
    everything: bool,
) -> int:  # fmt: skip
    from toposcope.analysis.forecast import forecast
    from toposcope.progress import Progress

    methods = _methods(begun + finished)[: None if everything else 1]
    made = []
    with Progress("forecasting", len(begun) * len(methods), quiet=as_json) as progress:
        for curve in begun:
            for method in methods:
                made.append(forecast(method, curve, finished, level=level))
                progress.advance(note=curve.run)
    ablation = _worth(begun, finished, methods)
    symptoms = symptoms_of(begun)
    if as_json:
        print_json(
            {
                "forecasts": [record(one) for one in made],
                "topology": ablation.to_dict("records") if ablation is not None else None,
                "notes": {curve.run: list(curve.notes) for curve in begun + finished if curve.notes},
                "problems": [*({"run": p.run, "reason": p.reason} for p in problems), *listed(symptoms)],
            }
        )
    else:
        show_symptoms(symptoms)
        show_lines(begun, {one.run: one for one in made if one.method == methods[0].name}, len(finished))
        if everything:
            show_methods(begun, made)
            show_ablation(ablation, "What features added on the finished siblings at the same share")
        show_problems(problems, begun + finished)
    bad = any(one.status == "failed" for one in made if one.method == methods[0].name)
    return 1 if problems or bad or symptoms else 0


def _planned(
    plan: Schedule, siblings: list[Curve], problems: list[Problem], level: float, as_json: bool
) -> int:
    """Forecast the run that `plan` describes before it begins."""
    from toposcope.analysis.forecast import forecast_planned

    made = forecast_planned(plan, siblings, level=level)
    if as_json:
        print_json(
            {
                "forecasts": [record(one) for one in made],
                "problems": [{"run": p.run, "reason": p.reason} for p in problems],
            }
        )
    else:
        title = (
            f"A run of {plan.end} steps that has not begun, from {len(siblings)} finished runs of its size"
        )
        columns = ("law", "final loss", f"{level:.0%} low", "high", "from", "status", "reason")
        cells = [(o.method, o.final, o.low, o.high, o.interval_from, o.status, o.reason) for o in made]
        print_table(title, columns, cells)
        show_problems(problems, siblings)
    return 1 if problems or made[0].status == "failed" else 0


def _worth(begun: list[Curve], finished: list[Curve], methods: list[Forecaster]) -> pd.DataFrame | None:
    """Return topology's paired effect on the finished siblings at the share that the run has reached."""
    from toposcope.analysis.forecast.compare import worth_of_features
    from toposcope.analysis.forecast.evaluate import score_forecasts
    from toposcope.analysis.forecast.siblings import SiblingTransfer
    from toposcope.analysis.forecast.topology import FeatureTransfer

    compared = [m for m in methods if isinstance(m, FeatureTransfer)]
    shares = sorted({round(curve.last / curve.horizon, 4) for curve in begun if not curve.endless})
    if len(finished) < 3 or not compared or not shares:
        return None
    scores = score_forecasts(finished, [SiblingTransfer(), *compared], shares)
    return worth_of_features(scores)


def _score(
    finished: list[Curve], problems: list[Problem], shares: list[float], level: float, as_json: bool,
    everything: bool,
) -> int:  # fmt: skip
    from toposcope.analysis.forecast.compare import worth_of_features
    from toposcope.analysis.forecast.evaluate import score_forecasts, summarise, unseen_largest
    from toposcope.analysis.forecast.families import LastValue
    from toposcope.analysis.forecast.siblings import SiblingTransfer
    from toposcope.papers.forecasters import CONTROLS
    from toposcope.progress import Progress

    symptoms = symptoms_of(finished if len(finished) < 3 else broken(finished))
    if len(finished) < 3:
        runs = "1 finished run" if len(finished) == 1 else f"{len(finished)} finished runs"
        why = f"{runs}: to score forecasts give at least 3, or an unfinished run"
        if not symptoms or as_json:
            raise InputError(why)
        show_symptoms(symptoms)
        click.echo(f"No forecast: {why}")
        return 1
    methods = _methods(finished)
    if not everything:
        methods = [methods[0], SiblingTransfer(), LastValue()]
    with Progress("scoring", len(shares) * len(finished) * len(methods), quiet=as_json) as progress:
        scores = score_forecasts(finished, methods, shares, level=level, advance=progress.advance)
    summary, worth = summarise(scores), worth_of_features(scores, controls=CONTROLS)
    largest = unseen_largest(finished, [methods[0]], shares, level=level)
    if as_json:
        print_json(
            {
                "scores": scores.to_dict("records"), "summary": summary.to_dict("records"),
                "topology": worth.to_dict("records"), "unseen_largest": largest.to_dict("records"),
                "notes": {curve.run: list(curve.notes) for curve in finished if curve.notes},
                "problems": [*({"run": p.run, "reason": p.reason} for p in problems), *listed(symptoms)],
            }
        )  # fmt: skip
        return 1 if problems or symptoms else 0
    show_symptoms(symptoms)
    show_scores(summary, largest, level)
    if everything:
        show_ablation(worth, "What features added to the forecast")
    show_problems(problems, finished)
    return 1 if problems or symptoms else 0
