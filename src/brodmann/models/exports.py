"""Export one task of a multi-task model as an ordinary checkpoint or as ONNX.

The checkpoint is the family's own `AutoModelFor...`: encoder and output head already have that
form, so nothing is lost, and loading it does not need Brodmann.
"""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from brodmann.data.kinds import KINDS
from brodmann.errors import InputError
from brodmann.files import whole_folder, write_json
from brodmann.models.backbone.anatomy import forget_cuts, is_cut
from brodmann.models.backbone.load import quiet
from brodmann.models.derived import plain_backbone
from brodmann.models.encoders import names_with
from brodmann.models.heads.trained_gates import folded
from brodmann.models.onnx_graphs import cannot_express, check_onnx, draw, example_inputs
from brodmann.models.saving import system_errors
from brodmann.models.task_heads import TaskHead, reads_pooler

SMALL_STEP = 2.0**-13
CLOSE = 1e-4  # largest allowed difference of ONNX Runtime from torch
OUTPUTS = {  # outputs of the graph, by the form of the task's head
    "sequence": ["text", "output"],
    "choice": ["text"],
    "span": ["text", "token", "start or end"],
    "tokens": ["text", "token", "output"],
}


def _check_plain(model: Any) -> None:
    """Raise InputError for conditioned encoders: a model of one task cannot hold their modules."""
    if not model.architecture.stands_alone:
        raise InputError(
            f"architecture '{model.settings.architecture}' adds modules that transformers' own "
            f"classes cannot hold: export works for {names_with('stands_alone')}"
        )


def stock_model(model: Any, task: str, *, zeroed: bool = False) -> Any:
    """One task as transformers' own class, with label names; the weights are copies.

    Removed heads give a shape that the class cannot hold: `zeroed` fills the gaps with zeros, which
    gives the same answers but saves nothing.
    """
    spec = model.spec(task)
    _check_plain(model)
    head = model.head_of(task)
    if head.slot is None:
        raise InputError(
            f"task '{task}': transformers has no {model.config.model_type} class for {spec.kind}: "
            "export it --to onnx"
        )
    encoder = folded(plain_backbone(model, task), model.gates)
    if is_cut(encoder.config):
        if not zeroed:
            raise InputError(
                "the model has removed heads or neurons, a shape that transformers' own classes "
                "cannot hold: use --zeroed (the same answers at full size), or --to onnx"
            )
        from brodmann.models.smaller.zeroed import at_full_size

        encoder = at_full_size(encoder)
    config = copy.deepcopy(encoder.config)
    _describe(config, spec)
    _check_pooling(head, config, task)
    with quiet():
        stock = type(head.stock)(config)
    weights = {f"{head.slot}.{name}": value for name, value in encoder.state_dict().items()}
    expected = stock.state_dict()
    # A class may omit parts of the encoder that it does not use (BERT's pooler, for spans).
    weights = {name: value for name, value in weights.items() if name in expected}
    weights |= head.stock.state_dict()
    stock.load_state_dict(weights)
    if head.pooling == "first" and reads_pooler(config):
        _pass_first_token(stock, head)
    if spec.kind == "regression":
        _fold_units(stock, head, spec)
    _fold_temperature(stock, head, temperature_of(model, task))
    return stock.eval()


def _check_pooling(head: TaskHead, config: Any, task: str) -> None:
    """Raise InputError for a mean of tokens: only ModernBERT's class can compute it."""
    if head.pooling != "mean":
        return
    if not hasattr(config, "classifier_pooling"):
        raise InputError(
            f"task '{task}' reads the mean of all tokens (pooling = \"mean\"), which "
            f"transformers' {config.model_type} classes cannot read: export it --to onnx, or train "
            'with pooling = "first"'
        )
    config.classifier_pooling = "mean"


