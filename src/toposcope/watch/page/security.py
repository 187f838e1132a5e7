"""Who may read the page: this machine, or a request with the token; never a script of another site."""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

Scope = dict[str, Any]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Callable[[], Awaitable[dict[str, Any]]], Send], Awaitable[None]]

COOKIE = "toposcope-token"
"""The cookie's name before its port: a browser sends the cookies of a host to each of its ports."""
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Return whether an address to bind to is reached from this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Guards the application: it checks method, Host, Origin and token, and adds headers to every response.

    A site that points its own name at 127.0.0.1 sends that name as Host and is refused; a script of another
    site sends its Origin and is refused. If the page is reachable from other machines, only an IP address,
    the bound name or the machine's own name is accepted as Host. Where there is a token, every request needs
    it.
    """

    def __init__(self, app: App, *, host: str = "127.0.0.1", token: str | None = None) -> None:
        self._app, self._token = app, token
        self._names = frozenset() if is_loopback(host) else names_of_machine() | {host.lower()}

    async def __call__(
        self, scope: Scope, receive: Callable[[], Awaitable[dict[str, Any]]], send: Send
    ) -> None:
        """Answer, refuse, or hand the request on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        sending = _with_headers(send)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if scope["method"] not in ("GET", "HEAD"):
            await _answer(sending, 405, "this page is read-only")
        elif len(hosts) != 1 or not self._knows(headers.get("host", "")):
            await _answer(sending, 421, "this host name is not served here; use the address that was printed")
        elif not _same_site(headers):
            await _answer(sending, 403, "requests from other sites are refused")
        elif self._token is not None and not await self._has_token(scope, headers, sending):
            return
        else:
            await self._app(scope, receive, sending)

    def _knows(self, host: str) -> bool:
        name = _parts_of(host)[0]
        if is_loopback(name):
            return True
        if not self._names:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._names
        return True

    async def _has_token(self, scope: Scope, headers: dict[str, str], send: Send) -> bool:
        """Return whether the request may proceed; if not, answer it."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        if given and self._is_token(given[0]):
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            path = "/" + quote(scope["path"].lstrip("/")) + (f"?{rest}" if rest else "")
            cookie = f"{_cookie_name(headers['host'])}={self._token}; HttpOnly; SameSite=Lax; Path=/"
            await _answer(send, 303, "", {"location": path, "set-cookie": cookie})
            return False
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        cookie = _cookie(headers.get("cookie", ""), _cookie_name(headers["host"]))
        if self._is_token(cookie) or self._is_token(bearer):
            return True
        await _answer(send, 401, "open the page with the token that toposcope printed: /?token=...")
        return False

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), (self._token or "").encode())


def _same_site(headers: dict[str, str]) -> bool:
    origin = headers.get("origin")
    if origin is not None and origin not in (f"http://{headers['host']}", f"https://{headers['host']}"):
        return False
    foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site")
    return not foreign or headers.get("sec-fetch-mode") == "navigate"


def _parts_of(host: str) -> tuple[str, str]:
    """Return name and port of a Host header, the port empty if it has none.

    >>> _parts_of("Node7:8765"), _parts_of("[::1]:80"), _parts_of("localhost")
    (('node7', '8765'), ('::1', '80'), ('localhost', ''))
    """
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, ""
    return name.strip("[]").lower(), port


def _cookie_name(host: str) -> str:
    """Return the name of the cookie for the port that the browser sees, which a tunnel may have changed."""
    port = _parts_of(host)[1]
    return f"{COOKIE}-{port if port.isdecimal() else 80}"


def names_of_machine() -> frozenset[str]:
    """Return the names by which other machines know this one, in lower case."""
    return frozenset(name.lower() for name in (socket.gethostname(), socket.getfqdn()) if name)


def _cookie(header: str, name: str) -> str:
    try:
        cookie = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return cookie.value if cookie is not None else ""


def _with_headers(send: Send) -> Send:
    async def sending(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            names = {name for name, _ in message.get("headers", [])}
            more = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in names]
            message = {**message, "headers": [*message.get("headers", []), *more]}
        await send(message)

    return sending


async def _answer(send: Send, status: int, text: str, headers: dict[str, str] | None = None) -> None:
    content = text.encode()
    named = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(content))} | (
        headers or {}
    )
    listed = [(name.encode(), value.encode("latin-1")) for name, value in named.items()]
    await send({"type": "http.response.start", "status": status, "headers": listed})
    await send({"type": "http.response.body", "body": content})
