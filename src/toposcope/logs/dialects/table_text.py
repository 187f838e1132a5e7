"""Tables as text: comma, tab, semicolon or blanks between the columns, and what spoils them.

A header may come again, with more names or without; comments may stand above it; rows may have grown by a
column; a block of zero bytes may have hit some lines; the last line may be unfinished.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from toposcope.core.forms import listed
from toposcope.logs.dialects.table_head import (
    BLANKS,
    RULE,
    are_two_columns,
    fields_of,
    is_number,
    names_beside,
    numbers_only,
    separator,
    without_comments,
)
from toposcope.logs.lines import HIT, ZEROS
from toposcope.logs.meanings import chosen
from toposcope.logs.records import PLANNED, RESTARTED, number
from toposcope.logs.run import nan_column

_ZEROS = re.compile(rf"[^\n]*\0{{{ZEROS},}}[^\n]*\n?")
"""Lines that a block of zero bytes hit: what is left of their numbers may be cut."""
_WRITTEN = ("nan", "NaN", "NAN", "Nan")
_NANS = ("nan", "+nan", "-nan")
_DECIMAL_COMMA = re.compile(r'(?:^|;)"?[-+]?\d+,\d+(?:[eE][-+]?\d+)?"?(?=;|\s*$)', re.MULTILINE)
_WITH_POINT = re.compile(r"(?:^|;)[-+]?\d*\.\d[^;\n]*", re.MULTILINE)
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:\.\d{3})+(?:,\d+)?\s*$")
"""Numbers between semicolons: with a decimal comma, with a point, and with points between thousands."""
STEP_OF_PLAN = re.compile(r"\s*(\d{1,15})\s*/\s*(\d{1,15})\s*$")
COUNTS_STEPS = re.compile(r"step|iter|update", re.IGNORECASE)


def table_of_text(text: str, notes: list[str]) -> pd.DataFrame:
    r"""Return a text as a table with columns named by texts; `notes` takes what was left out.

    >>> table_of_text("# a run\nstep,loss\n1,2.5\nstep,loss\n2,2.25\n", notes := []).to_dict("list"), notes
    ({'step': [1, 2], 'loss': [2.5, 2.25], 'restarted_here': [nan, 1.0]}, ['1 repeated header left out'])

    Raises
    ------
    ValueError
        When it is not a table.
    """
    body = _without_zeros(text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n"), notes)
    body = without_comments(body).lstrip("\n")
    header, _, rest = body.partition("\n")
    first = next((line for line in rest.split("\n", 3)[:3] if line.strip()), "")
    between = separator(header, first)
    if between == "|":
        body, between = _of_markdown(body), "\t"
        header = body.partition("\n")[0]
    if numbers_only(header, between):
        names = _names_of_bare_columns(body, between)
        if len(names) > 2:
            place = names.index("loss") + 1
            notes.append(
                f"the columns have no names: column 1 is taken as the step, column {place} as the loss"
            )
        body = "\t".join(names).replace("\t", " " if between == BLANKS else between) + "\n" + body
        header = body.partition("\n")[0]
    body = without_unfinished(body, between)
    table = _read(body, header, between, notes)
    return _with_plan(table)


def without_unfinished(text: str, between: str = ",") -> str:
    r"""Return a table without a last line that is unfinished.

    It has no end, and has too few columns, or its last number is shorter than that of every other row, so
    that it may be cut.

    >>> without_unfinished("step,loss\n10,2.5\n1"), without_unfinished("step,loss\n10,2.5")
    ('step,loss\n10,2.5', 'step,loss\n10,2.5')
    >>> without_unfinished("step,loss\n10,2.5123\n20,2.51")
    'step,loss\n10,2.5123'
    """
    rest, end, last = text.rpartition("\n")
    if not (end and last.strip()) or between == BLANKS:
        return text
    header, *rows = rest.split("\n")
    if last.count(between) < header.count(between):
        return rest
    ends = [len(row) - row.rfind(between) for row in rows if row.strip()]
    return rest if ends and len(last) - last.rfind(between) < min(ends) else text


def _names_of_bare_columns(body: str, between: str) -> list[str]:
    """Return the names of columns without a header, a step and a loss, beside which only settings stand."""
    rows = [fields_of(line, between) for line in body.split("\n", 20)[:20] if line.strip()]
    if not are_two_columns(rows[: max(1, len(rows) - 1)]):
        if names := names_beside(body, between):
            return names
        raise ValueError(
            f"its {len(rows[0]):,} columns have no names; write a first line of names, such as step,loss"
        )
    return ["step", "loss"]


def _without_zeros(text: str, notes: list[str]) -> str:
    if "\0" not in text:
        return text
    kept, lines = _ZEROS.subn("", text)
    if lines:
        notes.append(HIT)
    return kept.replace("\0", "")


def _of_markdown(text: str) -> str:
    """Return a table with bars between its columns as one with tabs."""
    lines = [line for line in text.split("\n") if not RULE.match(line)]
    return "\n".join("\t".join(fields_of(line, "|")) for line in lines if "|" in line) + "\n"


def _read(body: str, header: str, between: str, notes: list[str]) -> pd.DataFrame:
    """Return the rows below a header; those that do not fit it are read line by line."""
    rest = body[len(header) + 1 :]
    first = next((line for line in rest.split("\n", 3)[:3] if line.strip()), "")
    fields = fields_of(header, between)
    wider = len(fields_of(first, between)) > len(fields)
    if twice := [name for name, count in Counter(fields).items() if count > 1 and name.strip()]:
        notes.append(f"several columns are called {listed(list(map(repr, twice)))}: the first is read")
    if not wider and f"\n{header}\n" not in body:
        try:
            table = _parsed(body, between)
        except pd.errors.ParserError:
            pass
        else:
            names = chosen(list(table))
            texts = [str(c) for c in names.values() if not pd.api.types.is_numeric_dtype(table[c])]
            if not any((table[c].astype(str).str.strip() == c).any() for c in texts):
                return table
    return _by_line(body, between, notes)


def _parsed(body: str, between: str, **how: Any) -> pd.DataFrame:
    """Return a table with stripped names of columns, and marks where NaN was written."""
    decimal, thousands = _marks_of_numbers(body) if between == ";" else (".", None)
    read: Callable[..., Any] = partial(
        pd.read_csv, sep=between, index_col=False, skipinitialspace=True, **how
    )
    content = body.encode()  # of a text, `StringIO` takes four bytes a character
    table = read(io.BytesIO(content), decimal=decimal, thousands=thousands, low_memory=False)
    names = [str(name).strip().strip("'\"").strip() for name in table]
    counts = Counter(names)
    names = [name if counts[name] == 1 else str(c) for name, c in zip(names, table, strict=True)]
    table = table.set_axis(names, axis=1)
    places = [k for k in range(len(names)) if table.iloc[:, k].isna().any()]
    if not places or not any(word in body for word in _WRITTEN):
        return table
    # pandas reads an empty cell and a written NaN alike: these columns are read again as texts
    texts = read(io.BytesIO(content), usecols=places, dtype=str, na_filter=False)
    for k, (_, column) in zip(places, texts.items(), strict=True):
        lost = column.str.strip().str.lower().isin(_NANS).to_numpy()
        if lost.any():
            table[nan_column(names[k])] = np.where(lost, 1.0, np.nan)
    return table


def _marks_of_numbers(body: str) -> tuple[str, str | None]:
    r"""Return the marks of decimals and of thousands between semicolons, where a comma may be the decimal.

    >>> _marks_of_numbers("step;loss\n10.000;2,4"), _marks_of_numbers("step;loss\n10;2.4")
    ((',', '.'), ('.', None))
    """
    if not _DECIMAL_COMMA.search(body):
        return ".", None
    points = [not _THOUSANDS.match(match[0].lstrip(";")) for match in _WITH_POINT.finditer(body)]
    return (".", None) if any(points) else (",", "." if points else None)


def _by_line(body: str, between: str, notes: list[str]) -> pd.DataFrame:
    """Return the parts of a table below each of its headers, one above the other."""
    parts: list[tuple[list[str], list[str]]] = []
    repeated = 0
    for line in body.split("\n"):
        if not line.strip():
            continue
        fields = fields_of(line, between)
        if not parts or _is_header(fields, parts[-1][0]):
            repeated += bool(parts) and fields == parts[-1][0]
            parts.append((fields, []))
        else:
            parts[-1][1].append(line)
    if repeated:
        notes.append(f"{repeated:,} repeated header{'s' * (repeated != 1)} left out")
    if changed := sum(names != parts[0][0] for names, _ in parts):
        notes.append(f"{changed:,} later header{'s' * (changed != 1)} with other columns")
    tables = [_part(names, rows, between, notes) for names, rows in parts if rows]
    for table in tables[1:]:  # a trainer that begins writes its header
        table.loc[table.index[:1], RESTARTED] = 1.0
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=parts[0][0])


def _is_header(fields: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a line is a header again: names only, at least half of which were there before."""
    if not fields or any(is_number(field) for field in fields):
        return False
    return 2 * len({*fields} & {*names}) >= min(len(fields), len(names))


