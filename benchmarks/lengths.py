"""Measure the catalogue's texts in word pieces, for estimates of runs that cannot be tried.

    python benchmarks/lengths.py DATA --rows 2000

Reads at most this many training rows (validation if there is no training split) of every dataset
of the catalogue that is in DATA, with the uncased vocabulary of BERT (MiniLM's is the same), and
writes the mean number of tokens, special ones included, cut at 128, 256 and 512, to
`src/brodmann/data/lengths.toml`. Long contexts of span tasks are read in several windows; what
all windows of an example hold is counted.
"""

import argparse
from pathlib import Path

import numpy as np
import tomli_w

from brodmann.data import catalogue
from brodmann.data.encoding import encode_task
from brodmann.data.loading import load_tasks
from brodmann.errors import InputError
from brodmann.models.backbone.load import load_backbone

OUT = Path(__file__).parent.parent / "src" / "brodmann" / "data" / "lengths.toml"
HEAD = (
    "# Mean word pieces per example, with windows cut at this many; see benchmarks/lengths.py.\n\n"
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--rows", type=int, default=2000)
    arguments = parser.parse_args()
    tokenizer = load_backbone("builtin:minilm").tokenizer
    found: dict[str, dict[str, float]] = {}
    for entry in catalogue.entries().values():
        if entry.generated:
            continue
        for language in entry.languages:
            name = entry.named(language)
            try:
                (task,) = load_tasks([name], base=arguments.data)
            except InputError:
                continue  # not at hand
            split = "train" if "train" in task.splits else "validation"
            rows = task.splits[split][: arguments.rows]
            for cut in (128, 256, 512):
                encoded = encode_task(
                    rows, task.spec, tokenizer, max_length=cut, stride=32, cache=False
                )
                tokens = float((encoded.lengths() * np.diff(encoded.item_rows)).sum())
                found.setdefault(name, {})[str(cut)] = round(tokens / len(rows), 1)
            print(name, found[name], flush=True)
    OUT.write_text(HEAD + tomli_w.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
