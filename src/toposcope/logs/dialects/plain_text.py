"""Lines of any loop: `step 100 | loss 2.31`, `Epoch [1/3], Step [10/200], Loss: 4.3`, `[Val] loss=3.2`.

What a number means is said by the words beside it and by the tag before it (`dialects.phrases`). A loss
without a step in its line belongs to the step or the epoch that an earlier line named (`logs.places`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from toposcope.logs.dialects.dialect import TextDialect
from toposcope.logs.dialects.phrases import EPOCH, GLOBAL, LOSS, OTHER, PLACE, STEP, phrase
from toposcope.logs.places import HEADING, HELD, LEADING, NOT_A_NUMBER, OF, PLACED, placed
from toposcope.logs.records import number

NUMBER = r"[-+]?(?:\d[\d,_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|NaN|NAN|inf|Infinity)"
_LONGEST = 4096
"""Only these first characters of a line are read, so a hostile line takes no longer than a real one."""
_WORD = r"[A-Za-z_][\w/.|@-]{0,60}"
_NAME = rf"{_WORD}(?:[ ][A-Za-z(][\w/.)-]{{0,40}}){{0,3}}(?:\((?:train|val|test|eval)\))?"
_GLUED = r"(?i:epoch|step|iter(?:ation)?|batch)[-_]?(?=\d)"
_PAIR = re.compile(
    rf"(?<![\w/.-])(?:(?P<glued>{_GLUED})|(?P<name>{_NAME})(?P<between>['\"]?\s{{0,12}}[:=]\s{{0,12}}['\"]?"
    rf"|,?\s{{1,12}}|(?=[\[(])))"
    rf"[\[(]?\s{{0,6}}(?P<number>{NUMBER})(?P<unit>ms|s|%|[kKMB])?(?!\w|\.\d|:\d)"
    rf"(?:\s{{0,6}}(?:/|of)\s{{0,6}}(?P<of>\d[\d,_]{{0,20}}[kKMB]?)(?![\w.])|\s\((?P<mean>{NUMBER})\))?"
)
_NEXT = re.compile(r"[\])]?\s{0,3}[|,:-]?\s{0,3}[\[(]?\s{0,6}(\d{1,15})\s{0,3}/\s{0,3}(\d{1,15})(?![\w.])")
"""The place within an epoch, right after its number: `Epoch: 1 [640/60000`, `| epoch 1 | 200/2983 batches`."""
_LEADS = re.compile(r"^\s{0,8}[\[(]?\s{0,4}(\d{1,12})(?:\s{0,3}(?:[|\]),]|:(?!\d))|\s{1,3}(?=[A-Za-z|]))")
_TAG = re.compile(
    r"(?<![\w./-])(?i:(train(?:ing)?)|val(?:id(?:ation)?)?|dev|eval(?:uati(?:on|ng))?|test(?:ing)?|held-?out)"
    r"(?![\w/-]|\.\w)"
)
_SAVED = "Saving dict for global step"
"""TensorFlow's words before the losses of an evaluation."""
_SCALES = {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9}
_SECONDS = {"ms": 1e-3, "s": 1.0}
_TIMES = frozenset(["train_time", "time", "elapsed"])
_PLACES = frozenset([GLOBAL, STEP, PLACE, EPOCH])
_LOSSES = ("oss", "OSS", "xent", "ost", "COST", "ntropy", "nll", "NLL", " ce", "CE")
_NAMES_PLACE = ("poch", "POCH", "tep", "STEP", "ter", "ITER", "atch", "BATCH", "pdate")


def records(lines: Iterable[str]) -> Iterator[dict[str, float]]:
    """Yield the numbers of each line with a loss, and where the line or an earlier one says that it is."""
    heading: dict[str, float] = {}
    for line in lines:
        if any(word in line for word in _LOSSES):
            said, places, losses = _read(line[:_LONGEST])
        elif any(word in line for word in _NAMES_PLACE):
            said, places, losses = _read(line[:_LONGEST])
        else:
            continue
        if not losses:
            if places:
                heading = _headed(heading, places)
            continue
        if not (places.keys() - {NOT_A_NUMBER}) and (found := _LEADS.match(line)):
            places[PLACED + LEADING] = float(found[1])
        if losses == HELD:
            places[HELD] = 1.0
        yield {**heading, **said, **places}


