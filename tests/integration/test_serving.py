"""`brodmann serve` as a real process: what it says, how it stops, broken requests under load."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from tests.processes import finish, start

TEXTS = ["A wonderful film.", "Yesterday Susan Ashbury flew to Madrid.", "The soup was cold."]
BROKEN = [  # body, content type, status
    (b'{"inputs": ["A film."', "application/json", 422),
    (b'{"inputs": [7]}', "application/json", 422),
    (b'{"input": "A film.", "tasks": ["nothing"]}', "application/json", 422),
    (b'{"input": "\\ud800"}', "application/json", 422),
    (b'{"input": ["a", 1]}', "application/json", 422),
    (b"\xff\x00", "application/json", 422),
    (b"input=A+film.", "application/x-www-form-urlencoded", 415),
    (b'{"input": "' + b"x" * 30_000 + b'"}', "application/json", 422),
    (b" " * 1_100_000, "application/json", 413),
]
BROKEN_EVERY = 20  # requests: 5 %


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import brodmann as bm

    rows = [{"text": text, "label": place % 2} for place, text in enumerate(TEXTS * 4)]
    words = [{"tokens": text.split(), "tags": ["O"] * len(text.split())} for text in TEXTS]
    words[1]["tags"] = ["O", "B-PER", "I-PER", "O", "O", "B-LOC"]
    tasks = [
        bm.load_task("mood", kind="classification", train=rows, validation=rows),
        bm.load_task("names", kind="tokens", train=words, validation=words),
    ]
    place = tmp_path_factory.mktemp("served") / "model"
    bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks, device="cpu").save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def package(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model as an export, which starts much sooner."""
    import brodmann as bm

    rows = [{"text": text, "label": place % 2} for place, text in enumerate(TEXTS * 4)]
    data = [bm.load_task("mood", kind="classification", train=rows, validation=rows)]
    return bm.export(folder, to="onnx", out=tmp_path_factory.mktemp("exported") / "onnx", data=data)


class Server:
    """A server in a process of its own, at a port that was free."""

    def __init__(self, folder: Path, *options: object, **environment: str) -> None:
        words = ("-m", "brodmann", "serve", folder, "--device", "cpu", *options)
        if "--port" not in options:
            words += ("--port", 0)
        self.process = start(*words, OMP_NUM_THREADS="1", **environment)
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()
        found = re.search(r"at http://([^ ]+):(\d+)", self.said)
        if found is None:
            raise AssertionError((self.said, *self.process.communicate()))
        self.port = int(found[2])
        self.url = f"http://127.0.0.1:{self.port}"
        for _ in range(600):
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/ready").status_code == 200:
                    return
            time.sleep(0.05)
        raise AssertionError("not ready after thirty seconds")

    def ask(self, text: str, **more: Any) -> httpx.Response:
        return httpx.post(f"{self.url}/predict", json={"input": text, **more}, timeout=60)

    def metric(self, name: str) -> float:
        found = re.search(rf"^{name} (\S+)$", httpx.get(f"{self.url}/metrics").text, re.MULTILINE)
        assert found is not None, name
        return float(found[1])

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


@pytest.fixture
def serving(package: Path) -> Iterator[Callable[..., Server]]:
    started: list[Server] = []

    def begin(*options: object, folder: Path = package, **environment: str) -> Server:
        started.append(Server(folder, *options, **environment))
        return started[-1]

    yield begin
    for server in started:
        if server.process.poll() is None:
            server.process.kill()
        server.process.communicate()


