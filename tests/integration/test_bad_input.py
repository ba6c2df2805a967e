"""Bad input: one clear line, exit code 2, no traceback, and nothing written."""

import errno
import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from brodmann.data.sources.readers import read_file
from brodmann.errors import InputError

Command = Callable[..., tuple[int, str, str]]

GOOD = "text,label\n" + "".join(f"text {i},{'ab'[i % 2]}\n" for i in range(40))
TASK = """
[[tasks]]
name = "t"
kind = "classification"
data = "t.csv"
"""
TINY = '[model]\nbackbone = "builtin:tiny"\n[training]\nmax_steps = 2\n'


@pytest.fixture
def complaint(tmp_path: Path, command: Command) -> Callable[..., str]:
    """The complaint about a configuration and its files; asserts that nothing else happened."""

    def call(text: str, files: dict[str, str | bytes] | None = None, *words: str) -> str:
        for name, content in {"t.csv": GOOD, **(files or {})}.items():
            path = tmp_path / name
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        config = tmp_path / "c.toml"
        config.write_text(f'name = "r"\noutput = "{tmp_path / "runs"}"\n{text}', encoding="utf-8")
        code, out, err = command("run", config, *words)
        assert code == 2, err
        assert (
            err.count("\n") == 1 and err.startswith("brodmann: ") and "Traceback" not in out + err
        )
        assert not (tmp_path / "runs" / "r" / "model").exists()
        if "belongs" not in err and "another run is writing" not in err:
            assert not (tmp_path / "runs").exists()
        return err.removeprefix("brodmann: ").rstrip("\n").replace(str(tmp_path) + "/", "")

    return call


def described(kind: str, file: str, more: str = "") -> str:
    return f'[[tasks]]\nname = "t"\nkind = "{kind}"\ndata = "{file}"\n{more}\n{TINY}'


def test_files_and_columns(complaint: Callable[..., str]) -> None:
    assert complaint(described("classification", "absent.csv")) == "absent.csv: no such file"
    assert complaint(described("classification", "e.csv"), {"e.csv": ""}) == (
        "e.csv: the file is empty, expected at least one example"
    )
    assert complaint(described("classification", "t.csv", 'label = "lable"')) == (
        "t.csv: task 't' needs the column 'lable' (label), found label, text; did you mean 'label'?"
    )
    headless = "".join(f"text {i},{'ab'[i % 2]}\n" for i in range(40))
    assert complaint(described("classification", "h.csv"), {"h.csv": headless}) == (
        "h.csv: task 't' needs the column 'text' (text), found a, text 0; does the first line hold "
        "values? It must name the columns"
    )
    assert complaint(described("classification", "b.csv"), {"b.csv": GOOD + "one,two,three\n"}) == (
        "b.csv line 42: expected 2 fields as in the first line, found 3"
    )
    assert complaint(
        described("classification", "b.jsonl"), {"b.jsonl": '{"text": 1}\n{oops\n'}
    ) == (
        "b.jsonl line 2: broken JSON (Expecting property name enclosed in double quotes "
        "at column 2): expected one JSON object per line"
    )
    assert complaint(
        described("classification", "b.csv"), {"b.csv": b"text,label\n\xff\xfe,a\n"}
    ) == ("b.csv line 2: not utf-8 text (byte 0xff): save the file as UTF-8 or set 'encoding'")


def test_labels_and_values(complaint: Callable[..., str]) -> None:
    assert complaint(described("classification", "t.csv", 'labels = ["a", "c"]')) == (
        "t.csv line 3: task 't': label 'b' is not one of the task's 2 labels; known: a, c"
    )
    one = "text,label\n" + "".join(f"text {i},a\n" for i in range(40))
    assert complaint(described("classification", "o.csv"), {"o.csv": one}) == (
        "task 't': every training example has the label 'a', expected at least two classes"
    )
    assert complaint(described("regression", "t.csv")) == (
        "t.csv line 2: task 't': label: expected a number, found 'a'"
    )
    span = '{"question": "q", "context": "the cat", "answer": "dog"}\n'
    assert complaint(described("span", "s.jsonl"), {"s.jsonl": span}) == (
        "s.jsonl line 1: task 't': answer: 'dog' is not in its context"
    )
    tags = '{"tokens": ["a", "b"], "tags": ["O"]}\n'
    assert complaint(described("tokens", "k.jsonl"), {"k.jsonl": tags}) == (
        "k.jsonl line 1: task 't': 2 tokens but 1 tags, expected one tag per token"
    )


