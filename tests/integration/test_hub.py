"""Trained models travel over the hub: uploaded, downloaded, pinned, read from the cache."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tests.hub_server import READER, WRITER, Hub, hub_on_loopback
from tests.run_folders import write_run

import brodmann as bm
from brodmann.files import write_json

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """The loopback hub as this process's hub, with an empty cache and a token that may write."""
    from huggingface_hub import constants

    with hub_on_loopback() as running:
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(
            constants.ENDPOINT, running.address
        )
        monkeypatch.setattr(constants, "ENDPOINT", running.address)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        monkeypatch.setenv("HF_TOKEN", WRITER)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
        yield running


@pytest.fixture(scope="module")
def model() -> Any:
    return bm.MultiTaskModel.from_pretrained("builtin:tiny", [_spec("mood"), _spec("topic")])


def _spec(name: str, **more: Any) -> bm.TaskSpec:
    return bm.TaskSpec(
        name=name,
        kind="classification",
        columns={"text": "text", "label": "label"},
        labels=("bad", "good"),
        metric="accuracy",
        metrics=("accuracy", "macro_f1"),
        **more,
    )


def _message(call: Callable[[], Any]) -> str:
    with pytest.raises(bm.InputError) as error:
        call()
    return str(error.value)


def _header(card: bytes) -> dict[str, Any]:
    return dict(yaml.safe_load(card.decode().split("---\n")[1]))


@pytest.mark.long
def test_a_pushed_model_is_private_and_another_process_loads_it(
    hub: Hub, model: Any, tmp_path: Path
) -> None:
    address = model.push_to_hub("user/small", commit_message="First try")
    there = hub.repositories["user/small"]
    assert there.private and there.messages[-1] == "First try"
    assert address == f"{hub.address}/user/small/commit/{there.branches['main']}"
    files = there.commits[there.branches["main"]]
    assert {name.rpartition(".")[2] for name in files} == {
        "gitattributes", "json", "md", "safetensors"
    }  # fmt: skip
    assert WRITER.encode() not in b"".join(files.values())
    code = (
        "import brodmann as bm, json\n"
        "model = bm.MultiTaskModel.from_pretrained('user/small')\n"
        "print(json.dumps(model.predict('mood', ['a fine day'])))\n"
    )
    assert json.loads(_in_another_process(code, hub, tmp_path)) == model.predict(
        "mood", ["a fine day"]
    )


