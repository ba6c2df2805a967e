"""Answer new texts in the form people expect: labels, values, spans, entities."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from brodmann.data.batches import evaluation_order, make_batch
from brodmann.data.character_spans import words_of
from brodmann.data.kinds import KINDS
from brodmann.data.kinds.tokens import token_text
from brodmann.data.sources.dataset_shapes import MissingFieldError, shaped
from brodmann.data.sources.in_memory import collected, from_memory, is_dataset, is_divided, is_frame
from brodmann.data.tasks import Example, TaskSpec
from brodmann.errors import InputError
from brodmann.models.answer_columns import answer_columns, check_free, with_columns

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel


def predict(model: "MultiTaskModel", task: str, texts: Any, *, batch_size: int = 32) -> Any:
    spec = model.spec(task)
    if not is_table(texts):
        return _answers(model, spec, as_list(texts), batch_size)
    table = collected(texts)
    check_free(table, {task: spec})
    found = [{task: answer} for answer in _answers(model, spec, as_list(table), batch_size)]
    return with_columns(table, answer_columns(found, {task: spec}))


def predict_all(model: "MultiTaskModel", texts: Any, *, batch_size: int = 32) -> Any:
    if not is_table(texts):
        return _all_answers(model, as_list(texts), batch_size)
    table = collected(texts)
    check_free(table, model.specs)
    found = _all_answers(model, as_list(table), batch_size)
    return with_columns(table, answer_columns(found, model.specs))


def _answers(
    model: "MultiTaskModel", spec: TaskSpec, texts: Sequence[Any], batch_size: int
) -> list[dict[str, Any]]:
    examples = read_inputs(spec, texts)
    return _together(model, {spec.name: examples}, batch_size)[spec.name] if examples else []


def _all_answers(
    model: "MultiTaskModel", texts: Sequence[Any], batch_size: int
) -> list[dict[str, dict[str, Any]]]:
    answers: list[dict[str, dict[str, Any]]] = [{} for _ in texts]
    asked: dict[str, list[int]] = {}  # the inputs each task can read
    for name, spec in model.specs.items():
        asked[name] = [place for place, text in enumerate(texts) if fits(spec, text)]
    for place, text in enumerate(texts):
        if not any(place in places for places in asked.values()):
            wanted = (f"{name} needs {needed_columns(s)}" for name, s in model.specs.items())
            raise InputError(
                f"input {place + 1}: no task of the model reads {text!r:.60}: {'; '.join(wanted)}"
            )
    groups: dict[Any, dict[str, list[Example]]] = {}  # tasks that read identical rows
    for name, places in asked.items():
        if places:
            spec = model.specs[name]
            examples = read_inputs(spec, [texts[place] for place in places])
            rows = _rows(spec, examples) if model.architecture.one_pass else None
            groups.setdefault(rows or name, {})[name] = examples
    for group in groups.values():
        for name, predictions in _together(model, group, batch_size).items():
            for place, prediction in zip(asked[name], predictions, strict=True):
                answers[place][name] = prediction
    return [{name: answer[name] for name in model.specs if name in answer} for answer in answers]


def _rows(spec: TaskSpec, examples: Sequence[Example]) -> tuple[Any, ...] | None:
    """What the encoder reads for these examples; None if only this kind reads them this way."""
    if spec.kind in ("classification", "multilabel", "regression"):
        return tuple((example["text"], example.get("text_pair")) for example in examples)
    if spec.kind == "tokens":
        return tuple((token_text(example), None) for example in examples)
    return None


@torch.inference_mode()
def _together(
    model: "MultiTaskModel", group: Mapping[str, list[Example]], batch_size: int
) -> dict[str, list[dict[str, Any]]]:
    """Answers of several tasks from one pass over the texts."""
    specs = [model.spec(name) for name in group]
    # A token task splits a long text into windows; the other tasks read the first one.
    reader = next((spec for spec in specs if spec.kind == "tokens"), specs[0])
    encoded = model.encode(reader, group[reader.name], cache=False)
    if len(specs) == 1:
        from brodmann.models.evaluation import item_outputs

        logits = item_outputs(model, reader.name, encoded, batch_size=batch_size)
        kind = KINDS[reader.kind]
        return {reader.name: kind.predict(logits, encoded, group[reader.name], reader)}
    outputs: dict[str, dict[int, Any]] = {spec.name: {} for spec in specs}
    training = model.training
    model.eval()
    try:
        for items in evaluation_order(encoded, batch_size):
            batch = make_batch(
                [(reader.name, encoded, items)], pad_id=int(model.tokenizer.pad_token_id)
            ).to(model.device)
            states = model.states(batch.inputs, batch.parts)[0]
            for spec in specs:
                part = replace(batch.parts[0], task=spec.name, labels={})
                values = model.read_off(part, states, batch.inputs).float().cpu().numpy()
                for place, item in enumerate(items):
                    length = int(encoded.starts[item + 1] - encoded.starts[item])
                    row = values[place, :length] if spec.kind == "tokens" else values[place]
                    outputs[spec.name][int(item)] = row
    finally:
        model.train(training)
    first_windows = np.unique(encoded.item_example, return_index=True)[1]
    answers = {}
    for spec in specs:
        chosen = range(encoded.items) if spec.kind == "tokens" else first_windows
        ordered = [outputs[spec.name][int(item)] for item in chosen]
        answers[spec.name] = KINDS[spec.kind].predict(ordered, encoded, group[spec.name], spec)
    return answers


def read_inputs(spec: TaskSpec, texts: Sequence[Any]) -> list[Example]:
    examples = []
    for place, text in enumerate(as_list(texts)):
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


def is_table(texts: Any) -> bool:
    """Whether answers come back as columns of the same table: a frame, or a whole Dataset."""
    return is_frame(texts) or (is_dataset(texts) and hasattr(texts, "num_rows"))


def _roles(spec: TaskSpec) -> list[str]:
    kind = KINDS[spec.kind]
    return [role for role in spec.columns if role not in kind.TARGETS]


def fits(spec: TaskSpec, text: Any) -> bool:
    """Whether the input has the columns that the task reads."""
    roles = _roles(spec)
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
        if all(_has(text, spec.columns[role], role) for role in _roles(spec)):
            return text  # already in the task's own columns
        raise


def _has(text: Mapping[str, Any], column: str | list[str], role: str) -> bool:
    columns = [column] if isinstance(column, str) else column
    return role in text or all(name in text for name in columns)


def expected_input(spec: TaskSpec) -> str:
    """Describe the input that a task expects, as Python and JSON Lines both write it."""
    roles = _roles(spec)
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
    columns = [spec.columns[role] for role in _roles(spec)]
    names = [f"'{n}'" for c in columns for n in ([c] if isinstance(c, str) else c)]
    if len(names) == 1:
        return f"a column {names[0]}, or plain lines of text"
    return f"the columns {', '.join(names[:-1])} and {names[-1]}"


def _by_role(spec: TaskSpec, text: Any) -> dict[str, Any]:
    roles = _roles(spec)
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
