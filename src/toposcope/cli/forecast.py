"""`toposcope forecast`: the final loss of unfinished runs, and what topology adds to the forecast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toposcope.cli._forecast_lines import (
    lines_of_grounds,
    listed,
    record,
    score_line,
    show_ablation,
    show_ended,
    show_grounds,
    show_lines,
    show_methods,
    show_problems,
    show_scores,
    show_trendless,
)
from toposcope.cli.output import (
    json_option,
    naming_part_faults,
    pattern_option,
    print_json,
    print_table,
    renamed,
    say,
    step_pattern_option,
    without_option,
)
from toposcope.core.errors import InputError
from toposcope.core.wording import option

if TYPE_CHECKING:
    from toposcope.api import Forecasts
    from toposcope.api.advice import Advices
    from toposcope.forecasting.decision.advice import Advice


@click.command("forecast")
@click.argument("targets", nargs=-1, metavar="STORE_OR_RUN...")
@click.option(
    "--siblings", multiple=True, metavar="STORE_OR_RUN", help="Finished runs to learn from. Can be repeated."
)
@click.option(
    "--schedule",
    type=click.Path(path_type=Path),
    help="Planned learning rate: a CSV file with columns step and lr.",
)
@click.option("--horizon", type=int, help="Step at which the runs will end.")
@click.option(
    "--annealed",
    type=int,
    metavar="STEPS",
    help="Forecast the loss after a decay that starts now: the rate falls to 0 over STEPS.",
)
@click.option(
    "--cuts",
    default="0.2,0.3,0.5",
    show_default=True,
    help="Shares of the training at which finished runs are cut off and scored.",
)
@click.option(
    "--column",
    default="loss",
    show_default=True,
    help="Column of the loss to forecast: loss, heldout_loss, or any column of a table.",
)
@pattern_option
@click.option(
    "--rename", multiple=True, metavar="OLD=NEW", help="Rename a column of a table. Can be repeated."
)
@step_pattern_option
@click.option(
    "--parameters",
    type=int,
    default=0,
    help="Number of parameters of a planned run, and of runs whose files do not state it.",
)
@click.option("--level", type=float, default=0.9, show_default=True, help="Confidence of the intervals.")
@click.option(
    "--finished", is_flag=True, help="Treat every run as finished, even if its files do not say so."
)
@click.option(
    "--methods",
    type=click.Choice(["auto", "all"]),
    default="auto",
    show_default=True,
    help="auto: the default forecast. all: every method, and whether topology improves it (slower).",
)
@click.option("--advise", is_flag=True, help="Say whether to continue, stop or scale up. Needs --budget.")
@click.option("--budget", type=float, help="FLOP left to spend, for --advise.")
@click.option(
    "--larger",
    type=int,
    help="Number of parameters of the larger model, for --advise.  [default: twice the run's]",
)
@click.option(
    "--tokens-per-step", type=float, help="Number of tokens per step, for logs that do not state it."
)
@without_option
@json_option
@naming_part_faults("targets")
def command(
    targets: tuple[str, ...],
    siblings: tuple[str, ...],
    schedule: Path | None,
    horizon: int | None,
    annealed: int | None,
    cuts: str,
    column: str,
    rename: tuple[str, ...],
    pattern: str | None,
    step_pattern: str | None,
    parameters: int,
    level: float,
    finished: bool,
    methods: str,
    advise: bool,
    budget: float | None,
    larger: int | None,
    tokens_per_step: float | None,
    without: tuple[str, ...],
    as_json: bool,
) -> int:
    """Forecast the final loss of every unfinished run, with an interval.

    STORE_OR_RUN is a store, a run folder, a training log, a folder of logs, or a table with columns step
    and loss. The columns run, lr, tokens, parameters, heldout_loss and features are used if they exist.

    Forecasts also learn from finished runs, in STORE_OR_RUN or in --siblings. If every run is finished,
    each is cut off at --cuts and forecast from the others, which scores the methods. With --siblings and
    --schedule but no STORE_OR_RUN, the command forecasts a run that has not started.

    If something is wrong with a run, the first line says so: it diverges, has losses that are not finite,
    no longer falls, spikes, or its learning rate has reached its end.
    """
    if advise and budget is None:
        raise InputError(
            f"it needs {option('budget')}",
            argument="advise",
            remedy="give the FLOP that are left, a number above 0",
        )
    from toposcope.api import forecast
    from toposcope.core.bounds import check_positive

    for name, value in (("budget", budget), ("tokens_per_step", tokens_per_step), ("larger", larger)):
        check_positive(name, value)
    forecasts = forecast(
        targets, siblings=siblings, schedule=schedule, horizon=horizon, annealed=annealed,
        cuts=_shares(cuts), column=column,
        rename=renamed(rename), pattern=pattern, step_pattern=step_pattern, parameters=parameters,
        level=level,
        finished=finished, methods="all" if as_json else methods, quiet=as_json, without=without,
    )  # fmt: skip
    for note in forecasts.notes:
        click.echo(f"note: {note}", err=True)
    show_trendless(forecasts, as_json=as_json)
    if forecasts.trendless and not forecasts.own and not forecasts.planned:
        return 0
    if advise and forecasts.at_end and not forecasts.unfinished and not forecasts.grounds:
        return show_ended(forecasts, as_json=as_json)
    if advise and not forecasts.planned:
        advices = forecasts.advise(float(budget or 0), larger=larger, tokens_per_step=tokens_per_step)
        return _show_advice(advices, forecasts, as_json=as_json)
    if as_json or not forecasts.groups:
        return _shown(forecasts, as_json)
    say(forecasts.apart)
    codes = []
    for label, part in forecasts.parts.items():
        if part.unfinished or not forecasts.unfinished:
            click.echo("")
            say(f"{label}:")
            codes.append(_shown(part, as_json=False) if part.unfinished or not part.too_few else _none(part))
    return max(codes)


def _shown(forecasts: Forecasts, as_json: bool) -> int:
    shown = _show_planned if forecasts.planned else _show_unfinished if forecasts.unfinished else _show_scored
    return shown(forecasts, as_json)


def _none(forecasts: Forecasts, *, as_json: bool = False) -> int:
    """Say why no run of a group can be forecast; return the exit code 1."""
    if as_json:
        first = [*lines_of_grounds(forecasts.grounds), f"No forecast: {forecasts.too_few}"][0]
        problems = [*_reasons(forecasts), *listed(forecasts.grounds)]
        reply = {"answer": first, "forecasts": [], "verdict": forecasts.verdict, "reason": forecasts.too_few}
        print_json({**reply, "problems": problems})
        return 1
    show_grounds(forecasts.grounds)
    say(f"No forecast: {forecasts.too_few}")
    return 1


def _groups(forecasts: Forecasts) -> list[dict[str, object]]:
    return [{"label": group.label, "runs": list(group.runs)} for group in forecasts.groups]


def _shares(cuts: str) -> list[float]:
    try:
        return [float(cut) for cut in cuts.split(",")]
    except ValueError:
        raise InputError(
            "not a list of numbers", argument="cuts", value=cuts, remedy="write for example 0.2,0.3,0.5"
        ) from None


def _reasons(forecasts: Forecasts) -> list[dict[str, object]]:
    return [{"run": fault.run, "reason": fault.reason} for fault in forecasts.faults]


def _show_unfinished(forecasts: Forecasts, as_json: bool) -> int:
    leading = {
        forecast.run: forecast for forecast in forecasts.made if forecast.method == forecasts.methods[0].name
    }
    effects, grounds, curves = forecasts.effects, forecasts.grounds, [*forecasts.unfinished, *forecasts.ended]
    if as_json:
        print_json(
            {
                "answer": forecasts.line,
                "groups": _groups(forecasts),
                "forecasts": [record(forecast) for forecast in forecasts.made],
                "topology": effects.to_dict("records") if effects is not None else None,
                "notes": {curve.run: list(curve.notes) for curve in curves if curve.notes},
                "verdict": forecasts.verdict,
                "problems": [*_reasons(forecasts), *listed(grounds)],
            }
        )
    else:
        show_grounds(grounds)
        show_lines(forecasts.unfinished, leading, len(forecasts.ended))
        if forecasts.everything:
            show_methods(forecasts.unfinished, forecasts.made)
            show_ablation(
                effects,
                "What features added to forecasts of the finished siblings at the same share of training",
            )
        show_problems(forecasts.faults, curves)
    bad = any(forecast.status == "failed" for forecast in leading.values())
    return 1 if forecasts.faults or bad or grounds else 0


def _show_planned(forecasts: Forecasts, as_json: bool) -> int:
    if as_json:
        print_json(
            {
                "answer": forecasts.line,
                "forecasts": [record(forecast) for forecast in forecasts.planned],
                "problems": _reasons(forecasts),
            }
        )
    else:
        columns = ("law", "final loss", f"{forecasts.level:.0%} low", "high", "from", "status", "reason")
        cells = [
            (o.method, o.final, *o.bounds, o.interval_from, o.status, o.reason) for o in forecasts.planned
        ]
        steps = f" of {forecasts.schedule.end:,} steps" if forecasts.schedule is not None else ""
        title = f"A planned run{steps}, from {len(forecasts.ended):,} finished runs of its size"
        print_table(title, columns, cells)
        show_problems(forecasts.faults, forecasts.ended)
    return 1 if forecasts.faults or forecasts.planned[0].status == "failed" else 0


def _show_scored(answer: Forecasts, as_json: bool) -> int:
    grounds = answer.grounds
    if answer.too_few:
        if answer.at_end and not grounds:
            return show_ended(answer, as_json=as_json)
        if not grounds:
            raise InputError(answer.too_few)
        return _none(answer, as_json=as_json)
    if as_json:
        assert answer.effects is not None  # enough runs are finished
        print_json(
            {
                "answer": [*lines_of_grounds(grounds), score_line(answer, answer.summary)][0],
                "groups": _groups(answer),
                "scores": answer.scores.to_dict("records"), "summary": answer.summary.to_dict("records"),
                "topology": answer.effects.to_dict("records"),
                "unseen_largest": answer.largest.to_dict("records"),
                "notes": {curve.run: list(curve.notes) for curve in answer.ended if curve.notes},
                "verdict": answer.verdict,
                "problems": [*_reasons(answer), *listed(grounds)],
            }
        )  # fmt: skip
        return 1 if answer.faults or grounds else 0
    summary = answer.summary  # the bar of the work ends before anything is printed
    show_grounds(grounds)
    show_scores(answer, summary)
    if answer.everything:
        show_ablation(answer.effects, "What features added to the forecast")
    show_problems(answer.faults, answer.ended)
    return 1 if answer.faults or grounds else 0


def _show_advice(advices: Advices, forecasts: Forecasts, *, as_json: bool) -> int:
    """Print advice for every run that is unfinished or whose log shows a fault; return the exit code."""
    if as_json:
        reasons = [{"run": p.run, "reason": p.reason} for p in forecasts.faults]
        print_json(
            {
                "answer": repr(advices).splitlines()[0],
                "advice": [asdict(advice) for advice in advices.advice],
                "verdict": forecasts.verdict,  # a sound run may be stopped, too, where that costs least
                "problems": [*reasons, *listed(advices.grounds)],
            }
        )
    else:
        if forecasts.apart:
            say(forecasts.apart)
        _print_advice(advices.advice, forecasts.level)
        show_problems(forecasts.faults, [*forecasts.unfinished, *forecasts.ended])
    return 1 if forecasts.faults or advices.grounds else 0


def _print_advice(advices: Sequence[Advice], level: float) -> None:
    from toposcope.core.tabular import of_cells

    for advice in advices:
        say(f"{advice.run}: {advice.action} ({advice.why})")
    for advice in advices:
        rows = [
            (
                o.action, f"{o.parameters:,}", f"{o.steps:,.0f}" if o.steps == o.steps else "", o.loss, o.low,
                o.high, f"{o.spent:.1%}" if o.spent == o.spent else "", o.cost,
            )
            for o in advice.options
        ]  # fmt: skip
        names = ("option", "parameters", "steps", "loss", "low", "high", "spent", "cost")
        if rows:
            title = "" if len(advices) == 1 else advice.run
            of_cells(title, names, rows).show(compact=True)
        for choice in advice.options:
            if choice.reason:
                say(f"{choice.action}: {choice.reason}", "  ")
    if any(advice.options for advice in advices):
        say(
            f"loss: expected, with its {level:.0%} interval; spent: share of the budget; "
            "cost: loss x (1 + 0.01 x spent), lower is better: the whole budget is worth 1% of the loss."
        )
