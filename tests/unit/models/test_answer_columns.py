"""A table to predict for comes back as the same table, with the answers as columns."""

from typing import Any

import pytest

import brodmann as bm

ROWS = [
    {"a": f"the red cat sat {i}", "b": "a red dog ran", "choices": ["yes", "no"], "other": i}
    for i in range(3)
]
# `words` holds the text itself: the token task reads it as a sentence to cut into words.
for _row in ROWS:
    _row["words"] = _row["a"]
COLUMNS = [
    f"{task}.{column}"
    for task, columns in (
        ("single", ("answer", "score")), ("pair", ("answer", "score")), ("many", ("answer",)),
        ("value", ("answer",)), ("pick", ("answer", "score")), ("where", ("answer", "score")),
        ("tag", ("answer", "score")),
    )
    for column in columns
]  # fmt: skip


def tables() -> list[Any]:
    import datasets
    import pandas as pd
    import polars as pl

    return [datasets.Dataset.from_list(ROWS), pd.DataFrame(ROWS), pl.DataFrame(ROWS)]


def rows_of(table: Any) -> list[dict[str, Any]]:
    found = table.to_list() if hasattr(table, "to_list") else (
        table.to_dicts() if hasattr(table, "to_dicts") else table.to_dict("records")
    )  # fmt: skip
    return list(found)


def test_every_task_adds_its_columns_to_the_same_type(tiny_model: Any) -> None:
    answers = tiny_model.predict_all(ROWS)
    for given in tables():
        found = bm.predict(tiny_model, given)
        assert type(found) is type(given)
        for row, answered, original in zip(rows_of(found), answers, ROWS, strict=True):
            assert list(row) == [*original, *COLUMNS]
            assert row["other"] == original["other"]
            assert row["single.answer"] == answered["single"]["label"]
            assert row["single.score"] == pytest.approx(answered["single"]["score"])
            assert list(row["many.answer"]) == answered["many"]["labels"]
            assert row["value.answer"] == pytest.approx(answered["value"]["value"])
            assert row["where.answer"] == answered["where"]["answer"]
            shown = [entity["text"] for entity in row["tag.answer"]]
            assert shown == [entity["text"] for entity in answered["tag"]["entities"]]
            assert len(row["tag.score"]) == len(shown)
        assert list(rows_of(given)[0]) == list(ROWS[0])  # the original is unchanged


def test_one_task_and_rows_that_a_task_cannot_read(tiny_model: Any) -> None:
    for given in tables():
        one = rows_of(bm.predict(tiny_model, given, "single"))[0]
        assert list(one) == [*ROWS[0], "single.answer", "single.score"]
    import polars as pl

    lazy = tiny_model.predict("single", pl.DataFrame(ROWS).lazy())
    assert lazy.columns[-2:] == ["single.answer", "single.score"]
    few = tiny_model.predict_all(pl.DataFrame({"a": ["the cat"]})).to_dicts()[0]
    assert few["single.answer"] is not None and few["pair.answer"] is None
    assert isinstance(tiny_model.predict("single", ROWS), list)


def test_wrong_tables_to_predict_for(tiny_model: Any) -> None:
    import datasets
    import pandas as pd

    for given in tables():
        with pytest.raises(bm.InputError) as caught:
            tiny_model.predict_all(tiny_model.predict("single", given))
        assert str(caught.value) == (
            "inputs: the column 'single.answer' is taken: rename it, or leave it out"
        )
    parts = datasets.DatasetDict(one=tables()[0], two=tables()[0])
    with pytest.raises(bm.InputError) as caught:
        tiny_model.predict("single", parts)
    assert str(caught.value) == "inputs: several splits (one, two): choose one, texts[split]"
    with pytest.raises(bm.InputError) as caught:
        tiny_model.predict("single", pd.DataFrame({"b": ["x"]}))
    assert str(caught.value) == (
        "input 1: task 'single' takes a text or {\"a\": ...}, found {'b': 'x'}"
    )
