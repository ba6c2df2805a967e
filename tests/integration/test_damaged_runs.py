"""Run folders with files that were cut or lost: named by every command that reads them."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two finished runs, `a` and `b`."""
    from brodmann.cli import main

    output = tmp_path_factory.mktemp("finished")
    for name, steps in (("a", 2), ("b", 3)):
        config = output / f"{name}.toml"
        config.write_text(
            f'name = "{name}"\noutput = "{output}"\n'
            '[model]\nbackbone = "builtin:tiny"\n[map]\nexamples = 8\n'
            f"[training]\nmax_steps = {steps}\n[dissociation]\ndraws = 1\nresamples = 5\n"
            + "".join(
                f'[[tasks]]\nuse = "builtin/{task}"\n'
                "limit = { train = 24, validation = 12, test = 12 }\n"
                for task in ("topic", "sentiment")
            )
        )
        with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as stop:
            patch.setattr(sys, "argv", ["brodmann", "run", str(config)])
            main()
        assert not stop.value.code
    return output


def without(key: str) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        document = json.loads(content)
        del document[key]
        return json.dumps(document).encode()

    return change


MISSING = "damaged ('{}' is missing or of another form): remove it and run again"
RESTORE = "remove the folder, or restore it"


@pytest.mark.parametrize(
    ("name", "damage", "words", "message"),
    [
        ("metrics.json", without("splits"), ["run", "{a}"], MISSING.format("splits")),
        ("provenance.json", without("data"), ["evaluate", "{a}"], MISSING.format("data")),
        ("provenance.json", without("data"), ["report", "{a}"], MISSING.format("data")),
        ("provenance.json", without("sittings"), ["map", "{a}"], MISSING.format("sittings")),
        (
            "evaluated.npz",
            lambda content: content[:-200],
            ["compare", "{a}", "{b}"],
            "damaged (File is not a zip file): remove it and run again",
        ),
        (
            "evaluated.npz",
            lambda content: b"",
            ["compare", "{a}", "{b}"],
            "damaged (No data left in file): remove it and run again",
        ),
        (
            "dissociation.json",
            lambda content: json.dumps({**json.loads(content), "settings": []}).encode(),
            ["report", "{a}"],
            "not a dissociation (settings: expected a table, found [])",
        ),
        (
            "config.toml",
            lambda content: b"x = " + b"[" * 5000,
            ["report", "{a}"],
            f"damaged (tables or lists are nested too deeply): {RESTORE}",
        ),
        (
            "config.toml",
            lambda content: b"\xff",
            ["compare", "{a}", "{b}"],
            "damaged ('utf-8' codec can't decode byte 0xff in position 0: invalid start byte): "
            + RESTORE,
        ),
    ],
)
def test_what_is_damaged_is_named(
    finished: Path,
    tmp_path: Path,
    command: Command,
    name: str,
    damage: Callable[[bytes], bytes],
    words: list[str],
    message: str,
) -> None:
    for run in ("a", "b"):
        shutil.copytree(finished / run, tmp_path / run)
    path = tmp_path / "a" / name
    path.write_bytes(damage(path.read_bytes()))
    paths: dict[str, Any] = {"a": tmp_path / "a", "b": tmp_path / "b"}
    code, _, err = command(*(word.format(**paths) for word in words))
    assert (code, err) == (2, f"brodmann: {path}: {message}\n")
