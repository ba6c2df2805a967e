"""The server's process: address, key, signals."""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

from brodmann.data.answering.answer_texts import USUAL_BATCH
from brodmann.errors import InputError, note
from brodmann.serving.micro_batches import USUAL_WAIT
from brodmann.serving.opening import Servable, opened

KEY = "BRODMANN_API_KEY"
INSTALL = "pip install 'brodmann[serve]'"
HOST, PORT = "127.0.0.1", 8000


def serve(
    model: Servable,
    *,
    host: str = HOST,
    port: int = PORT,
    device: str = "auto",
    batch: int = USUAL_BATCH,
    wait: float = USUAL_WAIT,
    timeout: float = 30.0,
    max_texts: int = 256,
    max_length: int = 20_000,
    max_body: int = 1_000_000,
    max_requests: int = 256,
    say: Callable[[str], None] = print,
) -> None:
    """Serve a model over HTTP until Ctrl-C or SIGTERM; requests in flight are answered first.

    `model` is a run, a model or export folder, a model in memory, or any reader. `batch` texts are
    read together; a reading waits at most `wait` seconds for as many as the last one had. Requests
    that are larger than the limits, or that come when `max_requests` are under way, are refused;
    answers that take longer than `timeout` seconds are given up. With BRODMANN_API_KEY in the
    environment, requests need that key.
    """
    try:
        import uvicorn  # noqa: F401 (here, to say what is missing)

        from brodmann.serving.door import LOOPBACK
        from brodmann.serving.incoming import Limits
        from brodmann.serving.web import app
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("brodmann"):
            raise
        raise InputError(f"serving needs '{error.name}': {INSTALL}") from None
    limits = Limits(max_texts, max_length, max_body, max_requests, timeout)
    key = os.environ.get(KEY) or None
    with _listening(host, port) as place:  # before the model is loaded, which may take long
        local = host in LOOPBACK
        if not local and key is None:
            note(f"anyone who reaches {host} can ask this model: set {KEY} to require a key")
        found = opened(model, device)
        web = app(
            found,
            batch=batch,
            wait=wait,
            limits=limits,
            key=key,
            hosts=LOOPBACK if local and key is None else None,
        )
        address = f"http://{_in_url(host)}:{place.getsockname()[1]}"
        count = len(found.reader.specs)
        say(f"{found.name}: {count} task{'s' * (count != 1)} at {address} (Ctrl-C stops)")
        _run(web, place, timeout)
        web.state.work.close()
    say("stopped: every request that had arrived was answered")


def _run(web: Any, place: socket.socket, timeout: float) -> None:
    """Answer until a signal comes, and then what has arrived until then."""
    import uvicorn

    config = uvicorn.Config(
        web,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=int(timeout) + 5,
    )
    with _quiet_signals():
        uvicorn.Server(config).run(sockets=[place])


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket bound to the address; what is wrong with the address is one line."""
    if not 0 <= port <= 65535:
        raise InputError(f"port = {port}: expected a number from 0 (any free port) to 65535")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except OSError as error:
        raise InputError(f"host = '{host}': no such address ({error.strerror})") from None
    family, kind, protocol, _, place = found[0]
    # asyncio sends small packets at once only through sockets that name the protocol; through
    # others, every answer waits 40 ms for the client's acknowledgement.
    with socket.socket(family, kind, protocol) as bound:
        if os.name != "nt":  # a port that was in use a moment ago is free
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(place)
        except OSError as error:
            raise InputError(
                f"{host}:{port} cannot be used ({error.strerror}): choose another --port, or 0 for "
                "any that is free"
            ) from None
        yield bound


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@contextlib.contextmanager
def _quiet_signals() -> Iterator[None]:
    """Uvicorn raises a signal again when it has stopped, which would end us with an error."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = (signal.SIGINT, signal.SIGTERM)
    before: list[Any] = [signal.signal(name, lambda *_: None) for name in names]
    try:
        yield
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)
