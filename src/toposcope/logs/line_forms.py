"""Texts that no rule of words reads: lines of one form are records, and their numbers are told by behaviour.

Two lines have one form if the words before their numbers are the same. A form that comes again is a record
form. Its loss stands after a word for a loss. Its step is the whole number after a word for a place, or else
the one that never falls and rises by regular amounts. Where no number is a step, the records are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from toposcope.files.blobs import Blob
from toposcope.logs.dialects.phrases import EPOCH, GLOBAL, HELD_OUT, LOSS, PART, PLACE, STEP, TRAINED, phrase
from toposcope.logs.dialects.sentences import in_pairs
from toposcope.logs.places import placed
from toposcope.logs.records import HELD, NOT_A_NUMBER, OF, PLACED, collected, number
from toposcope.logs.run import Run
from toposcope.logs.text_lines import TextLines

NAME = "lines of one form"
COUNTED = "no number of the log is a step: the records with a loss are counted"
_LONGEST = 1024
_MOST_NUMBERS = 48
_MOST_FORMS = 4096
_LEAST = 2
"""A form that comes so often is one of records: fewer lines are a summary."""
_SURE = 3
"""So many lines say whether a number changes."""
_SUMMARY = frozenset(["best", "lowest", "minimum"])
"""Words of a line that repeats an earlier loss."""
_SCATTERED = 3
"""A step that falls in more than one of so many records is none."""
_REGULAR = 0.5
"""At least this share of the rises of a counter are equal."""
_TIME = re.compile(
    r"\d{4}[-/]\d{1,2}[-/]\d{1,2}[T_ ]?|\b\d{1,2}[-/]\d{1,2}(?=[ T]\d{1,2}:)"
    r"|\b\d{1,3}:\d{2}(?::\d{2})?(?:[.,]\d+)?"
    r"|\b\d+(?:\.\d+)?\s?(?:ms|sec(?:onds?)?|s|min(?:utes?)?|m|h(?:ours?)?|days?)\b|[\d.]+\s?%"
)
_NUMBER = re.compile(
    r"(?<![\d.])[-+]?(?:\d[\d,_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?!\w)|(?<!\w)(?:-?nan|inf)\b", re.IGNORECASE
)
_WORD = re.compile(r"[^\W\d_]+(?:_[^\W\d_]+)*")
_OF = re.compile(r"^\s*[\])]?\s*(?:/|of)\s*[\[(]?\s*$")
_NEAR = 4
"""So many words before a number say what it is."""
_PLACES = (GLOBAL, STEP, PLACE, EPOCH)


@dataclass(frozen=True, slots=True)
class LineForm:
    """The words before each number of a line, and which numbers are the totals of those before them."""

    words: tuple[str, ...]
    totals: tuple[bool, ...]


@dataclass(slots=True)
class Rows:
    """The lines of one form: where they stand, and their numbers."""

    form: LineForm
    at: list[int] = field(default_factory=list)
    values: list[list[float]] = field(default_factory=list)

    def column(self, place: int) -> np.ndarray:
        """Return the numbers at one place of the lines."""
        return np.array([row[place] for row in self.values])


def read_forms(blob: Blob) -> tuple[str, Sequence[Run]] | None:
    """Return the records of a text by the forms of its lines; None if no form that comes again has a loss."""
    run = run_of_forms(TextLines(blob), blob.label)
    return None if run is None else (NAME, [run])


def settled(run: Run, lines: Iterable[str], label: str) -> Run:
    """Return a run as the forms of its lines say, where its step is none and theirs is one."""
    other = run_of_forms(lines, label) if is_scattered(run) else None
    return run if other is None or is_scattered(other) else other


def is_scattered(run: Run) -> bool:
    """Return whether the step of a run is none: it never changes, or falls in over a third of its losses.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({"n": [1, 0, 0, 1, 0, 1, 0], "loss": 2.0})
    >>> is_scattered(Run("", rows, roles={"step": "n", "loss": "loss"}))
    True
    """
    step, loss = run.roles.get("step", ""), run.roles.get("loss", "")
    if step not in run.table or loss not in run.table:
        return False
    rises = np.diff(run.table[step].to_numpy(float)[run.table[loss].notna().to_numpy()])
    if len(rises) < _SCATTERED:
        return False
    return bool(_SCATTERED * (rises < 0).sum() > len(rises) or not rises.any())


def run_of_forms(lines: Iterable[str], label: str) -> Run | None:
    """Return the records of lines by their forms; None if no form that comes again has a loss."""
    forms = [FormMeaning.of(rows) for rows in _forms(lines) if len(rows.at) >= _LEAST]
    records = sorted(
        (record for meant in _agreeing(forms) for record in meant.records()), key=lambda pair: pair[0]
    )
    if not records:
        return None
    own_records = [record for _, record in records]
    notes: tuple[str, ...] = ()
    if not any(
        name.startswith(PLACED) and name not in (HELD, NOT_A_NUMBER)
        for record in own_records
        for name in record
    ):
        trained = 0
        for record in own_records:
            trained += HELD not in record
            record[PLACED + STEP] = float(trained)
        notes = (COUNTED,)
    run = placed(Run("", collected(own_records, label)))
    return replace(run, notes=(*run.notes, *notes)) if "step" in run.table else None


def _forms(lines: Iterable[str]) -> list[Rows]:
    """Return the lines of a text by form."""
    rows_by_form: dict[LineForm, Rows] = {}
    for at, line in enumerate(lines):
        if any(letter.isdigit() for letter in line[:_LONGEST]) and (read := _read(in_pairs(line[:_LONGEST]))):
            form, values = read
            if form in rows_by_form or len(rows_by_form) < _MOST_FORMS:
                rows = rows_by_form.setdefault(form, Rows(form))
                rows.at.append(at)
                rows.values.append(values)
    return list(rows_by_form.values())


def _read(line: str) -> tuple[LineForm, list[float]] | None:
    """Return the form of a line and its numbers."""
    line = _TIME.sub(" ", line)
    words: list[str] = []
    totals: list[bool] = []
    values: list[float] = []
    end = 0
    for match in _NUMBER.finditer(line):
        between = line[end : match.start()]
        words.append(" ".join(_WORD.findall(between)[-_NEAR:]))
        totals.append(bool(values) and _OF.match(between) is not None)
        values.append(number(match[0].replace("_", "")))
        end = match.end()
    if not values or len(values) > _MOST_NUMBERS:
        return None
    return LineForm(tuple(words), tuple(totals)), values


@dataclass(frozen=True, slots=True)
class FormMeaning:
    """What the numbers of a form are: losses by place, name and side, and places in training by kind."""

    rows: Rows
    losses: Sequence[tuple[int, str, bool]]
    places: Mapping[str, int]

    @classmethod
    def of(cls, rows: Rows) -> FormMeaning:
        """Return what the numbers of a form are."""
        losses = [] if _SUMMARY & {*" ".join(rows.form.words).lower().split()} else _losses(rows.form)
        losses = [loss for loss in losses if len({*rows.column(loss[0]).tolist()}) > 1]  # else a setting
        return cls(rows, losses, _places(rows, [place for place, _, _ in losses]) if losses else {})

    @property
    def is_held_out(self) -> bool:
        """Whether all losses of the form are held out."""
        return all(held for _, _, held in self.losses)

    def records(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield where each record stands, and what it says."""
        totals = self.rows.form.totals
        for at, values in zip(self.rows.at, self.rows.values, strict=True):
            record: dict[str, float] = {}
            for kind, place in self.places.items():
                record[PLACED + kind] = values[place]
                if place + 1 < len(values) and totals[place + 1]:
                    record[PLACED + kind + OF] = values[place + 1]
            for place, name, held in self.losses:
                record.setdefault(name, values[place])
                if values[place] != values[place] and not held:
                    record[NOT_A_NUMBER] = 1.0
            yield at, {**record, HELD: 1.0} if self.is_held_out else record


