"""RSGI application: routes, rights, and errors as JSON.

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
from collections.abc import Callable
from typing import Any

import orjson

from tfagents_batch.errors import UserError
from tfagents_batch.serving.server import openapi
from tfagents_batch.serving.server.arrivals import GONE, Arrivals, Refused
from tfagents_batch.serving.server.endpoints import CONTENT_TYPE, Endpoints
from tfagents_batch.serving.server.settings import ServerSettings, is_loopback

_JSON, _HTML = "application/json", "text/html; charset=utf-8"
_JSON_HEADERS = [("content-type", _JSON)]
_BUSY_HEADERS = [*_JSON_HEADERS, ("retry-after", "1")]
_BUSY = orjson.dumps(
    {"error": "decisions wait for longer than --max_wait_ms; try again later"}
)
_OPEN = {"/healthz", "/readyz"}  # need no token
_ADMIN = {("POST", "/v1/model"), ("POST", "/v1/rollback")}  # need the admin's
_REPORT_SECONDS = 10.0  # between tracebacks, which would fill the disk
log = logging.getLogger(__name__)


class App:
    """RSGI application of the server.

    Attributes:
      active: number of requests that are being answered.
      arrivals: of bodies.
    """

    def __init__(self, endpoints: Endpoints, settings: ServerSettings):
        self.endpoints, self.active = endpoints, 0
        self.arrivals = Arrivals(settings.max_body, settings.request_seconds)
        self._token = settings.token.encode()
        self._admin_token = settings.admin_token.encode()
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
        self._texts: dict[str, tuple[str, Callable[[], str]]] = {
            "/metrics": (CONTENT_TYPE, endpoints.measures),
            "/openapi.json": (_JSON, lambda: json.dumps(self._document())),
            "/docs": (_HTML, lambda: openapi.page(self._document())),
        }
        self._reported = -_REPORT_SECONDS
        self._paths = {path for _, path in self._routes} | {*self._texts}

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        """Answer a request."""
        path, method, headers = scope.path, scope.method, _JSON_HEADERS
        start = time.perf_counter()
        queue = self.endpoints.queues.get(path)
        if queue is not None and queue.is_full():  # with as little work as possible
            protocol.response_bytes(429, _BUSY_HEADERS, _BUSY)
            self.endpoints.requests.add(path, 429, 0.0)
            return
        self.active += 1
        try:
            self._check(method, path, scope.headers)
            endpoint = self._routes.get((method, path))
            status = 200
            if endpoint is not None:
                body = b""
                if method == "POST":
                    body = await self.arrivals.read(scope.headers, protocol)
                    start = time.perf_counter()  # a slow client is no slow answer
                answer = endpoint(body)
                del body  # which may be long, and is not needed any more
                content = orjson.dumps(await answer)
            else:
                kind, content = self._page(method, path)
                headers = [("content-type", kind)]
        except Refused as error:
            status, content = error.status, _error(error)
            headers = [*_JSON_HEADERS]
            if error.retry_seconds is not None:
                headers.append(("retry-after", str(error.retry_seconds)))
            if status == 401:
                headers.append(("www-authenticate", "Bearer"))
        except UserError as error:
            status, content = 422, _error(error)
        except Exception as error:
            if time.monotonic() - self._reported > _REPORT_SECONDS:
                self._reported = time.monotonic()
                log.exception("%s failed", path)
            status, content = 500, _error(f"{type(error).__name__} in the server")
        self.active -= 1
        if status != GONE:
            protocol.response_bytes(status, headers, content)
        known = path if path in self._paths else "other"
        self.endpoints.requests.add(known, status, time.perf_counter() - start)

    def _page(self, method: str, path: str) -> tuple[str, bytes]:
        """Return the type and the content of a page."""
        if method == "GET" and path in self._texts:
            kind, text = self._texts[path]
            return kind, text().encode()
        if path in self._paths:
            raise Refused(405, f"{method} {path} is not possible; see /docs")
        raise Refused(404, f"there is no {path:.80}; see /docs")

    def _check(self, method: str, path: str, headers: Any) -> None:
        """Refuse requests without the right, and those of other web sites."""
        if not self._token:
            if "origin" in headers:
                # A page in a browser could otherwise send requests to this machine.
                text = "web pages may not send requests; start the server with --token"
                raise Refused(403, text)
            host = headers.get("host", "")
            if not _is_of_this_machine(host):
                # The name of a web site can be given the address 127.0.0.1.
                raise Refused(
                    403,
                    f"the header Host is {host!r:.80}; expected localhost or "
                    "127.0.0.1: start the server with --token for other names",
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
        if not needed:
            return
        scheme, _, token = headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(token.encode(), needed)
        if not (right and scheme.lower() == "bearer"):
            wrong = "the token is wrong; " if token else ""
            text = f"{wrong}expected the header Authorization: Bearer <token>"
            raise Refused(401, text)

    def _document(self) -> dict[str, Any]:
        description = self.endpoints.models.current.description
        return openapi.document(description, bool(self._token))


@functools.lru_cache(16)
def _is_of_this_machine(host: str) -> bool:
    """Return whether the header Host has a name or address of this machine."""
    parts = re.fullmatch(r"(?:\[(.*)\]|([^:]*))(?::\d+)?", host)
    return parts is not None and is_loopback(parts[1] or parts[2])


def _error(error: Exception | str) -> bytes:
    return json.dumps({"error": str(error)}).encode()  # also for half a character
