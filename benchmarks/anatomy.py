"""What discovering a model's heads costs, in forward passes on short texts.

    python benchmarks/anatomy.py [--backbone builtin:minilm] [--out FILE]

Interleaved, medians of 9, in CPU time of this process, so that other work counts less. The
discovery always reads five tokens; a plain forward pass reads the same five, or 16 or 32.
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch

from brodmann.models.backbone.discovery import discover
from brodmann.models.backbone.load import load_backbone

LENGTHS = (5, 16, 32)  # tokens of a plain forward pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backbone", default="builtin:minilm")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    model = load_backbone(chosen.backbone).model.eval()
    found = discover(model)  # also warms up

    ids = found.inputs["input_ids"].repeat(1, 1 + max(LENGTHS))

    def forward(tokens: int) -> None:
        with torch.no_grad():
            model(input_ids=ids[:, :tokens], attention_mask=torch.ones(1, tokens, dtype=torch.long))

    passes: dict[int, list[float]] = {tokens: [] for tokens in LENGTHS}
    discoveries = []
    for _ in range(9):
        for tokens, clocks in passes.items():
            clocks.append(timed(lambda tokens=tokens: forward(tokens)))
        discoveries.append(timed(lambda: discover(model)))
    whole = statistics.median(discoveries)
    forwards = {tokens: statistics.median(clocks) for tokens, clocks in passes.items()}
    layers, heads = found.shape
    result = {
        "backbone": Path(chosen.backbone).name,
        "layers": layers,
        "heads": heads,
        "discovery_ms": round(1000 * whole, 2),
        "forward_ms": {tokens: round(1000 * one, 2) for tokens, one in forwards.items()},
        "passes": {tokens: round(whole / one, 2) for tokens, one in forwards.items()},
    }
    print(json.dumps(result))
    if chosen.out:
        Path(chosen.out).write_text(json.dumps(result, indent=1) + "\n")


def timed(action: Any) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


if __name__ == "__main__":
    main()
