"""What `advise` believes, plans and recommends: tables, ten lines for a terminal, one page."""

from collections.abc import Mapping, Sequence
from typing import Any

from brodmann.reporting.blocks import (
    Block,
    Table,
    Words,
)
from brodmann.results.of_mistakes import MISTAKES
from brodmann.text import NOTHING, capital, counted, duration, interval, percent, points, size

Facts = Mapping[str, Any]
COMMON = 0.02  # share of common texts of two tasks, from which it is worth a note


def beliefs(facts: Facts) -> list[Block]:
    """One row per task, then why, what else it may be, and what looks wrong."""
    tasks = facts["tasks"]
    rows = [
        (
            name,
            one["kind"],
            one["confidence"],
            ", ".join(f"{role}: {_column(column)}" for role, column in one["columns"].items()),
            "/".join(f"{count:,}" for count in one["examples"].values()),
            one["language"],
            str(one["words"]),
        )
        for name, one in tasks.items()
    ]
    columns = ("task", "kind", "how sure", "columns", "examples", "language", "words")
    caption = "Examples: to train on / to choose by / to report on."
    blocks: list[Block] = [Table(columns, rows, caption)]
    for name, one in tasks.items():
        if one["confidence"] not in ("sure", "given"):
            text = f"{name} ({one['confidence']}): {'; '.join(one['reasons'])}"
            text += f"; or: {'; or: '.join(one['others'])}" if one["others"] else ""
            blocks.append(Words(text, "caution" if one["confidence"] == "unsure" else "plain"))
        blocks += [Words(f"{name}: {note}", "caution") for note in one["notes"]]
    return blocks + [Words(text, "caution") for text in _shared_texts(facts)]


def _column(column: str | Sequence[str]) -> str:
    return column if isinstance(column, str) else " + ".join(column)


def _shared_texts(facts: Facts) -> list[str]:
    found = []
    for pair in facts["pairs"]:
        one, other = pair["tasks"]
        share = f"{100 * pair['share']:.0f} % of the smaller task's texts"
        if pair["duplicate"]:
            found.append(
                f"{other} is a copy of {one}: {share} are in both, with the same labels up to "
                "their names; it is left out"
            )
        elif pair["share"] >= COMMON:
            agree = pair["agreement"]
            labels = "" if agree is None else f"; labels agree in {100 * agree:.0f} % of them"
            found.append(f"{one} and {other} share {share}{labels}; a text is in one part for both")
    return found


def plan(facts: Facts) -> list[Block]:
    """What fits the budget, before anything is trained."""
    found = facts["plan"]
    rows = [(what, duration(seconds)) for what, seconds in found["costs"].items()]
    text = (
        f"Budget {duration(found['budget'])}: {counted(found['epochs'], 'epoch')} per training"
        f"{_most(found['most'])}, up to {counted(found['seeds'], 'seed')} per arrangement. "
        f"Arrangements are tried until {duration(found['for_search'])} are spent by this estimate; "
        "the rest is for learning curves and the page."
    )
    return [Table(("one seed of", "takes about"), rows), Words(text)]


def _most(most: int | None) -> str:
    return "" if most is None else f" on at most {most:,} training examples per task"


def advice(facts: Facts) -> list[Block]:
    """Ten lines: the recommendation, what each task gains, and costs."""
    blocks: list[Block] = [Words(recommendation(facts), "lead"), _gains(facts)]
    blocks += [Words(text) for text in [*_undecided(facts), *_plain_words(facts)]]
    folders = [model["folder"] for model in facts["models"]]
    if folders:
        blocks.append(Words(f"Serve it: brodmann serve {folders[0]}"))
    return blocks


def recommendation(facts: Facts) -> str:
    """The answer in one sentence or two."""
    shared = facts["choice"]["shared"]
    own = [name for name in facts["scores"] if name not in {t for g in shared for t in g}]
    own = [name for name in own if name not in facts["without_signal"]]
    method = facts["choice"]["method"]
    how = "" if method == "plain" else f" with {method}"
    rate = facts["choice"]["rate"]
    how += "" if rate == 1.0 else f" at {rate:g} times the usual rate"
    parts = []
    for group in shared:
        helpers = facts["choice"]["helpers"][" + ".join(group)]
        beside = f", with {and_list(helpers)} as {_helpers(helpers)}" if helpers else ""
        parts.append(f"train {and_list(group)} together{how}{beside}")
    if own:
        parts.append(_alone(own, bool(shared)))
    found = [capital("; ".join(parts)) + "."] if parts else []
    if facts["without_signal"]:
        names = facts["without_signal"]
        verb = "shows" if len(names) == 1 else "show"
        found.append(f"{and_list(names)} {verb} no signal above the trivial answer: do not share.")
    for copy, original in facts["copies"].items():
        found.append(f"{copy} is a copy of {original}: one is enough.")
    return " ".join(found)


