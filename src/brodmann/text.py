"""Format numbers and names for readers: one function per format, used by every output.

Scores are shares, shown in percent with one decimal place; a difference of two scores is shown in
points. A minus is a true minus (−); the terminal prints a hyphen, which programs can read.
"""

from collections.abc import Mapping, Sequence
from typing import Any

NOTHING = "–"  # shown in place of a missing number
USED = 0.5  # points: a conditioning that is certainly worth less is hardly used
VERDICTS = {  # finding of a pair of tasks → words
    "double-distinct": "double dissociation, distinct",
    "double": "double dissociation",
    "single": "single dissociation",
    "inverted": "inverted: each suffers more from the other's heads",
    "none": "no dissociation",
    "unclear": "not clear at this size",
    "undefined": "undefined",
}


def plain(value: float, digits: int = 1) -> str:
    """Format a number with a true minus, and no minus before zero.

    >>> plain(-1234.56), plain(-0.04), plain(7, 0)
    ('−1,234.6', '0.0', '7')
    """
    text = f"{value:,.{digits}f}"
    if not text.strip("-0.,"):
        return text.lstrip("-")
    return text.replace("-", "−")


def signed(value: float, digits: int = 1) -> str:
    """Format a number with its sign.

    >>> signed(1.26), signed(-3, 0), signed(0.01)
    ('+1.3', '−3', '0.0')
    """
    text = plain(value, digits)
    return f"+{text}" if value > 0 and text.strip("0.,") else text


def percent(value: float | None, digits: int = 1) -> str:
    """Format a score or share in percent, without the % sign.

    >>> percent(0.8125), percent(None)
    ('81.2', '–')
    """
    return NOTHING if value is None else plain(100 * value, digits)


def points(difference: float) -> str:
    """Format a difference of two scores in points, with its sign.

    >>> points(0.0512), points(-0.3)
    ('+5.1', '−30.0')
    """
    return signed(100 * difference)


def percentage(part: float) -> str:
    """Format a chosen share with as many digits as it was given.

    >>> percentage(0.3), percentage(0.125)
    ('30 %', '12.5 %')
    """
    return f"{100 * part:g} %"


def interval(ends: Sequence[float] | None) -> str:
    """Format both ends in percent; empty if there is no interval.

    >>> interval((-0.095, 0.226))
    '[−9.5, 22.6]'
    """
    return "" if ends is None else f"[{percent(ends[0])}, {percent(ends[1])}]"


def with_interval(value: str, ends: Sequence[float] | None) -> str:
    """Format a number, with its interval if it has one."""
    return f"{value} {interval(ends)}".strip()


def mean_spread(value: Sequence[float | None] | None) -> str:
    """Format mean ± standard deviation in percent; a single measurement has no spread.

    >>> mean_spread((0.5, 0.1)), mean_spread((0.5, None)), mean_spread(None)
    ('50.0 ± 10.0', '50.0', '–')
    """
    if value is None:
        return NOTHING
    mean, spread = value
    return percent(mean) + ("" if spread is None else f" ± {percent(spread)}")


