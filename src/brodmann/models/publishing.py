"""Upload a trained model to the hub, as a repository of its own."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brodmann.data.sources.hub import bars_on_terminals, is_in_reach
from brodmann.errors import InputError, note
from brodmann.files import CHECKSUMS, read_json
from brodmann.models.backbone.foreign import reason_of
from brodmann.models.card_metadata import CardFacts
from brodmann.models.finding_trained import LOG_IN, is_repository
from brodmann.models.saving import is_model_folder, save_model

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel

PICTURE = "head_map.png"
MESSAGE = "Upload a multi-task model"


def push(
    model: "MultiTaskModel",
    repo_id: str,
    facts: CardFacts,
    *,
    private: bool = True,
    token: str | bool | None = None,
    revision: str | None = None,
    message: str | None = None,
    picture: Path | None = None,
) -> str:
    """Upload the model's folder in one commit and return the commit's address.

    Files of an earlier upload that the model no longer has are removed in the same commit.
    """
    from dataclasses import replace

    from huggingface_hub import HfApi

    check_access(repo_id, token)
    api = HfApi(token=token)
    with writing_hub(repo_id), bars_on_terminals(), tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        shown = picture.name if picture else ""
        save_model(model, folder, replace(facts, place=repo_id, picture=shown), published=True)
        if picture is not None:
            (folder / shown).write_bytes(picture.read_bytes())
        _make_room(api, repo_id, private)
        if revision is not None:
            api.create_branch(repo_id, branch=revision, exist_ok=True)
            _make_room(api, repo_id, private, revision)
        done = api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            revision=revision,
            commit_message=message or MESSAGE,
            delete_patterns=_written_before(api, repo_id, revision),
        )
    return str(done.commit_url)


def check_access(repo_id: str, token: str | bool | None) -> None:
    """Raise InputError for what would stop the upload, before any work is done."""
    from huggingface_hub import constants, get_token

    if not is_repository(repo_id):
        raise InputError(f"'{repo_id}': not a repository of the hub, expected user/name")
    if constants.HF_HUB_OFFLINE:
        raise InputError(f"{repo_id}: not uploaded: the hub is switched off (HF_HUB_OFFLINE)")
    if token is False or (not isinstance(token, str) and get_token() is None):
        raise InputError(f"{repo_id}: uploading needs a token with the right to write: {LOG_IN}")
    if not is_in_reach(constants.ENDPOINT):
        raise InputError(f"{repo_id}: not uploaded: {constants.ENDPOINT} cannot be reached")


def _make_room(api: Any, repo_id: str, private: bool, revision: str | None = None) -> None:
    """Create the repository, or check that an existing one holds a model of ours or nothing."""
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        there = api.model_info(repo_id, revision=revision)
    except RepositoryNotFoundError:
        api.create_repo(repo_id, private=private)
        return
    names = {one.rfilename for one in there.siblings or ()}
    foreign = sorted(names - {".gitattributes", "README.md", "LICENSE"})
    if foreign and not ("config.json" in names and _is_ours(api, repo_id, revision)):
        raise InputError(
            f"{repo_id}: already contains other files ({foreign[0]}): upload to a new repository"
        )
    if private and not there.private and revision is None:
        note(f"{repo_id} already exists and is public")


def _is_ours(api: Any, repo_id: str, revision: str | None) -> bool:
    config = api.hf_hub_download(repo_id, "config.json", revision=revision)
    return is_model_folder(Path(config).parent)


def _written_before(api: Any, repo_id: str, revision: str | None) -> list[str]:
    """The files of an earlier upload, by its checksums: nothing else is removed."""
    there = api.model_info(repo_id, revision=revision)
    names = {one.rfilename for one in there.siblings or ()}
    if CHECKSUMS not in names:
        return []
    place = api.hf_hub_download(repo_id, CHECKSUMS, revision=revision)
    known = read_json(Path(place), files=dict)["files"]
    return [*(name for name in known if "/" not in name and name in names), PICTURE]


@contextlib.contextmanager
def writing_hub(repo_id: str) -> Iterator[None]:
    """Turn whatever the hub refuses into one line about this repository."""
    from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

    try:
        yield
    except HfHubHTTPError as error:
        code = error.response.status_code
        if code == 401 and not isinstance(error, RepositoryNotFoundError):
            raise InputError(
                f"{repo_id}: not uploaded: the hub does not know the token: {LOG_IN}"
            ) from error
        if code in (401, 403, 404):
            raise InputError(
                f"{repo_id}: not uploaded: the token may not write there: use a repository of "
                "your own, or a token with the right to write"
            ) from error
        raise InputError(f"{repo_id}: not uploaded ({reason_of(error)})") from error
    except (InputError, OSError):
        raise
    except Exception as error:  # the clients below the hub's raise what they like
        raise InputError(f"{repo_id}: not uploaded ({reason_of(error)})") from error
