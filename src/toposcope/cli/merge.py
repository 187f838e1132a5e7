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
        store, renamed = merge([Store.open(path) for path in stores], out)
    runs: list[str] = sorted(store.features()["run"].astype(str).unique())
    described = store.runs()
    groups = groups_of(pd.DataFrame({"run": runs}).merge(described, on="run", how="left"), store.metrics())
    first = f"{out}: {len(runs):,} run{'s' * (len(runs) != 1)} of {len(stores):,} stores"
    if as_json:
        changed = [
            {"store": str(renaming.store), "run": renaming.run, "name": renaming.name} for renaming in renamed
        ]
        group_data = [
            {"label": group.label, "runs": list(group.runs)}
            for group in groups[: len(groups) * (len(groups) > 1)]
        ]
        print_json(
            {"answer": first, "store": str(out), "runs": runs, "groups": group_data, "renamed": changed}
        )
        return 0
    if line := said(groups):
        say(line)
    click.echo(first)
    for renaming in renamed:
        say(
            f"note: {renaming.run} of {renaming.store} is now {renaming.name}: another store also has a "
            f"run {renaming.run}"
        )
    return 0