def _in_another_process(code: str, hub: Hub, folder: Path) -> str:
    """Run Python code with the hub, an empty cache and a token that may write."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": ":".join(filter(None, sys.path)),
        "HF_ENDPOINT": hub.address,
        "HF_HOME": str(folder / "another home"),
        "HF_TOKEN": WRITER,
        "HF_HUB_DISABLE_XET": "1",
        "NO_PROXY": "127.0.0.1,localhost",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_loaded_model_comes_from_the_cache_without_the_hub(
    hub: Hub, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    model.push_to_hub("user/small")
    bm.MultiTaskModel.from_pretrained("user/small")
    before = len(hub.requests)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    again = bm.MultiTaskModel.from_pretrained("user/small")
    sha = hub.repositories["user/small"].branches["main"]
    bm.MultiTaskModel.from_pretrained("user/small", revision=sha)
    assert len(hub.requests) == before
    assert torch.equal(_weights(again), _weights(model))
    assert _message(lambda: bm.MultiTaskModel.from_pretrained("user/other", revision="v1")) == (
        "user/other: no such folder, not in the cache of this machine at revision 'v1', and the "
        "hub is switched off (HF_HUB_OFFLINE)"
    )


def _weights(model: Any) -> torch.Tensor:
    return torch.cat([value.flatten().float() for value in model.state_dict().values()])


def test_a_revision_is_a_branch_or_a_commit(hub: Hub, model: Any) -> None:
    model.push_to_hub("user/small")
    first = hub.repositories["user/small"].branches["main"]
    other = bm.MultiTaskModel.from_pretrained("builtin:tiny", [_spec("mood")], seed=1)
    other.push_to_hub("user/small")
    other.push_to_hub("user/small", revision="experiment")
    assert set(hub.repositories["user/small"].branches) == {"main", "experiment"}
    load = bm.MultiTaskModel.from_pretrained
    assert list(load("user/small").specs) == ["mood"]
    assert list(load("user/small", revision="experiment").specs) == ["mood"]
    assert list(load("user/small", revision=first).specs) == ["mood", "topic"]
    assert _message(lambda: load("user/small", revision="v9")) == (
        "user/small: has no revision 'v9' on the hub"
    )


def test_only_files_that_are_read_are_downloaded(hub: Hub, model: Any, tmp_path: Path) -> None:
    model.push_to_hub("user/small")
    there = hub.repositories["user/small"]
    more = {
        "pytorch_model.bin": b"\x80pickle",
        "modeling.py": b"raise SystemExit",
        "more/model.safetensors": b"1",
    }
    there.commit("main", {**there.commits[there.branches["main"]], **more}, "hostile")
    bm.MultiTaskModel.from_pretrained("user/small")
    got = {path.name for path in (tmp_path / "hub").rglob("snapshots/*/**/*") if path.is_file()}
    assert not got & {"pytorch_model.bin", "modeling.py", "README.md"}
    assert {"model.safetensors", "config.json", "checksums.json", "tokenizer.json"} <= got
    assert not [line for line in hub.requests if "more/" in line or "pytorch_model" in line]


def test_files_that_do_not_match_their_checksums_are_named(
    hub: Hub, model: Any, tmp_path: Path
) -> None:
    model.push_to_hub("user/small")
    there = hub.repositories["user/small"]
    files = there.commits[there.branches["main"]]
    weights = files["model.safetensors"]
    there.commit("main", {**files, "model.safetensors": weights[:-1] + b"?"}, "changed")
    cache = tmp_path / "hub" / "models--user--small"
    assert _message(lambda: bm.MultiTaskModel.from_pretrained("user/small")) == (
        "user/small: model.safetensors: does not match its checksum: remove "
        f"{cache} to download it again; if that does not help, the repository itself is damaged"
    )
    sums = json.loads(files["checksums.json"])
    sums["files"]["/dev/zero"] = "0"
    there.commit("main", {**files, "checksums.json": json.dumps(sums).encode()}, "endless")
    assert _message(lambda: bm.MultiTaskModel.from_pretrained("user/small")) == (
        "user/small: checksums.json: lists '/dev/zero', which is not a file of this folder: remove "
        f"{cache} to download it again; if that does not help, the repository itself is damaged"
    )


def test_a_repository_that_is_no_trained_model_is_named(hub: Hub, model: Any) -> None:
    load = bm.MultiTaskModel.from_pretrained
    hub.add("user/bert", {"config.json": b'{"model_type": "bert"}', "model.safetensors": b"1"})
    hub.add("user/empty", {})
    assert _message(lambda: load("user/bert")) == (
        "user/bert: not a trained multi-task model: give the tasks to build one"
    )
    assert not [line for line in hub.requests if "safetensors" in line]
    assert _message(lambda: load("user/empty")) == (
        "user/empty: not a trained multi-task model (it has no config.json): give the tasks to "
        "build one"
    )
    model.push_to_hub("user/small")
    assert _message(lambda: load("user/small", [_spec("mood")])) == (
        "backbone 'user/small': its config.json names no model_type, so it is no backbone; if it "
        "is a trained multi-task model, leave 'tasks' out"
    )


def test_what_may_not_be_read_or_does_not_exist_is_named(
    hub: Hub, model: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    load = bm.MultiTaskModel.from_pretrained
    model.push_to_hub("user/small")
    absent = (
        "no such folder, and no such model on the hub that you may read: if it is private, log in "
        "with `hf auth login`, or set HF_TOKEN"
    )
    assert _message(lambda: load("user/nothing")) == f"user/nothing: {absent}"
    assert _message(lambda: load("user/small", token=READER)) == f"user/small: {absent}"
    assert _message(lambda: load("user/small", token=False)) == f"user/small: {absent}"
    assert list(load("user/small", token=WRITER).specs) == ["mood", "topic"]
    assert _message(lambda: load("a/b/c")) == (
        "a/b/c: not a trained multi-task model: give the tasks to build one"
    )
    model.save_pretrained(tmp_path / "m")
    assert _message(lambda: load(tmp_path / "m", revision="v1")) == (
        f"{tmp_path / 'm'}: revision = 'v1': only models on the hub have revisions, and this is a "
        "folder"
    )


def test_a_token_that_the_hub_does_not_know(hub: Hub, model: Any) -> None:
    assert _message(lambda: bm.MultiTaskModel.from_pretrained("user/x", token="hf_forged")) == (
        "user/x: the hub does not know the token: log in with `hf auth login`, or set HF_TOKEN"
    )
    assert _message(lambda: model.push_to_hub("user/small", token="hf_forged")) == (
        "user/small: not uploaded: the hub does not know the token: log in with `hf auth login`, "
        "or set HF_TOKEN"
    )


def test_an_upload_that_cannot_be_is_named_before_anything_is_created(
    hub: Hub, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    hub.add("other/theirs", {})
    hub.add("user/bert", {"pytorch_model.bin": b"1", "config.json": b"{}"})
    no_right = (
        "not uploaded: the token may not write there: use a repository of your own, or a token "
        "with the right to write"
    )
    assert _message(lambda: model.push_to_hub("other/new")) == f"other/new: {no_right}"
    assert _message(lambda: model.push_to_hub("other/theirs")) == f"other/theirs: {no_right}"
    assert _message(lambda: model.push_to_hub("user/bert")) == (
        "user/bert: already contains other files (config.json): upload to a new repository"
    )
    for name in ("small", "user/a b", "user/a/b", ""):
        assert _message(lambda name=name: model.push_to_hub(name)) == (  # type: ignore[misc]
            f"'{name}': not a repository of the hub, expected user/name"
        )
    monkeypatch.delenv("HF_TOKEN")
    assert _message(lambda: model.push_to_hub("user/small")) == (
        "user/small: uploading needs a token with the right to write: log in with `hf auth login`, "
        "or set HF_TOKEN"
    )
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert _message(lambda: model.push_to_hub("user/small", token=WRITER)) == (
        "user/small: not uploaded: http://127.0.0.1:9 cannot be reached"
    )
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert _message(lambda: model.push_to_hub("user/small", token=WRITER)) == (
        "user/small: not uploaded: the hub is switched off (HF_HUB_OFFLINE)"
    )
    assert set(hub.repositories) == {"other/theirs", "user/bert"}


def test_the_published_files_name_no_folder_of_this_machine(
    hub: Hub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "secret place" / "encoder"
    tiny = bm.MultiTaskModel.from_pretrained("builtin:tiny", [_spec("mood")])
    tiny.bare_models()[0].save_pretrained(folder)
    tiny.tokenizer.save_pretrained(folder)
    private = bm.MultiTaskModel.from_pretrained(
        folder, [_spec("mood", source=f"{folder}/mine.csv"), _spec("topic", source="hub:a/b/c")]
    )
    hub.add("user/small", {})
    private.push_to_hub("user/small")
    assert [record.getMessage() for record in caplog.records if record.name == "brodmann"] == [
        "user/small already exists and is public"
    ]
    there = hub.repositories["user/small"]
    files = there.commits[there.branches["main"]]
    assert b"secret place" not in b"".join(files.values())
    assert "on `encoder`" in files["README.md"].decode()
    header = _header(files["README.md"])
    assert "base_model" not in header and header["datasets"] == ["a/b"]


def test_a_run_is_pushed_with_its_scores_and_head_map(
    hub: Hub, command: Command, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    write_run(run, ["mood", "sst2"])
    small = bm.MultiTaskModel.from_pretrained(
        "builtin:tiny",
        [_spec("mood", language="de"), _spec("sst2", named="glue/sst2", language="en")],
    )
    small.save_pretrained(run / "model")
    scores = json.loads((run / "metrics.json").read_text())
    scores["splits"]["test"] = {"mood": {"scores": {"accuracy": 0.75, "macro_f1": None}}}
    write_json(run / "metrics.json", scores)
    code, out, err = command(
        "push", run, "user/run", "--public", "--licence", "apache-2.0", "--json"
    )
    assert (code, err) == (0, "")
    there = hub.repositories["user/run"]
    sha = there.branches["main"]
    assert json.loads(out) == {"commit": f"{hub.address}/user/run/commit/{sha}"}
    assert not there.private
    files = there.commits[sha]
    assert files["head_map.png"].startswith(b"\x89PNG")
    card = files["README.md"].decode()
    assert "![importance of every head for every task](head_map.png)" in card
    assert 'from_pretrained("user/run")' in card
    for title in ("## Attention heads", "## Intended use", "## Limits"):
        assert title in card
    header = _header(files["README.md"])
    results = header.pop("model-index")
    assert header == {
        "datasets": ["nyu-mll/glue"],
        "language": ["de", "en"],
        "library_name": "brodmann",
        "license": "apache-2.0",
        "pipeline_tag": "text-classification",
        "tags": ["brodmann", "multi-task-learning", "text-classification"],
    }
    assert results[0]["name"] == "run"
    found = {
        (one["dataset"]["type"], one["dataset"]["split"], one["metrics"][0]["type"]):
        one["metrics"][0]["value"]
        for one in results[0]["results"]
    }  # fmt: skip
    validation = scores["splits"]["validation"]
    assert found == {
        ("mood", "validation", "accuracy"): round(validation["mood"]["score"], 6),
        ("mood", "test", "accuracy"): 0.75,
        ("nyu-mll/glue", "validation", "accuracy"): round(validation["sst2"]["score"], 6),
    }
    assert bm.MultiTaskModel.from_pretrained("user/run").predict("mood", ["x"]) == small.predict(
        "mood", ["x"]
    )


def test_a_second_upload_removes_what_the_model_no_longer_has(
    hub: Hub, command: Command, tmp_path: Path
) -> None:
    write_run(tmp_path / "run", ["mood", "topic"])
    small = bm.MultiTaskModel.from_pretrained("builtin:tiny", [_spec("mood"), _spec("topic")])
    small.save_pretrained(tmp_path / "run" / "model")
    assert command("push", tmp_path / "run", "user/run")[0] == 0
    there = hub.repositories["user/run"]
    assert "head_map.png" in there.commits[there.branches["main"]]
    assert bm.push(tmp_path / "run", "user/run", revision="again").endswith(there.branches["again"])
    code, out, _ = command("push", tmp_path / "run" / "model", "user/run")
    assert (code, out) == (
        0, f"uploaded to {hub.address}/user/run/commit/{there.branches['main']}\n"
    )  # fmt: skip
    assert "head_map.png" not in there.commits[there.branches["main"]]


def test_a_branch_with_other_files_is_not_touched(hub: Hub, model: Any) -> None:
    model.push_to_hub("user/small")
    there = hub.repositories["user/small"]
    there.commit("notes", {"diary.txt": b"mine", "onnx/config.json": b"{}"}, "By hand")
    message = _message(lambda: model.push_to_hub("user/small", revision="notes"))
    assert message == (
        "user/small: already contains other files (diary.txt): upload to a new repository"
    )
    assert "diary.txt" in there.commits[str(there.find("notes"))]


def test_an_upload_removes_no_file_that_it_did_not_write(hub: Hub, model: Any) -> None:
    model.push_to_hub("user/small")
    there = hub.repositories["user/small"]
    files = dict(there.commits[str(there.find("main"))])
    there.commit("main", {**files, "onnx/config.json": b"{}", "notes.txt": b"mine"}, "By hand")
    model.push_to_hub("user/small")
    now = there.commits[str(there.find("main"))]
    assert now["onnx/config.json"] == b"{}" and now["notes.txt"] == b"mine"


def test_a_named_task_over_own_rows_publishes_no_path(hub: Hub, tmp_path: Path) -> None:
    spec = _spec("sst2", named="glue/sst2", source="/home/me/patients.csv")
    own = bm.MultiTaskModel.from_pretrained("builtin:tiny", [spec])
    own.push_to_hub("user/own")
    there = hub.repositories["user/own"]
    files = there.commits[str(there.find("main"))]
    assert not any(b"patients" in content for content in files.values())
    assert "nyu-mll" not in files["README.md"].decode()


def test_errors_of_the_command_are_one_line(hub: Hub, command: Command, tmp_path: Path) -> None:
    code, out, err = command("push", tmp_path / "none", "user/run")
    assert (code, out) == (2, "")
    assert err == (
        f"brodmann: {tmp_path / 'none'}: no such folder, expected a run or a model folder\n"
    )
    bm.MultiTaskModel.from_pretrained("builtin:tiny", [_spec("mood")]).save_pretrained(
        tmp_path / "m"
    )
    code, out, err = command("push", tmp_path / "m", "nobody")
    assert (code, out) == (2, "")
    assert err == "brodmann: 'nobody': not a repository of the hub, expected user/name\n"


@pytest.mark.slow
def test_a_backbone_of_the_hub_has_a_revision(hub: Hub, tmp_path: Path) -> None:
    tiny = bm.MultiTaskModel.from_pretrained("builtin:tiny", [_spec("mood")])
    for seed, branch in ((1, "old"), (2, "main")):
        with torch.no_grad():
            for parameter in tiny.bare_models()[0].parameters():
                parameter.fill_(seed)
        tiny.bare_models()[0].save_pretrained(tmp_path / branch)
        tiny.tokenizer.save_pretrained(tmp_path / branch)
    repository = hub.add("user/encoder", _files(tmp_path / "main"), private=True)
    repository.commit("old", _files(tmp_path / "old"), "older")
    saved = tmp_path / "saved"
    code = (
        "import brodmann as bm\n"
        "task = bm.TaskSpec('mood', 'classification', labels=('a', 'b'), metric='accuracy')\n"
        "for revision in (None, 'old'):\n"
        "    at = {'revision': revision}\n"
        "    model = bm.MultiTaskModel.from_pretrained('user/encoder', [task], **at)\n"
        "    print(next(model.bare_models()[0].parameters()).unique().tolist())\n"
        f"model.save_pretrained({str(saved)!r})\n"
    )
    assert _in_another_process(code, hub, tmp_path) == "[2.0]\n[1.0]\n"
    for path in saved.iterdir():
        assert WRITER.encode() not in path.read_bytes(), path
    assert (
        _message(
            lambda: bm.MultiTaskModel.from_pretrained(
                "builtin:tiny", [_spec("mood")], revision="v1"
            )
        )
        == "backbone 'builtin:tiny': revision = 'v1': only backbones on the hub have revisions"
    )


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
