"""The keywords of `bm.load_task` for editors and type checkers; `description.py` declares them."""

from collections.abc import Mapping
from typing import Literal, TypeAlias, TypedDict

from brodmann.data.answers import AnswerRules
from brodmann.data.sources.table import Split
from brodmann.data.tag_schemes import TagScheme

Rows: TypeAlias = object  # a path or several, a list of dicts, a dict of lists, a frame, a Dataset
Columns: TypeAlias = str | list[str]


class TaskOptions(TypedDict, total=False):
    """Every key of a task's description but its name; a test compares it with the description."""

    use: str | None
    kind: str | None
    data: Rows
    train: Rows
    validation: Rows
    test: Rows
    hub: str | None
    hub_config: str | None
    hub_revision: str | None
    splits: Mapping[str, str] | None
    shape: str | None
    pair_of: str | Mapping[str, object] | None
    encoding: str
    text: Columns | None
    text_pair: Columns | None
    label: str | None
    set: str | None
    choices: Columns | None
    choice_names: str | None
    question: Columns | None
    context: str | None
    answer: str | None
    answer_start: str | None
    aliases: str | None
    tokens: str | None
    tags: str | None
    labels: list[str] | None
    separator: str
    skip_unlabelled: bool
    validation_share: float
    limit: int | Mapping[Split, int] | None
    metric: str | None
    metrics: list[str] | None
    tag_scheme: TagScheme | None
    misaligned: Literal["widen"] | None
    answer_rules: AnswerRules | None
    weight: float
    class_weights: Literal["balanced"] | Mapping[str, float] | None
    group: str | None
    language: str | None
    head: str | None
