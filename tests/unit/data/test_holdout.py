"""Held-out rows: decided by the table and the seed alone, whoever asks for them."""

import itertools
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brodmann as bm
from brodmann.data.draws.holdout import hold_out
from brodmann.data.sources.table import Table

TASKS: list[dict[str, Any]] = [
    {"name": "mood", "kind": "classification", "label": "mood"},
    {"name": "subject", "kind": "classification", "label": "subject"},
    {"name": "both", "kind": "classification", "label": "mood", "text_pair": "title"},
    {"name": "score", "kind": "regression", "label": "score"},
    {"name": "names", "kind": "tokens", "tokens": "words"},
]


def table(rows: list[dict[str, Any]]) -> Table:
    return Table("t", rows, range(len(rows)))


def articles(count: int = 120, seed: int = 0) -> list[dict[str, Any]]:
    """One table that several tasks read; labels of two columns do not depend on each other."""
    draw = random.Random(seed)
    return [
        {
            "id": i,
            "text": f"a text about thing {i} and {draw.randrange(10**6)}",
            "title": f"title {i % 40}",
            "mood": draw.choice(["good", "bad"]),
            "subject": draw.choice(["sport", "food", "music"]),
            "score": draw.random() * 5,
            "words": ["a", "text", "about", f"thing{i}"],
            "tags": ["O", "O", "O", draw.choice(["B-X", "O"])],
        }
        for i in range(count)
    ]


def judged(task: Any) -> set[str]:
    """The number in each text of the validation set, however the task reads it."""
    return {
        (example.get("text") or example["tokens"][3]).split("thing")[1].split()[0]
        for example in task.splits["validation"]
    }


def test_neither_the_order_nor_the_call_nor_the_form_of_the_data_matters(tmp_path: Path) -> None:
    frame = pd.DataFrame(articles())
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    found = []
    for order in itertools.islice(itertools.permutations(TASKS), 0, 120, 23):
        tasks = bm.load_tasks([{**task, "data": "a.jsonl"} for task in order], base=tmp_path)
        found += [judged(task) for task in tasks]
    for task in TASKS:  # each alone: from the file, from a frame, from a list
        for data in (str(tmp_path / "a.jsonl"), frame, articles()):
            found.append(judged(bm.load_task(**task, data=data)))
    assert len(found[0]) == 12
    assert all(texts == found[0] for texts in found)


def test_no_text_that_one_task_is_judged_by_trains_another() -> None:
    rows = articles(300)
    loaded = [bm.load_task(**task, data=rows) for task in TASKS]
    for one, other in itertools.permutations(loaded, 2):
        trained = {example["text"] for example in one.splits["train"] if "text" in example}
        texts = {example["text"] for example in other.splits["validation"] if "text" in example}
        assert not trained & texts, (one.name, other.name)


def test_the_order_of_rows_does_not_matter_but_the_seed_does() -> None:
    rows = articles()
    mixed = random.Random(5).sample(rows, len(rows))
    held = {rows[line]["id"] for line in hold_out(table(rows), 0.1, 0)}
    assert held == {mixed[line]["id"] for line in hold_out(table(mixed), 0.1, 0)}
    assert held != {rows[line]["id"] for line in hold_out(table(rows), 0.1, 1)}


def test_every_column_of_labels_is_stratified() -> None:
    rows = articles(1000)
    held = hold_out(table(rows), 0.2, 0)
    assert len(held) == 200
    for column in ("mood", "subject"):
        counts = Counter(row[column] for row in rows)
        chosen = Counter(rows[line][column] for line in held)
        for value, count in counts.items():
            assert abs(chosen[value] - 0.2 * count) <= 0.02 * count, (column, value)
    tenths = Counter(int(2 * rows[line]["score"]) for line in held)
    assert len(tenths) == 10 and max(tenths.values()) <= 30


def test_one_column_of_labels_is_divided_exactly() -> None:
    rows = [{"text": f"text {i}", "label": f"c{i % 4}"} for i in range(200)]
    chosen = Counter(rows[line]["label"] for line in hold_out(table(rows), 0.2, 0))
    assert chosen == dict.fromkeys(("c0", "c1", "c2", "c3"), 10)
    rare = [*rows, {"text": "once", "label": "rare"}, {"text": "twice", "label": "rare"}]
    labels = [rare[line]["label"] for line in hold_out(table(rare), 0.05, 0)]
    assert labels.count("rare") == 1  # one to be judged by, one to learn from


