"""The addresses of the application, asked in this process: answers, refusals, key, limits."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from brodmann.data.answering.answer_texts import answer_tasks, request_of
from brodmann.data.answering.rules import PLAIN
from brodmann.models.predicting import TorchReader
from brodmann.serving.door import LOOPBACK, host_name
from brodmann.serving.from_torch import of_model
from brodmann.serving.incoming import Limits
from brodmann.serving.web import WENT_WRONG, app

LIMITS = Limits(texts=4, length=100, body=2000, requests=2, seconds=10)
TEXT = "the red cat sat"


@pytest.fixture(scope="module")
def client(tiny_model: Any) -> Iterator[TestClient]:
    web = app(of_model(tiny_model, "tiny"), limits=LIMITS)
    yield TestClient(web)
    web.state.work.close()


def told(client: TestClient, body: Any, path: str = "/predict") -> tuple[int, str]:
    response = client.post(path, json=body)
    return response.status_code, response.json()["error"]


def test_answers_are_those_of_the_model(client: TestClient, tiny_model: Any) -> None:
    inputs = [TEXT, ["a red cat", "a dog"], {"text": "one", "choices": ["yes", "no"]}, TEXT]
    reader = TorchReader(tiny_model)
    expected = answer_tasks(reader, inputs, request_of(reader, None, PLAIN, 32))
    response = client.post("/predict", json={"inputs": inputs})
    assert response.status_code == 200
    assert response.json() == {"answers": json.loads(json.dumps(expected))}
    one = client.post("/predict", json={"input": inputs[1], "tasks": ["pair"]}).json()
    assert one == {"answer": {"pair": expected[1]["pair"]}}


def test_a_row_may_use_the_columns_of_the_data(client: TestClient) -> None:
    by_column = client.post("/predict", json={"input": {"a": TEXT}, "tasks": ["single"]})
    by_role = client.post("/predict", json={"input": {"text": TEXT}, "tasks": ["single"]})
    assert by_column.status_code == 200 and by_column.json() == by_role.json()


WRONG: list[tuple[Any, str]] = [
    ({}, "expected one of the fields 'inputs' (a list) and 'input' (one)"),
    (
        {"input": "a", "inputs": ["a"]},
        "expected one of the fields 'inputs' (a list) and 'input' (one)",
    ),
    ([1], 'the body: expected a JSON object, such as {"inputs": ["..."]}'),
    ({"inputs": []}, "inputs: expected at least one entry, found []"),
    ({"inputs": "a"}, 'inputs: expected a list, found "a"'),
    ({"inputs": ["a", 5]}, "input 2: expected a text, a list or an object, found 5"),
    ({"inputs": ["a", None]}, "input 2: expected a text, a list or an object, found null"),
    ({"inputs": ["a"] * 5}, "5 inputs: at most 4 are answered per request"),
    ({"input": "a" * 101}, "input 1: 101 characters: at most 100 are read per text"),
    ({"input": ["a" * 60, "a" * 60]}, "input 1: 120 characters: at most 100 are read per text"),
    ({"input": "\ud800"}, "input 1: contains half a character (a lone surrogate)"),
    ({"inputs": ["a"], "taks": ["single"]}, "unknown field 'taks'; did you mean 'tasks'?"),
    ({"inputs": ["a"], "tasks": "single"}, 'tasks: expected a list, found "single"'),
    ({"inputs": ["a"], "tasks": [1]}, "tasks.0: expected a text, found 1"),
    ({"inputs": ["a"], "tasks": []}, "tasks: expected at least one entry, found []"),
    (
        {"inputs": ["a"], "tasks": ["singel"]},
        "the model has no task 'singel'; did you mean 'single'?",
    ),
    ({"inputs": ["a"], "abstain": "0.05"}, 'abstain: expected a number, found "0.05"'),
    ({"inputs": ["a"], "abstain": True}, "abstain: expected a number, found true"),
    (
        {"inputs": ["a"], "tasks": ["single"], "abstain": 0.05},
        "abstain: nothing is known about the usual texts of task 'single': `brodmann calibrate "
        "RUN`, or bm.calibrate(model, tasks), fits them",
    ),
    (
        {"inputs": ["a", ["x", "y", "z"]], "tasks": ["pair"]},
        "input 1: no task of the model reads 'a': pair needs the columns 'a' and 'b'",
    ),
    (
        {"inputs": [["x", "y"], {"a": None, "b": "y"}], "tasks": ["pair"]},
        "input 2: text: expected a text, found None",
    ),
]


@pytest.mark.parametrize(("body", "message"), WRONG)
def test_what_is_wrong_is_one_sentence(client: TestClient, body: Any, message: str) -> None:
    response = client.post(
        "/predict", content=json.dumps(body), headers={"Content-Type": "application/json"}
    )
    assert (response.status_code, response.json()) == (422, {"error": message})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"inputs": ["a"', "the body is not JSON (Expecting ',' delimiter: line 1 column 16 "),
        (b"", "the body is not JSON (Expecting value: line 1 column 1 (char 0))"),
        (b"\xff\xfe\x00", "the body is not JSON ("),
        (b'{"inputs": ["a"], "abstain": NaN}', "the body is not JSON (NaN is not a JSON number)"),
        (b"[" * 1900, "the body is not JSON ("),
        (b'{"inputs": [' + b"9" * 1900, "the body is not JSON ("),
    ],
)
def test_a_body_that_is_not_json_is_one_sentence(
    client: TestClient, content: bytes, message: str
) -> None:
    response = client.post(
        "/predict", content=content, headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 422 and response.json()["error"].startswith(message)
    assert "\n" not in response.json()["error"]


def test_deeply_nested_inputs_do_not_harm(client: TestClient) -> None:
    nested: Any = "a"
    for _ in range(400):
        nested = [nested]
    status, error = told(client, {"input": nested})
    assert status == 422 and error.startswith("input 1: no task of the model reads [[[")


def test_large_bodies_are_refused_with_and_without_a_length(client: TestClient) -> None:
    expected = (413, "the body is larger than 2,000 bytes: send fewer texts at once")
    assert told(client, {"input": "a" * 3000}) == expected

    def parts() -> Iterator[bytes]:  # sent in chunks, without Content-Length
        for _ in range(100):
            yield b" " * 100

    response = client.post(
        "/predict", content=parts(), headers={"Content-Type": "application/json"}
    )
    assert (response.status_code, response.json()["error"]) == expected


def test_only_json_is_read(client: TestClient) -> None:
    """A foreign page can send a form or a plain text without being asked, but not JSON."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        response = client.post("/predict", content=b"{}", headers={"Content-Type": kind})
        assert response.status_code == 415
        assert response.json()["error"].startswith("expected JSON with the header Content-Type")


