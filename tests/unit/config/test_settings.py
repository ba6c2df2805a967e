"""Every setting is declared once: described, with a default that is valid, for TOML and Python."""

import ast
import copy
import inspect
import pickle
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pytest
from pydantic import ConfigDict

import brodmann as bm
from brodmann.cli.smaller import prune
from brodmann.config import Config, load_config
from brodmann.config.sections import MetaSection
from brodmann.data.schema import Section, Settings
from brodmann.errors import InputError
from brodmann.files import digest
from brodmann.measuring.measuring_settings import DissociationSettings, ImportanceSettings
from brodmann.models.model_settings import ModelSettings
from brodmann.results import USUAL_ALPHA
from brodmann.training.meta.meta_settings import Meta
from brodmann.training.method_settings import IAT, DistillationSettings
from brodmann.training.methods.distillation import Distillation
from brodmann.training.settings import Options, TrainingSettings, checked_options

SOURCE = Path(bm.__file__).parent
REQUIRED: dict[str, Any] = {
    "name": "run",
    "tasks": ["builtin/topic"],
    "by": "runs/trained",
    "starts": {"plain": "runs/trained"},
    "teacher": "runs/large",
    "student": {"num_hidden_layers": 3},
    "start": "runs/trained",
    "unseen": ["topic"],
    "kind": "further",
}


@cache
def nodes() -> list[tuple[Path, ast.AST]]:
    """Every node of the source; not parsed while tests are collected, which each worker does."""
    return [
        (path, node)
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    ]


# Each is the class that the function or class beside it takes its defaults from.
ENTRIES: list[tuple[Any, type[Settings], set[str]]] = [
    (bm.MultiTaskModel.from_pretrained, ModelSettings, {"backbone", "output_heads"}),
    (bm.head_importance, ImportanceSettings, set()),
    (bm.dissociation, DissociationSettings, set()),
    (bm.distill, DistillationSettings, set()),
    (Distillation, DistillationSettings, {"layer_epochs", "prediction_epochs"}),
]


def sections(of: type[Section] = Section) -> list[type[Section]]:
    """Every section of the package."""
    found = [of] if of not in (Section, Settings) else []
    return found + [inner for one in of.__subclasses__() for inner in sections(one)]


SECTIONS = sorted(
    {one for one in sections() if one.__module__.startswith("brodmann")}, key=lambda s: s.__name__
)


def test_every_table_of_a_configuration_is_among_them() -> None:
    assert {Config, Options, TrainingSettings, IAT, Meta, MetaSection} <= set(SECTIONS)
    for field in Config.model_fields.values():
        for inner in get_args(field.annotation) or (field.annotation,):
            if isinstance(inner, type) and issubclass(inner, Section):
                assert inner in SECTIONS


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_every_field_is_described_and_its_default_is_valid(section: type[Section]) -> None:
    for name, field in section.model_fields.items():
        assert (field.description or "").strip(), f"{section.__name__}.{name}"
    config = ConfigDict(validate_default=True)
    probe = type("Probe", (section,), {"model_config": config, "__module__": __name__})
    missing = {n for n, field in section.model_fields.items() if field.is_required()}
    filled = probe.model_validate({name: REQUIRED[name] for name in missing})
    given = section.model_validate({name: REQUIRED[name] for name in missing})
    assert filled.model_dump() == given.model_dump()


def test_a_field_is_declared_in_one_class_only() -> None:
    """A section that holds another's fields inherits them, and no dataclass repeats one."""
    merged = (TrainingSettings, IAT, Meta, DistillationSettings, DissociationSettings)
    for section in (*merged, ImportanceSettings, ModelSettings):
        for other in SECTIONS:
            if issubclass(other, section) and other is not section:
                assert not set(vars(section)["__annotations__"]) & set(
                    vars(other).get("__annotations__", {})
                )
    defaults = {
        (name, repr(field.default))
        for section in (*merged, ImportanceSettings, ModelSettings)
        for name, field in section.model_fields.items()
        if field.default is not None
    }
    for path, node in nodes():
        if isinstance(node, ast.ClassDef) and "dataclass" in map(ast.unparse, _decorators(node)):
            own = {
                (line.target.id, ast.unparse(line.value))
                for line in node.body
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
                if line.value is not None
            }
            assert not own & defaults, f"{path}: {node.name}"


@pytest.mark.parametrize(
    ("entry", "section", "left_out"), ENTRIES, ids=lambda value: getattr(value, "__name__", "")
)
def test_python_has_the_defaults_of_the_class(
    entry: Any, section: type[Settings], left_out: set[str]
) -> None:
    parameters = inspect.signature(entry).parameters
    usual = section()
    for name in set(section.model_fields) - left_out:
        default, own = parameters[name].default, getattr(usual, name)
        assert default == own or not (default or own), name  # nothing: None, () or an empty table


def test_the_options_of_fit_are_those_of_training() -> None:
    assert issubclass(Options, TrainingSettings)
    own = set(inspect.signature(bm.fit).parameters)
    assert not own & set(Options.model_fields)


def _decorators(node: ast.ClassDef) -> Iterator[ast.expr]:
    for decorator in node.decorator_list:
        yield decorator.func if isinstance(decorator, ast.Call) else decorator


def _words(node: ast.AST) -> tuple[str, ...]:
    """The strings of a tuple or list, or of a `Literal`; none where it holds anything else."""
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal":
        node = node.slice
    elif not isinstance(node, ast.Tuple | ast.List):
        return ()
    elements = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    found = [one.value for one in elements if isinstance(one, ast.Constant)]
    return tuple(found) if found and all(isinstance(w, str) for w in found) else ()


