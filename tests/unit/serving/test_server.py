"""The socket of the server: its packets, its port, and what is wrong with an address."""

import asyncio
import re
import socket
import tomllib
from pathlib import Path

import pytest

from brodmann.errors import InputError
from brodmann.serving.server import _in_url, _listening

ROOT = Path(__file__).parents[3]


def test_small_packets_are_sent_at_once() -> None:
    """Otherwise every answer would wait 40 ms for the client's acknowledgement."""

    async def nodelay(place: socket.socket) -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted = writer.get_extra_info("socket")
            found.set_result(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        async with await asyncio.start_server(connected, sock=place):
            _, writer = await asyncio.open_connection(*place.getsockname())
            value = await asyncio.wait_for(found, 10)
            writer.close()
        return value

    with _listening("127.0.0.1", 0) as place:
        assert asyncio.run(nodelay(place)) != 0


def test_a_port_is_free_again_at_once() -> None:
    with _listening("127.0.0.1", 0) as place:
        place.listen()
        port = place.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted = place.accept()[0]
            accepted.close()  # the side that closes first keeps the address for a minute
            assert client.recv(1) == b""
    with _listening("127.0.0.1", port) as again:
        assert again.getsockname()[1] == port


@pytest.mark.parametrize(
    ("host", "port", "message"),
    [
        ("127.0.0.1", -1, r"^port = -1: expected a number from 0 \(any free port\) to 65535$"),
        ("no.such.host.invalid", 0, r"^host = 'no.such.host.invalid': no such address \(.*\)$"),
    ],
)
def test_what_is_wrong_with_an_address_is_said(host: str, port: int, message: str) -> None:
    with pytest.raises(InputError, match=message), _listening(host, port):
        pass


def test_addresses_of_the_sixth_version_have_brackets() -> None:
    assert (_in_url("::1"), _in_url("127.0.0.1")) == ("[::1]", "127.0.0.1")


def test_the_image_has_what_the_extras_and_the_command_line_need() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    typer = [name for name in project["dependencies"] if name.startswith("typer")]
    image = (ROOT / "serving.Dockerfile").read_text(encoding="utf-8")
    assert sorted(re.findall(r'"([a-z-]+>=[\d.]+)"', image)) == sorted(
        [*extras["runtime"], *extras["serve"], *typer]
    )
    page = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    installed = re.search(r"^pip install (onnxruntime .*)$", page, re.MULTILINE)
    assert installed is not None
    needed = [*extras["runtime"], *extras["serve"], *typer]
    assert sorted(installed[1].split()) == sorted(name.partition(">=")[0] for name in needed)
