"""ASGI application: routes, authorization, limits of bodies, and errors as JSON.

There is no framework between the HTTP server and the endpoints, which saves most of the
time of a small request.
"""

from __future__ import annotations

import functools
import hmac
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from tfagents_batch.errors import UserError
from tfagents_batch.serving.server import measures, openapi
from tfagents_batch.serving.server.endpoints import Endpoints
from tfagents_batch.serving.server.refused import Refused
from tfagents_batch.serving.server.settings import is_loopback

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

_JSON, _HTML = b"application/json", b"text/html; charset=utf-8"
_OPEN = {"/healthz", "/readyz"}  # need no token
_ADMIN = {("POST", "/v1/model"), ("POST", "/v1/rollback")}  # need the admin's
_GONE = 499  # status of requests whose client is gone, in measures only
_REPORT_SECONDS = 10.0  # between tracebacks, which would fill the disk
log = logging.getLogger(__name__)


class App:
    """ASGI application of the server.

    Args:
      endpoints: what it answers with.
      token: what requests have to bring; "" for none.
      admin_token: what requests that change the export have to bring instead; "" to
        refuse them.
      max_body: bytes of a body.
      on_start, on_stop: called in the event loop before the first request and after
        the last one.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        token: str,
        admin_token: str,
        max_body: int,
        on_start: Callable[[], None],
        on_stop: Callable[[], Awaitable[None]],
    ):
        self._endpoints, self._max_body = endpoints, max_body
        self._token, self._admin_token = token.encode(), admin_token.encode()
        self._on_start, self._on_stop = on_start, on_stop
        self._routes = {
            ("POST", "/v1/act"): endpoints.act,
            ("POST", "/v1/predict"): endpoints.predict,
            ("POST", "/v1/feedback"): endpoints.feedback,
            ("GET", "/v1/model"): endpoints.model,
            ("POST", "/v1/model"): endpoints.load,
            ("POST", "/v1/rollback"): endpoints.roll_back,
            ("GET", "/healthz"): endpoints.health,
            ("GET", "/readyz"): endpoints.readiness,
        }
        self._texts = {
            "/metrics": (measures.CONTENT_TYPE, endpoints.measures),
            "/openapi.json": (_JSON, lambda: json.dumps(self._document())),
            "/docs": (_HTML, lambda: openapi.page(self._document())),
        }
        self._reported = -_REPORT_SECONDS
        self._paths = {path for _, path in self._routes} | {*self._texts}

    @property
    def version(self) -> str:
        """Version of the export that answers."""
        return self._endpoints.models.current.description.version

    async def __call__(self, scope: dict, receive: Receive, send: Send) -> None:
        """Serve a request, or the start and the end of the server."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)

    async def _serve(self, scope: dict, receive: Receive, send: Send) -> None:
        path, kind, headers = scope["path"], _JSON, []
        start = time.perf_counter()
        try:
            self._check_headers(scope["method"], path, scope["headers"])
            endpoint = self._routes.get((scope["method"], path))
            if endpoint is not None:
                body = await _body(receive, self._max_body)
                start = time.perf_counter()  # a slow client is no slow answer
                status, text = 200, json.dumps(await endpoint(body))
            else:
                status = 200
                kind, text = self._text(scope["method"], path)
        except Refused as error:
            status, text = error.status, _error(error)
            if error.retry_seconds is not None:
                headers.append((b"retry-after", str(error.retry_seconds).encode()))
            if status == 401:
                headers.append((b"www-authenticate", b"Bearer"))
        except UserError as error:
            status, text = 422, _error(error)
        except Exception as error:
            if time.monotonic() - self._reported > _REPORT_SECONDS:
                self._reported = time.monotonic()
                log.exception("%s failed", path)
            status, text = 500, _error(f"{type(error).__name__} in the server")
        if status != _GONE:
            await _send(send, status, kind, text, headers)
        known = path if path in self._paths else "other"
        self._endpoints.requests.add(known, status, time.perf_counter() - start)

    def _text(self, method: str, path: str) -> tuple[bytes, str]:
        """Return the type and the text of a page."""
        if method == "GET" and path in self._texts:
            kind, text = self._texts[path]
            return kind, text()
        if path in self._paths:
            raise Refused(405, f"{method} {path} is not possible; see /docs")
        raise Refused(404, f"there is no {path}; see /docs")

    def _check_headers(self, method: str, path: str, headers: Headers) -> None:
        """Refuse requests without the right, of other web sites, and of long bodies."""
        scheme = token = host = b""
        for name, value in headers:
            if name == b"content-length":
                if int(value) > self._max_body:
                    raise _too_long(int(value), self._max_body)
            elif name == b"authorization":
                scheme, _, token = value.partition(b" ")
            elif name == b"host":
                host = value
            elif name == b"origin" and not self._token:
                # A page in a browser could otherwise send requests to this machine.
                raise Refused(
                    403,
                    "web pages may not send requests; start the server with --token",
                )
        if not self._token and not _is_of_this_machine(host):
            # The name of a web site can be given the address 127.0.0.1.
            raise Refused(
                403,
                f"the header Host is {host.decode(errors='replace')!r:.80}; expected "
                "localhost or 127.0.0.1: start the server with --token for other names",
            )
        if (method, path) in _ADMIN:
            needed = self._admin_token
            if not needed:
                raise Refused(
                    403,
                    "requests may not change the export; start the server with "
                    "--admin_token",
                )
        else:
            needed = b"" if path in _OPEN else self._token
        right = hmac.compare_digest(token, needed)
        if needed and not (right and scheme.lower() == b"bearer"):
            raise Refused(401, "expected the header Authorization: Bearer <token>")

    def _document(self) -> dict[str, Any]:
        description = self._endpoints.models.current.description
        return openapi.document(description, bool(self._token))

    async def _live(self, receive: Receive, send: Send) -> None:
        """Start and stop with the HTTP server."""
        await receive()  # lifespan.startup
        self._on_start()
        self._endpoints.ready = True
        await send({"type": "lifespan.startup.complete"})
        await receive()  # lifespan.shutdown
        self._endpoints.ready = False
        await self._on_stop()
        await send({"type": "lifespan.shutdown.complete"})


@functools.lru_cache(16)
def _is_of_this_machine(host: bytes) -> bool:
    """Return whether the header Host has a name or address of this machine."""
    found = re.fullmatch(r"(?:\[(.*)\]|([^:]*))(?::\d+)?", host.decode("latin-1"))
    return found is not None and is_loopback(found[1] or found[2])


async def _body(receive: Receive, most: int) -> bytes:
    """Return the body of a request.

    Raises:
      Refused: with 413 if it is too long.
    """
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(_GONE, "the client is gone")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise _too_long(size, most)
        more = message.get("more_body", False)
    return b"".join(parts)


def _too_long(size: int, most: int) -> Refused:
    return Refused(
        413,
        f"the body has {size:,} bytes; expected at most {most:,}: send less, or start "
        "the server with a larger --max_body",
    )


def _error(error: Exception | str) -> str:
    return json.dumps({"error": str(error)})


async def _send(
    send: Send, status: int, kind: bytes, text: str, headers: Headers
) -> None:
    body = text.encode()
    length = str(len(body)).encode()
    headers += [(b"content-type", kind), (b"content-length", length)]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
