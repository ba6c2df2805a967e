"""A bar counts what its total counts: texts, not the windows in which a long one is read."""

import brodmann as bm
from brodmann.models.evaluation import evaluate, item_outputs


def test_a_long_text_is_counted_once() -> None:
    words = [f"w{number % 7}" for number in range(90)]
    rows = [
        {"tokens": words[: 10 + 20 * (i % 5)], "tags": ["B-X"] + ["O"] * (9 + 20 * (i % 5))}
        for i in range(20)
    ]
    task = bm.load_task("names", kind="tokens", train=rows, validation=rows[:11])
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", [task], max_length=32)
    encoded = model.encode(task.spec, task.splits["validation"])
    assert encoded.items > encoded.examples == 11
    counted: list[int] = []
    item_outputs(model, "names", encoded, batch_size=4, progress=counted.append)
    assert sum(counted) == 11
    counted.clear()
    evaluate(model, [task], batch_size=4, progress=counted.append)
    assert sum(counted) == 11
