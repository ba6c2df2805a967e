"""The playground in a real browser: answers while typing, their order, hostile texts, heads."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import uvicorn
from tests.conftest import CHROMIUM

import brodmann as bm
from brodmann.data.answering.rules import Rules
from brodmann.serving.from_torch import of_model
from brodmann.serving.web import app

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium")

HOSTILE = (
    "<img src=x onerror=document.title='owned'> </textarea><script>alert(1)</script> 🙂 {{ 7 }}"
)
BAD_NAME = "<b onmouseover=alert(1)>name</b>"
ALL = ["mood", BAD_NAME, "tags", "several", "rating", "pick", "where"]
# The browser itself logs answers that are errors; everything else on the console is ours.
OWN = "Failed to load resource"


def specs() -> list[Any]:
    """One task of every kind, one of which has a name that no configuration may have."""
    texts = ["the red cat sat here", "a big dog ran", "an old fox slept", "my sad owl sang"] * 4
    rows: list[dict[str, Any]] = [
        {
            "text": text,
            "other": text[::-1],
            "label": ["bad", "good"][place % 2],
            "hostile": ["<i>a</i>", "'\"><script>"][place % 2],
            "labels": ["x|y", "y", "x", ""][place % 4],
            "number": float(place),
            "choices": ["yes", "no", "maybe"],
            "right": place % 3,
            "answer": text.split()[1],
            "tokens": text.split(),
            "tags": ["O", "B-<u>PER", *["O"] * (len(text.split()) - 2)],
        }
        for place, text in enumerate(texts)
    ]
    both = {"train": rows, "validation": rows}
    tasks = bm.load_tasks(
        [
            {"name": "mood", "kind": "classification", "text": "text", "label": "label", **both},
            {
                "name": "markup", "kind": "classification", "text": "text",
                "label": "hostile", **both,
            },
            {"name": "tags", "kind": "tokens", **both},
            {"name": "several", "kind": "multilabel", "text": "text", "label": "labels", **both},
            {
                "name": "rating", "kind": "regression", "label": "number",
                "text": "text", "text_pair": "other", **both,
            },
            {"name": "pick", "kind": "choice", "text": "text", "label": "right", **both},
            {
                "name": "where", "kind": "span", "question": "other", "context": "text", **both,
            },
        ]
    )  # fmt: skip
    found = [task.spec for task in tasks]
    return [replace(spec, name=BAD_NAME) if spec.name == "markup" else spec for spec in found]


class Unusual:
    """The domain of a task to which every text is strange."""

    def p_values(self, states: Any) -> Any:
        return np.full(len(states), 0.01)


class Slowed:
    """A reader that answers late to texts that ask for it, as a busy server would."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.read_texts: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def encode(self, spec: Any, examples: Any) -> Any:
        self.read_texts += [str(example.get("text")) for example in examples]
        if any("slow" in str(example.get("text")) for example in examples):
            time.sleep(1)
        return self.inner.encode(spec, examples)


class Served:
    """An application behind a real port."""

    def __init__(self, opened: Any, **options: Any) -> None:
        self.web = app(opened, **options)
        self.place = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.place.getsockname()[1]}/"
        config = uvicorn.Config(self.web, log_config=None, lifespan="off", ws="none")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([self.place],))
        self.thread.start()

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join()
        self.web.state.work.close()


def of(model: Any, **changes: Any) -> Any:
    opened = of_model(model, "<i>model</i>")
    return replace(opened, reader=Slowed(opened.reader), **changes)


@pytest.fixture(scope="module")
def model() -> Any:
    found = bm.MultiTaskModel.from_pretrained("builtin:tiny", specs(), device="cpu").eval()
    assert list(found.specs) == ALL
    return found


@pytest.fixture(scope="module")
def served(model: Any) -> Iterator[Served]:
    shape = (model.config.num_hidden_layers, model.config.num_attention_heads)
    owner = [[(layer + head) % 7 for head in range(shape[1])] for layer in range(shape[0])]
    strength = [[0.5] * shape[1]] * shape[0]
    atlas = {"tasks": ALL, "owner": owner, "strength": strength, "removed": [[0, 1]]}
    found = Served(of(model, atlas=atlas))
    yield found
    found.stop()


