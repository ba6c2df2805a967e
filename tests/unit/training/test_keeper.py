"""What a training run leaves on disk: every damage is noticed, and no line is logged twice."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.checkers import assert_same_bits

import brodmann as bm
from brodmann.training.checkpoints import checkpoint
from brodmann.training.checkpoints.keeper import Keeper
from brodmann.training.loop import Loop
from brodmann.training.method_settings import IAT

OPTIONS: dict[str, Any] = {
    "max_steps": 6,
    "batch_size": 4,
    "learning_rate": 1e-3,
    "evaluate_every": 2,
    "checkpoint_every": 2,
}
BEGIN = "training from the beginning"
BEFORE = "using the one before it"


def tasks() -> list[Any]:
    rows = [
        {"text": f"a {'good' if i % 2 else 'bad'} thing {i}", "label": i % 2} for i in range(40)
    ]
    options = {"kind": "classification", "train": rows[:28], "validation": rows[28:]}
    return [bm.load_task("one", **options)]


def trained(folder: Path, **options: Any) -> tuple[dict[str, torch.Tensor], list[str]]:
    """The weights after `fit`, and what it said on the way."""
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks())
    said: list[str] = []

    def report(event: str, facts: dict[str, Any]) -> None:
        if event == "note":
            said.append(facts["text"])

    bm.fit(model, tasks(), folder=folder, report=report, **(OPTIONS | options))
    return model.state_dict(), said


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, torch.Tensor]]:
    """The folder of a run, to be copied, and its weights."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("finished") / "run"
    return folder, trained(folder)[0]


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        document = json.loads(path.read_text("utf-8"))
        change(document)
        path.write_text(json.dumps(document), "utf-8")

    return apply


NEWEST = "step-00000006"
CHECKSUM = "does not match its checksum"
NO_JSON = "not a JSON document (Expecting value: line 1 column 1 (char 0))"


@pytest.mark.parametrize(
    ("name", "damage", "reason"),
    [
        ("state.json", edited(lambda state: state.update(step=4)), f"state.json {CHECKSUM}"),
        ("state.json", edited(lambda state: state.pop("progress")), f"state.json {CHECKSUM}"),
        ("state.json", Path.unlink, "state.json missing"),
        ("model.safetensors", flipped, f"model.safetensors {CHECKSUM}"),
        ("model.safetensors", cut, f"model.safetensors {CHECKSUM}"),
        ("random-0.safetensors", flipped, f"random-0.safetensors {CHECKSUM}"),
        ("optimizer.safetensors", Path.unlink, "optimizer.safetensors missing"),
        ("checksums.json", Path.unlink, "checksums.json no such file"),
        ("checksums.json", lambda path: path.write_text("x"), f"checksums.json {NO_JSON}"),
        (
            "checksums.json",
            edited(lambda sums: sums.update(files=[])),
            "checksums.json has no table 'files'",
        ),
        (
            "checksums.json",
            edited(lambda sums: sums["files"].pop("state.json")),
            "checksums.json does not list state.json",
        ),
    ],
)
def test_a_damaged_checkpoint_is_named_and_the_one_before_taken(
    finished: tuple[Path, dict[str, torch.Tensor]],
    tmp_path: Path,
    name: str,
    damage: Callable[[Path], None],
    reason: str,
) -> None:
    folder, straight = finished
    shutil.copytree(folder, tmp_path / "run")
    damage(tmp_path / "run" / "checkpoints" / NEWEST / name)
    again, said = trained(tmp_path / "run")
    assert said == [f"checkpoint {NEWEST} is damaged ({reason}): {BEFORE}"]
    assert_same_bits(straight, again)


@pytest.mark.parametrize(
    ("damage", "reason"), [(flipped, CHECKSUM), (cut, CHECKSUM), (Path.unlink, "missing")]
)
def test_damaged_best_weights_are_never_taken(
    finished: tuple[Path, dict[str, torch.Tensor]],
    tmp_path: Path,
    damage: Callable[[Path], None],
    reason: str,
) -> None:
    folder, straight = finished
    shutil.copytree(folder, tmp_path / "run")
    best = sorted((tmp_path / "run" / "checkpoints").glob("best-*.safetensors"))
    for path in best:
        damage(path)
    again, said = trained(tmp_path / "run")
    names = {"step-00000006": best[-1].name, "step-00000004": best[0].name}
    assert said == [
        f"checkpoint {step} is damaged ({name} {reason}): {then}"
        for (step, name), then in zip(names.items(), (BEFORE, BEGIN), strict=True)
    ]
    assert_same_bits(straight, again)


