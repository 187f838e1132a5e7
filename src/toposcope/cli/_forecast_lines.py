"""What `toposcope forecast` prints: one line per run first, the tables behind it on demand."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from toposcope.cli.output import print_json, say
from toposcope.core.forms import listed as in_words
from toposcope.core.forms import sentences
from toposcope.core.tabular import of_cells

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.api import Forecasts
    from toposcope.forecasting import Curve, Forecast
    from toposcope.logs.remarks import Remark
    from toposcope.runs.curves import Problem

_LEAST_SAID = 0.01
"""Share of an average below which a method is not named; --json has all."""
_MOST_NAMED = 5
"""The most runs that a note names; the others are counted."""


def record(made: Forecast) -> dict[str, object]:
    """Return a forecast as a JSON object."""
    return {
        "run": made.run, "method": made.method, "share_seen": made.share, "final_loss": made.final,
        "low": made.low, "high": made.high, "level": made.level, "interval_from": made.interval_from,
        "coverage": made.coverage, "status": made.status, "reason": made.reason,
        "steps": made.step, "losses": made.loss,
        "curve_low": made.curve_low, "curve_high": made.curve_high, "used": dict(made.used),
    }  # fmt: skip


def show_lines(curves: Sequence[Curve], made: Mapping[str, Forecast], siblings: int) -> None:
    """Print a sentence per run: value, interval, method and its data; shared reasons are printed once."""
    shared, reasons = _reasons([made[curve.run] for curve in curves])
    for curve in curves:
        say(f"{curve.run} {_ending(made[curve.run])}; {_seen(curve)}")
        if reasons[curve.run]:
            say(sentences(reasons[curve.run]), "  ")
    if shared:
        say(sentences(shared))
    level = next(iter(made.values())).level
    say(
        f"Final loss: mean over the last 2% of the steps, {level:.0%} interval, {_finished(siblings)}."
        + _method_shares([made[curve.run] for curve in curves])
    )


def _reasons(forecasts: Sequence[Forecast]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the parts of the runs' reasons that several share, and those of each run alone."""
    parts = {forecast.run: [part for part in forecast.reason.split("; ") if part] for forecast in forecasts}
    count = Counter(part for of_run in parts.values() for part in of_run)
    shared = [part for part, n in count.items() if n > 1]
    return shared, {run: [p for p in of_run if count[p] == 1] for run, of_run in parts.items()}


def _finished(siblings: int) -> str:
    return f"{siblings or 'no'} finished sibling" + ("" if siblings == 1 else "s")


def _method_shares(forecasts: Sequence[Forecast]) -> str:
    """Return the methods in an average and their shares, averaged over several runs."""
    used = [dict(forecast.used) for forecast in forecasts if forecast.used]
    if not used:
        return ""
    mean = {name: sum(u.get(name, 0.0) for u in used) / len(used) for name in {n for u in used for n in u}}
    named = [f"{v:.0%} {k}" for k, v in sorted(mean.items(), key=lambda i: -i[1]) if v >= _LEAST_SAID]
    over = f", on average over {len(used):,} runs" if len(used) > 1 else ""
    return f" Methods in the average{over}: {' + '.join(named)}."


def _seen(curve: Curve) -> str:
    if curve.endless:
        return f"seen to step {curve.last:,}, end unknown"
    return f"{curve.last / curve.horizon:.0%} seen"


def _ending(forecast: Forecast) -> str:
    """Return where a run ends, by which method; why it cannot be forecast stands in a line of its own."""
    from toposcope.forecasting.ends import where_it_ends

    if not math.isfinite(forecast.final):
        return "cannot be forecast"
    if forecast.not_yet:
        return "cannot be forecast yet"
    return f"{where_it_ends(forecast)}, by {_source(forecast)}"


def _source(forecast: Forecast) -> str:
    by = _by(forecast)
    return f"{forecast.method}; interval from {by}" if by else forecast.method


def _by(forecast: Forecast) -> str:
    """Return in a few words what the interval was learned from."""
    short = {"nothing": "", "earlier cuts of the same run": "its own cuts"}
    return short.get(forecast.interval_from, forecast.interval_from.replace("held-out ", ""))