class Opened:
    """The page, with everything it complained about or asked other servers for."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.page = browser.new_page(**options)
        self.trouble: list[str] = []
        self.page.on(
            "console",
            lambda said: OWN in said.text or self.trouble.append(said.text),
        )
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("dialog", lambda dialog: self.trouble.append(dialog.message))
        self.page.on(
            "request", lambda sent: sent.url.startswith(url) or self.trouble.append(sent.url)
        )
        self.page.goto(url)


@pytest.fixture
def page(browser: Any, served: Served) -> Iterator[Any]:
    opened = Opened(browser, served.url)
    opened.page.wait_for_selector(".card")
    yield opened.page
    assert opened.trouble == []
    opened.page.close()


def card(page: Any, task: str) -> Any:
    return page.locator(".card").nth(ALL.index(task))


def type_text(page: Any, text: str, *, answers: int = 4) -> None:
    page.locator("#text").fill(text)
    page.wait_for_function(
        "([text, count]) => document.getElementById('status').textContent"
        ".startsWith(count + ' of 7 tasks answered') && document.getElementById('command')"
        ".textContent.includes(JSON.stringify(text).slice(1, -1).replaceAll(\"'\", \"'\\\\''\"))",
        arg=[text, answers],
    )


def test_every_task_answers_what_it_can_read(page: Any, model: Any) -> None:
    text = "the red cat sat"
    type_text(page, text)
    expected = model.predict_all([text])[0]
    assert card(page, "mood").locator(".answer bdi").inner_text() == expected["mood"]["label"]
    share = f"{100 * expected['mood']['score']:.0f} %"
    assert card(page, "mood").locator(".answer .score").inner_text() == share
    assert card(page, "rating").inner_text().endswith("needs a second text")
    page.locator("#second").fill("a big dog")
    type_text(page, text, answers=6)
    row = {"text": text, "text_pair": "a big dog"}
    value = model.predict("rating", [row])[0]["value"]
    assert float(card(page, "rating").locator(".answer").inner_text()) == pytest.approx(
        value, rel=1e-3
    )
    assert card(page, "pick").inner_text().endswith("needs two choices or more")
    page.locator("#choices").fill("one\n\ntwo <b>\n")
    type_text(page, text, answers=7)
    names = card(page, "pick").locator(".share .name").all_inner_texts()
    assert sorted(names) == ["one", "two <b>"]
    assert card(page, "where").locator("mark").count() == 1


def test_the_command_asks_what_the_page_asked(page: Any, model: Any) -> None:
    type_text(page, "it's a 'cat'")
    words = page.locator("#command").text_content()
    body = words.partition("-d '")[2].removesuffix("'").replace("'\\''", "'")
    assert json.loads(body) == {"input": "it's a 'cat'"}
    assert "predict" in words and "Authorization" not in words


def test_only_the_answer_to_the_latest_text_is_shown(page: Any, served: Served) -> None:
    """The first text is read slowly; its answer comes after that of the second, or never."""
    asked: list[Any] = []
    answered: list[Any] = []
    page.on("request", lambda sent: asked.append(sent.post_data_json))
    page.on("requestfinished", lambda sent: answered.append(sent.post_data_json))
    page.evaluate("() => { AbortController.prototype.abort = () => {}; }")  # the network is slower
    page.locator("#text").fill("slow cat")
    while len(asked) < 1:
        page.wait_for_timeout(20)
    type_text(page, "quick dog")
    shown = card(page, "mood").inner_text()
    while len(answered) < 2:
        page.wait_for_timeout(20)
    page.wait_for_timeout(200)
    assert asked[0]["input"] == "slow cat" and answered[-1]["input"] in ("slow cat", "quick dog")
    assert card(page, "mood").inner_text() == shown
    assert "quick dog" in page.locator("#command").text_content()


def test_typing_asks_once_it_pauses(page: Any) -> None:
    asked: list[Any] = []
    page.on("request", lambda sent: asked.append(sent.post_data_json["input"]))
    page.locator("#text").press_sequentially("the red cat", delay=10)
    page.wait_for_function(
        "() => document.getElementById('status').textContent.includes('answered')"
    )
    page.wait_for_timeout(400)
    assert asked[-1] == "the red cat" and len(asked) <= 3


def test_hostile_texts_and_names_stay_text(page: Any) -> None:
    title = page.title()
    page.locator("#second").fill(HOSTILE)
    page.locator("#choices").fill(f"{HOSTILE}\n<script>alert(2)</script>")
    type_text(page, HOSTILE, answers=7)
    page.wait_for_timeout(1500)  # also what is read aloud
    assert page.title() == title == "<i>model</i> · Playground"
    assert page.locator("#model").inner_text() == "<i>model</i>"
    assert card(page, BAD_NAME).locator("h2 .name").inner_text() == BAD_NAME
    assert (
        page.locator(
            "main img, main script, main b, main u, main i:not([class]):empty"
        ).evaluate_all(
            "nodes => nodes.filter(node => !node.closest('.track') && !node.matches('.key')).length"
        )
        == 0
    )
    assert BAD_NAME in page.locator("#spoken").text_content()
    card(page, BAD_NAME).locator("button").click()
    page.wait_for_selector("#heads:not([hidden])")
    assert BAD_NAME in page.locator("#heads-title").inner_text()
    assert (
        "<i" in page.locator("#tokens").inner_text() or "[" in page.locator("#tokens").inner_text()
    )


def test_characters_beyond_the_basic_plane_do_not_shift_the_marks(page: Any, model: Any) -> None:
    text = "🙂🙂 the red cat 🙂 sat"
    page.locator("#second").fill("which?")
    type_text(page, text, answers=6)
    found = model.predict("where", [{"question": "which?", "context": text}])[0]
    assert card(page, "where").locator("mark").inner_text() == found["answer"]
    entities = [one["text"] for one in model.predict("tags", [text])[0]["entities"]]
    marks = (
        card(page, "tags")
        .locator("mark")
        .evaluate_all("marks => marks.map(mark => mark.firstChild.textContent)")
    )
    assert marks == entities


def test_the_heads_light_up_on_demand(page: Any, served: Served, model: Any) -> None:
    asked: list[str] = []
    page.on("request", lambda sent: asked.append(sent.url.removeprefix(served.url)))
    text = "the red cat sat"
    type_text(page, text)
    assert set(asked) == {"predict"} and not page.locator("#heads").is_visible()
    card(page, "mood").get_by_role("button").press("Enter")
    page.wait_for_selector("#heads:not([hidden])")
    assert asked[-2:] == ["atlas", "heads"]
    expected = bm.explain_heads(model, text, task="mood")
    layer, head = expected.top()[0][0]
    first = page.locator("#strongest button").first
    assert first.inner_text().startswith(f"layer {layer}, head {head}")
    assert first.get_attribute("aria-pressed") == "true"
    assert page.evaluate("document.activeElement.id") == "heads-title"
    titles = page.locator("#map title").all_text_contents()
    shape = expected.gradients.shape
    assert len(titles) == shape[0] * shape[1]
    assert titles[0].startswith("layer 0, head 0: ") and "most important to mood" in titles[0]
    assert page.locator("#map .removed").count() == 1
    second = page.locator("#strongest button").nth(1)
    second.press("Enter")
    assert second.get_attribute("aria-pressed") == "true"
    assert page.locator("#tokens .token").all_inner_texts() == expected.tokens
    type_text(page, text + " on")
    assert "stale" in page.locator("#heads").get_attribute("class")


def test_what_the_server_refuses_is_shown(page: Any, served: Served) -> None:
    page.route("**/predict", lambda route: route.fulfill(
        status=422, content_type="application/json", body='{"error": "no <b>such</b> text"}'
    ))  # fmt: skip
    page.locator("#text").fill("a cat")
    page.wait_for_selector("#status.trouble")
    assert page.locator("#status").inner_text() == "no <b>such</b> text"
    page.unroute("**/predict")
    page.route("**/predict", lambda route: route.abort())
    page.locator("#text").fill("a dog")
    page.wait_for_function(
        "() => document.getElementById('status').textContent.includes('running')"
    )
    page.unroute("**/predict")
    type_text(page, "a fox")
    assert page.locator("#status.trouble").count() == 0


def test_a_busy_server_is_asked_again(page: Any) -> None:
    times: list[float] = []

    def busy(route: Any) -> None:
        times.append(time.monotonic())
        if len(times) > 1:
            route.continue_()
            return
        route.fulfill(
            status=503, content_type="application/json", headers={"Retry-After": "1"},
            body='{"error": "too many requests are under way: try again later"}',
        )  # fmt: skip

    page.route("**/predict", busy)
    type_text(page, "a cat")
    assert len(times) == 2 and 0.8 < times[1] - times[0] < 10


def test_an_unusual_text_is_not_a_text_for_the_task(browser: Any, model: Any) -> None:
    surprises = np.sort(np.linspace(0, 1, 50).astype(np.float32))
    model.rules |= {name: Rules(1.0, domain=Unusual(), surprises=surprises) for name in ALL}
    served = Served(of(model))
    try:
        opened = Opened(browser, served.url)
        page = opened.page
        page.wait_for_selector("#abstain:visible")
        type_text(page, "the red cat sat")
        assert "not a text for this task" in card(page, "mood").inner_text()
        assert "refused" in card(page, "mood").get_attribute("class")
        assert not card(page, "mood").locator("button").is_visible()
        page.locator("#abstain").uncheck()
        page.locator("#coverage").check()
        page.wait_for_function("() => document.querySelectorAll('.refused').length === 0")
        page.wait_for_selector("text=/right in 90 %: /")
        assert "of this task's own texts are at least as unusual" in card(page, "mood").inner_text()
        assert opened.trouble == []
        page.close()
    finally:
        model.rules.clear()
        served.stop()


def test_the_page_asks_for_the_key(browser: Any, model: Any) -> None:
    served = Served(of(model), key="secret")
    try:
        opened = Opened(browser, served.url)
        page = opened.page
        page.wait_for_selector("#key:visible")
        assert page.locator("#status").inner_text() == "This server asks for a key."
        page.locator("#key").fill("wrong")
        page.locator("#key").press("Enter")
        page.wait_for_function(
            "() => document.getElementById('status').textContent === 'The key is wrong.'"
        )
        page.locator("#key").fill("secret")
        page.locator("#key").press("Enter")
        page.wait_for_selector(".card")
        type_text(page, "a cat")
        assert "secret" not in page.locator("#command").text_content()
        assert "$BRODMANN_API_KEY" in page.locator("#command").text_content()
        assert not page.locator("#key").is_visible()
        assert opened.trouble == []
        page.close()
    finally:
        served.stop()


@pytest.mark.parametrize("width", [360, 820, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_window(
    browser: Any, served: Served, width: int, scheme: str
) -> None:
    opened = Opened(
        browser, served.url, viewport={"width": width, "height": 800}, color_scheme=scheme
    )
    page = opened.page
    page.wait_for_selector(".card")
    page.locator("#second").fill("y" * 300)
    page.locator("#choices").fill("z" * 300 + "\nno")
    type_text(page, "x" * 300 + " cat", answers=7)
    card(page, "mood").locator("button").click()
    page.wait_for_selector("#heads:not([hidden])")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 27)")
    assert opened.trouble == []
    page.close()


def test_every_field_and_button_has_a_name(page: Any) -> None:
    type_text(page, "a cat")
    nameless = page.evaluate(
        "[...document.querySelectorAll('textarea, input, button, svg, summary')]"
        ".filter(node => !(node.labels?.length || node.getAttribute('aria-label')"
        " || node.textContent.trim())).map(node => node.outerHTML)"
    )
    assert nameless == []
    page.keyboard.press("Tab")
    order = []
    page.locator("#text").focus()
    for _ in range(5):
        page.keyboard.press("Tab")
        order.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert order[:3] == ["second", "choices", "SUMMARY"] and "BUTTON" in order
