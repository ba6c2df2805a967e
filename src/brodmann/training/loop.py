"""The training loop: the only one. Built on Accelerate, for one process or several.

A step takes `accumulation` batches, each from one task or (sampler `uncertainty`) mixed. The loss
of a batch is the mean over its tasks of the mean over a task's items (over all processes) times the
task's weight; the losses of a step are averaged.
"""

import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from brodmann.data.batches import Batch
from brodmann.data.encoding import Encoded
from brodmann.data.tasks import Task
from brodmann.errors import InputError, Interrupted, RunError
from brodmann.files import digest
from brodmann.models.backbone.precision import SLOW_BF16, autocast, computed_in, fast_bf16
from brodmann.models.evaluation import evaluate, mean_primary
from brodmann.models.heads.trained_gates import sparse_gates
from brodmann.models.multitask import MultiTaskModel
from brodmann.models.parts import parts_of, rates_of
from brodmann.models.pooling import describe_pooling
from brodmann.training import processes
from brodmann.training.batching import BatchSource
from brodmann.training.checkpoints.checkpoint import random_state
from brodmann.training.checkpoints.keeper import Keeper
from brodmann.training.checkpoints.progress import Progress
from brodmann.training.methods.aggregation import TaskGradients, check_together
from brodmann.training.methods.iat import Specialization
from brodmann.training.options import Options, make_optimizer, resolve_options
from brodmann.training.schedule import rate
from brodmann.training.stopping import StopSignals

Report = Callable[[str, dict[str, Any]], None]  # (event, its facts)
LOG_EVERY = 10  # steps


