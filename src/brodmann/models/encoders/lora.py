r"""`lora`: a frozen backbone, with one low-rank update of chosen projections for all tasks.

$$W' = W + \frac{\alpha}{r}\, B A, \qquad A \in \mathbb{R}^{r \times d_{in}},\;
  B \in \mathbb{R}^{d_{out} \times r}$$

where $B$ starts at zero, so that the model starts as the pretrained one. Only $A$, $B$ and the
output heads train. The adapters are peft's own: it replaces the chosen linear maps, draws $A$ and
merges. `targets = "auto"` adapts the maps of queries and values (`backbone/query_value.py`), which
are those that peft adapts by itself in the families that it knows by name; discovery finds them in
the others as well. `task_lora` has one adapter per task.

Reference: Hu et al. 2022, "LoRA: Low-Rank Adaptation of Large Language Models", §4.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import nn

from brodmann.data.schema import checked
from brodmann.data.tasks import TaskSpec
from brodmann.errors import InputError, did_you_mean
from brodmann.models.backbone.anatomy import anatomy_of, is_transposed
from brodmann.models.backbone.query_value import query_value_maps
from brodmann.models.backbone.watched_pass import is_linear
from brodmann.models.encoders.shared import SharedEncoder
from brodmann.models.model_settings import AUTO_TARGETS, LoraSettings

FOR_ALL = "default"  # name of the adapter that all tasks share: the one peft would use


class LoraEncoder(SharedEncoder):
    """A frozen backbone with one adapter, which every task reads through."""

    PARTS: ClassVar[dict[str, str]] = {"backbone.*.lora_": "lora"}
    RATES: ClassVar[dict[str, float]] = {"lora": 10.0}

    def __init__(
        self, backbone: Any, settings: LoraSettings, adapters: Sequence[str] = (FOR_ALL,)
    ) -> None:
        super().__init__(backbone)
        if not next(backbone.parameters()).is_meta:
            anatomy_of(backbone)  # while its projections are still plain
        paths = target_paths(backbone, settings.targets)
        self.settings = settings.model_copy(update={"targets": _shortest(backbone, paths)})
        self.transposed = is_transposed(backbone.get_submodule(paths[0]))  # as all in GPT-2
        backbone.requires_grad_(False)
        for adapter in adapters:
            self.inject(adapter)

    def inject(self, adapter: str) -> None:
        """Add an adapter to every target; those that are there already stay as they are."""
        from peft import LoraConfig, inject_adapter_in_model

        config = LoraConfig(**peft_options(self.settings, self.transposed))
        inject_adapter_in_model(config, self.backbone, adapter_name=adapter)
        del self.backbone.peft_config  # only peft's warning about a second adapter reads it

    def adapted(self) -> dict[str, Any]:
        """peft's layers by their paths in the backbone."""
        return _adapted(self.backbone)

    def adapter_of(self, task: str) -> str:
        """The name of the adapter that a task reads through."""
        return FOR_ALL

    def merged(self, task: str) -> Any:
        """A plain backbone that gives this task what this encoder gives it."""
        bare = copy.deepcopy(self.backbone)
        for path, layer in _adapted(bare).items():
            layer.merge(adapter_names=[self.adapter_of(task)])
            above, _, name = path.rpartition(".")
            setattr(bare.get_submodule(above), name, layer.get_base_layer())
        bare.requires_grad_(True)
        return bare

    def describe(self, given: dict[str, Any] | None) -> dict[str, Any] | None:
        """The parameters, with the names of the adapted modules in place of "auto"."""
        return self.settings.model_dump(exclude={"per"})


def peft_options(settings: LoraSettings, transposed: bool) -> dict[str, Any]:
    """Our settings in the words of peft's LoraConfig."""
    return {
        "r": settings.r,
        "lora_alpha": settings.alpha,
        "lora_dropout": settings.dropout,
        "target_modules": list(settings.targets),
        "fan_in_fan_out": transposed,
    }


def _adapted(backbone: nn.Module) -> dict[str, Any]:
    from peft.tuners.lora import LoraLayer

    return {p: module for p, module in backbone.named_modules() if isinstance(module, LoraLayer)}


def target_paths(backbone: Any, targets: str | Sequence[str]) -> list[str]:
    """The linear maps to adapt, by their paths in the backbone."""
    if targets == AUTO_TARGETS:
        return query_value_maps(backbone)
    linear = _linear_paths(backbone)
    for name in targets:
        if not any(_named(path, name) for path in linear):
            known = list(dict.fromkeys(path.rpartition(".")[2] for path in linear))
            raise InputError(
                f"targets: {type(backbone).__name__} has no linear map '{name}'"
                f"{did_you_mean(name, known)}"
            )
    return [path for path in linear if any(_named(path, name) for name in targets)]


def _shortest(backbone: Any, paths: Sequence[str]) -> list[str]:
    """Names that mean exactly these paths: their last parts if these say it, as peft reads them."""
    last = list(dict.fromkeys(path.rpartition(".")[2] for path in paths))
    meant = {path for path in _linear_paths(backbone) if any(_named(path, n) for n in last)}
    return last if meant == set(paths) else list(paths)


def _named(path: str, name: str) -> bool:
    return path == name or path.endswith(f".{name}")


def _linear_paths(backbone: nn.Module) -> list[str]:
    return [path for path, module in backbone.named_modules() if path and is_linear(module)]


def backward_passes(freeze: float | str, parameters: Mapping[str, Any]) -> float:
    """Only adapters need gradients of weights; all activations need theirs."""
    return 1.0


def build(
    backbone: Any,
    specs: Sequence[TaskSpec],
    max_length: int,
    *,
    r: int = 8,
    alpha: float = 16.0,
    dropout: float = 0.0,
    targets: Any = AUTO_TARGETS,
) -> LoraEncoder:
    """Build it; `r` is the rank, `alpha` / `r` scales the update, `targets` names linear maps."""
    return LoraEncoder(backbone, settings_of(r, alpha, dropout, targets))


def settings_of(r: int, alpha: float, dropout: float, targets: Any) -> LoraSettings:
    values = {"r": r, "alpha": alpha, "dropout": dropout, "targets": targets}
    return checked(LoraSettings, values, "lora")
