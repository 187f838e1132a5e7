"""The page over a real socket: requests as an attacker writes them, byte by byte."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from tests.patience import PATIENCE
from toposcope.watch.page.serve import HOST, bound, server


def _status(port, request):
    """Send bytes, return the status of the answer, 0 where the connection was closed without one."""
    with socket.create_connection((HOST, port), timeout=PATIENCE) as wire:
        wire.sendall(request)
        answer = b""
        while b"\r\n" not in answer:
            part = wire.recv(4096)
            if not part:
                return 0, b""
            answer += part
        while part := wire.recv(65536):
            answer += part
    return int(answer.split(b" ", 2)[1]), answer


def _get(path, *headers):
    lines = [f"GET {path} HTTP/1.1", *headers, "Connection: close", "", ""]
    return "\r\n".join(lines).encode()


@pytest.fixture
def open_to_all(growing):
    """Serve as `--host 0.0.0.0` does, with a token, on a loopback socket."""
    serving = server(growing.path, host="0.0.0.0", token="secret-token", every=0.05, answer_every=3600)
    listening = bound(HOST, 0)
    thread = threading.Thread(target=serving.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not serving.started:
        time.sleep(0.01)
    yield listening.getsockname()[1]
    serving.should_exit = True
    thread.join(10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (_get("/", "Host: 127.0.0.1:{port}"), 200),
        (_get("/", "Host: evil.example"), 421),
        (_get("http://evil.example/", "Host: evil.example"), 421),
        (_get("/", "Host: 127.0.0.1", "Host: evil.example"), 400),
        (_get("/", "Host:"), 421),
        (_get("/", "Host: 127.0.0.1:{port}", "Origin: http://evil.example"), 403),
        (_get("/", "Host: 127.0.0.1:{port}", "Sec-Fetch-Site: cross-site"), 403),
        (_get("/../../etc/passwd", "Host: 127.0.0.1"), 404),
        (_get("/static/..%2f..%2fapp.py", "Host: 127.0.0.1"), 404),
        (_get("/static/%00", "Host: 127.0.0.1"), 404),
        (_get("/events?panel=" + "x" * 3000, "Host: evil.example"), 421),
        (b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", 405),
        (b"DELETE / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", 405),
        (b"\x00\x01\x02\r\n\r\n", 400),
    ],
)
def test_a_request_on_the_wire_is_answered_or_refused(served, request_bytes, status):
    port = int(served.rsplit(":", 1)[1])
    assert _status(port, request_bytes.replace(b"{port}", str(port).encode()))[0] == status


@pytest.mark.slow
@pytest.mark.parametrize(
    ("headers", "path", "status"),
    [
        ([], "/", 401),
        ([], "/?token=wrong", 401),
        ([], "/panel/index", 401),
        ([], "/static/live.js", 401),
        ([], "/events", 401),
        ([], "/?token=secret-token", 303),
        (["Cookie: toposcope-token-{port}=secret-token"], "/", 200),
        (["Cookie: toposcope-token-{port}=secret-toke"], "/", 401),
        (["Authorization: Bearer secret-token"], "/panel/index", 200),
        (["Authorization: Bearer secret-token", "Origin: http://evil.example"], "/panel/index", 403),
    ],
)
def test_beyond_this_machine_nothing_is_told_without_the_token(open_to_all, headers, path, status):
    named = [one.replace("{port}", str(open_to_all)) for one in headers]
    found, answer = _status(open_to_all, _get(path, f"Host: 127.0.0.1:{open_to_all}", *named))
    assert found == status
    assert b"small-seed0" not in answer or status == 200
