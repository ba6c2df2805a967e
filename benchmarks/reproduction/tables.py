"""Print the stored cells of the studies as tables beside the paper's figures.

    python benchmarks/reproduction/tables.py
    python benchmarks/reproduction/tables.py --collect runs ca-mtl samplers

Reads `benchmarks/reproduction/results/<study>/*.json`, which `brodmann grid` wrote. `--collect`
copies the cells of finished grids there, with their logs' facts about sampling and learning.
"""

import argparse
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from brodmann.analysis.dissociation import findings
from brodmann.analysis.link import linked, pairs_of
from brodmann.analysis.seed_groups import differences
from brodmann.papers.recipes import find
from brodmann.results import mean_dissociation

RESULTS = Path(__file__).parent / "results"
PLAIN = ('{"model.freeze": 0.5}', "{}", '{"training.sampling": "proportional"}')  # settings
# Figure 2 of the paper named in docs/reproduction.md: BERT-base, mean D of each pair in percent,
# and BERT*, its encoder frozen.
PAPER = {
    "mnli+qqp": (2.69, -0.30),
    "mnli+qnli": (2.48, 0.54),
    "mnli+ag_news": (13.81, 5.06),
    "mnli+sst2": (7.01, 2.24),
    "qqp+qnli": (3.37, 0.08),
    "qqp+ag_news": (19.68, 2.38),
    "qqp+sst2": (7.26, 2.94),
    "qnli+ag_news": (10.09, 3.82),
    "qnli+sst2": (18.08, 4.91),
    "ag_news+sst2": (3.52, 3.19),
}


def cells(study: str) -> dict[str, dict[str, Any]]:
    found = {}
    for path in sorted((RESULTS / study).glob("*.json")):
        cell = json.loads(path.read_text(encoding="utf-8"))
        if cell.get("state") == "done":
            measured = cell["dissociation"]
            found[cell["label"]] = {**measured, "mean": mean_dissociation(measured)}
    return found


def percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def bounds(ends: Any) -> str:
    return "–" if ends is None else f"[{100 * ends[0]:.1f}, {100 * ends[1]:.1f}]"


def marked(found: dict[str, Any], place: int) -> str:
    """The base score, with a star if the task was hardly learnt."""
    star = "*" if found["tasks"][place] in found["undertrained"] else ""
    return percent(found["base"][place]) + star


def pairs() -> None:
    trained, frozen = cells("pairs"), cells("pairs-frozen")
    header = "pair A + B | base A, B | D_A | D_B | D | 95 % | the paper's verdict | by intervals"
    print(f"| {header} | frozen: base A, B | D | paper: D | paper, frozen: D |")
    print("|---" * 12 + "|")
    for label, (paper, paper_frozen) in PAPER.items():
        if label not in trained:
            continue
        found, control = trained[label], frozen.get(label)
        row = [label.replace("+", " + "), f"{marked(found, 0)}, {marked(found, 1)}"]
        row += [percent(d) for d in (*found["per_task"], found["mean"])]
        row += [bounds(found["intervals"]["mean"]), found["verdicts"][0][1]]
        row += [findings(found["pairwise"], found["intervals"])[0][1]]
        if control is None:
            row += ["–", "–"]
        else:
            row += [f"{marked(control, 0)}, {marked(control, 1)}", percent(control["mean"])]
        print("| " + " | ".join([*row, f"{paper}", f"{paper_frozen}"]) + " |")
    for name, study in (("trained", trained), ("frozen", frozen)):
        means = [found["mean"] for found in study.values() if found["mean"] is not None]
        double = [f for f in study.values() if f["verdicts"][0][1].startswith("double")]
        distinct = [f for f in double if f["verdicts"][0][1] == "double-distinct"]
        if means:
            print(
                f"{name}: mean D {percent(float(np.mean(means)))} over {len(means)} pairs,", end=" "
            )
            print(f"{len(double)} double dissociations, {len(distinct)} of them distinct")


