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
    shown = ODD.encode(encoding, "stand-ins").decode(encoding)
    assert encoding == "utf-8" or ("->" in shown and "\\U0001f600" in shown)
    assert code == 2 and f"needs the column '{shown}' (label)" in err
    for words in (["tasks"], ["doctor"], ["reproduce"], ["report", tmp_path / "runs/r", "--text"]):
        assert call(*words)[::2] == (0, ""), words


def _content(stream: io.TextIOWrapper, encoding: str) -> str:
    stream.flush()
    found = stream.buffer
    assert isinstance(found, io.BytesIO)
    return found.getvalue().decode(encoding)


HOSTILE = "\x1b]0;owned\x07\x1b[2J<img src=x onerror=alert(1)> | `x` [a](http://b)\x9b31m\u202e"


def test_labels_steer_neither_a_terminal_nor_a_model_card(
    tmp_path: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"text": f"text {i}", "label": HOSTILE if i % 2 else "plain"} for i in range(40)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = tmp_path / "c.toml"
    config.write_text(
        f'name = "r"\noutput = "{tmp_path / "runs"}"\n[model]\nbackbone = "builtin:tiny"\n'
        f"[training]\nmax_steps = 2\n{TASKS.replace('t.csv', 't.jsonl')}"
    )
    said = [command("run", config), command("report", tmp_path / "runs" / "r", "--text")]
    said.append(command("run", config, "--set", f"tasks.0.label={HOSTILE}"))
    said.append(command("run", config, "--set", f"model.backbone={tmp_path}/{HOSTILE}"))
    monkeypatch.setattr(sys, "stdin", io.StringIO("text 3\n"))
    said.append(command("predict", tmp_path / "runs" / "r"))
    assert [code for code, _, _ in said] == [0, 0, 2, 2, 0]
    assert list(json.loads(said[-1][1])["odd"]["probabilities"]) == [HOSTILE, "plain"]
    for _, out, err in said:
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(out + err)
    assert "needs the column '\\u001b]0;owned\\u0007\\u001b[2J<img" in said[2][2]
    card = (tmp_path / "runs" / "r" / "model" / "README.md").read_text("utf-8")
    assert (
        "\\\\u001b\\]0;owned\\\\u0007\\\\u001b\\[2J&lt;img src=x onerror=alert(1)&gt; \\| "
        "\\`x\\` \\[a\\](http://b)\\\\u009b31m\\\\u202e, plain |"
    ) in card


def test_colours_and_bars_still_reach_a_terminal() -> None:
    from brodmann.terminal.width import LastingConsole

    shown = io.StringIO()
    console = LastingConsole(file=shown, force_terminal=True, color_system="standard", width=80)
    console.print("[red]a label \x1b[2J[/red]", highlight=False)
    with console.status("going on"):
        pass
    text = shown.getvalue()
    assert text.startswith("\x1b[31ma label \\u001b[2J\x1b[0m\n") and "\x1b[?25l" in text


def test_our_own_signs_have_ascii_stand_ins() -> None:
    import brodmann.cli  # noqa: F401 (registers the handler)

    text = "reading … “a” → ▓░ – p ≤ 0.05, 6 layers × 12 heads"
    shown = text.encode("ascii", "stand-ins").decode("ascii")
    assert shown == 'reading ... "a" -> +. - p <= 0.05, 6 layers x 12 heads'
    assert "é…".encode("ascii", "stand-ins") == b"\\xe9..."
