"""`toposcope cloud`: whether a cloud of points has a ring, with an error rate."""

from __future__ import annotations

from pathlib import Path

import click

from toposcope.cli.output import json_option, print_json, print_table, say


@click.command("cloud")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option(
    "--tensor", help="Array of FILE to read. Needed if FILE holds several arrays with two dimensions."
)
@click.option(
    "--columns", multiple=True,
    help="Column of a .parquet file that is a coordinate, or that holds vectors. Can be repeated.  "
    "[default: all columns]",
)  # fmt: skip
@click.option(
    "--draws",
    type=int,
    default=99,
    show_default=True,
    help="Number of random clouds of each kind without a ring, at least 19.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random draws.")
@click.option(
    "--max-points", type=int, default=512, show_default=True,
    help="Maximum number of rows; larger files are sampled. Twice as many take about five times as long.",
)  # fmt: skip
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
def command(
    file: Path,
    tensor: str | None,
    columns: tuple[str, ...],
    draws: int,
    seed: int,
    max_points: int,
    noise: float | None,
    out: Path | None,
    as_json: bool,
) -> int:
    """Say whether the rows of FILE, taken as points, form a ring.

    FILE is a .npy, .npz, .safetensors or .parquet file of numbers from any source: embeddings, hidden states,
    features of a sparse autoencoder. The longest loop (H1 bar) of the points is compared with the loops of
    four kinds of clouds that have no ring: Gaussian, shuffled columns, clusters, and heavy tails.

    The answer is: yes, none shown, or cannot tell. It comes with a p-value, with the power to find a circle
    among so many points, and with the plane in which the loop lies. The command also prints the intrinsic
    dimension. If the work takes long, it first says how long.

    The exit code is 0 when the question was answered, whatever the answer, and 2 when FILE cannot be read.
    """
    from toposcope.api import cloud

    found = cloud(
        file, tensor=tensor, columns=columns, draws=draws, seed=seed, max_points=max_points, noise=noise,
        out=out, quiet=as_json,
    )  # fmt: skip
    if as_json:
        print_json(found.to_dict())
        return 0
    first, *rest = found.lines
    say(first)
    columns_shown = ("random clouds without a ring", "measure", "this cloud", "limit (95%)", "p")
    print_table("", columns_shown, found.compared())
    for line in rest:
        say(line)
    if out is not None:
        say(f"open {out / 'ring.png'}")
    return 0