def seeds() -> None:
    study = cells("sst2-qnli")
    for label, found in study.items():
        ends = found["intervals"]
        each = [
            f"{task} {percent(d)} {bounds(ends['per_task'][i])} (p = {found['p_values'][i]:.3f})"
            for i, (task, d) in enumerate(zip(found["tasks"], found["per_task"], strict=True))
        ]
        whole = f"D = {percent(found['mean'])} {bounds(ends['mean'])}"
        print(f"{label}: {'; '.join([*each, whole])}")
        print("  curve:", {p["alpha"]: percent(p["mean"]) for p in found["curve"]})
    if len(study) > 1:
        values = np.array([[*f["per_task"], f["mean"]] for f in study.values()], float)
        tasks = next(iter(study.values()))["tasks"]
        for name, column in zip([*tasks, "D"], values.T, strict=True):
            print(f"  {name}: {100 * column.mean():.1f} ± {100 * column.std(ddof=1):.1f}")


def five() -> None:
    for found in cells("five-tasks").values():
        names = found["tasks"]
        print(
            "| evaluated ↓ heads off → |",
            " | ".join([*names, "base", "random", "D", "95 %", "p"]),
            "|",
        )
        print("|---" * (len(names) + 6) + "|")
        for i, name in enumerate(names):
            row = [percent(value) for value in found["performance"][i]]
            row += [marked(found, i), percent(found["random"][i]), percent(found["per_task"][i])]
            row += [bounds(found["intervals"]["per_task"][i]), f"{found['p_values'][i]:.3f}"]
            print(f"| {name} |", " | ".join(row), "|")
        print("D =", percent(found["mean"]), bounds(found["intervals"]["mean"]))
        for title, matrix in (("pairwise D", found["pairwise"]), ("overlap", found["overlap"])):
            print(f"| {title}: task ↓ against → |", " | ".join(names), "|")
            print("|---" * (len(names) + 1) + "|")
            for i, name in enumerate(names):
                cells_ = ["–" if i == j else percent(v) for j, v in enumerate(matrix[i])]
                print(f"| {name} |", " | ".join(cells_), "|")
        print("heads per layer:", dict(zip(names, found["heads_per_layer"], strict=True)))
        print("curve:", {p["alpha"]: [percent(d) for d in p["per_task"]] for p in found["curve"]})


def spread(value: Any) -> str:
    if value is None:
        return "–"
    mean, deviation = value
    return f"{100 * mean:.1f}" + ("" if deviation is None else f" ± {100 * deviation:.1f}")


def arms() -> None:
    path = RESULTS / "iat" / "comparison.json"
    if not path.is_file():
        return
    result = json.loads(path.read_text(encoding="utf-8"))
    names = list(result["arms"])
    print("| task |", " | ".join(names), "|")
    print("|---" * (len(names) + 1) + "|")
    for task, metric in zip(result["tasks"], result["metrics"], strict=True):
        cells_ = []
        for facts in result["arms"].values():
            tested = (facts["against"] or {}).get("per_task", {}).get(task, {})
            star = f" (p = {tested['p']:.3f})" if tested else ""
            cells_.append(spread(facts["per_task"][task]) + star)
        print(f"| {task} ({metric}) |", " | ".join(cells_), "|")
    whole = []
    for facts in result["arms"].values():
        tested = (facts["against"] or {}).get("average")
        whole.append(spread(facts["average"]) + (f" (p = {tested['p']:.3f})" if tested else ""))
    print("| average |", " | ".join(whole), "|")
    for title, key in (("task σ", "task_sigma"), ("D", "dissociation")):
        print(f"| {title} |", " | ".join(spread(f[key]) for f in result["arms"].values()), "|")
    better = [str((f["against"] or {}).get("improved", "")) for f in result["arms"].values()]
    print("| tasks better |", " | ".join(better), "|")


