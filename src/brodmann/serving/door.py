"""The door of the application: API key, names of the host, headers and counts of every response."""

import hashlib
import hmac
import os
import time
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from brodmann.serving.monitoring import OTHER, Monitor

# The page and the probes of an orchestrator say nothing about the model.
OPEN = frozenset({"/", "/health", "/ready", "/openapi.json"})
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Door:
    """Middleware that refuses strangers and counts everybody."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        monitor: Monitor,
        paths: Collection[str],
        key: str | None,
        hosts: Collection[str] | None,
    ) -> None:
        self.app, self.monitor, self.paths, self.hosts = app, monitor, frozenset(paths), hosts
        self.digest = None if key is None else _digest(os.fsencode(key))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin, status = time.perf_counter(), 500
        path = scope["path"].removeprefix(scope.get("root_path", "")) or "/"

        async def with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            refused = self._refused(Headers(scope=scope), path)
            await (refused or self.app)(scope, receive, with_headers)
        finally:
            known = path if path in self.paths else OTHER
            self.monitor.answered(known, status, time.perf_counter() - begin)

    def _refused(self, headers: Headers, path: str) -> JSONResponse | None:
        if self.hosts is not None and host_name(headers.get("host", "")) not in self.hosts:
            # A foreign page may have let its own name point to this machine.
            names = ", ".join(sorted(self.hosts))
            return _answer(400, f"this server answers to the host names {names} only")
        if self.digest is None or path in OPEN:
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        sent = _digest(given.strip().encode("latin-1"))  # the bytes that came
        if scheme.lower() == "bearer" and hmac.compare_digest(sent, self.digest):
            return None
        return _answer(
            401,
            "expected the header Authorization: Bearer KEY with the server's key",
            {"WWW-Authenticate": "Bearer"},
        )


def _answer(status: int, reason: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": reason}, status, headers)


def _digest(key: bytes) -> bytes:
    """Of one length for all keys, so that comparing takes the same time for all."""
    return hashlib.sha256(key).digest()


def host_name(host: str) -> str:
    """The name in a Host header, without its port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
