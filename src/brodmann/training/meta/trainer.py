r"""Meta-training over pairs of task and language: the outer loop around `gradients.py`.

$$\theta \leftarrow \theta - \beta\; \mathrm{SGD}\Big(\frac{1}{|B|} \sum_{(l,t) \in B}
  \nabla_\theta L_{Q(l,t)}\big(\phi_{l,t}(\theta)\big)\Big)$$

over $|B|$ pairs per step, each with a support set to adapt on and a query set to be evaluated on,
with momentum, clipping, and a rate $\beta$ below the inner one. The gradients of the pairs are
added one after the other, so memory does not grow with their number. The draws of a step (pairs,
episodes, dropout) depend only on the seed and its number: a resumed run is identical to the bit.

Reference: Gupta et al., "MESH - Multi-head Efficiency in XTREME", Algorithms 1 and 2.
Departures: the paper gives no numbers of steps, rates or examples, and its outer gradient can be
read as any of those in `gradients.py`. Trained gates take outer steps of a fixed length,
`gate_rate`, along their own gradient and, with `sparsity`, that of the share of open gates. They
take no inner steps, so under `reptile` only sparsity moves them.
"""

import contextlib
import hashlib
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from brodmann.data.batches import Batch, make_batch
from brodmann.data.draws.episodes import Episode, EpisodeSource
from brodmann.data.encoding import Encoded
from brodmann.data.tasks import Task
from brodmann.errors import InputError, Interrupted
from brodmann.files import digest
from brodmann.models.backbone.checkpointing import is_checkpointing
from brodmann.models.backbone.precision import autocast
from brodmann.models.heads.trained_gates import sparse_gates
from brodmann.models.multitask import MultiTaskModel
from brodmann.training.checkpoints.checkpoint import random_state
from brodmann.training.checkpoints.keeper import Keeper
from brodmann.training.events import Report, silent
from brodmann.training.meta.gradients import outer_gradients
from brodmann.training.meta.meta_settings import Meta
from brodmann.training.stopping import StopSignals


def meta_train(
    model: MultiTaskModel,
    tasks: Sequence[Task],
    settings: Meta,
    *,
    folder: str | Path | None = None,
    checkpoint_every: int = 25,
    precision: str = "float32",
    seed: int = 0,
    report: Report | None = None,
) -> list[float]:
    """Meta-train the model, which then holds the last weights; return the mean query loss per step.

    Every task is a pair (its `language`, and the `head` it shares with other languages). With a
    `folder`, an interrupted training resumes; a folder of another start is rejected.
    """
    loop = _MetaLoop(model, list(tasks), settings, precision, seed)
    say: Report = report or silent
    keeper = Keeper(
        None if folder is None else Path(folder),
        keep=2,
        fingerprint="" if folder is None else loop.fingerprint(),
        main=True,
        say=lambda text: say("note", {"text": text}),
    )
    for source in loop.sources:
        if source.note:
            say("note", {"text": source.note})
    keeper.check_space(model)
    state = keeper.find()
    keeper.cut_log(state)
    if state is not None:
        keeper.restore(model, loop.optimizer, 0)
        loop.losses = list(state["progress"]["losses"])
    say("measuring starts", {"what": "meta-training", "examples": settings.steps})
    say("measuring goes on", {"items": len(loop.losses)})
    before = model.training
    model.train()
    try:
        with StopSignals() as signals:
            while (step := len(loop.losses)) < settings.steps:
                loop.step(step)
                done = step + 1
                keeper.log({"step": done, "query_loss": loop.losses[-1]})
                say("measuring goes on", {"items": 1})
                if signals.received or done % checkpoint_every == 0 or done == settings.steps:
                    progress = {"step": done, "best_step": -1, "losses": loop.losses}
                    keeper.save(model, loop.optimizer, [random_state()], progress, {})
                if signals.received:
                    saved = (
                        "run the same command again to resume" if folder else "nothing was saved"
                    )
                    text = f"stopped after {done} of {settings.steps} steps: {saved}"
                    raise Interrupted(text, int(signals.received))
    finally:
        model.train(before)
    return loop.losses


def episode_sources(tasks: Sequence[Task], settings: Meta) -> list[EpisodeSource]:
    """One source of episodes per task; InputError if the settings do not fit these tasks."""
    if settings.pairs > len(tasks):
        raise InputError(
            f"meta: pairs = {settings.pairs} per step, but only {len(tasks)} are trained on"
        )
    sizes = {"support": settings.support, "query": settings.query}
    return [EpisodeSource(task, **sizes) for task in tasks]


