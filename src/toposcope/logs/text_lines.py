"""The lines of a text as a dialect reads them: of one rank, with plain numbers, without one that is cut.

Launchers put the rank before each line (`[rank2]:`, `[default3]:`, `2: `); lines of other ranks than the
first are left out. `tensor(2.41, device='cuda:0')` and `np.float64(2.41)` become 2.41, and a decimal comma
a point.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Blob
from toposcope.logs.lines import lines

_RANK = re.compile(
    r"^\s{0,4}(?:\[(?:default|rank|gpu|worker|proc(?:ess)?)[ _:=-]?(\d{1,5})\]:?"
    r"|(?:rank|gpu|worker)[ _-]?(\d{1,5})\s?[:|]"
    r"|\[\d{1,5},(\d{1,5})\]<std(?:out|err)>:|(\d{1,4}): )\s?",
    re.IGNORECASE,
)
_PLACE = re.compile(r"(?i:step|iter|epoch|batch|update)")
_WRAPPED = re.compile(
    r"(?:\b(?:torch|np|numpy|jnp|jax)\.)?\b(?:tensor|array|float\d{0,3}|bfloat16|Tensor|Array)\(\[?"
    r"([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan|inf))\]?"
    r"(?:, ?[^()]{0,120}(?:\([^()]{0,60}\)[^()]{0,60})?)?\)"
)
_BEFORE_LOSS = r"(?i:(?:loss|xent|cost|nll|entropy)\w{0,12})['\"]?\s{0,8}[:=]?\s{0,8}['\"]?[-+]?"
_LOSS_WITH_COMMA = re.compile(_BEFORE_LOSS + r"(\d{1,12}),(\d{1,12})(?![\d,.]|\.\d)")
_LOSS_WITH_POINT = re.compile(_BEFORE_LOSS + r"\d{1,12}(?:,\d{3})*\.\d")
_COMMA = re.compile(r"(?<![\d.,:])(\d{1,12}),(\d{1,12})(?![\d,]|\.\d)")
_POINTS = re.compile(r"(?<![\d.,])([1-9]\d{0,2}(?:\.\d{3})+)(?![\d.])")
"""A number with points between thousands, as it stands beside decimal commas."""
_LAST_NUMBER = re.compile(r"(\d+)([.,]?)(\d*)$")
_DIGITS = re.compile(r"\d[\d.,]*")
_COMPARED = 50
"""So many lines before the last one say how its numbers are written."""


@dataclass(slots=True)
class TextLines:
    """The lines of a text: `rank` is the one that is read (None: the lines name none), `seen` are all ranks.

    `comma` says that a comma is the decimal mark.
    """

    blob: Blob
    rank: int | None = None
    comma: bool = False
    seen: set[int] = field(default_factory=set)
    missing: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[str]:
        """Yield the lines of the rank; one that the trainer is still writing is left out."""
        self.missing.clear()
        plain = self._plain(lines(self.blob, self.missing))
        return plain if _ends(self.blob) else _without_cut(plain)

    def _plain(self, whole: Iterable[str]) -> Iterator[str]:
        if self.rank is None and not self.comma:
            return (unwrapped(line) if "(" in line else line for line in whole)
        return self._of_rank(whole)

    def _of_rank(self, whole: Iterable[str]) -> Iterator[str]:
        for line in whole:
            if self.rank is not None and (found := _RANK.match(line)):
                rank = _number_of(found)
                self.seen.add(rank)
                if rank != self.rank:
                    continue
                line = line[found.end() :]
            line = unwrapped(line)
            yield _with_points(line) if self.comma and "," in line else line

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out."""
        ranks = f"{len(self.seen):,} ranks write into this log: rank {self.rank} is read"
        return (*self.missing, ranks) if len(self.seen) > 1 else tuple(self.missing)


class Ranks:
    """The ranks that lines of a dialect name."""

    def __init__(self) -> None:
        self._named: Counter[int] = Counter()
        self._bare: Counter[int] = Counter()

    def note(self, found: re.Match[str]) -> None:
        """Count the rank of a line that has a loss."""
        (self._named if found[4] is None else self._bare)[_number_of(found)] += 1

    @property
    def first(self) -> int | None:
        """The rank to read, the lowest; a bare number is a rank if lines of the same number come again."""
        if not self._named and self._bare and min(self._bare.values()) < 2:
            return None
        return min(self._named or self._bare, default=None)


