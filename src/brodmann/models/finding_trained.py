"""Find a trained model by what the user calls it: a folder, a run, or an id on the hub.

From the hub come the files that are read and no others: weights in safetensors, JSON and the
tokenizer's text files of the repository's root. Pickles and Python code are never downloaded.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from brodmann.data.sources.hub import bars_on_terminals, is_hub_id, without_waiting
from brodmann.errors import InputError
from brodmann.files import CHECKSUMS, damage_in
from brodmann.models.backbone.foreign import reason_of
from brodmann.models.saving import FILES, is_model_folder, refuse_export

READ = ("*.safetensors", "*.json", "*.txt", "*.jinja", "*.model")
LOG_IN = "log in with `hf auth login`, or set HF_TOKEN"


def folder_of_trained(
    name: str | Path, revision: str | None, token: str | bool | None, *, tasks_given: bool
) -> Path | None:
    """The folder of the trained model of this name; None if `tasks` make it a backbone's name."""
    folder = Path(name)
    for place in (folder, folder / "model"):  # a model folder, a run folder
        if is_model_folder(place):
            if revision is not None:
                raise InputError(
                    f"{name}: revision = '{revision}': only models on the hub have revisions, and "
                    "this is a folder"
                )
            found = place
            break
    else:
        if tasks_given:
            return None
        repo_id = name if isinstance(name, str) else name.as_posix()
        if folder.exists() or not is_repository(repo_id):
            refuse_export(folder)
            raise InputError(f"{name}: not a trained multi-task model: give the tasks to build one")
        return download(repo_id, revision, token)
    if tasks_given:
        raise InputError(f"{name}: a trained model already has its tasks: leave 'tasks' out")
    return found


def is_repository(name: str) -> bool:
    """Whether this may be the id of a model on the hub: `user/name`."""
    return name.count("/") == 1 and is_hub_id(name)


def download(repo_id: str, revision: str | None, token: str | bool | None) -> Path:
    """The folder with the repository's files in the hub's cache, downloaded if they are not there.

    The configuration comes first: the weights of another kind of model are not downloaded.
    """
    from huggingface_hub import hf_hub_download, snapshot_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    with reading_hub(repo_id, revision), without_waiting(), bars_on_terminals():
        try:
            config = hf_hub_download(repo_id, "config.json", revision=revision, token=token)
        except LocalEntryNotFoundError:
            raise
        except EntryNotFoundError:
            raise InputError(
                f"{repo_id}: not a trained multi-task model (it has no config.json): give the "
                "tasks to build one"
            ) from None
        folder = Path(config).parent
        if not is_model_folder(folder):
            raise InputError(
                f"{repo_id}: not a trained multi-task model: give the tasks to build one"
            )
        snapshot_download(
            repo_id,
            revision=folder.name,  # its commit: all files are of one moment
            token=token,
            allow_patterns=list(READ),
            ignore_patterns=["*/*"],
        )
    if (folder / CHECKSUMS).is_file() and (damage := damage_in(folder, FILES)) is not None:
        raise InputError(
            f"{repo_id}: {damage[0]}: {damage[1]}: remove {folder.parent.parent} to download it "
            "again; if that does not help, the repository itself is damaged"
        )
    return folder


@contextlib.contextmanager
def reading_hub(repo_id: str, revision: str | None) -> Iterator[None]:
    """Turn whatever fails on the way to the hub into one line about this repository."""
    from huggingface_hub import is_offline_mode
    from huggingface_hub.errors import (
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        yield
    except RevisionNotFoundError as error:
        raise InputError(f"{repo_id}: has no revision '{revision}' on the hub") from error
    except RepositoryNotFoundError as error:
        raise InputError(
            f"{repo_id}: no such folder, and no such model on the hub that you may read: if it is "
            f"private, {LOG_IN}"
        ) from error
    except LocalEntryNotFoundError as error:
        why = "is switched off (HF_HUB_OFFLINE)" if is_offline_mode() else "cannot be reached"
        at = f" at revision '{revision}'" if revision else ""
        raise InputError(
            f"{repo_id}: no such folder, not in the cache of this machine{at}, and the hub {why}"
        ) from error
    except HfHubHTTPError as error:
        if error.response.status_code == 401:
            raise InputError(f"{repo_id}: the hub does not know the token: {LOG_IN}") from error
        raise InputError(f"{repo_id}: the hub refused to send it ({reason_of(error)})") from error
    except (InputError, OSError):
        raise
    except Exception as error:  # the clients below the hub's raise what they like
        raise InputError(f"{repo_id}: could not be downloaded ({reason_of(error)})") from error
