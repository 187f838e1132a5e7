"""Reads the number of parameters that a text log states, and where it says that the training was resumed.

nanoGPT prints `number of parameters: 10.65M`, Megatron-LM one line for each rank of tensors and pipeline,
parameter-golf `model_params:17059912`, torchtitan `size: 6,270,976 total parameters`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from toposcope.logs.records import PARAMETERS, RESTARTED, Record, number

_COUNT = r"(\d[\d,]*(?:\.\d+)?)"
_STATED = re.compile(
    rf"\bnumber of parameters: {_COUNT}([KMB])?(?![\w.])"
    rf"|\b(?:model_params|Total parameters): ?{_COUNT}(?![\w.])"
    rf"|\bsize: {_COUNT} total parameters\b|^\| num_parameters +\| {_COUNT} +\|"
)
_RANK = re.compile(
    rf"\bnumber of parameters on \(tensor, pipeline\) model parallel rank \((\d+), (\d+)\): {_COUNT}(?!\S)"
)
_RANKS = re.compile(r"\btensor-model-parallel size: (\d+)\b.*\bpipeline-model-parallel size: (\d+)\b")
_UNITS = {"K": 1e3, "M": 1e6, "B": 1e9}
_LARGEST = 1e15
"""More parameters than any model has; larger numbers are not sizes."""


class Size:
    """The size that the lines of a log have stated so far, `now`; 0 until one does.

    Megatron-LM's ranks are summed once each has a line; parameters that two ranks share count twice.

    >>> size = Size()
    >>> list(size.read(["number of parameters: 10.65M"])), size.now
    (['number of parameters: 10.65M'], 10650000)
    """

    def __init__(self) -> None:
        self.now = 0
        self.resumed = False
        """Whether a line since the last record says that the training was resumed."""
        self._ranks: dict[tuple[int, int], float] = {}
        self._count = 0

    def read(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the lines unchanged, and note the size that they state."""
        for line in lines:
            if "param" in line or "Param" in line or "parallel size" in line:
                self._note(line)
            if "heckpoint" in line or "esum" in line:
                from toposcope.logs.resumed import says_resumed

                self.resumed = self.resumed or says_resumed(line)
            yield line

    def _note(self, line: str) -> None:
        if found := _RANK.search(line):
            rank = (int(found[1]), int(found[2]))
            if rank in self._ranks:  # the log continues with a restart or another run
                self._ranks = {}
            self._ranks[rank] = number(found[3])
            if len(self._ranks) == (self._count or self._grid()):
                self._take(sum(self._ranks.values()))
        elif found := _RANKS.search(line):
            self._count, self._ranks = int(found[1]) * int(found[2]), {}
        elif found := _STATED.search(line):
            stated = next(text for text in (found[1], *found.groups()[2:]) if text)
            self._take(number(stated) * _UNITS.get(found[2], 1.0))

    def _grid(self) -> int:
        """Return the smallest possible number of ranks, from the highest one."""
        tensor, pipeline = zip(*self._ranks, strict=True)
        return (max(tensor) + 1) * (max(pipeline) + 1)

    def _take(self, parameters: float) -> None:
        if 1 <= parameters < _LARGEST:
            self.now = round(parameters)


def with_size(records: Iterable[Record], size: Size) -> Iterator[Record]:
    """Yield records with what the lines read so far state: the size, and that the training was resumed.

    What is said before the first record is no restart of this log.
    """
    started = False
    for record in records:
        stated = {PARAMETERS: float(size.now)} if size.now else {}
        if started and size.resumed:
            stated[RESTARTED] = 1.0
        started, size.resumed = True, False
        yield {**record, **stated} if stated else record
