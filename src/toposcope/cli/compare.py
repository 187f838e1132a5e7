"""`toposcope compare`: two checkpoints side by side, layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toposcope.cli.output import json_option, print_json, print_table, say
from toposcope.cli.sweeping import step_pattern_option
from toposcope.core.errors import InputError
from toposcope.core.types import Normalization, Scope
from toposcope.subjects.weights.features import (
    DISTANCES,
    H0_SCALED,
    H0_TOTAL,
    H1_TOTAL,
    MATRIX_NORM,
    PERSISTENCE,
    STABLE_RANK,
    WEIGHTS_BOTTLENECK,
    WEIGHTS_MOVED,
)

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.api import Comparison

_SHOWN = {
    (PERSISTENCE.name, Normalization.MATRIX): "NP",
    (H0_TOTAL.name, "euclidean"): "H0 total",
    (H0_SCALED.name, "euclidean"): "H0 / median",
    (H1_TOTAL.name, "euclidean"): "H1 total",
    (MATRIX_NORM.name, ""): "norm",
    (STABLE_RANK.name, ""): "stable rank",
    (WEIGHTS_MOVED.name, "weights"): "W1 of weights",
    (WEIGHTS_BOTTLENECK.name, "weights"): "bottleneck",
}


@click.command("compare")
@click.argument("first")
@click.argument("second")
@click.option("--step", type=int, help="Step at which to compare.  [default: the last step of each]")
@click.option(
    "--preset", default="default", show_default=True, help="Settings to start from: default or seed004."
)
@click.option("--points", type=int, help="Rows of the point clouds; larger clouds are subsampled.")
@click.option("--draws", type=int, help="Number of random subsamples.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a figure to this file, .png or .svg.",
)
@step_pattern_option
@json_option
def command(
    first: str,
    second: str,
    step: int | None,
    preset: str,
    points: int | None,
    draws: int | None,
    out: Path | None,
    step_pattern: str | None,
    as_json: bool,
) -> int:
    """Compare the weights of FIRST and SECOND: a base model and its fine-tuned form, or two data mixes.

    Each is a checkpoint, or a series with one run. Differences are SECOND minus FIRST. If rows were
    subsampled, both sides use the same rows, and each mean difference has its standard error.
    """
    if out is not None and out.suffix not in (".png", ".svg"):
        raise InputError(
            "the figure can only be .png or .svg", argument="out", value=out, remedy="name such a file"
        )
    from toposcope import api

    compared = api.compare(
        first, second, step=step, preset=preset, points=points, draws=draws, step_pattern=step_pattern
    )
    table, labels = compared.table, [compared.first, compared.second]
    if out is not None:
        _draw(compared, out)
    if as_json:
        stated = {"headline": compared.headline, "changed": list(compared.changed)}
        print_json({"first": labels[0], "second": labels[1], **stated, "rows": _records(table)})
    else:
        say(compared.headline)
        _show(table, labels)
        if out is not None:
            click.echo(str(out))
    return 0


def _draw(compared: Comparison, out: Path) -> None:
    from toposcope.core.drawing.style import to_png, to_svg

    figure = compared.figure()
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(to_svg(figure) if out.suffix == ".svg" else to_png(figure))


def _records(table: pd.DataFrame) -> list[dict[Any, Any]]:
    return table.astype(object).where(table.notna(), None).to_dict("records")


def _show(table: pd.DataFrame, labels: list[str]) -> None:
    records = _records(table)
    lines: dict[str, dict[str, str]] = {}
    for row in records:
        title = _SHOWN.get((row["feature"], row["filtration"]))
        if title is not None:
            name = f"all {row['role']}" if row["scope"] == Scope.ROLE else row["name"]
            lines.setdefault(name, {})[title] = _value(row)
    columns = list(_SHOWN.values())
    cells = [[name, *(line.get(column) for column in columns)] for name, line in lines.items()]
    print_table(f"{labels[1]} minus {labels[0]}", ("matrix", *columns), cells)
    for row in records:
        if row["scope"] == Scope.POOLED and row["probe"] == DISTANCES:
            click.echo(f"pooled {row['feature']}: {_value(row).lstrip('+')}")
    say(
        "± is the standard error over the draws. A difference without ± was measured without draws and may "
        "still be noisy."
    )


def _value(row: dict[Any, Any]) -> str:
    if row["status"] != "ok":
        return str(row["status"])
    noise = "" if row["standard_error"] is None else f" ± {row['standard_error']:.2g}"
    return "" if row["difference"] is None else f"{row['difference']:+.4g}{noise}"
