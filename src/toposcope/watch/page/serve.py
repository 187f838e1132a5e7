"""Start the page in this process, or in a separate one."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING

from toposcope.core.errors import InputError, MissingExtraError
from toposcope.core.processes import GoneError, launch, receive, send
from toposcope.core.wording import option
from toposcope.watch.page.security import is_loopback

if TYPE_CHECKING:
    import uvicorn

HOST = "127.0.0.1"
_FAR = ("192.0.2.1", "2001:db8::1")
"""Addresses for documentation, of no machine: towards them a machine has the address that others see."""


def check_installed() -> None:
    """Raise before anything is written if a page cannot be served.

    Raises
    ------
    MissingExtraError
        When starlette or uvicorn is not installed.
    """
    for module in ("uvicorn", "starlette"):
        if find_spec(module) is None:
            raise MissingExtraError(module, "dashboard")


def server(
    store: str | Path, *, host: str = HOST, token: str | None = None, every: float = 1.0,
    answer_every: float = 60.0, published: str = "",
) -> uvicorn.Server:  # fmt: skip
    """Return a server of the page of `store` that is not bound to a port yet.

    `published` is MODULE:NAME of the published rules that the answers include.

    Raises
    ------
    StoreError
        When `store` is not a store.
    InputError
        When `host` can be reached from other machines and there is no `token`.
    MissingExtraError
        When starlette or uvicorn is not installed.
    """
    check_installed()
    import uvicorn

    from toposcope.watch.page._app import application
    from toposcope.watch.page._patience import ImpatientProtocol

    if not is_loopback(host) and not token:
        raise InputError(f"other machines can reach host {host}; give a token")
    app = application(
        Path(store), host=host, token=token, every=every, answer_every=answer_every, published=published
    )
    config = uvicorn.Config(
        app, host=host, log_level="warning", access_log=False, server_header=False,
        timeout_graceful_shutdown=1, lifespan="on", interface="asgi3", limit_concurrency=256,
        http=ImpatientProtocol,
    )  # fmt: skip

    class Server(uvicorn.Server):
        """Ends the streams first, so that none delays the shutdown."""

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            app.background.close()
            await super().shutdown(sockets)

    return Server(config)


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; port 0 takes a free one.

    Raises
    ------
    InputError
        When the port is taken or the address does not belong to this machine.
    """
    if not 0 <= port < 65536:
        raise InputError("out of range", argument="port", value=port, remedy="give a number from 0 to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)  # a browser that connects before the server runs waits and is not refused
    except OSError as error:
        listening.close()
        why = error.strerror or str(error)
        raise InputError(
            f"the page cannot listen at {host} port {port}: {why}; try another {option('port')}"
        ) from error
    return listening


def address(host: str, port: int, token: str | None) -> str:
    """Return the address to open; for a host that stands for all addresses, one that others can reach.

    >>> address("127.0.0.1", 8080, None), address("::1", 8080, "abc")
    ('http://127.0.0.1:8080/', 'http://[::1]:8080/?token=abc')
    """
    host = _reachable(host)
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/" + (f"?token={token}" if token else "")


def _reachable(host: str) -> str:
    """Return a host; for all addresses, the one that this machine has towards others, or its name."""
    try:
        given = ipaddress.ip_address(host)
    except ValueError:
        return host
    if not given.is_unspecified:
        return host
    family, far = (socket.AF_INET, _FAR[0]) if given.version == 4 else (socket.AF_INET6, _FAR[1])
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((far, 9))  # chooses the local address; nothing is sent
        own_address = str(probe.getsockname()[0])
        if not ipaddress.ip_address(own_address).is_unspecified:
            return own_address
    return socket.gethostname()


def new_token(host: str, *, wanted: bool = False) -> str | None:
    """Return a token for an address that other machines can reach; for a local one only if `wanted`."""
    return None if is_loopback(host) and not wanted else secrets.token_urlsafe(24)


def check_free(host: str, port: int) -> None:
    """Raise before anything is written if the page cannot listen there.

    Raises
    ------
    InputError
        As `bound` does.
    """
    bound(host, port).close()


def serve(
    store: str | Path,
    port: int = 8765,
    *,
    host: str = HOST,
    published: str = "",
    say: Callable[[str], object] = print,
    ask: bool = False,
) -> None:
    """Serve the page of a store until interrupted; `say` receives the address; `published` as in `server`.

    `ask` says that a page for this machine alone asks for a token, too.
    """
    token = new_token(host, wanted=ask)
    serving = server(store, host=host, token=token, published=published)
    listening = bound(host, port)
    say(address(host, listening.getsockname()[1], token))
    with suppress(KeyboardInterrupt):
        serving.run(sockets=[listening])


@contextmanager
def beside(
    store: str | Path, port: int, *, host: str = HOST, published: str = "", ask: bool = False
) -> Iterator[str]:
    """Serve the page from a separate process while the block runs, and yield the address.

    So the watch and the page do not slow each other down. `ask` is that of `serve`.
    """
    token = new_token(host, wanted=ask)
    server(store, host=host, token=token)  # report problems before a process starts
    listening = bound(host, port)
    child = launch(_serve_child, keep=(listening.fileno(),))
    try:
        with suppress(GoneError):  # a page that ends immediately must not end the watch
            send(child.channel, (str(store), host, token, published, listening.fileno()))
        yield address(host, listening.getsockname()[1], token)
    finally:
        listening.close()
        child.process.terminate()
        with suppress(TimeoutExpired):
            child.process.wait(5)
        child.kill()


def _serve_child(channel: Connection) -> None:
    store, host, token, published, listening = receive(channel)
    serving = server(store, host=host, token=token, published=published)
    with suppress(KeyboardInterrupt):
        serving.run(sockets=[socket.socket(fileno=listening)])
