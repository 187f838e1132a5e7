"""`toposcope forecast`: the final loss of unfinished runs, and what topology adds to the forecast."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toposcope.cli.output import json_option, print_json, print_table
from toposcope.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.analysis.forecast import Curve, Forecast, Forecaster, Schedule
    from toposcope.analysis.forecast.gather import Problem


@click.command("forecast", short_help="Forecast the final loss of unfinished runs.")
@click.argument("targets", nargs=-1, required=True, metavar="STORE_OR_RUN...")
@click.option("--siblings", multiple=True, metavar="STORE_OR_RUN", help="Finished runs to learn from.")
@click.option("--schedule", type=click.Path(path_type=Path), help="Planned learning rate: CSV with step,lr.")
@click.option("--horizon", type=int, help="The step at which the runs will end.")
@click.option(
    "--cuts",
    default="0.2,0.3,0.5",
    show_default=True,
    help="Shares of training at which finished runs are scored.",
)
@click.option("--column", default="loss", show_default=True, help="loss or heldout_loss.")
@click.option("--level", type=float, default=0.9, show_default=True, help="Confidence of the intervals.")
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
    level: float,
    advise: bool,
    budget: float | None,
    larger: int | None,
    tokens_per_step: float | None,
    as_json: bool,
) -> int:
    """Forecast the final loss of every unfinished run of STORE_OR_RUN, with an interval.

    Finished runs, there or in --siblings, are what the forecasts learn from. Where every run is finished,
    each is forecast from the others at --cuts of its training and the methods are scored. The table always
    shows the forecast without topology beside those with it.
    """
    if not 0 < level < 1:
        raise InputError(f"--level {level} is not a confidence; give a number between 0 and 1, such as 0.9")
    if advise and (budget is None or budget <= 0):
        raise InputError("--advise needs --budget, the FLOP that are left, above 0")
    plan = _plan(schedule)
    own, problems = _curves(targets, horizon, plan, column)
    others, more = _curves(siblings, None, None, column) if siblings else ([], [])
    problems += more
    if not own:
        detail = f" ({problems[0].run}: {problems[0].reason})" if problems else ""
        raise InputError(f"no run of {', '.join(targets)} has usable losses{detail}")
    finished, begun = _split(own, others)
    if advise:
        return _advise(begun, finished, problems, float(budget or 0), larger, tokens_per_step, level, as_json)
    if begun:
        return _forecast(begun, finished, problems, level, as_json)
    return _score(finished, problems, _shares(cuts), level, as_json)


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


def _curves(
    paths: Sequence[str], horizon: int | None, plan: Schedule | None, column: str
) -> tuple[list[Curve], list[Problem]]:
    import pandas as pd

    from toposcope.analysis.forecast.gather import gather_curves

    curves, problems = [], []
    for path in paths:
        metrics, runs, features, diagrams = _tables(path)
        if metrics.empty:
            raise InputError(
                f"{path} has no losses; give a store or run folder with metrics, or --losses at sweeping"
            )
        schedules = dict.fromkeys(metrics["run"].unique(), plan) if plan is not None else None
        found, bad = gather_curves(
            metrics,
            runs,
            features=features,
            diagrams=diagrams,
            horizon=horizon,
            schedules=schedules,
            column=column,
        )  # type: ignore[arg-type]
        curves += found
        problems += bad
    names = pd.Series([curve.run for curve in curves])
    if names.duplicated().any():
        raise InputError(f"run {names[names.duplicated()].iloc[0]} is given twice; leave one out")
    return curves, problems


def _tables(path: str) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame | None, pd.DataFrame | None]:
    """Return metrics, runs, features and diagrams of a store, or of what `open_series` opens."""
    import pandas as pd

    if (Path(path) / "store.json").is_file():
        from toposcope.store import Store

        store = Store.open(path)
        return store.metrics(), store.runs(), store.features(), store.diagrams(probe="rips")
    from toposcope.sources import open_series

    series = open_series(path)
    frames = [series.metrics(run.run) for run in series.runs]
    rows = [{"run": r.run, "parameters": r.parameters, "config": dict(r.config)} for r in series.runs]
    filled = [frame for frame in frames if len(frame)]
    metrics = pd.concat(filled, ignore_index=True) if filled else pd.DataFrame(columns=["run"])
    return metrics, pd.DataFrame(rows), None, None


def _split(own: list[Curve], others: list[Curve]) -> tuple[list[Curve], list[Curve]]:
    """Return finished and begun runs; a begun run without a known end takes its siblings' common end."""
    from dataclasses import replace

    everyone = own + others
    ends = {curve.horizon for curve in everyone}
    longest = max(ends)
    finished = list(others)
    begun: list[Curve] = []
    for curve in own:
        unplanned = curve.schedule is None and curve.horizon == curve.last
        ended = [
            other for other in everyone if other is not curve and other.horizon == longest and other.finished
        ]
        if unplanned and curve.last < 0.98 * longest and ended:
            curve = replace(curve, horizon=longest)
        (finished if curve.finished else begun).append(curve)
    return finished, begun


