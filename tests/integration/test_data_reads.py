"""A command reads a data file once, however many runs it makes."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., tuple[int, str, str]]
CONFIG = """
name = "many"
output = "runs"
data_dir = "."
tasks = [
  {{ name = "mood", kind = "classification", data = "own.jsonl", label = "mood" }},
  {{ name = "theme", kind = "classification", data = "own.jsonl", label = "theme" }},
]
[model]
backbone = "builtin:tiny"
[training]
epochs = 1
batch_size = 16
[map]
examples = 8
[specialize]
examples = 8
[dissociation]
draws = 0
resamples = 20
{study}
"""
TASKS = "tasks=[" + ", ".join(
    f'{{ name = "{name}", kind = "classification", data = "own.jsonl", label = "{name}" }}'
    for name in ("mood", "theme")
) + "]"  # fmt: skip
QUICK = (
    "--set", "model.backbone=builtin:tiny", "--set", "training.epochs=1", "--set", "threads=1",
    "--set", "training.precision=float32", "--set", "map.examples=8",
    "--set", "dissociation.draws=0", "--set", "dissociation.resamples=20", "--set", TASKS,
)  # fmt: skip


@pytest.fixture
def reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each data file is read from the disk; the working folder has `own.jsonl`."""
    rows = [
        {"text": f"the {word} cat is {mood} {i}", "mood": mood, "theme": word}
        for i in range(40)
        for mood, word in [(("glad", "sad")[i % 2], ("red", "big", "old", "new")[i % 4])]
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "own.jsonl").write_text(lines, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found: Counter[str] = Counter()
    inner = Path.read_bytes

    def counted(path: Path) -> bytes:
        if path.suffix == ".jsonl" and path.parent.resolve() == tmp_path.resolve():
            found[path.name] += 1
        return inner(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    return found


def configured(study: str) -> str:
    Path("study.toml").write_text(CONFIG.format(study=study), encoding="utf-8")
    return "study.toml"


@pytest.mark.parametrize(
    "grid",
    [
        "vary = { seed = [0, 1, 2] }",
        'vary = { "training.learning_rate" = [1e-4, 1e-3, 1e-2] }',
        'vary = { "tasks.0.limit" = [12, 16, 20] }',  # three tasks from the rows of one file
        'groups = [["mood"], ["theme"], ["mood", "theme"]]',
    ],
)
def test_a_grid_of_three_cells_reads_a_file_once(
    grid: str, reads: Counter[str], command: Command
) -> None:
    file = configured(f"[grid]\nheads = false\n{grid}")
    assert command("grid", file)[0] == 0
    assert reads == {"own.jsonl": 1}
    cells = json.loads(Path("runs/many/grid.json").read_text("utf-8"))["cells"]
    assert [cell["state"] for cell in cells] == ["done"] * 3
    assert command("grid", file)[0] == 0  # another command: the file may have changed
    assert reads == {"own.jsonl": 2}


def test_a_comparison_of_two_arms_reads_a_file_once(reads: Counter[str], command: Command) -> None:
    assert command("compare", configured('[compare]\narms = ["multi", "iat"]'))[0] == 0
    assert reads == {"own.jsonl": 1}


@pytest.mark.parametrize(
    "study",
    [
        '[compare]\narms = ["multi", "single"]',
        '[grid]\nvary = { "training.batch_size" = [8, 16] }',
    ],
)
def test_a_plan_reads_a_file_once(study: str, reads: Counter[str], command: Command) -> None:
    assert command("plan", configured(study))[0] == 0
    assert reads == {"own.jsonl": 1}


def test_pair_trainings_with_a_limit_read_a_file_once(
    reads: Counter[str], command: Command
) -> None:
    assert command("relate", configured(""), "--by", "pairs", "--limit", "16")[0] == 0
    assert reads == {"own.jsonl": 1}


ADAPTED = """
name = "adapted"
output = "runs"
data_dir = "."
tasks = [{ name = "parity", kind = "classification", data = "own.jsonl", label = "theme" }]
[training]
epochs = 1
batch_size = 16
[adapt]
start = "runs/many"
"""


@pytest.mark.parametrize(
    ("name", "study"),
    [("adapt", ""), ("grid", "[grid]\nheads = false\nvary = { seed = [0, 1] }")],
)
def test_adaptations_read_a_file_of_old_and_new_tasks_once(
    name: str, study: str, reads: Counter[str], command: Command
) -> None:
    assert command("train", configured(""))[0] == 0
    reads.clear()
    Path("new.toml").write_text(f"{ADAPTED}{study}\n", encoding="utf-8")
    code, _, err = command(name, "new.toml")
    assert (code, err) == (0, "")
    assert reads == {"own.jsonl": 1}


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("pairs", ()),  # a grid
        ("iat", ("--set", "specialize.examples=8", "--set", "compare.seeds=[0]")),  # a comparison
        ("hmnet_relevance", ()),  # pair trainings and attention maps
        ("statistics", ()),  # the data alone
    ],
)
def test_a_recipe_reads_a_file_once(
    recipe: str, changes: tuple[str, ...], reads: Counter[str], command: Command
) -> None:
    code, _, err = command("reproduce", recipe, "--data-dir", ".", *QUICK, *changes)
    assert (code, err) == (0, "")
    assert reads == {"own.jsonl": 1}
