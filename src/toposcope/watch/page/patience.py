"""Limits for silent connections: how long each may last, and how many a peer may hold open."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS = 10.0
"""Seconds in which the headers of a request must have come; a browser sends them in one piece."""
HALF_OPEN = 32
"""Connections of a peer without a whole request; of more, the oldest are closed. A browser opens six."""
OPEN = 128
"""Connections of a peer, half of what the server takes; further ones are closed at once."""


class ImpatientProtocol(H11Protocol):
    """HTTP/1.1 that closes silent connections, so that requests are served however many there are."""

    _waiting: ClassVar[dict[str, dict[ImpatientProtocol, None]]] = {}
    _open: ClassVar[Counter[str]] = Counter()

    def connection_made(self, transport: Any) -> None:
        """Take a connection in, unless its peer has too many."""
        super().connection_made(transport)
        self._timer: asyncio.TimerHandle | None = None
        peer = transport.get_extra_info("peername")
        self._peer = str(peer[0]) if peer else ""
        self._open[self._peer] += 1
        self._counted = True
        if self._open[self._peer] > OPEN:
            self._give_up()
            return
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take bytes in; the time for the headers goes on until they are whole."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._wait_no_more()
        elif self._timer is None and not self.transport.is_closing():
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._wait_no_more()
        self._uncount()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(HEADERS, self._give_up)
        silent = self._waiting.setdefault(self._peer, {})
        silent[self] = None
        while len(silent) > HALF_OPEN:
            next(iter(silent))._give_up()

    def _wait_no_more(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        silent = self._waiting.get(self._peer, {})
        silent.pop(self, None)
        if not silent:
            self._waiting.pop(self._peer, None)

    def _uncount(self) -> None:
        if self._counted:
            self._counted = False
            self._open[self._peer] -= 1
            if self._open[self._peer] <= 0:
                del self._open[self._peer]

    def _give_up(self) -> None:
        self._wait_no_more()
        self._uncount()
        self.transport.abort()
