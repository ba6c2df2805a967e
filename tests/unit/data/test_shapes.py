"""Odd datasets: each row becomes what its authors describe."""

import pytest
from tests.hub_rows import hub_rows

from brodmann.data.catalogue import entries
from brodmann.data.sources.dataset_shapes import shaped
from brodmann.errors import InputError


def first(name: str, place: int = 0) -> dict[str, object]:
    return hub_rows(entries()[name])[place]


def test_wic_marks_the_word_in_both_sentences() -> None:
    row = shaped(first("superglue/wic"), "wic")
    assert row is not None
    assert row["text"].startswith("The * red * cat") and row["text_pair"] == "A * red * day."
    with pytest.raises(InputError, match="start1 = 4, end1 = 900: outside its sentence"):
        shaped({**first("superglue/wic"), "end1": 900}, "wic")


def test_wsc_marks_phrase_and_pronoun_by_word() -> None:
    row = first("superglue/wsc")
    marked = "* Ann Lee, * told Bo that # she # was red."
    assert (shaped(row, "wsc") or {})["text"] == marked
    wrong_place = {**row, "span2_index": 3}  # the published file has such a row
    assert (shaped(wrong_place, "wsc") or {})["text"] == marked
    possessive = {**row, "text": "Ann Lee's dog said she was red.", "span2_index": 4}
    assert (shaped(possessive, "wsc") or {})["text"].startswith("* Ann Lee's * dog said # she #")
    with pytest.raises(InputError, match="span2_text: 'they' is not in the text"):
        shaped({**row, "span2_text": "they"}, "wsc")


def test_copa_asks_in_words() -> None:
    cause, effect = (shaped(first("superglue/copa", i), "copa") or {} for i in range(2))
    assert cause["text"].endswith("What was the cause of this?")
    assert effect["text"].endswith("What happened as a result?")
    assert cause["choices"] == ["It was tired.", "It ran away."]


def test_multirc_names_the_question_as_a_set() -> None:
    rows = [shaped(first("superglue/multirc", i), "multirc") or {} for i in range(4)]
    assert [row["set"] for row in rows] == ["0/0", "0/0", "0/0", "0/1"]
    assert rows[0]["text_pair"] == "Where? There, 0."


def test_record_fills_every_entity_in() -> None:
    row = shaped(first("superglue/record", 1), "record") or {}
    assert row["choices"] == ["Then Ann Lee left.", "Then Bo Diaz left.", "Then Cats left."]
    assert row["choice_names"] == ["Ann Lee", "Bo Diaz", "Cats"] and row["label"] == [0, 2]
    with pytest.raises(InputError, match="no @placeholder"):
        shaped({**first("superglue/record"), "query": "Who?"}, "record")


def test_mrqa_takes_every_detected_place_and_the_given_answers() -> None:
    row = shaped(first("mrqa/squad"), "mrqa") or {}
    assert row["answer"] == {"text": ["red", "cat"], "answer_start": [4, 8]}
    assert row["aliases"] == ["RED", "a cat"]


def test_hotpot_prefers_a_supporting_paragraph_and_leaves_yes_and_no_out() -> None:
    row = shaped(first("hotpot_qa"), "hotpot") or {}
    start = row["answer"]["answer_start"][0]
    assert row["context"][start - 4 : start + 3] == "The red"
    assert row["context"].startswith("Dogs: A red dog.\nCats: The red")
    assert shaped(first("hotpot_qa", 4), "hotpot") is None
    elsewhere = {**first("hotpot_qa"), "answer": "dog"}
    assert (shaped(elsewhere, "hotpot") or {})["answer"]["text"] == ["dog"]


def test_a_row_of_another_dataset_is_named() -> None:
    with pytest.raises(InputError, match="the shape 'wic' needs the field 'sentence1'"):
        shaped({"text": "x"}, "wic")
    with pytest.raises(InputError, match="idx: expected a table of fields, found 3"):
        shaped({**first("superglue/multirc"), "idx": 3}, "multirc")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("superglue/wic", {"sentence2": ["a"]}, "sentence2: expected a text, found ['a']"),
        ("superglue/wic", {"start1": "4"}, "start1: expected a whole number, found '4'"),
        ("superglue/wsc", {"span1_text": ""}, "span1_text: expected a text, found ''"),
        ("superglue/copa", {"premise": None}, "premise: expected a text, found None"),
        ("superglue/copa", {"question": ["x"]}, "question: expected cause or effect"),
        ("superglue/multirc", {"answer": None}, "answer: expected a text, found None"),
        ("superglue/multirc", {"idx": {"paragraph": None, "question": 1}}, "paragraph: expected a"),
        ("superglue/record", {"entities": "Ann Lee"}, "entities: expected a list of texts"),
        ("mrqa/squad", {"answers": "red"}, "answers: expected a list of texts, found 'red'"),
        ("mrqa/squad", {"detected_answers": {"text": [], "char_spans": []}}, "no answer was"),
        (
            "mrqa/squad",
            {"detected_answers": {"text": ["x"], "char_spans": [{"start": [9], "end": [999]}]}},
            "char_spans: 9 to 999 is not in the context",
        ),
        ("hotpot_qa", {"answer": ""}, "answer: expected a text, found ''"),
        ("hotpot_qa", {"context": "x"}, "context: expected the paragraphs with their titles"),
    ],
)
def test_damaged_rows_are_named(name: str, change: dict[str, object], message: str) -> None:
    entry = entries()[name]
    with pytest.raises(InputError) as caught:
        shaped({**first(name), **change}, str(entry.shape))
    assert message in str(caught.value)


@pytest.mark.parametrize("name", [n for n, e in entries().items() if e.shape])
def test_rows_without_an_answer_have_the_same_shape(name: str) -> None:
    """What is needed to read a row is not what is needed to score it."""
    entry = entries()[name]
    row = first(name)
    for field in ("label", "answers", "detected_answers", "supporting_facts", "idx"):
        row.pop(field, None)
    if entry.shape == "hotpot":
        row.pop("answer")
    assert shaped(row, str(entry.shape)) is not None