def test_unknown_addresses_and_methods_are_json(client: TestClient) -> None:
    assert (client.get("/nope").status_code, client.get("/nope").json()) == (
        404,
        {"error": "Not Found"},
    )
    assert client.get("/predict").json() == {"error": "Method Not Allowed"}
    assert client.get("/docs").status_code == 404  # FastAPI's own page loads foreign scripts


def test_tasks_say_what_they_read_and_can_do(client: TestClient, tiny_model: Any) -> None:
    found = client.get("/tasks").json()
    assert [task["name"] for task in found["tasks"]] == list(tiny_model.specs)
    by_name = {task["name"]: task for task in found["tasks"]}
    assert by_name["pair"]["roles"] == ["text", "text_pair"] and by_name["pair"]["explains"]
    assert by_name["where"]["roles"] == ["question", "context"]
    assert not by_name["where"]["explains"] and not by_name["single"]["abstains"]
    assert found["limits"] == {"texts": 4, "length": 100}


def test_heads_are_those_of_explain_heads(client: TestClient, tiny_model: Any) -> None:
    import brodmann as bm

    expected = bm.explain_heads(tiny_model, TEXT, task="single", label="1")
    found = client.post("/heads", json={"task": "single", "input": TEXT, "label": "1"}).json()
    np.testing.assert_allclose(found["gradients"], expected.gradients, rtol=1e-5)
    (layer, head), value = expected.top()[0]
    top = found["top"][0]
    assert (top["layer"], top["head"], top["value"]) == (layer, head, pytest.approx(value))
    assert top["sees"] == pytest.approx(expected.looks_at((layer, head)).mean(0), abs=1e-4)
    pair = client.post("/heads", json={"task": "pair", "input": ["a", "b"]}).json()
    assert "[SEP]" in pair["tokens"][1:-1]


def test_heads_that_cannot_be_explained_are_refused(client: TestClient) -> None:
    assert told(client, {"task": "value", "input": ["a", "b"]}, "/heads") == (
        422,
        "task 'value' is regression: heads are explained for classification",
    )
    assert told(client, {"input": "a"}, "/heads") == (422, "the field 'task' is missing")
    assert client.get("/atlas").status_code == 404  # a model in memory was not mapped


def test_health_and_metrics(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "alive"}
    assert client.get("/ready").json() == {"status": "ready"}
    for number in range(3):
        client.get(f"/unknown/{number}")
    text = client.get("/metrics").text
    assert 'brodmann_requests_total{path="/health",status="200"}' in text
    assert 'path="other",status="404"' in text and "/unknown/" not in text
    assert "brodmann_requests_under_way 0.0" in text
    assert "process_resident_memory_bytes" in text