def test_configuration(complaint: Callable[..., str]) -> None:
    assert complaint(TASK + TASK + TINY) == (
        "tasks[1]: a second task is called 't': give it another 'name'"
    )
    assert complaint(TASK + TINY + "epoch = 3\n") == (
        "c.toml: unknown key 'training.epoch'; did you mean 'epochs'?"
    )
    assert complaint("nmae = 1\n" + TASK) == "c.toml: unknown key 'nmae'; did you mean 'name'?"
    assert complaint(TASK + 'lable = "x"\n' + TINY) == (
        "c.toml: tasks[0]: unknown key 'lable'; did you mean 'label'?"
    )
    assert complaint(TASK.replace("classification", "clasification") + TINY) == (
        "c.toml: tasks[0]: unknown kind 'clasification'; did you mean 'classification'?"
    )
    assert complaint(TASK + '[model]\narchitecture = "sharde"\n') == (
        "unknown architecture 'sharde'; did you mean 'shared'?"
    )
    assert complaint(TASK + '[training]\nsampling = "anealed"\n') == (
        "unknown sampler 'anealed'; did you mean 'annealed'?"
    )
    assert complaint('tasks = ["builtin/sentimnt"]\n').startswith(
        "tasks[0]: unknown task 'builtin/sentimnt'; did you mean 'builtin/sentiment'?"
    )
    assert complaint(TASK + "[training]\nepochs = 0\n") == (
        "c.toml: training.epochs = 0: input should be 'auto' or input should be greater than 0"
    )
    assert complaint(TASK + '[training]\nepochs = "3"\n') == (
        "c.toml: training.epochs = '3': input should be 'auto' or input should be a valid integer"
    )
    assert complaint(TASK + "[model]\nfreeze = 1.5\n") == (
        "c.toml: model.freeze = 1.5: input should be 'encoder' or input should be less than "
        "or equal to 1"
    )
    assert complaint(TASK + '[model]\nmax_length = 9999\nbackbone = "builtin:tiny"\n') == (
        "max_length = 9999: builtin:tiny reads at most 512 tokens"
    )
    assert complaint("tasks = []\n") == "c.toml: tasks = []: expected at least one task"
    assert complaint("tasks = [\n").startswith("c.toml: not TOML: ")
    assert complaint(TASK + TINY, None, "--set", "training.epochs") == (
        "--set training.epochs: expected key=value, for example training.epochs=1"
    )


def test_methods_that_do_not_go_together_leave_no_folder(complaint: Callable[..., str]) -> None:
    def settings(*changes: str) -> tuple[str, ...]:
        return tuple(word for change in changes for word in ("--set", change))

    text = f"{TASK}{TINY}"
    for changes, message in (
        (("training.aggregation=mgda",), "aggregation needs several tasks per step: set accum"),
        (
            ("training.aggregation=mgda", "training.accumulation=2", "specialize={}"),
            "aggregation cannot be combined with specialize",
        ),
        (("training.sharding=full",), "sharding needs several processes: torchrun"),
        (
            ("training.sharding=full", "model.gates=mask"),
            "sharding: cannot be combined with gates of the model: use data parallel training",
        ),
        (
            ("model.architecture=adapters", "specialize={}"),
            "specialize: the backbone of architecture 'adapters' is frozen, so no head can be ",
        ),
        (
            ("model.architecture=ca_mtl", "model.parameters={frozen=1.0}", "specialize={}"),
            "specialize: all attention is frozen, so no head can be trained",
        ),
        (("specialize={alpha=0.01}",), "alpha = 0.01 of 12 heads is less than one head"),
        (("model.attention=flash_attention_2",), "backbone 'builtin:tiny': FlashAttention2"),
    ):
        assert complaint(text, None, *settings(*changes)).startswith(message)


def test_a_hub_id_out_of_reach(complaint: Callable[..., str]) -> None:
    text = complaint(TASK + '[model]\nbackbone = "someone/some-model"\n')
    assert text.startswith("backbone 'someone/some-model' could not be loaded from the hub: ")
    assert text.endswith("To work offline, use a folder or builtin:minilm")
    text = complaint(
        '[[tasks]]\nname = "t"\nkind = "classification"\nhub = "someone/data"\n' + TINY
    )
    assert text.startswith("hub:someone/data could not be loaded: ")


def test_a_missing_configuration(tmp_path: Path, command: Command) -> None:
    code, _, err = command("run", tmp_path / "no.toml")
    assert code == 2
    assert err == (
        f"brodmann: {tmp_path / 'no.toml'}: no such file; "
        "`brodmann init` writes one to start from\n"
    )


