"""`toposcope analyze`: whether a store's features say more than the loss does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toposcope.cli.output import (
    PATTERN,
    WITHOUT,
    json_option,
    naming_part_faults,
    print_json,
    print_table,
    renamed,
    say,
    show_first,
)
from toposcope.cli.requests import as_option, options_from
from toposcope.core.errors import InputError
from toposcope.core.wording import option, recommended

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.study.analysis import Analysis
    from toposcope.study.findings import Findings
    from toposcope.study.study import Study

LAWS = ("power", "offset", "chinchilla", "kaplan", "size-steps", "loss-to-loss", "two-stage")
"""The laws of `toposcope.scaling.table.FORMULAS`, whose import takes longer than the help may."""
_TABLES = (
    "families", "trends", "replicates", "lags", "phases", "segments", "saturation", "scaling", "exponents",
    "forecasts", "forecast_effects",
)  # fmt: skip


class _TableName(click.Choice[str]):
    """The name of a table: one of every analysis, "all", or one that a subject declares."""

    def __init__(self) -> None:
        super().__init__([*_TABLES, "all"])

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name; only an unknown one has to look at the subjects, which are slow to load."""
        if value in self.choices:
            return value
        from toposcope.study.own import every_table

        return click.Choice([*_TABLES, *every_table(), "all"]).convert(value, param, ctx)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisOptions:
    """What to analyse and what to print, as typed; each field is an option of the command."""

    target: tuple[str, ...] = as_option(
        multiple=True,
        help="Column that the others are compared with. Can be repeated.  [default: the losses]",
    )
    scores: Path | None = as_option(
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Table of outside scores to join: columns run, step or revision, and numbers.",
    )
    columns: tuple[str, ...] = as_option(
        multiple=True,
        help="Column to analyse. Can be repeated.  [default: every column of a table; for a store, the "
        "features of the whole model and of its roles]",
    )
    table: tuple[str, ...] = as_option(
        multiple=True, type=_TableName(), metavar="NAME",
        help="Print this table instead of the answer; with --json, beside it. Can be repeated. One of "
        f"{', '.join(_TABLES)}, or a table that the measured subject declares.",
    )  # fmt: skip
    all: bool = as_option(is_flag=True, help="Print the answer and all tables.")
    calibrate: bool = as_option(
        is_flag=True, help="Simulate how often each test is wrong at the steps of SOURCE."
    )
    draws: int = as_option(
        type=click.IntRange(min=100), default=10_000, show_default=True,
        help="Number of random draws that --calibrate simulates.",
    )  # fmt: skip
    law: str | None = as_option(
        type=click.Choice(LAWS),
        help="Fit this scaling law instead. SOURCE is a table with one row per model, or a store, whose last "
        "checkpoints are used.",
    )
    quantity: tuple[str, ...] = as_option(
        multiple=True, metavar="QUANTITY=COLUMN",
        help="Column from which --law reads a quantity: size, data, steps, loss, other, compute or score. "
        "Can be repeated.",
    )  # fmt: skip
    pattern: str | None = as_option(**PATTERN)
    rename: tuple[str, ...] = as_option(
        multiple=True, metavar="OLD=NEW",
        help="Rename a column of a table: final_loss=loss. Can be repeated.",
    )  # fmt: skip
    leave_out: int = as_option(
        type=click.IntRange(min=0), default=0,
        help="Number of models that --law leaves out; those with the fewest tokens per parameter go first.",
    )  # fmt: skip
    rows: int = as_option(
        default=40, show_default=True,
        help="Number of rows to print of each table; --json with --table and --out give all rows.",
    )  # fmt: skip
    out: Path | None = as_option(
        type=click.Path(path_type=Path, file_okay=False), help="Write the tables as CSV to this folder."
    )
    without: tuple[str, ...] = as_option(**WITHOUT)


