"""Shared set-up: no hub, a cache of our own, one thread, a seed, and small tasks of every kind."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"  # tests run side by side
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.pop("COLUMNS", None)  # test workers set it: piped output has no width

import contextlib
import io
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if CHROMIUM is None:
        terminalreporter.section("THE BROWSER TESTS DID NOT RUN", sep="!", red=True, bold=True)
        terminalreporter.line("no chromium found: `apt-get install chromium`, then again")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the longest tests first: one that starts last would keep the others' cores waiting."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(autouse=True, scope="session")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    os.environ["BRODMANN_CACHE"] = str(folder)
    yield folder
    del os.environ["BRODMANN_CACHE"]


@pytest.fixture(autouse=True, scope="session")
def no_seeds_for_absent_devices() -> Iterator[None]:
    """Keep torch from storing every seed, with the stack of its call, for devices not there."""
    import torch

    with pytest.MonkeyPatch.context() as patch:
        for device, module in (
            (torch.cuda, torch.cuda.random),
            (torch.xpu, torch.xpu.random),
            (torch.mtia, torch.mtia),
        ):
            if not device.is_available():
                patch.setattr(module, "_lazy_call", lambda *_, **__: None, raising=False)
        yield


@pytest.fixture(autouse=True, scope="session")
def auto_is_float32() -> Iterator[None]:
    """Compute in float32 unless a test names bf16, as on a processor without bf16 instructions.

    In bf16, a tiny model spends a third of its time on compiling kernels for every new shape.
    """
    import torch

    found = {name: has for name, has in torch.cpu.get_capabilities().items() if "bf16" not in name}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cpu, "get_capabilities", lambda: found)
        yield


@pytest.fixture(autouse=True)
def seeded() -> None:
    import random

    import numpy as np
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The system's Chromium, for the tests that look at a page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield found
        found.close()


def every_kind(count: int = 24) -> list[dict[str, Any]]:
    """A description of one small task a kind, over in-memory rows."""
    pairs = [
        {"a": f"the {c} cat sat {i}", "b": f"a {c} dog ran", "y": i % 2, "score": i / 7 + (i % 2)}
        for i, c in zip(range(count), ["red", "big", "old", "sad"] * count, strict=False)
    ]
    for i, row in enumerate(pairs):
        row["several"] = {"red": "x|y", "big": "y", "old": "x", "sad": ""}[row["a"].split()[1]]
        row["choices"] = ["yes it is", "no it is not", "maybe"][: 2 + i % 2]
        row["right"] = i % 2
        row["answer"] = row["a"].split()[1] if i % 4 else ""
        row["words"] = row["a"].split()
        row["tags"] = ["O", "B-X", "I-X", "O", "O"] if i % 2 else ["O", "O", "B-Y", "O", "B-X"]
    halves = {"train": pairs[: 2 * count // 3], "validation": pairs[2 * count // 3 :]}
    pair = {"text": "a", "text_pair": "b"}
    return [
        {"name": "single", "kind": "classification", "text": "a", "label": "y", **halves},
        {"name": "pair", "kind": "classification", **pair, "label": "y", **halves},
        {"name": "many", "kind": "multilabel", "text": "a", "label": "several", **halves},
        {"name": "value", "kind": "regression", **pair, "label": "score", **halves},
        {"name": "pick", "kind": "choice", "text": "a", "label": "right", **halves},
        {"name": "where", "kind": "span", "question": "b", "context": "a", **halves},
        {"name": "tag", "kind": "tokens", "tokens": "words", **halves},
    ]


@pytest.fixture(scope="session")
def tasks_of_every_kind() -> list[Any]:
    import brodmann as bm

    return bm.load_tasks(every_kind())


@pytest.fixture(scope="session")
def tiny_model(tasks_of_every_kind: list[Any]) -> Any:
    import brodmann as bm

    return bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks_of_every_kind).eval()


def in_process(*words: object) -> tuple[int, str, str]:
    """Run `brodmann WORDS` in this process, for fixtures that several tests share."""
    from brodmann.cli import main

    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    code: Any = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["brodmann", *map(str, words)])
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as stop:
                code = stop.code or 0
    said = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    return int(code), next(said), next(said)


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run `brodmann WORDS` in this process: (exit code, stdout, stderr)."""

    def call(*words: object) -> tuple[int, str, str]:
        from brodmann.cli import main

        monkeypatch.setattr(sys, "argv", ["brodmann", *map(str, words)])
        code: Any = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return int(code), captured.out, captured.err

    return call