def _part(names: list[str], rows: list[str], between: str, notes: list[str]) -> pd.DataFrame:
    """Return the rows below one header; a column that was added later without a name gets a number.

    Raises
    ------
    ValueError
        When a single row is longer than the header: it is damaged.
    """
    parted = [fields_of(row, between) for row in rows]
    lengths = Counter(map(len, parted))
    most = max(lengths)
    if most > len(names):
        extra = any(any(row[len(names) :]) for row in parted)  # else every line ends with a separator
        if extra and lengths[most] == len(rows) and most == len(names) + 1 and _counts(parted):
            names = ["", *names]  # the rows are numbered, as R writes them
        elif extra and (lengths[most] == 1 or lengths[most] == len(rows)):
            raise ValueError(f"a row has {most} values below {len(names):,} names")
        elif extra:
            notes.append(f"{lengths[most]:,} rows have {most} values below {len(names):,} names")
    names = [*names, *(f"column {place + 1}" for place in range(len(names), most))]
    return _parsed("\n".join(rows) + "\n", between, header=None, names=_distinct(names))


def _counts(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first field of each row counts the rows."""
    count = np.array([number(row[0]) for row in rows])
    return bool(count[0] in (0, 1) and (np.diff(count) == 1).all())


def _distinct(names: Sequence[str]) -> list[str]:
    """Return names with a number after those that are there already; one that is empty is unnamed."""
    count: Counter[str] = Counter()
    distinct = []
    for place, name in enumerate(names):
        name = name or f"Unnamed: {place}"
        distinct.append(f"{name}.{count[name]}" if count[name] else name)
        count[name] += 1
    return distinct


def _with_plan(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose columns of steps as `8270/11043` are a step and a plan."""
    texts = [str(c) for c in table if not pd.api.types.is_numeric_dtype(table[c])]
    for name in filter(COUNTS_STEPS.search, texts):
        values = table[name].dropna().astype(str)
        if len(values) and values.str.match(STEP_OF_PLAN).all():
            parted = table[name].astype("string").str.extract(STEP_OF_PLAN).astype(float)
            table = table.assign(**{name: parted[0], PLANNED: parted[1]})
    return table