@click.command("analyze")
@click.argument("source", type=click.Path(path_type=Path), required=False)
@options_from(AnalysisOptions, "options")
@json_option
@naming_part_faults("source", printed=False)
def command(source: Path | None, options: AnalysisOptions, as_json: bool) -> int:
    """Test whether the columns of SOURCE say more than the loss does, and find when they changed.

    SOURCE is a store, a table or a training log. A table has columns run, step, one or more losses, and
    the columns to test. A log may be text, CSV, JSON, a W&B export or a TensorBoard folder.

    The answer comes first: one verdict for each primary feature of a store (a feature chosen for the test
    before any run was seen), or for each column of a table. Each verdict rests on one test over all runs; the
    next table shows these tests. --table prints other tables. Columns that are functions of the loss or of
    the step are not tested; the answer names them.
    A log of losses alone has no column to test: the answer says how the run trained and when the loss fell.

    The exit code is 1 when the answer lists problems, such as a run that diverges or needs
    attention, damaged checkpoints or repeated steps. It is 2 when nothing was done.
    """
    if options.calibrate:
        return _calibrate(source, options.draws, options.out, as_json)
    if source is None:
        raise InputError(
            f"SOURCE is missing; name a store or a table: {recommended('analyze', 'STORE')} "
            f"(only {option('calibrate')} works without one)"
        )
    if options.law is not None:
        return _show_law(source, options.law, options, as_json)
    named, parts, everything, out = renamed(options.rename), options.table, options.all, options.out
    from toposcope.api import analyze
    from toposcope.core.progress import busy
    from toposcope.study.analysis import DEFAULT_TABLES

    with busy("analysing"):
        analysis = analyze(
            source,
            targets=options.target,
            columns=options.columns,
            scores=options.scores,
            rename=named,
            pattern=options.pattern,
            without=options.without,
        )
        chosen = analysis.names if everything or "all" in parts else parts or (*DEFAULT_TABLES, *analysis.own)
        answer = (everything or not parts) and out is None and analysis.losses_tell
        if not analysis.wrong and not answer:  # the losses give an answer, whatever else can be computed
            analysis.refuse_nothing([name for name in chosen if name in parts or name not in analysis.own])
        _work_out(analysis, chosen if everything or parts or out is not None else ())
    for line in analysis.read:
        click.echo(line, err=True)
    if as_json:
        grid = analysis.nearest_grid()
        asked_for = chosen if everything or parts else ()
        print_json({**analysis.to_json(asked_for), "true_rates_of": grid, "true_rates": _rates(grid)})
    else:
        _show(analysis, chosen if everything or parts else (), options.rows, answer=everything or not parts)
    if out is not None:
        _save({name: analysis.table(name) for name in chosen}, out)
    return 0 if analysis.ok else 1


def _show(analysis: Analysis, tables: Sequence[str], rows: int, *, answer: bool) -> None:
    """Print the answer, these tables and the problems."""
    if answer:
        show_first(analysis)
        _answer(analysis)
    elif analysis.apart:
        say(analysis.apart)
        click.echo("")
    for name in tables:
        _table(analysis, name, rows)
    for line in (*analysis.problems, *analysis.notes):
        say(f"note: {line}")


def _work_out(analysis: Analysis, chosen: Sequence[str]) -> None:
    """Compute everything that will be printed, and show progress meanwhile."""
    for name in chosen:
        analysis.table(name)
    for study in analysis.studies:
        _ = study.findings
    _ = analysis.problems, analysis.notes


def _answer(analysis: Analysis) -> None:
    """Print of each study what changed and when, then the table behind the verdict."""
    further = [_further(study.findings) for study in analysis.studies]
    shared = [line for line in further[0] if all(line in lines for lines in further)]
    for line in shared:
        say(line)
    for study, lines in zip(analysis.studies, further, strict=True):
        if len(analysis.studies) > 1:
            click.echo("")
            click.echo(": ".join(filter(None, (study.subject.heading, study.findings.group))))
        for line in lines:
            if line not in shared:
                say(line)
        _verdicts(study)


def _verdicts(study: Study) -> None:
    """Print the table behind the verdict on a study, and why rows of it have none."""
    from toposcope.study.compact import lines_of_reasons, verdict_table
    from toposcope.study.findings.beyond import CANNOT

    table = verdict_table(study)
    if any(row[-1] != CANNOT for row in table.rows):
        click.echo("")
        table.show(width=min(_width(), 120), compact=True)
    for line in lines_of_reasons(study):
        say(line)


_FURTHER = {"changed": "Changed", "when": "When", "end": "Forecasts"}
"""The findings that get a line below the first screen, and the words before each line."""


def _further(findings: Findings) -> list[str]:
    """Return a line for each finding that the first screen leaves out."""
    answers = {name: findings.get(question) for question, name in _FURTHER.items()}
    return [f"{name}: {findings.act(answer)}" for name, answer in answers.items() if answer is not None]


def _width() -> int:
    import shutil

    return shutil.get_terminal_size((80, 24)).columns


def _rates(grid: str) -> dict[str, dict[str, float]]:
    from toposcope.statistics.trends.calibration import true_rates

    return {test: {"lowest": low, "highest": high} for test, (low, high) in true_rates(grid).items()}


