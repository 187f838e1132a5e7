"""Reads the number of parameters from the lines of a text log that speak of parameters.

nanoGPT prints `number of parameters: 10.65M`, Megatron-LM one line for each rank of tensors and pipeline,
parameter-golf `model_params:17059912`, torchtitan `size: 6,270,976 total parameters`.
"""

from __future__ import annotations

import re

from toposcope.logs.records import number

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


class StatedSizes:
    """The size that the lines so far have stated, `now`; 0 until one does.

    Megatron-LM's ranks are summed once each has a line; parameters that two ranks share count twice.
    """

    def __init__(self) -> None:
        self.now = 0
        self._ranks: dict[tuple[int, int], float] = {}
        self._count = 0

    def take(self, line: str) -> int:
        """Take a line, and return the size that is stated by now."""
        if match := _RANK.search(line):
            rank = (int(match[1]), int(match[2]))
            if rank in self._ranks:  # the log continues with a restart or another run
                self._ranks = {}
            self._ranks[rank] = number(match[3])
            if len(self._ranks) == (self._count or self._grid()):
                self._set(sum(self._ranks.values()))
        elif match := _RANKS.search(line):
            self._count, self._ranks = int(match[1]) * int(match[2]), {}
        elif match := _STATED.search(line):
            stated = next(text for text in (match[1], *match.groups()[2:]) if text)
            self._set(number(stated) * _UNITS.get(match[2], 1.0))
        return self.now

    def _grid(self) -> int:
        """Return the smallest possible number of ranks, from the highest one."""
        tensor, pipeline = zip(*self._ranks, strict=True)
        return (max(tensor) + 1) * (max(pipeline) + 1)

    def _set(self, parameters: float) -> None:
        if 1 <= parameters < _LARGEST:
            self.now = round(parameters)
