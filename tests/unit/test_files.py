"""Files are whole or not there, folders have one writer, fingerprints tell values apart."""

import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from brodmann import files as artifacts
from brodmann.errors import InputError
from brodmann.models.saving import write_tensors


def test_a_failed_write_leaves_the_old_file_and_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    artifacts.write_text(path, "old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError) as caught:
        artifacts.write_text(path, "new")
    assert str(caught.value) == f"no disk space left to write {path}: free some and run again"
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(KeyError), artifacts.whole_folder(tmp_path / "f") as temporary:
        (temporary / "a").write_text("x")
        raise KeyError
    assert not list(tmp_path.iterdir())
    for text in ("one", "two"):
        with artifacts.whole_folder(tmp_path / "f") as temporary:
            (temporary / "a").write_text(text)
    assert (tmp_path / "f" / "a").read_text() == "two"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_leftovers_of_a_killed_process_are_swept(tmp_path: Path) -> None:
    (tmp_path / ".x.123.tmp").write_text("half")
    (tmp_path / ".step.1.tmp").mkdir()
    (tmp_path / "kept").write_text("whole")
    artifacts.sweep_leftovers(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]


def test_leftovers_are_swept_in_folders_of_the_run_but_not_in_other_runs(tmp_path: Path) -> None:
    for folder in ("figures", "seed-0/meta", "arm"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / ".heads.svg.1234abcd.tmp").write_text("half")
        (tmp_path / folder / ".model.1234abcd.old").mkdir()
        (tmp_path / folder / "kept").write_text("whole")
    (tmp_path / "arm" / ".lock").touch()  # a run of its own, which may be at work
    with artifacts.locked(tmp_path):
        found = sorted(
            str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.name != ".lock"
        )
    assert found == [
        "arm", "arm/.heads.svg.1234abcd.tmp", "arm/.model.1234abcd.old", "arm/kept", "figures",
        "figures/kept", "seed-0", "seed-0/meta", "seed-0/meta/kept",
    ]  # fmt: skip


def test_folders_are_flushed_after_files_are_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut could undo the rename, or leave an empty file under the final name."""
    done: list[str] = []
    sync, replace = os.fsync, Path.replace

    def name(path: Path | str) -> str:
        return re.sub(r"\.[0-9a-f]{8}\.", ".*.", Path(path).name)

    def synced(descriptor: int) -> None:
        done.append(f"sync {name(Path(f'/proc/self/fd/{descriptor}').readlink())}")
        sync(descriptor)

    def renamed(self: Path, target: Path) -> Path:
        done.append(f"{name(self)} to {name(target)}")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    folder = tmp_path / "run"
    artifacts.write_text(folder / "a.txt", "x")
    assert done == ["sync .a.txt.*.tmp", ".a.txt.*.tmp to a.txt", "sync run"]
    done.clear()
    with artifacts.whole_folder(folder / "model") as temporary:
        (temporary / "b").write_text("written by somebody else, who does not flush")
    assert done == [
        "sync b", "sync .model.*.tmp", ".model.*.tmp to model", "sync run",
    ]  # fmt: skip


def test_a_log_takes_whole_lines_or_none(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    artifacts.append_lines(log, [{"step": 1}, {"step": 2}])
    with open(log, "ab") as file:
        file.write(b'{"step": 3, "lo')  # a kill
    artifacts.append_lines(log, [{"step": 4}])
    assert [entry["step"] for entry in artifacts.read_lines(log)] == [1, 2, 4]


def test_a_log_on_a_full_disk_keeps_what_it_had(tmp_path: Path) -> None:
    """A limit of the shell stands for it: the first bytes fit, the rest does not."""
    import subprocess
    import sys

    log = tmp_path / "log.jsonl"
    script = f"""
from pathlib import Path
from brodmann.files import append_lines
append_lines(Path({str(log)!r}), [{{"step": 1}}])
try:
    append_lines(Path({str(log)!r}), [{{"text": "x" * 5000}}])
except ValueError as error:
    print(error)
"""
    command = f"ulimit -f 1; exec {sys.executable} -c '{script.replace(chr(39), chr(34))}'"
    finished = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (finished.stdout, finished.stderr) == (
        f"{log}: would become larger than this shell allows (ulimit -f): raise the limit and run "
        "again\n",
        "",
    )
    assert log.read_text() == '{"step": 1}\n'
    with pytest.raises(InputError, match=r"^no disk space left to write /dev/full: free some"):
        artifacts.append_lines(Path("/dev/full"), [{"step": 1}])


def test_a_locked_folder_is_refused(tmp_path: Path) -> None:
    with (
        artifacts.locked(tmp_path),
        pytest.raises(InputError) as caught,
        artifacts.locked(tmp_path),
    ):
        pass
    assert str(caught.value) == (
        f"{tmp_path}: another run is writing this folder: wait for it to end, or set another name"
    )
    with artifacts.locked(tmp_path):
        pass


def test_json_has_a_version_and_no_nan(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    artifacts.write_json(path, {"x": 1})
    assert artifacts.read_json(path) == {"schema_version": 1, "x": 1}
    with pytest.raises(ValueError, match="not JSON compliant"):
        artifacts.write_json(path, {"x": float("nan")})
    path.write_text('{"schema_version": 99}')
    with pytest.raises(InputError, match="is newer than 1, the newest this version reads: update"):
        artifacts.read_json(path)
    path.write_text("{}")
    with pytest.raises(InputError, match="has no schema_version, so Brodmann did not write it"):
        artifacts.read_json(path)


def test_fingerprints_tell_values_apart() -> None:
    values: list[Any] = [[1], ["1"], ["1", "2"], ["12"], np.arange(3), np.arange(3.0), b"1"]
    assert len({artifacts.digest(value) for value in values}) == len(values)
    assert artifacts.digest({"a": 1, "b": 2}) == artifacts.digest({"b": 2, "a": 1})


def test_a_log_without_the_line_that_is_cut_in_half(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    assert artifacts.read_lines(log) == []
    log.write_bytes(b'{"step": 1}\n7\n{"step": 2, "text": "caf\xc3\xa9"}\n{"step": 3, "te')
    assert [entry["step"] for entry in artifacts.read_lines(log)] == [1, 2]


def test_what_stopped_a_stage_is_said_though_its_time_cannot_be_written(tmp_path: Path) -> None:
    """A full disk stops the stage and its line of the log alike: the first is the reason."""
    from brodmann.pipeline.run_folder import timed

    with (
        pytest.raises(InputError, match="no disk space left"),
        timed(tmp_path / "gone", "training"),
    ):
        raise InputError("no disk space left")
    with pytest.raises(InputError), timed(tmp_path, "training"):
        raise InputError("stopped")
    (line,) = (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["stage"] == "training"  # it took its time all the same


def test_weights_that_do_not_fit_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """safetensors has an error of its own, with the system's in its words."""
    import safetensors.torch
    from safetensors import SafetensorError

    path = tmp_path / "model.safetensors"
    write_tensors(path, {"a": torch.ones(3)})
    artifacts.write_text(tmp_path / "a.txt", "x")
    assert path.stat().st_mode == (tmp_path / "a.txt").stat().st_mode  # whoever may read, may
    (tmp_path / "a.txt").unlink()

    def full(tensors: Any, name: Path, metadata: Any) -> None:
        name.write_bytes(b"half")
        raise SafetensorError("Error while serializing: I/O error: No space … (os error 28)")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(InputError, match="no disk space left to write"):
        write_tensors(path, {"a": torch.zeros(3)})
    assert load_file(path)["a"].tolist() == [1, 1, 1]
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]


def test_a_tokenizer_that_does_not_fit_on_the_disk(tiny_model: Any, tmp_path: Path) -> None:
    """tokenizers raises a bare Exception, with the system's error in its words."""

    class Full:
        def save_pretrained(self, folder: Path) -> None:
            raise Exception("No space left on device (os error 28)")

    model = type(tiny_model).__new__(type(tiny_model))
    model.__dict__.update(tiny_model.__dict__)
    model.tokenizer = Full()
    with pytest.raises(InputError) as error:
        model.save_pretrained(tmp_path / "m")
    assert str(error.value) == (
        f"no disk space left to write {tmp_path / 'm'}: free some and run again"
    )
    assert list(tmp_path.iterdir()) == []