def p_value(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def difference(entry: Mapping[str, Any]) -> str:
    """Format a difference in points with its interval and p.

    >>> difference({"difference": 0.012, "interval": (-0.004, 0.028), "p": 0.09})
    '+1.2 [−0.4, 2.8] p = 0.090'
    """
    found = with_interval(points(entry["difference"]), entry["interval"])
    return found if entry.get("p") is None else f"{found} {p_value(entry['p'])}"


def dissociation(value: float | None) -> str:
    """Format D in percent; a D that was measured but is None is undefined."""
    return "undefined" if value is None else percent(value)


def number(value: float) -> str:
    """Format a number of a paper's table: percentages with one decimal place, correlations and
    cosines with two, counts with none.

    >>> number(81.26), number(0.613), number(-12), number(110000)
    ('81.3', '0.61', '−12', '110,000')
    """
    return plain(value, places(value))


def places(*values: float) -> int:
    """Decimal places shared by numbers shown side by side."""
    if all(isinstance(value, int) for value in values):
        return 0
    return 2 if all(abs(value) < 1 for value in values) else 1


def duration(seconds: float) -> str:
    """Format a time in its two largest units.

    >>> duration(2.5), duration(125), duration(720), duration(7500)
    ('2.5 s', '2 min 5 s', '12 min', '2 h 5 min')
    """
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    units = (
        [(f"{hours:,}", hours, "h"), (str(minutes), minutes, "min")]
        if hours
        else [(str(minutes), minutes, "min"), (str(rest), rest, "s")]
    )
    return " ".join(f"{shown} {unit}" for shown, count, unit in units if count)


def time_left(seconds: float) -> str:
    """Format an estimated remaining time, without false precision.

    >>> time_left(740), time_left(20)
    ('about 12 min left', 'about 20 s left')
    """
    known = duration(60 * round(seconds / 60)) if seconds >= 60 else f"{seconds:.0f} s"
    return f"about {known} left"


def size(count: float) -> str:
    """Format a number of bytes; gigabytes have three digits.

    >>> size(300), size(45e6), size(1.254e9), size(250e9)
    ('less than 1 MB', '45 MB', '1.25 GB', '250 GB')
    """
    if count < 1e6:
        return "less than 1 MB"
    if count < 999.5e6:
        return f"{count / 1e6:,.0f} MB"
    return f"{count / 1e9:,.{2 if count < 9.995e9 else 1 if count < 99.95e9 else 0}f} GB"


def millions(count: float, digits: int = 1) -> str:
    return f"{count / 1e6:,.{digits}f} M"


def parameters(counts: Mapping[str, int]) -> str:
    """Format all parameters and, if fewer, those that one task uses (paths, skills)."""
    words = f"{millions(counts['total'])} parameters"
    if "activated" in counts:
        words += f", {millions(counts['activated'])} of them active for a task"
    return words


def rates(of_parts: Mapping[str, float]) -> str:
    """Format the common learning rate and those of parts with their own.

    >>> rates({"backbone": 1e-4, "heads": 1e-4, "gates": 0.05})
    '0.0001 (gates 0.05)'
    """
    common = of_parts.get("backbone", next(iter(of_parts.values())))
    own = [f"{part} {rate:.3g}" for part, rate in of_parts.items() if rate != common]
    return f"{common:.3g}" + (f" ({', '.join(own)})" if own else "")


def reasons(undefined: Mapping[str, str]) -> str:
    """Why D is undefined: each task without a D, with its reason."""
    return "; ".join(f"{task}: {reason}" for task, reason in undefined.items())


def conditioning(worth: Mapping[str, Any]) -> str:
    """Say whether a model uses its knowledge of the task, by what swapping the tasks costs."""
    low, high = (100 * bound for bound in worth["interval"])
    if low > 0:
        used = "used"
    else:
        used = "hardly used" if high < USED else "not clearly used"
    return (
        f"conditioning is {used}: reading every task as another costs "
        f"{percent(worth['mean_lost'])} points on average {interval(worth['interval'])}"
    )


def over_seeds(found: Mapping[str, Any]) -> str:
    """Format D over seeds; runs without one are counted, with the reasons."""
    runs = found.get("runs", found["seeds"] + found["left_out"])
    if found["mean"] is None:
        words = f"{runs} seeds: D is undefined"
    elif found["left_out"]:
        words = f"D = {mean_spread(found['mean'])} % over {found['seeds']} of {runs} seeds"
    else:
        words = f"{found['seeds']} seeds: D = {mean_spread(found['mean'])} %"
    why = "; ".join(f"seed {seed}: {reason}" for seed, reason in found.get("undefined", {}).items())
    return words + (f" (undefined: {why})" if why else "")


def setting(value: Any) -> str:
    """Format a value of a configuration; a table becomes its key=value pairs.

    >>> setting({"norms": "none", "depth": 2}), setting(0.5)
    ('(norms=none, depth=2)', '0.5')
    """
    if isinstance(value, dict):
        return "(" + ", ".join(f"{key}={inner}" for key, inner in value.items()) + ")"
    return str(value)


def counted(count: int, noun: str) -> str:
    """Format a number of things.

    >>> counted(1, "run"), counted(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def listed(names: Sequence[str], most: int = 6) -> str:
    """Join a few names; of many, say how many more there are.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def short(name: str, letters: int = 24) -> str:
    """Shorten a name to at most `letters` letters.

    >>> short("acceptability", 8)
    'accepta…'
    """
    return name if len(name) <= letters else name[: letters - 1] + "…"


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]