def test_best_weights_that_are_damaged_during_the_run(
    finished: tuple[Path, dict[str, torch.Tensor]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    straight = finished[1]
    load = Keeper.load_best

    def after_damage(self: Keeper, model: Any, step: int) -> None:
        assert self.folder is not None
        flipped(self.folder / f"best-{step:08d}.safetensors")
        load(self, model, step)

    with monkeypatch.context() as patch:
        patch.setattr(Keeper, "load_best", after_damage)
        with pytest.raises(bm.InputError) as error:
            trained(tmp_path / "run")
    (best,) = {path.name for path in (tmp_path / "run" / "checkpoints").glob("best-*")} & {
        str(error.value).rpartition("/")[2].partition(":")[0]
    }
    assert str(error.value) == (
        f"{tmp_path / 'run' / 'checkpoints' / best}: {CHECKSUM}: run again, from the last whole "
        "checkpoint"
    )
    again, _ = trained(tmp_path / "run")
    assert_same_bits(straight, again)


def logged(folder: Path) -> list[tuple[int, tuple[str, ...]]]:
    lines = (folder / "log.jsonl").read_text("utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    marks = ("start", "evaluation", "heads", "loss")
    return [(entry["step"], tuple(m for m in marks if m in entry)) for entry in entries]


class KilledError(Exception):
    """Stands for a SIGKILL at this very place."""


def test_no_line_twice_after_a_kill_between_evaluation_and_checkpoint(
    finished: tuple[Path, dict[str, torch.Tensor]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Step 4 is saved, evaluated and logged; the kill comes before it is saved again."""
    save = Loop._save

    def killed(self: Loop, keeper: Keeper, **how: Any) -> None:
        if self.progress.step == self.progress.evaluated_at == 4:
            raise KilledError
        save(self, keeper, **how)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_save", killed)
        with pytest.raises(KilledError):
            trained(tmp_path / "killed")
    assert (4, ("evaluation",)) in logged(tmp_path / "killed")
    trained(tmp_path / "killed")
    assert logged(tmp_path / "killed") == logged(finished[0])


def test_no_line_twice_in_a_branch_that_is_killed_before_its_first_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(tmp_path / "plain", branch_at=[0.5])
    arm: dict[str, Any] = {
        "specialize": IAT(delta=0.5, examples=8),
        "branch_from": tmp_path / "plain",
    }
    trained(tmp_path / "straight", **arm)
    step = Loop.one_step

    def killed(self: Loop, keeper: Keeper, log: Any) -> None:
        step(self, keeper, log)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "one_step", killed)
        with pytest.raises(KilledError):
            trained(tmp_path / "killed", **arm)
    assert (3, ("start",)) in logged(tmp_path / "killed")
    trained(tmp_path / "killed", **arm)
    assert logged(tmp_path / "killed") == logged(tmp_path / "straight")


def test_a_damaged_branch_is_named(tmp_path: Path) -> None:
    trained(tmp_path / "plain", branch_at=[0.5])
    place = tmp_path / "plain" / "checkpoints" / "branch" / "step-00000003"
    flipped(place / "model.safetensors")
    special = IAT(delta=0.5, examples=8)
    said = trained(tmp_path / "arm", specialize=special, branch_from=tmp_path / "plain")[1]
    assert said == [f"{place}: damaged (model.safetensors {CHECKSUM}): {BEGIN}"]


def test_a_checkpoint_of_an_older_format_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(checkpoint, "STATE_FORMAT", 1)
        trained(tmp_path, max_steps=2)
    newest = tmp_path / "checkpoints" / checkpoint.folder_name(2)
    assert json.loads((newest / "state.json").read_text())["format"] == 1
    with pytest.raises(bm.InputError) as caught:
        trained(tmp_path, max_steps=2)
    assert str(caught.value) == (
        f"{newest}: has checkpoint format 1, and this version resumes only format 2: finish the "
        "run with the version that began it, or use another folder or name, or remove it"
    )
