"""Do heads serve a task or a language? Write the report's numbers of finished runs to one file.

    brodmann run examples/languages.toml
    python benchmarks/languages.py runs/languages [--out benchmarks/results/languages.json]

Nothing is measured here: overlap, Spearman and D by kind of comparison, the permutation test, and
the score of every pair beside that of an answer without reading.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from brodmann.analysis.axes import specialization_axes
from brodmann.reporting.record import read_record
from brodmann.reporting.sections.languages import compared


def numbers(folder: Path) -> dict[str, Any]:
    run = read_record(folder)
    pairs, result = compared(run), run.dissociation
    if pairs is None or pairs.reason or result is None:
        raise SystemExit(f"{folder}: no tasks in several languages, mapped and dissociated")
    found = specialization_axes(pairs.pairs, pairs.scores, result.alpha, result)
    data = run.provenance["data"]
    return {
        "axes": found,
        "validation": {
            task: {"metric": metric, "score": round(base, 4), "trivial": round(trivial, 4)}
            for task, metric, base, trivial in zip(
                result.tasks, result.metrics, result.base, result.trivial, strict=True
            )
        },
        "undertrained": list(result.undertrained),
        "output_heads": {task: data[task]["head"] for task in result.tasks},
        "sizes": {task: data[task]["sizes"] for task in result.tasks},
        "training": run.settings["training"],
        "seed": run.settings["seed"],
        "versions": run.provenance["sittings"][-1]["versions"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    result = {folder.name: numbers(folder) for folder in given.runs}
    text = json.dumps(result, indent=2) + "\n"
    print(text)
    if given.out is not None:
        given.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
