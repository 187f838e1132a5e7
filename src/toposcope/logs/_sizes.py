"""What the lines of a text log state beside its records: its size, a restart, the error at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from toposcope.logs.records import PARAMETERS, RESTARTED, Record

if TYPE_CHECKING:
    from toposcope.logs._ending import Ending
    from toposcope.logs._stated_sizes import StatedSizes


class Size:
    """The size that the lines of a log have stated so far, `now`; 0 until one does.

    `resumed` says whether a line since the last record says that the training was resumed. `error` is the
    error after which no training follows; `speaks` says whether a line is one of the training's.

    >>> size = Size()
    >>> list(size.read(["number of parameters: 10.65M"])), size.now
    (['number of parameters: 10.65M'], 10650000)
    """

    def __init__(self, speaks: Callable[[str], bool] = lambda line: False) -> None:
        self.now = 0
        self.resumed = False
        self._speaks = speaks
        self._stated: StatedSizes | None = None
        self._ending: Ending | None = None

    @property
    def error(self) -> str:
        """The error with which the lines so far end; "" if they end with none."""
        return "" if self._ending is None else self._ending.error

    def read(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the lines unchanged, and note what they state."""
        for line in lines:
            if "param" in line or "Param" in line or "parallel size" in line:
                if self._stated is None:
                    from toposcope.logs._stated_sizes import StatedSizes  # most logs need none

                    self._stated = StatedSizes()
                self.now = self._stated.take(line)
            if "heckpoint" in line or "esum" in line:
                from toposcope.logs.resumed import says_resumed

                self.resumed = self.resumed or says_resumed(line)
            if self._ending is not None:
                self._ending.take(line)
            elif "Traceback" in line or ": error:" in line or "Killed" in line or " fault" in line:
                from toposcope.logs._ending import Ending

                self._ending = Ending(self._speaks)
                self._ending.take(line)
            yield line


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
