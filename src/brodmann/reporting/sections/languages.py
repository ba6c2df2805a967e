"""Do heads specialise by task or by language? Where a run has tasks in several languages."""

from brodmann.analysis.axes import AXES, specialization_axes
from brodmann.reporting.blocks import Section, Table, Words, percent, plain
from brodmann.reporting.record import Record, Study

CLEAR = 0.05  # p below which the overlaps differ


def section(study: Study) -> Section | None:
    run = next((run for run in study.runs if run.scores is not None and pairs_of(run)), None)
    if run is None or run.scores is None:
        return None
    alpha = 0.3 if run.dissociation is None else run.dissociation.alpha
    found = specialization_axes(pairs_of(run), run.scores, alpha, run.dissociation)
    if found is None:
        return None
    rows = [
        [
            kind,
            str(found["axes"][kind]["comparisons"]),
            percent(found["axes"][kind]["overlap"]),
            plain(found["axes"][kind]["spearman"], 2),
            percent(found["axes"][kind]["dissociation"]),
        ]
        for kind in AXES
        if kind in found["axes"]
    ]
    columns = ["compared", "comparisons", "overlap of top heads (%)", "Spearman", "D (%)"]
    caption = (
        f"Top {alpha:.0%} of the heads; D: how much more a pair loses with its own heads off than "
        "with the other's."
    )
    return Section(
        "languages",
        "By task or by language?",
        [Words(_answer(found, _unlearnt(run))), Table(columns, rows, caption)],
    )


def pairs_of(run: Record) -> list[tuple[str, str]]:
    """(task, language) of every scored task, if all have a language."""
    data = run.provenance.get("data", {})
    known = [data.get(task, {}) for task in (run.scores.tasks if run.scores else ())]
    if not all(entry.get("language") and entry.get("head") for entry in known):
        return []
    return [(entry["head"], entry["language"]) for entry in known]


def _unlearnt(run: Record) -> str:
    """Why heads of this run say little: how many of its pairs are hardly above trivial answers."""
    result = run.dissociation
    if result is None or not result.undertrained:
        return ""
    return f"{len(result.undertrained)} of {len(result.tasks)} pairs have hardly been learnt"


def _answer(found: dict[str, object], unlearnt: str) -> str:
    axes = found["axes"]
    assert isinstance(axes, dict)
    by_task, by_language = (axes[kind]["overlap"] for kind in AXES[:2])
    numbers = (
        f"The same task in two languages has {100 * by_task:.0f} % of its top heads in common, two "
        f"tasks in one language {100 * by_language:.0f} % (permutation p = {found['p']:.2g})."
    )
    p, smallest = found["p"], found["smallest_p"]
    assert isinstance(p, float) and isinstance(smallest, float)
    if smallest >= CLEAR:
        best = f"p is {smallest:.2g} at best"
        return f"{numbers} With so few pairs no difference could be clear ({best})."
    if p >= CLEAR:
        return f"{numbers} That is no clear difference: neither axis stands out."
    if unlearnt:
        return f"{numbers} But {unlearnt}, so this says little of heads that serve them."
    return f"{numbers} Heads specialise by {'task' if by_task > by_language else 'language'}."
