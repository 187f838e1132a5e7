"""The application: one page, its panels as JSON and CSV, its fragments, and the event stream."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from toposcope.watch.page import panels
from toposcope.watch.page._background import Background
from toposcope.watch.page.diagrams import Cloud
from toposcope.watch.page.live import Live
from toposcope.watch.page.security import Guard
from toposcope.watch.page.show import FRAGMENTS, fragment, page

VIEWERS = 64
"""The largest number of open streams."""

_HEARTBEAT = 15.0
"""After this many silent seconds a stream sends a line, so that no proxy closes it."""
_SHOWN_IN = {"events": ("alarms", "answer"), "audit": ("audit", "answer"), "diagrams": ()}
_TYPES = {".js": "text/javascript", ".css": "text/css"}


def application(
    store: Path,
    *,
    host: str = "127.0.0.1",
    token: str | None = None,
    every: float = 1.0,
    answer_every: float = 60.0,
    published: str = "",
) -> Application:
    """Return the guarded application that shows one store."""
    background = Background(Live(store), every=every, answer_every=answer_every, published=published)
    routes: Any = Pages(background).starlette()  # its types have Mapping where ASGI has dict
    return Application(background, Guard(routes, host=host, token=token))


class _Stream(StreamingResponse):
    """A stream of events that counts as one viewer from admission to end."""

    def __init__(
        self, content: AsyncIterator[bytes], viewers: set[asyncio.Event], own: asyncio.Event
    ) -> None:
        super().__init__(content, media_type="text/event-stream", headers={"x-accel-buffering": "no"})
        self._viewers, self._own = viewers, own

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it; also stop counting a viewer who left before the first event."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._viewers.discard(self._own)


@dataclass(frozen=True)
class Application:
    """The guarded routes, and the background work."""

    background: Background
    guard: Guard

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        await self.guard(scope, receive, send)


class Pages:
    """The routes. No request can name a file: everything is looked up in memory."""

    def __init__(self, background: Background) -> None:
        self.background, self.live = background, background.live
        here = files("toposcope.watch.page") / "static"
        self._static = {
            path.name: (path.read_bytes(), _TYPES[Path(path.name).suffix])
            for path in here.iterdir()
            if Path(path.name).suffix in _TYPES
        }
        self._new: dict[tuple[tuple[str, ...], int, int], bytes] = {}

    def starlette(self) -> Starlette:
        """Return the application without its guard."""
        routes = [
            Route("/", self.first), Route("/static/{name}", self.static), Route("/panel/index", self.index),
            Route("/panel/curves", self.curves), Route("/panel/heat", self.heat),
            Route("/panel/clouds", self.clouds), Route("/panel/diagram", self.diagram),
            Route("/fragment/{name}", self.part), Route("/csv", self.csv), Route("/events", self.events),
        ]  # fmt: skip
        return Starlette(routes=routes, lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(self.background.run())
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    def first(self, request: Request) -> Response:
        """Return the whole page, which needs no script for its first paint."""
        return HTMLResponse(
            page(self.live, self.background.answer, self.background.answered, self.background.work)
        )

    def part(self, request: Request) -> Response:
        """Return an updated part of the page."""
        name = request.path_params["name"]
        if name not in FRAGMENTS:
            raise HTTPException(404, "no such part")
        return HTMLResponse(fragment(name, self.live, self.background.answer, self.background.work))

    def static(self, request: Request) -> Response:
        """Return a script or the style sheet."""
        content = self._static.get(request.path_params["name"])
        if content is None:
            raise HTTPException(404, "no such file")
        return Response(content[0], media_type=content[1])

    def index(self, request: Request) -> Response:
        """Return the list of panels that can be opened."""
        return JSONResponse(panels.index(self.live))

    def curves(self, request: Request) -> Response:
        """Return a measure in every run."""
        ask = request.query_params
        start, end = _number(ask.get("from"), -math.inf), _number(ask.get("to"), math.inf)
        key = ask.get("key", panels.LOSS)
        data = panels.curves(self.live, key, start=start, end=end, log=ask.get("log") == "1")
        if data is not None and key == panels.LOSS:
            data["cones"] = list((self.background.answer or {}).get("forecasts", []))
        return _found(data)

    def heat(self, request: Request) -> Response:
        """Return a heat map of one run."""
        ask = request.query_params
        return _found(panels.heat(self.live, ask.get("run", ""), ask.get("key", "")))

    def clouds(self, request: Request) -> Response:
        """Return the stored diagrams of one run."""
        with self.live.lock:
            return JSONResponse(self.live.diagrams.listed(request.query_params.get("run", "")))

    def diagram(self, request: Request) -> Response:
        """Return one stored diagram."""
        ask = request.query_params
        cloud = Cloud(*(ask.get(name, "") for name in ("run", "probe", "filtration", "name")))
        step = _number(ask.get("step"), -1)
        return _found(self.live.diagrams.diagram(cloud, int(step)) if math.isfinite(step) else None)

    def csv(self, request: Request) -> Response:
        """Return every point of a measure."""
        key = request.query_params.get("key", panels.LOSS)
        if key not in self.live.traces.measures:
            raise HTTPException(404, "no such measure")
        return StreamingResponse(
            panels.table(self.live, key), media_type="text/csv",
            headers={"content-disposition": 'attachment; filename="panel.csv"'},
        )  # fmt: skip

    async def events(self, request: Request) -> Response:
        """Stream the points that are new since a version, and the names of the changed parts of the page."""
        if len(self.background.news) >= VIEWERS:
            raise HTTPException(503, "too many viewers")
        panel_names = tuple(dict.fromkeys(request.query_params.getlist("panel")))[:32]
        given = request.headers.get("last-event-id") or request.query_params.get("since")
        since = _number(given, 0)
        version = int(since) if self.live.first <= since <= self.live.version else -1
        answered = int(min(_number(request.query_params.get("answered"), -1), 1e9))
        news = asyncio.Event()
        self.background.news.add(news)  # before any await, so that simultaneous viewers are counted, too
        return _Stream(self._stream(panel_names, version, answered, news), self.background.news, news)

    async def _stream(
        self, panel_names: tuple[str, ...], since: int, answered: int, news: asyncio.Event
    ) -> AsyncIterator[bytes]:
        """Yield events; for a cursor from another server, the first one asks the page to reload."""
        try:
            if since < 0:
                since = self.live.version
                yield _event("reload", {}, since)
            started = False
            news.set()
            while not self.background.closing:
                if news.is_set():
                    news.clear()
                    points, reached = self._points(panel_names, since)
                    names = self._parts(since, answered)
                    if not started or reached != since or names:
                        yield points
                    if names:
                        answered = self.background.answered
                        yield _event("parts", {"names": names, "answered": answered}, reached)
                    started, since = True, reached
                else:
                    yield b": still here\n\n"
                with suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), _HEARTBEAT)
        finally:
            self.background.news.discard(news)

    def _parts(self, since: int, answered: int) -> list[str]:
        """Return the parts of the page that have changed since a version and a number of answers."""
        if answered != self.background.answered:
            return list(FRAGMENTS)
        kinds = [kind for kind, at in self.live.changed.items() if at > since]
        return sorted({name for kind in kinds for name in _SHOWN_IN.get(kind, ("answer",))})

    def _points(self, panel_names: tuple[str, ...], since: int) -> tuple[bytes, int]:
        """Return the event with new points; viewers of the same panels share it."""
        at = (panel_names, since, self.live.version)
        if at not in self._new:
            newer_points = panels.newer(self.live, panel_names, since)
            self._new = {} if len(self._new) > 32 else self._new
            at = (panel_names, since, newer_points["version"])
            self._new[at] = _event("points", newer_points, newer_points["version"])
        return self._new[at], at[2]


def _event(name: str, content: dict[str, Any], number: int) -> bytes:
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return f"id: {number}\nevent: {name}\ndata: {text}\n\n".encode()


def _found(content: Any) -> Response:
    if content is None:
        raise HTTPException(404, "not measured, or not kept")
    return JSONResponse(content)


def _number(text: str | None, default: float) -> float:
    try:
        value = float(text) if text else default
    except ValueError:
        return default
    return default if math.isnan(value) else value
