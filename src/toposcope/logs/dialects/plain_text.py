"""Lines of any loop: `step 100 | loss 2.31`, `Epoch [1/3], Step [10/200], Loss: 4.3`, `[Val] loss=3.2`.

What a number means is said by the words beside it and by the tag before it (`dialects.phrases`). A loss
without a step in its line belongs to the step or the epoch that an earlier line named (`logs.places`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from toposcope.logs.dialects._keras_bars import whole_bars
from toposcope.logs.dialects.pairs import LONG_NUMBER as NUMBER
from toposcope.logs.dialects.phrases import (
    EPOCH,
    GLOBAL,
    LOSS,
    LOSS_PARTS,
    OTHER,
    PART,
    PLACE,
    STEP,
    Phrase,
    phrase,
)
from toposcope.logs.records import HEADING, HELD, LEADING, NOT_A_NUMBER, OF, PLACED, ROUNDED, number

if TYPE_CHECKING:
    from toposcope.logs.dialects._shapes import LineNumbers

_LONGEST = 4096
"""Only these first characters of a line are read, so a hostile line takes no longer than a real one."""
_WORD = r"[A-Za-z_][\w/.|@-]{0,60}"
_NAME = rf"{_WORD}(?:[ ][A-Za-z(][\w/.)-]{{0,40}}){{0,3}}(?:\((?:train|val|test|eval)\))?"
_GLUED = r"(?i:epoch|step|iter(?:ation)?|batch)[-_]?(?=\d)"
_PAIR = re.compile(
    rf"(?<![\w/.-])(?:(?P<glued>{_GLUED})|(?P<name>{_NAME})"
    rf"(?P<between>['\"]?\s{{0,12}}[:=]\s{{0,12}}['\"]?"
    rf"|,?\s{{1,12}}|(?=[\[(])))"
    rf"[\[(]?\s{{0,6}}(?P<number>{NUMBER})(?:(?<=\d)(?:st|nd|rd|th)\b)?(?P<unit>ms|s|%|[kKMB])?(?!\w|\.\d|:\d)"
    rf"(?P<time>\s?(?:sec(?:ond)?|min(?:ute)?|hour|hr)s?\b)?"
    rf"(?:\s{{0,6}}(?:/|of)\s{{0,6}}(?P<of>\d[\d,_]{{0,20}}[kKMB]?)(?![\w.])"
    rf"|\s\((?P<mean>(?![-+]){NUMBER})\))?"  # a number with a sign is a change
)
_NEXT = re.compile(r"[\])]?\s{0,3}[|,:-]?\s{0,3}[\[(]?\s{0,6}(\d{1,15})\s{0,3}/\s{0,3}(\d{1,15})(?![\w.])")
"""The place within an epoch, right after its number: `Epoch: 1 [640/60000`, `epoch 1 | 200/2983 batches`."""
_LEADS = re.compile(
    r"^\s{0,8}[\[(]?\s{0,4}(\d{1,12})(?:/(\d{1,12}))?(?:\s{0,3}(?:[|\]),]|:(?!\d))|\s{1,3}(?=[A-Za-z|]))"
)
_BRACKETS = re.compile(r"^\s{0,8}\[\s{0,4}(\d{1,9})\s{0,3},\s{0,6}(\d{1,12})\]")
"""An epoch and a place within it: `[1,  2000] loss: 2.3`, as in PyTorch's tutorial."""
_TAG = re.compile(
    r"(?<![\w./-])(?i:(train(?:ing)?)|val(?:id(?:ation)?)?|dev|eval(?:uati(?:on|ng))?|test(?:ing)?|held-?out"
    r"|(?-i:CV)(?=\]|\s(?:[Bb]atch|[Ll]oss)\b))"
    r"(?![\w/-]|\.\w)"
)
_TITLE = 120
"""A title of lines has so many characters at most."""
_RULE = re.compile(r"^\s*$|.*(?i:epoch|step|train)")
"""A line that ends what a title says: a blank one, or one of training."""
_SAVED = "Saving dict for global step"
"""TensorFlow's words before the losses of an evaluation."""
_COUNTERS = frozenset("ij")
"""Names of a loop's variable: `i=3/530` is a place."""
_SMALL = re.compile(r"[eE]-")
"""A number with a negative exponent is no place: `Update: 5.9e-04 mean`."""
_SCALES = {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9}
_SECONDS = {"ms": 1e-3, "s": 1.0}
_TIMES = frozenset(["train_time", "time", "elapsed"])
_PLACES = frozenset([GLOBAL, STEP, PLACE, EPOCH])
_WORDS = (
    *LOSS_PARTS,
    "bpb",
    "bpc",
    "poc",
    "poch",
    "POCH",
    "tep",
    "STEP",
    "ter",
    "ITER",
    "atch",
    "BATCH",
    "pdate",
    "ound ",
    "ROUND",
)


