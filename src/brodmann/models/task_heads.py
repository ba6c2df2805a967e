"""Output heads: each is the family's own head from transformers, without its encoder.

A head is the family's `AutoModelFor...` with the encoder replaced by a placeholder that returns
states already computed. So every family has exactly the head its users know (RoBERTa's has a dense
layer, ModernBERT's a norm, a decoder reads the last real token), and an export loses nothing.
"""

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPoolingAndCrossAttentions as States

from brodmann.data.batches import Part
from brodmann.data.kinds import KINDS
from brodmann.data.tasks import TaskSpec
from brodmann.errors import InputError
from brodmann.models.backbone.load import quiet
from brodmann.models.model_settings import OWN
from brodmann.models.pooling import pooled


def module_key(task: str) -> str:
    """A task's key in a ModuleDict: a bare name could be that of a method ("type", "train")."""
    return f"task:{task}"


class EncoderStates(nn.Module):
    """A placeholder for the encoder that returns the states it was given during one call."""

    def __init__(self) -> None:
        super().__init__()
        self.states: Any = None

    def forward(self, *_: Any, **__: Any) -> Any:
        return self.states


class TaskHead(nn.Module):
    """Logits of one task from the encoder's states.

    `form` is "sequence" → (row, output), "choice" → (row,), "span" → (row, token, 2) or
    "tokens" → (row, token, output).
    """

    def __init__(self, config: Any, form: str, outputs: int, seed: int, pooling: str = OWN) -> None:
        super().__init__()
        self.form = form
        self.pooling = pooling if form in ("sequence", "choice") else OWN
        self.stock, self.slot = _stock_head(config, form, outputs, seed)

    def forward(self, states: Any, inputs: dict[str, Tensor]) -> Tensor:
        if self.slot is None:  # no stock class for this form: dropout and a linear layer
            logits: Tensor = self.stock(states.last_hidden_state)
            return logits
        place = getattr(self.stock, self.slot)
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        if self.pooling != OWN:
            # The stock head reads a text of one token, whose state is the pooled vector.
            vector = pooled(states, mask, self.pooling)
            states = States(last_hidden_state=vector[:, None], pooler_output=vector)
            ids, mask = ids[:, :1], torch.ones_like(mask[:, :1])
        ids = _padding_marked(ids, mask, self.stock.config)
        if self.form == "choice" and "MultipleChoice" in type(self.stock).__name__:
            ids, mask = ids[:, None], mask[:, None]  # one choice per row; `by_item` joins them
        place.states = states
        try:
            output = self.stock(input_ids=ids, attention_mask=mask)
        finally:
            place.states = None
        if self.form == "span":
            return torch.stack([output.start_logits, output.end_logits], dim=-1)
        logits = output.logits
        return logits.flatten() if self.form == "choice" else logits


def _padding_marked(ids: Tensor, mask: Tensor, config: Any) -> Tensor:
    """Ids for a stock head, whose encoder has already read the real ones.

    A decoder's head takes the last token whose id is not the padding id. That id may also be a
    text's own token (OpenAI GPT pads with `<unk>`, GPT-2 with `<|endoftext|>`), so these ids only
    mark which tokens are real, by the attention mask.
    """
    padding = config.get_text_config().pad_token_id
    if padding is None:
        return ids
    return torch.where(mask > 0, 1 if padding == 0 else 0, padding)


def new_head(config: Any, spec: TaskSpec, seed: int, pooling: str) -> TaskHead:
    kind = KINDS[spec.kind]
    return TaskHead(config, kind.HEAD, kind.outputs(spec), seed, pooling)