def test_rows_without_a_label_leave_each_task_its_share() -> None:
    """Half of the rows have a mood, the others a subject."""
    rows = articles(400)
    for place, row in enumerate(rows):
        row["mood" if place % 2 else "subject"] = ""
    for name in ("mood", "subject"):
        task = bm.load_task(
            name, kind="classification", label=name, data=rows, skip_unlabelled=True
        )
        assert 18 <= task.sizes["validation"] <= 22 and task.sizes["train"] >= 178


@settings(max_examples=60, deadline=None)
@given(
    labels=st.lists(st.sampled_from("abc"), min_size=5, max_size=80),
    texts=st.integers(min_value=5, max_value=100),
    share=st.floats(min_value=0.05, max_value=0.6),
    seed=st.integers(0, 5),
)
def test_equal_texts_stay_on_one_side(
    labels: list[str], texts: int, share: float, seed: int
) -> None:
    rows = [{"text": f"text {i % texts}", "label": label} for i, label in enumerate(labels)]
    held = hold_out(table(rows), share, seed)
    kept = set(range(len(rows))) - held
    assert kept  # something is left to train on
    assert not {rows[i]["text"] for i in held} & {rows[i]["text"] for i in kept}
    trained = {rows[i]["label"] for i in kept}
    several = Counter(label for label, _ in {(row["label"], row["text"]) for row in rows})
    assert all(label in trained for label, count in several.items() if count > 1)


def test_contexts_and_sets_stay_whole() -> None:
    rows = [
        {"question": f"what is {i}?", "context": f"Passage {i // 5} has {'many ' * 9}words and x.",
         "answer": "x", "about": f"q{i // 2}"}
        for i in range(200)
    ]  # fmt: skip
    task = bm.load_task("t", kind="span", data=rows)
    contexts = [{e["context"] for e in task.splits[split]} for split in ("train", "validation")]
    assert not contexts[0] & contexts[1] and len(contexts[1]) == 4
    yes = [{"text": f"answer {i}", "of": f"q{i // 3}", "label": i % 2} for i in range(90)]
    task = bm.load_task("t", kind="classification", set="of", data=yes)
    sets = [{e["set"] for e in task.splits[split]} for split in ("train", "validation")]
    assert not sets[0] & sets[1] and task.sizes["validation"] == 9


def test_inputs_that_repeat_over_rows_with_other_texts_are_left_out_and_said() -> None:
    """The table is divided by its long text; this task reads only the title, which repeats."""
    rows = articles(120)
    task = bm.load_task("t", kind="classification", text="title", label="mood", data=rows)
    titles = [{e["text"] for e in task.splits[split]} for split in ("train", "validation")]
    assert not titles[0] & titles[1]
    left = 120 - sum(task.sizes.values())
    assert task.notes[:2] == [  # others may say what looks wrong with such data
        "t: no validation split: 12 of 120 training examples held out (stratified, seed 0)",
        f"t: {left} training examples left out because their input is held out in other rows",
    ]
    for row in rows:
        row["title"] = f"title {row['id'] % 3}"
    with pytest.raises(bm.InputError) as error:
        bm.load_task("t", kind="classification", text="title", label="mood", data=rows)
    assert str(error.value) == (
        "task 't': no validation set can be held out: 108 of 120 examples have an input that is "
        "also in it (the rows differ in columns that the task does not read): set a 'validation' "
        "file"
    )


def test_one_table_has_one_share() -> None:
    rows = articles()
    tasks = [{**TASKS[0], "data": rows}, {**TASKS[1], "data": rows, "validation_share": 0.2}]
    with pytest.raises(bm.InputError) as error:
        bm.load_tasks(tasks)
    assert str(error.value) == (
        "task 'subject': validation_share = 0.2, but 0.1 for another task over mood: rows that "
        "evaluate one would train the other: set the same for both"
    )


def test_too_few_different_texts_are_said() -> None:
    rows = [{"text": f"text {i % 2}", "label": "xy"[i % 2]} for i in range(60)]
    with pytest.raises(bm.InputError) as error:
        bm.load_task("t", kind="classification", data=rows)
    assert str(error.value) == (
        "task 't': 60 examples with 2 different texts are too few to hold out a validation set: "
        "provide more, or set a 'validation' file"
    )


def test_too_few_rows_are_said() -> None:
    for rows in (articles(1), [{"text": "a", "label": "x"}, {"text": "b", "label": "y"}]):
        with pytest.raises(bm.InputError) as error:
            label = "mood" if "mood" in rows[0] else "label"
            bm.load_task("t", kind="classification", label=label, data=rows)
        count = "1 example is" if len(rows) == 1 else "2 examples are"
        assert str(error.value) == (
            f"task 't': {count} too few to hold out a validation set: provide more, or set a "
            "'validation' file"
        )