def _pass_first_token(stock: Any, head: TaskHead) -> None:
    """Make the stock pooler pass the first token's state on unchanged.

    It computes tanh(W h + b). If W is a small multiple of the identity, the tanh is linear to
    within float32 (its next term is (2⁻¹³ h)² / 3 of the value), and a power of two scales without
    rounding, so that the classifier after it can undo the factor.
    """
    pooler = getattr(stock, head.slot or "").pooler
    linear = next(module for module in pooler.modules() if isinstance(module, nn.Linear))
    last = _last_linear(stock, head)
    with torch.no_grad():
        linear.weight.copy_(SMALL_STEP * torch.eye(len(linear.weight)))
        linear.bias.zero_()
        last.weight.div_(SMALL_STEP)


def _last_linear(stock: Any, head: TaskHead) -> nn.Linear:
    """The layer that computes the logits."""
    return [
        module
        for name, module in stock.named_modules()
        if isinstance(module, nn.Linear) and not name.startswith(f"{head.slot}.")
    ][-1]


def _describe(config: Any, spec: Any) -> None:
    """Set label names and problem type where transformers and its pipelines look for them."""
    forget_cuts(config)
    if spec.kind in ("classification", "multilabel", "tokens"):
        config.num_labels = len(spec.label_list)
        config.id2label = dict(enumerate(spec.label_list))
        config.label2id = {name: place for place, name in enumerate(spec.label_list)}
    else:
        config.num_labels = 2 if spec.kind == "span" else 1
    problems = {
        "classification": "single_label_classification",
        "multilabel": "multi_label_classification",
        "regression": "regression",
    }
    config.problem_type = problems.get(spec.kind)


def _fold_units(stock: Any, head: TaskHead, spec: Any) -> None:
    """Rescale the head, which learnt standard units, to answer in the task's own units."""
    last = _last_linear(stock, head)
    if last.bias is None:
        raise InputError(
            f"task '{spec.name}': {type(stock).__name__} has no bias to store the mean of its "
            "values: export it --to onnx"
        )
    with torch.no_grad():
        last.weight.mul_(spec.target_scale)
        last.bias.mul_(spec.target_scale).add_(spec.target_mean)


def _fold_temperature(stock: Any, head: TaskHead, temperature: float) -> None:
    """Scale the logits, so that their softmax gives the calibrated probabilities."""
    if temperature != 1.0:
        last = _last_linear(stock, head)
        with torch.no_grad():
            last.weight.div_(temperature)
            if last.bias is not None:
                last.bias.div_(temperature)


def temperature_of(model: Any, task: str) -> float:
    """What the task's logits are divided by; the other rules need more than a graph."""
    return model.rules[task].temperature if task in model.rules else 1.0


def export_transformers(model: Any, task: str, folder: Path, *, zeroed: bool = False) -> None:
    """Write a folder that `AutoModelFor...` and `pipeline` load.

    With `truncation=True` its tokenizer cuts texts where the model itself does.
    """
    stock = stock_model(model, task, zeroed=zeroed)
    tokenizer = own_tokenizer(model)
    refuse_foreign(folder)
    with whole_folder(folder) as temporary, quiet():
        _pad_with_a_token_of_its_own(stock, tokenizer)
        with system_errors():
            stock.save_pretrained(temporary)
            tokenizer.save_pretrained(temporary)


def own_tokenizer(model: Any) -> Any:
    """A copy of the tokenizer that knows the model's maximal length."""
    if getattr(model.tokenizer, "backend_tokenizer", None) is None:
        raise InputError(
            f"{type(model.tokenizer).__name__} has no tokenizer.json for other programs to read: "
            "train with a fast tokenizer"
        )
    tokenizer = copy.deepcopy(model.tokenizer)
    tokenizer.model_max_length = model.settings.max_length
    tokenizer.backend_tokenizer.no_padding()
    # For readers of tokenizer.json without transformers, which sets this at every call.
    tokenizer.backend_tokenizer.enable_truncation(model.settings.max_length)
    return tokenizer


