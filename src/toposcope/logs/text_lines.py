"""The lines of a text as a dialect reads them: of one rank, with plain numbers, without one that is cut.

Launchers put the rank before each line (`[rank2]:`, `[default3]:`, `2: `), or trainers into it (`rank 2`,
`(2/8)`), and Ray the process (`(pid=71)`); lines of other ranks than the first are left out.
`tensor(2.41, device='cuda:0')` and `np.float64(2.41)` become 2.41, and a decimal comma a point.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from toposcope.files.blobs import Blob
from toposcope.logs.dialects.pairs import LOSS_WITH_COMMA
from toposcope.logs.lines import lines

_RANK = re.compile(
    r"^\s{0,4}(?:\[(?:default|rank|gpu|worker|proc(?:ess)?)[ _:=-]?(\d{1,5})\]:?"
    r"|(?:rank|gpu|worker)[ _-]?(\d{1,5})\s?[:|]"
    r"|(?:\w[\w ,:.-]{0,48}\s)?\[\d{1,5},(\d{1,5})\]<std(?:out|err)>:|(?P<bare>\d{1,4}): "
    r"|\((?:\w[\w.]{0,60} )?pid=(?P<process>\d{1,9})(?:, ip=[\w.:]{2,40})?\))\s?",
    re.IGNORECASE,
)
_INSIDE = re.compile(
    r"(?<=\] )\((\d{1,4})/\d{1,4}\) |(?<![\w.])(?i:rank)[ :=]{1,2}(?P<word>\d{1,5})(?![\w.,/:]|\s?/)"
    r"|(?<![\w.])(?:pid|PID)[ :=]{1,2}(?P<process>\d{1,9})(?![\w.,/:])"
    r"|^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,60} [\w.-]{1,60}\[(?P<daemon>\d{1,9})\]:"
)
"""A rank within the line: icefall's `[train.py:907] (6/8) Epoch 3`, WeNet's `loss 23.6 rank 2`; or a process:
`pid=71`, and syslog's `Nov 27 10:00:00 node1 train[71]:`."""
_MAYBE_INSIDE = ("ank", "] (", "pid", "PID", "]: ")
"""A line with a rank or a process inside has one of these."""
_RANKS, _BARE, _WORD, _PROCESS = "rank", "bare", "word", "process"
"""Kinds of writers: a rank, a bare number or one after "rank" that may be one, a process of the system."""
_PLACE = re.compile(r"(?i:step|iter|epoch|batch|update)")
_WRAPPED = re.compile(
    r"(?:\b(?:torch|np|numpy|jnp|jax)\.)?\b(?:tensor|array|float\d{0,3}|bfloat16|Tensor|Array)\(\[?"
    r"([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan|inf))\]?"
    r"(?:, ?[^()]{0,120}(?:\([^()]{0,60}\)[^()]{0,60})?)?\)"
)
_LAST_NUMBER = re.compile(r"(\d+)([.,]?)(\d*)$")
_DIGITS = re.compile(r"\d[\d.,]*")
_COMPARED = 50
"""So many lines before the last one say how its numbers are written."""


class Writer(NamedTuple):
    """One of several processes that write into a log, as its lines name it."""

    kind: str
    number: int


