"""Parts of a job's page: `make_app`, and `PageServer`, which runs it.

The file that a job reads, as `binlog-stream map` draws it, for the page: `FileMaps`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import msgspec
import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from binlog_format.errors import BinlogError, UnsupportedError
from binlog_format.messages import visible_json
from binlog_format.position import Position
from binlog_streaming.page_map.picture import describe
from binlog_streaming.status.model import Level
from binlog_streaming.status.page.guard import Access, Guard
from binlog_streaming.status.view import status_json

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    from binlog_streaming.page_map.picture import LegendLine, PictureFile
    from binlog_streaming.status.model import JobStatus, TableStatus
    from binlog_streaming.status.view import JobView, LogMeasure


CELLS_MAX = 2048
FILE_SIZE_MAX = 1 << 30
"""A larger file is not read for its picture; `binlog-stream map` draws it."""
KEPT_SECONDS = 30.0
"""A picture costs as much as reading the file: it is made when somebody asks, and no more often than this."""


class FileMaps:
    """Makes the picture; may be used by several threads. *path*: of the job's log; None: it reads none."""

    def __init__(self, view: JobView, path: str | None) -> None:
        self._view = view
        self._path = path
        self._lock = threading.Lock()
        self._made: tuple[float, int, bytes] | None = None

    def current(self) -> bytes:
        """The file that is read next, as JSON."""
        position = self._view.status().state.position
        if self._path is None or not position:
            raise UnsupportedError("FORMAT", "the job has no log to draw, or has not begun to read it")
        place = Position.parse(position)
        with self._lock:
            made = self._made
            if made is None or made[1] != place.file_no or time.monotonic() - made[0] > KEPT_SECONDS:
                made = time.monotonic(), place.file_no, self._draw(self._path, place)
                self._made = made
            return made[2]

    def _draw(self, path: str, place: Position) -> bytes:
        start, end = Position(place.file_no, 0, 0), Position(place.file_no + 1, 0, 0)
        described = describe(path, start, end, _check_size)
        if not described.picture.files:
            raise UnsupportedError("FORMAT", f"file {place.file_no} of the log is not there")
        file = described.picture.files[0]
        pages, cells = _cells(file)
        legend = [*described.picture.legend, *described.picture.more_legend]
        return _json(
            {
                "file": file.name,
                "size": file.size,
                "pages": len(file.amounts),
                "page_name": described.picture.page_name,
                "pages_in_cell": pages,
                "colors": file.colors,
                "cells": cells,
                "read_to": place.page // pages,
                "legend": [_legend(line) for line in legend],
                "findings": described.findings,
            }
        )


def _check_size(_done: int, total: int) -> None:
    # Told how much there is to read before most of it is read.
    if total > 2 * FILE_SIZE_MAX:
        raise UnsupportedError("FORMAT", "the file is too large to be drawn here", hint="binlog-stream map draws it")


