"""Where models run: one choice, followed by every stage.

There may be no GPU here. Torch's `meta` device stands in for one: it computes shapes only and, like
a GPU, refuses to mix its tensors with those of the CPU. Copies to the CPU, which it does not have,
are made up.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.conftest import every_kind

import brodmann as bm
from brodmann.models.backbone import devices
from brodmann.models.backbone.devices import available_devices, choose_device
from brodmann.models.encoders import ARCHITECTURES, conditional
from brodmann.training.processes import accelerator

META = torch.device("meta")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that pretends that this machine has some devices."""

    def has(*kinds: str, count: int = 2) -> None:
        monkeypatch.setattr(devices, "available_devices", lambda: [*kinds, "cpu"])
        for module in (torch.cuda, torch.xpu):
            monkeypatch.setattr(module, "device_count", lambda: count)

    return has


def test_auto_is_the_best_device(machine: Any) -> None:
    assert available_devices()[-1] == "cpu"
    assert choose_device() == choose_device(available_devices()[0])
    machine("cuda")
    assert choose_device() == torch.device("cuda:0")
    assert choose_device("cpu") == torch.device("cpu")
    machine("mps")
    assert choose_device("auto") == torch.device("mps")
    assert choose_device(META) == META


def test_a_process_takes_the_gpu_of_its_number(
    machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine("cuda")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert choose_device() == torch.device("cuda:1")
    assert choose_device("cuda:0") == torch.device("cuda:0")
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(bm.InputError) as caught:
        choose_device()
    said = "process 2 of this machine: there are only 2 cuda devices, numbered from 0"
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("gpu", "device = 'gpu': expected auto, cpu, cuda, cuda:1, mps or xpu"),
        ("mps:1", "device = 'mps:1': expected auto, cpu, cuda, cuda:1, mps or xpu"),
        ("xpu", "device = 'xpu': not available here; found cuda, cpu: use 'cuda' or 'auto'"),
        ("cuda:2", "device = 'cuda:2': there are only 2 cuda devices, numbered from 0"),
    ],
)
def test_a_device_that_is_not_there(machine: Any, asked: str, said: str) -> None:
    machine("cuda")
    with pytest.raises(bm.InputError) as caught:
        bm.MultiTaskModel.from_pretrained(
            "builtin:tiny", bm.load_tasks(every_kind()[:1]), device=asked
        )
    assert str(caught.value) == said