class Loop:
    """One call of `fit`: what is set up once, and the steps over it."""

    def __init__(
        self,
        model: MultiTaskModel,
        tasks: list[Task],
        options: Options,
        report: Report | None,
        encoded: Mapping[str, Mapping[str, Encoded]],
        objective: Any,
    ) -> None:
        if not tasks:
            raise InputError("tasks: expected at least one task, found none")
        for task in tasks:
            model.spec(task.name)  # says so if the model has no such task
        self.accelerator = processes.accelerator()
        self.world = int(self.accelerator.num_processes)
        self.rank = int(self.accelerator.process_index)
        self.report: Report = report if report and self.rank == 0 else lambda *_: None
        self.model, self.tasks = model, tasks
        self.objective = objective
        self.trained: nn.Module = model if objective is None else objective  # has all parameters
        self.device = self.accelerator.device
        self.train_sets = dict(encoded.get("train") or self._encoded("train"))
        self.validation_sets = dict(encoded.get("validation") or self._encoded("validation"))
        large = options.batch_size * self.world
        batches = sum(-(-encoded.items // large) for encoded in self.train_sets.values())
        self.options = options = resolve_options(options, batches, int(model.config.hidden_size))
        self.source = BatchSource(
            model,
            [task.name for task in tasks],
            self.train_sets,
            options,
            self.rank,
            self.world,
        )
        self.stream = self.source.stream
        whole = -(-len(self.stream) // options.accumulation)
        self.steps = min(whole, options.max_steps or whole)
        torch.manual_seed(options.seed * 1000 + self.rank)
        self.trained.to(self.device)
        self.parameters = model.parameter_counts()
        self.shards: Any = None
        if options.sharding is not None:
            from brodmann.training.sharding import Shards, check_sharded_model

            check_sharded_model(model, options, self.world, objective)
            self.shards = Shards(model, self.device, self.world)
            self.trained = self.shards.split
        self.sparse = sparse_gates(model) if options.sparsity else None
        self.learning_rate = float(options.learning_rate)
        self.rates = rates_of(model, self.learning_rate, options.rates)
        self.groups = self._groups()
        optimizer = make_optimizer(
            self.groups, options.weight_decay, options.optimizer, options.momentum
        )
        if self.shards is None:
            self.prepared, self.optimizer = self.accelerator.prepare(self.trained, optimizer)
        else:
            self.prepared, self.optimizer = self.shards, self.accelerator.prepare(optimizer)
        self.progress = Progress(examples={task.name: 0 for task in tasks})
        self.branches: frozenset[int] = frozenset()  # steps whose checkpoints are kept for others
        self.branch_from: Path | None = None
        self.conflicts: TaskGradients | None = None
        if options.aggregation is not None:
            check_together(
                self.world, options.accumulation, options.specialize is not None, options.sampling
            )
            self.conflicts = TaskGradients(self.trained, options.aggregation)
        self.special: Specialization | None = None
        if options.specialize is not None and not options.specialize.is_plain:
            processes.refuse_sharding(self.accelerator, "specialize")
            self.special = Specialization(model, options.specialize, self.steps)

    def _encoded(self, split: str) -> dict[str, Encoded]:
        result = {}
        for task in self.tasks:
            self.report("encode", {"task": task.name, "split": split})
            result[task.name] = self.model.encode(task.spec, task.splits[split])
        return result

    def fingerprint(self, *, plain: bool = False) -> str:
        """Two runs with the same one go through the same steps, so one may finish the other.

        `plain` leaves out how heads specialize: then it holds for the steps before the switch.
        """
        data = [task.fingerprint() for task in self.tasks]
        shapes = [[n, list(p.shape), p.requires_grad] for n, p in self.trained.named_parameters()]
        special = None if plain or self.special is None else asdict(self.special.settings)
        options = self.options.plain() | ({} if special is None else {"specialize": special})
        if self.model.settings.parameters:  # clusters may come from a file that changed since
            options |= {"architecture": self.model.settings.parameters}
        if len(set(self.rates.values())) > 1:
            options |= {"rates": self.rates}
        options |= {} if self.objective is None else {"objective": self.objective.settings()}
        return digest(options, data, shapes, self.world)

    def train(
        self, keeper: Keeper, signals: StopSignals, checkpoint_every: int | None, log: Any
    ) -> None:
        continued = self._resume(keeper)
        facts = self._facts()
        if not continued:
            keeper.log({"start": True, **facts})
        self.report("start", facts)
        if self.options.precision == "bf16" and not fast_bf16(self.device):
            self.report("note", {"text": SLOW_BF16})
        try:
            self._all_steps(keeper, signals, checkpoint_every, log)
            if self.shards is not None:
                self.shards.gather()
            if self.options.keep == "best" and self.progress.best_step >= 0:
                kept = self.trained if self.shards is None else self.model
                keeper.load_best(kept, self.progress.best_step)
        finally:
            if self.sparse is not None:
                self.sparse.noisy = False
            if self.special is not None:
                self.special.remove_hooks()
        if self.special is not None:
            self.special.finish()
        self.report("end", asdict(self.progress))

    def _all_steps(
        self, keeper: Keeper, signals: StopSignals, checkpoint_every: int | None, log: Any
    ) -> None:
        while True:
            if self._evaluation_due():
                self._evaluate(keeper, signals, log)
                self._save(keeper)
            if self._finished():
                return
            if self.progress.step in self.branches:
                self._save(keeper, branch=True)
            if self.special is not None and self.special.due(self.progress.step):
                self._specialize(keeper)
            self.one_step(keeper, log)
            step = self.progress.step
            if checkpoint_every and step % checkpoint_every == 0 and step < self.steps:
                self._save(keeper)
            self._stop_if_asked(keeper, signals)

    def _specialize(self, keeper: Keeper) -> None:
        """The switch: every task's heads are chosen, and the search for the best begins anew."""
        assert self.special is not None
        self.report("stage", {"text": f"step {self.progress.step:,}: choosing the heads"})
        state = self.progress
        state.heads = self.special.choose(
            self.tasks,
            seed=self.options.seed,
            batch_size=self.options.evaluation_batch_size,
            precision=self.options.precision,
        )
        self.special.install(state.heads)
        state.best_step, state.best_score, state.without_gain = -1, None, 0
        keeper.log({"step": state.step, "heads": state.heads})
        self.report("specialized", {"step": state.step, "heads": state.heads})

    def _resume(self, keeper: Keeper) -> bool:
        """Go on from this run's checkpoint, or another's branch; whether it was this run's own."""
        state = keeper.find()
        continued = state is not None
        keeper.cut_log(state)  # of this run's own: a branch has been logged by another
        if state is None and self.branch_from is not None and self.special is not None:
            state = keeper.find_branch(self.branch_from, self.special.begins)
        if state is not None:
            with self._whole(back=True) as (trained, optimizer):
                keeper.restore(trained, optimizer, self.rank)
            self.stream.restore(state["stream"])
            self.progress = Progress(**state["progress"])
            if self.special is not None and self.progress.heads is not None:
                self.special.install(self.progress.heads)
            self.report("resume", {"step": self.progress.step, "steps": self.steps})
        return continued

    def _facts(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "step": self.progress.step,
            "world": self.world,
            "sharded": self.options.sharding is not None,
            "device": str(self.device),
            "precision": computed_in(self.options.precision, self.device),
            "threads": torch.get_num_threads(),
            "parameters": self.parameters,
            "epochs": self.options.epochs,
            "rates": self.rates,
            "pooling": describe_pooling(self.model.settings.pooling),
            "tasks": {
                task.name: {
                    **task.sizes,
                    "items": self.train_sets[task.name].items,
                    "truncated": self.train_sets[task.name].truncated / task.sizes["train"],
                }
                for task in self.tasks
            },
        }

    def _bare_optimizer(self) -> torch.optim.Optimizer:
        inner: torch.optim.Optimizer = self.optimizer.optimizer
        return inner

    def _whole(self, **how: bool) -> Any:
        """(model, optimizer) with all their numbers here, to be saved or (`back`) written to."""
        if self.shards is None:
            return contextlib.nullcontext((self.trained, self._bare_optimizer()))
        return self.shards.whole(self._bare_optimizer(), **how)

    def _finished(self) -> bool:
        patience = self.options.early_stopping
        waiting = self.special is not None and self.progress.heads is None  # for the switch
        if patience is not None and self.progress.without_gain >= patience and not waiting:
            return True
        return self.progress.step >= self.steps

    def _evaluation_due(self) -> bool:
        step = self.progress.step
        if step == 0 or step == self.progress.evaluated_at:
            return False
        if step == self.steps:
            return True
        if self.options.evaluate_every is not None:
            return step % self.options.evaluate_every == 0
        before = (step - 1) * self.options.accumulation // self.stream.batches_per_epoch
        return step * self.options.accumulation // self.stream.batches_per_epoch > before

    def one_step(self, keeper: Keeper, log: Any) -> None:
        """One optimizer step over `accumulation` batches (fewer at the very end)."""
        started = time.perf_counter()
        options, step = self.options, self.progress.step
        factor = rate(step, self.steps, warmup=options.warmup, schedule=options.schedule)
        for group in self._bare_optimizer().param_groups:
            group["lr"] = group["peak"] * factor
        self.trained.train()
        if self.sparse is not None:
            self.sparse.noisy = True
        self.optimizer.zero_grad(set_to_none=True)
        count = min(options.accumulation, len(self.stream) - self.stream.drawn)
        losses: list[tuple[str, float]] = []
        batches: list[Batch] = []
        for _ in range(count):
            several, items = self.source.next(self.device, apart=self._by_task())
            batches += several
            for task, number in items.items():
                self.progress.examples[task] += number
                self.progress.taken[task] = self.progress.taken.get(task, 0) + number
        for place, batch in enumerate(batches):
            if self.special is not None:
                self.special.task = batch.parts[0].task
            last = place == len(batches) - 1 or self.shards is not None
            with contextlib.nullcontext() if last else self.accelerator.no_sync(self.prepared):
                with autocast(self.device, options.precision):
                    outputs = self.prepared(batch)
                each = self.task_losses(batch, outputs.losses)
                loss = torch.stack(list(each.values())).sum() / batch.tasks
                if self.sparse is not None:
                    # Once per step: every process adds its share to each of its batches.
                    share = count / (len(batches) * self.world)
                    loss = loss + options.sparsity * share * self.sparse.open_share()
                # The processes' gradients are averaged, but each loss is a share of the whole.
                self.accelerator.backward(loss * (self.world / count))
            if self.conflicts is not None:
                self.conflicts.collect(batch.parts[0].task)
            losses += [(task, float(value.detach()) * self.world) for task, value in each.items()]
        if self.conflicts is not None:
            self.conflicts.combine()
        norm = self._clip()
        self._check_finite(losses, norm, keeper)
        with self._only_chosen_heads([task for task, _ in losses]):
            self.optimizer.step()
        self.progress.step += 1
        self.progress.seconds += time.perf_counter() - started
        for task, value in losses:
            self.progress.window.setdefault(task, []).append(value)
        facts = {"step": step + 1, "steps": self.steps, "losses": losses, "norm": norm}
        self.report("step", {**facts, "examples": sum(self.progress.examples.values())})
        if (step + 1) % LOG_EVERY == 0 or step + 1 == self.steps:
            self._log(keeper, log, self.learning_rate * factor)

    def _by_task(self) -> bool:
        """Heads specialize a task at a time: a mixed batch is split then."""
        return self.special is not None and self.special.heads is not None

    def _only_chosen_heads(self, tasks: Sequence[str]) -> Any:
        if self.special is None or self.special.heads is None:
            return contextlib.nullcontext()
        return self.special.step(tasks, self._bare_optimizer())

    def task_losses(self, batch: Batch, losses: Sequence[Tensor]) -> dict[str, Tensor]:
        """Each task's mean, times the task's weight: this process's share of it."""
        found = {}
        for part, values in zip(batch.parts, losses, strict=True):
            share = values.sum() / part.total if part.total else 0.0 * values.sum()
            found[part.task] = self.model.specs[part.task].weight * share
        return found

    def _groups(self) -> list[tuple[float, list[nn.Parameter]]]:
        """(learning rate, parameters): everything at the common rate, then parts with their own."""
        model = self.trained if self.objective is None else self.model
        parts = parts_of(model)
        known = {id(p) for parameters in parts.values() for p in parameters}
        others = [p for p in self.trained.parameters() if p.requires_grad and id(p) not in known]
        by_rate: dict[float, list[nn.Parameter]] = {self.learning_rate: others}
        for part, parameters in parts.items():
            by_rate.setdefault(self.rates[part], []).extend(parameters)
        return list(by_rate.items())

    def _clip(self) -> float:
        """Parts with a rate of their own are clipped by themselves: a few gates beside millions of
        weights would otherwise be scaled by what the weights do."""
        limit = self.options.clip if self.options.clip is not None else math.inf
        norms: list[float] = []
        for _, parameters in self.groups:
            trained = [p for p in parameters if p.grad is not None]
            if trained:
                norm: Any = nn.utils.clip_grad_norm_(trained, limit)
                norms.append(float(norm if self.shards is None else norm.full_tensor()))
        return math.hypot(*norms)

    def _check_finite(
        self, losses: Sequence[tuple[str, float]], norm: float, keeper: Keeper
    ) -> None:
        bad = next((task for task, value in losses if not math.isfinite(value)), None)
        wrong = 1.0 if bad is not None or not math.isfinite(norm) else 0.0
        if not processes.agreed([wrong], self.device, self.world)[0]:
            return
        what = "loss" if bad is not None else "gradient"
        task = bad or losses[-1][0]
        kept = f"; {keeper.newest.name} is kept" if keeper.newest else ""
        raise RunError(
            f"the {what} of task '{task}' is not a finite number at step {self.progress.step + 1}"
            f'{kept}: try a lower learning_rate, a smaller clip or precision = "float32"'
        )

    def _log(self, keeper: Keeper, log: Any, learning_rate: float) -> None:
        means = {task: sum(values) / len(values) for task, values in self.progress.window.items()}
        entry = {
            "step": self.progress.step,
            "epoch": round(self.stream.drawn / self.stream.batches_per_epoch, 4),
            "learning_rate": learning_rate,
            "loss": means,
            "batches": {task: len(values) for task, values in self.progress.window.items()},
            "examples": self.progress.taken,
            "seconds": round(self.progress.seconds, 3),
            **self.source.log_facts(self.progress.step),
        }
        keeper.log(entry)
        log({f"loss/{task}": v for task, v in means.items()}, self.progress.step)
        self.progress.window, self.progress.taken = {}, {}

    def _evaluate(self, keeper: Keeper, signals: StopSignals, log: Any) -> None:
        self.report("evaluate", {"step": self.progress.step})

        def progress(items: int) -> None:
            if self.world == 1:  # several processes must finish together
                self._stop_if_asked(keeper, signals)

        state = self.progress
        with self._whole(moments_too=False) as (trained, _):
            results = evaluate(
                self.model,
                self.tasks,
                batch_size=self.options.evaluation_batch_size,
                precision=self.options.precision,
                encoded=self.validation_sets,
                progress=progress,
            )
            mean = mean_primary(self.model, results)
            state.evaluated_at = state.step
            if state.best_score is None or mean > state.best_score:
                state.best_step, state.best_score, state.without_gain = state.step, mean, 0
                keeper.save_best(trained, state.step)
            else:
                state.without_gain += 1
        scores = {name: result.scores for name, result in results.items()}
        entry = {"step": state.step, "mean": mean, "scores": scores}
        state.evaluations.append(entry)
        keeper.log({"evaluation": True, **entry})
        primary = {n: s[self.model.spec(n).metric] for n, s in scores.items()}
        log({f"score/{name}": value for name, value in primary.items()}, state.step)
        self.report("evaluated", {**entry, "primary": primary, "best": state.best_step})

    def _save(self, keeper: Keeper, *, branch: bool = False) -> None:
        states = processes.everyones(random_state(), self.world)
        with self._whole() as (trained, optimizer):
            progress, stream = asdict(self.progress), self.stream.state()
            keeper.save(trained, optimizer, states, progress, stream, branch=branch)

    def _stop_if_asked(self, keeper: Keeper, signals: StopSignals) -> None:
        asked = processes.agreed([signals.received or 0], self.device, self.world)[0]
        if asked:
            self._save(keeper)
            kept = "saved; the same command goes on from here" if keeper.folder else "nothing saved"
            raise Interrupted(
                f"stopped at step {self.progress.step} of {self.steps}: {kept}", int(asked)
            )
