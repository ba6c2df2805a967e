"""The description of a task: in a configuration, in its own file, or as keyword arguments.

One schema serves all three, so that a wrong key gets the same error everywhere.
"""

from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from brodmann.data.answers import AnswerRules
from brodmann.data.schema import PositiveInt, Section
from brodmann.data.sources.table import SPLITS, Split
from brodmann.data.tag_schemes import TagScheme

Columns = str | list[str]
HUB_KEYS = ("hub", "hub_config", "hub_revision")


class TaskDescription(Section):
    """Location of a task's examples, meaning of their columns, and how the task counts."""

    in_memory: ClassVar[tuple[str, ...]] = ("data", *SPLITS)

    use: str | None = Field(None, description="a named task to start from, e.g. builtin/sentiment")
    name: str | None = Field(None, description="name of the task in scores, files and predict")
    kind: str | None = Field(None, description="kind of task: classification, regression, ...")

    data: Any = Field(None, description="file with all examples, or a folder of splits")
    train: Any = Field(None, description="file (or list, or pattern) of training examples")
    validation: Any = Field(None, description="the same for the validation examples")
    test: Any = Field(None, description="the same for the test examples")
    hub: str | None = Field(None, description="dataset id of the Hugging Face hub")
    hub_config: str | None = Field(None, description="configuration of the hub dataset")
    hub_revision: str | None = Field(None, description="commit, tag or branch of the hub dataset")
    splits: dict[str, str] | None = Field(
        None, description='split here = split of the source, e.g. { validation = "dev" }'
    )
    shape: str | None = Field(
        None, description="how to read rows of special datasets: wic, copa, ..."
    )
    pair_of: Any = Field(None, description="a classification task: do two texts share a class?")
    encoding: str = Field("utf-8", description="character encoding of the text files")

    text: Columns | None = Field(None, description="column; several are joined by a space")
    text_pair: Columns | None = Field(None, description="column of the second text")
    label: str | None = Field(None, description="column of the label or value")
    set: str | None = Field(
        None, description="column that groups examples scored together (as in MultiRC)"
    )
    choices: Columns | None = Field(None, description="a column with a list, or several columns")
    choice_names: str | None = Field(
        None, description="column of the names that answers give to choices"
    )
    question: Columns | None = Field(None, description="column of the question")
    context: str | None = Field(None, description="column of the text that holds the answer")
    answer: str | None = Field(
        None, description="column of the answer: text, or the hub's {text, answer_start}"
    )
    answer_start: str | None = Field(
        None, description="column of the answer's first character in the context, from 0"
    )
    aliases: str | None = Field(
        None, description="column of right answers that need not be in the context"
    )
    tokens: str | None = Field(None, description="column of the list of words, or of the text")
    tags: str | None = Field(
        None, description="column of the list of tags, one per word, or of character spans"
    )

    labels: list[str] | None = Field(
        None, description="label names in order; default: found in the data"
    )
    separator: str = Field(
        "|", min_length=1, description="separates the labels of a multi-label cell"
    )
    skip_unlabelled: bool = Field(False, description="leave out rows with an empty label")
    validation_share: float = Field(
        0.1, gt=0, lt=1, description="share held out if there is no validation set"
    )
    limit: PositiveInt | dict[Split, PositiveInt] | None = Field(
        None, description="number of training examples to use, or a table: split = number"
    )

    metric: str | None = Field(None, description="the primary metric")
    metrics: list[str] | None = Field(None, description="metrics to show; the first is primary")
    tag_scheme: TagScheme | None = Field(
        None, description="scheme of the tags in the data; converted to BIO and checked"
    )
    misaligned: Literal["widen"] | None = Field(
        None, description="widen: a character span that cuts a word tags the whole word"
    )
    answer_rules: AnswerRules | None = Field(
        None, description="how answers are compared; default: by language"
    )
    weight: float = Field(1.0, gt=0, description="multiplies the task's loss")
    class_weights: Literal["balanced"] | dict[str, float] | None = Field(
        None, description="weight of each label in the loss; balanced: inverse to its frequency"
    )
    group: str | None = Field(None, description="a family of tasks, for clusters")
    language: str | None = Field(None, description="language code of the texts, e.g. en")
    head: str | None = Field(
        None, min_length=1, description="an output head shared with tasks that name the same"
    )

    @property
    def has_files(self) -> bool:
        """Whether the description itself names the files with the rows."""
        return any(getattr(self, key) is not None for key in self.in_memory)

    @property
    def asks_hub(self) -> bool:
        """Whether the description names a dataset of the hub, or another version of one."""
        return any(getattr(self, key) for key in HUB_KEYS)

    def limit_of(self, split: str) -> int | None:
        """The limit of a split: a number limits the training examples, a table names the splits."""
        if isinstance(self.limit, dict):
            # validation_mismatched is limited as validation is
            return {str(name): n for name, n in self.limit.items()}.get(split.partition("_")[0])
        return self.limit if split == "train" else None

    @field_validator("labels")
    @classmethod
    def _labels_are_distinct(cls, labels: list[str] | None) -> list[str] | None:
        if labels is not None and len(set(labels)) < len(labels):
            raise ValueError("a label name occurs twice")
        if labels is not None and len(labels) < 2:
            raise ValueError("expected at least two label names")
        return labels

    @field_validator("splits")
    @classmethod
    def _splits_are_ours(cls, splits: dict[str, str] | None) -> dict[str, str] | None:
        for split in splits or {}:
            if split not in SPLITS and not split.startswith(("validation_", "test_")):
                raise ValueError(
                    f"'{split}' is not a split: expected train, validation, test, or further ones "
                    "such as validation_dialect"
                )
        return splits

    @field_validator("class_weights")
    @classmethod
    def _weights_are_positive(cls, weights: Any) -> Any:
        if isinstance(weights, dict) and any(not weight > 0 for weight in weights.values()):
            raise ValueError("every class weight must be above 0")
        return weights
