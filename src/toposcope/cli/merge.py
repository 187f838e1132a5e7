"""`toposcope merge`: several stores as one, without measuring again."""

from __future__ import annotations

from pathlib import Path

import click

from toposcope.cli.output import json_option, naming_part_faults, print_json, say


@click.command("merge")
@click.argument("stores", metavar="STORE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder of the new store.")
@json_option
@naming_part_faults("stores")
def command(stores: tuple[Path, ...], out: Path, as_json: bool) -> int:
    """Join STOREs that were measured with the same settings into a new store, without measuring again.

    If different runs have the same name, they are renamed to STORE/RUN. To show several stores on one
    page you need no merge: `toposcope report A B --out DIR` does it.
    """
    import pandas as pd

    from toposcope.core.progress import busy
    from toposcope.logs.belonging import groups_of, said
    from toposcope.store import Store
    from toposcope.store.merge import merge

    with busy("merging"):
        made, renamed = merge([Store.open(path) for path in stores], out)
    runs = sorted(made.features()["run"].astype(str).unique())
    known = made.runs()
    groups = groups_of(pd.DataFrame({"run": runs}).merge(known, on="run", how="left"), made.metrics())
    if as_json:
        changed = [{"store": str(one.store), "run": one.run, "name": one.name} for one in renamed]
        group_data = [
            {"label": one.label, "runs": list(one.runs)} for one in groups[: len(groups) * (len(groups) > 1)]
        ]
        print_json({"store": str(out), "runs": runs, "groups": group_data, "renamed": changed})
        return 0
    if line := said(groups):
        say(line)
    click.echo(f"{out}: {len(runs):,} run{'s' * (len(runs) != 1)} of {len(stores):,} stores")
    for one in renamed:
        say(f"note: {one.run} of {one.store} is now {one.name}: another store also has a run {one.run}")
    return 0
