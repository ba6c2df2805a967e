"""`predict` and `predict_all`, which a trained model and an exported package share."""

from collections.abc import Sequence
from typing import TypeVar, overload

from brodmann.data.answer_types import Answer, Input
from brodmann.data.answering.answer_texts import USUAL_BATCH, answer_task, answer_tasks, request_of
from brodmann.data.answering.reader import Reader
from brodmann.data.answering.rules import Wishes

Frame = TypeVar("Frame")  # of pandas or polars, or a Dataset: what comes back is of the same type


class Predicts:
    """Answers by its `reader`."""

    def reader(self) -> Reader:
        """What encodes and reads texts for it."""
        raise NotImplementedError

    @overload
    def predict(
        self,
        task: str,
        texts: Sequence[Input],
        *,
        abstain: float | None = None,
        coverage: float | None = None,
        batch_size: int = USUAL_BATCH,
    ) -> list[Answer]: ...
    @overload
    def predict(
        self,
        task: str,
        texts: Frame,
        *,
        abstain: float | None = None,
        coverage: float | None = None,
        batch_size: int = USUAL_BATCH,
    ) -> Frame: ...
    def predict(
        self,
        task: str,
        texts: object,
        *,
        abstain: float | None = None,
        coverage: float | None = None,
        batch_size: int = USUAL_BATCH,
    ) -> object:
        """Answer texts for one task: labels with probabilities, values, spans or entities.

        `texts` holds strings, pairs (tuples) or dicts with the task's columns: a list of dicts is
        returned. A frame or Dataset is returned with the columns `<task>.answer`, `<task>.score`
        and those that rules add. After `bm.calibrate`, texts whose `in_domain` is below `abstain`
        get no answer, and `coverage` adds the set or interval that is right this often.
        """
        reader, wishes = self.reader(), Wishes(abstain, coverage)
        return answer_task(reader, texts, request_of(reader, [task], wishes, batch_size))

    @overload
    def predict_all(
        self,
        texts: Sequence[Input],
        *,
        tasks: Sequence[str] | None = None,
        abstain: float | None = None,
        coverage: float | None = None,
        batch_size: int = USUAL_BATCH,
    ) -> list[dict[str, Answer]]: ...
    @overload
    def predict_all(
        self,
        texts: Frame,
        *,
        tasks: Sequence[str] | None = None,
        abstain: float | None = None,
        coverage: float | None = None,
        batch_size: int = USUAL_BATCH,
    ) -> Frame: ...
    def predict_all(
        self,
        texts: object,
        *,
        tasks: Sequence[str] | None = None,
        abstain: float | None = None,
        coverage: float | None = None,
        batch_size: int = USUAL_BATCH,
    ) -> object:
        """Answer texts for every task that can read them, in one pass if they share the encoder."""
        reader, wishes = self.reader(), Wishes(abstain, coverage)
        return answer_tasks(reader, texts, request_of(reader, tasks, wishes, batch_size))
