"""The columns of a study's rows: one table of them makes the file, the check of a file, and its schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from toposcope.core.errors import InputError

SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the rows: its type in JSON, its unit, its meaning, and whether a cell may be empty."""

    name: str
    kind: str
    unit: str
    meaning: str
    empty: bool = False


def rounded(rows: pd.DataFrame, columns: Sequence[Column], digits: int) -> pd.DataFrame:
    """Return these columns of the rows, numbers with so many significant digits and counts as integers."""
    table = rows.reindex(columns=[column.name for column in columns])
    for column in columns:
        cells = table[column.name]
        if column.kind == "number":
            table[column.name] = cells.astype(float).map(lambda value: float(f"{value:.{digits}g}"))
        elif column.kind == "integer":
            table[column.name] = cells.astype("Int64")
    return table


def read_table(path: Path, columns: Sequence[Column]) -> pd.DataFrame:
    """Return the table of a file that has these columns.

    Raises
    ------
    InputError
        If there is no such file, a column is missing, a cell is no number, or one is empty that must not be.
    """
    if not path.is_file():
        raise InputError(f"{path} is not there; a study writes {path.name} into its folder")
    try:
        table = pd.read_csv(path, dtype={column.name: str for column in columns if column.kind == "string"})
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{path} is not a table: {error}") from None
    for column in columns:
        if column.name not in table:
            raise InputError(f"{path} has no column {column.name!r}; a study writes {path.name} with it")
        cells = table[column.name]
        if column.kind != "string" and cells.dtype.kind not in "iuf":
            raise InputError(f"{path}: column {column.name!r} has cells that are no numbers")
        if not column.empty and cells.isna().any():
            row = int(cells.isna().to_numpy().argmax())
            raise InputError(f"{path}: column {column.name!r} is empty in row {row + 1}")
    return table


def row_schema(title: str, columns: Sequence[Column]) -> dict[str, object]:
    """Return the JSON schema of one row; an empty cell is null."""
    cells = {
        column.name: {
            "type": [column.kind, "null"] if column.empty else column.kind,
            "description": column.meaning,
            **({"unit": column.unit} if column.unit else {}),
        }
        for column in columns
    }
    return {
        "title": title,
        "type": "object",
        "properties": cells,
        "required": [column.name for column in columns],
        "additionalProperties": False,
    }
