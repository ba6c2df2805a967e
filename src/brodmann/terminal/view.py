"""What a run looks like in a terminal: progress with time left, and tables of scores."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from brodmann.data.sources.table import SPLITS
from brodmann.measuring.relations import RELATIONS, title_of
from brodmann.reporting.adaptation import ALIKE
from brodmann.results import parameters_in_words, rates_in_words
from brodmann.terminal.plans import (
    estimate_parts,
    plan_of_many_parts,
    plan_parts,
    progress_table,
    reproduced_parts,
)
from brodmann.terminal.relation_tables import attention_table, matrix_table, relevance_lines
from brodmann.terminal.tables_of_results import (
    adapted_parts,
    comparison_parts,
    dissociation_lines,
    dissociation_table,
    grid_lines,
    grid_table,
    head_maps,
    meta_parts,
    pruned_table,
    score_table,
    transfer_parts,
    zero_shot_table,
)
from brodmann.terminal.width import Table

FOR_A_BAR, FOR_FACTS = 75, 60  # letters of a line that a bar, and what stands beside it, need


class RunView:
    """The events of a run as lines and bars; `view(event, facts)` is the report function."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bar: Progress | None = None
        self.bar_task: TaskID | None = None
        self.live: Live | None = None
        self.smooth: float | None = None
        self.begin = (0.0, 0)  # time and examples when this sitting began
        self.next_line = 0.0
        self.shown: dict[str, Callable[[dict[str, Any]], None]] = {
            "stage": self._stage,
            "note": self._note,
            "tasks": self._tasks,
            "start": self._start,
            "resume": self._resume,
            "step": self._step,
            "specialized": self._specialized,
            "evaluate": self._evaluate,
            "evaluated": self._evaluated,
            "end": self._end,
            "evaluation starts": self._evaluation_starts,
            "evaluation goes on": self._evaluation_goes_on,
            "measuring starts": self._measuring_starts,
            "measuring goes on": self._evaluation_goes_on,
            "map": self._map,
            "dissociation": self._dissociation,
            "pruned": self._pruned,
            "distilled": self._distilled,
            "zero-shot": self._zero_shot,
            "adapted": self._adapted,
            "relations": self._relations,
            "relevance": self._relevance,
            "attention maps": self._attention_maps,
            "advice": self._advice,
            "arm": self._arm,
            "comparison": self._comparison,
            "transfer": self._transfer,
            "meta": self._meta,
            "plan": self._plan,
            "plan of many": self._plan_of_many,
            "estimate": self._estimate,
            "reproduced": self._reproduced,
            "cells": self._cells,
            "cell": self._cell,
            "cell failed": self._cell_failed,
            "grid": self._grid,
            "done": self._done,
            "scores": self._scores,
            "report": self._report,
        }

    def __call__(self, event: str, facts: dict[str, Any]) -> None:
        if event in self.shown:
            self.shown[event](facts)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None
        if self.live is not None:
            self.live.stop()
            self.live = None

    def _path(self, text: str) -> None:
        """A line with a path: the terminal wraps it, so that it can be copied whole."""
        self.console.print(escape(text), highlight=False, soft_wrap=True)

    def _headline(self, text: str) -> None:
        if len(text) + 4 <= self.console.width:
            self.console.rule(escape(text), align="left")
        else:  # a rule would cut it
            self.console.print(escape(f"── {text}"), highlight=False)

    def _stage(self, facts: dict[str, Any]) -> None:
        self.console.print(f"[dim]{facts['text']} …[/dim]")

    def _note(self, facts: dict[str, Any]) -> None:
        self.console.print(f"[yellow]note:[/yellow] {escape(facts['text'])}", highlight=False)

    def _tasks(self, facts: dict[str, Any]) -> None:
        table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
        for title in ("task", "kind", "labels", *SPLITS, "metric"):
            table.add_column(title, justify="right" if title in SPLITS else "left")
        for task in facts["tasks"]:
            labels = len(task.spec.labels) if task.spec.labels else "–"
            sizes = [f"{task.sizes[s]:,}" if s in task.sizes else "–" for s in SPLITS]
            table.add_row(escape(task.name), task.spec.kind, str(labels), *sizes, task.spec.metric)
        self.console.print(table)
        if any(task.spec.generated for task in facts["tasks"]):
            self.console.print(
                "[dim]builtin/ tasks are generated text, for trying things out[/dim]"
            )
        for task in facts["tasks"]:
            further = [f"{size:,} {s}" for s, size in task.sizes.items() if s not in SPLITS]
            if further:
                self._note({"text": f"{task.name}: also judged on {', '.join(further)} examples"})
            for note in task.notes:
                self._note({"text": note})

    def _start(self, facts: dict[str, Any]) -> None:
        counts = facts["parameters"]
        self.console.print(
            f"{parameters_in_words(counts)}, {counts['trainable'] / 1e6:.1f} M trained; "
            f"{facts['steps']:,} steps on {facts['device']} in {facts['precision']}, "
            f"{facts['threads']} thread(s)"
            + (f", {facts['world']} processes" if facts["world"] > 1 else "")
            + (", sharded" if facts["sharded"] else "")
            + f"; {facts['epochs']} epochs, learning rate {rates_in_words(facts['rates'])}"
            + f"; a text is read as {facts['pooling']}",
            highlight=False,
            soft_wrap=True,
        )
        for name, task in facts["tasks"].items():
            if task["truncated"] > 0:
                share = f"{100 * task['truncated']:.1f} %"
                self._note({"text": f"{name}: {share} of the training texts are cut at max_length"})
        self.begin = (time.monotonic(), -1)
        self._open_bar("training", facts["steps"], facts["step"])

    def _open_bar(self, name: str, total: int, done: int = 0) -> None:
        self.close()
        columns: list[Any] = [
            TextColumn("{task.description}"),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            TextColumn("{task.fields[facts]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
        ]
        if self.console.width >= FOR_A_BAR:
            columns.insert(1, BarColumn(bar_width=min(30, self.console.width - FOR_A_BAR + 5)))
        else:  # what is left out is better than what is cut
            del columns[2 if self.console.width < FOR_FACTS else 3 :]
        self.bar = Progress(
            *columns,
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self.bar_task = self.bar.add_task(name, total=total, completed=done, facts="")
        self.bar.start()

    def _resume(self, facts: dict[str, Any]) -> None:
        self.console.print(
            f"going on from step {facts['step']:,} of {facts['steps']:,}", highlight=False
        )

    def _step(self, facts: dict[str, Any]) -> None:
        now = time.monotonic()
        if self.begin[1] < 0:
            self.begin = (now, facts["examples"])  # the first step warms up: do not count it
        speed = (facts["examples"] - self.begin[1]) / max(now - self.begin[0], 1e-9)
        for _, loss in facts["losses"]:
            self.smooth = loss if self.smooth is None else 0.95 * self.smooth + 0.05 * loss
        text = f"{speed:,.0f} examples/s  loss {self.smooth:.3f}"
        if self.bar is not None and self.bar_task is not None:
            self.bar.update(self.bar_task, completed=facts["step"], facts=text)
        if not self.console.is_terminal and now >= self.next_line and speed > 0:
            self.next_line = now + 30  # a log file gets a line now and then instead of a bar
            self.console.print(
                f"step {facts['step']:,}/{facts['steps']:,}  {text}", highlight=False
            )

    def _specialized(self, facts: dict[str, Any]) -> None:
        counts = {len(heads) for heads in facts["heads"].values()}
        shown = ", ".join(str(count) for count in sorted(counts))
        self.console.print(
            f"from step {facts['step']:,} on along the map: {shown} heads a task", highlight=False
        )

    def _evaluate(self, facts: dict[str, Any]) -> None:
        if self.bar is not None and self.bar_task is not None:
            self.bar.update(self.bar_task, facts="evaluating")

    def _evaluated(self, facts: dict[str, Any]) -> None:
        scores = "  ".join(f"{name} {100 * score:.1f}" for name, score in facts["primary"].items())
        best = " [green](best)[/green]" if facts["best"] == facts["step"] else ""
        self.console.print(
            f"step {facts['step']:,}: mean [bold]{100 * facts['mean']:.1f}[/bold]  {scores}{best}",
            highlight=False,
        )

    def _end(self, facts: dict[str, Any]) -> None:
        self.close()
        examples = sum(facts["examples"].values())
        self.console.print(
            f"trained on {examples:,} examples in {facts['seconds']:.0f} s "
            f"({examples / max(facts['seconds'], 1e-9):.0f} examples/s)",
            highlight=False,
        )
        for task in (task for task, count in facts["examples"].items() if not count):
            self._note({"text": f"{task}: not one of its examples was drawn, it was not trained"})

    def _evaluation_starts(self, facts: dict[str, Any]) -> None:
        self._open_bar("evaluating", facts["examples"])

    def _evaluation_goes_on(self, facts: dict[str, Any]) -> None:
        if self.bar is not None and self.bar_task is not None:
            self.bar.advance(self.bar_task, facts["items"])

    def _measuring_starts(self, facts: dict[str, Any]) -> None:
        self._open_bar(facts["what"], facts["examples"])

    def _arm(self, facts: dict[str, Any]) -> None:
        self.close()
        self._headline(f"{facts['arm']}, seed {facts['seed']}")

    def _comparison(self, facts: dict[str, Any]) -> None:
        self.close()
        for part in comparison_parts(facts["result"]):
            self.console.print(part, highlight=False)
        if facts["file"] is not None:
            self._path(f"comparison: {facts['file']}")

    def _transfer(self, facts: dict[str, Any]) -> None:
        self.close()
        for part in transfer_parts(facts["summary"]):
            self.console.print(part, highlight=False)
        self._path(f"transfer: {facts['file']}, {facts['figure']}")

    def _meta(self, facts: dict[str, Any]) -> None:
        self.close()
        for part in meta_parts(facts["result"]):
            self.console.print(part, highlight=False)
        self._path(f"meta: {facts['file']}")

    def _plan(self, facts: dict[str, Any]) -> None:
        self.close()
        for part in plan_parts(facts["plan"]):
            self.console.print(part, highlight=False)
        if facts["file"] is not None:
            self._path(f"plan: {facts['file']}")

    def _plan_of_many(self, facts: dict[str, Any]) -> None:
        self.close()
        for part in plan_of_many_parts(facts["plan"]):
            self.console.print(part, highlight=False)
        if facts["file"] is not None:
            self._path(f"plan: {facts['file']}")

    def _estimate(self, facts: dict[str, Any]) -> None:
        for part in estimate_parts(facts["estimate"]):
            self.console.print(part, highlight=False)

    def _reproduced(self, facts: dict[str, Any]) -> None:
        self.close()
        for part in reproduced_parts(facts["document"], self.console.width):
            self.console.print(part)
        self._path(f"reproduced: {facts['file']}")

    def _zero_shot(self, facts: dict[str, Any]) -> None:
        self.close()
        self.console.print(zero_shot_table(facts["result"]))
        if facts["result"].get("alike"):
            self.console.print(ALIKE, style="dim", highlight=False)

    def _adapted(self, facts: dict[str, Any]) -> None:
        self.close()
        for part in adapted_parts(facts["result"]):
            self.console.print(part, highlight=False)

    def _relations(self, facts: dict[str, Any]) -> None:
        self.close()
        by, result = facts["by"], facts["result"]
        title = f"{title_of(by)} (%)"
        matrix = result[by] if RELATIONS[by].alone else result[by]["matrix"]
        self.console.print(matrix_table(title, result["tasks"], matrix))
        self._path(f"relations: {facts['file']}")

    def _relevance(self, facts: dict[str, Any]) -> None:
        self.close()
        result = facts["result"]
        title = f"relevance by {result['by']} (%), source in the row, target in the column"
        self.console.print(matrix_table(title, result["tasks"], result["matrix"]))
        for line in relevance_lines(result):
            self.console.print(escape(line), highlight=False)
        self._path(f"relevance: {facts['file']}")

    def _attention_maps(self, facts: dict[str, Any]) -> None:
        self.close()
        self.console.print(attention_table(facts["result"]))
        self._path(f"attention maps: {facts['file']}")

    def _advice(self, facts: dict[str, Any]) -> None:
        for reason in facts["reasons"]:
            self.console.print(f"[dim]{escape(reason)}[/dim]", highlight=False)
        self._path(f"advice: {facts['file']}")

    def _distilled(self, facts: dict[str, Any]) -> None:
        self.close()
        large, small = facts["parameters"]
        self.console.print(pruned_table(facts))
        self.console.print(
            f"{large / 1e6:.1f} → {small / 1e6:.1f} M parameters, {facts['speed']:.2f} times as "
            "fast",
            highlight=False,
        )
        self._path(f"student: {facts['folder']}")

    def _map(self, facts: dict[str, Any]) -> None:
        self.close()
        for part in head_maps(facts["scores"], facts["alpha"]):
            self.console.print(part, highlight=False)
        self._path(f"map: {facts['file']}")

    def _dissociation(self, facts: dict[str, Any]) -> None:
        self.close()
        result = facts["result"]
        self.console.print(dissociation_table(result))
        for line in dissociation_lines(result):
            self.console.print(line, highlight=False)
        self._path(f"dissociation: {facts['file']}")

    def _pruned(self, facts: dict[str, Any]) -> None:
        self.close()
        self.console.print(pruned_table(facts))
        before, after = facts["parameters"]
        self.console.print(
            f"{facts['removed']} of {facts['of']} heads removed: {before / 1e6:.2f} M → "
            f"{after / 1e6:.2f} M parameters, {facts['speed']:.2f} × the speed",
            highlight=False,
        )
        self._path(f"model: {facts['folder']}")

    def _cells(self, facts: dict[str, Any]) -> None:
        """A table that is drawn anew while many cells run elsewhere; nothing in a log file."""
        if not self.console.is_terminal:
            return
        if self.live is None:
            self.close()
            self.live = Live(console=self.console, transient=True)
            self.live.start()
        self.live.update(progress_table(facts))

    def _cell(self, facts: dict[str, Any]) -> None:
        self.close()
        place = f"cell {facts['number'] + 1}/{facts['cells']}"
        left = facts.get("expected")
        time_left = f" (about {left / 60:.0f} min left)" if left else ""
        if facts["state"] != "starts":
            words = f"{place}: {escape(facts['cell'].label)} is {facts['state']}{time_left}"
            self.console.print(words, style="dim", highlight=False)
            return
        self._headline(f"{place}: {facts['cell'].label}{time_left}")

    def _cell_failed(self, facts: dict[str, Any]) -> None:
        self.close()
        text = escape(f"{facts['label']}: {facts['reason']}")
        self.console.print(f"[red]failed:[/red] {text}", highlight=False)

    def _grid(self, facts: dict[str, Any]) -> None:
        self.close()
        self.console.print(grid_table(facts["summary"]))
        for line in grid_lines(facts["summary"]):
            self.console.print(line, highlight=False)
        self._path(f"grid: {facts['folder'] / 'grid.json'}")

    def _done(self, facts: dict[str, Any]) -> None:
        self._path(f"{facts['text']}: {facts['folder']}")

    def _report(self, facts: dict[str, Any]) -> None:
        self.close()
        self._path(f"report: {facts['file']}")

    def _scores(self, facts: dict[str, Any]) -> None:
        self.close()
        self.console.print(score_table(facts["tasks"], facts["splits"]))
        for name, entry in facts["splits"].get("validation", {}).items():
            if entry.get("undertrained"):
                self._note({"text": f"{name} is hardly trained: {entry['undertrained']}"})
        folder: Path = facts["folder"]
        self._path(f"model: {folder / 'model'}   scores: {folder / 'metrics.json'}")
