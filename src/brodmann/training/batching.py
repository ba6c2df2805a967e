"""The next batch of a training run: this process's share of the sampler's choice."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from brodmann.data.batches import Batch, make_batch
from brodmann.data.encoding import Encoded
from brodmann.data.sampling.samplers import make_stream
from brodmann.data.sampling.stream import Entropies
from brodmann.data.sampling.uncertainty import in_order, share_of_uniform
from brodmann.files import Array
from brodmann.models.item_entropy import item_entropies
from brodmann.models.multitask import MultiTaskModel
from brodmann.training import processes
from brodmann.training.settings import Options


class BatchSource:
    """Batches of one task each, or mixed batches of examples that the model is least sure of."""

    def __init__(
        self,
        model: MultiTaskModel,
        names: Sequence[str],
        encoded: Mapping[str, Encoded],
        options: Options,
        rank: int,
        world: int,
    ) -> None:
        self.model, self.names, self.encoded = model, list(names), encoded
        self.rank, self.world, self.precision = rank, world, options.precision
        self.log_entropy, self.batch_size = bool(options.log_entropy), options.batch_size
        self.seed = options.seed
        self.pad_id = int(model.tokenizer.pad_token_id)
        self.stream = make_stream(
            options.sampling,
            [encoded[name].lengths() for name in names],
            parameters=options.sampling_parameters,
            batch_size=options.batch_size * world,
            epochs=int(options.epochs),
            seed=options.seed,
            bucketing=options.bucketing,
        )

    def next(self, device: Any, *, apart: bool = False) -> tuple[list[Batch], dict[str, int]]:
        """This process's share of the next batch, and the size of the whole batch per task.

        `apart` splits a mixed batch by task (heads are specialized one task at a time).
        """
        draw = self.stream.next(self.feedback)
        items = {self.names[task]: own for task, own in draw.items.items()}
        groups = [[name] for name in items] if apart else [list(items)]
        batches = [self.share(items, names).to(device) for names in groups]
        return batches, {name: len(own) for name, own in items.items()}

    def share(self, items: Mapping[str, Array], names: Sequence[str]) -> Batch:
        shares = {name: items[name][self.rank :: self.world] for name in names}
        shares = {name: own for name, own in shares.items() if len(own)}
        empty = not shares
        if empty:  # fewer items than processes: run the pass with weight 0
            shares = {names[0]: items[names[0]][:1]}
        batch = make_batch(
            [(name, self.encoded[name], own) for name, own in shares.items()],
            pad_id=self.pad_id,
            totals=[len(items[name]) for name in shares],
        )
        batch.tasks = len(items)
        if empty:
            batch.parts[0].total = 0
        return batch

    def feedback(self, candidates: Sequence[Array]) -> Sequence[Entropies]:
        """The model's uncertainty about these items: each process reads a share, all get the whole.

        Called by samplers that choose examples.
        """
        own = [
            item_entropies(
                self.model,
                name,
                self.encoded[name],
                items[self.rank :: self.world],
                precision=self.precision,
            )
            for name, items in zip(self.names, candidates, strict=True)
        ]
        if self.world == 1:
            return own
        return in_order(processes.everyones(own, self.world), candidates)

    def log_facts(self, step: int) -> dict[str, Any]:
        """The sampler's facts for the log: the data used, and how unsure the model is."""
        facts = self.stream.log_facts(self.names)
        if self.log_entropy and "entropy" not in facts and self.rank == 0:
            facts["entropy"] = self._entropies(step)
        return facts

    def _entropies(self, step: int) -> dict[str, float]:
        """Mean uncertainty of one batch per task, drawn separately from the training batches.

        The sampler `uncertainty` measures its candidates anyway; for other samplers this gives the
        curve to compare with (Pilault et al. 2021, Figure 5).
        """
        found = {}
        for place, name in enumerate(self.names):
            generator = np.random.default_rng([self.seed, 3, place, step])
            size = len(self.stream.lengths[place])
            items = generator.permutation(size)[: self.batch_size]
            measured = item_entropies(
                self.model, name, self.encoded[name], items, precision=self.precision
            )
            if measured is not None:
                found[name] = float(share_of_uniform(measured).mean())
        return found