def test_a_folder_of_another_run(tmp_path: Path, command: Command) -> None:
    (tmp_path / "t.csv").write_text(GOOD)
    config = tmp_path / "c.toml"
    config.write_text(f'name = "r"\noutput = "{tmp_path / "runs"}"\n{TASK}{TINY}')
    assert command("run", config)[0] == 0
    folder = tmp_path / "runs" / "r"
    stamp = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name != ".lock"}
    code, _, err = command("run", config, "--set", "training.max_steps=3")
    assert (code, err) == (
        2,
        f"brodmann: {folder}: belongs to another run (training.max_steps is 2 in it, 3 here): "
        "set another name, or remove the folder\n",
    )
    code, _, err = command("run", config, "--set", "tasks.0.weight=2.0")
    assert code == 2 and "(tasks.0.weight is 1.0 in it, 2.0 here)" in err
    (tmp_path / "t.csv").write_text(GOOD.replace("text 3,", "changed 3,"))
    code, _, err = command("run", config)
    assert (code, err) == (
        2,
        f"brodmann: {folder}: the data of task 't' have changed since this run began: "
        "set another name, or restore the data\n",
    )
    assert stamp == {path: path.stat().st_mtime_ns for path in stamp if path.exists()}
    (tmp_path / "t.csv").write_text(GOOD)
    other = tmp_path / "runs" / "s"
    other.mkdir()
    (other / "thesis.doc").write_text("mine")
    code, _, err = command("run", config, "--set", "name=s")
    assert (code, err) == (
        2,
        f"brodmann: {other} already holds other files (thesis.doc) and is not a run: choose "
        "another name or output\n",
    )
    assert [path.name for path in other.iterdir()] == ["thesis.doc"]


def test_a_folder_that_is_being_written(tmp_path: Path, command: Command) -> None:
    from brodmann.files import locked

    (tmp_path / "t.csv").write_text(GOOD)
    config = tmp_path / "c.toml"
    config.write_text(f'name = "r"\noutput = "{tmp_path / "runs"}"\n{TASK}{TINY}')
    with locked(tmp_path / "runs" / "r"):
        code, _, err = command("run", config)
    assert code == 2 and err.endswith(
        "another run is writing this folder: wait for it to end, or set another name\n"
    )
    assert command("run", config)[0] == 0


def test_no_disk_space(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.csv").write_text(GOOD)
    config = tmp_path / "c.toml"
    config.write_text(f'name = "r"\noutput = "{tmp_path / "runs"}"\n{TASK}{TINY}')

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    code, _, err = command("run", config)
    assert code == 2 and "no disk space left to write" in err and err.count("\n") == 1


def test_bad_lines_to_predict(tmp_path: Path, command: Command, tiny_model: object) -> None:
    tiny_model.save_pretrained(tmp_path / "m")  # type: ignore[attr-defined]
    bad = tmp_path / "in.txt"
    bad.write_text('{"text": \n')
    code, _, err = command("predict", tmp_path / "m", bad)
    assert (
        code == 2
        and err
        == f"brodmann: {bad} line 1: broken JSON (Expecting value: line 1 column 10 (char 9))\n"
    )
    assert command("predict", tmp_path / "nowhere")[2] == (
        f"brodmann: {tmp_path / 'nowhere'}: no such folder, expected a run or a model folder\n"
    )


def test_wrong_values_inside_a_task_are_named_with_their_key(complaint: Callable[..., str]) -> None:
    for line, message in (
        (
            'limit = "10"',
            "limit = '10': input should be a valid integer or input should be a valid",
        ),
        ('class_weights = "balance"', "class_weights = 'balance': input should be 'balanced' or "),
        ("labels = [0, 1]", "labels.0 = 0: input should be a valid string"),
        ("validation_share = 1.0", "validation_share = 1.0: input should be less than 1"),
        ('separator = ""', "separator = '': string should have at least 1 character"),
    ):
        assert complaint(TASK + line + "\n" + TINY).startswith(f"c.toml: tasks[0]: {message}"), line


def test_paths_that_cannot_be_what_they_are_asked_to_be(tmp_path: Path, command: Command) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "t.csv").write_text(GOOD)
    config = tmp_path / "c.toml"
    config.write_text(f'name = "r"\noutput = "{tmp_path / "file"}"\n{TASK}{TINY}')
    for words in (
        ["run", config],
        ["init", tmp_path / "file"],
        ["run", tmp_path / "file" / "c.toml"],
        ["run", config, "--set", f"name={'x' * 300}"],
        ["run", config, "--set", ".x=1"],
        ["run", config, "--set", "training.=1"],
        ["run", config, "--set", "seed=4611686018427387904"],
        ["predict", tmp_path],
        ["tasks", "--kind", "nope"],
        ["run"],
        ["rnu"],
        ["run", config, "--sett", "x=1"],
    ):
        code, out, err = command(*words)
        assert code == 2 and err.startswith("brodmann: ") and err.count("\n") == 1, (words, err)
        assert "Traceback" not in out + err
    assert (tmp_path / "file").read_text() == "x"


