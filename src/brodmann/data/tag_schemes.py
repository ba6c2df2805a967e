"""Convert entity tags to BIO, in which `B-X` begins an entity and `I-X` continues it.

IOB1 writes `B-` only if an entity directly follows another of the same label, so that `I-` may
begin one; IOB2 is BIO under its older name; BIOES marks ends (`E-`) and single words (`S-`).
Reference: Tjong Kim Sang & Veenstra 1999, "Representing Text Chunks".
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from brodmann.errors import InputError

TagScheme = Literal["bio", "iob1", "iob2", "bioes"]
PREFIXES: dict[str, str] = {"bio": "BI", "iob2": "BI", "iob1": "BI", "bioes": "BIES"}


def to_bio(tags: Sequence[str], scheme: str) -> list[str]:
    """Convert one sentence; a tag that the scheme does not allow in its place is an error."""
    converted: list[str] = []
    before = "O"  # the tag before, as it was given
    for place, tag in enumerate([*tags, "O"]):
        prefix, label = parts(tag, scheme)
        if scheme == "bioes" and before[0] in "BI" and prefix not in "IE":
            raise InputError(
                f"tags: '{before}' at word {place} is followed by no I- or E-, which bioes does "
                'not allow (tag_scheme = "bio" has no E-)'
            )
        if place == len(tags):
            break
        inside = prefix in "IE"  # continues an entity, if there is one
        goes_on = before != "O" and before[0] not in "ES" and before[2:] == label
        if inside and not goes_on and scheme != "iob1":
            raise InputError(
                f"tags: '{tag}' at word {place + 1} follows '{before}', which {scheme} does not "
                'allow (tag_scheme = "iob1" lets I- begin an entity)'
            )
        if prefix == "O":
            converted.append("O")
        else:
            converted.append(f"{'I' if inside and goes_on else 'B'}-{label}")
        before = tag
    return converted


def parts(tag: str, scheme: str) -> tuple[str, str]:
    """(prefix, label) of a tag; `O` has no label."""
    if tag == "O":
        return "O", ""
    if len(tag) < 3 or tag[1] != "-" or tag[0] not in PREFIXES[scheme]:
        known = ", ".join(f"{prefix}-X" for prefix in PREFIXES[scheme])
        raise InputError(f"tags: '{tag}' is not a tag of {scheme}, expected O, {known}")
    return tag[0], tag[2:]


def bio_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """The label set after the conversion: both tags of every label, in order of appearance."""
    names = dict.fromkeys(tag[2:] for tag in labels if tag != "O")
    return ("O", *(f"{prefix}-{name}" for name in names for prefix in "BI"))


def loose_beginnings(tags: Sequence[str]) -> int:
    """Number of entities that begin with `I-`: none in BIO, nearly all in IOB1."""
    return sum(
        tag.startswith("I-") and (place == 0 or tags[place - 1][2:] != tag[2:])
        for place, tag in enumerate(tags)
    )


def entities(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """(label, first word, last word) of every entity, read as conlleval and seqeval do.

    An `I-X` after `O` or after another label begins a new entity.
    """
    found: list[tuple[str, int, int]] = []
    start, current = 0, ""
    for place, tag in enumerate([*tags, "O"]):
        prefix, label = ("O", "") if tag == "O" else (tag[0], tag[2:])
        if current and (prefix != "I" or label != current):
            found.append((current, start, place - 1))
            current = ""
        if prefix != "O" and not current:
            start, current = place, label
    return found
