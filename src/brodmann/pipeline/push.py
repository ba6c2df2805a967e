"""Upload a run's model to the hub, with a card made of what the run has measured."""

import tempfile
from pathlib import Path

from brodmann.files import read_json
from brodmann.models.card_metadata import CardFacts
from brodmann.pipeline.map import DISSOCIATION, FILE
from brodmann.results import Dissociation, HeadScores


def push(
    source: Path,
    repo_id: str,
    *,
    private: bool = True,
    token: str | bool | None = None,
    revision: str | None = None,
    message: str | None = None,
    licence: str | None = None,
) -> str:
    """Upload the model of a run or model folder; return the commit's address."""
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.models.publishing import PICTURE, check_access
    from brodmann.models.publishing import push as upload
    from brodmann.reporting.figures import plot

    check_access(repo_id, token)
    model = MultiTaskModel.from_pretrained(source, device="cpu")
    heads = HeadScores.load(source / FILE) if (source / FILE).is_file() else None
    with tempfile.TemporaryDirectory() as scratch:
        picture = Path(scratch) / PICTURE
        if heads is not None:
            plot(heads, picture)
        return upload(
            model,
            repo_id,
            facts_of_run(source, heads, licence),
            private=private,
            token=token,
            revision=revision,
            message=message,
            picture=picture if heads is not None else None,
        )


def facts_of_run(folder: Path, heads: HeadScores | None, licence: str | None) -> CardFacts:
    """What the run folder tells about its model; nothing if it is a model folder."""
    splits, sizes = {}, {}
    if (folder / "metrics.json").is_file():
        splits = read_json(folder / "metrics.json", splits=dict)["splits"]
    if (folder / "provenance.json").is_file():
        data = read_json(folder / "provenance.json", data=dict)["data"]
        sizes = {task: entry["sizes"]["train"] for task, entry in data.items()}
    mean = None
    if heads is not None and (folder / DISSOCIATION).is_file():
        found = Dissociation.load(folder / DISSOCIATION)
        mean = found.mean if found.is_of(heads) else None
    return CardFacts(splits, sizes, mean, licence=licence)
