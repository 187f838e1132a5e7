"""`toposcope reproduce`: run a study again, and judge each of its claims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from toposcope.cli.embedding_study import Seed003Call
from toposcope.cli.output import SuggestingGroup, json_option, print_json, print_table
from toposcope.papers import reproducing
from toposcope.papers.reproducing import STUDIES, StudyCall

if TYPE_CHECKING:
    from toposcope.papers.sections import Section

Command = TypeVar("Command", bound=Callable[..., Any])

_RUNS = click.option("--runs", help="Folder of the runs.  [default: they are trained first, into --out]")
_SEEDS = click.option(
    "--seeds", type=click.IntRange(min=1), default=1, show_default=True,
    help="Number of training replicates of each size. Their seeds are 42, 43, ...",
)  # fmt: skip
_CORPUS = click.option("--corpus", help="Text to train on: python-docs, wikitext2, a file or a folder.")


def _common(function: Command) -> Command:
    """Add the options that every study has."""
    options = (
        click.option("--out", type=click.Path(path_type=Path), help="Folder for the results and the page."),
        click.option(
            "--jobs", type=click.IntRange(min=1), help="Number of processes.  [default: one per core]"
        ),
        json_option,
    )
    for one in reversed(options):
        function = one(function)
    return function


def _call(out: Path | None, jobs: int | None, as_json: bool) -> StudyCall:
    return StudyCall(out=out, jobs=jobs, quiet=as_json, say=lambda line: click.echo(line, err=True))


def _show(study: str, sections: Sequence[Section], out: Path | None, as_json: bool) -> int:
    """Print a study's sections and write its page; if there is a page, print only the claims."""
    if as_json:
        print_json({"study": study, "sections": [section.as_json() for section in sections]})
    else:
        for section in sections if out is None else sections[:1]:
            print_table(section.title, section.columns, section.rows)
            click.echo(f"{section.note}\n")
    if out is not None:
        click.echo(f"wrote {reproducing.write_page(study, sections, out)}", err=True)
    return 0


