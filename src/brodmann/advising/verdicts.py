"""Report what the chosen arrangement is worth, on examples that no choice has touched.

Only the chosen arrangement and the tasks' own models are read here. Another session that chooses
another arrangement looks at the same examples again: `looks.json` counts the arrangements, and the
level of every interval is corrected for them and for the number of gains.
"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from brodmann.advising.arrangements import CellKey, Group
from brodmann.advising.cell_runs import Bench
from brodmann.advising.choosing import Choice, Signal
from brodmann.advising.data_parts import REPORTING
from brodmann.advising.trying import score_of
from brodmann.analysis.nested_gains import SeedSpread, paired_gain, seed_differences, seed_spread
from brodmann.analysis.statistics import SIGNIFICANT
from brodmann.files import read_json, write_json

LOOKS = "looks.json"
CONFIRMED = 0.9  # level of the interval over the trivial answer that confirms a signal


def judge(bench: Bench, choice: Choice, folder: Path) -> tuple[Choice, dict[str, Any]]:
    """Gains on the reporting part; a task that clearly loses there goes back to its own model."""
    tasks = [task for group in choice.shared for task in group]
    if not tasks or choice.arrangement is None:
        return choice, {"gains": {}, "level": None, "looks": 0}
    looks = _count_looks(folder, choice.arrangement.label)
    level = 1 - SIGNIFICANT / (len(tasks) * looks)
    outcomes = {
        task: (
            [bench.reporting(choice.cell_of(task, seed), task) for seed in range(choice.seeds)],
            [bench.reporting(CellKey((task,), seed=seed), task) for seed in range(choice.seeds)],
        )
        for task in tasks
    }
    spread = seed_spread(
        [seed_differences(one, other, bench.spec(t)) for t, (one, other) in outcomes.items()]
    )
    found = {}
    for place, (task, (one, other)) in enumerate(outcomes.items()):
        gain = paired_gain(one, other, bench.spec(task), spread=spread, level=level, seed=place)
        found[task] = {**asdict(gain), "verdict": gain.verdict}
    lost = {
        task: f"shared, it loses {-100 * gain['mean']:.1f} points on the reporting part"
        for task, gain in found.items()
        if gain["verdict"] == "loses"
    }
    lost |= {
        task: "its signal is not confirmed on the reporting part"
        for task, (one, _) in outcomes.items()
        if not _confirmed(bench, task, one)
    }
    document = {
        "gains": found,
        "level": level,
        "looks": looks,
        "seed_spread": asdict(spread),
    }
    return (_without(choice, lost) if lost else choice), document


def _confirmed(bench: Bench, task: str, values: list[Any]) -> bool:
    """Whether the shared model is above the trivial answer on the reporting part, too."""
    trivial = [bench.trivial(task, REPORTING)] * len(values)
    unknown = SeedSpread(0.0, 0)
    gain = paired_gain(values, trivial, bench.spec(task), spread=unknown, level=CONFIRMED)
    return gain.low > 0


def _count_looks(folder: Path, label: str) -> int:
    """The number of arrangements whose reporting part was read, this one included."""
    path = folder / LOOKS
    seen = list(read_json(path, seen=list)["seen"]) if path.is_file() else []
    if label not in seen:
        seen.append(label)
        write_json(path, {"seen": seen})
    return len(seen)


def _without(choice: Choice, lost: dict[str, str]) -> Choice:
    shared: list[Group] = []
    apart = {**choice.apart, **lost}
    for group in choice.shared:
        kept = tuple(task for task in group if task not in lost)
        if len(kept) > 1:
            shared.append(kept)
        else:
            apart |= dict.fromkeys(kept, "no other task is left to share with")
    arrangement = choice.arrangement if shared else None
    return replace(choice, shared=tuple(shared), apart=apart, arrangement=arrangement)


def own_scores(bench: Bench, names: list[str], choice: Choice, signal: dict[str, Signal]) -> Any:
    """Every task's scores on the reporting part: trivial, its own model, the chosen one."""
    found = {}
    for name in names:
        own = [bench.reporting(CellKey((name,), seed=0), name)]
        chosen = [bench.reporting(choice.cell_of(name, 0), name)]
        found[name] = {
            "metric": bench.spec(name).metric,
            "trivial": score_of(bench.trivial(name, REPORTING), bench, name),
            "alone": score_of(own[0], bench, name),
            "chosen": score_of(chosen[0], bench, name),
            "signal": signal[name].present,
        }
    return found
