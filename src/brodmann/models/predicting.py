"""Answers to new texts, in the form people expect: labels, values, spans, entities."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from brodmann.data.batches import Part, evaluation_order, make_batch
from brodmann.data.encoding import Encoded, encode_task
from brodmann.data.kinds import KINDS
from brodmann.data.tasks import Example, TaskSpec
from brodmann.errors import InputError

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel

WORD = re.compile(r"\w+|[^\w\s]")


def predict(
    model: "MultiTaskModel", task: str, texts: Sequence[Any], *, batch_size: int = 32
) -> list[dict[str, Any]]:
    from brodmann.models.evaluate import item_outputs

    spec = model.spec(task)
    examples = read_inputs(spec, texts)
    if not examples:
        return []
    encoded = _encode(model, spec, examples)
    outputs = item_outputs(model, task, encoded, batch_size=batch_size)
    return KINDS[spec.kind].predict(outputs, encoded, examples, spec)


def predict_all(
    model: "MultiTaskModel", texts: Sequence[Any], *, batch_size: int = 32
) -> list[dict[str, dict[str, Any]]]:
    answers: list[dict[str, dict[str, Any]]] = [{} for _ in texts]
    groups: dict[str, list[str]] = {}  # tasks that read the very same rows
    for name, spec in model.specs.items():
        if texts and all(fits(spec, text) for text in texts):
            alike = spec.kind in ("classification", "multilabel", "regression")
            groups.setdefault("pooled" if alike and model.encoder.one_pass else name, []).append(
                name
            )
    if texts and not groups:
        raise InputError(
            f"no task of the model reads such an input ({texts[0]!r:.60}): "
            + "; ".join(
                f"{name} takes {expected_input(spec)}" for name, spec in model.specs.items()
            )
        )
    # Tokens read the rows of a text exactly as classification does, so they join its pass.
    joined = [
        n for n in groups if model.specs.get(n) is not None and model.specs[n].kind == "tokens"
    ]
    for name in joined if "pooled" in groups and not _paired(texts) else []:
        groups["pooled"] += groups.pop(name)
    for names in groups.values():
        for name, predictions in _together(model, names, texts, batch_size).items():
            for answer, prediction in zip(answers, predictions, strict=True):
                answer[name] = prediction
    return [{name: answer[name] for name in model.specs if name in answer} for answer in answers]


def _paired(texts: Sequence[Any]) -> bool:
    return any(not isinstance(text, str) for text in texts)


@torch.inference_mode()
def _together(
    model: "MultiTaskModel", names: Sequence[str], texts: Sequence[Any], batch_size: int
) -> dict[str, list[dict[str, Any]]]:
    """Several tasks from one reading of the texts."""
    if len(names) == 1:
        return {names[0]: predict(model, names[0], texts, batch_size=batch_size)}
    specs = [model.spec(name) for name in names]
    examples = {spec.name: read_inputs(spec, texts) for spec in specs}
    # A long text has several windows for a token task; its first window is what the others read.
    reader = next((spec for spec in specs if spec.kind == "tokens"), specs[0])
    encoded = _encode(model, reader, examples[reader.name])
    first_rows = {
        int(example): row for row, example in reversed([*enumerate(encoded.item_example)])
    }
    outputs: dict[str, dict[int, Any]] = {name: {} for name in names}
    training = model.training
    model.eval()
    try:
        for items in evaluation_order(encoded, batch_size):
            batch = make_batch(
                [(reader.name, encoded, items)], pad_id=int(model.tokenizer.pad_token_id)
            ).to(model.device)
            states = model.encoder(batch.inputs, batch.parts)[0]
            for spec in specs:
                part = Part(spec.name, slice(None), items, {}, batch.parts[0].rows_per_item, 0)
                logits = model.read_off(part, states, batch.inputs).float().cpu().numpy()
                for place, item in enumerate(items):
                    length = int(encoded.starts[item + 1] - encoded.starts[item])
                    tokens = KINDS[spec.kind].HEAD == "tokens"
                    outputs[spec.name][int(item)] = (
                        logits[place, :length] if tokens else logits[place]
                    )
    finally:
        model.train(training)
    answers = {}
    for spec in specs:
        found = outputs[spec.name]
        if spec.kind == "tokens":
            ordered = [found[item] for item in range(encoded.items)]
        else:
            ordered = [found[first_rows[example]] for example in range(len(texts))]
        kind = KINDS[spec.kind]
        answers[spec.name] = kind.predict(ordered, encoded, examples[spec.name], spec)
    return answers


def _encode(model: "MultiTaskModel", spec: TaskSpec, examples: Sequence[Example]) -> Encoded:
    return encode_task(
        examples,
        spec,
        model.tokenizer,
        max_length=model.settings.max_length,
        stride=model.settings.stride,
        cache=False,
    )


def read_inputs(spec: TaskSpec, texts: Sequence[Any]) -> list[Example]:
    if isinstance(texts, str | Mapping):
        raise InputError(
            f"expected a list of inputs, found one {type(texts).__name__}: put it in [ ]"
        )
    examples = []
    for place, text in enumerate(texts):
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


def _roles(spec: TaskSpec) -> list[str]:
    kind = KINDS[spec.kind]
    return [role for role in spec.columns if role not in kind.TARGETS]


def fits(spec: TaskSpec, text: Any) -> bool:
    """Whether the input has what the task reads."""
    roles = _roles(spec)
    if isinstance(text, Mapping):
        return all(_has(text, spec.columns[role], role) for role in roles)
    if isinstance(text, tuple | list) and spec.kind == "tokens":
        return len(text) > 0 and all(isinstance(word, str) for word in text)
    if isinstance(text, tuple | list):
        return len(text) == len(roles) > 1
    return isinstance(text, str) and len(roles) == 1


def _has(text: Mapping[str, Any], column: str | list[str], role: str) -> bool:
    columns = [column] if isinstance(column, str) else column
    return role in text or all(name in text for name in columns)


def expected_input(spec: TaskSpec) -> str:
    """How to ask this task, for messages."""
    if spec.kind == "tokens":
        return "a text or a list of words"
    roles = _roles(spec)
    if len(roles) == 1:
        return "a text"
    return f"({', '.join(roles)}) as a tuple or a dict"


def _by_role(spec: TaskSpec, text: Any) -> dict[str, Any]:
    roles = _roles(spec)
    if isinstance(text, Mapping):
        given = {role: _value(text, spec.columns[role], role) for role in roles}
    elif spec.kind == "tokens":
        given = {"tokens": text if isinstance(text, str) else list(text)}
    elif isinstance(text, str):
        given = {roles[0]: text}
    else:
        given = dict(zip(roles, text, strict=True))
    if spec.kind == "tokens" and isinstance(given["tokens"], str):
        raw = given["tokens"]
        matches = list(WORD.finditer(raw))
        given = {
            "tokens": [match.group() for match in matches],
            "spans": [match.span() for match in matches],
            "text": raw,
        }
    return given


def _value(text: Mapping[str, Any], column: str | list[str], role: str) -> Any:
    if role in text:
        return text[role]
    if isinstance(column, str):
        return text[column]
    values = [text[name] for name in column]
    return values if role == "choices" else " ".join(str(value) for value in values)