def _cells(file: PictureFile) -> tuple[int, list[list[int]]]:
    """Pages in a cell, and for each cell how much of it has which colour, in 255ths."""
    pages = 1
    while -(-len(file.amounts) // pages) > CELLS_MAX:
        pages *= 2
    cells = -(-len(file.amounts) // pages)
    padded = np.zeros((cells * pages, file.amounts.shape[1]))
    padded[: len(file.amounts)] = file.amounts
    totals = padded.reshape(cells, pages, -1).sum(axis=1)
    shares = totals / np.maximum(totals.sum(axis=1, keepdims=True), 1)
    rounded: list[list[int]] = np.rint(shares * 255).astype(np.int64).tolist()
    return pages, rounded


def _legend(line: LegendLine) -> dict[str, str]:
    return {"sign": line.sign.name.lower(), "color": line.color, "label": line.label}


UPDATE_SECONDS = 2.0
"""Seconds between two updates of an open page."""

VIEWERS_MAX = 20
FORM_SIZE_MAX = 4096
LOGIN_PAUSE_SECONDS = 0.5
"""Pause after a wrong token, so that many attempts take long."""


class PageServer(uvicorn.Server):
    """Runs the application in the thread that calls `run`. *app*: it has `state.closing`, which is set at the end."""

    def __init__(self, page: Page) -> None:
        # Whoever embeds us has the signals, the log, and the choice of libraries.
        config = uvicorn.Config(
            page.app,
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=1,
        )
        super().__init__(config)
        self._page = page

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the connections of open pages, and end."""
        self._page.closing.set()
        await super().shutdown(sockets)


class Page:
    """The answers to all requests. *closing*: set when the job ends. *app*: the application, guarded."""

    def __init__(
        self, view: JobView, metrics_text: Callable[[], bytes], maps: FileMaps, access: Access, host: str | None
    ) -> None:
        self._view = view
        self._parts = PageParts(view)
        self._metrics_text = metrics_text
        self._maps = maps
        self._access = access
        self._viewers = 0
        self.closing = asyncio.Event()
        static = files("binlog_streaming.status.page") / "static"
        login = HTMLResponse((static / "login.html").read_bytes(), status_code=401)
        routes = [
            _file_route("/", (static / "index.html").read_bytes(), "text/html; charset=utf-8"),
            _file_route("/style.css", (static / "style.css").read_bytes(), "text/css; charset=utf-8"),
            _file_route("/icon.svg", (static / "icon.svg").read_bytes(), "image/svg+xml"),
            *(
                _file_route(f"/{name}.js", (static / f"{name}.js").read_bytes(), "text/javascript; charset=utf-8")
                for name in ("page", "charts", "texts")
            ),
            Route("/events", self._events),
            Route("/status.json", self._status),
            Route("/healthz", self._health),
            Route("/metrics", self._metrics),
            Route("/map.json", self._map),
            Route("/login", self._login, methods=["POST"]),
        ]
        self.app = Guard(Starlette(routes=routes), access, login, host)

    async def _events(self, _request: Request) -> Response:
        if self._viewers >= VIEWERS_MAX:
            return PlainTextResponse("too many look at this page\n", status_code=503)
        return StreamingResponse(self._changes(), media_type="text/event-stream")

    async def _changes(self) -> AsyncIterator[bytes]:
        """The present state, and then its changes."""
        self._viewers += 1
        try:
            sent: dict[str, bytes] = {}
            while not self.closing.is_set():
                parts = await run_in_threadpool(self._parts.parts)
                changed = (b'"%s":%s' % (name.encode(), part) for name, part in parts.items() if sent.get(name) != part)
                yield b"data: {%s}\n\n" % b",".join(changed)
                sent = parts
                try:
                    await asyncio.wait_for(self.closing.wait(), UPDATE_SECONDS)
                except TimeoutError:
                    continue
        finally:
            self._viewers -= 1

    async def _status(self, _request: Request) -> Response:
        return Response(await run_in_threadpool(whole_status, self._view), media_type="application/json")

    async def _health(self, _request: Request) -> Response:
        level = (await run_in_threadpool(self._view.status)).verdict.level
        return JSONResponse({"level": str(level)}, status_code=503 if level is Level.DANGER else 200)

    async def _metrics(self, _request: Request) -> Response:
        text = await run_in_threadpool(self._metrics_text)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _map(self, _request: Request) -> Response:
        try:
            drawn = await run_in_threadpool(self._maps.current)
        except (BinlogError, OSError) as error:
            return JSONResponse({"problem": str(error)})
        return Response(drawn, media_type="application/json")

    async def _login(self, request: Request) -> Response:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > FORM_SIZE_MAX:
                return PlainTextResponse("that is no token\n", status_code=413)
        (given, *_) = parse_qs(body.decode("latin-1")).get("token", [""])
        if not self._access.is_token(given.strip()):
            await asyncio.sleep(LOGIN_PAUSE_SECONDS)
            return RedirectResponse("/", status_code=303)
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(self._access.cookie_name, self._access.cookie, httponly=True, samesite="strict")
        return answer


def make_app(
    view: JobView,
    metrics_text: Callable[[], bytes],
    measure: LogMeasure | None,
    *,
    token: str | None,
    host: str | None,
    port: int,
) -> Page:
    """The page of one job.

    Args:
        metrics_text: Gives its metrics, in Prometheus' text format.
        measure: Measures its log; None: it reads none.
        token: What whoever looks has to give; None: nothing.
        host: The only name that the page has beside those of this machine; None: it may have any.
    """
    maps = FileMaps(view, None if measure is None else measure.path)
    return Page(view, metrics_text, maps, Access(token, port), host)


def _file_route(path: str, content: bytes, media_type: str) -> Route:
    async def answer(_request: Request) -> Response:
        return Response(content, media_type=media_type)

    return Route(path, answer)


TABLES_MAX = 500
"""Tables on the page: those with problems, and then those that changed last; `/status.json` has all."""


class PageParts:
    """Gives the parts; may be used by several threads."""

    def __init__(self, view: JobView) -> None:
        self._view = view
        self._lock = threading.Lock()
        self._made: tuple[JobStatus, dict[str, bytes]] | None = None

    def parts(self) -> dict[str, bytes]:
        """JSON of each part, by name."""
        status = self._view.status()
        with self._lock:
            if self._made is None or self._made[0] is not status:
                values = status_json(status)
                tables = status.state.tables
                values["tables"] = sorted(tables, key=_urgency)[:TABLES_MAX]
                values["tables_total"] = len(tables)
                self._made = status, {name: _json(value) for name, value in values.items()}
            return self._made[1]


def whole_status(view: JobView) -> bytes:
    """State of a job, as JSON."""
    return _json(status_json(view.status()))


def _urgency(table: TableStatus) -> tuple[bool, bool, float, str]:
    has_failed = table.snapshot is not None and table.snapshot.problem is not None
    is_well = table.set_aside is None and not has_failed
    return is_well, table.is_complete is not False, -(table.last_commit or 0), table.name


def _json(value: object) -> bytes:
    return visible_json(msgspec.json.encode(value))