def show_methods(curves: Sequence[Curve], made: Sequence[Forecast]) -> None:
    """Print every method's forecast, one table per run; a reason that several rows share is said once."""
    for curve in curves:
        rows = [forecast for forecast in made if forecast.run == curve.run]
        notes: dict[str, str] = {}
        for row in rows:
            if row.reason:
                notes.setdefault(row.reason, f"{len(notes) + 1}")
        by = list(dict.fromkeys(filter(None, map(_by, rows))))
        names = ["method", "final loss", "low", "high", "note", *(["interval from"] if len(by) > 1 else [])]
        cells = [
            (row.method, row.final, *row.bounds, notes.get(row.reason), _by(row))[: len(names)]
            for row in rows
        ]
        learnt = f" from {by[0]}" if len(by) == 1 else ""
        title = f"{curve.run}: final loss by every method ({rows[0].level:.0%} intervals{learnt})"
        of_cells(title, names, cells).show(compact=True)
        for reason, number in notes.items():
            say(f"{number}: {sentences(reason.split('; '))}", "  ")


def listed(grounds: Mapping[str, Sequence[Remark]]) -> list[dict[str, object]]:
    """Return grounds as problems: what is wrong, since which step, the remedy, and the level."""
    return [
        {
            "run": run,
            "reason": ground.named,
            "kind": ground.kind,
            "step": ground.step,
            "remedy": ground.remedy,
            "level": ground.level,
        }
        for run, run_grounds in grounds.items()
        for ground in run_grounds
    ]


def show_grounds(grounds: Mapping[str, Sequence[Remark]]) -> None:
    """Print what is wrong with runs, before any forecast."""
    for line in lines_of_grounds(grounds):
        say(line)


def lines_of_grounds(grounds: Mapping[str, Sequence[Remark]]) -> list[str]:
    """Return what is wrong with runs, a line each."""
    return [
        f"{ground.level}: {run}: {ground.named}"
        for run, run_grounds in grounds.items()
        for ground in run_grounds
    ]


def show_trendless(made: Forecasts, *, as_json: bool) -> None:
    """Say of which runs the loss has no trend; as JSON only if there is no other run to print."""
    if as_json:
        if not made.own and not made.planned and made.trendless:
            rows = [record(forecast) for forecast in made.not_applicable]
            print_json({"answer": made.line, "forecasts": rows, "verdict": made.verdict, "problems": []})
        return
    for forecast in made.not_applicable:
        say(f"{forecast.run}: no forecast: {forecast.reason}")


def show_ended(made: Forecasts, *, as_json: bool) -> int:
    """Say that every run has reached its planned end, so that nothing is left to forecast."""
    if as_json:
        runs = [{"run": c.run, "step": c.last, "planned_steps": c.horizon, "loss": c.final_loss()}
                for c in made.at_end]  # fmt: skip
        first = _reached(made.at_end[0])
        answer = {"answer": first, "forecasts": [], "ended": runs, "verdict": made.verdict}
        print_json({**answer, "problems": []})
    else:
        for curve in made.at_end:
            say(_reached(curve))
    show_problems(made.faults, made.at_end)
    return 1 if made.faults else 0


def _reached(curve: Curve) -> str:
    where = f"step {curve.last:,} of {curve.horizon:,}, final loss {curve.final_loss():.4g}"
    return f"nothing to forecast: {curve.run} has reached its last step ({where})"