@click.group("reproduce", cls=SuggestingGroup, invoke_without_command=True)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Run a study again: train missing runs, measure them, and judge each claim.

    A study's page has every claim with the source's number, the number found here, the statistic, and one of
    five judgements: holds, holds only as drift, holds but simpler numbers do better, does not hold, cannot be
    tested here. Then it shows the
    tables behind them. If a command was stopped, repeat it: it continues.
    """
    if ctx.invoked_subcommand is None and as_json:
        print_json([{"study": name, **asdict(study)} for name, study in STUDIES.items()])
    elif ctx.invoked_subcommand is None:
        rows = [(name, study.title, study.summary) for name, study in STUDIES.items()]
        print_table("Studies", ("study", "of", "what it asks"), rows)


@command.command("seed001")
@_RUNS
@_SEEDS
@_CORPUS
@click.option(
    "--updates",
    type=click.IntRange(min=1),
    help="How long to train: the number of optimiser steps.  [default: 10000]",
)
@_common
def _seed001(
    runs: str | None, seeds: int, corpus: str | None, updates: int | None, out: Path | None,
    jobs: int | None, as_json: bool,
) -> int:  # fmt: skip
    """Carry out the research plan with five sizes of models.

    They are trained on subwords, and their gradients are measured, too. The plan's four hypotheses and three
    success criteria are judged one by one, as the plan words them and by a statistic that allows for drift.
    With --seeds above 1 the differences between sizes are compared with those between seeds.
    """
    sections = reproducing.seed001(
        _call(out, jobs, as_json), runs=runs, seeds=seeds, corpus=corpus, updates=updates
    )
    return _show("seed001", sections, out, as_json)


@command.command("seed004")
@_RUNS
@click.option(
    "--rows", type=click.Path(path_type=Path),
    help="File of rows that a study wrote, or a folder of such files; no weights are read.",
)  # fmt: skip
@_SEEDS
@_CORPUS
@click.option("--pythia", help="Series of Pythia-14m's shape. Prints Table 8 only and draws Figure 7.")
@click.option("--revisions", help="Revisions of a hub series to read, for --pythia: names, or a pattern.")
@_common
def _seed004(
    runs: str | None, rows: Path | None, seeds: int, corpus: str | None, pythia: str | None,
    revisions: str | None, out: Path | None, jobs: int | None, as_json: bool,
) -> int:  # fmt: skip
    """Make the weight-space paper's tables again.

    Each table shows the paper's value, the value by the paper's own conventions, and the value by the
    definitions in its text where these differ. With several seeds of a size, the claims are judged across
    seeds. --out also receives rows.csv, one line for each checkpoint; --rows judges the claims from it. For a
    folder with several such files it shows the judgements side by side.
    """
    call = _call(out, jobs, as_json)
    if pythia is not None:
        sections = reproducing.pythia(call, pythia, revisions=revisions)
    else:
        sections = reproducing.seed004(call, runs=runs, rows=rows, seeds=seeds, corpus=corpus)
    return _show("seed004", sections, out, as_json)


@command.command("seed003")
@click.option("--rows", type=click.Path(path_type=Path), help="Rows that the report stored.")
@click.option("--series", multiple=True, help="Measure this series. Can be repeated.")
@click.option("--recipe", type=click.Choice(["pythia"]), help="Measure the report's own models from the hub.")
@click.option("--train", "corpus", help="Train three small GPT-NeoX models on this corpus and measure them.")
@click.option(
    "--steps", type=int, help="Number of optimiser steps of each model, for --train.  [default: 3000]"
)
@click.option(
    "--seeds",
    default="42",
    show_default=True,
    help="Seeds of each size, for --train, separated by commas: 42,43,44.",
)
@click.option("--texts", help="Texts that the models read.  [default: those of --train, or wikitext2]")
@click.option(
    "--limit", type=click.IntRange(min=1), default=200, show_default=True,
    help="Number of texts in a cloud.",
)  # fmt: skip
@click.option(
    "--sensitivity-texts", default="200,800", show_default=True,
    help="Numbers of texts for the sensitivity table, such as 200,800; none leaves it out.",
)  # fmt: skip
@click.option(
    "--labelled", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Labelled texts in GLUE's format, for a linear probe.",
)  # fmt: skip
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@_common
def _seed003(
    rows: Path | None, series: tuple[str, ...], recipe: str | None, corpus: str | None, steps: int | None,
    seeds: str, texts: str | None, limit: int, sensitivity_texts: str, labelled: Path | None, device: str,
    out: Path | None, jobs: int | None, as_json: bool,
) -> int:  # fmt: skip
    """Make the embedding report's tables again, or repeat its whole study.

    The tables come from its stored rows (--rows). The study runs on a series (--series), on Pythia from the
    hub (--recipe pythia), or on three small models that it trains first (--train). --out keeps the store,
    the pooled states and the report. It works in one process unless --jobs says more.
    """
    plan = Seed003Call(
        rows, series, recipe, corpus, steps, seeds, texts, limit, sensitivity_texts, labelled, device,
        jobs or 1,
    )  # fmt: skip
    with _call(out, jobs, as_json).folder() as folder:
        sections = plan.sections(folder, keep_files=out is not None, quiet=as_json)
    return _show("seed003", sections, out, as_json)


@command.command("landscape")
@_RUNS
@click.option(
    "--texts", help="Texts that the loss is computed on.  [default: the held-out texts of the runs]"
)
@click.option(
    "--checkpoints", type=click.IntRange(min=2),
    help="Number of checkpoints of each run, about evenly in log step.  [default: 26]",
)  # fmt: skip
@_common
def _landscape(
    runs: str | None, texts: str | None, checkpoints: int | None, out: Path | None, jobs: int | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Test whether the loss surface follows the loss.

    The command measures the curvature and the sampled surfaces of small models. The test requires more than
    a shared trend.
    """
    call = _call(out, jobs, as_json)
    sections = reproducing.landscape(call, runs=runs, texts=texts, checkpoints=checkpoints)
    return _show("landscape", sections, out, as_json)


@command.command("grokking")
@_RUNS
@_common
def _grokking(runs: str | None, out: Path | None, jobs: int | None, as_json: bool) -> int:
    """Test whether H1 shows when a transformer learns addition.

    This is the positive control: the transformer is known to place the numbers on circles, modulo p.
    """
    return _show("grokking", reproducing.grokking(_call(out, jobs, as_json), runs=runs), out, as_json)


@command.command("synthetic")
@click.option(
    "--families", type=click.IntRange(min=5), default=24, show_default=True,
    help="Number of families with random exponents to simulate.",
)  # fmt: skip
@_common
def _synthetic(families: int, out: Path | None, jobs: int | None, as_json: bool) -> int:
    """Test whether topology recovers known scaling exponents.

    The families of runs are simulated, so their exponents are known.
    """
    sections = reproducing.synthetic(_call(out, jobs, as_json), families=families)
    return _show("synthetic", sections, out, as_json)


@command.command("public-runs")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--most", type=click.IntRange(min=1), default=200, show_default=True,
    help="Largest number of runs to forecast, one of each folder.",
)  # fmt: skip
@_common
def _public_runs(folder: Path, most: int, out: Path | None, jobs: int | None, as_json: bool) -> int:
    """Judge alarms, forecasts and seeds on the logs in FOLDER.

    None of these runs is known to be bad. FOLDER holds logs, also in subfolders, or two tables: curves.csv
    (run, step, train_loss) and runs.csv (run, path). The page gives the false alarms of every rule and of
    plain rules, how many forecast intervals contain the final loss, the steps at which many runs spike
    together, and how far two seeds differ.
    """
    call = _call(out, jobs, as_json)
    return _show("public-runs", reproducing.public_runs(call, folder, most=most), out, as_json)
