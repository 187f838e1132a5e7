"""`toposcope weights`: measure the weights of every checkpoint of a series into a store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from toposcope.cli.output import json_option
from toposcope.cli.requests import request_options
from toposcope.cli.sweeping import Sweeping, carried_out, out_option, sweep_options
from toposcope.core.errors import InputError
from toposcope.core.wording import command as named
from toposcope.core.wording import option
from toposcope.subjects.weights.options import WeightOptions

_FEATURES = """What to measure, separated by commas. `cheap` is neural_persistence (how far the weights that
connect a matrix lie below its largest), rips (clusters and loops of its rows), baselines (norms and spectra)
and trajectory (distances between checkpoints), and numbers of the optimiser's moments where checkpoints keep
them. `all` adds distances to the previous checkpoint (Wasserstein and bottleneck) and deep_graph_persistence
(of matrices that compose, such as the two of an MLP), which are slow. `updates` is the change of each matrix
and head since the previous checkpoint. You can also name a probe of an installed package, or your own as
MODULE:CLASS."""


@click.command("weights")
@click.argument("series", nargs=-1, required=True)
@out_option
@click.option("--features", default="cheap", show_default=True, help=_FEATURES)
@click.option(
    "--preset",
    default="default",
    show_default=True,
    help="Settings to start from: default, or seed004 for the conventions of the weight-space paper "
    "(see `toposcope reproduce`, seed004).",
)
@request_options(WeightOptions)
@click.option(
    "--gradients",
    is_flag=True,
    help="Measure gradients of the loss instead of weights. Run folders may contain them; for other "
    "series give --texts.",
)
@click.option("--texts", help="Text file for the batch of --gradients; its first 16 texts are used.")
@click.option("--diagrams", is_flag=True, help="Also store the persistence diagrams.")
@sweep_options
@json_option
def command(
    series: tuple[str, ...],
    out: Path,
    features: str,
    preset: str,
    settings: dict[str, object],
    gradients: bool,
    texts: str | None,
    diagrams: bool,
    sweeping: Sweeping,
    as_json: bool,
) -> int:
    """Measure the weights of every checkpoint: their topology, and norms and spectra to compare with.

    SERIES are run folders, folders of runs or of steps, model folders, files or hub addresses. The results
    go to a store, a folder of parquet tables. If the command is interrupted, repeat it: it continues, and
    measures nothing twice.

    `toposcope analyze` says what the results mean, and `toposcope report` draws them.
    """
    from toposcope.api.measurement import Measurement
    from toposcope.subjects.gradients.measurement import of_gradients
    from toposcope.subjects.measurement import Prepared
    from toposcope.subjects.roster import further_subject
    from toposcope.subjects.text_request import TextRequest
    from toposcope.subjects.weights.measurement import of_weights
    from toposcope.subjects.weights.presets import preset as preset_options

    names = [name.strip() for name in features.split(",")]
    execution = sweeping.execution(keep_diagrams=diagrams)
    options = preset_options(preset, **settings)
    find = sweeping.opening(series)
    if (subject := further_subject(names)) is not None:
        chosen_preset = None if preset == "default" else preset
        other = {"preset": chosen_preset, "gradients": gradients or None, "texts": texts}
        _refuse_settings(subject.name, {**settings, **other})
        probes = subject.probes()
        prepared = Prepared(find(split=options.split), probes, subject.recipe())
    else:
        of_tensors = of_gradients if gradients else of_weights
        prepared = of_tensors(find, names, options, TextRequest(texts=texts))
    checkpoints = find(split=options.split)
    return carried_out(Measurement.of(prepared), checkpoints, out, sweeping, execution, as_json=as_json)


def _refuse_settings(subject: str, given: Mapping[str, object]) -> None:
    """Refuse settings of weights for a further subject, which has its own."""
    for name, value in given.items():
        if value is not None:
            raise InputError(
                f"{option('features')} {subject!r} have settings of their own",
                argument=name,
                value=None if value is True else value,
                remedy=f"leave it out, or use {named(subject, 'SERIES', out='STORE')}",
            )