def _pad_with_a_token_of_its_own(stock: Any, tokenizer: Any) -> None:
    """Add a padding token if needed: a stock decoder finds its last token by the padding id.

    No text may contain that id. OpenAI GPT has no padding token and borrows `<unk>`: give it one.
    Its embedding is never read, since nothing attends to what follows a text.
    """
    if tokenizer.pad_token_id != tokenizer.unk_token_id:
        return
    tokenizer.add_special_tokens({"pad_token": "<pad>"})
    size = max(len(tokenizer), stock.config.vocab_size)
    stock.resize_token_embeddings(size, mean_resizing=False)
    stock.config.pad_token_id = tokenizer.pad_token_id


def refuse_foreign(folder: Path) -> None:
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"{folder}: is not empty: name a new folder")


class _TaskAlone(nn.Module):
    """Encoder and head of one task with plain tensors as inputs and outputs."""

    def __init__(self, model: Any, task: str) -> None:
        super().__init__()
        _check_plain(model)
        self.encoder = folded(plain_backbone(model, task), model.gates)
        self.head = model.head_of(task)
        spec = model.spec(task)
        cooler = 1 / temperature_of(model, task)
        self.scale = spec.target_scale if spec.kind == "regression" else cooler
        self.mean = spec.target_mean if spec.kind == "regression" else 0.0

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> Tensor:
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        if token_type_ids is not None:
            inputs["token_type_ids"] = token_type_ids
        cache = {"use_cache": False} if hasattr(self.encoder.config, "use_cache") else {}
        logits: Tensor = self.head(self.encoder(**inputs, **cache), inputs)
        return logits * self.scale + self.mean if self.scale != 1.0 or self.mean else logits


def export_onnx(model: Any, task: str, folder: Path) -> float:
    """Write the graph and its companion files; return ONNX Runtime's difference from torch.

    Writes `model.onnx`, the tokenizer, `brodmann.json` (the task, its labels in the order of the
    outputs, the longest text) and the `config.json` that transformers' and Optimum's loaders need.
    """
    check_onnx()
    import onnxruntime

    refuse_foreign(folder)
    alone = _TaskAlone(model, task).eval()
    examples = [example_inputs(model, rows, length) for rows, length in ((2, 12), (3, 19))]
    with whole_folder(folder) as temporary, torch.no_grad():
        with system_errors():
            own_tokenizer(model).save_pretrained(temporary)
        write_json(temporary / "brodmann.json", answer_key(model, task, list(examples[0])))
        config = copy.deepcopy(alone.encoder.config)
        _describe(config, model.spec(task))
        config.save_pretrained(temporary)
        furthest = 0.0
        program = draw(alone, examples[0], ["logits"], task)
        try:
            program.save(str(temporary / "model.onnx"))
            session = onnxruntime.InferenceSession(
                str(temporary / "model.onnx"), providers=["CPUExecutionProvider"]
            )
            for inputs in examples:
                ours = alone(**inputs).numpy()
                theirs = session.run(None, {k: v.numpy() for k, v in inputs.items()})[0]
                furthest = max(furthest, float(np.abs(ours - theirs).max()))
        except OSError:  # a full disk is not the model's fault
            raise
        except Exception as error:  # the runtime's errors share no class
            raise cannot_express(task, error) from error
        if not furthest <= CLOSE:
            raise InputError(
                f"task '{task}': ONNX Runtime differs from torch by {furthest:.2g}: not written"
            )
    return furthest


def answer_key(model: Any, task: str, inputs: list[str]) -> dict[str, Any]:
    """The meaning of the graph's outputs."""
    spec = model.spec(task)
    return {
        "format": "brodmann onnx export",
        "tasks": [
            {
                "name": spec.name,
                "kind": spec.kind,
                "labels": None if spec.labels is None else list(spec.labels),
                "reads": [r for r in spec.columns if r not in KINDS[spec.kind].TARGETS],
                "language": spec.language,
            }
        ],
        "inputs": inputs,
        "outputs": {"logits": OUTPUTS[KINDS[spec.kind].HEAD]},
        "max_length": model.settings.max_length,
        "stride": model.settings.stride,
        "padding_id": int(model.tokenizer.pad_token_id),
        "backbone": model.settings.backbone,
    }
