"""`toposcope export`: a store's tables for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from toposcope.cli.output import json_option, naming_part_faults, print_json, say


@click.command("export")
@click.argument("store", type=click.Path(path_type=Path))
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="Folder for the files."
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["csv", "json", "netcdf"]),
    default="csv",
    show_default=True,
    help="Format of the files.",
)
@click.option(
    "--shape",
    type=click.Choice(["long", "wide"]),
    default="long",
    show_default=True,
    help="long: one line per number. wide: one line per checkpoint.",
)
@click.option(
    "--layout",
    type=click.Choice(["seed003"]),
    help="Write the files in the layout of the embedding report (see `toposcope reproduce`, seed003).",
)
@json_option
@naming_part_faults("store")
def command(store: Path, out: Path, kind: str, shape: str, layout: str | None, as_json: bool) -> int:
    """Write the tables of STORE as CSV, JSON or NetCDF files.

    A NetCDF file has the features, a group for each probe: xarray.open_dataset(FILE, group=PROBE).

    pandas can read a store without an export: pandas.read_parquet("STORE/features").
    """
    from toposcope.store import Store
    from toposcope.store.export import export
    from toposcope.studies.seed003.report_files import write_report_files

    opened = Store.open(store)
    if layout == "seed003":
        files = write_report_files(opened, out)
    else:
        files = export(opened, out, kind=kind, shape=shape)
    if as_json:
        print_json({"files": [str(path) for path in files]})
    else:
        for path in files:
            click.echo(str(path))
        if kind == "netcdf" and layout is None:
            from toposcope.store.export import how_to_open, netcdf_groups

            say(f"open it by: {how_to_open(str(files[0]), netcdf_groups(opened.features()))}")
    return 0
