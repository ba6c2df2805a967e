"""What a type checker tells a user: public names have types, and none of them is Any."""

import subprocess
import sys
from pathlib import Path

import pytest

import brodmann as bm

SCRIPT = """
import brodmann as bm

tasks = bm.load_tasks(["builtin/sentiment", "builtin/topic"])
model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks)
reveal_type(tasks)
reveal_type(model)
reveal_type(bm.fit(model, tasks, epochs=1, learning_rate="auto"))
reveal_type(bm.evaluate(model, tasks))
reveal_type(bm.head_importance(model, tasks))
reveal_type(bm.dissociation(model, tasks, bm.head_importance(model, tasks)))
run = bm.run("brodmann.toml", changes={"seed": 1})
reveal_type(run)
reveal_type(run.scores)
reveal_type(run.heads)
reveal_type(run.load_model())
reveal_type(bm.compare("study.toml"))
reveal_type(bm.relate(tasks))
reveal_type(bm.plan("spec-table3").rows)
reveal_type(bm.predict(run, ["A film."]))
reveal_type(bm.export(run, "topic"))
reveal_type(bm.report([run]))
bm.fit(model, tasks, epoch=1)
bm.fit(model, tasks, keep="worst")
"""
REVEALED = """
list[Task]
MultiTaskModel
History
dict[str, Evaluation]
HeadScores
Dissociation
Run
dict[str, dict[str, float]]
HeadScores | None
MultiTaskModel
Outcome
Outcome
Sequence[dict[str, str | float | int | bool | None]]
list[dict[str, Any]]
Path
Page
"""


@pytest.mark.slow
def test_mypy_knows_the_types_of_a_users_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    # Whether torch's own types are right is not the question, and takes minutes.
    settings = tmp_path / "mypy.ini"
    skipped = "[mypy-torch.*,transformers.*,datasets.*,scipy.*,matplotlib.*,pandas.*]"
    settings.write_text(f"[mypy]\nstrict = true\n{skipped}\nfollow_imports = skip\n")
    arguments = ["--config-file", settings, "--cache-dir", tmp_path / "cache", script]
    found = subprocess.run(
        [sys.executable, "-m", "mypy", *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    lines = found.stdout.splitlines()
    revealed = [line.split('"')[1] for line in lines if "Revealed type" in line]
    for module in ("brodmann.", "builtins.", "typing.", "pathlib.", "collections.abc."):
        revealed = [text.replace(module, f"~{module}") for text in revealed]
    plain = ["".join(_without_modules(text)) for text in revealed]
    assert plain == REVEALED.split("\n")[1:-1], found.stdout
    errors = [line for line in lines if ": error:" in line]
    assert len(errors) == 2, found.stdout
    assert 'Unexpected keyword argument "epoch" for "fit"' in errors[0]
    assert 'Argument "keep" to "fit" has incompatible type' in errors[1]


def _without_modules(text: str) -> list[str]:
    """The type without the modules that its names come from."""
    import re

    return [re.sub(r"[\w.~]+\.", "", text).replace("~", "")]


def test_type_checkers_see_every_public_name() -> None:
    source = Path(bm.__file__).read_text()
    imported = {
        line.split(" as ")[1].strip()
        for line in source.splitlines()
        if line.startswith("    from brodmann.") and " as " in line
    }
    assert imported == set(bm._PUBLIC)
    assert (Path(bm.__file__).parent / "py.typed").is_file()
    assert all(getattr(bm, name) is not None for name in bm.__all__)