def reads_pooler(config: Any) -> bool:
    """Whether the family's classifier reads the pooler's output, tested on the classifier."""
    head = TaskHead(config, "sequence", 2, seed=0).eval()
    if head.slot is None:
        return False
    states = torch.zeros(1, 1, config.hidden_size)
    spoilt = torch.full((1, config.hidden_size), torch.nan)
    one = torch.ones(1, 1, dtype=torch.long)
    with torch.no_grad():
        logits = head(
            States(last_hidden_state=states, pooler_output=spoilt),
            {"input_ids": one, "attention_mask": one},
        )
    return bool(logits.isnan().any())


def same_form(one: TaskSpec, other: TaskSpec) -> bool:
    kinds = KINDS[one.kind], KINDS[other.kind]
    return kinds[0].HEAD == kinds[1].HEAD and kinds[0].outputs(one) == kinds[1].outputs(other)


def check_shared(specs: Iterable[TaskSpec]) -> None:
    """Raise InputError unless tasks that share an output head have the same labels and kind."""
    first: dict[str, TaskSpec] = {}
    for spec in specs:
        known = first.setdefault(spec.output_head, spec)
        if (spec.kind, spec.labels) != (known.kind, known.labels):
            raise InputError(
                f"head = '{spec.output_head}': '{spec.name}' ({_answers(spec)}) cannot share the "
                f"output head of '{known.name}' ({_answers(known)})"
            )


def _answers(spec: TaskSpec) -> str:
    return spec.kind if spec.labels is None else f"{spec.kind}: {', '.join(spec.labels):.60}"


def _stock_head(config: Any, form: str, outputs: int, seed: int) -> tuple[nn.Module, str | None]:
    config = copy.deepcopy(config)
    config.num_labels = outputs
    stock_class = _class_of(config, form)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if stock_class is None:
            width = config.hidden_size
            dropout = getattr(config, "resid_pdrop", getattr(config, "hidden_dropout_prob", 0.0))
            linear = nn.Linear(width, outputs)
            nn.init.normal_(linear.weight, std=getattr(config, "initializer_range", 0.02))
            nn.init.zeros_(linear.bias)
            return nn.Sequential(nn.Dropout(dropout), linear), None
        described = _Described(config.to_json_string(use_diff=False), config)
        stock = copy.deepcopy(_without_encoder(stock_class, described))
        stock.to_empty(device="cpu")
        for module in stock.modules():
            stock._init_weights(module)
    return stock, str(stock.base_model_prefix)


def _class_of(config: Any, form: str) -> Any:
    """The `AutoModelFor...` that knows the family; None if there is none."""
    import transformers

    classes = {
        "sequence": transformers.AutoModelForSequenceClassification,
        "choice": transformers.AutoModelForMultipleChoice,
        "span": transformers.AutoModelForQuestionAnswering,
        "tokens": transformers.AutoModelForTokenClassification,
    }
    stock_class = classes[form]
    if form == "choice" and type(config) not in stock_class._model_mapping:
        stock_class = classes["sequence"]  # one number per choice: classification with one output
    return stock_class if type(config) in stock_class._model_mapping else None


@dataclass(frozen=True)
class _Described:
    """A configuration that is compared by its text."""

    text: str
    config: Any = field(compare=False)


@lru_cache(maxsize=32)
def _without_encoder(stock_class: Any, described: _Described) -> Any:
    """The modules of a head without memory for weights.

    Building a whole encoder only to drop it takes longer than everything else about a head, so
    tasks of one form share the result.
    """
    with quiet(), torch.device("meta"):
        stock = stock_class.from_config(described.config, trust_remote_code=False)
    setattr(stock, str(stock.base_model_prefix), EncoderStates())
    return stock


def by_item(logits: Tensor, part: Part) -> Tensor:
    """(row,) → (item, choice); missing choices get the lowest number."""
    counts = torch.as_tensor(part.rows_per_item, device=logits.device)
    width = int(part.rows_per_item.max())
    filled = logits.new_full((len(counts), width), torch.finfo(logits.dtype).min)
    inside = torch.arange(width, device=logits.device) < counts[:, None]
    return filled.masked_scatter(inside, logits)