@pytest.fixture
def as_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let `meta` tensors be copied to the CPU, as a GPU's can: the values are ones."""
    tensor = torch.Tensor
    originals = {name: getattr(tensor, name) for name in ("cpu", "to", "item", "tolist")}
    originals |= {name: getattr(tensor, name) for name in ("__float__", "__bool__")}

    def on_cpu(value: torch.Tensor) -> torch.Tensor:
        return torch.ones(value.shape, dtype=value.dtype) if value.is_meta else value

    def to(value: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        place = next((a for a in args if isinstance(a, str | torch.device)), kwargs.get("device"))
        leaves = place is not None and torch.device(place).type == "cpu"
        moved: torch.Tensor = originals["to"](on_cpu(value) if leaves else value, *args, **kwargs)
        return moved

    monkeypatch.setattr(tensor, "to", to)
    for name in ("cpu", "item", "tolist", "__float__", "__bool__"):
        monkeypatch.setattr(
            tensor,
            name,
            lambda value, *args, of=originals[name], **kwargs: of(on_cpu(value), *args, **kwargs),
        )
    usual = torch.optim.AdamW
    monkeypatch.setattr(torch.optim, "AdamW", lambda *a, **k: usual(*a, **{**k, "fused": False}))
    # `meta` has no autocast to switch off.
    monkeypatch.setattr(conditional, "in_float32", lambda like: contextlib.nullcontext())
    yield


@pytest.fixture(scope="module")
def tasks() -> list[Any]:
    return bm.load_tasks(every_kind(12))


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.usefixtures("as_gpu")
def test_every_stage_stays_on_the_device_of_the_model(name: str, tasks: list[Any]) -> None:
    model = bm.MultiTaskModel.from_pretrained(
        "builtin:tiny", tasks, architecture=name, max_length=32, device=META
    )
    options: dict[str, Any] = {"epochs": 1, "max_steps": 2, "batch_size": 8, "keep": "last"}
    bm.fit(model, tasks, **options)
    bm.evaluate(model, tasks)
    model.predict_all(["the red cat"])
    scores = bm.head_importance(model, tasks[:2], examples=4)
    if name == "shared":  # measured by the same code whatever the architecture
        bm.head_importance(model, tasks[:1], examples=2, estimator="leave_one_out")
        counts = {"draws": 1, "redraws": 0, "exchanges": 0, "resamples": 2}
        bm.dissociation(model, tasks[:2], scores, **counts)
    assert {parameter.device for parameter in model.parameters()} == {META}


@pytest.mark.usefixtures("as_gpu")
def test_what_is_made_from_a_model_is_on_its_device(tasks: list[Any]) -> None:
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks[:2], max_length=32, device=META)
    assert model.for_tasks(tasks[2:3]).device == META
    model.add_task(tasks[2])
    bm.fit_output_heads(model, tasks[:1])
    options: dict[str, Any] = {"epochs": 1, "max_steps": 2, "batch_size": 8, "keep": "last"}
    bm.fit(model, tasks[:2], sampling="uncertainty", **options)
    assert {parameter.device for parameter in model.parameters()} == {META}


def test_a_process_alone_does_not_bind_the_next_model_to_a_device() -> None:
    for device in (torch.device("cpu"), torch.device("cuda"), torch.device("cpu")):
        made = accelerator(device)
        assert not made.device_placement and made.num_processes == 1


def test_doctor_says_what_auto_means(command: Any, machine: Any) -> None:
    code, out, _ = command("doctor")
    assert code == 0 and "device" in out and "(device = auto; available: cpu)" in out


def test_a_run_asks_for_its_device_at_every_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Any
) -> None:
    from brodmann.models import multitask

    asked: list[Any] = []

    def spy(device: Any = "auto") -> torch.device:
        asked.append(device)
        return torch.device("cpu")

    monkeypatch.setattr(multitask, "choose_device", spy)
    rows = "text,y\n" + "\n".join(f"the {c} cat {i},{i % 2}" for i, c in enumerate("abcdefgh" * 4))
    (tmp_path / "rows.csv").write_text(rows)
    (tmp_path / "c.toml").write_text(
        'name = "r"\noutput = "runs"\ndevice = "cpu"\n[model]\nbackbone = "builtin:tiny"\n'
        "[training]\nmax_steps = 2\nepochs = 1\n[dissociation]\ndraws = 1\nredraws = 0\n"
        "exchanges = 0\n"
        + "".join(
            f'[[tasks]]\nname = "{n}"\nkind = "classification"\ntext = "text"\nlabel = "y"\n'
            'train = "rows.csv"\n'
            for n in ("one", "two")
        )
    )
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "runs" / "r"
    for words in (
        ("run", "c.toml"),
        ("evaluate", run),
        ("prune", run, "--alpha", "0.3"),
        ("relate", run, "--by", "covsim"),
    ):
        asked.clear()
        code, _, err = command(*words)
        assert (code, err) == (0, "")
        assert asked and {str(device) for device in asked} == {"cpu"}, words


def test_a_wrong_device_in_a_configuration(tmp_path: Path, command: Any) -> None:
    path = tmp_path / "c.toml"
    path.write_text('name = "r"\ndevice = "gpu"\ntasks = ["builtin/sentiment"]\n')
    code, _, err = command("run", path)
    assert code == 2
    expected = "device = 'gpu': expected auto, cpu, cuda, cuda:1, mps or xpu"
    assert err.count("\n") == 1 and expected in err
