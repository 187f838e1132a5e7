"""`toposcope landscape`: measure the loss surface around every checkpoint of a series."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from toposcope.cli.output import json_option, say
from toposcope.cli.requests import request_options
from toposcope.cli.sweeping import (
    Sweeping,
    carried_out,
    device_option,
    out_option,
    split_option,
    sweep_options,
    tokenizer_option,
)
from toposcope.subjects.landscape.options import LandscapeOptions


@click.command("landscape")
@click.argument("series", nargs=-1, required=True)
@click.option(
    "--texts",
    help="Texts that the loss is computed on: a file (one text per line, or .jsonl, .csv, .tsv), a WikiText "
    "folder, or a data set of the hub.  [default: the held-out texts of a run folder]",
)  # fmt: skip
@out_option
@click.option(
    "--features", default="all", show_default=True,
    help="What to measure, separated by commas: sharpness (forward passes only), curvature, surface, paths "
    "(loss barriers between checkpoints), retrain (trains briefly from each checkpoint; not part of `all`), "
    "`cheap` (sharpness alone) or `all`.",
)  # fmt: skip
@request_options(LandscapeOptions)
@click.option(
    "--min-chars", type=click.IntRange(min=0), help="Skip texts with fewer characters.  [default: 1]"
)
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
    settings: dict[str, Any],
    min_chars: int | None,
    split: str | None,
    tokenizer: Path | None,
    recipe: str | None,
    device: str,
    sweeping: Sweeping,
    as_json: bool,
) -> int:
    """Measure the loss around each checkpoint of SERIES: sharpness, curvature and sampled surfaces.

    SERIES are run folders of `toposcope train`, model folders that transformers can load, folders of such
    steps, or hub addresses. The command first prints what it will cost and how far from the checkpoint it
    samples. The results and the sampled surfaces go to a store. If the command is interrupted, repeat it: it
    continues.
    """
    from toposcope.api.measurement import Measurement
    from toposcope.subjects.landscape.measurement import of_landscape
    from toposcope.subjects.text_request import TextRequest

    options = LandscapeOptions(**settings)
    request = TextRequest(
        texts=texts, features=tuple(features.split(",")), min_chars=min_chars, split=split,
        tokenizer=tokenizer, device=device, recipe=recipe,
    )  # fmt: skip
    find = sweeping.opening(series)
    execution = sweeping.execution(keep_diagrams=False)
    prepared, words = of_landscape(find, options, request, out)
    say(words, err=True)
    return carried_out(Measurement.of(prepared), find(), out, sweeping, execution, as_json=as_json)
