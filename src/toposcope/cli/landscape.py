"""`toposcope landscape`: measure the loss surface around every checkpoint of a series."""

from __future__ import annotations

import functools
from pathlib import Path

import click

from toposcope.cli.output import json_option
from toposcope.cli.sweeping import (
    Sweeping,
    device_option,
    exit_code,
    show_plan,
    show_sweep,
    split_option,
    sweep_options,
    tokenizer_option,
)


@click.command("landscape")
@click.argument("series", nargs=-1, required=True)
@click.option(
    "--texts",
    help="A file (a text per line, or .jsonl, .csv, .tsv), a WikiText folder, or a data set of the hub.  "
    "[default: what a run folder held out]",
)  # fmt: skip
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder of the store. It is created if it does not exist.",
)
@click.option(
    "--features", default="all", show_default=True,
    help="What to measure, separated by commas: sharpness (cheap: forward passes only), curvature, surface, "
    "paths (barriers), retrain (trains: only when named); `cheap` or `all`.",
)  # fmt: skip
@click.option(
    "--directions", type=click.Choice(["random", "hessian", "trajectory"]), default="random",
    show_default=True, help="Filter-normalised random ones, the top eigenvectors, or the checkpoints' PCA.",
)  # fmt: skip
@click.option("--n", type=int, default=2, show_default=True, help="Number of directions: 1, 2 or 3.")
@click.option(
    "--resolution",
    type=int,
    default=21,
    show_default=True,
    help="Number of grid points per axis: 5, 9, 13, ... (4 k + 1).",
)
@click.option(
    "--range", "reach", type=float,
    help="How far each axis goes, in the directions' unit.  [default: until the loss is that of the first "
    "checkpoint]",
)  # fmt: skip
@click.option(
    "--graph", type=click.Choice(["lattice", "kuhn", "knn"]), default="lattice", show_default=True,
    help="Neighbours: the 2 n along the axes, Kuhn's triangulation, or mutual 4 n nearest.",
)  # fmt: skip
@click.option(
    "--batches",
    type=int,
    default=2,
    show_default=True,
    help="Number of batches. Each is a disjoint set of texts.",
)
@click.option("--sequences", type=int, default=8, show_default=True, help="Number of texts per batch.")
@click.option("--length", type=int, default=64, show_default=True, help="Tokens read from each text.")
@click.option("--seeds", type=int, default=2, show_default=True, help="Number of sets of random directions.")
@click.option("--min-chars", type=click.IntRange(min=0), default=1, help="Skip texts with fewer characters.")
@split_option
@tokenizer_option
@click.option(
    "--recipe",
    help="Recipe that defines the architecture, for files that contain only weights: seed004 or a TOML file.",
)
@device_option
@sweep_options
@json_option
def command(
    series: tuple[str, ...],
    texts: str | None,
    out: Path,
    features: str,
    directions: str,
    n: int,
    resolution: int,
    reach: float | None,
    graph: str,
    batches: int,
    sequences: int,
    length: int,
    seeds: int,
    min_chars: int,
    split: str,
    tokenizer: Path | None,
    recipe: str | None,
    device: str,
    sweeping: Sweeping,
    as_json: bool,
) -> int:
    """Measure the loss surface around each checkpoint of SERIES: sharpness, curvature, sampled surfaces.

    SERIES are run folders of `toposcope train`, model folders that transformers can load, folders of such
    steps, or hub addresses. The command first prints the cost and how far the axes go. The store keeps the
    sampled surfaces for figures. Repeat the command to resume a sweep that was stopped.
    """
    from toposcope.api.landscapes import of_landscape
    from toposcope.api.representations import TextsAsked
    from toposcope.subjects.landscape.options import LandscapeOptions

    options = LandscapeOptions(
        directions=directions, n=n, resolution=resolution, reach=reach, graph=graph, batches=batches,
        sequences=sequences, length=length, seeds=seeds,
    )  # fmt: skip
    asked = TextsAsked(
        texts=texts, features=tuple(features.split(",")), min_chars=min_chars, split=split,
        tokenizer=tokenizer, device=device, recipe=recipe,
    )  # fmt: skip
    opened = functools.cache(lambda: sweeping.open(series))
    execution = sweeping.execution(keep_diagrams=False)
    found, words = of_landscape(opened, options, asked, out)
    click.echo(words, err=True)
    if sweeping.plan:
        return show_plan(found.plan(execution=execution), as_json=as_json)
    report = found.carry_out(out, execution=execution, agree=sweeping.agree(opened()))
    show_sweep(report, out, as_json=as_json)
    return exit_code(report)
