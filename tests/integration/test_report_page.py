"""The page in a real browser: what the slider, pointer and keyboard do, and hostile names."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import CHROMIUM
from tests.run_folders import write_run

from brodmann.analysis.mistake_lists import mistakes_of
from brodmann.data.tasks import TaskSpec
from brodmann.results import Dissociation, HeadScores, Mistakes
from brodmann.studies.report import report_on

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium")

TASKS = ["sst2", "qnli", "stsb"]
HOSTILE = [
    "<script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=1">',
    "'; alert(1); //",
    "</script><script>document.title='owned'</script>",
    "مهمة التصنيف العربية ‮ txet",
    "x" * 200,
    "{{ 7 * 7 }}",
    "costs $5 and $x^",
    "任务",
    "&lt;b&gt; & <b>bold</b>",
] + [f"task number {number}" for number in range(14)]


def silent(event: str, facts: dict[str, Any]) -> None:
    pass


class Opened:
    """A page, with everything it complained about or asked the network for."""

    def __init__(self, browser: Any, file: Path, **options: Any) -> None:
        self.page = browser.new_page(**options)
        self.trouble: list[str] = []
        self.page.on("console", lambda message: self.trouble.append(message.text))
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("dialog", lambda dialog: self.trouble.append(dialog.message))
        self.page.on(
            "request",
            lambda request: request.url == file.as_uri() or self.trouble.append(request.url),
        )
        self.page.goto(file.as_uri())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, HeadScores, Dissociation]:
    folder = tmp_path_factory.mktemp("page") / "run"
    scores, result = write_run(folder, TASKS, removed=((0, 0),))
    assert result is not None
    return report_on([folder], silent), scores, result


@pytest.fixture
def opened(browser: Any, run: Any) -> Iterator[Any]:
    found = Opened(browser, run[0])
    yield found.page
    assert found.trouble == []
    found.page.close()


def set_alpha(page: Any, percent: int) -> None:
    page.locator("#alpha").evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }",
        percent,
    )


def framed(page: Any, task: int) -> set[tuple[int, int]]:
    """Heads framed in the map of a task, as the reader sees them."""
    found = page.locator(f"#maps figure:nth-child({task + 1}) .frame.top")
    numbers = found.evaluate_all("frames => frames.map(f => Number(f.dataset.head))")
    return {divmod(number, 6) for number in numbers}


@pytest.mark.parametrize("percent", [30, 5, 58, 100])
def test_the_slider_frames_the_very_heads_that_are_chosen(
    opened: Any, run: Any, percent: int
) -> None:
    _, scores, _ = run
    set_alpha(opened, percent)
    for place, task in enumerate(TASKS):
        assert framed(opened, place) == set(scores.top(percent / 100, task))
    chosen = [set(scores.top(percent / 100, task)) for task in TASKS]
    shown = opened.locator("#overlap td.shaded").all_inner_texts()
    expected = [f"{100 * len(a & b) / len(a):.0f}" for a in chosen for b in chosen]
    assert shown == expected


def test_d_snaps_to_what_was_measured_and_says_so(opened: Any, run: Any) -> None:
    _, _, result = run
    d = {point["alpha"]: f"D = {100 * point['mean']:.1f} %" for point in result.curve}
    for percent, share in ((30, 0.3), (12, 0.1), (45, 0.5), (100, 0.5)):
        set_alpha(opened, percent)
        text = opened.locator("#alpha-d").inner_text()
        assert text.startswith(d[share]) and f"measured at {100 * share:g} %" in text
    set_alpha(opened, 30)
    low, high = result.intervals["mean"]
    assert f"[{100 * low:.1f}, {100 * high:.1f}]" in opened.locator("#alpha-d").inner_text()


def test_hovering_tells_layer_head_rank_and_score(opened: Any, run: Any) -> None:
    _, scores, _ = run
    opened.locator('#maps figure:nth-child(2) [data-head="9"]').hover()
    tip = opened.locator("#tip")
    assert tip.is_visible() and "layer 1, head 3" in tip.inner_text()
    for task in TASKS:
        rank = scores.ranking(task).index((1, 3)) + 1
        row = tip.locator("tr", has_text=task).inner_text()
        assert f"rank {rank}" in row
        score = float(re.findall(r"score (\S+)", row)[0])
        assert score == pytest.approx(scores.of(task)[1, 3], rel=0.01)
    assert opened.locator(".frame.same").count() == len(TASKS) + 1  # the same head in every map
    opened.mouse.move(0, 0)
    assert not tip.is_visible()


def test_clicking_keeps_a_heads_profile(opened: Any, run: Any) -> None:
    _, scores, _ = run
    opened.locator('#joined [data-head="14"]').click()
    profile = opened.locator("#profile")
    assert "layer 2, head 2 (kept)" in profile.inner_text()
    opened.locator('#joined [data-head="20"]').hover()
    assert "layer 2, head 2 (kept)" in profile.inner_text()  # hovering does not take it away
    assert profile.locator(".profile-row").count() == len(TASKS)
    tops = sum((2, 2) in scores.top(0.3, task) for task in TASKS)
    assert f"in the top 30 % of {tops} of 3 tasks" in profile.inner_text()
    opened.locator('#joined [data-head="14"]').click()  # again: let go
    opened.locator('#joined [data-head="20"]').hover()
    assert "layer 3, head 2" in profile.inner_text()


def test_a_removed_head_says_so_and_is_never_chosen(opened: Any) -> None:
    set_alpha(opened, 100)
    assert (0, 0) not in framed(opened, 0)
    opened.locator('#joined [data-head="0"]').hover()
    assert "removed" in opened.locator("#tip").inner_text()


def test_everything_can_be_reached_from_the_keyboard(opened: Any) -> None:
    reached = []
    for _ in range(40):
        opened.keyboard.press("Tab")
        reached.append(
            opened.evaluate(
                "(() => { const e = document.activeElement;"
                "return e.id || e.getAttribute('class') || e.tagName.toLowerCase(); })()"
            )
        )
        if reached[-1] == "alpha":
            opened.keyboard.press("ArrowRight")
            assert opened.locator("#alpha-value").inner_text() == "31 %"
        if reached[-1] == "map":
            break
    assert "alpha" in reached and "map" in reached
    opened.keyboard.press("ArrowUp")
    opened.keyboard.press("ArrowRight")
    assert "layer 1, head 1" in opened.locator("#tip").inner_text()
    opened.keyboard.press("Enter")
    assert "layer 1, head 1 (kept)" in opened.locator("#profile").inner_text()
    assert opened.locator(".frame.same").count() == len(TASKS) + 1
    opened.keyboard.press("Escape")
    assert not opened.locator("#tip").is_visible()
    assert "(kept)" not in opened.locator("#profile").inner_text()


def test_the_configuration_can_be_unfolded_and_read(opened: Any) -> None:
    opened.locator("summary", has_text="Configuration").click()
    assert 'backbone = "builtin:tiny"' in opened.locator("pre").inner_text()


def test_several_runs_share_one_atlas(browser: Any, tmp_path: Path) -> None:
    first, _ = write_run(tmp_path / "plain", TASKS)
    second, _ = write_run(tmp_path / "iat", TASKS, seed=3)
    file = report_on([tmp_path / "plain", tmp_path / "iat"], silent, to=tmp_path / "both.html")
    found = Opened(browser, file)
    assert framed(found.page, 0) == set(first.top(0.3, "sst2"))
    found.page.locator("#atlas-run").select_option("1")
    assert framed(found.page, 0) == set(second.top(0.3, "sst2"))
    assert found.trouble == []


def hostile_mistakes() -> dict[str, Any]:
    """120 examples with hostile labels and texts, half of them wrong."""
    random = np.random.default_rng(0)
    right = [place % len(HOSTILE) for place in range(120)]
    chances = random.dirichlet(np.ones(len(HOSTILE)), size=120)
    chances[np.arange(120), right] += 0.2
    predictions = [
        {
            "label": HOSTILE[int(row.argmax())],
            "score": float(row.max()),
            "probabilities": dict(zip(HOSTILE, (row / row.sum()).tolist(), strict=True)),
        }
        for row in chances
    ]
    examples = [{"text": f"{HOSTILE[p]} {'y' * 300}", "label": p} for p in right]
    spec = TaskSpec("hostile", "classification", labels=tuple(HOSTILE))
    return mistakes_of(predictions, examples, spec)


def test_one_task_gets_its_importance_and_no_owners(browser: Any, tmp_path: Path) -> None:
    scores, _ = write_run(tmp_path / "one", TASKS[:1])
    found = Opened(browser, report_on([tmp_path / "one"], silent))
    page = found.page
    marks = page.locator("#joined .frame.top").evaluate_all("all => all.map(e => e.dataset.head)")
    heads = scores.shape[1]
    assert {divmod(int(mark), heads) for mark in marks} == set(scores.top(0.3))
    assert page.locator("#joined .heat").count() == scores.heads
    assert page.locator("#joined .cell, #owners *, #maps *").count() == 0
    page.locator('#joined [data-head="1"]').hover()
    text = page.locator("#atlas").inner_text()
    for word in ("owns", "belongs", "nobody", "Overlap", "tasks", "D was"):
        assert word not in text, word
    assert "The stronger the colour, the more important the head" in text
    assert "in the top 30 %" in text
    assert found.trouble == []


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """24 tasks with hostile names, 24 layers × 16 heads, and mistakes of every task."""
    folder = tmp_path_factory.mktemp("crowded") / "run <b>&"
    write_run(folder, HOSTILE, layers=24, heads=16)
    Mistakes(dict.fromkeys(HOSTILE, hostile_mistakes())).save(folder / "mistakes.json")
    began = time.perf_counter()
    return report_on([folder], silent), time.perf_counter() - began


def test_hostile_names_stay_harmless(browser: Any, crowded: Any) -> None:
    file, _ = crowded
    found = Opened(browser, file)
    page = found.page
    page.locator('#joined [data-head="40"]').click()
    assert page.title() == "run <b>& · Brodmann"
    assert page.locator("img").count() == 0 and page.locator("b").count() == 0
    names = page.locator("#owners .name").all_text_contents()
    assert names == HOSTILE  # every letter is there, and only text
    assert page.locator("#profile .profile-row").count() == 24
    assert found.trouble == []
    widest = page.evaluate("document.documentElement.scrollWidth")
    assert widest <= page.evaluate("innerWidth")
    page.close()


def test_names_of_rows_are_whole(browser: Any, crowded: Any) -> None:
    """They may end in the setting that tells two rows apart; long ones are wrapped, not cut."""
    page = Opened(browser, crowded[0], viewport={"width": 900, "height": 800}).page
    names = page.locator("table:not(.matrix) tbody th .name")
    cut = names.evaluate_all("all => all.filter(one => one.scrollWidth > one.clientWidth + 1)")
    assert names.count() > len(HOSTILE) and cut == []
    page.close()


def test_a_crowded_page_is_small(crowded: Any) -> None:
    assert crowded[0].stat().st_size <= 2_000_000


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_on_a_phone_in_both_schemes(browser: Any, crowded: Any, scheme: str) -> None:
    file, _ = crowded
    found = Opened(browser, file, viewport={"width": 390, "height": 844}, color_scheme=scheme)
    page = found.page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    assert page.locator(".cases .quote").count() > 24
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    # Contrast of running text and small print against the paper (WCAG AA).
    for selector in ("body", ".note", "figcaption", ".why", ".given"):
        ratio = page.evaluate(CONTRAST, selector)
        assert ratio >= 4.5, (selector, ratio)
    assert found.trouble == []
    page.close()


CONTRAST = """selector => {
  const light = text => {
    const [r, g, b] = text.match(/[0-9.]+/g).slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ink = light(getComputedStyle(document.querySelector(selector)).color);
  const paper = light(getComputedStyle(document.body).backgroundColor);
  return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
}"""


def test_printing_unfolds_everything(browser: Any, run: Any) -> None:
    found = Opened(browser, run[0])
    found.page.emulate_media(media="print")
    found.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert found.page.locator("details:not([open])").count() == 0
    found.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert found.page.locator("details[open]").count() == 0
    assert len(found.page.pdf()) > 10_000
    assert found.trouble == []