def _alone(names: Sequence[str], beside: bool) -> str:
    each = "" if beside or len(names) == 1 else "each "
    return f"{'' if beside else 'train '}{and_list(names)} {each}alone"


def _helpers(names: Sequence[str]) -> str:
    return (
        "a helper whose answers you do not use"
        if len(names) == 1
        else ("helpers whose answers you do not use")
    )


def and_list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _gains(facts: Facts) -> Table:
    gains = facts["verdict"]["gains"]
    shared = {task for group in facts["choice"]["shared"] for task in group}
    rows = []
    for name, one in facts["scores"].items():
        gain = gains.get(name)
        rows.append(
            (
                name,
                one["metric"],
                percent(one["trivial"]),
                percent(one["alone"]),
                percent(one["chosen"]) if name in shared else NOTHING,
                NOTHING if gain is None else f"{points(gain['mean'])} {_ends(gain)}",
                _verdict(name, facts),
            )
        )
    columns = ("task", "metric", "trivial", "alone", "shared", "gain in points", "verdict")
    level = facts["verdict"]["level"]
    about = "" if level is None else f"; intervals of {100 * level:.1f} % each, 95 % together"
    text = "Scores (%) on examples that no choice has touched, first seed; gains over "
    return Table(columns, rows, text + counted(facts["choice"]["seeds"], "seed") + about + ".")


def _ends(gain: Facts) -> str:
    return interval([gain["low"], gain["high"]])


def _verdict(name: str, facts: Facts) -> str:
    if name in facts["without_signal"]:
        count = facts["signals"][name]["examples"]
        return f"no signal that {count:,} examples show"
    if name in facts["apart"]:
        return f"alone: {facts['apart'][name]}"
    gain = facts["verdict"]["gains"].get(name)
    if gain is None:
        return "alone"
    return f"shares: {gain['verdict']}"


def _undecided(facts: Facts) -> list[str]:
    """What no interval decides, and how many examples would."""
    found = {
        name: one["needed"]
        for name, one in facts["verdict"]["gains"].items()
        if one["verdict"] == "no difference"
    }
    if not found:
        return []
    needed = ", ".join(f"{count:,} for {name}" for name, count in found.items())
    return [
        f"{and_list(list(found))}: no difference that this much data can show. To see one of 1 "
        f"point, about so many held-out examples are needed: {needed}."
    ]


def _plain_words(facts: Facts) -> list[str]:
    found = [
        _cost_text(facts),
        f"{counted(len(facts['trials']), 'arrangement')} tried; about {duration(facts['spent'])} "
        f"of training by the plan's estimate{_most(facts['plan']['most'])}.",
    ]
    if facts["plan"]["most"] is not None and facts["configurations"]:
        found.append(f"Train on all examples: brodmann run {facts['configurations'][0]}")
    suspects = {n: k for model in facts["models"] for n, k in model["suspects"].items() if k}
    if suspects:
        listed = ", ".join(
            f"{count} of {facts['signals'][name]['examples']} in {name}"
            for name, count in suspects.items()
        )
        found.append(
            f"Suspected label errors on the choosing part: {listed} (models/*/{MISTAKES})."
        )
    found += [heads_text(one) for one in facts["heads"]]
    if facts["curves"]:
        best = max(facts["curves"], key=lambda name: float(facts["curves"][name]["last_doubling"]))
        gain = facts["curves"][best]["last_doubling"]
        found.append(
            f"More labels are worth most for {best}: the last doubling brought {points(gain)} "
            "points."
        )
    return found


def _cost_text(facts: Facts) -> str:
    serving, models = facts["serving"], facts["models"]
    if not models:
        return "No model is recommended: nothing was learnt."
    own = sum(len(model["tasks"]) for model in models)
    text = f"{capital(counted(len(models), 'model'))}, {size(serving['bytes'])}"
    asked = f"{serving['texts']} texts per task take {1000 * serving['seconds']:.0f} ms"
    if own == len(models):
        return f"{text}; {asked}."
    return (
        f"{text}, instead of {own}, {size(serving['bytes_separate'])}; {asked} instead of "
        f"{1000 * serving['seconds_separate']:.0f} ms."
    )


def heads_text(one: Facts) -> str:
    mean = sum(one["overlap"].values()) / max(len(one["overlap"]), 1)
    return (
        f"Heads of {and_list(one['tasks'])}: two tasks share {percent(mean)} % of their top "
        f"{percent(one['by_chance'])} % on average; {one['unimportant']} of {one['heads']} are in "
        f"no task's top and can be pruned first (brodmann prune {one['folder']})."
    )
