"""What users give to a model: texts, pairs, lists of words, rows with columns, tables."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from brodmann.data.character_spans import words_of
from brodmann.data.kinds import KINDS
from brodmann.data.sources.dataset_shapes import MissingFieldError, shaped
from brodmann.data.sources.in_memory import from_memory, is_dataset, is_divided, is_frame
from brodmann.data.tasks import Example, TaskSpec
from brodmann.errors import InputError


def read_inputs(
    spec: TaskSpec, texts: Sequence[Any], places: Sequence[int] | None = None
) -> list[Example]:
    """Inputs → examples; `places` are those of the inputs in a longer list, for messages."""
    examples = []
    given = as_list(texts)
    for place, text in zip(places or range(len(given)), given, strict=True):
        try:
            text = in_shape(spec, text)
        except InputError as error:
            raise InputError(f"input {place + 1}: task '{spec.name}': {error}") from None
        if not fits(spec, text):
            raise InputError(
                f"input {place + 1}: task '{spec.name}' takes {expected_input(spec)}, "
                f"found {text!r:.60}"
            )
        try:
            examples.append(KINDS[spec.kind].read(_by_role(spec, text), spec, False))
        except InputError as error:
            raise InputError(f"input {place + 1}: {error}") from None
    return examples


def as_list(texts: Any) -> list[Any]:
    """Inputs from a list, a generator, a frame or a Dataset (one input per row)."""
    if is_divided(texts):
        raise InputError(f"inputs: several splits ({', '.join(texts)}): choose one, texts[split]")
    if isinstance(texts, str | Mapping):
        raise InputError(
            f"expected a list of inputs, found one {type(texts).__name__}: put it in [ ]"
        )
    return from_memory(texts, "inputs").rows if is_table(texts) else list(texts)


def plain_inputs(examples: Sequence[Example]) -> list[Any]:
    """The texts of any task's examples as inputs: a string, or a pair of strings."""
    found: list[Any] = []
    for example in examples:
        if "tokens" in example:
            found.append(example.get("text") or " ".join(example["tokens"]))
        elif "context" in example:
            found.append((example["question"], example["context"]))
        elif "text_pair" in example:
            found.append((example["text"], example["text_pair"]))
        else:
            found.append(example["text"])
    return found


def is_table(texts: Any) -> bool:
    """Whether answers come back as columns of the same table: a frame, or a whole Dataset."""
    return is_frame(texts) or (is_dataset(texts) and hasattr(texts, "num_rows"))


def text_roles(spec: TaskSpec) -> list[str]:
    """What the task reads: `text`, `text_pair`, `question`, `context`, `tokens`, `choices`."""
    kind = KINDS[spec.kind]
    return [role for role in spec.columns if role not in kind.TARGETS]


def fits(spec: TaskSpec, text: Any) -> bool:
    """Whether the input has the columns that the task reads."""
    roles = text_roles(spec)
    if isinstance(text, Mapping):
        try:
            text = in_shape(spec, text)
        except InputError:
            return False
        return all(_has(text, spec.columns[role], role) for role in roles)
    if isinstance(text, list) and spec.kind == "tokens":
        return len(text) > 0 and all(isinstance(word, str) for word in text)
    if isinstance(text, tuple | list):
        kinds = [list if role == "choices" else str for role in roles]
        alike = len(text) == len(roles) and all(map(isinstance, text, kinds))
        return alike and len(roles) > 1
    return isinstance(text, str) and len(roles) == 1


def in_shape(spec: TaskSpec, text: Any) -> Any:
    """Convert a row with the dataset's fields to the task's; leave anything else unchanged."""
    if not spec.shape or not isinstance(text, Mapping):
        return text
    try:
        return shaped(dict(text), spec.shape) or text
    except MissingFieldError:
        if all(_has(text, spec.columns[role], role) for role in text_roles(spec)):
            return text  # already in the task's own columns
        raise


def _has(text: Mapping[str, Any], column: str | list[str], role: str) -> bool:
    columns = [column] if isinstance(column, str) else column
    return role in text or all(name in text for name in columns)


def expected_input(spec: TaskSpec) -> str:
    """Describe the input that a task expects, as Python and JSON Lines both write it."""
    roles = text_roles(spec)
    columns = [spec.columns[role] for role in roles]
    names = [name for c in columns for name in ([c] if isinstance(c, str) else c)]
    named = f"{{{', '.join(f'{json.dumps(name, ensure_ascii=False)}: ...' for name in names)}}}"
    if spec.kind == "tokens":
        return f"a text, a list of words or {named}"
    if len(roles) == 1:
        return f"a text or {named}"
    return f"a tuple ({', '.join(roles)}) or {named}"


def needed_columns(spec: TaskSpec) -> str:
    """Describe the columns of a file that a task can answer."""
    columns = [spec.columns[role] for role in text_roles(spec)]
    names = [f"'{n}'" for c in columns for n in ([c] if isinstance(c, str) else c)]
    if len(names) == 1:
        return f"a column {names[0]}, or plain lines of text"
    return f"the columns {', '.join(names[:-1])} and {names[-1]}"


def _by_role(spec: TaskSpec, text: Any) -> dict[str, Any]:
    roles = text_roles(spec)
    if isinstance(text, Mapping):
        given = {role: _value(text, spec.columns[role], role) for role in roles}
        if "choice_names" in text:
            given["choice_names"] = text["choice_names"]
    elif spec.kind == "tokens":
        given = {"tokens": text if isinstance(text, str) else list(text)}
    elif isinstance(text, str):
        given = {roles[0]: text}
    else:
        given = dict(zip(roles, text, strict=True))
    if spec.kind == "tokens" and isinstance(given["tokens"], str):
        words, places = words_of(given["tokens"])
        given = {"tokens": words, "spans": places, "text": given["tokens"]}
    return given


def _value(text: Mapping[str, Any], column: str | list[str], role: str) -> Any:
    if role in text:
        return text[role]
    if isinstance(column, str):
        return text[column]
    values = [text[name] for name in column]
    return values if role == "choices" else " ".join(str(value) for value in values)
