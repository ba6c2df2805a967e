"""What every relation promises: `Relation` in `measuring/relations`, over all of `RELATIONS`."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import brodmann as bm
from brodmann.measuring.relations import RELATIONS, Inputs, Relation, names_of, title_of

SOURCES = get_args(Relation.__annotations__["of"])
MEASURED = [name for name, relation in RELATIONS.items() if relation.measure]
ELSEWHERE = {"trainings", "two runs"}  # measured by studies and stages
every_relation = pytest.mark.parametrize("name", RELATIONS)
every_measured = pytest.mark.parametrize("name", MEASURED)


@pytest.fixture(scope="module")
def tasks(tasks_of_every_kind: list[Any]) -> list[Any]:
    return [
        replace(task, spec=replace(task.spec, group=group))
        for task, group in zip(tasks_of_every_kind[:3], ("x", "y", "x"), strict=True)
    ]


@pytest.fixture(scope="module")
def model(tasks: list[Any]) -> Any:
    return bm.MultiTaskModel.from_pretrained(
        "builtin:tiny", tasks, architecture="single", max_length=32, seed=1
    ).eval()


@pytest.fixture(scope="module")
def voxels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from scipy.io import savemat

    folder = tmp_path_factory.mktemp("voxels")
    generator = np.random.default_rng(0)
    (folder / "P01").mkdir()
    measured = {"examples": generator.normal(size=(384, 5))}
    savemat(folder / "P01" / "examples_384sentences.mat", measured)
    texts = [f"the {'red' if n % 2 else 'old'} cat sat {n}" for n in range(384)]
    (folder / "sentences.txt").write_text("\n".join(texts))
    return folder


class Needs(Inputs):
    """Inputs that record which of the optional ones a measure reads."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("model", "sentences", "voxels", "split", "fit"):
            self.__dict__.setdefault("read", set()).add(name)
        return super().__getattribute__(name)


def measured(name: str, tasks: list[Any], model: Any, voxels: Path) -> tuple[Any, set[str]]:
    """The matrix of one relation, and the inputs that its measure read."""

    def fit(*given: Any, max_steps: int, **options: Any) -> Any:
        return bm.fit(*given, **options, max_steps=1)

    inputs = Needs(
        tasks=tasks,
        examples=6,
        batch_size=8,
        precision="float32",
        seed=0,
        model=model if RELATIONS[name].of == "run" else None,
        sentences=[f"the {word} cat" for word in ("red", "big", "old", "sad", "new")],
        voxels=voxels,
        fit=fit,
    )
    inputs.__dict__["read"] = set()
    document = RELATIONS[name].run(inputs)
    key = name if RELATIONS[name].alone else "matrix"
    return np.array(document[key], dtype=float), inputs.__dict__["read"]


@every_relation
def test_a_line_says_what_it_is_measured_on_and_shows(name: str) -> None:
    relation = RELATIONS[name]
    assert relation.of in SOURCES and name in names_of(relation.of)
    assert bool(relation.measure) == (relation.of not in ELSEWHERE)
    assert title_of(name).lower() == name
    assert relation.shows or relation.alone or relation.of == "two runs"
    assert not relation.shows.endswith(".")  # the page ends the sentence
    if relation.of == "data":
        assert not (relation.separate or relation.trains or relation.voxels or relation.sentences)
    documents = [one.file for other, one in RELATIONS.items() if one.alone and other != name]
    assert relation.file not in documents


@every_measured
def test_the_measure_exists_in_this_room(name: str) -> None:
    module, _, function = RELATIONS[name].measure.partition(":")
    assert module.startswith("brodmann.measuring.relations.")
    found = getattr(import_module(module), function)
    assert callable(found)


@every_measured
def test_the_matrix_and_the_needs_are_as_the_line_says(
    name: str, tasks: list[Any], model: Any, voxels: Path
) -> None:
    relation = RELATIONS[name]
    matrix, read = measured(name, tasks, model, voxels)
    assert matrix.shape == (len(tasks), len(tasks))
    apart = ~np.eye(len(tasks), dtype=bool)
    assert np.isfinite(matrix[apart]).all()
    assert np.isfinite(matrix).all() or relation.trains  # a task is no source of itself
    alike = np.allclose(matrix[apart], matrix.T[apart], atol=1e-9)
    assert alike == relation.symmetric
    needs = {"model": relation.of == "run", "sentences": relation.sentences}
    needs |= {"voxels": relation.voxels, "split": relation.pieces, "fit": relation.trains}
    assert read == {need for need, needed in needs.items() if needed}


@every_measured
def test_a_measure_repeats_to_the_bit(
    name: str, tasks: list[Any], model: Any, voxels: Path
) -> None:
    first, second = (measured(name, tasks, model, voxels)[0] for _ in range(2))
    assert np.array_equal(first, second, equal_nan=True)
