"""Tag schemes: written from entities, read back as the same entities."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brodmann as bm
from brodmann.data.tag_schemes import bio_labels, entities, loose_beginnings, to_bio
from brodmann.errors import InputError

# A sentence as stretches: (label or O, length).
stretches = st.lists(st.tuples(st.sampled_from(["O", "PER", "LOC"]), st.integers(1, 3)), max_size=6)


def written(parts: list[tuple[str, int]], scheme: str) -> list[str]:
    tags: list[str] = []
    before = "O"
    for label, length in parts:
        if label == "O":
            tags += ["O"] * length
        elif scheme == "bioes":
            inner = [f"B-{label}", *[f"I-{label}"] * (length - 2), f"E-{label}"]
            tags += [f"S-{label}"] if length == 1 else inner
        else:
            first = "I" if scheme == "iob1" and before != label else "B"
            tags += [f"{first}-{label}", *[f"I-{label}"] * (length - 1)]
        before = label
    return tags


@settings(max_examples=100, deadline=None)
@given(stretches, st.sampled_from(["bio", "iob2", "iob1", "bioes"]))
def test_every_scheme_becomes_the_same_bio(parts: list[tuple[str, int]], scheme: str) -> None:
    bio = written(parts, "bio")
    assert to_bio(written(parts, scheme), scheme) == bio
    assert loose_beginnings(bio) == 0
    assert len(entities(bio)) == sum(label != "O" for label, _ in parts)


def test_what_a_scheme_does_not_allow_is_said() -> None:
    with pytest.raises(InputError, match="'I-PER' at word 2 follows 'O', which bio does not allow"):
        to_bio(["O", "I-PER"], "bio")
    with pytest.raises(InputError, match="'I-LOC' at word 2 follows 'B-PER'"):
        to_bio(["B-PER", "I-LOC"], "iob2")
    with pytest.raises(InputError, match="'B-PER' at word 1 is followed by no I- or E-"):
        to_bio(["B-PER", "O"], "bioes")
    with pytest.raises(InputError, match="'B-PER' at word 2 is followed by no I- or E-"):
        to_bio(["S-PER", "B-PER"], "bioes")
    with pytest.raises(InputError, match="'E-PER' is not a tag of iob1, expected O, B-X, I-X"):
        to_bio(["E-PER"], "iob1")


def test_a_task_in_another_scheme_is_converted() -> None:
    rows = [{"tokens": ["Ann", "Lee", "met", "Bo"], "tags": [1, 1, 0, 1]}] * 6
    judged = [{"tokens": ["Jo", "Lee", "met", "Bo"], "tags": [1, 1, 0, 1]}] * 6
    labels = ["O", "I-PER"]
    task = bm.load_task(
        "t", kind="tokens", train=rows, validation=judged, labels=labels, tag_scheme="iob1"
    )
    assert task.spec.labels == bio_labels(labels) == ("O", "B-PER", "I-PER")
    assert task.splits["train"][0]["tags"] == [1, 2, 0, 1]
    assert not task.notes
    loose = bm.load_task("t", kind="tokens", train=rows, validation=judged, labels=labels)
    assert loose.notes == ['t: 24 entities begin with I-: tag_scheme = "iob1" converts them']
    with pytest.raises(InputError, match=r"row 1: task 't': tags: 'I-PER' at word 1 follows 'O'"):
        bm.load_task(
            "t", kind="tokens", train=rows, validation=rows, labels=labels, tag_scheme="bio"
        )
