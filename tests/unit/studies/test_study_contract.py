"""What every kind of study promises: `Study` in `studies/__init__.py`, over all of `STUDIES`."""

import math
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from brodmann.cli import app
from brodmann.config import Config, checked_config
from brodmann.errors import InputError
from brodmann.studies import ONE_RUN, STUDIES, Study, load_one_run, load_study, study_of
from brodmann.studies.plan.planning import make_plan
from brodmann.training.events import silent

# What a section needs to be complete.
SECTIONS: dict[str, dict[str, Any]] = {
    "grid": {"vary": {"seed": [0, 1]}},
    "compare": {"arms": ["multi", "iat"]},
    "transfer": {"starts": {"tiny": "builtin:tiny"}, "examples": [4], "seeds": 1, "epochs": 1},
    "meta": {"unseen": ["topic"]},
    "adapt": {"start": "runs/other"},
    "distill": {"teacher": "runs/other", "student": {"num_hidden_layers": 1}},
}
every_study = pytest.mark.parametrize("name", STUDIES)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def config_of(**sections: Any) -> Config:
    limit = {"train": 32, "validation": 16, "test": 16}
    values = {
        "name": "contract",
        "tasks": [{"use": f"builtin/{task}", "limit": limit} for task in ("sentiment", "topic")],
        "model": {"backbone": "builtin:tiny", "max_length": 32},
        "training": {"epochs": 1},
        **sections,
    }
    return checked_config(values, "contract", Path())[0]


def asking_for(name: str) -> Config:
    """A configuration that asks for this study: by its own section, or by [study]."""
    if name in Config.model_fields:
        return config_of(**{name: SECTIONS[name]})
    return config_of(study={"kind": name})


def overrides(study: Study, method: str) -> bool:
    return getattr(type(study), method) is not getattr(Study, method)


@every_study
def test_the_module_holds_a_study_that_runs(name: str) -> None:
    study = load_study(name)
    assert isinstance(study, Study) and study is import_module(STUDIES[name]).STUDY
    assert overrides(study, "run")
    assert study.in_grids == overrides(study, "run_cell")


@every_study
def test_its_section_asks_for_it_and_its_command_exists(name: str) -> None:
    assert study_of(asking_for(name)) is load_study(name)
    commands = {
        one.name or getattr(one.callback, "__name__", "") for one in app.registered_commands
    }
    assert load_study(name).command in commands
    assert load_study(name).command != "run"


def test_a_configuration_without_a_section_is_one_run() -> None:
    assert study_of(config_of()) is load_one_run() is import_module(ONE_RUN).STUDY
    assert load_one_run().command == "run" and overrides(load_one_run(), "plan")


@every_study
def test_it_is_planned_or_says_in_one_line_that_it_cannot_be(name: str) -> None:
    study, config = load_study(name), asking_for(name)
    if overrides(study, "plan"):
        study.check_plan(config)
        return
    with pytest.raises(InputError) as caught:
        make_plan(config, Path(), silent)
    assert str(caught.value) == f"`brodmann plan` does not support `brodmann {study.command}`"


@every_study
def test_counting_reads_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    study, config = load_study(name), asking_for(name)
    if not overrides(study, "count"):
        pytest.skip("cannot be estimated without data")

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("counting must not read data or weights")

    monkeypatch.setattr("brodmann.data.task_cache.TaskCache.load", refuse)
    monkeypatch.setattr("brodmann.models.multitask.MultiTaskModel.from_pretrained", refuse)
    counted = study.count(config, config_of())
    total = counted.operations + sum(run.total for run in counted.runs)
    assert math.isfinite(total) and total > 0
    assert counted.runs or counted.trainings > 0
    twice = config_of(**{**_own(name), "training": {"epochs": 2}})
    more = study.count(twice, config_of())
    assert more.operations + sum(run.total for run in more.runs) >= total
    assert list(Path().iterdir()) == []


def _own(name: str) -> dict[str, Any]:
    return {name: SECTIONS[name]} if name in SECTIONS else {"study": {"kind": name}}


@every_study
def test_runs_and_folders_belong_to_the_configuration(name: str) -> None:
    study, config = load_study(name), asking_for(name)
    runs = study.runs(config)
    assert runs and all(isinstance(one, Config) for one in runs.values())
    assert len({one.fingerprint() for one in runs.values()}) == len(runs)
    assert all(one.output.startswith(config.output) for one in runs.values())
    assert study.folders(config) and all(Path("runs") in f.parents for f in study.folders(config))
    assert not study.is_done(config)  # nothing has run


@every_study
def test_moving_starts_touches_only_folders(name: str) -> None:
    values = asking_for(name).resolved()
    before = {key: value for key, value in values.items() if key != name}
    load_study(name).move_starts(values, lambda folder: f"moved/{folder}")
    assert {key: value for key, value in values.items() if key != name} == before
    checked_config(values, "moved", Path())


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("transfre", "[study]: kind = 'transfre'; did you mean 'transfer'?"),
        ("xyz", f"[study]: kind = 'xyz'; known: {', '.join(STUDIES)}"),
    ],
)
def test_an_unknown_kind_is_one_clear_line(kind: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        study_of(config_of(study={"kind": kind}))
    assert str(caught.value) == message