def few_shot() -> None:
    path = RESULTS / "transfer" / "transfer.json"
    if not path.is_file():
        return
    summary = json.loads(path.read_text(encoding="utf-8"))
    for task, table in summary["tasks"].items():
        starts = list(next(iter(table.values())))
        print(f"| {task}: examples |", " | ".join(starts), "| p |")
        print("|---" * (len(starts) + 2) + "|")
        for amount, entry in table.items():
            cells_ = [spread(entry[start]["mean"]) for start in starts]
            seeds_ = len(entry[starts[0]]["scores"])
            p = f"{entry[starts[-1]].get('p', 1.0):.3f}"
            print(f"| {amount} ({seeds_} seeds) |", " | ".join([*cells_, p]), "|")


def links() -> None:
    """Similarity of the five tasks' encoders against their pairwise D, joint and in pairs."""
    path = RESULTS / "five-single" / "similarity.json"
    if not path.is_file():
        return
    found = json.loads(path.read_text(encoding="utf-8"))
    joint = next(iter(cells("five-tasks").values()))
    dual = {frozenset(cell["tasks"]): cell["mean"] for cell in cells("pairs").values()}
    names = found["tasks"]
    places = [joint["tasks"].index(name) for name in names]
    pairs_ = [(i, j) for i in range(len(names)) for j in range(i + 1, len(names))]
    together = [
        (joint["pairwise"][places[i]][places[j]] + joint["pairwise"][places[j]][places[i]]) / 2
        for i, j in pairs_
    ]
    apart = [dual[frozenset((names[i], names[j]))] for i, j in pairs_]
    print("| similarity | against | Pearson r | p | Spearman ρ | p | pairs |")
    print("|---" * 7 + "|")
    for measure in (name for name in ("dse", "cra", "ahp") if name in found):
        similarity = pairs_of(np.array(found[measure]["matrix"], float))
        for title, values in (("D in the joint run", together), ("dual-task D", apart)):
            line = linked(list(similarity), values)
            cells_ = [f"{line[k]:.2f}" for k in ("pearson", "pearson_p", "spearman", "spearman_p")]
            print(f"| {measure} | {title} |", " | ".join([*cells_, str(line["pairs"])]), "|")


def collect(runs: Path, study: str) -> None:
    whole = ("relevance-*.json", "similarity.json", "comparison.json", "transfer.json", "meta.json")
    for path in [path for pattern in whole for path in (runs / study).glob(pattern)]:
        (RESULTS / study).mkdir(parents=True, exist_ok=True)
        (RESULTS / study / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    for path in sorted((runs / study).glob("*.json")):
        cell = json.loads(path.read_text(encoding="utf-8"))
        if "fingerprint" not in cell or cell.get("state") != "done":
            continue
        log = runs / "cells" / cell["fingerprint"] / "log.jsonl"
        entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        cell["used"] = next((e["used"] for e in reversed(entries) if "used" in e), None)
        about = json.loads(log.with_name("provenance.json").read_text(encoding="utf-8"))["data"]
        cell["sizes"] = {task: facts["sizes"]["train"] for task, facts in about.items()}
        cell["curve"] = [[e["step"], e["mean"]] for e in entries if "evaluation" in e]
        cell["taken"] = [[e["step"], e["examples"]] for e in entries if "examples" in e]
        target = RESULTS / study / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(cell, indent=1) + "\n", encoding="utf-8")


