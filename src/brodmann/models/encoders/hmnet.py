"""`hmnet`: shared layers at the bottom, layers per cluster of tasks above, layers per task on top.

Every task has one path through x shared, y cluster and z task layers, where x + y + z is the depth
of the backbone, so that a task uses as many parameters as the backbone has. Every copy starts from
the pretrained layer at its depth; the first task's path is the backbone itself, so no unused copy
is made. If the backbone has a pooler, it is above the task layers, and each task has its own.

A path is a transformers model like any other (it shares its lower layers with others), so gates,
importance and IAT see each task's own heads.

Reference: Fei et al. 2022, "Coarse-to-Fine: Hierarchical Multi-task Learning for Natural Language
Understanding" (HMNet), §3.3: 8/2/2 of 12 layers.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from brodmann.data.batches import Part
from brodmann.data.tasks import TaskSpec
from brodmann.errors import InputError, did_you_mean
from brodmann.models.backbone.anatomy import anatomy_of, layers_of
from brodmann.models.encoders.shared import SharedEncoder
from brodmann.models.encoders.task_context import acting_task
from brodmann.models.task_heads import module_key


class PathsEncoder(SharedEncoder):
    """One path per task; the paths are views of layers that are stored once."""

    PARTS: ClassVar[dict[str, str]] = {
        "cluster_layers.": "cluster_layers",
        "task_layers.": "task_layers",
        "poolers.": "task_layers",
    }
    RATES: ClassVar[dict[str, float]] = {}

    def __init__(
        self, backbone: Any, clusters: Sequence[Sequence[str]], depths: tuple[int, int, int]
    ) -> None:
        super().__init__(backbone)
        self.depths = depths
        self.cluster_of = {task: n for n, tasks in enumerate(clusters) for task in tasks}
        shared, clustered, _ = depths
        layers = layers_of(backbone)
        first = next(iter(self.cluster_of))
        between, top = layers[shared : shared + clustered], layers[shared + clustered :]
        self.cluster_layers = nn.ModuleDict(
            {f"cluster:{n}": _copies(between, backbone.config) for n in range(1, len(clusters))}
        )
        others = [task for task in self.cluster_of if task != first]
        self.task_layers = nn.ModuleDict(
            {module_key(task): _copies(top, backbone.config) for task in others}
        )
        self.poolers = nn.ModuleDict()
        if isinstance(getattr(backbone, "pooler", None), nn.Module):
            self.poolers.update({module_key(t): copy.deepcopy(backbone.pooler) for t in others})
        self.first = first
        self.views: dict[str, Any] = {task: self._view(task) for task in self.cluster_of}

    def _view(self, task: str) -> Any:
        """This task's path as a separate model, made of modules that are stored elsewhere."""
        if task == self.first:
            return self.backbone
        shared, clustered, _ = self.depths
        layers = layers_of(self.backbone)
        path = list(layers[:shared])
        key = f"cluster:{self.cluster_of[task]}"
        if key in self.cluster_layers:
            path += list(_list(self.cluster_layers[key]))
        else:
            path += layers[shared : shared + clustered]
        path += list(_list(self.task_layers[module_key(task)]))
        view = node = _shallow(self.backbone)
        layers_path = anatomy_of(self.backbone).layers
        assert layers_path is not None  # layers_of has checked it
        *above, last = layers_path.split(".")
        for name in above:
            node._modules[name] = _shallow(node._modules[name])
            node = node._modules[name]
        node._modules[last] = nn.ModuleList(path)
        if module_key(task) in self.poolers:
            view._modules["pooler"] = self.poolers[module_key(task)]
        return view

    def backbone_of(self, task: str) -> Any:
        """The transformers model that reads this task."""
        return self.views[task]

    def paths(self) -> list[Any]:
        """Every task's path; lower layers occur in several of them."""
        return list(self.views.values())

    def train(self, mode: bool = True) -> "PathsEncoder":
        super().train(mode)
        for view in self.views.values():
            view.train(mode)
        return self

    def forward(self, inputs: dict[str, Tensor], parts: Sequence[Part]) -> list[Any]:
        if len(parts) == 1:
            return [self.views[acting_task(parts[0].task)](**inputs)]
        return [
            self.views[acting_task(part.task)](
                **{name: rows[part.rows] for name, rows in inputs.items()}
            )
            for part in parts
        ]

    def activated_parameters(self) -> int:
        """Number of parameters on one path."""
        return sum(parameter.numel() for parameter in self.backbone.parameters())

    def describe(self, given: dict[str, Any] | None) -> dict[str, Any]:
        """Its parameters in full, including new tasks."""
        count = max(self.cluster_of.values()) + 1
        clusters = [[t for t, n in self.cluster_of.items() if n == place] for place in range(count)]
        return {
            "clusters": clusters,
            **dict(zip(("shared", "clustered", "specific"), self.depths, strict=True)),
        }

    def task_parameters(self, task: str) -> list[nn.Parameter]:
        """The parameters that belong to this task alone: its layers on top."""
        top = layers_of(self.views[task])[self.depths[0] + self.depths[1] :]
        own = [parameter for layer in top for parameter in layer.parameters()]
        pooler = getattr(self.views[task], "pooler", None)
        return own + (list(pooler.parameters()) if isinstance(pooler, nn.Module) else [])

    def add_task(self, name: str, like: str) -> None:
        """Add a path like another task's: its cluster, and a copy of its own layers."""
        if like not in self.views:
            raise InputError(f"like = '{like}': in 'hmnet' a new task starts from another's path")
        source = self.views[like]
        top = layers_of(source)[self.depths[0] + self.depths[1] :]
        self.task_layers[module_key(name)] = _copies(top, self.backbone.config)
        if isinstance(getattr(source, "pooler", None), nn.Module):
            self.poolers[module_key(name)] = copy.deepcopy(source.pooler)
        self.cluster_of[name] = self.cluster_of[like]
        self.views[name] = self._view(name)