def _methods(curves: list[Curve]) -> list[Forecaster]:
    from toposcope.analysis.forecast.auto import Auto, default_candidates
    from toposcope.analysis.forecast.families import Exp4, ILog2, Janoschek
    from toposcope.analysis.forecast.gather import topological_methods

    return [Auto(), *default_candidates(), Exp4(), ILog2(), Janoschek(), *topological_methods(curves)]


def _forecast(
    begun: list[Curve], finished: list[Curve], problems: list[Problem], level: float, as_json: bool
) -> int:
    from toposcope.analysis.forecast import forecast
    from toposcope.progress import Progress

    methods = _methods(begun + finished)
    made = []
    with Progress("forecasting", len(begun) * len(methods), quiet=as_json) as progress:
        for curve in begun:
            for method in methods:
                made.append(forecast(method, curve, finished, level=level))
                progress.advance(note=curve.run)
    ablation = _worth(begun, finished, methods)
    if as_json:
        print_json(
            {
                "forecasts": [_record(one) for one in made],
                "topology": ablation.to_dict("records") if ablation is not None else None,
                "notes": {curve.run: list(curve.notes) for curve in begun + finished if curve.notes},
                "problems": [{"run": p.run, "reason": p.reason} for p in problems],
            }
        )
    else:
        _show_forecasts(begun, finished, made, level)
        _show_ablation(
            ablation, "What topology added on the finished siblings at the same share (|error|, paired)"
        )
        _show_problems(problems, begun + finished)
    bad = any(all(o.status == "failed" for o in made if o.run == curve.run) for curve in begun)
    return 1 if problems or bad else 0


def _worth(begun: list[Curve], finished: list[Curve], methods: list[Forecaster]) -> pd.DataFrame | None:
    """Return topology's paired effect on the finished siblings at the share that the run has reached."""
    from toposcope.analysis.forecast.evaluate import ablate, score_forecasts
    from toposcope.analysis.forecast.siblings import SiblingTransfer
    from toposcope.analysis.forecast.topology import FeatureTransfer

    compared = [m for m in methods if isinstance(m, FeatureTransfer)]
    if len(finished) < 3 or not compared:
        return None
    shares = sorted({round(curve.last / curve.horizon, 4) for curve in begun})
    scores = score_forecasts(finished, [SiblingTransfer(), *compared], shares)
    return ablate(scores, SiblingTransfer().name)


def _record(made: Forecast) -> dict[str, object]:
    return {
        "run": made.run, "method": made.method, "share_seen": made.share, "final_loss": made.final,
        "low": made.low, "high": made.high, "level": made.level, "interval_from": made.interval_from,
        "status": made.status, "reason": made.reason, "steps": made.step, "losses": made.loss,
    }  # fmt: skip


def _show_forecasts(begun: list[Curve], finished: list[Curve], made: list[Forecast], level: float) -> None:
    for curve in begun:
        rows = [
            (one.method, one.final, one.low, one.high, one.interval_from, one.status, one.reason)
            for one in made
            if one.run == curve.run
        ]
        seen = f"step {curve.last} of {curve.horizon} ({curve.last / curve.horizon:.0%})"
        title = f"{curve.run}: final loss, seen to {seen}, {len(finished)} finished siblings"
        print_table(
            title, ("method", "final loss", f"{level:.0%} low", "high", "from", "status", "reason"), rows
        )


