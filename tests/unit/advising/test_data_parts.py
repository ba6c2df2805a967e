"""Division by text: shares, no text in two parts, given splits, copies of tasks."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from brodmann.advising.data_parts import Parts, divide_tasks, text_key
from brodmann.advising.health import examine_tasks, language_of
from brodmann.config import Config, checked_config
from brodmann.data import builtin
from brodmann.errors import InputError

Rows = list[dict[str, Any]]


def generated(task: str, count: int = 200, seed: int = 0) -> Rows:
    return builtin.generate(task, "en", sizes={"train": count}, seed=seed)["train"]


def divided(folder: Path, **tasks: dict[str, Any]) -> Parts:
    """Write the rows of each task and divide; a key that holds rows becomes a file."""
    described = []
    for name, task in tasks.items():
        own = dict(task)
        for split in ("train", "validation", "test"):
            if split in own:
                path = folder / f"{name}.{split}.jsonl"
                path.write_text("".join(json.dumps(row) + "\n" for row in own[split]))
                own[split] = str(path)
        described.append(
            {"name": name, "kind": "classification", "text": "text", "label": "label"} | own
        )
    config: Config = checked_config({"name": "x", "tasks": described}, "test", folder)[0]
    return divide_tasks(config, folder / "out")


def test_parts_have_their_shares_and_share_no_text(tmp_path: Path) -> None:
    parts = divided(tmp_path, a={"train": generated("topic")}, b={"train": generated("sentiment")})
    seen: dict[str, str] = {}
    for task in parts.tasks:
        sizes = task.sizes
        assert sizes["train"] + sizes["validation"] + sizes["test"] == 200
        assert 38 <= sizes["validation"] <= 42 and 38 <= sizes["test"] <= 42
        counts = [sum(e["label"] == 0 for e in task.splits[s]) / sizes[s] for s in task.splits]
        assert max(counts) - min(counts) < 0.06  # in proportion to the labels
        for split, examples in task.splits.items():
            assert all(seen.setdefault(text_key(e), split) == split for e in examples)


def test_a_text_of_two_tasks_is_in_the_same_part_of_both(tmp_path: Path) -> None:
    rows = generated("topic")
    other = [{"text": r["text"].upper() + " ", "label": "xy"[i % 2]} for i, r in enumerate(rows)]
    random.Random(0).shuffle(other)
    parts = divided(tmp_path, a={"train": rows}, b={"train": other})
    texts = [{s: {text_key(e) for e in t.splits[s]} for s in t.splits} for t in parts.tasks]
    assert texts[0] == texts[1]


def test_given_splits_are_the_parts_and_nobody_trains_on_their_texts(tmp_path: Path) -> None:
    rows = generated("topic", 300)
    mine = {"train": rows[:150], "test": rows[150:200]}
    parts = divided(tmp_path, a=mine, b={"train": rows[100:300]})
    a, b = parts.tasks
    assert [text_key(e) for e in a.splits["test"]] == [text_key(r) for r in rows[150:200]]
    judged = {text_key(r) for r in rows[150:200]}
    assert not judged & {text_key(e) for e in b.splits["train"]}
    assert parts.left_out["a"] == 0 and sum(b.sizes.values()) == 200


def test_a_training_row_of_another_tasks_validation_split_is_left_out(tmp_path: Path) -> None:
    rows = generated("topic", 300)
    a = {"train": rows[:120], "validation": rows[120:160], "test": rows[160:200]}
    b = {"train": rows[120:280], "validation": rows[280:300], "test": rows[:20]}
    parts = divided(tmp_path, a=a, b=b)
    assert parts.left_out == {"a": 20, "b": 80}


def test_the_parts_are_the_same_in_any_order_of_rows(tmp_path: Path) -> None:
    rows = generated("topic")
    shuffled = list(rows)
    random.Random(1).shuffle(shuffled)
    found = []
    for place, own in enumerate((rows, shuffled)):
        (tmp_path / str(place)).mkdir()
        (task,) = divided(tmp_path / str(place), a={"train": own}).tasks
        found.append({s: sorted(map(text_key, e)) for s, e in task.splits.items()})
    assert found[0] == found[1]


def test_too_few_examples_of_a_part_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError) as wrong:
        divided(tmp_path, a={"train": generated("topic", 40)})
    assert str(wrong.value) == (
        "task 'a': 8 examples to choose by, expected at least 10: provide more labelled rows, or "
        "leave the task out"
    )


def test_a_copy_is_found_whatever_its_order_and_label_names(tmp_path: Path) -> None:
    rows = generated("topic")
    names = {label: f"k{n}" for n, label in enumerate(sorted({r["label"] for r in rows}))}
    copy = [{"text": f" {r['text'].lower()}", "label": names[r["label"]]} for r in rows[:150]]
    random.Random(0).shuffle(copy)
    labels = [row["label"] for row in rows]
    random.Random(0).shuffle(labels)
    noise = [{"text": r["text"], "label": y} for r, y in zip(rows, labels, strict=True)]
    parts = divided(tmp_path, a={"train": rows}, b={"train": copy}, c={"train": noise})
    found = examine_tasks(parts)
    assert found["copies"] == {"b": "a"}
    pairs = {tuple(pair["tasks"]): pair for pair in found["pairs"]}
    assert pairs["a", "b"]["share"] == 1.0 and pairs["a", "b"]["agreement"] == 1.0
    assert pairs["a", "c"]["share"] == 1.0 and pairs["a", "c"]["agreement"] < 0.6
    assert not pairs["a", "c"]["duplicate"]


def test_repeats_contradictions_and_imbalance_are_noted(tmp_path: Path) -> None:
    rows = [{"text": r["text"], "label": "no"} for r in generated("topic")]
    rows += [{**r, "label": "yes"} for r in rows[:6]]
    found = examine_tasks(divided(tmp_path, a={"train": rows}))["tasks"]["a"]
    assert found["notes"][:2] == [
        "6 of 206 rows repeat an input",
        "6 inputs have different labels in different rows",
    ]
    assert any("of its examples have the label 'no'" in note for note in found["notes"])
    assert found["language"] == "en"


def test_languages() -> None:
    assert language_of(["der Hund ist nicht in dem Haus und die Katze mit den Mäusen auf"]) == "de"
    assert language_of(["кошка сидит на окне и смотрит"]) == "Cyrillic"
    assert language_of(["turn on lamp"]) == "unknown"
