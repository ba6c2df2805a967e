"""The built-in suite: reproducible, balanced, free of leaks, and as its relations promise."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import hstack
from scipy.stats import spearmanr
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from brodmann.data import builtin
from brodmann.data.builtin import LANGUAGES, SHARES_NOTHING, TASKS, TWINS, generate
from brodmann.data.builtin.entities import GRAMMAR as ENTITIES
from brodmann.data.builtin.entities import joined

SIZES = {"train": 150, "validation": 66, "test": 66}
EVERY = [(name, language) for name in TASKS for language in LANGUAGES]
FIGURES = Path(__file__).parents[3] / "benchmarks" / "results" / "builtin_suite.json"
FUNCTION_WORDS = {
    "en": set(builtin.words(", . a and as at of the to was")),
    "es": set(builtin.words(", . a al de del el en fue la nadie que un una y")),
}

Row = dict[str, Any]


def input_of(row: Row) -> tuple[str, ...]:
    fields = ("text", "text_pair", "question", "context")
    return (*(row.get(field, "") for field in fields), *row.get("tokens", ()))


def words_of(row: Row) -> list[str]:
    return [word for text in input_of(row) for word in builtin.words(text)]


def bag_of_words_score(name: str, language: str) -> float:
    """Accuracy, or Spearman correlation, of a linear model on the word counts of each text."""
    rows = generate(name, language, sizes={"train": 1500, "validation": 800})
    train, validation = rows["train"], rows["validation"]
    columns = []
    for field in ("text", "text_pair"):
        if field in train[0]:
            vectorizer = CountVectorizer(token_pattern=r"\w+")
            fitted = vectorizer.fit_transform([row[field] for row in train])
            columns.append((fitted, vectorizer.transform([row[field] for row in validation])))
    features, held_out = (hstack(list(side)).tocsr() for side in zip(*columns, strict=True))
    targets = [row["label"] for row in train]
    expected = [row["label"] for row in validation]
    if name == "similarity":
        return float(spearmanr(Ridge().fit(features, targets).predict(held_out), expected)[0])
    return float(LogisticRegression(max_iter=1000).fit(features, targets).score(held_out, expected))


def stored_figures() -> dict[str, Any]:
    figures: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))["tasks"]
    return figures


@pytest.mark.parametrize(("name", "language"), EVERY)
def test_rows_have_the_declared_columns_and_labels(name: str, language: str) -> None:
    task = TASKS[name]
    rows = generate(name, language, sizes=SIZES)
    assert {split: len(found) for split, found in rows.items()} == SIZES
    for row in (row for found in rows.values() for row in found):
        assert set(row) == set(task.columns.values())
        if task.kind == "classification":
            assert task.labels is not None and row["label"] in task.labels
        if task.kind == "regression":
            assert isinstance(row["label"], float) and 0 <= row["label"] <= 5


@pytest.mark.parametrize(("name", "language"), EVERY)
def test_same_arguments_same_rows_and_another_seed_others(name: str, language: str) -> None:
    rows = generate(name, language, sizes=SIZES, seed=3)
    assert rows == generate(name, language, sizes=SIZES, seed=3)
    assert rows != generate(name, language, sizes=SIZES, seed=4)


def test_rows_are_the_same_on_every_machine() -> None:
    texts = [row["text"] for row in generate("sentiment", "es", sizes={"test": 2})["test"]]
    assert texts == [
        "Todos decían que la cafetería era excelente, pero a mí me disgustó.",
        "Todos decían que la cafetería era horrible, pero a mí me pareció una maravilla.",
    ]


@settings(max_examples=15, deadline=None)
@given(
    name=st.sampled_from(list(TASKS)),
    language=st.sampled_from(LANGUAGES),
    seed=st.integers(0, 10**6),
    small=st.integers(0, 40),
    large=st.integers(40, 90),
)
def test_a_small_split_begins_a_large_one_and_ignores_the_others(
    name: str, language: str, seed: int, small: int, large: int
) -> None:
    alone = generate(name, language, sizes={"validation": small}, seed=seed)
    both = generate(name, language, sizes={"train": large, "validation": large}, seed=seed)
    assert both["validation"][:small] == alone["validation"]


@pytest.mark.parametrize(("name", "language"), EVERY)
def test_no_input_occurs_twice_within_or_between_splits(name: str, language: str) -> None:
    rows = generate(name, language, sizes=SIZES)
    inputs = [input_of(row) for found in rows.values() for row in found]
    assert len(set(inputs)) == len(inputs)


@pytest.mark.parametrize(("name", "language"), EVERY)
def test_one_input_has_one_label_whatever_the_seed(name: str, language: str) -> None:
    labels: dict[tuple[str, ...], Any] = {}
    for seed in (0, 1):
        for row in generate(name, language, sizes={"train": 500}, seed=seed)["train"]:
            label = row.get("label", row.get("answer_start", row.get("tags")))
            assert labels.setdefault(input_of(row), label) == label


def test_twins_never_see_each_others_held_out_texts() -> None:
    rows = [generate(name, sizes={"train": 2000, "validation": 500}) for name in TWINS]
    for ours, theirs in (rows, rows[::-1]):
        held_out = {row["text"] for row in theirs["validation"]}
        assert held_out.isdisjoint(row["text"] for row in ours["train"])


@settings(max_examples=15, deadline=None)
@given(
    name=st.sampled_from([name for name, task in TASKS.items() if task.kind != "tokens"]),
    language=st.sampled_from(LANGUAGES),
    seed=st.integers(0, 10**6),
    size=st.integers(1, 120),
)
def test_labels_are_balanced_at_every_size(name: str, language: str, seed: int, size: int) -> None:
    rows = generate(name, language, sizes={"train": size}, seed=seed)["train"]
    if TASKS[name].kind == "span":
        counts = Counter(row["question"].startswith(("Who", "¿Quién")) for row in rows)
        classes = 2
    else:
        counts = Counter(row["label"] for row in rows)
        classes = len(TASKS[name].labels or range(11))
    assert max(counts.values()) - min(counts.values()) <= 1
    assert len(counts) == min(size, classes)


@pytest.mark.parametrize("language", LANGUAGES)
def test_answers_stand_at_their_offset_and_nowhere_else(language: str) -> None:
    for row in generate("question", language, sizes=SIZES)["train"]:
        found = re.finditer(rf"\b{re.escape(row['answer'])}\b", row["context"])
        assert [match.start() for match in found] == [row["answer_start"]]
        assert 15 <= len(row["context"].split()) <= 50


@pytest.mark.parametrize("language", LANGUAGES)
def test_tags_are_well_formed(language: str) -> None:
    for row in generate("entities", language, sizes=SIZES)["train"]:
        assert len(row["tokens"]) == len(row["tags"])
        assert set(row["tags"]) <= set(TASKS["entities"].labels or ())
        for before, tag in zip(["O", *row["tags"]], row["tags"], strict=False):
            if tag.startswith("I-"):
                assert before[2:] == tag[2:]


@pytest.mark.parametrize("language", LANGUAGES)
def test_one_sentence_in_five_names_nothing(language: str) -> None:
    rows = generate("entities", language, sizes={"train": 500, "test": 100})
    for split, found in rows.items():
        plain = [row for row in found if set(row["tags"]) == {"O"}]
        assert len(plain) == len(found) / 5, split
        assert len({" ".join(row["tokens"]) for row in plain}) == len(plain)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_quarter_of_the_invented_names_is_new_outside_training(language: str) -> None:
    grammar = ENTITIES[language]
    names = joined(grammar["stems"], grammar["endings"])
    rows = generate("entities", language, sizes={"train": 2000, "validation": 2000})
    seen = {
        split: {word for row in found for word in row["tokens"]} for split, found in rows.items()
    }
    assert seen["train"].isdisjoint(names[3::4])
    assert seen["validation"].issuperset(names)


def test_twins_have_one_distribution_of_words_and_other_label_names() -> None:
    ours, theirs = TWINS
    assert set(TASKS[ours].labels or ()).isdisjoint(TASKS[theirs].labels or ())
    for language in LANGUAGES:
        assert builtin.task_vocabulary(ours, language) == builtin.task_vocabulary(theirs, language)
        rows = [generate(name, language, sizes={"train": 3000})["train"] for name in TWINS]
        assert [row["text"] for row in rows[0]] != [row["text"] for row in rows[1]]
        for label in (0, 1):
            shares = []
            for name, found in zip(TWINS, rows, strict=True):
                wanted = (TASKS[name].labels or ())[label]
                counts = Counter(
                    word for row in found if row["label"] == wanted for word in words_of(row)
                )
                shares.append({word: count / counts.total() for word, count in counts.items()})
            # Half the absolute difference is the total variation distance, 0 to 1.
            every = set(shares[0]) | set(shares[1])
            apart = sum(abs(shares[0].get(word, 0) - shares[1].get(word, 0)) for word in every)
            assert apart / 2 < 0.06  # two seeds of one task are as far apart


@pytest.mark.parametrize("language", LANGUAGES)
def test_two_tasks_share_no_content_word(language: str) -> None:
    ours, theirs = (builtin.task_vocabulary(name, language) for name in SHARES_NOTHING)
    assert ours & theirs == FUNCTION_WORDS[language]


@pytest.mark.parametrize("language", LANGUAGES)
def test_vocabulary_holds_every_word_and_is_sorted(language: str) -> None:
    vocabulary = builtin.vocabulary(language)
    assert vocabulary == sorted(set(vocabulary))
    for name in TASKS:
        own = builtin.task_vocabulary(name, language)
        for row in generate(name, language, sizes={"train": 500})["train"]:
            assert own.issuperset(words_of(row))
        assert own.issubset(vocabulary)


@pytest.mark.parametrize("name", TASKS)
def test_the_grammar_is_large_enough(name: str) -> None:
    assert len(generate(name, sizes={"train": 3000})["train"]) == 3000


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError) as error:
        generate("sentimental", sizes={"train": 1})
    assert str(error.value) == (
        "unknown builtin task 'sentimental': expected one of sentiment, opinion, topic, "
        "acceptability, paraphrase, entailment, similarity, question, entities, "
        "team, club"
    )
    with pytest.raises(ValueError) as error:
        generate("topic", "fr", sizes={"train": 1})
    assert str(error.value) == "unknown language 'fr': expected one of en, es"
    with pytest.raises(ValueError) as error:
        generate("topic", sizes={"dev": 1})
    assert str(error.value) == "unknown split 'dev': expected one of train, validation, test"


def test_an_exhausted_grammar_says_how_much_it_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(source: Any, language: str, target: int, split: str) -> Row:
        return {"text": f"{int(source.random() * 100)} {target}"}

    monkeypatch.setitem(builtin.MAKERS, "topic", make)
    available = [
        sum(builtin.belongs(f"{number} {target}\n\n\n", "train") for number in range(100))
        for target in range(4)
    ]
    generate("topic", sizes={"train": 4 * min(available)})
    with pytest.raises(ValueError) as error:
        generate("topic", sizes={"train": 400})
    gave = re.findall(r"gave (\d+) ", str(error.value))[0]
    assert 4 * min(available) <= int(gave) <= 4 * min(available) + 3
    assert str(error.value) == (
        f"builtin/topic in 'en' gave {gave} distinct train examples and then no new one: "
        "400 were asked for"
    )


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("name", "lowest", "highest"),
    [
        ("acceptability", 0.42, 0.58),
        ("paraphrase", 0.42, 0.58),
        ("entailment", 0.26, 0.41),
        ("similarity", -0.2, 0.2),
        ("sentiment", 0.6, 0.85),
        ("topic", 0.6, 0.9),
    ],
)
def test_a_bag_of_words_does_not_solve(
    name: str, lowest: float, highest: float, language: str
) -> None:
    assert lowest <= bag_of_words_score(name, language) <= highest


def test_stored_figures_belong_to_this_generator() -> None:
    assert set(stored_figures()) == set(TASKS)
    for name, figures in stored_figures().items():
        assert figures["fingerprint"] == builtin.fingerprint(name)


@pytest.mark.parametrize("name", ["acceptability", "paraphrase", "entailment", "similarity"])
def test_stored_figures_minilm_beats_the_bag_of_words_by_twenty_points(name: str) -> None:
    figures = stored_figures()[name]
    assert figures["minilm"] - figures["baseline"] >= 0.2


@pytest.mark.parametrize("name", [*TWINS, "topic"])
def test_stored_figures_minilm_solves_the_single_sentences(name: str) -> None:
    assert stored_figures()[name]["minilm"] >= 0.85
