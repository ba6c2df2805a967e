"""Small pictures and tables for notebooks: plain HTML without a script, everything escaped."""

from collections.abc import Collection, Sequence
from html import escape

import numpy as np

from brodmann.files import Array

CELL = 14  # pixels per head
COLOUR = "#2563eb"


def heat_maps(
    names: Sequence[str], values: Array, removed: Collection[tuple[int, int]] = ()
) -> str:
    """One map per task, (layer, head) from the input at the bottom; darker is more important."""
    layers, heads = values.shape[1:]
    parts = []
    for name, scores in zip(names, values, strict=True):
        high = float(np.max(np.maximum(scores, 0), initial=0.0)) or 1.0
        squares = []
        for layer in range(layers):
            for head in range(heads):
                gone = (layer, head) in removed
                shade = 0.0 if gone else max(float(scores[layer, head]), 0.0) / high
                label = "removed" if gone else f"{scores[layer, head]:.3g}"
                squares.append(
                    f'<rect x="{head * CELL}" y="{(layers - 1 - layer) * CELL}" '
                    f'width="{CELL - 1}" height="{CELL - 1}" fill="{COLOUR}" '
                    f'fill-opacity="{0.04 + 0.96 * shade:.2f}"><title>layer {layer}, head {head}: '
                    f"{label}</title></rect>"
                )
        parts.append(
            '<figure style="display:inline-block;margin:0 1em 1em 0">'
            f'<svg width="{heads * CELL}" height="{layers * CELL}" role="img" '
            f'aria-label="{escape(name)}">{"".join(squares)}</svg>'
            f"<figcaption>{escape(name)}</figcaption></figure>"
        )
    return f"<div>{''.join(parts)}</div>"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = ""
    for name, *cells in rows:
        numbers = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        body += f"<tr><th>{escape(name)}</th>{numbers}</tr>"
    below = f"<p>{escape(caption)}</p>" if caption else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"