def unranked(line: str) -> tuple[str, re.Match[str] | None]:
    """Return a line without the rank before it, and where that stands.

    >>> unranked("[rank2]:step: 10")[0], unranked("3: step 10 loss 2.5")[0], unranked("3: loss 2.5")[0]
    ('step: 10', 'step 10 loss 2.5', '3: loss 2.5')
    """
    found = _RANK.match(line)
    if found is None or (found[4] is not None and not _PLACE.search(line[:4096])):
        return line, None
    return line[found.end() :], found


def unwrapped(line: str) -> str:
    """Return a line whose numbers stand alone.

    >>> unwrapped("loss tensor(2.41, device='cuda:0', grad_fn=<NllLossBackward0>) lr np.float64(1e-3)")
    'loss 2.41 lr 1e-3'
    """
    if "(" in line and ("tensor(" in line or "array(" in line or "np." in line or "numpy." in line):
        return _WRAPPED.sub(r"\1", line)
    return line


def _number_of(found: re.Match[str]) -> int:
    return int(next(group for group in found.groups() if group is not None))


def has_comma(line: str) -> bool:
    """Return whether a loss has a comma in it: `loss 4,3094`."""
    return "," in line and _LOSS_WITH_COMMA.search(line[:4096]) is not None


def comma_is_decimal(blob: Blob) -> bool:
    """Return whether the comma in the losses of a text is the decimal mark, by all its losses.

    Raises
    ------
    SourceError
        When 2,508 may be either.
    """
    ambiguous = ""
    for line in lines(blob):
        if "," in line and (found := _LOSS_WITH_COMMA.search(line[:4096])):
            if len(found[2]) != 3 or found[1].startswith("0") or len(found[1]) > 3:
                return True
            ambiguous = ambiguous or f"{found[1]},{found[2]}"
        if _LOSS_WITH_POINT.search(line[:4096]):
            return False
    if not ambiguous:
        return False
    plain = ambiguous.replace(",", "")
    raise SourceError(
        f"{blob.label}: the loss {ambiguous!r} may be {ambiguous.replace(',', '.')} or {plain}",
        remedy=f"write it as {ambiguous.replace(',', '.')} or as {plain}, for example by "
        f"sed -E 's/([0-9]),([0-9]{{3}})/\\1.\\2/g' for the former",
    )


def _with_points(line: str) -> str:
    """Return a line with a decimal point in its numbers, where the comma is the decimal mark.

    >>> _with_points("step 10,000 loss 4,309 lr 0,0005"), _with_points("step 10.000 loss 2,4")
    ('step 10,000 loss 4.309 lr 0.0005', 'step 10000 loss 2.4')
    """
    line = _POINTS.sub(lambda found: found[1].replace(".", ""), line)
    for loss in _LOSS_WITH_COMMA.finditer(line):
        line = f"{line[: loss.end(1)]}.{line[loss.start(2) :]}"
    return _COMMA.sub(_point, line)


def _point(found: re.Match[str]) -> str:
    thousands = len(found[2]) == 3 and len(found[1]) <= 3 and not found[1].startswith("0")
    return found[0] if thousands else f"{found[1]}.{found[2]}"


def _ends(blob: Blob) -> bool:
    """Return whether the last line of a text has an end; a packed one counts as ended."""
    head = blob.read(0, min(2, blob.size)).tobytes()
    last = blob.read(max(blob.size - 2, 0), blob.size).tobytes()
    return head == b"\x1f\x8b" or b"\n" in last or b"\r" in last


def _without_cut(whole: Iterable[str]) -> Iterator[str]:
    """Yield lines without the last one, if it is cut within a number: earlier ones have more decimals."""
    before: deque[str] = deque(maxlen=_COMPARED)
    last: str | None = None
    for line in whole:
        if last is not None:
            before.append(last)
            yield last
        last = line
    if last is not None and not _is_cut(last, before):
        yield last


def _is_cut(last: str, before: Iterable[str]) -> bool:
    """Return whether a line ends within a number.

    >>> _is_cut("step 30 loss 2", ["step 10 loss 2.53", "step 20 loss 2.51"])
    True
    >>> _is_cut("step 30 loss 2.50", ["step 10 loss 2.53"]), _is_cut("step 30", ["step 10", "step 20"])
    (False, False)
    """
    if len(last) > 4096 or not (found := _LAST_NUMBER.search(last)):
        return False
    shape = _DIGITS.sub("0", last[: found.start()])
    decimals = []
    for line in before:
        texts = _DIGITS.split(line[:4096])
        count = shape.count("0") if shape else 0
        numbers = _DIGITS.findall(line[:4096])
        if len(numbers) > count and _DIGITS.sub("0", line[:4096]).startswith(f"{shape}0") and texts:
            decimals.append(len(numbers[count].rstrip(".,").partition(".")[2]))
    return bool(decimals) and len(found[3]) < min(decimals)
