r"""The heads of one text: which of them pushed the answer, and where they looked.

The gradient of the answer's logit at a head's gate,

$$e_{l,h} = \partial z_y(x) / \partial \xi_{l,h} \big|_{\xi = 1},$$

has a sign: a head with $e > 0$ speaks for the answer $y$, one with $e < 0$ against it. It is a
linear estimate of what switching the head off would take away.

Reference: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", §2.3 (the gates).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from brodmann.data.tasks import Task
from brodmann.errors import InputError, did_you_mean
from brodmann.files import Array
from brodmann.results import Head

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Explanation:
    """What every head contributed to one answer."""

    text: str
    answer: str
    score: float  # the answer's probability
    tokens: list[str]
    gradients: Array  # (layer, head): above 0 speaks for the answer, below 0 against it
    attention: Array | None  # (layer, head, looking token, seen token); None without maps

    def top(self, count: int = 5) -> list[tuple[Head, float]]:
        """The heads with the largest gradients, for or against the answer."""
        places = np.argsort(-np.abs(self.gradients), axis=None, kind="stable")[:count]
        heads = [divmod(int(place), self.gradients.shape[1]) for place in places]
        return [(head, float(self.gradients[head])) for head in heads]

    def looks_at(self, head: Head) -> Array:
        """(token, token) attention of one head."""
        if self.attention is None:
            raise InputError("the model's attention does not return its maps")
        return np.asarray(self.attention[head])

    def to_dict(self, heads: int = 1) -> dict[str, Any]:
        """As JSON, with the maps of the first heads only."""
        return {
            "text": self.text,
            "answer": self.answer,
            "score": self.score,
            "tokens": self.tokens,
            "gradients": self.gradients.tolist(),
            "attention": [
                {"head": list(head), "map": np.round(self.looks_at(head), 4).tolist()}
                for head, _ in (self.top(heads) if self.attention is not None else [])
            ],
        }

    def __str__(self) -> str:
        lines = [f"{self.answer} ({100 * self.score:.1f} %): {self.text}"]
        for (layer, head), value in self.top():
            word = "for" if value > 0 else "against"
            line = f"layer {layer} head {head}: {abs(value):.3g} {word} it"
            if self.attention is not None:
                mean = self.attention[layer, head].mean(axis=0)
                best = [self.tokens[place] for place in np.argsort(-mean, kind="stable")[:3]]
                line += f"; looks at {', '.join(best)}"
            lines.append(line)
        return "\n".join(lines)


def explain_heads(
    model: nn.Module,
    text: str,
    *,
    task: str | None = None,
    pair: str | None = None,
    label: str | int | None = None,
    tokenizer: "PreTrainedTokenizerBase | None" = None,
) -> Explanation:
    """Explain one answer by the heads: signed gradients at the gates, and attention by token.

    `model` is a multi-task model with its `task`, or any sequence classifier of transformers with
    its `tokenizer`. The answer explained is the most likely one, or `label`.
    """
    from brodmann.models.multitask import MultiTaskModel

    if isinstance(model, MultiTaskModel):
        return _explain_task(model, _task_of(model, task), text, pair, label)
    if tokenizer is None:
        raise InputError("explain_heads: pass the model's tokenizer")
    config: Any = model.config
    inputs = tokenizer(text, pair, return_tensors="pt", truncation=True).to(model.device)
    names = [str(config.id2label[place]) for place in range(config.num_labels)]
    tokens = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist())

    def logits() -> Tensor:
        found = getattr(model(**inputs), "logits", None)
        if found is None or found.dim() != 2:
            raise InputError(
                f"explain_heads: {type(model).__name__} does not classify whole texts: expected "
                "a sequence classifier"
            )
        of_text: Tensor = found[0]
        return of_text

    return _explain(model, model.base_model, logits, names, label, tokens, text)


def _task_of(model: Any, task: str | None) -> str:
    if task is None:
        if len(model.specs) > 1:
            raise InputError(f"explain_heads: name one task of {', '.join(model.specs)}")
        return str(next(iter(model.specs)))
    return str(model.spec(task).name)


def _explain_task(
    model: Any, task: str, text: str, pair: str | None, label: str | int | None
) -> Explanation:
    from brodmann.data.answering.inputs import read_inputs
    from brodmann.models.evaluation import unlabelled

    spec = model.spec(task)
    if spec.kind != "classification":
        raise InputError(f"explain_heads: task '{task}' is {spec.kind}: expected a classification")
    encoded = model.encode(spec, read_inputs(spec, [text if pair is None else (text, pair)]))
    batch = unlabelled(model, task, encoded, np.arange(1))
    tokens = model.tokenizer.convert_ids_to_tokens(encoded.ids.tolist())

    def logits() -> Tensor:
        found: Tensor = model(batch).logits[0][0]
        return found

    bare = model.encoder.backbone_of(task).base_model
    return _explain(model, bare, logits, list(spec.labels), label, tokens, text)


def _explain(
    model: Any,
    bare: Any,
    logits: Any,
    names: list[str],
    label: str | int | None,
    tokens: list[str],
    text: str,
) -> Explanation:
    from brodmann.models.backbone.anatomy import head_shape, kept_heads
    from brodmann.models.heads.attention_maps import watch_maps
    from brodmann.models.heads.gates import head_gates
    from brodmann.models.heads.measure import measuring

    shape = head_shape(bare)
    gates = torch.ones(shape, requires_grad=True)
    with measuring(model), watch_maps(bare) as maps, head_gates(model, gates), torch.enable_grad():
        found = logits().float()
        answer = int(found.argmax()) if label is None else _number(names, label)
        (gradient,) = torch.autograd.grad(found[answer], gates)
    probabilities = found.detach().softmax(dim=-1)
    return Explanation(
        text=text,
        answer=names[answer],
        score=float(probabilities[answer]),
        tokens=tokens,
        gradients=gradient.cpu().numpy(),
        attention=_whole_maps(maps, kept_heads(bare), shape[1]),
    )


def _whole_maps(
    maps: Sequence[Tensor | None], kept: Sequence[Sequence[int]], heads: int
) -> Array | None:
    """(layer, head, token, token) with zeros for removed heads; None if a layer returns no map."""
    shapes = [one.shape[-2:] for one in maps if one is not None and one.dim() == 4]
    if len(maps) != len(kept) or len(set(shapes)) != 1:
        return None
    whole = np.zeros((len(kept), heads, *shapes[0]), dtype=np.float32)
    for layer, (one, left) in enumerate(zip(maps, kept, strict=True)):
        if one is None and left:
            return None
        if one is not None:
            whole[layer, list(left)] = one[0].float().cpu().numpy()
    return whole


def _number(names: list[str], label: str | int) -> int:
    if isinstance(label, int) and 0 <= label < len(names):
        return label
    if str(label) not in names:
        raise InputError(f"explain_heads: no label '{label}'{did_you_mean(str(label), names)}")
    return names.index(str(label))


def explain_first(model: Any, tasks: Sequence[Task], split: str = "validation") -> dict[str, Any]:
    """One example of every classification task, explained, for the report."""
    found = {}
    for task in tasks:
        if task.spec.kind != "classification" or not task.splits.get(split):
            continue
        first = task.splits[split][0]
        pair = first.get("text_pair")
        explained = _explain_task(model, task.name, first["text"], pair, None)
        truth = task.spec.label_list[first["label"]]  # tasks store the number of a label
        found[task.name] = {**explained.to_dict(), "pair": pair, "truth": truth}
    return found
