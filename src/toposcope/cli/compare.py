"""`toposcope compare`: two recipes by the losses of their seeds, or two checkpoints layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toposcope.cli.output import (
    json_option,
    naming_part_faults,
    pattern_option,
    print_json,
    print_table,
    renamed,
    say,
    step_pattern_option,
)
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

    from toposcope.api import AdapterComparison, Comparison
    from toposcope.runs import RunComparison

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
_SHORT = ("H0 total", "norm")
"""Columns of the short table besides the change of the weights: with usual names they fit 80 characters."""
MOST_CHANGES = 8
"""Matrices of the short table: those whose weights moved farthest."""
MOST_RUNS = 40
"""Runs that the table lists; --json has all."""


@click.command("compare")
@click.argument("first")
@click.argument("second")
@click.option(
    "--siblings",
    multiple=True,
    metavar="PLACE",
    help="Seeds of another recipe, also used to estimate the noise between seeds. Can be repeated.",
)
@click.option(
    "--horizon",
    type=int,
    help="Step at which the runs end; losses are compared up to it.  [default: what the logs plan]",
)
@click.option(
    "--column",
    help="Column to compare, such as a loss.  [default: the training loss, or else the held-out loss]",
)
@pattern_option
@click.option(
    "--rename", multiple=True, metavar="OLD=NEW", help="Rename a column of a table. Can be repeated."
)
@click.option("--step", type=int, help="Weights: step at which to compare.  [default: the last step of each]")
@click.option(
    "--preset",
    default="default",
    show_default=True,
    help="Weights: settings to start from: default or seed004.",
)
@click.option("--points", type=int, help="Weights: rows of the point clouds; larger clouds are subsampled.")
@click.option("--draws", type=int, help="Weights: number of random subsamples.")
@click.option("--all", "everything", is_flag=True, help="Weights: print every matrix and every number.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a figure to this file, .png or .svg.",
)
@step_pattern_option
@json_option
@naming_part_faults("first", "second")
def command(
    first: str,
    second: str,
    siblings: tuple[str, ...],
    horizon: int | None,
    column: str | None,
    rename: tuple[str, ...],
    pattern: str | None,
    step: int | None,
    preset: str,
    points: int | None,
    draws: int | None,
    everything: bool,
    out: Path | None,
    step_pattern: str | None,
    as_json: bool,
) -> int:
    """Say whether SECOND is better than FIRST by the losses of their seeds, or which weights differ.

    FIRST and SECOND are each a log, a store, a folder of logs or runs (the seeds of one recipe), a
    checkpoint, or a series of checkpoints. Two checkpoints, or series of one run each, are compared by their
    weights if they have a matrix in common and neither --siblings, --horizon nor --column is given.
    Everything else is compared by the losses. Differences are SECOND minus FIRST.

    The exit code is 0 when everything was compared. It is 1 when something was left out or is wrong; the
    output says what. It is 2 when nothing could be compared.
    """
    if out is not None and out.suffix not in (".png", ".svg"):
        raise InputError(
            "the figure can only be .png or .svg", argument="out", value=out, remedy="name such a file"
        )
    from toposcope import api
    from toposcope.runs import RunComparison

    comparison = api.compare(
        first, second, siblings=siblings, horizon=horizon, column=column, rename=renamed(rename), step=step,
        pattern=pattern, preset=preset, points=points, draws=draws, step_pattern=step_pattern,
    )  # fmt: skip
    drawn = out is not None and not (isinstance(comparison, api.Comparison) and comparison.faults)
    if out is not None and drawn:
        _draw(comparison, out)
    if as_json:
        print_json(comparison.to_dict())
    elif isinstance(comparison, RunComparison):
        _show_runs(comparison)
    elif isinstance(comparison, api.AdapterComparison):
        _show_adapter(comparison)
    else:
        _show_weights(comparison, everything=everything)
    if drawn and not as_json:
        click.echo(str(out))
    return 0 if comparison.ok else 1


def _draw(compared: Comparison | RunComparison | AdapterComparison, out: Path) -> None:
    from toposcope.core.drawing.style import to_png, to_svg
    from toposcope.core.outputs import for_writing

    figure = compared.figure()
    out.parent.mkdir(parents=True, exist_ok=True)
    for_writing(out).write_bytes(to_svg(figure) if out.suffix == ".svg" else to_png(figure))


def _show_runs(comparison: RunComparison) -> None:
    first, *rest = comparison.lines
    say(first)
    if len(comparison.rows) > 2:
        cells = [
            (recipe, run, f"{last:,.0f}", f"{losses:,}", f"{end:#.5g}")
            for recipe, run, last, losses, end in comparison.rows[:MOST_RUNS]
        ]
        print_table("", ("recipe", "run", "last step", "losses", "final loss"), cells)
    for line in rest:
        say(line, err=line.startswith(("problem: ", "note: ")))


def _show_adapter(comparison: AdapterComparison) -> None:
    from toposcope.sources.adapter_base import in_base

    say(comparison.line)
    cells = [
        (
            in_base(row["name"]), f"{row['norm']:.3g}",
            None if row["change"] is None else f"{row['change']:.3g}",
            row["rank"] or None, None if row["effective_rank"] is None else f"{row['effective_rank']:.2g}",
        )
        for row in _records(comparison.relative)[:MOST_CHANGES]
        if row["norm"]
    ]  # fmt: skip
    if cells:
        columns = ("matrix", "norm", "of W", "rank", "used")
        print_table(f"the largest changes of {len(comparison.relative)}", columns, cells)
        say(
            "norm: norm of the change. of W: the same, over the norm of the base's matrix. used: "
            "effective rank of the change."
        )


def _show_weights(comparison: Comparison, *, everything: bool) -> None:
    say(comparison.line)
    if comparison.faults:
        return
    if comparison.same_run:
        say(f"{comparison.same_run.strip()}.")
    say(f"{comparison.beyond_noise}.")
    lines = _cells(comparison.table)
    title = f"{comparison.second} minus {comparison.first}"
    far = dict(zip(comparison.moved["name"], comparison.moved["change"], strict=True))
    columns = tuple(_SHOWN.values()) if everything else _SHORT
    names = list(lines) if everything else comparison.farthest(MOST_CHANGES)
    cells = [
        [name, f"{far[name]:.3g}" if name in far else None,
         *(lines.get(name, {}).get(column) for column in columns)]
        for name in names
    ]  # fmt: skip
    print_table(title, ("matrix", "moved", *columns), cells)
    for row in _records(comparison.table) if everything else ():
        if row["scope"] == Scope.POOLED and row["probe"] == DISTANCES:
            click.echo(f"pooled {row['feature']}: {_value(row).lstrip('+')}")
    say(
        "moved: the norm of the change over the norm of FIRST. ±: the standard error over the draws. A "
        "difference without ± was measured without draws and may still be noisy."
    )
    left = len(comparison.moved) - len(names)
    if left > 0 and not everything:
        moved = "moved less" if any(far.values()) else "did not move either"
        say(f"{left:,} more matrices {moved}; --all prints every matrix and every number.")


def _records(table: pd.DataFrame) -> list[dict[Any, Any]]:
    return table.astype(object).where(table.notna(), None).to_dict("records")


def _cells(table: pd.DataFrame) -> dict[str, dict[str, str]]:
    lines: dict[str, dict[str, str]] = {}
    for row in _records(table):
        title = _SHOWN.get((row["feature"], row["filtration"]))
        if title is not None:
            name = f"all {row['role']}" if row["scope"] == Scope.ROLE else row["name"]
            lines.setdefault(name, {})[title] = _value(row)
    return lines


def _value(row: dict[Any, Any]) -> str:
    if row["status"] != "ok":
        return str(row["status"])
    noise = "" if row["standard_error"] is None else f" ± {row['standard_error']:.2g}"
    return "" if row["difference"] is None else f"{row['difference']:+.4g}{noise}"
