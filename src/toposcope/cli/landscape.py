"""`toposcope landscape`: measure the loss surface around every checkpoint of a series."""

from __future__ import annotations

import functools
from pathlib import Path

import click

from toposcope.cli.output import RenamedOption, json_option
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
    help="Texts that the loss is computed on: a file (one text per line, or .jsonl, .csv, .tsv), a WikiText "
    "folder, or a data set of the hub.  [default: the held-out texts of a run folder]",
)  # fmt: skip
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder of the store. It is created if it does not exist.",
)
@click.option(
    "--features", default="all", show_default=True,
    help="What to measure, separated by commas: sharpness (forward passes only), curvature, surface, paths "
    "(loss barriers between checkpoints), retrain (trains a little from each; not part of `all`), `cheap` "
    "or `all`.",
)  # fmt: skip
@click.option(
    "--directions", type=click.Choice(["random", "hessian", "trajectory"]), default="random",
    show_default=True,
    help="Axes of the surface: random (filter-normalised), hessian (top eigenvectors) or trajectory (PCA of "
    "the checkpoints).",
)  # fmt: skip
@click.option("--n", type=int, default=2, show_default=True, help="Number of axes of the surface: 1, 2 or 3.")
@click.option(
    "--resolution",
    type=int,
    default=21,
    show_default=True,
    help="Number of grid points per axis: 5, 9, 13, 17, 21, ... (4 k + 1).",
)
@click.option(
    "--range", "reach", type=float,
    help="How far each axis goes, in the unit of the directions.  [default: until the loss is as high as at "
    "the first checkpoint]",
)  # fmt: skip
@click.option(
    "--graph", type=click.Choice(["lattice", "kuhn", "knn"]), default="lattice", show_default=True,
    help="Which grid points are neighbours: the 2 n along the axes (lattice), Kuhn's triangulation, or the "
    "mutual 4 n nearest (knn).",
)  # fmt: skip
@click.option(
    "--batches",
    type=int,
    default=2,
    show_default=True,
    help="Number of batches; no two share a text.",
)
@click.option("--sequences", type=int, default=8, show_default=True, help="Number of texts per batch.")
@click.option(
    "--length", type=int, default=64, show_default=True, help="Number of tokens to read from each text."
)
@click.option(
    "--draws",
    "seeds",
    cls=RenamedOption,
    formerly=("--seeds",),
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Number of random draws of the directions.",
)
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
    """Measure the loss around each checkpoint of SERIES: sharpness, curvature and sampled surfaces.

    SERIES are run folders of `toposcope train`, model folders that transformers can load, folders of such
    steps, or hub addresses. The command first prints what it will cost and how far the axes go. The results
    and the sampled surfaces go to a store. If the command is interrupted, repeat it: it continues.
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