def show_scores(answer: Forecasts, summary: pd.DataFrame) -> None:
    """Print how well finished runs were forecast from the others, in one line and as tables."""
    say(score_line(answer, summary))
    largest, level = answer.largest, answer.level
    rows = [
        (
            row["method"], f"{row['cut']:.0%}", f"{row['mae']:.3g}", f"{row['mean_relative']:.2%}",
            f"{row['worst']:.3g}", f"{row['covered']} of {row['bounded']}",
        )
        for row in summary.to_dict("records") if row["n"]
    ]  # fmt: skip
    names = ("method", "after", "MAE", "MAE/loss", "worst", "in the interval")
    title = f"Every run forecast from the others ({summary['n'].max()} runs, {level:.0%} intervals)"
    of_cells(title, names, rows).show(compact=True)
    for reason in dict.fromkeys(r for r in summary["reason"] if r):
        say(f"failed: {reason}", "  ")
    numbers = ("predicted", "low", "high", "actual")
    cells = [
        (row["method"], f"{row['cut']:.0%}", *(row[c] for c in numbers))
        for row in largest.to_dict("records") if row["status"] != "failed"
    ]  # fmt: skip
    run = largest["run"].iloc[0]
    title = f"The largest run{f' ({run})' if run else ''} from the smaller ones"
    if cells:
        of_cells(title, ("method", "after", *numbers), cells).show(compact=True)
    failed = dict.fromkeys(largest.loc[largest["status"] == "failed", "reason"])
    for reason in failed if run else ():
        say(f"{title}: {reason}", "  ")


def score_line(answer: Forecasts, summary: pd.DataFrame) -> str:
    """Return why no run is forecast, and the first cut's errors: the default's and the last value's."""
    from toposcope.forecasting.families import LastValue

    first = summary[(summary["cut"] == summary["cut"].min()) & (summary["n"] > 0)].set_index("method")
    if not len(first):
        return f"No run to forecast: {answer.all_ended}."
    leading = first.iloc[0]
    last = first["mean_relative"].get(LastValue.name)
    beside = f" (the last value: {last:.2%})" if last is not None and last == last else ""
    inside = f"{leading['covered']} of {leading['bounded']} final losses lay in its interval"
    held = f"; {inside}" if leading["bounded"] else ""
    cut, off = leading["cut"], leading["mean_relative"]
    return (
        f"No run to forecast: {answer.all_ended}. After {cut:.0%} of a run, the method {first.index[0]} is "
        f"off by {off:.2%} of the final loss on average{beside}{held}."
    )


def show_ablation(worth: pd.DataFrame | None, what: str) -> None:
    """Print what features added to a forecast, paired by run; p corrected for the number of rows."""
    if worth is None or not len(worth):
        say(
            "Topology: its effect could not be measured; this needs features of at least 3 finished siblings."
        )
        return
    good = worth[worth["status"] == "ok"]
    rows = [
        (
            row["method"], f"{row['cut']:.0%}", f"{row['effect']:+.2g}", f"{row['low']:+.2g}",
            f"{row['high']:+.2g}", f"{row['t_p']:.2g}", f"{row['t_holm']:.2g}", f"{row['wilcoxon_p']:.2g}",
        )
        for row in good.to_dict("records")
    ]  # fmt: skip
    names = ("method", "after", "effect", "low", "high", "t p", "Holm", "Wilcoxon p")
    of_cells(f"{what} (|error| against its control; negative: better)", names, rows).show(compact=True)
    if len(good):
        n, least = int(good["n"].min()), float(good["smallest_wilcoxon_p"].max())
        say(
            f"95% intervals over {n:,} runs; Holm: the t-test's p corrected for all {len(good):,} rows; "
            f"Wilcoxon's cannot go below {least:.3g}",
            "  ",
        )
    for reason in dict.fromkeys(worth.loc[worth["status"] != "ok", "reason"]):
        methods = worth.loc[worth["reason"] == reason, "method"].drop_duplicates()
        say(f"failed: {', '.join(methods)}: {reason}", "  ")


def show_problems(problems: Sequence[Problem], curves: Sequence[Curve]) -> None:
    """Print what was left out, and what was repaired."""
    for problem in problems:
        kind = "left out" if problem.left_out else "problem"
        say(f"{kind}: {problem.run}: {problem.reason}", err=True)
    notes: dict[str, list[str]] = {}
    for curve in curves:
        for note in curve.notes:
            notes.setdefault(note, []).append(curve.run)
    for note, runs in notes.items():
        say(f"note: {in_words(runs, most=_MOST_NAMED, last=', ')}: {note}", err=True)