@dataclass(slots=True)
class TextLines:
    """The lines of a text: `rank` is the one that is read (None: the lines name none), `seen` are all ranks.

    `comma` says that a comma is the decimal mark.
    """

    blob: Blob
    rank: Writer | None = None
    comma: bool = False
    seen: set[int] = field(default_factory=set)
    missing: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[str]:
        """Yield the lines of the rank; one that the trainer is still writing is left out."""
        self.missing.clear()
        return _without_cut(self._plain(lines(self.blob, self.missing)), ended=_ends(self.blob))

    def _plain(self, whole: Iterable[str]) -> Iterator[str]:
        if self.rank is None and not self.comma:
            return (unwrapped(line) if "(" in line else line for line in whole)
        return self._of_rank(whole)

    def _of_rank(self, whole: Iterable[str]) -> Iterator[str]:
        if self.comma:
            from toposcope.logs.decimal_commas import with_points

        for line in whole:
            if self.rank is not None and (writer := _writer_of(line)) and writer[1].kind == self.rank.kind:
                self.seen.add(writer[1].number)
                if writer[1] != self.rank:
                    continue
                line = writer[0]
            line = unwrapped(line)
            yield with_points(line) if self.comma and "," in line else line

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out."""
        if len(self.seen) < 2 or self.rank is None:
            return tuple(self.missing)
        kind = "process" if self.rank.kind == _PROCESS else "rank"
        several = "processes" if kind == "process" else "ranks"
        return (
            *self.missing,
            f"{len(self.seen):,} {several} write into this log: {kind} {self.rank.number} is read",
        )


class Ranks:
    """The ranks, or the processes, that lines of a dialect name."""

    def __init__(self) -> None:
        self._counts: Counter[Writer] = Counter()
        self._last: Writer | None = None
        self._changes = 0

    def note(self, writer: Writer) -> None:
        """Count the rank of a line that has a loss."""
        self._counts[writer] += 1
        self._changes += writer.kind == _PROCESS and writer != self._last
        self._last = writer

    @property
    def first(self) -> Writer | None:
        """The rank to read, the lowest.

        A bare number is a rank if all numbers come again, one after "rank" if most do. Processes are ranks if
        their lines alternate: one after the other, the later continues the earlier.
        """
        for kind in (_RANKS, _BARE, _WORD, _PROCESS):
            counts = {writer: count for writer, count in self._counts.items() if writer.kind == kind}
            again = [count > 1 for count in counts.values()]
            sure = {
                _BARE: all(again), _WORD: 2 * sum(again) > len(again), _PROCESS: self._changes > len(again)
            }  # fmt: skip
            if counts and sure.get(kind, True):
                return min(counts)
        return None


def unranked(line: str) -> tuple[str, Writer | None]:
    """Return a line without the rank before it, and the rank.

    >>> unranked("[rank2]:step: 10")[0], unranked("3: step 10 loss 2.5")[0], unranked("3: loss 2.5")[0]
    ('step: 10', 'step 10 loss 2.5', '3: loss 2.5')
    >>> unranked("May 18, 11:47:13: run: [1,2]<stdout>:step 1"), unranked("step 4 loss 2.5 rank 1")[1]
    (('step 1', Writer(kind='rank', number=2)), Writer(kind='word', number=1))
    >>> unranked("(TrainWorker pid=71, ip=10.0.0.2) step 1"), unranked("rank: 2.5")
    (('step 1', Writer(kind='process', number=71)), ('rank: 2.5', None))
    """
    writer = _writer_of(line)
    if writer is None or (writer[1].kind == _BARE and not _PLACE.search(line[:4096])):
        return line, None
    return writer


def _writer_of(line: str) -> tuple[str, Writer] | None:
    """Return a line without the rank that it names, and the rank."""
    if match := _RANK.match(line):
        rest = line[match.end() :]
    elif any(part in line for part in _MAYBE_INSIDE) and (match := _INSIDE.search(line[:4096])):
        rest = f"{line[: match.start()]}{line[match.end() :]}"
    else:
        return None
    named = match.groupdict()
    kind = next((name for name in (_BARE, _WORD, _PROCESS) if named.get(name)), _RANKS)
    kind = _PROCESS if named.get("daemon") else kind
    return rest, Writer(kind, int(next(group for group in match.groups() if group is not None)))


def unwrapped(line: str) -> str:
    """Return a line whose numbers stand alone.

    >>> unwrapped("loss tensor(2.41, device='cuda:0', grad_fn=<NllLossBackward0>) lr np.float64(1e-3)")
    'loss 2.41 lr 1e-3'
    """
    if "(" in line and ("tensor(" in line or "array(" in line or "np." in line or "numpy." in line):
        return _WRAPPED.sub(r"\1", line)
    return line


def has_comma(line: str) -> bool:
    """Return whether a loss has a comma in it: `loss 4,3094`."""
    return "," in line and LOSS_WITH_COMMA.search(line[:4096]) is not None


def _ends(blob: Blob) -> bool:
    """Return whether the last line of a text has an end; a packed one counts as ended."""
    head = blob.read(0, min(2, blob.size)).tobytes()
    last = blob.read(max(blob.size - 2, 0), blob.size).tobytes()
    return head == b"\x1f\x8b" or b"\n" in last or b"\r" in last


def _without_cut(whole: Iterable[str], *, ended: bool) -> Iterator[str]:
    """Yield lines without the last one, if it is cut within a number: earlier ones have more decimals.

    If the text has `ended` its last line, earlier lines must also go on after that number.
    """
    before: deque[str] = deque(maxlen=_COMPARED)
    last: str | None = None
    for line in whole:
        if last is not None:
            before.append(last)
            yield last
        last = line
    if last is not None and not _is_cut(last, before, ended=ended):
        yield last


def _is_cut(last: str, before: Iterable[str], *, ended: bool = False) -> bool:
    """Return whether a line ends within a number.

    >>> _is_cut("step 30 loss 2", ["step 10 loss 2.53", "step 20 loss 2.51"])
    True
    >>> _is_cut("step 30 loss 2.50", ["step 10 loss 2.53"]), _is_cut("step 30", ["step 10", "step 20"])
    (False, False)
    >>> _is_cut("loss 2", ["loss 2.53"], ended=True), _is_cut("loss 2", ["loss 2.53 | lr 1"], ended=True)
    (False, True)
    """
    if len(last) > 4096 or not (match := _LAST_NUMBER.search(last)):
        return False
    shape = _DIGITS.sub("0", last[: match.start()])
    decimals = []
    for line in before:
        texts = _DIGITS.split(line[:4096])
        count = shape.count("0") if shape else 0
        numbers = _DIGITS.findall(line[:4096])
        if len(numbers) > count + ended and _DIGITS.sub("0", line[:4096]).startswith(f"{shape}0") and texts:
            decimals.append(len(numbers[count].rstrip(".,").partition(".")[2]))
    return bool(decimals) and len(match[3]) < min(decimals)