def _score(
    finished: list[Curve], problems: list[Problem], shares: list[float], level: float, as_json: bool
) -> int:
    from toposcope.analysis.forecast.evaluate import ablate, score_forecasts, summarise, unseen_largest
    from toposcope.analysis.forecast.siblings import SiblingTransfer
    from toposcope.progress import Progress

    if len(finished) < 3:
        raise InputError(
            f"{len(finished)} finished runs: to score forecasts give at least 3, or an unfinished run"
        )
    methods = _methods(finished)
    with Progress("scoring", len(shares) * len(finished) * len(methods), quiet=as_json) as progress:
        scores = score_forecasts(finished, methods, shares, level=level, advance=progress.advance)
    summary, effects = summarise(scores), ablate(scores, SiblingTransfer().name)
    largest = unseen_largest(finished, [SiblingTransfer()], shares, level=level)
    if as_json:
        print_json(
            {
                "scores": scores.to_dict("records"), "summary": summary.to_dict("records"),
                "topology": effects.to_dict("records"), "unseen_largest": largest.to_dict("records"),
                "notes": {curve.run: list(curve.notes) for curve in finished if curve.notes},
                "problems": [{"run": p.run, "reason": p.reason} for p in problems],
            }
        )  # fmt: skip
        return 1 if problems else 0
    columns = (
        "method",
        "cut",
        "n",
        "mae",
        "mean_relative",
        "worst",
        "covered",
        "bounded",
        "rank_correlation",
    )
    names = ("method", "seen", "runs", "MAE", "mean |rel|", "worst", "in interval", "of", "rank corr.")
    print_table(
        f"Every run forecast from the others ({level:.0%} intervals)", (*names, "reason"),
        [[*(row[c] for c in columns), row["reason"]] for row in summary.to_dict("records")],
    )  # fmt: skip
    _show_ablation(
        effects, "Against sibling transfer on the loss alone (|error|, paired by run; negative: better)"
    )
    print_table(
        "The largest run from the smaller ones",
        tuple(largest.columns),
        largest.itertuples(index=False, name=None),
    )
    _show_problems(problems, finished)
    return 1 if problems else 0


def _show_ablation(effects: pd.DataFrame | None, title: str) -> None:
    if effects is None:
        click.echo(
            "Topology: nothing measured, or fewer than 3 finished siblings; run toposcope weights first."
        )
        return
    names = ("seen", "method", "runs", "effect", "low", "high", "t p", "Wilcoxon p", "smallest p", "reason")
    keys = (
        "cut",
        "method",
        "n",
        "effect",
        "low",
        "high",
        "t_p",
        "wilcoxon_p",
        "smallest_wilcoxon_p",
        "reason",
    )
    print_table(title, names, [[row[key] for key in keys] for row in effects.to_dict("records")])


def _show_problems(problems: list[Problem], curves: list[Curve]) -> None:
    for problem in problems:
        click.echo(f"left out: {problem.run}: {problem.reason}", err=True)
    for curve in curves:
        for note in curve.notes:
            click.echo(f"note: {curve.run}: {note}", err=True)


def _advise(
    begun: list[Curve], finished: list[Curve], problems: list[Problem], budget: float, larger: int | None,
    tokens_per_step: float | None, level: float, as_json: bool,
) -> int:  # fmt: skip
    from dataclasses import asdict

    from toposcope.analysis.decision import advise

    if not begun:
        raise InputError(
            "--advise: every run is finished; give one that is not, or --horizon beyond its last step"
        )
    advices = []
    for curve in begun:
        tokens = tokens_per_step or curve.covariates.get("tokens_per_step")
        if not tokens or curve.parameters <= 0:
            missing = (
                "tokens per step (--tokens-per-step)" if curve.parameters > 0 else "number of parameters"
            )
            raise InputError(f"run {curve.run}: its {missing} is unknown, so FLOP cannot be counted")
        units = budget / (6.0 * tokens)
        target = larger or 2 * curve.parameters
        advices.append(advise(curve, finished, budget=units, larger=target, level=level))
    if as_json:
        print_json(
            {
                "advice": [asdict(advice) for advice in advices],
                "problems": [{"run": p.run, "reason": p.reason} for p in problems],
            }
        )
        return 1 if problems else 0
    for advice in advices:
        rows = [
            (o.action, o.steps, o.loss, o.low, o.high, o.spent, o.cost, o.status, o.reason)
            for o in advice.options
        ]
        title = f"{advice.run}: {advice.action} ({advice.why})"
        names = ("option", "steps", "loss", "low", "high", "budget spent", "cost", "status", "reason")
        print_table(title, names, rows)
    _show_problems(problems, begun + finished)
    return 1 if problems else 0