def _copies(layers: Sequence[nn.Module], config: Any) -> nn.ModuleList:
    """Copies that share one configuration, so that a later change reaches all of them."""
    return nn.ModuleList(copy.deepcopy(layer, {id(config): config}) for layer in layers)


def _list(module: nn.Module) -> nn.ModuleList:
    assert isinstance(module, nn.ModuleList)
    return module


def _shallow(module: Any) -> Any:
    """The same module with its own tables: changes to them do not affect the original."""
    twin = object.__new__(type(module))
    twin.__dict__ = {
        name: copy.copy(value) if isinstance(value, dict) else value
        for name, value in vars(module).items()
    }
    return twin


def default_depths(layers: int) -> tuple[int, int, int]:
    """8/2/2 of 12, scaled: a sixth of the layers each for clusters and tasks, at least one."""
    if layers < 2:
        raise InputError("hmnet: the backbone has one layer: there is nothing to divide")
    part = max(1, round(layers / 6))
    return layers - 2 * part, part, part


def given_clusters(clusters: Any, specs: Sequence[TaskSpec]) -> list[list[str]]:
    """The given lists of task names; by default, tasks of one `group` (or one kind) together."""
    names = [spec.name for spec in specs]
    if clusters is None:
        groups: dict[str, list[str]] = {}
        for spec in specs:
            groups.setdefault(spec.group or spec.kind, []).append(spec.name)
        return list(groups.values())
    if not isinstance(clusters, list | tuple) or not all(
        isinstance(one, list | tuple) and one for one in clusters
    ):
        raise InputError("hmnet: clusters: expected lists of task names")
    listed = [name for one in clusters for name in one]
    for name in listed:
        if name not in names:
            raise InputError(f"hmnet: clusters: no task '{name}'{did_you_mean(str(name), names)}")
        if listed.count(name) > 1:
            raise InputError(f"hmnet: clusters: '{name}' is in two clusters")
    missing = [name for name in names if name not in listed]
    if missing:
        raise InputError(f"hmnet: clusters: '{missing[0]}' is in none")
    return [list(one) for one in clusters]


def build(
    backbone: Any,
    specs: Sequence[TaskSpec],
    max_length: int,
    *,
    clusters: Any = None,
    shuffled: bool = False,
    shared: int | None = None,
    clustered: int | None = None,
    specific: int | None = None,
) -> PathsEncoder:
    """Build the encoder; the depths must add up to the backbone's, missing ones are inferred.

    `shuffled` assigns the tasks at random (by the model's seed) to clusters of the same sizes: a
    control that shows whether it matters *which* tasks share a cluster.
    """
    if not isinstance(shuffled, bool):
        raise InputError(f"hmnet: shuffled = {shuffled!r}: expected true or false")
    layers = len(layers_of(backbone))
    depths = _depths(layers, {"shared": shared, "clustered": clustered, "specific": specific})
    groups = given_clusters(clusters, specs)
    return PathsEncoder(backbone, shuffle_tasks(groups) if shuffled else groups, depths)


def shuffle_tasks(clusters: Sequence[Sequence[str]]) -> list[list[str]]:
    """Clusters of the same sizes, with the tasks in an order drawn from torch's generator."""
    names = [name for group in clusters for name in group]
    order = iter([names[place] for place in torch.randperm(len(names)).tolist()])
    return [[next(order) for _ in group] for group in clusters]


def _depths(layers: int, given: Mapping[str, int | None]) -> tuple[int, int, int]:
    known = {name: value for name, value in given.items() if value is not None}
    for name, value in known.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InputError(f"hmnet: {name} = {value!r}: expected a number of layers")
    if not known:
        return default_depths(layers)
    usual = dict(zip(given, default_depths(layers), strict=True))
    missing = [name for name in given if name not in known]
    for name in missing[1:]:
        known[name] = usual[name]
    if missing:
        known[missing[0]] = layers - sum(known.values())
    if sum(known.values()) != layers or min(known.values()) < 0:
        words = " + ".join(f"{known[name]} {name}" for name in given)
        raise InputError(f"hmnet: {words}: expected {layers} layers in total")
    return known["shared"], known["clustered"], known["specific"]
