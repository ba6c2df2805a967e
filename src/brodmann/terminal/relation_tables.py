"""How tasks relate, in the terminal."""

from typing import Any

import numpy as np
from rich.markup import escape

from brodmann.analysis.relevance import most_unequal
from brodmann.terminal.numbers import percent
from brodmann.terminal.width import Table


def relevance_lines(result: dict[str, Any]) -> list[str]:
    """Clusters, who is in none and why, the most unequal pair, and how pairs were trained."""
    lines = [f"cluster {n}: {', '.join(group)}" for n, group in enumerate(result["clusters"], 1)]
    lines += [f"in no cluster: {n}: {why}" for n, why in result.get("left_out", {}).items()]
    names, matrix = result["tasks"], np.array(result["matrix"], dtype=float)
    for source, target in most_unequal(matrix, names, 1):
        i, j = names.index(source), names.index(target)
        there, back = percent(matrix[i, j]), percent(matrix[j, i])
        lines.append(f"most unequal: {source} → {target} {there} %, back {back} %")
    if "pieces" in result:
        lines.append(f"words: the pieces that the tokenizer of {result['pieces']} cuts")
    if "trained" in result:
        limit = result["trained"]["limit"]
        if limit:
            lines.append(f"trained on at most {limit:,} examples a task (--limit)")
    return lines


def attention_table(result: Any) -> Table:
    """A row a layer, the last on top; a column a task: the mean cosine over heads."""
    title = f"attention maps of {' and '.join(result.runs)}: mean cosine (%)"
    table = Table(title=escape(title), title_justify="left", header_style="bold", box=None)
    table.add_column("layer", justify="right")
    for task in result.tasks:
        table.add_column(escape(task), justify="right")
    means = result.values.mean(axis=2)
    for layer in reversed(range(means.shape[1])):
        table.add_row(str(layer), *(percent(value) for value in means[:, layer]))
    return table


def matrix_table(title: str, tasks: list[str], matrix: list[list[float | None]]) -> Table:
    """Tasks against tasks, in percent; columns by number."""
    table = Table(title=title, title_justify="left", header_style="bold", box=None)
    table.add_column("task", no_wrap=True)
    for number in range(1, len(tasks) + 1):
        table.add_column(str(number), justify="right", no_wrap=True)
    for number, (task, row) in enumerate(zip(tasks, matrix, strict=True), start=1):
        table.add_row(f"{number} {escape(task)}", *map(percent, row))
    return table
