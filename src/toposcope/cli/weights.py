"""`toposcope weights`: measure the weights of every checkpoint of a series into a store."""

from __future__ import annotations

from pathlib import Path

import click

from toposcope.cli.output import json_option
from toposcope.cli.sweeping import Sweeping, exit_code, show_plan, show_sweep, sweep_options

_FEATURES = """What to measure, separated by commas: neural_persistence, rips, baselines, trajectory (the
cheap ones), distances (costly: Wasserstein and bottleneck to the previous checkpoint), `cheap` or `all` of
these; updates (each matrix's and head's change since the previous checkpoint, as `watch` compares them); a
probe that an installed package offers, or one of your own as MODULE:CLASS."""


@click.command("weights")
@click.argument("series", nargs=-1, required=True)
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="The store, made when it is not there."
)
@click.option("--features", default="cheap", show_default=True, help=_FEATURES)
@click.option(
    "--preset",
    default="default",
    show_default=True,
    help="default, or seed004: the weight-space paper's own conventions.",
)
@click.option("--points", type=int, help="Clouds with more rows are subsampled to this many.  [default: 200]")
@click.option("--draws", type=int, help="Replicates of a subsample.  [default: 5; seed004: 20]")
@click.option("--nulls", type=int, help="Permutations of the weight-shuffle null.  [default: 5; seed004: 0]")
@click.option(
    "--gradients",
    is_flag=True,
    help="Measure loss gradients on a fixed batch instead: run folders bring theirs, others need --texts.",
)
@click.option("--texts", help="A text file for the gradients' batch (its first 16 texts).")
@click.option("--diagrams", is_flag=True, help="Keep the persistence diagrams, too.")
@sweep_options
@json_option
def command(
    series: tuple[str, ...],
    out: Path,
    features: str,
    preset: str,
    points: int | None,
    draws: int | None,
    nulls: int | None,
    gradients: bool,
    texts: str | None,
    diagrams: bool,
    sweeping: Sweeping,
    as_json: bool,
) -> int:
    """Measure the topology of the weights of every checkpoint of SERIES, and its baselines, into a store.

    SERIES are run folders, folders of runs or of steps, model folders, files or hub addresses. A sweep that
    was stopped goes on where it was when the command is repeated; what is measured is not measured again.
    """
    from toposcope.api.measuring import of_weights
    from toposcope.papers.weight_presets import preset as preset_options
    from toposcope.probes.registry import weight_probes

    options = preset_options(preset, points=points, draws=draws, nulls=nulls)
    probes = weight_probes([name.strip() for name in features.split(",")], options)
    execution = sweeping.execution(keep_diagrams=diagrams)
    opened = sweeping.open(series, split=options.split)
    found = of_weights(opened, probes, options, gradients=gradients, texts=texts)
    if sweeping.plan:
        return show_plan(found.plan(execution=execution), as_json=as_json)
    report = found.carry_out(out, execution=execution, agree=sweeping.agree(opened))
    show_sweep(report, out, as_json=as_json)
    return exit_code(report)
