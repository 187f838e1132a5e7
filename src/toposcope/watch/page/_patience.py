"""Limits for silent connections: how long each may last, and how many a peer may keep open."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS = 10.0
"""The headers of a request must arrive within this many seconds; a browser sends them in one piece."""
HALF_OPEN = 128
"""Connections per peer without a complete request; beyond this, the oldest are refused. A browser opens six,
and a hundred viewers may come at once from one gateway."""
OPEN = 192
"""Connections per peer, three quarters of what the server accepts; further ones are refused at once."""
LINGER, MOST_REFUSED = 2.0, 256
"""A refused connection may send for so many seconds what is no longer read, so that its end reads the answer;
and so many may do this at once. Closing at once would reset it."""
_LONG = 431
"""What h11 hints at where the headers of a request exceed what uvicorn reads of them, 64 kB."""


def _closing(status: str, text: bytes, more: bytes = b"") -> bytes:
    """Return a whole response after which the connection ends."""
    return (
        b"HTTP/1.1 %b\r\n%bconnection: close\r\ncontent-type: text/plain; charset=utf-8\r\n"
        b"content-length: %d\r\n\r\n%b" % (status.encode(), more, len(text), text)
    )


_BUSY = _closing("503 Service Unavailable", b"too many connections; try again soon", b"retry-after: 5\r\n")
_TOO_LARGE = _closing("431 Request Header Fields Too Large", b"the headers of the request are too long")
_INVALID = _closing("400 Bad Request", b"this is no HTTP request")


class ImpatientProtocol(H11Protocol):
    """HTTP/1.1 that closes silent connections, so that they never block requests."""

    _waiting: ClassVar[dict[str, dict[ImpatientProtocol, None]]] = {}
    _open: ClassVar[Counter[str]] = Counter()
    _refused: ClassVar[set[ImpatientProtocol]] = set()

    def connection_made(self, transport: Any) -> None:
        """Accept a connection, unless its peer has too many."""
        super().connection_made(transport)
        self._timer: asyncio.TimerHandle | None = None
        peer = transport.get_extra_info("peername")
        self._peer = str(peer[0]) if peer else ""
        self._open[self._peer] += 1
        self._counted = True
        if self._open[self._peer] > OPEN:
            self._refuse()
            return
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take bytes; the clock for the headers runs until they are complete."""
        if self in self._refused:
            return
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._wait_no_more()
        elif self._timer is None and not self.transport.is_closing():
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._wait_no_more()
        self._uncount()
        self._refused.discard(self)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request; a response that has begun is cut instead."""
        error = sys.exc_info()[1]  # uvicorn calls this where it catches what h11 raised
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            if self.cycle.response_started:
                self._give_up()
                return
        self._refuse(_TOO_LARGE if getattr(error, "error_status_hint", 400) == _LONG else _INVALID)

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(HEADERS, self._give_up)
        silent = self._waiting.setdefault(self._peer, {})
        silent[self] = None
        while len(silent) > HALF_OPEN:
            next(iter(silent))._refuse()

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

    def _refuse(self, answer: bytes = _BUSY) -> None:
        """Answer with a refusal, and close once the other end has read it."""
        self._wait_no_more()
        self._uncount()
        if self.transport.is_closing() or len(self._refused) >= MOST_REFUSED:
            self.transport.abort()
            return
        self._refused.add(self)
        self.connections.discard(self)  # it does not count among those that the server may have
        self.transport.write(answer)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._timer = asyncio.get_running_loop().call_later(LINGER, self.transport.abort)

    def _give_up(self) -> None:
        self._wait_no_more()
        self._uncount()
        self.transport.abort()
