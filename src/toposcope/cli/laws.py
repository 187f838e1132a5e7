"""`--law` of `toposcope analyze`: one scaling law, of a table of models or of a store's runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from toposcope.cli.output import print_json, print_table
from toposcope.core.errors import InputError

LAWS = ("power", "offset", "chinchilla", "kaplan", "size-steps", "loss-to-loss", "two-stage")
"""The laws of `toposcope.scaling.table.FORMULAS`, whose import takes longer than the help may."""


def show_law(
    source: Path, law: str, columns: Sequence[str], leave_out: int, out: Path | None, *,
    rename: Mapping[str, str], as_json: bool,
) -> int:  # fmt: skip
    """Fit and print one law; return the exit code: 1 where it could not be fitted."""
    from toposcope.api import fit_scaling_law

    found = fit_scaling_law(source, law, columns=_named(columns), rename=rename, leave_out=leave_out)
    if as_json:
        counts = {"rows": found.rows, "models": found.models, "sizes": found.sizes}
        print_json({"law": law, "formula": found.formula, **counts, "fit": found.table.to_dict("records")})
    else:
        shown = ["parameter", "value", "error", "low", "high", "n", "left_out", "status", "reason"]
        rows = found.table[shown].itertuples(index=False, name=None)
        click.echo(repr(found))
        title = f"{law}: {found.formula} (standard error and 95% interval)"
        print_table(title, shown, [[None if v != v else v for v in row] for row in rows])
        click.echo(found.counted)
    if out is not None:
        from toposcope.core.tabular import write_csv

        out.mkdir(parents=True, exist_ok=True)
        write_csv(found.table, out / f"law-{law}.csv")
        click.echo(f"written: law-{law}.csv in {out}", err=True)
    return 1 if found.failed else 0


def _named(columns: Sequence[str]) -> dict[str, str]:
    from toposcope.scaling.table import COLUMNS

    names = {}
    for text in columns:
        quantity, equals, column = text.partition("=")
        if not equals or quantity not in COLUMNS:
            raise InputError(
                "not QUANTITY=COLUMN",
                argument="quantity",
                value=text,
                remedy=f"QUANTITY is one of {', '.join(COLUMNS)}",
            )
        names[quantity] = column
    return names