def records(lines: Iterable[str]) -> Iterator[dict[str, float]]:
    """Yield the numbers of each line with a loss, and where the line or an earlier one says that it is."""
    from toposcope.logs.dialects._shapes import LineShapes
    from toposcope.logs.dialects.sentences import separate
    from toposcope.logs.evaluations import ANNOUNCED, EVALUATION, PHASE

    shapes = LineShapes(_read)
    heading: dict[str, float] = {}
    title = ""
    opened = False  # whether a line has begun with a quantity of training: `train acc: 50%, loss: 1.4`
    announced = evaluates = wrapped = False
    before: dict[str, float] = {}
    for line in separate(whole_bars(lines)):
        read = shapes.read(line, title)
        goes_on, wrapped = wrapped, False
        if read.silent:
            title = read.title
            announced = announced or read.announces
            continue
        if title and read.places:
            read = shapes.read(line)
        if read.opening:
            opened = opened or read.opening == "train"
            if opened and read.opening != "train" and read.bare:
                read = shapes.read(line, read.opening)
        title = title if not read.places and (read.held or read.trained) else read.title
        if not (read.trained or read.held):
            heading = _headed(heading, read.places) if read.places else heading
            announced = announced or read.announces
            evaluates = read.phase == EVALUATION if read.phase else evaluates
            continue
        marks = {} if read.trained else {HELD: 1.0}
        if read.lost:
            marks[NOT_A_NUMBER] = 1.0
        if announced and read.trained:
            marks[ANNOUNCED] = 1.0
        announced = False
        places = read.places or read.leading
        if len(places) == 1 and PLACED + PLACE in places:  # `[500/900] loss 2.5 | batch 16`
            places = {**read.leading, **places}
        if evaluates and read.trained:
            evaluates = PLACED + EPOCH not in places
            marks |= {PHASE: 1.0} if evaluates else {}
        wrapped = read.trained
        if goes_on and wrapped and not places and line[:1].isspace() and _completes(read.said, before):
            before |= {**read.said, **marks}
            continue
        if before:
            yield before
        before = {**heading, **read.said, **places, **marks}
    if before:
        yield before


def _completes(values: Mapping[str, float], before: Mapping[str, float]) -> bool:
    """Return whether a line goes on with the record before it: only its end names the total of the parts.

    >>> _completes({"loss": 2.0}, {"loss_cls": 1.0}), _completes({"loss": 2.0}, {"loss": 1.0})
    (True, False)
    """
    return before.keys().isdisjoint(values) and any(0 < phrase(name).order < PART for name in values)


def line_numbers(line: str) -> Mapping[str, float]:
    """Return the numbers that one line says, by name.

    >>> line_numbers("Epoch 3/9, Train Loss: 2.5, acc: 0.5")
    {'Train Loss': 2.5, 'acc': 0.5}
    """
    return _read(line, "").said


def _read(line: str, title: str) -> LineNumbers:
    """Return what a line below a title says; for `shapes`, no rule may ask which digits a number has."""
    from toposcope.logs.dialects._shapes import LineNumbers
    from toposcope.logs.dialects.sentences import in_pairs, is_foreign
    from toposcope.logs.evaluations import announces, phase_of

    if not any(word in line for word in _WORDS) and not is_foreign(line[:_LONGEST]):
        return LineNumbers({}, {}, {}, title=_titled(line, title), announces=announces(line), silent=True)
    line = in_pairs(line[:_LONGEST])
    read, begin = _TextLine(line, title), _TextLine("")
    if match := _BRACKETS.match(line):
        begin.place(EPOCH, match[1], None, None)
        begin.place(PLACE, match[2], None, None)
    elif match := _LEADS.match(line):
        begin.place(LEADING, match[1], None, match[2])
    return LineNumbers(
        read.said, read.places, begin.places, read.trained, read.held, read.lost, read.bare, read.opening,
        _titled(line, ""), announces(line), phase=phase_of(line),
    )  # fmt: skip


def _titled(line: str, before: str) -> str:
    """Return the tag of lines below a title: a line such as `Evaluation Results:`, which has no number.

    >>> _titled("  Evaluation Results:", ""), _titled("Tokens: 12", "eval"), _titled("Validating...", "")
    ('Evaluation', 'eval', '')
    >>> _titled("--> EVAL PERFORMANCE", "")
    'EVAL'
    """
    text = line.rstrip()
    if text.isupper() and len(text) <= _TITLE and not any(letter.isdigit() for letter in text):
        match = _TAG.search(text)
        return match[0] if match else "" if not before or _RULE.match(text) else before
    if not text.endswith(":") or len(text) > _TITLE:
        return "" if not before or _RULE.match(text) else before
    match = _TAG.search(text)
    return match[0] if match and not any(letter.isdigit() for letter in text.split()[-1]) else ""


