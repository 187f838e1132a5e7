"""`toposcope embeddings`: measure how every checkpoint of a series represents a set of texts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toposcope.api.measurement import Measurement, StorePlace
from toposcope.cli.output import json_option, print_table, say
from toposcope.cli.requests import request_options
from toposcope.cli.sweeping import (
    Sweeping,
    device_option,
    exit_code,
    out_option,
    show_plan,
    show_sweep,
    split_option,
    sweep_options,
    tokenizer_option,
)
from toposcope.core.errors import InputError
from toposcope.core.wording import option
from toposcope.subjects.representations.features import REPRESENTATIONS, SENSITIVITY
from toposcope.subjects.representations.options import RepresentationOptions

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.subjects.representations.probes.sensitivity import SensitivityOptions
    from toposcope.subjects.text_request import TextRequest

SENSITIVITY_SHOWN = {
    "feature": "feature", "run": "run", "settings_spread": "all settings", "components_spread": "components",
    "texts_spread": "texts", "draw_spread": "draws", "rho": "rho", "rho_low": "lowest",
    "rho_high": "highest", "order": "order at the end", "order_share": "share",
}  # fmt: skip


@click.command("embeddings")
@click.argument("series", nargs=-1)
@click.option(
    "--texts",
    help="Texts that every checkpoint reads: a file (one text per line, or .jsonl, .csv, .tsv), a WikiText "
    "folder, wikitext2, wikitext103, tinystories, or hf://datasets/ORG/NAME.",
)
@out_option
@click.option(
    "--preset",
    default="default",
    show_default=True,
    help="Settings to start from: default, or seed003 for those of the embedding report "
    "(see `toposcope reproduce`, seed003).",
)
@click.option("--limit", type=click.IntRange(min=1), help="Number of texts.  [default: 200]")
@click.option(
    "--min-chars",
    type=click.IntRange(min=0),
    help="Skip texts with fewer characters.  [default: 100]",
)
@split_option
@request_options(RepresentationOptions)
@click.option(
    "--labelled",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Labelled texts in GLUE's format, for the accuracy of a linear probe of each layer.",
)
@click.option(
    "--sensitivity",
    is_flag=True,
    help="Also measure the last layer with other settings (25, 50, 100 and all components, fewer and more "
    "texts), and say how much the findings change.",
)
@click.option(
    "--sensitivity-texts",
    help="Numbers of texts that --sensitivity compares.  [default: 200,800]",
)
@click.option(
    "--features",
    default=REPRESENTATIONS,
    show_default=True,
    help="What to measure, separated by commas: representations, sensitivity, a probe of an installed "
    "package, or your own as MODULE:CLASS.",
)
@click.option(
    "--save-states",
    "save_states",
    type=click.Path(path_type=Path),
    help="Save the pooled hidden states in this folder, for --from-states.",
)
@click.option(
    "--from-states",
    "from_states",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Measure the hidden states in this folder, which --save-states wrote; no model is needed.",
)
@click.option(
    "--no-diagrams",
    is_flag=True,
    help="Do not store the persistence diagrams. The report's maps of loops by scale and checkpoint "
    "(CROCKER) need them.",
)
@tokenizer_option
@device_option
@sweep_options
@json_option
def command(
    series: tuple[str, ...],
    texts: str | None,
    out: Path,
    preset: str,
    limit: int | None,
    min_chars: int | None,
    split: str | None,
    settings: dict[str, object],
    labelled: Path | None,
    sensitivity: bool,
    sensitivity_texts: str | None,
    features: str,
    save_states: Path | None,
    from_states: Path | None,
    no_diagrams: bool,
    tokenizer: Path | None,
    device: str,
    sweeping: Sweeping,
    as_json: bool,
) -> int:
    """Measure how each checkpoint of SERIES represents the same texts.

    SERIES are model folders, folders of steps, run folders or hub addresses. Each text becomes a point, the
    mean of its hidden states; the shape of this cloud of points is measured in every layer. The perplexity
    comes from the same forward pass. The results go to a store. If the command is interrupted, repeat it:
    it continues.
    """
    from toposcope.store import Store
    from toposcope.subjects.representations.measurement import of_representations, of_saved_states
    from toposcope.subjects.representations.presets import preset as preset_options
    from toposcope.subjects.representations.saved_states import SavedStates
    from toposcope.subjects.representations.tables.sensitivity import measured_sensitivity
    from toposcope.subjects.text_request import TextRequest

    options = preset_options(preset, **settings)
    names = tuple(name.strip() for name in features.split(","))
    sensitivity |= SENSITIVITY in names
    request = TextRequest(
        texts=texts, limit=limit, min_chars=min_chars, split=split, features=names, labelled=labelled,
        grid=_grid(sensitivity_texts, sensitivity=sensitivity), save_states=save_states,
        tokenizer=tokenizer, device=device,
    )  # fmt: skip
    execution = sweeping.execution(keep_diagrams=not no_diagrams)
    if from_states is not None:
        _refuse_with_states(series, request, settings, sweeping)
        prepared, agree = of_saved_states(SavedStates(from_states), options, request), None
    else:
        if not series or texts is None:
            raise InputError(
                f"embeddings needs SERIES and {option('texts')}, or {option('from_states')} FOLDER"
            )
        find = sweeping.opening(series)
        prepared = of_representations(find, options, request, look=StorePlace.of(out).fresh)
        agree = sweeping.agree(find())
    measurement = Measurement.of(prepared)
    if sweeping.plan:
        return show_plan(measurement.plan(execution=execution), as_json=as_json)
    report = measurement.carry_out(out, execution=execution, agree=agree)
    table = measured_sensitivity(Store.open(out).features()) if sensitivity else None
    tables = {} if table is None or table.empty else {SENSITIVITY: table}
    show_sweep(report, out, as_json=as_json, tables=tables)
    if tables and not as_json:
        show_sensitivity(tables[SENSITIVITY])
    return exit_code(report)


def _grid(texts: str | None, *, sensitivity: bool) -> SensitivityOptions | None:
    """Return the settings that the sensitivity compares, if it is measured."""
    from toposcope.subjects.representations.study import parse_grid

    if sensitivity:
        return parse_grid("200,800" if texts is None else texts)
    if texts is not None:
        raise InputError(
            "only the sensitivity compares numbers of texts",
            argument="sensitivity_texts",
            value=texts,
            remedy=f"give {option('sensitivity')}, too, or leave it out",
        )
    return None


def _refuse_with_states(
    series: tuple[str, ...], request: TextRequest, settings: Mapping[str, object], sweeping: Sweeping
) -> None:
    """Refuse options that need a pass through the models."""
    from toposcope.subjects.representations.subject import SUBJECT
    from toposcope.subjects.unused import NO_MODEL, refuse_unused

    if series:
        raise InputError(f"{option('from_states')} opens no model", remedy="leave SERIES out")
    refuse_unused(SUBJECT, request.features, request, saved=True, steps=sweeping.steps)
    further = {
        "pooling": settings.get("pooling"), "length": settings.get("length"),
        "revisions": sweeping.revisions, "losses": sweeping.losses,
    }  # fmt: skip
    for name, value in further.items():
        if value:
            raise InputError(NO_MODEL, argument=name, value=value, remedy="leave it out")


def show_sensitivity(table: pd.DataFrame) -> None:
    """Print how many features the settings change more than training does; then all, the stablest first."""
    from toposcope.subjects.representations.features import SETTINGS

    judged = table[table["status"] == "ok"].sort_values("settings_spread", kind="stable")
    if judged.empty:
        say("The settings cannot be compared with training: no feature differs between two checkpoints.")
        return
    more = int((judged["settings_spread"] > 1).sum())
    alone = judged["run"].nunique() == 1
    of = "features" if alone else "pairs of feature and run"
    say(f"The choice of a setting changes {more} of {len(judged)} {of} more than training does.")
    labels = {feature.name: feature.label for feature in SETTINGS}
    judged = judged.assign(feature=judged["feature"].map(lambda name: labels.get(name, name)))
    shown = {
        name: heading
        for name, heading in SENSITIVITY_SHOWN.items()
        if (judged[name].notna() & (judged[name] != "")).any() and not (name == "run" and alone)
    }
    rows = judged[list(shown)].itertuples(index=False, name=None)
    print_table("How far the findings depend on the settings", list(shown.values()), rows)
    say(
        "all settings: the standard deviation over all settings, divided by that over checkpoints. "
        "components, texts, draws: the same over the numbers of components, over the numbers of texts, and "
        "over random choices of texts."
    )
    if "rho" in shown:
        say(
            "rho: Spearman's correlation with the log perplexity at the report's setting; lowest and highest "
            "are over all settings and draws."
        )
    if "order" in shown:
        say(
            "order at the end: the runs by their values at the last step, smallest first; share: how many of "
            "the settings and draws give this order."
        )
