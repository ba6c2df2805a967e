"""The only training loop, built on Accelerate, for one process or several.

A step takes `accumulation` batches, each from one task or, under samplers that choose examples,
mixed. The loss of a batch is the mean over its tasks of the mean over a task's items (over all
processes) times the task's weight; the losses of a step are averaged. Methods that change how a
step trains implement the contract of `training/methods`.
"""

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from brodmann.data.batches import Batch
from brodmann.data.encoding import Encoded
from brodmann.data.tasks import Task
from brodmann.errors import InputError, Interrupted
from brodmann.models.backbone.precision import SLOW_BF16, autocast, fast_bf16
from brodmann.models.evaluation import evaluate, mean_primary
from brodmann.models.multitask import MultiTaskModel
from brodmann.models.parts import rates_of
from brodmann.training import processes
from brodmann.training.batching import BatchSource
from brodmann.training.checkpoints.checkpoint import random_state
from brodmann.training.checkpoints.keeper import Keeper
from brodmann.training.checkpoints.progress import Progress, Scored
from brodmann.training.events import Report, silent
from brodmann.training.losses import Losses, diverged, not_finite, task_losses
from brodmann.training.methods import Method, Setup, make_methods
from brodmann.training.optimizer import make_optimizer
from brodmann.training.parameter_groups import clip_gradients, group_parameters
from brodmann.training.run_facts import start_facts
from brodmann.training.schedule import is_evaluated, rate
from brodmann.training.settings import Options, resolve_options
from brodmann.training.stopping import StopSignals

LOG_EVERY = 10  # steps