async def load(server: Server, count: int, clients: int) -> tuple[Counter[int], list[Any]]:
    """Statuses of `count` requests, one of which in twenty is broken, and the wrong answers."""
    statuses: Counter[int] = Counter()
    wrong: list[Any] = []
    expected = [server.ask(text).json() for text in TEXTS]
    numbers = iter(range(count))

    async def client(asking: httpx.AsyncClient) -> None:
        for number in numbers:
            text = TEXTS[number % len(TEXTS)]
            body, kind, status = json.dumps({"input": text}).encode(), "application/json", 200
            if number % BROKEN_EVERY == 0:
                body, kind, status = BROKEN[number // BROKEN_EVERY % len(BROKEN)]
            response = await asking.post(
                f"{server.url}/predict", content=body, headers={"Content-Type": kind}
            )
            statuses[response.status_code] += 1
            found = response.json()
            if status == 200:
                right = alike(found, expected[number % len(TEXTS)])
            else:
                right = list(found) == ["error"] and "\n" not in found["error"]
            if response.status_code != status or not right:
                wrong.append((number, response.status_code, found))

    async with httpx.AsyncClient(timeout=60) as asking:
        await asyncio.gather(*(client(asking) for _ in range(clients)))
    return statuses, wrong


def alike(found: Any, expected: Any) -> bool:
    """Equal but for the last digits: texts that are read together are padded differently."""
    if isinstance(expected, float):
        return abs(found - expected) < 1e-4
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(alike(found[k], expected[k]) for k in found)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(alike, found, expected))
    return bool(found == expected)


def check_load(server: Server, count: int, clients: int) -> None:
    statuses, wrong = asyncio.run(load(server, count, clients))
    assert wrong == []
    assert statuses.total() == count
    assert statuses[200] == count - len(range(0, count, BROKEN_EVERY))
    assert server.metric("brodmann_requests_under_way") == 0


