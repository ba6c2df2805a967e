"""The schema that editors read agrees with what configurations may contain."""

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from brodmann.config.json_schema import config_schema

ROOT = Path(__file__).parents[3]
SCHEMA = config_schema()
EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_follow_the_schema(path: Path) -> None:
    jsonschema.validate(tomllib.loads(path.read_text()), SCHEMA)


@pytest.mark.parametrize(
    "wrong",
    [
        {"training": {"epoch": 3}},
        {"training": {"sampling": "randomly"}},
        {"model": {"architecture": "share"}},
        {"device": "gpu"},
        {"tasks": [{"name": "a", "kind": "classify"}]},
        {"seed": -1},
    ],
)
def test_mistakes_do_not(wrong: dict[str, Any]) -> None:
    right: dict[str, Any] = {"name": "a", "tasks": ["builtin/topic"]}
    jsonschema.validate(right, SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(right | wrong, SCHEMA)


def test_every_setting_has_a_description() -> None:
    for part in (SCHEMA, *SCHEMA["$defs"].values()):
        for name, field in part.get("properties", {}).items():
            assert field.get("description") or "$ref" in field, (part.get("title"), name)


def test_the_command_prints_or_writes_it(command: Any, tmp_path: Path) -> None:
    code, out, _ = command("schema")
    assert code == 0 and json.loads(out) == SCHEMA
    place = tmp_path / "brodmann.schema.json"
    code, out, _ = command("schema", "--out", place)
    assert code == 0 and json.loads(place.read_text()) == SCHEMA
    assert out == (f"wrote {place}; name it in a configuration's first line: #:schema {place}\n")
    code, _, err = command("schema", "--out", tmp_path)
    assert code == 2
    assert err == f"brodmann: {tmp_path}: is a folder, expected the name of a file\n"
