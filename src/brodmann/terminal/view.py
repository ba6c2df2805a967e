"""Show a run in a terminal: its events as lines, bars and the blocks of its results."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from brodmann.reporting import advice_tables, plan_tables, smaller_models, task_tables
from brodmann.reporting.blocks import Block
from brodmann.reporting.sections import (
    answer,
    arms_compared,
    atlas,
    attention_cosines,
    compression,
    dissociation_matrix,
    few_shot_curves,
    new_tasks,
    pruning,
    related_tasks,
    reliability,
    sweep,
    unseen_pairs,
)
from brodmann.terminal.drawing import drawn_blocks
from brodmann.terminal.live import LiveView
from brodmann.text import counted, duration, millions, parameters, percent, rates, time_left
from brodmann.training.events import Event

Facts = dict[str, Any]
LINE_EVERY = 30  # seconds: a log file gets a line this often instead of a bar

# event → the blocks of its result, as the page draws them, and the line with its location
RESULTS: dict[Event, tuple[Callable[[Facts], Sequence[Block]], str]] = {
    "tasks": (lambda facts: task_tables.tasks_read(facts["tasks"]), ""),
    "scores": (
        lambda facts: answer.scores(facts["tasks"], facts["splits"]),
        "model: {folder}/model   scores: {folder}/metrics.json",
    ),
    "calibrated": (lambda facts: reliability.fitted(facts["result"]), "calibration: {file}"),
    "map": (lambda facts: atlas.head_maps(facts["scores"], facts["alpha"]), "map: {file}"),
    "pruning curve": (lambda facts: pruning.curves(facts["result"]), "pruning curve: {file}"),
    "dissociation": (
        lambda facts: dissociation_matrix.summary(facts["result"]),
        "dissociation: {file}",
    ),
    "pruned": (smaller_models.pruned, "model: {folder}"),
    "compressed": (lambda facts: compression.blocks(facts["result"]), "{place}"),
    "distilled": (smaller_models.distilled, "student: {folder}"),
    "zero-shot": (lambda facts: new_tasks.zero_shot(facts["result"]), ""),
    "adapted": (lambda facts: new_tasks.adapted(facts["result"]), ""),
    "relations": (
        lambda facts: related_tasks.relations(facts["by"], facts["result"]),
        "relations: {file}",
    ),
    "relevance": (
        lambda facts: related_tasks.relevance_views(facts["result"]),
        "relevance: {file}",
    ),
    "attention maps": (
        lambda facts: attention_cosines.layers(facts["result"]),
        "attention maps: {file}",
    ),
    "comparison": (lambda facts: arms_compared.compared(facts["result"]), "comparison: {file}"),
    "grid": (lambda facts: sweep.summary(facts["summary"]), "grid: {folder}/grid.json"),
    "transfer": (
        lambda facts: few_shot_curves.learnt(facts["summary"]),
        "transfer: {file}, {figure}",
    ),
    "meta": (lambda facts: unseen_pairs.pair_views(facts["result"]), "meta: {file}"),
    "plan": (lambda facts: plan_tables.plan(facts["plan"]), "plan: {file}"),
    "plan of many": (lambda facts: plan_tables.plan_of_many(facts["plan"]), "plan: {file}"),
    "estimate": (lambda facts: plan_tables.estimate(facts["estimate"]), ""),
    "reproduced": (lambda facts: facts["blocks"], "reproduced: {file}"),
    "report": (lambda facts: (), "report: {file}"),
    "looked": (lambda facts: advice_tables.beliefs(facts["result"]), "beliefs: {file}"),
    "advice plan": (lambda facts: advice_tables.plan(facts), ""),
    "advised": (lambda facts: advice_tables.advice(facts["result"]), "advice: {file}"),
    "done": (lambda facts: (), "{text}: {folder}"),
}


class RunView:
    """Show the events of a run as they come; `view(event, facts)` is the report function."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.live = LiveView(console)
        self.smooth: float | None = None
        self.begin = (0.0, 0)  # time and examples when this session began
        self.next_line = 0.0
        self.shown: dict[Event, Callable[[Facts], None]] = {
            "stage": self._stage,
            "note": self._note,
            "trial": lambda facts: self._line(facts["text"]),
            "encode": self._encode,
            "start": self._start,
            "resume": self._resume,
            "step": self._step,
            "method begins": self._method_begins,
            "evaluate": self._evaluate,
            "evaluated": self._evaluated,
            "saved": lambda facts: None,
            "end": self._end,
            "evaluation starts": lambda facts: self.live.open_bar("evaluating", facts["examples"]),
            "evaluation goes on": lambda facts: self.live.advance(facts["items"]),
            "measuring starts": lambda facts: self.live.open_bar(facts["what"], facts["examples"]),
            "measuring goes on": lambda facts: self.live.advance(facts["items"]),
            "advice": self._advice,
            "arm": self._arm,
            "cell": self._cell,
            "cells": self.live.show_cells,
            "cell failed": self._cell_failed,
            **{event: self._result_of(event) for event in RESULTS},
        }

    def __call__(self, event: Event, facts: Facts, /) -> None:
        self.shown[event](facts)

    def close(self) -> None:
        self.live.close()

    def _result_of(self, event: Event) -> Callable[[Facts], None]:
        make, where = RESULTS[event]

        def show(facts: Facts) -> None:
            self.close()
            for part in drawn_blocks(make(facts)):
                self.console.print(part, highlight=False)
            if where and facts.get("file", "") is not None:  # a plan may not have been saved
                self._path(where.format(**facts))

        return show

    def _line(self, text: str, style: str = "") -> None:
        self.console.print(escape(text), style=style, highlight=False)

    def _path(self, text: str) -> None:
        """Print a line with a path: the terminal wraps it, so that it can be copied whole."""
        self.console.print(escape(text), highlight=False, soft_wrap=True)

    def _headline(self, text: str) -> None:
        if len(text) + 4 <= self.console.width:
            self.console.rule(escape(text), align="left")
        else:  # a rule would cut the text
            self._line(f"── {text}")

    def _stage(self, facts: Facts) -> None:
        self._line(f"{facts['text']} …", "dim")

    def _note(self, facts: Facts) -> None:
        self.console.print(f"[yellow]note:[/yellow] {escape(facts['text'])}", highlight=False)

    def _encode(self, facts: Facts) -> None:
        """Show a bar: reading many texts takes a while before the first step."""
        self.live.open_bar(f"encoding {facts['task']} ({facts['split']})", None)

    def _start(self, facts: Facts) -> None:
        self.close()
        counts = facts["parameters"]
        self._line(
            f"{parameters(counts)}, {millions(counts['trainable'])} trained; "
            f"{counted(facts['steps'], 'step')} on {facts['device']} in {facts['precision']}, "
            f"{counted(facts['threads'], 'thread')}"
            + (f", {facts['world']} processes" if facts["world"] > 1 else "")
            + (", sharded" if facts["sharded"] else "")
            + (f"; {counted(facts['epochs'], 'epoch')}, " if facts["epochs"] is not None else "; ")
            + f"learning rate {rates(facts['rates'])}"
            + f"; texts are read as {facts['pooling']}"
        )
        for name, task in facts["tasks"].items():
            if task["truncated"] > 0:
                share = f"{percent(task['truncated'])} %"
                self._note({"text": f"{name}: {share} of the training texts are cut at max_length"})
        self.begin = (time.monotonic(), -1)
        self.live.open_bar("training", facts["steps"], facts["step"])

    def _resume(self, facts: Facts) -> None:
        self._line(f"resuming from step {facts['step']:,} of {facts['steps']:,}")

    def _step(self, facts: Facts) -> None:
        now = time.monotonic()
        if self.begin[1] < 0:
            self.begin = (now, facts["examples"])  # the first step warms up: do not count it
        speed = (facts["examples"] - self.begin[1]) / max(now - self.begin[0], 1e-9)
        for _, loss in facts["losses"]:
            self.smooth = loss if self.smooth is None else 0.95 * self.smooth + 0.05 * loss
        text = f"{speed:,.0f} examples/s  loss {self.smooth:.3f}"
        self.live.update(text, facts["step"])
        if not self.console.is_terminal and now >= self.next_line and speed > 0:
            self.next_line = now + LINE_EVERY
            self._line(f"step {facts['step']:,}/{facts['steps']:,}  {text}")

    def _method_begins(self, facts: Facts) -> None:
        self._line(f"from step {facts['step']:,} on, {facts['text']}")

    def _evaluate(self, facts: Facts) -> None:
        self.live.update("evaluating")

    def _evaluated(self, facts: Facts) -> None:
        scores = "  ".join(f"{name} {percent(score)}" for name, score in facts["primary"].items())
        best = " [green](best)[/green]" if facts["best"] == facts["step"] else ""
        self.console.print(
            f"step {facts['step']:,}: mean [bold]{percent(facts['mean'])}[/bold]  "
            f"{escape(scores)}{best}",
            highlight=False,
        )

    def _end(self, facts: Facts) -> None:
        self.close()
        examples = sum(facts["examples"].values())
        self._line(
            f"trained on {counted(examples, 'example')} in {duration(facts['seconds'])} "
            f"({examples / max(facts['seconds'], 1e-9):.0f} examples/s)"
        )
        for task in (task for task, count in facts["examples"].items() if not count):
            self._note({"text": f"{task}: none of its examples were drawn, so it was not trained"})

    def _advice(self, facts: Facts) -> None:
        for reason in facts["reasons"]:
            self._line(reason, "dim")
        self._path(f"advice: {facts['file']}")

    def _arm(self, facts: Facts) -> None:
        self.close()
        self._headline(f"{facts['arm']}, seed {facts['seed']}")

    def _cell(self, facts: Facts) -> None:
        self.close()
        place = f"cell {facts['number'] + 1}/{facts['cells']}"
        left = f" ({time_left(facts['expected'])})" if facts.get("expected") else ""
        if facts["state"] == "starts":
            self._headline(f"{place}: {facts['cell'].label}{left}")
        else:
            self._line(f"{place}: {facts['cell'].label} is {facts['state']}{left}", "dim")

    def _cell_failed(self, facts: Facts) -> None:
        self.close()
        text = escape(f"{facts['label']}: {facts['reason']}")
        self.console.print(f"[red]failed:[/red] {text}", highlight=False)
