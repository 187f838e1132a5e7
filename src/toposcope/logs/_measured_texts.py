"""Texts in which no line has a loss by name: measures, rows under names or without, two networks' losses.

Their lines are written with "loss" in the place of the measure's name, and read as any others. This module is
loaded when nothing else has read a text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pandas as pd

from toposcope.files.blobs import Blob
from toposcope.logs.dialects.dialect import TextDialect
from toposcope.logs.dialects.table_head import fields_of, numbers_only, separator, without_comments
from toposcope.logs.dialects.tables import CSV, csv_runs
from toposcope.logs.inputs import MemoryBlob
from toposcope.logs.lines import head_of, lines, text_of
from toposcope.logs.meanings import chosen
from toposcope.logs.measures import SUM, losses_of_measures, measure, notes_of, parts_among, words_of
from toposcope.logs.records import PLANNED, number
from toposcope.logs.run import Run, nan_column

_TIMES = frozenset(["time", "data", "sec", "seconds", "eta", "elapsed", "ms", "s"])
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|NaN|inf"
_PAIR = re.compile(
    rf"(?<![\w/.'-])(?P<name>(?:[A-Za-z][\w/.'-]{{0,30}} )?[A-Za-z][\w/.'-]{{0,40}}?)"
    rf"(?P<between>\s?[:=]\s{{0,8}}|\s{{1,6}})(?P<number>{_NUMBER})(?![\w.]|:\d|\s?(?:ms|s|sec|%)\b)"
)
_CUDA_CONVNET = re.compile(r"^(\d{1,9})\.(\d{1,9})\.\.\.\s")
_DARKNET = re.compile(rf"^\s{{0,4}}(\d{{1,12}}): ({_NUMBER}), (?:{_NUMBER}) avg,")
_DARTS = re.compile(r"\b(?:train (?P<batch>\d{3,9})|(?:valid|test) \d{3,9}) (?=\d\.\d{3,12}e[-+]\d\d )")
"""A batch and its loss: `train 050 2.107612e+00 20.649511 71.844368`."""
_RULED = re.compile(r"^[=*#-]{3,200} ?([A-Za-z][A-Za-z ]{2,40}[A-Za-z]) ?[=*#-]{3,200}$")
"""A title between rules: `======Test output======`."""
_LONGEST, _LOOKED_AT, _LARGEST = 4096, 20_000, 1 << 26
_LEAST_ROWS = 5
_OF = re.compile(r"\d{1,9}/\d{1,9}")

_Read: TypeAlias = tuple[str, Sequence[Run]] | None


def read_measured(
    blob: Blob, read: Callable[[Blob, Sequence[TextDialect]], _Read], dialects: Sequence[TextDialect]
) -> _Read:
    """Return the runs of a text in which measures stand for losses; None if it has none."""
    if blob.size > _LARGEST:
        return None
    if (runs := _table_of_measures(blob)) or (runs := _rows_with_total(blob)):
        return CSV.name, runs
    names = _names_in_lines(lines(blob))
    content = "\n".join(_with_losses(lines(blob), names)) + "\n"
    run_log = read(MemoryBlob(content.encode("utf-8", "replace"), blob.label), dialects)
    if run_log is None:
        return None
    back = {new: old for old, new in names.items()}
    return run_log[0], [_under_own_names(run, back) for run in run_log[1]]


def _table_of_measures(blob: Blob) -> Sequence[Run]:
    """Return the run of a text whose first line names a step and a measure; else nothing."""
    head = without_comments(text_of(head_of(blob)).replace("\r", "\n")).lstrip("\n").split("\n")[:-1]
    between = separator(head[0], head[1]) if len(head) > 1 else ""
    if not between or not numbers_only(head[1], between):
        return ()
    names = fields_of(head[0], between)
    step = chosen(names).get("step", "batch" if "batch" in names else None)
    if step is None or not any(map(measure, names)) or len(names) != len(fields_of(head[1], between)):
        return ()
    return [replace(run, roles={"step": str(step)}) for run in csv_runs(blob)]


def _rows_with_total(blob: Blob) -> Sequence[Run]:
    """Return the run of bare rows `3/99 8.42G .0124 .0017 0 .0141 ...`, as YOLOv5 writes them; else nothing.

    The loss is the first column that is the sum of all those between the memory and itself.
    """
    first = next((line.split() for line in lines(blob) if line.strip()), [])
    rows = [line.split() for line in lines(blob) if line.strip()] if _is_epoch_of_plan(first) else []
    if len(rows) < _LEAST_ROWS or not all(map(_is_epoch_of_plan, rows)) or len({*map(len, rows)}) > 1:
        return ()
    values = np.array([[number(text) for text in row[2:]] for row in rows])
    sums = np.cumsum(values, axis=1)
    total = next((k for k in range(2, values.shape[1]) if _are_near(values[:, k], sums[:, k - 1])), None)
    if total is None:
        return ()
    table = pd.DataFrame({"epoch": [number(row[0].partition("/")[0]) for row in rows]})
    table = table.assign(**{f"column {k + 3}": column for k, column in enumerate(values.T)})
    table[PLANNED] = [number(row[0].partition("/")[2]) for row in rows]
    name = f"column {total + 3}"
    note = f"the columns have no names: {name} is taken as loss, the sum of columns 3 to {total + 2}"
    return [Run("", table, notes=(note,), roles={"step": "epoch", "loss": name})]


def _is_epoch_of_plan(row: Sequence[str]) -> bool:
    return (
        len(row) > 4
        and bool(_OF.fullmatch(row[0]))
        and row[1][-1:] in "GM"
        and number(row[2]) == number(row[2])
    )


def _are_near(values: np.ndarray, sums: np.ndarray) -> bool:
    """Return whether numbers of four digits are sums, and not all zero."""
    return bool(values.any() and np.allclose(values, sums, rtol=2e-3))


def _names_in_lines(whole: Iterable[str]) -> dict[str, str]:
    """Return the names that stand for losses in a text, and the names under which they are read."""
    counts: Counter[str] = Counter()
    beside: Counter[str] = Counter()
    parts: Counter[str] = Counter()
    for _, line in zip(range(_LOOKED_AT), whole, strict=False):
        numbers_by_name = {match["name"]: match["number"] for match in _PAIR.finditer(line[:_LONGEST])}
        parts.update(parts_among(list(numbers_by_name)))
        counted = [name for name, text in numbers_by_name.items() if _counts(name, text, numbers_by_name)]
        counts.update(counted)
        if "learn" in numbers_by_name and "test" in numbers_by_name:
            counts["test"] += 1
        if counted:
            beside.update(name for name in numbers_by_name if name not in counted)
    measures = {name: measured for name in counts if (measured := measure(name))}
    often = {name: measured for name, measured in measures.items() if counts[name] > 1}
    roles = losses_of_measures(often, (name for name in beside if beside[name] > 1 and name != "test"))
    if roles.get("loss") == "learn" and counts["test"]:
        roles["heldout_loss"] = "test"
    new = {"loss": "train loss", "heldout_loss": "val loss"}
    loss_names = {
        name: new[role] if words_of(name)[1:] or name in ("learn", "test") else "loss"
        for role, name in roles.items()
    }
    return loss_names or {name: f"{name} loss" for name in parts if parts[name] > 1}


def _counts(name: str, text: str, names_in_line: Collection[str]) -> bool:
    """Return whether a name with its number is a measure: one with decimals, and no time."""
    measured = measure(name)
    if measured is None or text.startswith("-") or not ("." in text or "e" in text.lower() or "n" in text):
        return False
    return measured.rank != SUM or not any(
        word in _TIMES for other in names_in_line for word in words_of(other)
    )


def _with_losses(whole: Iterable[str], names: Mapping[str, str]) -> Iterator[str]:
    """Yield lines in which losses are called so, and places and titles are written as usual."""
    for line in whole:
        line = _CUDA_CONVNET.sub(r"epoch \1, batch \2, ", line)
        line = _DARKNET.sub(r"step \1, loss: \2,", line)
        line = _DARTS.sub(_batch_and_loss, line)
        line = _RULED.sub(r"\1:", line)
        if names:
            line = _PAIR.sub(lambda match: _renamed(match, names), line[:_LONGEST])
        yield line


def _batch_and_loss(match: re.Match[str]) -> str:
    """Return the words for a batch and its loss; a batch of an evaluation is no place in training."""
    return f"train batch {match['batch']}, train loss: " if match["batch"] else "valid loss: "


def _renamed(match: re.Match[str], names: Mapping[str, str]) -> str:
    new = names.get(match["name"])
    return f"{new}: {match['number']}" if new else match[0]


def _under_own_names(run: Run, back: Mapping[str, str]) -> Run:
    """Return a run whose losses have the names that its text gives them."""
    names_before = {new: old for new, old in back.items() if new in run.table}
    marks = {nan_column(new): nan_column(old) for new, old in names_before.items()}
    roles = {meaning: names_before.get(column, column) for meaning, column in run.roles.items()}
    named = {role: column for role, column in roles.items() if column in names_before.values()}
    table = run.table.rename(columns={**names_before, **marks})
    return replace(run, table=table, roles=roles, notes=(*run.notes, *notes_of(named)))
