"""`toposcope embeddings`: measure what every checkpoint of a series makes of a set of texts."""

from __future__ import annotations

from pathlib import Path

import click

from toposcope.cli.output import json_option
from toposcope.cli.sweeping import exit_code, show_sweep


@click.command("embeddings", short_help="Measure the representations of texts at every checkpoint.")
@click.argument("series", nargs=-1, required=True)
@click.option(
    "--texts",
    required=True,
    help="A file (a text per line, or .jsonl, .csv, .tsv), a WikiText folder, wikitext2, wikitext103, "
    "tinystories, or hf://datasets/ORG/NAME.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The store, made when not there.")
@click.option(
    "--preset", default="default", show_default=True, help="default, or seed003: the embedding report."
)
@click.option("--limit", default=200, show_default=True, help="How many texts.")
@click.option("--min-chars", default=100, show_default=True, help="Shorter texts are left out.")
@click.option("--split", default="validation", show_default=True, help="Which part of a data set.")
@click.option("--layers", help="last, all, or hidden-state numbers such as 0,6,12.  [default: last]")
@click.option("--pooling", type=click.Choice(["mean", "last", "token"]), help="[default: mean]")
@click.option("--length", type=int, help="Tokens of a text that count.  [default: 128]")
@click.option("--reduce", "reduction", type=click.Choice(["pca", "random", "none"]), help="[default: pca]")
@click.option("--pca", "components", type=int, help="Dimensions that are kept.  [default: 50]")
@click.option("--maxdim", type=int, help="Highest homology dimension.  [default: 1]")
@click.option("--points", type=int, help="Larger clouds are subsampled to this many.  [default: 500]")
@click.option("--draws", type=int, help="Replicates of a subsample.  [default: 5]")
@click.option("--attention", is_flag=True, help="Measure every head's attention graph, too.")
@click.option(
    "--labelled",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A labelled text file in GLUE's format: each layer gets a linear probe's accuracy.",
)
@click.option("--keep", type=click.Path(path_type=Path), help="Keep the pooled states in this folder.")
@click.option("--no-diagrams", is_flag=True, help="Do not keep the diagrams (CROCKER figures need them).")
@click.option("--tokenizer", type=click.Path(exists=True, path_type=Path), help="Where a model brings none.")
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@click.option("--losses", type=click.Path(exists=True, dir_okay=False), help="A loss history to join.")
@click.option("--revisions", help="Which revisions of a hub series, as a pattern: 'step*'.")
@click.option("--steps", help="Which steps: log, first, last, A:B:EVERY, or a list.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Processes.")
@click.option("--shard", default="1/1", show_default=True, metavar="I/N", help="Do only part I of N.")
@click.option("--ray", metavar="ADDRESS", help="Do the work on a Ray cluster that shares the folders.")
@click.option("--no-audit", is_flag=True, help="Do not look for errors in the series first.")
@json_option
def command(
    series: tuple[str, ...],
    texts: str,
    out: Path,
    preset: str,
    limit: int,
    min_chars: int,
    split: str,
    layers: str | None,
    pooling: str | None,
    length: int | None,
    reduction: str | None,
    components: int | None,
    maxdim: int | None,
    points: int | None,
    draws: int | None,
    attention: bool,
    labelled: Path | None,
    keep: Path | None,
    no_diagrams: bool,
    tokenizer: Path | None,
    device: str,
    losses: str | None,
    revisions: str | None,
    steps: str | None,
    jobs: int,
    shard: str,
    ray: str | None,
    no_audit: bool,
    as_json: bool,
) -> int:
    """Measure the representations that each checkpoint of SERIES gives to fixed texts, into a store.

    SERIES are model folders, folders of steps, run folders or hub addresses. One forward pass brings all
    layers and the perplexity. A sweep that was stopped goes on where it was when the command is repeated.
    """
    from toposcope.probes.representations.linear_probe import load_labelled
    from toposcope.probes.representations.loading import ModelLoader
    from toposcope.probes.representations.options import preset as preset_options
    from toposcope.probes.representations.probe import Representations
    from toposcope.probes.representations.texts import load_texts
    from toposcope.sources import open_series
    from toposcope.store import Store
    from toposcope.sweep import Execution, Shard, sweep

    changes: dict[str, object] = {
        "layers": layers, "pooling": pooling, "length": length, "reduction": reduction,
        "components": components, "maxdim": maxdim, "points": points, "draws": draws,
        "attention": attention or None,
    }  # fmt: skip
    options = preset_options(preset, changes)
    read = load_texts(texts, limit=limit, min_chars=min_chars, split=split)
    loader = ModelLoader(tokenizer=tokenizer, device=device, half=options.half)
    scored = load_labelled(labelled) if labelled is not None else None
    probe = Representations(options, read, loader, keep=keep, labelled=scored)
    recipe = options.recipe(read.digest, scored.digest if scored is not None else "")
    execution = Execution(
        jobs=jobs, shard=Shard.parse(shard), ray=ray, keep_diagrams=not no_diagrams, audit=not no_audit
    )
    opened = open_series(list(series), revisions=revisions, steps=steps, losses=losses)
    report = sweep(opened, [probe], Store.create(out, recipe=recipe), execution=execution)
    show_sweep(report, out, as_json=as_json)
    return exit_code(report)