def _headed(heading: dict[str, float], places: Mapping[str, float]) -> dict[str, float]:
    """Return where the lines stand that follow one which names a place; a new epoch has no step yet."""
    named = {HEADING + name: value for name, value in places.items()}
    if HEADING + PLACED + EPOCH in named and len(places) <= 2:
        return named
    return {**heading, **named}


class _TextLine:
    """What a line says: numbers by name, the places that it names, and whether it has losses."""

    def __init__(self, line: str, title: str = "") -> None:
        self.said: dict[str, float] = {}
        self.places: dict[str, float] = {}
        self.trained = self.held = self.lost = self.bare = False
        self.opening = ""
        self._line, self._tag = line, "eval" if _SAVED in line else title
        self._tagged = bool(self._tag) or _TAG.search(line) is not None
        end = 0
        for match in _PAIR.finditer(line):
            if self._tagged:
                self._look(line[end : match.start()])
                end = match.end()
            self._add(match)

    def place(self, kind: str, digits: str, unit: str | None, of: str | None) -> None:
        """Note a place in training, and how many there are of it; the first of a kind counts."""
        value, name = _scaled(digits, unit), PLACED + kind
        if value >= 0 and name not in self.places:
            self.places[name] = value
            if unit in _SCALES and kind in (STEP, GLOBAL):
                self.places[ROUNDED] = _SCALES[unit] / 10 ** len(digits.partition(".")[2])
            if of:
                self.places[name + OF] = _scaled(of.rstrip("kKMB"), of[-1])

    def _add(self, match: re.Match[str]) -> None:
        """Note one number by the words beside it."""
        text = match["glued"] or match["name"]
        meant = phrase(text.rstrip("-_"))
        if match["between"] and match["between"][0] == "," and meant.kind != LOSS:
            return
        if text in _COUNTERS and match["of"]:
            meant = replace(meant, kind=PLACE)
        if meant.kind in _PLACES and _SMALL.search(match["number"]):
            self.said.setdefault(meant.name, number(match["number"]))
        elif meant.kind in _PLACES:
            self._look(text)
            self.place(meant.kind, match["number"], match["unit"], match["of"])
            if meant.kind == EPOCH and (place := _NEXT.match(self._line, match.end())):
                self.place(PLACE, place[1], None, place[2])
        elif self._tagged and _TAG.fullmatch(text) and self._stands(match):
            self._tag = text
        elif meant.kind in (LOSS, OTHER) and (match["time"] or match["unit"] in _SECONDS):
            self._quantity(replace(meant, kind=OTHER), match)  # `Cost: 715.7 sec` is no loss
        elif meant.kind == LOSS or (meant.kind == OTHER and match["unit"] not in _SCALES):
            self._quantity(meant, match)

    def _stands(self, match: re.Match[str]) -> bool:
        """Return whether a number after "Train" or "Test" says where the line stands, and note that.

        timm prints an epoch and a place, `Train: 0 [  10/1000 ...`; others a place alone, `Test: [10/100]`.
        """
        if not match["number"].isdigit():
            return False
        if place := _NEXT.match(self._line, match.end()):
            self.place(EPOCH, match["number"], None, match["of"])
            self.place(PLACE, place[1], None, place[2])
        elif match["of"]:
            self.place(PLACE, match["number"], None, match["of"])
        return bool(place or match["of"])

    def _quantity(self, meant: Phrase, match: re.Match[str]) -> None:
        """Note a loss or another quantity; under a tag that says so, it is held out."""
        name, value = meant.name, number(match["number"])
        if not self.said and not self._tag and meant.kind == OTHER and (meant.held_out or meant.trained):
            self.opening = "train" if meant.trained else "eval"
        self.bare = self.bare or (meant.kind == LOSS and not (meant.held_out or meant.trained))
        outside = bool(self._tag) and not self._tag.lower().startswith("train")
        held = meant.held_out or (outside and not meant.trained)
        if held and not meant.held_out:
            name = f"{self._tag} {name}"
        if meant.kind == LOSS:
            if held and match["mean"]:
                value = number(match["mean"])  # of all batches of the evaluation, not of the last one
            self.held, self.trained = self.held or held, self.trained or not held
            self.lost = self.lost or (value != value and not held)
        elif name in _TIMES and match["unit"] in _SECONDS:
            name, value = "seconds", value * _SECONDS[match["unit"]]
        self.said.setdefault(name, value)

    def _look(self, text: str) -> None:
        """Take the last word of a text that says train or held out as the tag of what follows."""
        if self._tagged:
            for match in _TAG.finditer(text):
                self._tag = match[0]


def _scaled(digits: str, unit: str | None) -> float:
    value = number(digits.replace("_", "") if "_" in digits else digits)
    return value * _SCALES[unit] if unit in _SCALES else value