def grid_cells(study: str) -> dict[str, list[dict[str, Any]]]:
    """Setting → its cells over seeds."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted((RESULTS / study).glob("*.json")):
        cell = json.loads(path.read_text(encoding="utf-8"))
        varied = {k: v for k, v in cell["varied"].items() if k not in ("seed", "tasks")}
        found.setdefault(json.dumps(varied, sort_keys=True), []).append(cell)
    return found


def scores_of(cell: dict[str, Any]) -> dict[str, float]:
    return {task: e["score"] for task, e in cell["splits"]["validation"].items()}


def ablation(study: str) -> None:
    """Average, spread over tasks and data used of every setting, mean ± sd over seeds."""
    settings = grid_cells(study)
    if not settings:
        return
    tasks = list(scores_of(next(iter(settings.values()))[0]))
    print("| setting | seeds |", " | ".join([*tasks, "average", "task σ", "data used"]), "|")
    print("|---" * (len(tasks) + 5) + "|")
    for setting, members in settings.items():
        table = np.array([[scores_of(cell)[task] for task in tasks] for cell in members])
        columns = [*table.T, table.mean(axis=1), table.std(axis=1, ddof=1)]
        cells_ = [
            spread((c.mean(), c.std(ddof=1) if len(c) > 1 else None))
            for c in map(np.array, columns)
        ]
        used = [share for cell in members if (share := used_share(cell, study)) is not None]
        share = f"{100 * float(np.mean(used)):.1f} %" if len(used) == len(members) else "–"
        print(f"| {setting} | {len(members)} |", " | ".join([*cells_, share]), "|")


def paired(study: str) -> None:
    """Every setting's average against plain sharing (or sampling), paired by seed."""
    groups = grid_cells(study)
    first = next((name for name in PLAIN if name in groups), next(iter(groups)))
    ordered = {first: groups[first]} | groups
    for entry in differences(ordered):
        average = entry["average"]
        shown = f"{100 * average['difference']:+.2f} {bounds(average['interval'])}"
        print(f"{entry['setting']} against {first}: {shown}, p = {average['p']:.2f}")


def used_share(cell: dict[str, Any], study: str) -> float | None:
    """Share of distinct examples trained on, if the sampler counts them."""
    if cell.get("used") is None:
        return None
    sizes = cell.get("sizes") or recipe_sizes(study)
    return sum(share * sizes[task] for task, share in cell["used"].items()) / sum(sizes.values())


def recipe_sizes(study: str) -> dict[str, int]:
    """Training examples of each task, as the recipe limits them."""
    recipe = find(study.replace("-", "_"))[0]
    tasks = tomllib.loads(recipe.path.read_text(encoding="utf-8"))["tasks"]
    return {task.get("name", task["use"].rpartition("/")[2]): limit(task) for task in tasks}


def limit(task: dict[str, Any]) -> int:
    given = task["limit"]
    return int(given["train"] if isinstance(given, dict) else given)


def learning(study: str) -> None:
    """Average score over the steps (Figure 4), and what was taken (Figure 8)."""
    for setting, members in grid_cells(study).items():
        steps = [step for step, _ in members[0]["curve"]]
        means = [
            spread((np.mean(v), np.std(v, ddof=1) if len(v) > 1 else None))
            for v in ([dict(map(tuple, c["curve"]))[step] for c in members] for step in steps)
        ]
        print(f"{setting}:", dict(zip(steps, means, strict=True)))
        first = min(members, key=lambda cell: cell["varied"]["seed"])
        total: dict[str, int] = {}
        for _, counts in first["taken"]:
            for task, number in counts.items():
                total[task] = total.get(task, 0) + number
        half = len(first["taken"]) // 2
        early: dict[str, int] = {}
        for _, counts in first["taken"][:half]:
            for task, number in counts.items():
                early[task] = early.get(task, 0) + number
        print(f"   examples, seed {first['varied']['seed']}: first half", early, "all", total)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collect", nargs="+", metavar=("RUNS", "STUDY"))
    given = parser.parse_args().collect
    if given:
        for study in given[1:]:
            collect(Path(given[0]), study)
        return
    for show in (pairs, seeds, five, arms, few_shot):
        show()
        print()
    for study in ("ca-mtl", "ca-mtl-builtin", "samplers", "hmnet-sharing"):
        ablation(study)
        paired(study)
        print()
    learning("samplers")
    links()


if __name__ == "__main__":
    main()