class _MetaLoop:
    """The set-up of meta-training, and one outer step."""

    def __init__(
        self,
        model: MultiTaskModel,
        tasks: list[Task],
        settings: Meta,
        precision: str,
        seed: int,
    ) -> None:
        self.model, self.tasks, self.settings = model, tasks, settings
        self.precision, self.seed = precision, seed
        self.sources = episode_sources(tasks, settings)
        self.encoded = [model.encode(task.spec, task.splits["train"]) for task in tasks]
        self.trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
        if not self.trained:
            raise InputError("nothing to train: every parameter of the model is frozen")
        self.still = [name for name in self.trained if name.startswith("gates.")]
        weights = [p for name, p in self.trained.items() if name not in self.still]
        groups: list[dict[str, Any]] = [{"params": weights}]
        self.sparse = sparse_gates(model) if settings.sparsity else None
        if self.still:
            gates = [self.trained[name] for name in self.still]
            groups.append({"params": gates, "lr": settings.gate_rate})
        self.optimizer = torch.optim.SGD(groups, lr=settings.outer_rate, momentum=settings.momentum)
        self.losses: list[float] = []

    def fingerprint(self) -> str:
        """Digest of everything that decides the result, including the start's weights and mask."""
        data = [task.fingerprint() for task in self.tasks]
        start: list[Any] = []
        for name, value in self.model.state_dict().items():
            start += [name, value.detach().cpu().reshape(-1).view(torch.uint8).numpy()]
        trained = list(self.trained)
        settings = self.settings.model_dump()
        return digest("meta", settings, data, trained, self.precision, self.seed, *start)

    def drawn(self, step: int) -> list[tuple[int, Episode]]:
        """The pairs of a step, each with its episode."""
        generator = random.Random(f"pairs/{self.seed}/{step}")
        places = generator.sample(range(len(self.tasks)), self.settings.pairs)
        return [(place, self.sources[place].draw(f"{self.seed}/{step}")) for place in places]

    def loss(self, parameters: Mapping[str, Tensor], batch: Batch) -> Tensor:
        twice = self.settings.algorithm == "maml"
        return pair_loss(self.model, parameters, batch, precision=self.precision, twice=twice)

    def step(self, number: int) -> None:
        settings, total = self.settings, 0.0
        summed: dict[str, Tensor] = {}
        for place, episode in self.drawn(number):
            torch.manual_seed(_number(f"{self.seed}/{number}/{place}"))
            gradients, value = outer_gradients(
                self.loss,
                self.trained,
                episode_batch(self.model, self.tasks[place], self.encoded[place], episode.support),
                episode_batch(self.model, self.tasks[place], self.encoded[place], episode.query),
                algorithm=settings.algorithm,
                steps=settings.inner_steps,
                rate=settings.inner_rate,
                still=self.still,
            )
            total += value
            if summed:
                torch._foreach_add_(list(summed.values()), [gradients[n] for n in summed])
            else:
                summed = gradients
            del gradients  # free them before the next pair's are computed
        for name, gradient in summed.items():
            self.trained[name].grad = gradient.div_(settings.pairs)
        loss = total / settings.pairs
        limit = settings.clip or float("inf")
        weights = [p for name, p in self.trained.items() if name not in self.still]
        norm = float(torch.nn.utils.clip_grad_norm_(weights, limit))
        self._prepare_gates()
        if not np.isfinite([loss, norm]).all():
            raise InputError(
                f"meta: the query loss is {loss} and its gradient {norm:.3g} at step {number + 1}: "
                f"lower inner_rate ({settings.inner_rate}) or outer_rate ({settings.outer_rate})"
            )
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.losses.append(loss)

    def _prepare_gates(self) -> None:
        """Give gates steps of one length: their gradients are orders of magnitude smaller than the
        weights', so that at one rate, or clipped together, they would never move."""
        for name in self.still:
            gate = self.trained[name]
            if self.sparse is not None:
                (added,) = torch.autograd.grad(self.sparse.open_share(), [gate])
                gate.grad = self.settings.sparsity * added + (0 if gate.grad is None else gate.grad)
            if gate.grad is not None:
                gate.grad /= gate.grad.norm().clamp(min=1e-12)


def episode_batch(
    model: MultiTaskModel, task: Task, encoded: Encoded, examples: Sequence[int]
) -> Batch:
    """All items of these examples as one batch."""
    few = encoded.only(np.asarray(examples))
    pad_id = int(model.tokenizer.pad_token_id)
    return make_batch([(task.name, few, np.arange(few.items))], pad_id=pad_id).to(model.device)


def pair_loss(
    model: MultiTaskModel,
    parameters: Mapping[str, Tensor],
    batch: Batch,
    *,
    precision: str,
    twice: bool = False,
) -> Tensor:
    """The mean loss of a batch, computed with these parameters instead of the model's.

    `twice` chooses attention that can be differentiated twice: torch's fused kernels cannot.
    """
    if any(is_checkpointing(bare) for bare in model.bare_models()):
        # Recomputation in the backward pass would use the model's own parameters.
        raise InputError("meta: cannot be combined with gradient checkpointing: leave it out")
    plain = sdpa_kernel(SDPBackend.MATH) if twice else contextlib.nullcontext()
    with plain, autocast(model.device, precision):
        outputs = functional_call(model, dict(parameters), (batch,))
    spec = model.spec(batch.parts[0].task)
    loss: Tensor = spec.weight * outputs.losses[0].float().mean()
    return loss


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")