def test_every_request_is_answered_and_broken_ones_harm_nobody(
    serving: Callable[..., Server], folder: Path
) -> None:
    server = serving(folder=folder)
    assert server.said.startswith(f"{folder.parent.name}: 2 tasks at http://127.0.0.1:")
    check_load(server, 400, 8)
    # Requests that came together were read together.
    assert server.metric("brodmann_texts_per_reading_count") < 300
    code, out, err = server.stop()
    assert (code, out, err) == (0, "stopped: every request that had arrived was answered\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["folder", "package"])
def test_ten_thousand_requests_lose_nothing_and_leave_no_memory_behind(
    serving: Callable[..., Server], form: str, request: pytest.FixtureRequest
) -> None:
    server = serving(folder=request.getfixturevalue(form))
    check_load(server, 2000, 16)  # allocators and caches have their size
    before = psutil.Process(server.process.pid).memory_info().rss
    check_load(server, 10_000, 16)
    grown = psutil.Process(server.process.pid).memory_info().rss - before
    print(f"\nmemory: {before / 1e6:.0f} MB, grown by {grown / 1e6:.1f} MB")
    assert grown < 0.05 * before
    assert server.stop()[0] == 0


def let_wait(server: Server) -> None:
    """Let the next reading wait for as many texts as this one has."""
    many = httpx.post(f"{server.url}/predict", json={"inputs": TEXTS * 20}, timeout=60)
    assert len(many.json()["answers"]) == 60


def test_sigterm_answers_what_has_arrived(serving: Callable[..., Server]) -> None:
    """The next reading waits for a second; meanwhile the server is told to stop."""
    server = serving("--wait", 1, "--batch", 64)
    let_wait(server)

    async def ask_and_stop() -> list[httpx.Response]:
        async with httpx.AsyncClient(timeout=60) as asking:
            asked = [
                asyncio.create_task(asking.post(f"{server.url}/predict", json={"input": text}))
                for text in TEXTS * 3
            ]
            while server_under_way() < len(asked):
                await asyncio.sleep(0.02)
            server.process.send_signal(signal.SIGTERM)
            return await asyncio.gather(*asked)

    def server_under_way() -> float:
        return server.metric("brodmann_requests_under_way")

    responses = asyncio.run(ask_and_stop())
    assert [response.status_code for response in responses] == [200] * 9
    server.process.communicate(timeout=60)
    assert server.process.returncode == 0
    with pytest.raises(httpx.ConnectError):
        server.ask("A film.")


def test_ctrl_c_stops_without_an_error(serving: Callable[..., Server]) -> None:
    code, out, err = serving().stop(signal.SIGINT)
    assert (code, out, err) == (0, "stopped: every request that had arrived was answered\n", "")


def test_a_killed_server_leaves_nothing_behind(
    serving: Callable[..., Server], package: Path
) -> None:
    before = sorted(path.name for path in package.parent.rglob("*"))
    server = serving("--wait", 1, "--batch", 64)
    let_wait(server)
    body = json.dumps({"input": "A film."}).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        connection.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
        while server.metric("brodmann_requests_under_way") < 1:
            time.sleep(0.02)
        server.process.kill()  # the request is in the queue
        server.process.communicate()
        assert connection.recv(100) == b""
    again = serving("--port", server.port)  # at once, at the same port
    assert again.port == server.port
    assert again.ask("A film.").status_code == 200
    assert again.stop()[0] == 0
    assert sorted(path.name for path in package.parent.rglob("*")) == before


def test_a_body_that_never_ends_is_given_up(serving: Callable[..., Server]) -> None:
    server = serving("--timeout", 0.5)
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        head = "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
        connection.sendall(f"{head}Content-Type: application/json\r\n\r\n{{".encode())
        answer = connection.recv(4096)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert server.ask("A film.").status_code == 200


def test_a_key_in_the_environment_is_asked_for(serving: Callable[..., Server]) -> None:
    server = serving(BRODMANN_API_KEY="secret")
    assert server.ask("A film.").status_code == 401
    held = {"Authorization": "Bearer secret"}
    assert httpx.get(f"{server.url}/tasks", headers=held).json()["tasks"][0]["name"] == "mood"


def test_an_open_server_without_a_key_gives_a_warning(serving: Callable[..., Server]) -> None:
    server = serving("--host", "0.0.0.0")
    code, _, err = server.stop()
    assert code == 0
    assert err == (
        "brodmann: note: anyone who reaches 0.0.0.0 can ask this model: set BRODMANN_API_KEY to "
        "require a key\n"
    )


def test_what_is_wrong_at_the_start_is_one_line(
    folder: Path, tmp_path: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = command("serve", folder, "--port", port)
    assert (code, out) == (2, "")
    assert err == (
        f"brodmann: 127.0.0.1:{port} cannot be used (Address already in use): choose another "
        "--port, or 0 for any that is free\n"
    )
    code, _, err = command("serve", tmp_path / "nothing")
    assert (code, err) == (
        2,
        f"brodmann: {tmp_path / 'nothing'}: no such folder, expected a run or a model folder\n",
    )
    code, _, err = command("serve", folder, "--port", 70000)
    assert (code, err) == (
        2,
        "brodmann: port = 70000: expected a number from 0 (any free port) to 65535\n",
    )


def test_importing_the_room_loads_neither_torch_nor_fastapi() -> None:
    words = "import sys, brodmann.serving.server, brodmann.cli\n"
    words += (
        "print([n for n in ('torch', 'transformers', 'fastapi', 'uvicorn') if n in sys.modules])"
    )
    assert finish("-c", words) == (0, "[]\n", "")


def test_an_export_is_served_without_torch(
    serving: Callable[..., Server], folder: Path, package: Path, tmp_path: Path
) -> None:
    """Torch and what comes with it are hidden from the process that serves the export."""
    import brodmann as bm

    for name in ("torch", "transformers", "datasets", "sklearn", "scipy", "pyarrow", "jinja2"):
        (tmp_path / name).mkdir()
        missing = f"raise ModuleNotFoundError({name!r}, name={name!r})\n"
        (tmp_path / name / "__init__.py").write_text(missing)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    server = serving(PYTHONPATH=path)
    found = server.ask(TEXTS[0]).json()["answer"]
    model = bm.MultiTaskModel.from_pretrained(folder, device="cpu")
    assert alike(found, json.loads(json.dumps(model.predict_all([TEXTS[0]])[0])))
    assert httpx.get(f"{server.url}/").status_code == 200
    heads = httpx.post(f"{server.url}/heads", json={"task": "mood", "input": "a"})
    assert heads.status_code == 404
    code, _, err = finish("-m", "brodmann", "serve", folder, PYTHONPATH=path)
    assert code == 2
    assert err == (
        f"brodmann: {folder}: no brodmann.json in it, so it is no export, and a run or model needs "
        "'torch', which is not installed here: export it where it is\n"
    )
