"""`toposcope reproduce`: a paper's tables beside what the same data give here."""

from __future__ import annotations

from pathlib import Path

import click

from toposcope.cli.embedding_study import Seed003Call
from toposcope.cli.output import json_option, print_json, print_table
from toposcope.papers.reproducing import STUDIES, StudyCall, in_folder, reproduce, write_page


@click.command("reproduce")
@click.argument("study", type=click.Choice(list(STUDIES)))
@click.option("--runs", help="seed004, grokking, landscape: the runs; without it they are trained first.")
@click.option("--pythia", help="seed004: a series of Pythia-14m's shape; prints Table 8, draws Figure 7.")
@click.option("--revisions", help="Which revisions of a hub series: names, or a pattern.")
@click.option("--rows", type=click.Path(path_type=Path), help="seed003: the report's stored rows.")
@click.option("--series", multiple=True, help="seed003: measure this series; repeat for several.")
@click.option(
    "--recipe", type=click.Choice(["pythia"]), help="seed003: measure the report's own models from the hub."
)
@click.option(
    "--train", "corpus", help="seed003: train three small GPT-NeoX models on this corpus and measure them."
)
@click.option("--steps", type=int, help="seed003 --train: updates of each model.  [default: 3000]")
@click.option(
    "--seeds", default="42", show_default=True, help="seed003 --train: seeds of each size: 42,43,44."
)
@click.option(
    "--texts",
    help="seed003, landscape: the texts to read.  [default: those of --train, or wikitext2; landscape: what "
    "the runs held out]",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    help="seed003: how many texts form a cloud.",
)
@click.option(
    "--sensitivity-texts", default="200,800", show_default=True,
    help="seed003: the numbers of texts of the sensitivity table; none leaves it out.",
)  # fmt: skip
@click.option(
    "--labelled", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="seed003: a labelled text file in GLUE's format, for a linear probe.",
)  # fmt: skip
@click.option(
    "--checkpoints", type=click.IntRange(min=2),
    help="landscape: how many of each run, about evenly in log step.  [default: 26]",
)  # fmt: skip
@click.option("--device", default="cpu", show_default=True, help="seed003: cpu or cuda.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder for the runs, the stores and a Markdown page."
)
@click.option("--jobs", type=int, help="Processes.  [default: one per core; seed003: 1]")
@json_option
def command(
    study: str,
    runs: str | None,
    pythia: str | None,
    revisions: str | None,
    rows: Path | None,
    series: tuple[str, ...],
    recipe: str | None,
    corpus: str | None,
    steps: int | None,
    seeds: str,
    texts: str | None,
    limit: int,
    sensitivity_texts: str,
    labelled: Path | None,
    checkpoints: int | None,
    device: str,
    out: Path | None,
    jobs: int | None,
    as_json: bool,
) -> int:
    """Redo STUDY: seed004 (weights of small models), seed003 (embeddings of Pythia), grokking or landscape.

    Each table of the papers shows the paper's value, the value by the paper's own conventions, the value by
    the definitions in its text where these differ, and what can be concluded. grokking is the positive
    control: it asks whether and when H1 sees a transformer find the circles of modular addition. landscape
    asks whether curvature and sampled surfaces follow the loss of small models beyond the step.

    seed003 redoes its tables from stored rows (--rows), or runs the whole study: on a series (--series), on
    Pythia from the hub (--recipe pythia), or on three small models that it trains first (--train). --out
    keeps the store, the pooled states and the report. Repeat the command to resume a study that was stopped.
    """

    def wrote(line: str) -> None:
        click.echo(line, err=True)

    if study == "seed003":
        plan = Seed003Call(
            rows, series, recipe, corpus, steps, seeds, texts, limit, sensitivity_texts, labelled, device,
            jobs or 1,
        )  # fmt: skip
        sections = in_folder(out, lambda folder: plan.sections(folder, kept=out is not None, quiet=as_json))
    else:
        call = StudyCall(
            runs=runs, pythia=pythia, revisions=revisions, texts=texts, checkpoints=checkpoints, out=out,
            jobs=jobs, quiet=as_json, say=wrote,
        )  # fmt: skip
        sections = reproduce(study, call)
    if as_json:
        print_json({"study": study, "sections": [section.as_json() for section in sections]})
    else:
        for section in sections:
            print_table(section.title, section.columns, section.rows)
            click.echo(f"{section.note}\n")
    if out is not None:
        wrote(f"wrote {write_page(study, sections, out)}")
    return 0
