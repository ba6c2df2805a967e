"""Token ids: the same in pieces as at once, and a cache that never stands in the way."""

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import brodmann as bm
from brodmann.data import encoding
from brodmann.data.encoding import Encoded, pieces
from brodmann.errors import InputError


def arrays(encoded: Encoded) -> dict[str, Any]:
    found = {**vars(encoded), **encoded.labels, **encoded.places}
    return {name: value for name, value in found.items() if name not in ("labels", "places")}


def assert_same_encoding(one: Encoded, other: Encoded) -> None:
    ours, theirs = arrays(one), arrays(other)
    assert list(ours) == list(theirs)
    for name, value in ours.items():
        if isinstance(value, np.ndarray):
            assert value.dtype == theirs[name].dtype, name
            assert np.array_equal(value, theirs[name]), name
        else:
            assert value == theirs[name], name


@pytest.mark.parametrize("name", ["single", "pair", "many", "value", "pick", "where", "tag"])
@pytest.mark.parametrize("limits", [(5, 10**6), (1000, 60), (1, 10**6)])
def test_pieces_give_the_same_bits(
    tiny_model: Any,
    tasks_of_every_kind: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    limits: tuple[int, int],
) -> None:
    task = next(task for task in tasks_of_every_kind if task.name == name)
    long = [  # some that are cut, or read in several windows
        {**e, **{k: f"{e[k]} " * 40 for k in ("text", "context") if k in e}}
        for e in task.splits["train"]
    ]
    for examples in (task.splits["train"], long, long[:1]):
        whole = tiny_model.encode(task.spec, examples, cache=False)
        with monkeypatch.context() as patch:
            patch.setattr(encoding, "PIECE_ROWS", limits[0])
            patch.setattr(encoding, "PIECE_CHARACTERS", limits[1])
            assert_same_encoding(tiny_model.encode(task.spec, examples, cache=False), whole)


def test_pieces_have_few_rows_and_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "PIECE_ROWS", 3)
    monkeypatch.setattr(encoding, "PIECE_CHARACTERS", 100)
    assert list(pieces([])) == [(0, 0)]
    assert list(pieces([1] * 7)) == [(0, 3), (3, 6), (6, 7)]
    assert list(pieces([60, 30, 30, 500, 1])) == [(0, 2), (2, 3), (3, 4), (4, 5)]


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A task whose token ids go into a cache of this test's own."""
    monkeypatch.setenv("BRODMANN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(encoding, "_noted", set())
    rows = [{"text": f"the {i} cat", "label": i % 2} for i in range(20)]
    return bm.load_task("t", kind="classification", train=rows[:12], validation=rows[12:])


DAMAGES: dict[str, Any] = {
    "truncated": lambda content: content[:-100],
    "empty": lambda content: b"",
    "no archive": lambda content: b"x" * 500,
    "flipped bit in the data": lambda content: (
        content[:200] + bytes([content[200] ^ 1]) + content[201:]
    ),
    "another method of compression": lambda content: content.replace(
        b"PK\x01\x02-\x03-\x00\x00\x00\x00\x00", b"PK\x01\x02-\x03-\x00\x00\x00\x63\x00"
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_is_made_anew(
    tiny_model: Any, task: Any, tmp_path: Path, damage: str
) -> None:
    whole = tiny_model.encode(task.spec, task.splits["train"])
    (path,) = (tmp_path / "cache" / "tokens").iterdir()
    good = path.read_bytes()
    path.write_bytes(DAMAGES[damage](good))
    assert path.read_bytes() != good
    assert_same_encoding(tiny_model.encode(task.spec, task.splits["train"]), whole)
    assert path.read_bytes() == good


def test_a_cache_that_cannot_be_written_is_left_out(
    tiny_model: Any,
    task: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    whole = tiny_model.encode(task.spec, task.splits["train"], cache=False)
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("BRODMANN_CACHE", str(blocked))
    assert_same_encoding(tiny_model.encode(task.spec, task.splits["train"]), whole)
    assert_same_encoding(tiny_model.encode(task.spec, task.splits["validation"]), _validation(task))
    expected = (
        f"{blocked / 'tokens'}: cannot cache tokenised texts (Not a directory): continuing "
        "without; set BRODMANN_CACHE to another folder"
    )
    assert [record.getMessage() for record in caplog.records] == [expected]  # once, not per split


def _validation(task: Any) -> Encoded:
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", [task])
    return model.encode(task.spec, task.splits["validation"], cache=False)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_a_full_or_read_only_cache_stops_nothing(
    tiny_model: Any,
    task: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    number: int,
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    encoded = tiny_model.encode(task.spec, task.splits["train"])
    assert encoded.examples == 12
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path / 'cache' / 'tokens'}: cannot cache tokenised texts "
        f"({os.strerror(number)}): continuing without; set BRODMANN_CACHE to another folder"
    ]
    assert list((tmp_path / "cache" / "tokens").iterdir()) == []


def test_a_run_goes_on_without_a_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Any
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("BRODMANN_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(encoding, "_noted", set())
    config = tmp_path / "c.toml"
    config.write_text(
        f'name = "r"\noutput = "{tmp_path / "runs"}"\n[model]\nbackbone = "builtin:tiny"\n'
        "[training]\nmax_steps = 1\n"
        '[[tasks]]\nuse = "builtin/topic"\nlimit = { train = 30, validation = 20, test = 20 }\n'
    )
    code, out, err = command("train", config)
    assert (code, err) == (0, "")
    assert " ".join(out.split()).count("cannot cache tokenised texts") == 1


def test_an_error_of_the_kind_is_not_taken_for_the_cache(tiny_model: Any, task: Any) -> None:
    def broken(*_: Any) -> Encoded:
        raise InputError("what is wrong with the texts")

    from brodmann.data.kinds import classification

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classification, "encode", broken)
        with pytest.raises(InputError, match=r"^what is wrong with the texts$"):
            tiny_model.encode(task.spec, task.splits["train"])


def test_what_is_saved_does_not_depend_on_the_cache(task: Any, tmp_path: Path) -> None:
    texts = [{**example, "text": "the cat " * 100} for example in task.splits["train"]]
    for name in ("cold", "warm"):  # the second reads what the first has left
        model = bm.MultiTaskModel.from_pretrained("builtin:tiny", [task])
        model.encode(task.spec, texts)
        model.save_pretrained(tmp_path / name)
    files = [path.name for path in (tmp_path / "cold").iterdir()]
    assert "tokenizer.json" in files
    for name in files:
        assert (tmp_path / "cold" / name).read_bytes() == (tmp_path / "warm" / name).read_bytes()