def _headed(heading: dict[str, float], places: dict[str, float]) -> dict[str, float]:
    """Return where the lines stand that follow one which names a place; a new epoch has no step yet."""
    named = {HEADING + name: value for name, value in places.items()}
    if HEADING + PLACED + EPOCH in named and len(places) <= 2:
        return named
    return {**heading, **named}


def _read(line: str) -> tuple[dict[str, float], dict[str, float], str]:
    """Return the numbers of a line by name, the places that it names, and which losses it has."""
    said: dict[str, float] = {}
    places: dict[str, float] = {}
    losses, tag, end = "", "", 0
    tagged = _TAG.search(line) is not None
    saved = _SAVED in line
    for found in _PAIR.finditer(line):
        glued, text, between, digits, unit, of, mean = found.groups()
        meant = phrase(glued.rstrip("-_") if glued else text)
        kind = meant.kind
        if between and between[0] == "," and kind != LOSS:
            continue
        if tagged:
            tag = _tag_of(line[end : found.start()], tag)
            end = found.end()
        if kind in _PLACES:
            if tagged and not glued:
                tag = _tag_of(text, tag)
            _place(places, kind, digits, unit, of)
            if kind == EPOCH and (place := _NEXT.match(line, found.end())):
                _place(places, PLACE, place[1], None, place[2])
        elif tagged and digits.isdigit() and _TAG.fullmatch(text) and _tagged(places, line, found):
            tag = text
        elif kind in (LOSS, OTHER) and unit not in _SCALES or kind == LOSS:
            outside = saved or bool(tag) and not tag.lower().startswith("train")
            held = meant.held_out or (outside and not meant.trained)
            name, value = meant.name, number(digits)
            if held and not meant.held_out:
                name = f"{tag or 'eval'} {name}"
            if kind == LOSS:
                if value != value and not held:
                    places[NOT_A_NUMBER] = 1.0
                losses = losses if losses and (held or losses != HELD) else HELD if held else LOSS
                value = number(mean) if held and mean else value
            elif name in _TIMES and unit in _SECONDS:
                name, value = "seconds", value * _SECONDS[unit]
            said.setdefault(name, value)
    return said, places, losses


def _tagged(places: dict[str, float], line: str, found: re.Match[str]) -> bool:
    """Return whether a number after "Train" or "Test" says where the line stands, and note that.

    timm prints an epoch and a place, `Train: 0 [  10/1000 ...`; others a place alone, `Test: [10/100]`.
    """
    if place := _NEXT.match(line, found.end()):
        _place(places, EPOCH, found["number"], None, found["of"])
        _place(places, PLACE, place[1], None, place[2])
    elif found["of"]:
        _place(places, PLACE, found["number"], None, found["of"])
    return bool(place or found["of"])


def _tag_of(text: str, before: str) -> str:
    """Return the last word of a text that says train or held out; else the one before."""
    last = before
    for found in _TAG.finditer(text):
        last = found[0]
    return last


def _place(places: dict[str, float], kind: str, digits: str, unit: str | None, of: str | None) -> None:
    value = _scaled(digits, unit)
    if value >= 0 and PLACED + kind not in places:
        places[PLACED + kind] = value
        if of:
            places[PLACED + kind + OF] = _scaled(of.rstrip("kKMB"), of[-1])


def _scaled(digits: str, unit: str | None) -> float:
    return number(digits.replace("_", "")) * _SCALES.get(unit or "", 1.0)


DIALECT = TextDialect(
    "text",
    _LOSSES,
    re.compile(
        rf"(?i:loss|xent|cross[- _]?entropy|\bnll\b|\bcost\b|\bce\b)[\w/.-]{{0,30}}['\"]?\s{{0,12}}"
        rf"(?:[:=,]\s{{0,12}})?['\"]?(?:{NUMBER})"
    ),
    records,
    placed,
    general=True,
)
