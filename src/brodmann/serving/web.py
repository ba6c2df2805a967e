"""The application: what can be asked, at which address.

| | |
|---|---|
| `POST /predict` | answers to one or many inputs |
| `POST /heads` | which heads carried an answer (runs in torch) |
| `GET /tasks` | the tasks, what they read and what they can do |
| `GET /atlas` | the owners of the heads (runs that were mapped) |
| `GET /health`, `GET /ready` | the process lives; the model answers |
| `GET /metrics` | counts for Prometheus |
| `GET /openapi.json` | the schema of all this |
| `GET /` | the playground |
"""

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import Future
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

from brodmann.data.answering.answer_texts import (
    USUAL_BATCH,
    answer_tasks,
    check_readable,
    request_of,
)
from brodmann.data.answering.inputs import expected_input, text_roles
from brodmann.data.answering.reader import Reader
from brodmann.data.answering.rules import Wishes
from brodmann.data.kinds import KINDS
from brodmann.errors import InputError, visible
from brodmann.serving.door import Door
from brodmann.serving.incoming import (
    HeadQuestion,
    Limits,
    Question,
    RefusedError,
    check_input,
    inputs_of,
    read_question,
)
from brodmann.serving.micro_batches import USUAL_WAIT, MicroBatches
from brodmann.serving.monitoring import Monitor
from brodmann.serving.opening import Opened, Servable, opened
from brodmann.serving.playground import page_and_policy

WENT_WRONG = "the server failed to answer this request; its log has the reason"
RETRY_SECONDS = "1"
VERSION = version("brodmann")


class Application:
    """What the addresses do, for one model."""

    def __init__(self, served: Opened, limits: Limits, monitor: Monitor, work: MicroBatches):
        self.served, self.limits, self.monitor, self.work = served, limits, monitor, work
        self.under_way = 0
        self.page, self.policy = page_and_policy()

    @property
    def reader(self) -> Reader:
        return self.served.reader

    async def predict(self, request: Request) -> Response:
        return await self._admitted(self._predict, request)

    async def heads(self, request: Request) -> Response:
        return await self._admitted(self._heads, request)

    async def _admitted(self, answer: Callable[[Request], Any], request: Request) -> Response:
        """Answer if there is room: whoever is turned away has cost nothing."""
        if self.under_way >= self.limits.requests or not self.work.is_ready:
            reason = "too many requests are under way" if self.work.is_ready else "stopping"
            raise RefusedError(503, f"{reason}: try again later", {"Retry-After": RETRY_SECONDS})
        self.under_way += 1
        self.monitor.under_way.inc()
        try:
            return JSONResponse(await answer(request))
        finally:
            self.under_way -= 1
            self.monitor.under_way.dec()

    async def _predict(self, request: Request) -> dict[str, Any]:
        question = await read_question(request, Question, self.limits)
        inputs = inputs_of(question, self.limits)
        wishes = Wishes(question.abstain, question.coverage)
        asked = request_of(self.reader, question.tasks, wishes, self.work.batch)
        check_readable(self.reader, inputs, asked)
        answers = await self._waited(self.work.ask(inputs, asked))
        return {"answer": answers[0]} if question.inputs is None else {"answers": answers}

    async def _heads(self, request: Request) -> dict[str, Any]:
        explain = self.served.explain
        if explain is None:
            raise RefusedError(404, "an export does not know its heads: serve the run itself")
        question = await read_question(request, HeadQuestion, self.limits)
        check_input(question.input, "input", self.limits)
        found: dict[str, Any] = await self._waited(
            self.work.call(lambda: explain(question.task, question.input, question.label))
        )
        return found

    async def _waited(self, done: "Future[Any]") -> Any:
        try:
            # A future that is still in the queue is cancelled with the wait, and never read.
            return await asyncio.wait_for(asyncio.wrap_future(done), self.limits.seconds)
        except TimeoutError:
            raise RefusedError(
                504,
                f"no answer within {self.limits.seconds:g} seconds: ask for fewer texts at once",
            ) from None

    async def tasks(self) -> dict[str, Any]:
        """The tasks: what each reads, its labels, and what it can do."""
        return {
            "model": self.served.name,
            "version": VERSION,
            "tasks": [self._described(name) for name in self.reader.specs],
            "limits": {"texts": self.limits.texts, "length": self.limits.length},
            "atlas": self.served.atlas is not None,
        }

    def _described(self, name: str) -> dict[str, Any]:
        spec, rules = self.reader.specs[name], self.reader.rules.get(name)
        return {
            "name": name,
            "kind": spec.kind,
            "roles": text_roles(spec),
            "input": expected_input(spec),
            "labels": None if spec.labels is None else list(spec.labels),
            "language": spec.language,
            "abstains": rules is not None and rules.domain is not None,
            "covers": rules is not None and rules.surprises is not None,
            "has_sets": KINDS[spec.kind].region is not None,
            "explains": self.served.explain is not None and spec.kind == "classification",
        }

    async def atlas(self) -> dict[str, Any]:
        """The owner of each head: the task for which it holds the largest share of importance."""
        if self.served.atlas is None:
            raise RefusedError(404, "the heads of this model were not mapped: `brodmann map RUN`")
        return self.served.atlas

    async def health(self) -> dict[str, str]:
        """The process lives."""
        return {"status": "alive"}

    async def ready(self) -> Response:
        """The model is loaded and answers."""
        ready = self.work.is_ready
        return JSONResponse({"status": "ready" if ready else "stopping"}, 200 if ready else 503)

    async def metrics(self) -> Response:
        """Counts, as Prometheus reads them."""
        return Response(self.monitor.text(), media_type=self.monitor.content_type)

    async def playground(self) -> Response:
        return HTMLResponse(self.page, headers={"Content-Security-Policy": self.policy})


