"""Ways of training compared: scores, differences beyond chance, separation of each."""

from typing import Any

from brodmann.reporting.blocks import Bars, Block, Fold, Matrix, Section, Table, Words
from brodmann.reporting.record import Study
from brodmann.text import mean_spread, p_value


def section(study: Study) -> Section | None:
    if study.comparison is None:
        return None
    blocks = compared(study.comparison)
    if separated := per_task_separation(study):
        blocks.append(separated)
    return Section("comparison", "Ways of training compared", blocks)


def compared(result: dict[str, Any]) -> list[Block]:
    """Scores and D of every arm, then its paired differences to the baseline."""
    arms, baseline = result["arms"], result["baseline"]
    tests = dict.fromkeys(
        facts["against"].get("test", "paired bootstrap over validation examples")
        for facts in arms.values()
        if facts["against"] is not None
    )
    text = (
        f"Everything is compared with {baseline}. A star: the difference is beyond chance at 5 % "
        f"({'; '.join(tests)}). Seeds: "
        + ", ".join(f"{arm} {len(facts['seeds'])}" for arm, facts in arms.items())
        + "."
    )
    against = [arm for arm, facts in arms.items() if facts["against"] is not None]
    return [Words(text), scores(result), *(differences(result, arm) for arm in against)]


def scores(result: dict[str, Any]) -> Table:
    arms = result["arms"]

    def tested(arm: str, *keys: str) -> str:
        found = arms[arm]["against"]
        for key in keys:
            found = None if found is None else found[key]
        return "*" if found and found["significant"] else ""

    rows = [
        [
            f"{task} ({metric})",
            *(mean_spread(arms[a]["per_task"][task]) + tested(a, "per_task", task) for a in arms),
        ]
        for task, metric in zip(result["tasks"], result["metrics"], strict=True)
    ]
    average = len(rows)
    rows.append(
        ["average", *(mean_spread(arms[a]["average"]) + tested(a, "average") for a in arms)]
    )
    rows.append(["spread over tasks", *(mean_spread(f["task_sigma"]) for f in arms.values())])
    rows.append(["D", *(dissociation(facts) for facts in arms.values())])
    for words, key in (("better than", "improved"), ("at least as good as", "at_least_as_good")):
        counts = [
            "" if facts["against"] is None else str(facts["against"].get(key, "–"))
            for facts in arms.values()
        ]
        rows.append([f"tasks {words} {result['baseline']}", *counts])
    caption = (
        "Scores (%), mean ± standard deviation over seeds. Spread over tasks: the standard "
        "deviation of an arm's scores over its tasks; D: dissociation."
    )
    if left_out := result.get("left_out"):
        caption += f" Not in every run, and left out: {', '.join(left_out)}."
    for facts in arms.values():
        for run, reason in (facts.get("undefined") or {}).items():
            caption += f" D of {run} is undefined ({reason})."
    return Table(["task", *arms], rows, caption, strong=[average], alike=True)


def dissociation(facts: dict[str, Any]) -> str:
    """D over seeds and, if it is undefined in some runs, over how many."""
    if facts["dissociation"] is None and facts.get("undefined"):
        return "undefined"
    defined, measured = facts.get("dissociation_over", (0, 0))
    over = f" ({defined} of {measured} runs)" if defined < measured else ""
    return mean_spread(facts["dissociation"]) + over


def differences(result: dict[str, Any], arm: str) -> Bars:
    """Paired differences of the scores, and of D if both arms have one."""
    against = result["arms"][arm]["against"]
    named = {**against["per_task"], "average": against["average"]}
    if against.get("dissociation") is not None:
        named["D"] = against["dissociation"]
    entries = list(named.values())
    how = against.get("test")
    over = "" if how is None else f" ({'paired by seed' if 'seeds' in how else 'over examples'})"
    return Bars(
        list(named),
        [100 * entry["difference"] for entry in entries],
        [
            None if entry["interval"] is None else [100 * end for end in entry["interval"]]
            for entry in entries
        ],
        f"points against {result['baseline']}",
        f"{arm} against {result['baseline']}: difference of scores with its 95 % interval{over}; "
        "D is paired by seed.",
        ["" if entry["p"] is None else p_value(entry["p"]) for entry in entries],
    )


def per_task_separation(study: Study) -> Fold | None:
    """D of every task in every run given, before and after."""
    found = {run.name: run.dissociation for run in study.runs if run.dissociation is not None}
    if len(found) < 2:
        return None
    first = next(iter(found.values()))
    rows = [
        [result.per_task[result.tasks.index(task)] if task in result.tasks else None
         for task in first.tasks] + [result.mean]
        for result in found.values()
    ]  # fmt: skip
    most = max((abs(d) for row in rows for d in row if d is not None), default=0) or 1.0
    shades = [[None if d is None else max(d, 0.0) / most for d in row] for row in rows]
    return Fold(
        "D of every task in the runs shown on this page",
        [
            Matrix(
                list(found),
                [*first.tasks, "mean"],
                rows,
                "Dissociation D (%) of each task (columns) in each run (rows).",
                shades,
                numbered=False,
            )
        ],
    )