def _agreeing(forms: Sequence[FormMeaning]) -> Iterator[FormMeaning]:
    """Yield the forms of records: of training, the most frequent one and those with the same places."""
    trained = [meant for meant in forms if meant.losses and not meant.is_held_out]
    main = max(trained, key=lambda meant: (bool(meant.places), len(meant.rows.at)), default=None)
    for meant in forms:
        if meant.losses and (main is None or meant.is_held_out or {*meant.places} == {*main.places}):
            yield meant


def _losses(form: LineForm) -> list[tuple[int, str, bool]]:
    """Return the places of the losses of a form, their names, and whether they are held out."""
    losses: list[tuple[int, str, int, bool]] = []
    held = False
    for place, text in enumerate(form.words):
        for word in text.lower().replace("_", " ").split():
            held = word in HELD_OUT or (held and word not in TRAINED)
        meant = phrase(text) if text else None
        if meant is not None and meant.kind == LOSS and not form.totals[place]:
            losses.append((place, text, meant.order, held or meant.held_out))
    best: list[tuple[int, str, bool]] = []
    for side in (False, True):
        of_side = [loss for loss in losses if loss[3] == side]
        whole = [loss for loss in of_side if loss[2] < PART]
        if len(whole) != 1 and len(of_side) > 1:
            best += [(place, f"eval {text}" if side else text, side) for place, text, _, _ in of_side]
        elif of_side:
            place = (whole or of_side)[0][0]
            best.append((place, "eval loss" if side else "loss", side))
    return best


def _places(rows: Rows, losses: Sequence[int]) -> dict[str, int]:
    """Return which numbers of a form say where its records stand: by their words, or else by behaviour."""
    form, places_by_kind = rows.form, dict[str, int]()
    free = [k for k in range(len(form.words)) if k not in losses and not form.totals[k]]
    if len(rows.at) >= _SURE:  # beside a number that changes, `batch 16` is no place
        free = [k for k in free if np.ptp(rows.column(k)) > 0 or phrase(form.words[k]).kind == EPOCH]
    for place in free:
        kind = phrase(form.words[place]).kind if form.words[place] else ""
        if kind in _PLACES and kind not in places_by_kind and _is_whole(rows.column(place)):
            places_by_kind[kind] = place
        elif (
            not form.words[place]
            and place
            and place - 1 == places_by_kind.get(EPOCH)
            and PLACE not in places_by_kind
        ):
            places_by_kind[PLACE] = place  # `Epoch: [1][900/1047]`
    if places_by_kind:
        return places_by_kind
    counters = [place for place in free if _counts(rows.column(place))]
    return {STEP: counters[0]} if counters else {}


def _is_whole(values: np.ndarray) -> bool:
    """Return whether numbers are whole and fall in less than a third of the lines, as places do."""
    falls = np.count_nonzero(np.diff(values) < 0)
    whole = np.isfinite(values).all() and (values == np.floor(values)).all() and (values >= 0).all()
    return bool(whole and _SURE * falls <= len(values))


def _counts(values: np.ndarray) -> bool:
    """Return whether numbers count: they are whole, never fall, and rise by regular amounts.

    >>> _counts(np.array([10, 20, 30, 40.0])), _counts(np.array([5, 9, 7.0])), _counts(np.array([64, 64.0]))
    (True, False, False)
    """
    rises = np.diff(values)
    if not _is_whole(values) or (rises < 0).any() or not (rises > 0).any():
        return False
    _, counts = np.unique(rises[rises > 0], return_counts=True)
    return bool(counts.max() >= _REGULAR * counts.sum())