def app(
    model: "Servable | Opened",
    *,
    batch: int = USUAL_BATCH,
    wait: float = USUAL_WAIT,
    limits: Limits | None = None,
    key: str | None = None,
    hosts: Collection[str] | None = None,
) -> FastAPI:
    """A FastAPI application that answers with a model; mount it anywhere.

    `model` is a run, a model or export folder, a model in memory, or any reader. `batch` texts are
    read together; a reading waits at most `wait` seconds for as many texts as the last one had.
    With a `key`, requests need the header `Authorization: Bearer KEY`; `hosts` are the names in
    the Host header to answer to (default: all). The thread that reads ends with
    `app.state.work.close()`, or with the process.
    """
    if batch < 1:
        raise InputError(f"batch = {batch}: expected at least 1")
    if not 0 <= wait <= 1:
        raise InputError(f"wait = {wait:g}: expected seconds between 0 and 1")
    found = model if isinstance(model, Opened) else opened(model)
    monitor = Monitor()
    work = MicroBatches(
        lambda inputs, asked: answer_tasks(found.reader, inputs, asked),
        batch=batch,
        wait=wait,
        watch=monitor.read,
    )
    answers = Application(found, limits or Limits(), monitor, work)
    # FastAPI's own pages of documentation load scripts from a foreign server.
    web = FastAPI(title="Brodmann", version=VERSION, docs_url=None, redoc_url=None)
    web.state.work, web.state.answers = work, answers
    _add_routes(web, answers)
    _add_errors(web)
    paths = {getattr(route, "path", "/") for route in web.routes}
    web.add_middleware(Door, monitor=monitor, paths=paths, key=key, hosts=hosts)
    return web


def _add_routes(web: FastAPI, answers: Application) -> None:
    body = {"required": True}
    for path, call, form in (
        ("/predict", answers.predict, Question),
        ("/heads", answers.heads, HeadQuestion),
    ):
        content = {"application/json": {"schema": form.model_json_schema()}}
        web.add_api_route(
            path,
            call,
            methods=["POST"],
            summary=form.__doc__,
            response_class=JSONResponse,
            openapi_extra={"requestBody": body | {"content": content}},
            responses={status: {"description": text} for status, text in ERRORS.items()},
        )
    for path, get in (
        ("/tasks", answers.tasks),
        ("/atlas", answers.atlas),
        ("/health", answers.health),
        ("/ready", answers.ready),
    ):
        web.add_api_route(path, get, methods=["GET"], summary=get.__doc__)
    web.add_api_route("/metrics", answers.metrics, methods=["GET"], response_class=Response)
    web.add_api_route("/", answers.playground, methods=["GET"], include_in_schema=False)


ERRORS: dict[int | str, str] = {
    401: "the API key is missing or wrong",
    413: "the body is too large",
    422: "the question cannot be answered; `error` says why in one sentence",
    503: "too many requests are under way; `Retry-After` says when to try again",
    504: "no answer in time",
}


def _add_errors(web: FastAPI) -> None:
    """Every error is JSON with one sentence; no traceback leaves the server."""

    def refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, RefusedError)
        return _error(error.status, error.reason, error.headers)

    def wrong_input(_: Request, error: Exception) -> Response:
        return _error(422, " ".join(str(error).split()), {})

    def no_such_page(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _error(error.status_code, str(error.detail), dict(error.headers or {}))

    def failed(_: Request, error: Exception) -> Response:
        return _error(500, WENT_WRONG, {})  # the server logs the error itself

    web.add_exception_handler(RefusedError, refused)
    web.add_exception_handler(InputError, wrong_input)
    web.add_exception_handler(HTTPException, no_such_page)
    web.add_exception_handler(Exception, failed)


def _error(status: int, reason: str, headers: dict[str, str]) -> Response:
    return JSONResponse({"error": visible(reason)}, status, headers)
