"""`toposcope embeddings`: measure what every checkpoint of a series makes of a set of texts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toposcope.cli.output import json_option, print_table
from toposcope.cli.sweeping import Place, Sweeping, exit_code, show_sweep, sweep_options
from toposcope.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.models.loading import ModelLoader
    from toposcope.probes.base import Probe
    from toposcope.probes.representations.kept import KeptSeries
    from toposcope.sources.series import Series

REPRESENTATIONS, SENSITIVITY = "representations", "sensitivity"

SENSITIVITY_SHOWN = {
    "feature": "feature", "run": "run", "settings": "settings", "components_spread": "components / training",
    "texts_spread": "texts / training",
    "draw_spread": "draws / training", "rho": "rho", "rho_low": "lowest", "rho_high": "highest",
    "order": "order at the end", "order_share": "share",
}  # fmt: skip


@click.command("embeddings")
@click.argument("series", nargs=-1)
@click.option(
    "--texts",
    help="A file (a text per line, or .jsonl, .csv, .tsv), a WikiText folder, wikitext2, wikitext103, "
    "tinystories, or hf://datasets/ORG/NAME.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The store, made when not there.")
@click.option(
    "--preset", default="default", show_default=True, help="default, or seed003: the embedding report."
)
@click.option("--limit", type=click.IntRange(min=1), help="How many texts.  [default: 200]")
@click.option(
    "--min-chars",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Shorter texts are left out.",
)
@click.option("--split", default="validation", show_default=True, help="Which part of a data set.")
@click.option("--layers", help="last, all, or hidden-state numbers such as 0,6,12.  [default: last]")
@click.option("--pooling", type=click.Choice(["mean", "last", "token"]), help="[default: mean]")
@click.option("--length", type=int, help="Tokens of a text that count.  [default: 128]")
@click.option("--reduce", "reduction", type=click.Choice(["pca", "random", "none"]), help="[default: pca]")
@click.option("--pca", "components", type=int, help="Dimensions that are kept.  [default: 50]")
@click.option("--maxdim", type=int, help="Highest homology dimension.  [default: 1]")
@click.option("--points", type=int, help="Larger clouds are subsampled to this many.  [default: 500]")
@click.option("--draws", type=int, help="Replicates of a subsample.  [default: 5]")
@click.option("--nulls", type=int, help="Gaussian clouds measured beside each cloud.  [default: 5]")
@click.option("--attention", is_flag=True, help="Measure every head's attention graph, too.")
@click.option(
    "--labelled",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A labelled text file in GLUE's format: each layer gets a linear probe's accuracy.",
)
@click.option(
    "--sensitivity",
    is_flag=True,
    help="Measure the last layer under other settings, too (25, 50, 100 and all components, fewer and more "
    "texts), and say how far the findings move.",
)
@click.option(
    "--sensitivity-texts", default="200,800", show_default=True, help="The numbers of texts it compares."
)
@click.option(
    "--features",
    default="representations",
    show_default=True,
    help="What to measure, separated by commas: representations, sensitivity, a probe that an installed "
    "package offers, or one of your own as MODULE:CLASS.",
)
@click.option("--keep", type=click.Path(path_type=Path), help="Keep the pooled states in this folder.")
@click.option(
    "--from-kept",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Measure the states in this folder instead of a series: no model is needed.",
)
@click.option("--no-diagrams", is_flag=True, help="Do not keep the diagrams (CROCKER figures need them).")
@click.option("--tokenizer", type=click.Path(exists=True, path_type=Path), help="Where a model brings none.")
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@sweep_options
@json_option
def command(
    series: tuple[str, ...],
    texts: str | None,
    out: Path,
    preset: str,
    limit: int | None,
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
    nulls: int | None,
    attention: bool,
    labelled: Path | None,
    sensitivity: bool,
    sensitivity_texts: str,
    features: str,
    keep: Path | None,
    from_kept: Path | None,
    no_diagrams: bool,
    tokenizer: Path | None,
    device: str,
    sweeping: Sweeping,
    as_json: bool,
) -> int:
    """Measure the representations that each checkpoint of SERIES gives to fixed texts, into a store.

    SERIES are model folders, folders of steps, run folders or hub addresses. One forward pass brings all
    layers and the perplexity. A sweep that was stopped goes on where it was when the command is repeated.
    """
    from toposcope.analysis import sensitivity_table
    from toposcope.models.loading import ModelLoader
    from toposcope.probes.representations.kept import KeptSeries, keep_runs
    from toposcope.probes.representations.linear_probe import load_labelled
    from toposcope.probes.representations.options import preset as preset_options
    from toposcope.probes.representations.study import parse_grid, study_of_kept, study_of_texts
    from toposcope.store import Store
    from toposcope.sweep import sweep

    changes: dict[str, object] = {
        "layers": layers, "pooling": pooling, "length": length, "reduction": reduction,
        "components": components, "maxdim": maxdim, "points": points, "draws": draws, "nulls": nulls,
        "attention": attention or None,
    }  # fmt: skip
    options = preset_options(preset, changes)
    _check_layers(options.layers)
    ours, further = _chosen(features)
    sensitivity |= SENSITIVITY in ours
    grid = parse_grid(sensitivity_texts) if sensitivity else None
    execution = sweeping.execution(keep_diagrams=not no_diagrams)
    if from_kept is not None:
        _refuse_with_kept(series, texts, pooling, length, labelled, keep, sweeping)
        kept = KeptSeries(from_kept)
        _check_kept(kept, limit)
        opened: Series = kept
        study = study_of_kept(options, kept, limit=limit, grid=grid)
    else:
        if not series or texts is None:
            raise InputError("embeddings needs SERIES and --texts, or --from-kept FOLDER")
        check_device(device)
        loader = ModelLoader(tokenizer=tokenizer, device=device, half=options.half)
        study = study_of_texts(
            options, texts, loader, limit=limit or 200, min_chars=min_chars, split=split,
            labelled=load_labelled(labelled) if labelled is not None else None, keep=keep, grid=grid,
        )  # fmt: skip
        opened = sweeping.open(series)
        if Place.of(out).fresh and (keep is None or not keep.exists()):
            _check_models(opened, loader, options.layers)
        if keep is not None:
            keep_runs(keep, opened.runs)
    place = Place.of(out)
    store = Store.create(out, recipe=study.recipe())
    probes = [probe for probe in study.probes() if probe.name in (*ours, SENSITIVITY)]
    agree = None if isinstance(opened, KeptSeries) else sweeping.agree(opened, place)
    report = sweep(opened, [*probes, *further], store, execution=execution, agree=agree)
    place.refuse_nothing(report, alone=execution.shard.count == 1)
    moved = sensitivity and store.features(probe="sensitivity")["value"].notna().any()
    tables = {"sensitivity": sensitivity_table(store.features())} if moved else {}
    show_sweep(report, out, as_json=as_json, tables=tables)
    if tables and not as_json:
        show_sensitivity(tables["sensitivity"])
    return exit_code(report)


def _chosen(features: str) -> tuple[list[str], list[Probe]]:
    """Return which of our probes are wanted, and those that come from elsewhere."""
    from toposcope.probes.registry import further_probes

    known = (REPRESENTATIONS, SENSITIVITY)
    names = [name.strip() for name in features.split(",")]
    others = [name for name in names if name not in known]
    return [name for name in names if name in known], further_probes(others, known=known)


def _refuse_with_kept(
    series: tuple[str, ...],
    texts: str | None,
    pooling: str | None,
    length: int | None,
    labelled: Path | None,
    keep: Path | None,
    sweeping: Sweeping,
) -> None:
    """Refuse what only a pass through the models could do."""
    asked = {
        "SERIES": series, "--texts": texts, "--pooling": pooling, "--length": length, "--labelled": labelled,
        "--keep": keep, "--steps": sweeping.steps, "--revisions": sweeping.revisions,
        "--losses": sweeping.losses,
    }  # fmt: skip
    for name, value in asked.items():
        if value:
            raise InputError(f"{name} cannot go with --from-kept: the states were read already; leave it out")


def _check_layers(choice: str) -> None:
    """Refuse a choice of layers that no model could have."""
    if choice not in ("last", "all") and not all(part.strip().isdecimal() for part in choice.split(",")):
        raise InputError(f"--layers {choice!r}: give last, all, or numbers such as 0,6,12")


def check_device(device: str) -> None:
    """Refuse a device that this machine does not have."""
    if device == "cpu":
        return
    if not re.fullmatch(r"cuda(:\d+)?", device):
        raise InputError(f"--device {device!r} is unknown; use cpu or cuda")
    try:
        import torch
    except ImportError:
        raise MissingExtraError("torch", "hf") from None
    if not torch.cuda.is_available():
        raise InputError(f"--device {device} is not available on this machine; use --device cpu")


def _check_kept(kept: KeptSeries, limit: int | None) -> None:
    """Refuse to take more texts than were kept at every checkpoint."""
    from toposcope.probes.representations.kept import read_states

    if limit is None:
        return
    states = read_states(kept.folder, next(iter(kept)))
    few = min(len(values) for values in states.values())
    if limit > few:
        raise InputError(
            f"--limit: {limit} texts were asked for, {few} were kept in {kept.folder}; lower the number"
        )


def _check_models(series: Series, loader: ModelLoader, layers: str) -> None:
    """Refuse a series of which no checkpoint is a model with these layers and a tokenizer.

    One that is suffices: the sweep lists the others. Weights are not read, and models of the hub are left to
    the sweep, since looking at them fetches them.
    """
    from toposcope.probes.representations.forward import resolve_layers

    refusals = []
    for checkpoint in series:
        try:
            n_layers = loader.n_layers(checkpoint)
            if n_layers is not None:
                resolve_layers(layers, n_layers)
            return
        except InputError as error:
            refusals.append(error)
    if refusals:
        raise refusals[0]


def show_sensitivity(table: pd.DataFrame) -> None:
    """Print how far each finding moves with the settings, the firmest first, and how to read it."""
    order = table.sort_values("components_spread", kind="stable", na_position="last")
    rows = order[list(SENSITIVITY_SHOWN)].itertuples(index=False, name=None)
    print_table("How far the findings move with the settings", list(SENSITIVITY_SHOWN.values()), rows)
    click.echo(
        "components / training: the standard deviation over the numbers of components in units of that over "
        "checkpoints; texts, draws: the same for the number and for the choice of texts. rho: Spearman's "
        "with the log perplexity at the report's setting, then its range over all settings and draws. order: "
        "of the runs at their last step, and the share of settings and draws that give it."
    )