def _table(analysis: Analysis, name: str, rows: int) -> None:
    """Print one table of the analysis, the most telling rows first."""
    from toposcope.study.compact import of_frame

    part = analysis.table(name)
    if not len(part):
        click.echo(f"{name}: no rows\n")
        return
    if "method" in part:
        called = {key: words for study in analysis.studies for key, words in study.published.called.items()}
        part = part.assign(method=part["method"].map(lambda method: called.get(method, method)))
    of_frame(name, part, rows, title=analysis.own.get(name, "")).show()
    if name == "trends":
        grid = analysis.nearest_grid()
        text = "; ".join(
            f"{test} {r['lowest']:.1%} to {r['highest']:.1%}" for test, r in _rates(grid).items()
        )
        say(
            "True rates at a nominal 5%, lowest and highest over the nulls, at the nearest simulated steps "
            f"({grid}; --calibrate simulates yours): {text}."
        )
    click.echo("")


def _calibrate(source: Path | None, draws: int, out: Path | None, as_json: bool) -> int:
    import numpy as np

    from toposcope.api import analyze
    from toposcope.statistics.trends.calibration import VERDICT, as_matrix, calibration_matrix

    if source is None:
        steps = np.arange(51) * 100.0
        rate_table = calibration_matrix(steps, draws=draws, quiet=as_json)
    else:
        analysis = analyze(source)
        steps = analysis.longest_grid()
        rate_table = analysis.calibrated(draws=draws, quiet=as_json)
    worst = rate_table.loc[(rate_table["kind"] != "planted") & (rate_table["test"] == VERDICT), "rate"]
    answer = f"The verdict's test rejects between {worst.min():.1%} and {worst.max():.1%}."
    if as_json:
        rates = rate_table.to_dict("records")
        print_json({"answer": answer, "steps": steps.tolist(), "draws": draws, "rates": rates})
    else:
        titles = {
            "null": "False alarms at a nominal 5%",
            "blind": "False alarms on curves written after the test was set",
            "fresh": "False alarms on curves written after its last rule",
            "planted": "Planted effects found",
        }
        for kind, title in titles.items():
            matrix = as_matrix(rate_table, kind)
            rows = (
                [case, *(f"{rate:.1%}" for rate in rates)]
                for case, rates in zip(matrix.index, matrix.to_numpy(), strict=True)
            )
            print_table(
                f"{title}: {len(steps):,} checkpoints, {draws:,} draws", ["pairs of", *matrix.columns], rows
            )
        click.echo(answer)
    _save({"calibration": rate_table}, out)
    return 0


def _save(tables: dict[str, pd.DataFrame], out: Path | None) -> None:
    if out is None:
        return
    from toposcope.core.tabular import write_csv

    tables = {name: part for name, part in tables.items() if len(part)}
    out.mkdir(parents=True, exist_ok=True)
    for name, part in tables.items():
        write_csv(part, out / f"{name}.csv")
    click.echo(f"written: {', '.join(f'{name}.csv' for name in tables)} in {out}", err=True)


def _show_law(source: Path, law: str, options: AnalysisOptions, as_json: bool) -> int:
    """Fit and print one law; return the exit code: 1 where it could not be fitted."""
    from toposcope.api import fit_scaling_law

    named, columns, out = renamed(options.rename), _quantities(options.quantity), options.out
    fit = fit_scaling_law(source, law, columns=columns, rename=named, leave_out=options.leave_out)
    if as_json:
        counts = {"rows": fit.rows, "models": fit.models, "sizes": fit.sizes}
        print_json(
            {
                "answer": repr(fit),
                "law": law,
                "formula": fit.formula,
                **counts,
                "fit": fit.table.to_dict("records"),
            }
        )
    else:
        shown = ["parameter", "value", "error", "low", "high", "n", "left_out", "status", "reason"]
        rows = fit.table[shown].itertuples(index=False, name=None)
        click.echo(repr(fit))
        title = f"{law}: {fit.formula} (standard error and 95% interval)"
        print_table(title, shown, [[None if v != v else v for v in row] for row in rows])
        click.echo(fit.counted)
    if out is not None:
        from toposcope.core.tabular import write_csv

        out.mkdir(parents=True, exist_ok=True)
        write_csv(fit.table, out / f"law-{law}.csv")
        click.echo(f"written: law-{law}.csv in {out}", err=True)
    return 1 if fit.failed else 0


def _quantities(columns: Sequence[str]) -> dict[str, str]:
    from toposcope.scaling.table import COLUMNS

    names = {}
    for text in columns:
        quantity, equals, column = text.partition("=")
        if not equals or quantity not in COLUMNS:
            raise InputError(
                "not QUANTITY=COLUMN",
                argument="quantity",
                value=text,
                remedy=f"QUANTITY is one of {', '.join(COLUMNS)}",
            )
        names[quantity] = column
    return names
