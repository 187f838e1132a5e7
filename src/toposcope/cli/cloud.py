"""`toposcope cloud`: whether a cloud of points has a ring, or whether two clouds differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from toposcope.cli.output import json_option, print_json, print_table, say

_FOR_TWO = ("paired", "distance", "rescale", "block")
_FOR_ONE = ("noise", "out")


@click.command("cloud")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE [OTHER]")
@click.option(
    "--tensor", help="Array of FILE to read. Needed if FILE holds several arrays with two dimensions."
)
@click.option(
    "--columns", multiple=True,
    help="Column of a .parquet file that is a coordinate, or that holds vectors. Can be repeated.  "
    "[default: all columns]",
)  # fmt: skip
@click.option(
    "--draws", type=int,
    help="Number of random clouds of each kind without a ring, or of random splits of two clouds; at least "
    "19.  [default: 99 clouds, 999 splits]",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random draws.")
@click.option(
    "--max-points", type=int,
    help="Maximum number of rows; larger files are sampled. Twice as many take about five times as long.  "
    "[default: 512; 1024 of each of two clouds]",
)  # fmt: skip
@click.option("--paired", is_flag=True, help="Two clouds: row i of both is the same item, such as a text.")
@click.option(
    "--distance",
    help="Two clouds: wasserstein, bottleneck or landscape of the diagrams of blocks of rows; points, the "
    "distance of single rows; rtd-lite, with --paired.  [default: wasserstein]",
)
@click.option("--rescale", is_flag=True, help="Two clouds: divide out their sizes.")
@click.option(
    "--block", type=int, help="Two clouds: rows of a block.  [default: the square root of all, 8 blocks]"
)
@click.option(
    "--noise", type=float,
    help="Noise, in radii, of the circles for which the power is computed.  "
    "[default: the noise of the ring found, or else 0.3]",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path),
    help="Write the figure (ring.png, ring.svg), diagrams.parquet and answer.json to this folder.",
)  # fmt: skip
@json_option
def command(files: tuple[Path, ...], as_json: bool, **options: Any) -> int:
    """Say whether the rows of FILE, taken as points, form a ring; or whether two clouds differ.

    FILE is a .npy, .npz, .safetensors or .parquet file of numbers from any source: embeddings, hidden states,
    features of a sparse autoencoder. The longest loop (H1 bar) of the points is compared with the loops of
    four kinds of clouds that have no ring: Gaussian, shuffled columns, clusters, and heavy tails.

    The answer is: yes, none shown, or cannot tell. It comes with a p-value, with the power to find a circle
    among so many points, and with the plane in which the loop lies. The command also prints the intrinsic
    dimension. If the work takes long, it first says how long.

    With FILE and OTHER, the answer is whether the two clouds differ, by a permutation test with an exact
    level, and how many rows would show half this shift. Each is a file of one cloud, or of a stack of them
    (three dimensions), or a folder with a file for each cloud.

    The exit code is 0 when the question was answered, whatever the answer, and 2 when FILE cannot be read.
    """
    if len(files) > 2:
        raise click.UsageError(f"{len(files):,} files were given; give one cloud, or two to compare")
    options = {name: value for name, value in options.items() if value not in (None, False, ())}
    _refuse(options, _FOR_TWO if len(files) == 1 else _FOR_ONE, len(files))
    return _two(files, options, as_json) if len(files) == 2 else _one(files[0], options, as_json)


def _refuse(options: dict[str, Any], others: tuple[str, ...], files: int) -> None:
    """Refuse the options of the other question."""
    from toposcope.core.errors import InputError

    wrong = [name for name in others if name in options]
    if wrong:
        need = "it compares two clouds" if files == 1 else "it belongs to the ring of one cloud"
        remedy = "give a second file, or leave it out" if files == 1 else "leave it out"
        raise InputError(need, argument=wrong[0], remedy=remedy)


def _one(file: Path, options: dict[str, Any], as_json: bool) -> int:
    from toposcope.api import cloud

    answer = cloud(file, **options, quiet=as_json)
    if as_json:
        print_json(answer.to_dict())
        return 0
    first, *rest = answer.lines
    say(first)
    columns_shown = ("random clouds without a ring", "measure", "this cloud", "limit (95%)", "p")
    print_table("", columns_shown, answer.compared())
    for line in rest:
        say(line)
    if "out" in options:
        say(f"open {options['out'] / 'ring.png'}")
    return 0


def _two(files: tuple[Path, ...], options: dict[str, Any], as_json: bool) -> int:
    from toposcope.api import two_sample

    answer = two_sample(*files, **options)
    if as_json:
        print_json(answer.to_dict())
        return 0
    for line in answer.lines:
        say(line)
    return 0
