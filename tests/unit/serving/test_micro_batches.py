"""The queue in front of the model: what is read together, what fails alone, and how it ends."""

import threading
import time
from concurrent.futures import wait
from typing import Any

import pytest

from brodmann.serving.micro_batches import MicroBatches


class Model:
    """Doubles numbers, as slowly as it is told, and remembers what it read together."""

    def __init__(self) -> None:
        self.read: list[tuple[list[Any], Any]] = []
        self.goes_on = threading.Event()
        self.started = threading.Event()
        self.goes_on.set()

    def __call__(self, inputs: list[Any], asked: Any) -> list[Any]:
        self.started.set()
        self.goes_on.wait(10)
        self.read.append((inputs, asked))
        if "broken" in inputs:
            raise ValueError("broken")
        return [(asked, 2 * number) for number in inputs]

    def hold(self) -> None:
        self.goes_on.clear()
        self.started.clear()


@pytest.fixture
def model() -> Model:
    return Model()


def held(model: Model, **options: Any) -> MicroBatches:
    """A queue whose thread is busy with a first job."""
    model.hold()
    work = MicroBatches(model, **options)
    work.ask([0], "first")
    assert model.started.wait(10)
    return work


def test_jobs_that_gather_while_the_model_reads_are_read_together(model: Model) -> None:
    work = held(model, batch=8)
    found = [work.ask([number], "a") for number in range(5)]
    model.goes_on.set()
    assert [one.result(10) for one in found] == [[("a", 2 * number)] for number in range(5)]
    assert model.read == [([0], "first"), ([0, 1, 2, 3, 4], "a")]
    work.close()


def test_a_reading_holds_only_equal_questions_and_at_most_a_batch(model: Model) -> None:
    work = held(model, batch=4)
    asked = [([1, 2], "a"), ([3], "b"), ([4, 5], "a"), ([6], "a"), ([7, 8, 9, 10, 11], "b")]
    found = [work.ask(*one) for one in asked]
    model.goes_on.set()
    for (inputs, key), one in zip(asked, found, strict=True):
        assert one.result(10) == [(key, 2 * number) for number in inputs]
    assert model.read[1:] == [
        ([1, 2, 4, 5], "a"),
        ([3], "b"),
        ([6], "a"),
        ([7, 8, 9, 10, 11], "b"),  # larger than a batch: alone, the reader divides it
    ]
    work.close()


def test_only_the_job_that_cannot_be_read_fails(model: Model) -> None:
    work = held(model, batch=8)
    found = [work.ask(inputs, "a") for inputs in ([1], ["broken"], [2])]
    model.goes_on.set()
    assert found[0].result(10) == [("a", 2)] and found[2].result(10) == [("a", 4)]
    with pytest.raises(ValueError, match=r"^broken$"):
        found[1].result(10)
    assert work.ask([3], "a").result(10) == [("a", 6)]  # the thread goes on
    work.close()


def test_a_job_that_was_given_up_is_never_read(model: Model) -> None:
    work = held(model)
    given_up, kept = work.ask([1], "a"), work.ask([2], "a")
    assert given_up.cancel()
    model.goes_on.set()
    assert kept.result(10) == [("a", 4)]
    assert model.read[1:] == [([2], "a")]
    work.close()


def test_a_call_has_the_model_to_itself(model: Model) -> None:
    work = held(model, batch=8)
    before, alone, after = work.ask([1], "a"), work.call(lambda: 5), work.ask([2], "a")
    threads = work.call(lambda: threading.current_thread().name)
    model.goes_on.set()
    assert alone.result(10) == 5 and threads.result(10) == "brodmann-reader"
    assert before.result(10) + after.result(10) == [("a", 2), ("a", 4)]
    work.close()


def test_an_error_of_a_call_belongs_to_its_caller(model: Model) -> None:
    work = MicroBatches(model)
    with pytest.raises(ZeroDivisionError):
        work.call(lambda: 1 // 0).result(10)
    assert work.is_ready
    work.close()


def test_a_reading_waits_for_as_many_texts_as_the_last_one_had(model: Model) -> None:
    work = MicroBatches(model, batch=8, wait=30)
    begin = time.monotonic()
    work.ask([1], "a").result(10)
    work.ask([1, 2], "a").result(10)  # nobody waits after a single text
    found = [work.ask([3], "a"), work.ask([4], "a")]
    assert [one.result(10) for one in found] == [[("a", 6)], [("a", 8)]]
    assert model.read == [([1], "a"), ([1, 2], "a"), ([3, 4], "a")]
    work.ask([1, 2, 3, 4, 5, 6, 7, 8, 9], "a").result(10)
    work.ask([1, 2, 3, 4, 5, 6, 7, 8], "a").result(10)  # a batch is enough
    work.call(lambda: None).result(10)  # a call waits for nobody
    assert time.monotonic() - begin < 10
    work.close()


def test_a_reading_waits_no_longer_than_it_may(model: Model) -> None:
    work = MicroBatches(model, batch=8, wait=0.05)
    work.ask([1, 2], "a").result(10)
    assert work.ask([3], "a").result(10) == [("a", 6)]
    work.close()


def test_closing_answers_what_waits_and_takes_no_more(model: Model) -> None:
    work = held(model)
    found = [work.ask([number], number) for number in range(4)]
    threading.Timer(0.1, model.goes_on.set).start()
    work.close()
    assert not wait(found, timeout=0).not_done
    assert not work.is_ready
    with pytest.raises(RuntimeError, match=r"^closed: no more jobs are taken$"):
        work.ask([1], "a")


def test_watchers_hear_of_every_reading(model: Model) -> None:
    seen: list[tuple[int, float]] = []
    work = MicroBatches(model, watch=lambda texts, seconds: seen.append((texts, seconds)))
    work.ask([1, 2, 3], "a").result(10)
    work.close()
    assert [texts for texts, _ in seen] == [3] and 0 <= seen[0][1] < 10
