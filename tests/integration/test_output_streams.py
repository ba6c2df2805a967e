"""Output that a terminal or a pipe cannot show never stops a run."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

ODD = "é → 😀"
TASKS = """
[[tasks]]
name = "odd"
kind = "classification"
data = "t.csv"
"""


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_an_encoding_that_lacks_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    rows = "".join(f"text {i},{ODD if i % 2 else 'plain'}\n" for i in range(40))
    (tmp_path / "t.csv").write_text("text,label\n" + rows, "utf-8")
    config = tmp_path / "c.toml"
    config.write_text(
        f'name = "r"\noutput = "{tmp_path / "runs"}"\n{TASKS}[model]\nbackbone = "builtin:tiny"\n'
        "[training]\nmax_steps = 2\n"
    )

    def call(*words: object, given: str = "") -> tuple[int, str, str]:
        from brodmann.cli import main

        streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2)]
        monkeypatch.setattr(sys, "stdout", streams[0])
        monkeypatch.setattr(sys, "stderr", streams[1])
        monkeypatch.setattr(sys, "stdin", io.StringIO(given))
        monkeypatch.setattr(sys, "argv", ["brodmann", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = (_content(stream, encoding) for stream in streams)
        return int(stop.value.code or 0), out, err

    code, out, err = call("run", config)
    assert (code, err) == (0, "") and "report: " in out
    code, out, err = call("predict", tmp_path / "runs" / "r", given=f"{ODD}\n")
    answer: dict[str, Any] = json.loads(out)
    assert (code, err) == (0, "")
    assert answer["input"] == ODD and ODD in answer["odd"]["probabilities"]
    code, out, err = call("run", config, "--set", f"tasks.0.label={ODD}")
    shown = ODD.encode(encoding, "backslashreplace").decode(encoding)
    assert code == 2 and f"needs the column '{shown}' (label)" in err
    for words in (["tasks"], ["doctor"], ["reproduce"], ["report", tmp_path / "runs/r", "--text"]):
        assert call(*words)[::2] == (0, ""), words


def _content(stream: io.TextIOWrapper, encoding: str) -> str:
    stream.flush()
    found = stream.buffer
    assert isinstance(found, io.BytesIO)
    return found.getvalue().decode(encoding)
