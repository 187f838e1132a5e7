"""The background work of the page: it reads the store, and now and then starts a process for the answer."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toposcope.core.wording import are_typed, recommended
from toposcope.watch.page.doing import Work
from toposcope.watch.page.live import Live

REST = 4.0
"""After an answer, rest at least this many times as long as it took."""

SOON = 5.0
"""Without findings, the next answer comes after this many seconds (or after as long as this one took)."""

_LONGEST = 1 << 26
"""The largest number of bytes in a line from the analysis."""

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


@dataclass
class Background:
    """Keeps a `Live` up to date and notifies its waiters; `answer` is the latest answer, if any.

    `every` is the number of seconds between visits, `answer_every` the smallest number between answers;
    `published` is MODULE:NAME of the published rules that the answer includes.
    """

    live: Live
    every: float = 1.0
    answer_every: float = 60.0
    published: str = ""
    answer: Mapping[str, Any] | None = None
    answered: int = 0
    news: set[asyncio.Event] = field(default_factory=set)
    closing: bool = False
    work: Work = field(default_factory=Work)

    async def run(self) -> None:
        """Read the store repeatedly until cancelled."""
        answering: asyncio.Task[None] | None = None
        ready_at, of = 0.0, -1
        try:
            while True:
                await self._visit()
                if answering is not None and answering.done():
                    answering, ready_at = None, self._rest()
                if answering is None and self.live.version != of and time.monotonic() >= ready_at:
                    of = self.live.version
                    self.work.begin()
                    self._repaint()
                    answering = asyncio.create_task(self._answer())
                await asyncio.sleep(self.every)
        finally:
            if answering is not None:
                answering.cancel()
                await asyncio.gather(answering, return_exceptions=True)

    def _rest(self) -> float:
        """Return when the next answer may begin; soon, if this one had no findings."""
        took = self.work.end()
        has_answer = bool((self.answer or {}).get("parts"))
        rest = max(self.answer_every, REST * took) if has_answer else max(min(self.answer_every, SOON), took)
        self.work.next_at = self.work.clock() + rest
        self._repaint()
        return time.monotonic() + rest

    async def _visit(self) -> None:
        try:
            changed = await asyncio.to_thread(self.live.visit)
            self.live.trouble = ""
        except (ValueError, OSError) as error:  # reported on the page, and retried
            changed, self.live.trouble = set(), str(error)
        if changed:
            self.tell()

    def close(self) -> None:
        """Let every stream end."""
        self.closing = True
        self.tell()

    def tell(self) -> None:
        """Wake everything that waits for news."""
        for event in self.news:
            event.set()

    async def _answer(self) -> None:
        answering = "toposcope.watch.page.answers"
        nice = "19" if (self.answer or {}).get("parts") else "0"  # the first is waited for
        spelling = ["typed"] if are_typed() else []
        command = [sys.executable, "-m", answering, str(self.live.path), self.published, nice, *spelling]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, limit=_LONGEST,
            env=os.environ | _ONE_THREAD,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            async for line in process.stdout:
                self._take({**(self.answer or {}), **json.loads(line)})
            broken = await process.wait()
        except BaseException:
            if process.returncode is None:
                process.kill()
                await process.wait()
            raise
        if broken:
            why = f"the analysis stopped with an error; to see why: {recommended('analyze', self.live.path)}"
            self._take({**(self.answer or {}), "trouble": [why]})

    def _take(self, answer: Mapping[str, Any]) -> None:
        self.answer = answer
        self._repaint()

    def _repaint(self) -> None:
        """Have every part of the page painted again."""
        self.answered += 1
        self.tell()
