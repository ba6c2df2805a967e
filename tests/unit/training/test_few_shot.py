"""Few-shot transfer: the same draws for all, a model that really starts anew, texts read once."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from tests.checkers import assert_same_bits

import brodmann as bm
from brodmann.data.batches import make_batch
from brodmann.training.few_shot import Amount, draw, transfer


@pytest.fixture
def task() -> Any:
    limit = {"train": 120, "validation": 40, "test": 8}
    return bm.load_tasks([{"use": "builtin/topic", "limit": limit}])[0]


def start(seed: int = 0) -> Any:
    limit = {"train": 16, "validation": 8, "test": 8}
    tasks = bm.load_tasks([{"use": "builtin/sentiment", "limit": limit}])
    return bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks, seed=seed)


def test_draws_are_balanced_seeded_and_nested_in_nothing(task: Any) -> None:
    labels = [example["label"] for example in task.splits["train"]]
    for count in (2, 4, 8, 30):
        places = draw(task, Amount(examples=count), 0)
        assert len(set(places)) == count and places == draw(task, Amount(examples=count), 0)
        each = Counter(labels[place] for place in places)
        assert max(each.values()) - min([each[label] for label in range(4)]) <= 1
    assert draw(task, Amount(examples=8), 0) != draw(task, Amount(examples=8), 1)
    tenth = draw(task, Amount(share=0.1), 0)
    whole = Counter(labels)
    for label, number in Counter(labels[place] for place in tenth).items():
        assert abs(number - whole[label] / 10) < 1
    assert len(tenth) == 12 and len(draw(task, Amount(share=1.0), 0)) == 120
    for wrong in (Amount(examples=121), Amount(share=0.001)):
        with pytest.raises(bm.InputError, match="training examples cannot be drawn"):
            draw(task, wrong, 0)


def test_every_training_starts_anew_and_order_does_not_matter(task: Any) -> None:
    amounts = [Amount(examples=4), Amount(examples=16)]
    options: Any = {"epochs": 2, "learning_rate": 1e-3, "max_length": 32}
    starts = {"a": start(), "b": start(1)}
    rows = list(transfer(starts, task, amounts, [3, 2], **options))
    assert Counter((row["start"], row["amount"]) for row in rows) == {
        (name, amount): count for name in "ab" for amount, count in (("4", 3), ("16", 2))
    }
    done = {(row["start"], row["amount"], row["seed"]) for row in rows[:7]}
    rest = list(transfer(starts, task, amounts, [3, 2], done=done, **options))
    assert rest == rows[7:]
    before = starts["a"].state_dict()
    assert_same_bits(before, start())


def test_it_equals_a_training_by_hand(task: Any) -> None:
    source = start()
    row = next(iter(transfer({"a": source}, task, [Amount(examples=8)], [1], epochs=3,
                             learning_rate=1e-3)))  # fmt: skip
    places = draw(task, Amount(examples=8), 0)
    few = bm.Task(task.spec, {**task.splits, "train": [task.splits["train"][i] for i in places]})
    model = source.for_tasks([task])
    progress = bm.fit(model, [few], epochs=3, batch_size=8, learning_rate=1e-3, keep="last",
                      evaluate_every=999)  # fmt: skip
    assert row["scores"] == progress.evaluations[-1]["scores"]["topic"]


def test_a_new_task_gets_a_copy_of_the_encoder(task: Any) -> None:
    source = start()
    model = source.for_tasks([task], max_length=24)
    ours, theirs = (dict(m.encoder.named_parameters()) for m in (model, source))
    assert_same_bits(ours, theirs)
    assert all(ours[n] is not theirs[n] for n in ours)
    assert list(model.specs) == ["topic"] and model.settings.max_length == 24
    assert source.settings.max_length == 128
    frozen = bm.MultiTaskModel.from_pretrained("builtin:tiny", [task], freeze="encoder")
    assert all(p.requires_grad for p in frozen.for_tasks([task]).parameters())
    single = bm.MultiTaskModel.from_pretrained("builtin:tiny", [task], architecture="single")
    with pytest.raises(bm.InputError, match="architecture 'single': its encoder knows the tasks"):
        single.for_tasks([task])


@pytest.mark.parametrize("place", range(7))
def test_part_of_an_encoding_is_the_encoding_of_the_part(
    place: int, tasks_of_every_kind: list[Any]
) -> None:
    task = tasks_of_every_kind[place]
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", [task], max_length=12)
    examples = task.splits["train"]
    whole = model.encode(task.spec, examples, cache=False)
    chosen = np.array([5, 2, 11])
    part = whole.only(chosen)
    again = model.encode(task.spec, [examples[i] for i in chosen], cache=False)
    for name in ("ids", "starts", "item_rows", "item_example", "types"):
        assert np.array_equal(getattr(part, name), getattr(again, name)), name
    for name in ("labels", "places"):
        ours, theirs = getattr(part, name), getattr(again, name)
        assert ours.keys() == theirs.keys()
        assert all(np.array_equal(ours[key], theirs[key]) for key in ours)
    make_batch([(task.name, part, np.arange(part.items))], pad_id=0)