def test_a_configuration_from_notepad_and_one_in_json(tmp_path: Path, command: Command) -> None:
    (tmp_path / "t.csv").write_text(GOOD)
    config = tmp_path / "c.toml"
    text = f'name = "r"\noutput = "{tmp_path / "runs"}"\n{TASK}{TINY}'
    config.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert command("run", config)[0] == 0


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "epochs=3",
            "unknown key 'epochs'; did you mean 'training.epochs' or 'transfer.epochs'?",
        ),
        ("max_length=64", "unknown key 'max_length'; did you mean 'model.max_length'?"),
        (
            "alpha=0.2",
            "unknown key 'alpha'; did you mean 'dissociation.alpha' or 'specialize.alpha' or "
            "'off.alpha'?",
        ),
        (
            "training.max_length=64",
            "unknown key 'training.max_length'; did you mean 'model.max_length'?",
        ),
        (
            "training.threads=2",
            "unknown key 'training.threads'; did you mean 'threads' at the top level?",
        ),
        ("training.epoch=3", "unknown key 'training.epoch'; did you mean 'epochs'?"),
        ("train.epochs=3", "unknown key 'train'; did you mean 'training'?"),
        ("seeds=3", "unknown key 'seeds'; did you mean 'seed'?"),
    ],
)
def test_a_key_in_the_wrong_table_is_told_its_place(
    tmp_path: Path, command: Command, setting: str, message: str
) -> None:
    path = tmp_path / "c.toml"
    path.write_text('name = "x"\ntasks = ["builtin/topic"]\n', encoding="utf-8")
    code, out, err = command("run", path, "--set", setting)
    assert (code, out, err) == (2, "", f"brodmann: {path}: {message}\n")


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
@pytest.mark.parametrize("text", ['[{"text": "a"}]', '[\n{"text": "a"},\n{"text": "b"}\n]\n'])
def test_a_json_list_in_a_file_of_lines(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    with pytest.raises(InputError) as caught:
        read_file(path)
    assert str(caught.value) == (
        f"{path} line 1: a JSON list, expected one JSON object per line: rename the file to "
        f"{name.replace('.jsonl', '.json')}, or write one object per line without [ ]"
    )


def test_what_is_no_configuration(tmp_path: Path, command: Command) -> None:
    table = tmp_path / "tickets.csv"
    table.write_text("body,topic\nhello,x\n", encoding="utf-8")
    assert command("run", table) == (
        2,
        "",
        f"brodmann: {table}: is a data file, expected a configuration (TOML) that names it: "
        "`brodmann init` writes one to start from\n",
    )
    (tmp_path / "support.toml").write_text('name = "x"\n', encoding="utf-8")
    wrong = tmp_path / "supprt.toml"
    assert command("run", wrong) == (
        2, "", f"brodmann: {wrong}: no such file; did you mean 'support.toml'?\n"
    )  # fmt: skip
    folder = f"brodmann: {tmp_path}: is a folder without a run, expected a TOML file"
    near = f"; did you mean '{tmp_path}/support.toml'?"
    assert command("run", tmp_path) == (2, "", f"{folder}{near}\n")
    (tmp_path / "other.toml").write_text("", encoding="utf-8")
    assert command("run", tmp_path) == (2, "", f"{folder}\n")
    assert command("map")[2] == (
        "brodmann: Missing argument 'config'. (see `brodmann map --help`)\n"
    )
    assert command("nothing")[2] == (
        "brodmann: No such command 'nothing'. (see `brodmann --help`)\n"
    )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('[[tasks]]\nname = "t"\nkind = "clasification"\ntrain = "t.csv"\n', "c.toml: tasks[0]: "
         "unknown kind 'clasification'; did you mean 'classification'?"),
        ('[tasks]\nname = "t"\nkind = "classification"\ntrain = "t.csv"\n', "c.toml: [tasks] is a "
         "single table: write [[tasks]] before each task"),
        ('tasks = ["builtin/topic"]\n[grid]\nseed = [0, 1]\n', "c.toml: unknown key 'grid.seed'; "
         "did you mean vary = { seed = [0, 1] }?"),
        ('[[tasks]]\nname = "t"\nkind = "classification"\ntrain = "t.csv"\n', "t.csv: the file has "
         "a header but no rows, expected at least one example"),
        ('[[tasks]]\nname = "t"\nkind = "classification"\ntrain = "u.csv"\n', "no such file; did "
         "you mean 'u1.csv'?"),
    ],
)  # fmt: skip
def test_hints_name_the_file_and_what_is_there(
    tmp_path: Path, command: Command, more: str, message: str
) -> None:
    (tmp_path / "t.csv").write_text("text,label\n", "utf-8")
    for name in ("u.toml", "u1.csv"):
        (tmp_path / name).write_text("text,label\na,b\n", "utf-8")
    config = tmp_path / "c.toml"
    config.write_text(f'name = "r"\noutput = "{tmp_path / "runs"}"\n{more}', "utf-8")
    code, _, err = command("run", config)
    assert code == 2 and message in err
