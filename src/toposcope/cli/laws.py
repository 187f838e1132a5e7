"""`toposcope analyze --law`: one scaling law, of a table of models or of a store's runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toposcope.cli.output import print_json, print_table
from toposcope.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

LAWS = {
    "power": "a N^b",
    "offset": "a N^b + c (for a loss c = E >= 0)",
    "chinchilla": "E + A / N^alpha + B / D^beta",
    "kaplan": "[(N_c / N)^(alpha_N / alpha_D) + D_c / D]^alpha_D",
    "size-steps": "(N_c / N)^alpha_N + (S_c / S)^alpha_S",
    "loss-to-loss": "K (L - floor_x)^kappa + floor_y",
    "two-stage": "loss = a C^b + c, score = sigmoid of the loss",
}
"""Law -> its formula; `toposcope.analysis.scaling.table.NEEDS` has the quantities that each one reads."""


_AVERAGED = ("power", "offset")
"""Laws in size alone: the seeds of one size are no further sizes, so they are averaged."""


def show_law(
    source: Path, law: str, columns: Sequence[str], leave_out: int, out: Path | None, *,
    rename: Mapping[str, str], as_json: bool,
) -> int:  # fmt: skip
    """Fit and print one law; return the exit code: 1 where it could not be fitted."""
    import pandas as pd

    from toposcope.analysis.scaling.table import COLUMNS, last_rows, law_table

    named = _named(columns)
    models = _models(source, named.values(), rename)
    sizes_in, loss_in = (named.get(name, COLUMNS[name]) for name in ("size", "loss"))
    rows = len(models)
    models = last_rows(models, loss_in)
    found = law_table(models, law, columns=named, leave_out=leave_out, by_size=law in _AVERAGED)
    sizes = None
    if sizes_in in models:
        known = pd.to_numeric(models[sizes_in], errors="coerce")
        sizes = int(known[known > 0].nunique())
    if as_json:
        counts = {"rows": rows, "models": len(models), "sizes": sizes}
        print_json({"law": law, "formula": LAWS[law], **counts, "fit": found.to_dict("records")})
    else:
        shown = ["parameter", "value", "error", "low", "high", "n", "left_out", "status", "reason"]
        cells = [
            [None if v != v else v for v in row] for row in found[shown].itertuples(index=False, name=None)
        ]
        click.echo(_answer(found))
        title = f"{law}: {LAWS[law]} (standard error and 95% interval)"
        print_table(title, shown, cells)
        last = f", the last rows of {len(models)} runs" if len(models) < rows else ""
        click.echo(f"{rows} rows{last}" + (f", {sizes} distinct sizes" if sizes is not None else ""))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        found.to_csv(out / f"law-{law}.csv", index=False)
        click.echo(f"written: law-{law}.csv in {out}", err=True)
    return 1 if (found["status"] == "failed").all() else 0


def _answer(found: pd.DataFrame) -> str:
    """Return what was found in one line: each number with its interval, or why there is none."""
    given = found[found["value"].notna()]
    reason = str(found["reason"].iloc[0])
    if given.empty:
        return f"No number can be given: {reason}"
    said = [
        f"{name} {value:.4g}" + (f" ({low:.4g} to {high:.4g})" if low == low and high == high else "")
        for name, value, low, high in zip(
            *(given[c] for c in ("parameter", "value", "low", "high")), strict=True
        )
    ]
    return ", ".join(said) + (f". Mind: {reason}" if reason else "")


def _named(columns: Sequence[str]) -> dict[str, str]:
    from toposcope.analysis.scaling.table import COLUMNS

    names = {}
    for text in columns:
        quantity, equals, column = text.partition("=")
        if not equals or quantity not in COLUMNS:
            raise InputError(
                f"--column {text!r}: write QUANTITY=COLUMN, QUANTITY one of {', '.join(COLUMNS)}"
            )
        names[quantity] = column
    return names


def _models(source: Path, keep: Collection[str], rename: Mapping[str, str]) -> pd.DataFrame:
    """Return a file's rows, or the logged losses of a store's runs with their sizes."""
    from toposcope.sources.history import renamed
    from toposcope.sources.losses import canonical, read_table

    if source.is_file():
        return canonical(renamed(read_table(source), rename, str(source)), keep=keep)
    from toposcope.store import Store

    store = Store.open(source)
    runs = store.runs()
    known = [name for name in ("run", "parameters", "family") if name in runs]
    return store.metrics().merge(runs[known], on="run", how="left")