class Loop:
    """One call of `fit`: its set-up, and the steps."""

    def __init__(
        self,
        model: MultiTaskModel,
        tasks: list[Task],
        options: Options,
        report: Report | None,
        encoded: Mapping[str, Mapping[str, Encoded]],
        methods: Sequence[Method] = (),
    ) -> None:
        if not tasks:
            raise InputError("tasks: expected at least one task, found none")
        for task in tasks:
            model.spec(task.name)  # raises if the model has no such task
        self.accelerator = processes.accelerator(model.device)
        self.world = int(self.accelerator.num_processes)
        self.rank = int(self.accelerator.process_index)
        self.report: Report = report if report and self.rank == 0 else silent
        self.model, self.tasks = model, tasks
        if options.gradient_checkpointing:
            model.enable_gradient_checkpointing()
        self.trained: nn.Module = model  # or a module around it that holds all parameters
        for method in methods:
            self.trained = method.wrapped(self.trained)
        wrapped = self.trained is not model
        self.device = model.device if self.world == 1 else self.accelerator.device
        self.train_sets = dict(encoded.get("train") or self._encoded("train"))
        self.validation_sets = dict(encoded.get("validation") or self._encoded("validation"))
        large = options.batch_size * self.world
        batches = sum(-(-encoded.items // large) for encoded in self.train_sets.values())
        self.options = options = resolve_options(options, batches, int(model.config.hidden_size))
        names = [task.name for task in tasks]
        self.source = BatchSource(model, names, self.train_sets, options, self.rank, self.world)
        self.stream = self.source.stream
        whole = -(-len(self.stream) // options.accumulation)
        self.steps = min(whole, options.max_steps or whole)
        torch.manual_seed(options.seed * 1000 + self.rank)
        self.trained.to(self.device)
        self._prepare(wrapped=wrapped)
        self.progress = Progress(examples={task.name: 0 for task in tasks})
        self.branches: frozenset[int] = frozenset()  # steps whose checkpoints are kept for others
        self.branch_from: Path | None = None
        setup = Setup(model, self.trained, options, self.steps, self.world, self.accelerator)
        self.methods = make_methods(setup, methods)

    def _prepare(self, *, wrapped: bool) -> None:
        """Shard the model if asked to, and create the optimizer."""
        model, options = self.model, self.options
        self.parameters = model.parameter_counts()
        self.shards: Any = None
        if options.sharding is not None:
            from brodmann.training.sharding import Shards, check_sharded_model

            check_sharded_model(model, options, self.world, wrapped=wrapped)
            self.shards = Shards(model, self.device, self.world)
            self.trained = self.shards.split
        self.learning_rate = float(options.learning_rate)
        self.rates = rates_of(model, self.learning_rate, options.rates)
        inner = model if wrapped else self.trained
        self.groups = group_parameters(inner, self.trained, self.learning_rate, self.rates)
        optimizer = make_optimizer(
            self.groups, options.weight_decay, options.optimizer, options.momentum
        )
        if self.shards is None:
            self.prepared, self.optimizer = self.accelerator.prepare(self.trained, optimizer)
        else:
            self.prepared, self.optimizer = self.shards, self.accelerator.prepare(optimizer)

    def _encoded(self, split: str) -> dict[str, Encoded]:
        result = {}
        for task in self.tasks:
            self.report("encode", {"task": task.name, "split": split})
            result[task.name] = self.model.encode(task.spec, task.splits[split])
        return result

    def train(
        self, keeper: Keeper, signals: StopSignals, checkpoint_every: int | None, log: Any
    ) -> None:
        continued = self._resume(keeper)
        facts = start_facts(self)
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
            for method in self.methods:
                method.close()
        for method in self.methods:
            method.finish()
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
            for method in self._waiting():
                if method.begins is not None and self.progress.step >= method.begins:
                    self._begin(method, keeper)
            self.one_step(keeper, log)
            step = self.progress.step
            if checkpoint_every and step % checkpoint_every == 0 and step < self.steps:
                self._save(keeper)
            self._stop_if_asked(keeper, signals)

    def _waiting(self) -> list[Method]:
        """Methods that begin later in the run."""
        return [m for m in self.methods if m.begins is not None and not m.is_active()]

    def _begin(self, method: Method, keeper: Keeper) -> None:
        """Switch a method on in the middle of a run; the search for the best model starts again."""
        state = self.progress
        if method.preparing:
            self.report("stage", {"text": f"step {state.step:,}: {method.preparing}"})
        facts = method.switch(self.tasks)
        state.methods[method.name] = method.state()
        state.best_step, state.best_score, state.without_gain = -1, None, 0
        keeper.log({"step": state.step, "begins": method.name, **facts})
        self.report("method begins", {"step": state.step, "text": method.begun()})

    def _resume(self, keeper: Keeper) -> bool:
        """Resume from this run's checkpoint or another run's branch; True if it was its own."""
        state = keeper.find()
        continued = state is not None
        keeper.cut_log(state)  # only this run's own log: a branch was logged by another run
        begins = next((m.begins for m in self.methods if m.begins is not None), None)
        if state is None and self.branch_from is not None and begins is not None:
            state = keeper.find_branch(self.branch_from, begins)
        if state is not None:
            with self._whole(back=True) as (trained, optimizer):
                keeper.restore(trained, optimizer, self.rank)
            self.stream.restore(state["stream"])
            self.progress = Progress(**state["progress"])
            for method in self.methods:
                if method.name in self.progress.methods:
                    method.restore(self.progress.methods[method.name])
            self.report("resume", {"step": self.progress.step, "steps": self.steps})
        return continued

    def _evaluation_due(self) -> bool:
        step = self.progress.step
        if step == self.progress.evaluated_at:
            return False
        batches = (self.options.accumulation, self.stream.batches_per_epoch)
        return is_evaluated(step, self.steps, self.options.evaluate_every, batches)

    def _bare_optimizer(self) -> torch.optim.Optimizer:
        inner: torch.optim.Optimizer = self.optimizer.optimizer
        return inner

    def _whole(self, **how: bool) -> Any:
        """Yield (model, optimizer) with all parameters, to be saved or (`back`) written to."""
        if self.shards is None:
            return contextlib.nullcontext((self.trained, self._bare_optimizer()))
        return self.shards.whole(self._bare_optimizer(), **how)

    def _finished(self) -> bool:
        patience = self.options.early_stopping
        patient = patience is not None and self.progress.without_gain >= patience
        asked = [float(any(method.stops() for method in self.methods))]
        if processes.agreed(asked, self.device, self.world)[0]:
            return True
        return self.progress.step >= self.steps or (patient and not self._waiting())

    def one_step(self, keeper: Keeper, log: Any) -> None:
        """Take one optimizer step over `accumulation` batches (fewer at the very end)."""
        started = time.perf_counter()
        options, step = self.options, self.progress.step
        factor = rate(step, self.steps, warmup=options.warmup, schedule=options.schedule)
        for group in self._bare_optimizer().param_groups:
            group["lr"] = group["peak"] * factor
        self.trained.train()
        self.optimizer.zero_grad(set_to_none=True)
        count = min(options.accumulation, len(self.stream) - self.stream.drawn)
        losses: Losses = []
        batches: list[Batch] = []
        for _ in range(count):
            apart = any(method.splits_batches() for method in self.methods)
            several, items = self.source.next(self.device, apart=apart)
            batches += several
            for task, number in items.items():
                self.progress.examples[task] += number
                self.progress.taken[task] = self.progress.taken.get(task, 0) + number
        for place, batch in enumerate(batches):
            last = place == len(batches) - 1 or self.shards is not None
            with contextlib.ExitStack() as around:
                for method in self.methods:
                    around.enter_context(method.reading(batch))
                if not last:
                    around.enter_context(self.accelerator.no_sync(self.prepared))
                # Once per step: every process adds its share of a term to each of its batches.
                each = self._backward(batch, count, count / (len(batches) * self.world))
            losses += [(task, float(value.detach()) * self.world) for task, value in each.items()]
        for method in self.methods:
            method.combine()
        norm = clip_gradients(self.groups, options.clip, sharded=self.shards is not None)
        wrong = not_finite(losses, norm)
        if processes.agreed([float(wrong is not None)], self.device, self.world)[0]:
            raise diverged(wrong, losses, step + 1, keeper.newest)
        with contextlib.ExitStack() as around:
            for method in self.methods:
                tasks = [task for task, _ in losses]
                around.enter_context(method.around_step(tasks, self._bare_optimizer()))
            self.optimizer.step()
        self.progress.step += 1
        self.progress.seconds += time.perf_counter() - started
        for task, value in losses:
            self.progress.window.setdefault(task, []).append(value)
        facts = {"step": step + 1, "steps": self.steps, "losses": losses, "norm": norm}
        self.report("step", {**facts, "examples": sum(self.progress.examples.values())})
        if (step + 1) % LOG_EVERY == 0 or step + 1 == self.steps:
            self._log(keeper, log, self.learning_rate * factor)

    def _backward(self, batch: Batch, count: int, share: float) -> dict[str, Tensor]:
        """Compute the gradients of one of a step's `count` batches; return each task's loss."""
        with autocast(self.device, self.options.precision):
            outputs = self.prepared(batch)
        each = task_losses(batch, outputs.losses, self.model.specs)
        loss = torch.stack(list(each.values())).sum() / batch.tasks
        for method in self.methods:
            if (term := method.term(share)) is not None:
                loss = loss + term
        # The processes' gradients are averaged, but each loss is only a share of the whole.
        self.accelerator.backward(loss * (self.world / count))
        return each

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
        entry: Scored = {"step": state.step, "mean": mean, "scores": scores}
        state.evaluations.append(entry)
        keeper.log({"evaluation": True, **entry})
        primary = {n: s[self.model.spec(n).metric] for n, s in scores.items()}
        log({f"score/{name}": value for name, value in primary.items()}, state.step)
        self.report("evaluated", {**entry, "primary": primary, "best": state.best_step})

    def _save(self, keeper: Keeper, *, branch: bool = False) -> None:
        states = processes.everyones(random_state(), self.world)
        progress, stream = asdict(self.progress), self.stream.state()
        with self._whole() as (trained, optimizer):
            keeper.save(trained, optimizer, states, progress, stream, branch=branch)
        if keeper.folder is not None:
            self.report("saved", {"step": self.progress.step, "folder": keeper.folder})

    def _stop_if_asked(self, keeper: Keeper, signals: StopSignals) -> None:
        asked = processes.agreed([signals.received or 0], self.device, self.world)[0]
        if asked:
            self._save(keeper)
            again = "saved; run the same command again to resume"
            kept = again if keeper.folder else "nothing saved"
            text = f"stopped at step {self.progress.step} of {self.steps}: {kept}"
            raise Interrupted(text, int(asked))
