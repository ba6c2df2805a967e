"""The body of a request: read within limits, checked, and turned into what is asked.

Whatever is wrong with it becomes a `RefusedError`: a status and one sentence.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema
from starlette.requests import ClientDisconnect, Request

from brodmann.data.tasks import is_text
from brodmann.errors import did_you_mean

INPUT = {
    "title": "a text, a pair of texts or list of words, or a row with the columns of the tasks",
    "anyOf": [{"type": "string"}, {"type": "array"}, {"type": "object"}],
}
Input = Annotated[Any, WithJsonSchema(INPUT)]


@dataclass(frozen=True)
class Limits:
    """What one request may ask, and how many may be under way."""

    texts: int = 256  # inputs per request
    length: int = 20_000  # characters per text
    body: int = 1_000_000  # bytes per request
    requests: int = 256  # under way at once
    seconds: float = 30.0  # to send a body, and to wait for an answer


CLOSE = {"Connection": "close"}
SWALLOWED = 16  # times the limit: so much of a body that is too large is read
EXPECTED = {  # pydantic's types of errors
    "too_short": "at least one entry",
    "list_type": "a list",
    "string_type": "a text",
    "float_type": "a number",
}


class RefusedError(Exception):
    """A request that is not answered: its status, and the reason in one sentence."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason, self.headers = status, reason, dict(headers or {})


class Question(BaseModel):
    """What is asked of the tasks: `inputs`, or one `input`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    inputs: Annotated[list[Input] | None, Field(min_length=1, description="several inputs")] = None
    input: Annotated[Input | None, Field(description="one input, instead of `inputs`")] = None
    tasks: Annotated[
        list[str] | None, Field(min_length=1, description="tasks to ask; default: all that fit")
    ] = None
    abstain: Annotated[
        float | None, Field(description="no answer to texts more unusual than this, such as 0.05")
    ] = None
    coverage: Annotated[
        float | None, Field(description="add sets and intervals that are right this often")
    ] = None


class HeadQuestion(BaseModel):
    """Which heads carried one task's answer to one input."""

    model_config = ConfigDict(extra="forbid", strict=True)

    task: str
    input: Input
    label: Annotated[str | None, Field(description="default: the most probable one")] = None


Asked = TypeVar("Asked", Question, HeadQuestion)


async def read_question(request: Request, form: type[Asked], limits: Limits) -> Asked:
    """The question in a request's body."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RefusedError(415, "expected JSON with the header Content-Type: application/json")
    try:
        async with asyncio.timeout(limits.seconds):
            body = await _read_body(request, limits.body)
    except TimeoutError:
        raise RefusedError(
            408, f"the body did not arrive within {limits.seconds:g} seconds", CLOSE
        ) from None
    except ClientDisconnect:
        raise RefusedError(400, "the connection was closed before the body arrived") from None
    return parsed(body, form)


async def _read_body(request: Request, most: int) -> bytes:
    """The body; of one that is too large, the rest is read and dropped.

    A client that is still sending when its connection is closed would not see the answer. Only of
    bodies that are larger by far is the rest not read.
    """
    size, body = 0, bytearray()
    async for chunk in request.stream():
        size += len(chunk)
        if size <= most:
            body += chunk
        elif size > SWALLOWED * most:
            break
    if size > most:
        raise RefusedError(
            413, f"the body is larger than {most:,} bytes: send fewer texts at once", CLOSE
        )
    return bytes(body)


def parsed(body: bytes, form: type[Asked]) -> Asked:
    """Parse and check the form of a question."""
    try:
        document = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:  # covers text that is not UTF-8
        raise RefusedError(422, f"the body is not JSON ({_first_line(error)})") from None
    if not isinstance(document, dict):
        raise RefusedError(422, 'the body: expected a JSON object, such as {"inputs": ["..."]}')
    try:
        return form.model_validate(document)
    except ValidationError as error:
        raise RefusedError(422, _sentence(error, form)) from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _first_line(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return str(error).partition("\n")[0][:200]


def _sentence(error: ValidationError, form: type[BaseModel]) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"unknown field '{place:.60}'{did_you_mean(place, form.model_fields)}"
    if first["type"] == "missing":
        return f"the field '{place}' is missing"
    wanted = EXPECTED.get(first["type"])
    if wanted is None:
        return f"{place}: {first['msg'][:200]}"
    return f"{place}: expected {wanted}, found {json.dumps(first['input']):.60}"


def inputs_of(question: Question, limits: Limits) -> list[Any]:
    """The inputs, not more and not longer than the limits allow."""
    if (question.inputs is None) == (question.input is None):
        raise RefusedError(422, "expected one of the fields 'inputs' (a list) and 'input' (one)")
    inputs = [question.input] if question.inputs is None else question.inputs
    if len(inputs) > limits.texts:
        raise RefusedError(
            422, f"{len(inputs):,} inputs: at most {limits.texts:,} are answered per request"
        )
    for place, entry in enumerate(inputs):
        check_input(entry, f"input {place + 1}", limits)
    return inputs


def check_input(entry: Any, name: str, limits: Limits) -> None:
    """Raise RefusedError if an input is of another type, or a text in it is too long or broken."""
    if not isinstance(entry, str | list | dict):
        raise RefusedError(
            422, f"{name}: expected a text, a list or an object, found {json.dumps(entry):.60}"
        )
    total = 0
    for text in _texts(entry):
        total += len(text)
        if not is_text(text):
            raise RefusedError(422, f"{name}: contains half a character (a lone surrogate)")
    if total > limits.length:
        raise RefusedError(
            422, f"{name}: {total:,} characters: at most {limits.length:,} are read per text"
        )


def _texts(value: Any) -> Iterator[str]:
    """Every text inside an input, names of columns included; without recursion."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, str):
            yield found
        elif isinstance(found, dict):
            waiting += [*found, *found.values()]
        elif isinstance(found, list):
            waiting += found