def test_the_schema_describes_the_body(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    assert set(schema["paths"]) == {
        "/predict", "/heads", "/tasks", "/atlas", "/health", "/ready", "/metrics",
    }  # fmt: skip
    body = schema["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]
    assert set(body["schema"]["properties"]) == {
        "inputs", "input", "tasks", "abstain", "coverage",
    }  # fmt: skip


def test_the_page_allows_its_own_script_alone(client: TestClient) -> None:
    response = client.get("/")
    policy = response.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy and "http" not in policy
    assert "{{ s" not in response.text and "src=" not in response.text
    assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_a_key_is_asked_for(tiny_model: Any) -> None:
    web = app(TorchReader(tiny_model), key="secret ä")
    client = TestClient(web)
    for held in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}):
        response = client.post("/predict", json={"input": "a"}, headers=held)
        assert response.status_code == 401 and response.headers["WWW-Authenticate"] == "Bearer"
        assert response.json()["error"].startswith("expected the header Authorization")
        assert client.get("/metrics", headers=held).status_code == 401
        assert client.get("/tasks", headers=held).status_code == 401
        for path in ("/", "/health", "/ready", "/openapi.json"):
            assert client.get(path, headers=held).status_code == 200
    right = {"Authorization": "Bearer secret ä".encode()}
    assert client.post("/predict", json={"input": TEXT}, headers=right).status_code == 200
    web.state.work.close()


def test_a_local_server_answers_to_local_names_alone(tiny_model: Any) -> None:
    """A foreign page may let its name point to this machine, and then ask in its name."""
    web = app(TorchReader(tiny_model), hosts=LOOPBACK)
    client = TestClient(web)
    for host in ("localhost:8000", "127.0.0.1", "[::1]:80", "LOCALHOST"):
        assert client.get("/tasks", headers={"Host": host}).status_code == 200
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80"):
        assert client.get("/tasks", headers={"Host": host}).status_code == 400
    assert host_name("") == ""
    web.state.work.close()


class Slow(TorchReader):
    """Reads when it is told to."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.goes_on, self.started = threading.Event(), threading.Event()
        self.fails = False

    def read(self, *args: Any, **options: Any) -> Any:
        self.started.set()
        assert self.goes_on.wait(30)
        if self.fails:
            raise MemoryError("no more memory on device 7")
        return super().read(*args, **options)


def test_whoever_comes_when_it_is_full_is_turned_away(tiny_model: Any) -> None:
    reader = Slow(tiny_model)
    web = app(reader, limits=Limits(requests=2, seconds=30))
    client = TestClient(web)
    found: list[int] = []
    body = {"input": TEXT, "tasks": ["single"]}

    def ask() -> None:
        found.append(client.post("/predict", json=body).status_code)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    while web.state.answers.under_way < 2:
        threading.Event().wait(0.01)
    response = client.post("/predict", json=body)
    assert response.status_code == 503 and response.headers["Retry-After"] == "1"
    assert response.json() == {"error": "too many requests are under way: try again later"}
    assert client.get("/health").status_code == 200
    reader.goes_on.set()
    for thread in threads:
        thread.join()
    assert found == [200, 200]
    assert client.post("/predict", json=body).status_code == 200
    web.state.work.close()
    assert client.get("/ready").status_code == 503
    assert client.post("/predict", json=body).json() == {"error": "stopping: try again later"}


def test_an_answer_that_takes_too_long_is_given_up(tiny_model: Any) -> None:
    reader = Slow(tiny_model)
    web = app(reader, limits=Limits(seconds=0.2))
    client = TestClient(web)
    response = client.post("/predict", json={"input": TEXT})
    assert response.status_code == 504
    assert response.json()["error"].startswith("no answer within 0.2 seconds")
    reader.goes_on.set()
    web.state.work.close()
    assert web.state.answers.under_way == 0


def test_a_failure_inside_is_logged_and_not_shown(tiny_model: Any) -> None:
    reader = Slow(tiny_model)
    reader.fails = True
    reader.goes_on.set()
    web = app(reader)
    client = TestClient(web, raise_server_exceptions=False)
    response = client.post("/predict", json={"input": TEXT})
    assert (response.status_code, response.json()) == (500, {"error": WENT_WRONG})
    with pytest.raises(MemoryError):  # reaches the server, which logs it
        TestClient(web).post("/predict", json={"input": TEXT})
    reader.fails = False
    assert client.post("/predict", json={"input": TEXT}).status_code == 200
    web.state.work.close()


def test_the_application_can_be_mounted_elsewhere(tiny_model: Any) -> None:
    from fastapi import FastAPI

    mine = FastAPI()
    inner = app(TorchReader(tiny_model), key="k")
    mine.mount("/brodmann", inner)
    client = TestClient(mine)
    assert client.get("/brodmann/health").json() == {"status": "alive"}
    assert client.get("/brodmann/tasks").status_code == 401
    assert client.get("/brodmann/").text.startswith("<!doctype html>")
    inner.state.work.close()
