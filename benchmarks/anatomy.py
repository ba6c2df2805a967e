"""What discovering a model's heads costs, in forward passes on the same short text.

    python benchmarks/anatomy.py [--backbone builtin:minilm] [--out FILE]

Interleaved, medians of 9. A plain forward pass and the discovery read the same five tokens.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backbone", default="builtin:minilm")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    model = load_backbone(chosen.backbone).model.eval()
    found = discover(model)  # also warms up

    def forward() -> None:
        with torch.no_grad():
            model(**found.inputs)

    passes, discoveries = [], []
    for _ in range(9):
        passes.append(timed(forward))
        discoveries.append(timed(lambda: discover(model)))
    one, whole = statistics.median(passes), statistics.median(discoveries)
    layers, heads = found.shape
    result = {
        "backbone": Path(chosen.backbone).name,
        "layers": layers,
        "heads": heads,
        "forward_ms": round(1000 * one, 2),
        "discovery_ms": round(1000 * whole, 2),
        "passes": round(whole / one, 2),
    }
    print(json.dumps(result))
    if chosen.out:
        Path(chosen.out).write_text(json.dumps(result, indent=1) + "\n")


def timed(action: Any) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
