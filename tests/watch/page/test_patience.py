"""Silent connections do not stop the page, and viewers are counted before they are let in."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import urllib.error
import urllib.request

import pytest

from toposcope.watch.page import _app as app
from toposcope.watch.page import _patience as patience


def _place(address):
    host, port = address.removeprefix("http://").split(":")
    return host, int(port)


def test_four_hundred_half_open_connections_do_not_stop_the_page(served):
    silent = []
    try:
        for number in range(400):
            with contextlib.suppress(OSError):  # the oldest are closed, and that may be told
                one = socket.create_connection(_place(served), timeout=10)
                silent.append(one)
                one.sendall(b"GET / HTTP/1.1\r\nHost: " if number % 2 else b"")
        with urllib.request.urlopen(served, timeout=20) as answer:
            assert answer.status == 200
    finally:
        for one in silent:
            one.close()


def test_a_hundred_viewers_at_once_are_served_or_told_and_never_reset(served, monkeypatch):
    monkeypatch.setattr(patience, "OPEN", 60)
    monkeypatch.setattr(patience, "HALF_OPEN", 20)
    start, codes = threading.Barrier(100), []

    def view():
        start.wait()
        with socket.create_connection(_place(served), timeout=60) as wire:
            wire.sendall(b"GET /static/page.css HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            answer = b""
            while part := wire.recv(1 << 16):
                answer += part
        codes.append(answer.split(b" ", 2)[1])

    viewers = [threading.Thread(target=view) for _ in range(100)]
    for one in viewers:
        one.start()
    for one in viewers:
        one.join(60)
    assert len(codes) == 100
    assert set(codes) <= {b"200", b"404", b"503"}


def test_headers_that_drip_in_are_not_waited_for(served, monkeypatch):
    monkeypatch.setattr(patience, "HEADERS", 0.3)
    with socket.create_connection(_place(served), timeout=10) as slow:
        end = time.monotonic() + 15
        try:
            while time.monotonic() < end:
                slow.sendall(b"x")
                time.sleep(0.05)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert time.monotonic() < end


def test_a_connection_that_was_answered_may_ask_again(served):
    with socket.create_connection(_place(served), timeout=20) as kept:
        for _ in range(3):
            kept.sendall(b"GET /fragment/answer HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert kept.recv(15) == b"HTTP/1.1 200 OK"
            while not _quiet(kept):
                kept.recv(1 << 16)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + b"a" * 200_000 + b"\r\n\r\n", b"431"),
        (b"GET /" + b"a" * 3_000_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: y\r\n" * 50_000 + b"\r\n", b"431"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), b"400"),
        (b"GET / HTTP/9\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nno\r\n", b"40"),
    ],
)
def test_what_is_no_request_is_refused_and_never_reset(served, sent, status):
    with socket.create_connection(_place(served), timeout=20) as wire:
        wire.sendall(sent)
        answer = b""
        while part := wire.recv(1 << 16):
            answer += part
    assert answer.split(b" ", 2)[1].startswith(status)
    with urllib.request.urlopen(served, timeout=20) as after:
        assert after.status == 200


def _quiet(connection):
    connection.settimeout(0.3)
    try:
        return not connection.recv(1 << 16, socket.MSG_PEEK)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(20)


def test_viewers_who_come_together_are_counted_before_they_are_let_in(served, monkeypatch):
    monkeypatch.setattr(app, "VIEWERS", 4)
    codes, opened, start = [], [], threading.Barrier(12)

    def view():
        start.wait()
        try:
            answer = urllib.request.urlopen(f"{served}/events?panel=", timeout=20)
            opened.append(answer)
            codes.append(answer.status)
        except urllib.error.HTTPError as error:
            codes.append(error.code)

    viewers = [threading.Thread(target=view) for _ in range(12)]
    for one in viewers:
        one.start()
    for one in viewers:
        one.join(30)
    assert sorted(codes) == [200] * 4 + [503] * 8
    for answer in opened:
        answer.close()
    end = time.monotonic() + 40  # a place is free again once a stream has noticed
    while True:
        try:
            urllib.request.urlopen(f"{served}/events?panel=", timeout=20).close()
            break
        except urllib.error.HTTPError:
            assert time.monotonic() < end
            time.sleep(0.1)