def _vocabularies(annotation: Any) -> Iterator[tuple[str, ...]]:
    if get_origin(annotation) is Literal:
        yield get_args(annotation)
    else:
        for inner in get_args(annotation):
            yield from _vocabularies(inner)


def test_a_vocabulary_is_written_once() -> None:
    """The `Literal` is the definition; tuples of the same words come from `get_args`."""
    known = {
        frozenset(words)
        for section in SECTIONS
        for field in section.model_fields.values()
        for words in _vocabularies(field.annotation)
        if len(words) > 2
    }
    assert frozenset(("float32", "bf16", "auto")) in known
    inside = {id(node.slice) for _, node in nodes() if isinstance(node, ast.Subscript)}
    places: dict[frozenset[str], list[str]] = {words: [] for words in known}
    for path, node in nodes():
        words = frozenset(_words(node))
        if words in known and id(node) not in inside:
            places[words].append(f"{path.name}:{getattr(node, 'lineno', 0)}")
    assert [where for where in places.values() if len(where) != 1] == []


def test_a_configuration_loads_without_torch(tmp_path: Path) -> None:
    wrong = tmp_path / "c.toml"
    wrong.write_text('name = "a"\ntasks = ["builtin/topic"]\n[training]\nepoch = 1\n')
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from brodmann.config import load_config\n"
        "from brodmann.errors import InputError\n"
        "try:\n"
        "    load_config(Path(sys.argv[1]))\n"
        "except InputError as error:\n"
        "    print(error)\n"
        "print([name for name in ('torch', 'transformers', 'scipy') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, wrong], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{wrong}: unknown key 'training.epoch'; did you mean 'epochs'?\n[]\n"


def test_fingerprints_do_not_change(tmp_path: Path) -> None:
    """Runs and checkpoints of earlier versions are found again by these values."""
    path = tmp_path / "c.toml"
    path.write_text(
        'name = "pinned"\ntasks = ["builtin/topic", "builtin/sentiment"]\n'
        "[training]\nlearning_rate = 1\nrates = { heads = 1e-3 }\n[specialize]\nalpha = 1\n"
        '[meta]\nunseen = ["topic"]\n'
        '[distill]\nteacher = "a"\nstudent = { num_hidden_layers = 3 }\n'
    )
    config = load_config(path)[0]
    assert config.fingerprint() == "ea4b43ae7a5f44fe68ac67bd3e0cd8b3"
    stored = config.resolved()
    assert list(stored["meta"])[:3] == ["unseen", "algorithm", "steps"]
    assert list(stored["distill"])[:3] == ["teacher", "student", "layer_epochs"]
    assert digest(checked_options({}).plain()) == "60cd51d02c544c722a74a242e783cb6e"
    options = {"learning_rate": 1, "rates": {"heads": 1e-3}, "optimizer": "sgd", "checkpoints": 5}
    assert digest(checked_options(options).plain()) == "254af0041626d22ac28e221a0c3f371e"


def test_settings_are_values() -> None:
    settings = bm.IAT(alpha=0.4)
    assert settings == IAT(alpha=0.4) != IAT() and hash(settings) == hash(IAT(alpha=0.4))
    for again in (copy.deepcopy(settings), pickle.loads(pickle.dumps(settings))):
        assert again == settings
    with pytest.raises(ValueError, match="frozen"):
        settings.alpha = 0.5  # type: ignore[misc]
    assert settings.alpha == 0.4


def test_python_may_give_tuples_mappings_and_numbers_of_numpy() -> None:
    found = DissociationSettings(
        alpha=np.float32(0.5),  # type: ignore[arg-type]
        curve=(0.25, 0.5),  # type: ignore[arg-type]
        draws=np.int64(3),  # type: ignore[arg-type]
    )
    assert found == DissociationSettings(alpha=0.5, curve=[0.25, 0.5], draws=3)
    assert DissociationSettings(curve=np.array([0.5])).curve == [0.5]  # type: ignore[arg-type]
    assert type(found.alpha) is float and type(found.draws) is int


def test_where_a_wrong_value_is_named(tmp_path: Path) -> None:
    """A call names the class; a configuration names its file and the whole key."""
    with pytest.raises(InputError) as caught:
        bm.IAT(alpha=True)
    assert str(caught.value) == "IAT: alpha = True: input should be a valid number"
    path = tmp_path / "c.toml"
    for text, message in (
        ("[specialize]\nalpha = -1", "specialize.alpha = -1: input should be greater than or equal "
         "to 0"),
        (
            '[specialize]\nvariant = "prune"\nalpha = 1',
            "specialize: alpha = 1: variant 'prune' would switch every head off",
        ),
        (
            '[meta]\nunseen = ["topic"]\nouter_rate = 0.2',
            "meta: outer_rate = 0.2: expected below inner_rate = 0.1",
        ),
        ("[map]\nepochs = 2", "unknown key 'map.epochs'; did you mean 'training.epochs' or "
         "'transfer.epochs'?"),
        # A table is meant for a table: `off.train` and `adapt.train` hold values.
        ("[train]\nepochs = 2", "unknown key 'train'; did you mean 'training'?"),
        ("[task]\nuse = 1", "unknown key 'task'; did you mean 'tasks'?"),
        ("[rates]\nheads = 1e-3", "unknown key 'rates'; did you mean 'training.rates'?"),
    ):  # fmt: skip
        path.write_text(f'name = "a"\ntasks = ["builtin/topic"]\n{text}\n')
        with pytest.raises(InputError) as caught:
            load_config(path)
        assert str(caught.value) == f"{path}: {message}"


def test_the_command_line_has_the_default_share_of_heads() -> None:
    """Written out there, because the results would load numpy before `--help` is shown."""
    assert inspect.signature(prune).parameters["alpha"].default == USUAL_ALPHA
