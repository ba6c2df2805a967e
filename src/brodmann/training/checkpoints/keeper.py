"""Files that a training run keeps while it runs: checkpoints, the best weights, the log.

Without a folder, the best weights stay in memory and nothing is written.
"""

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from brodmann.errors import InputError
from brodmann.files import (
    append_lines,
    checksum,
    read_json,
    read_lines,
    sweep_leftovers,
    write_text,
)
from brodmann.text import size
from brodmann.training.checkpoints import checkpoint
from brodmann.training.checkpoints.checkpoint import BRANCH


class Keeper:
    """Saves and restores a run; only the main process writes, every process reads."""

    def __init__(
        self,
        folder: Path | None,
        *,
        keep: int,
        fingerprint: str,
        main: bool,
        say: Callable[[str], None],
        plain_fingerprint: str = "",
    ) -> None:
        self.folder = None if folder is None else folder / "checkpoints"
        self.log_path = None if folder is None else folder / "log.jsonl"
        self.keep, self.fingerprint, self.main, self.say = keep, fingerprint, main, say
        self.plain_fingerprint = plain_fingerprint
        self.best: dict[str, Tensor] | None = None
        self.best_file: dict[str, Any] | None = None  # its step and checksum
        self.newest: Path | None = None
        if self.folder is not None and main:
            self.folder.mkdir(parents=True, exist_ok=True)
            sweep_leftovers(self.folder)

    def check_space(self, model: nn.Module) -> None:
        """Raise InputError at the start if the disk cannot hold the checkpoints."""
        if self.folder is None or not self.main:
            return
        needed = checkpoint.disk_space(model, self.keep).peak
        held = sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())
        free = shutil.disk_usage(self.folder).free + held
        if free < needed:
            raise InputError(
                f"{self.folder}: the run needs about {size(needed)} for checkpoints and "
                f"the model, {size(free)} are free: free some, or set another 'output'"
            )

    def find(self) -> dict[str, Any] | None:
        """State of the newest intact checkpoint; InputError if it belongs to another run."""
        if self.folder is None:
            return None
        self.newest = checkpoint.newest_checkpoint(self.folder, self.say)
        if self.newest is None:
            return None
        state = read_json(self.newest / "state.json")
        if state["fingerprint"] != self.fingerprint:
            written = state.get("format", 1)  # the first format did not say so
            if written != checkpoint.STATE_FORMAT:
                raise InputError(
                    f"{self.newest}: has checkpoint format {written}, and this version resumes "
                    f"only format {checkpoint.STATE_FORMAT}: finish the run with the version that "
                    "began it, or use another folder or name, or remove it"
                )
            raise InputError(
                f"{self.newest}: was written with other settings, data, start or number of "
                "processes: use another folder or name, or remove it"
            )
        if state["threads"] != torch.get_num_threads():
            self.say(
                f"the checkpoint was written with {state['threads']} threads, now there are "
                f"{torch.get_num_threads()}: results can differ in the last bits"
            )
        self.best_file = state["best"]
        return state

    def find_branch(self, folder: Path, step: int) -> dict[str, Any] | None:
        """State of another run's checkpoint at that step, if its steps so far equal this run's."""
        place = folder / "checkpoints" / BRANCH / checkpoint.folder_name(step)
        if not place.is_dir():
            self.say(f"{folder}: no branch at step {step}: training from the beginning")
            return None
        if (damage := checkpoint.damage_of(place)) is not None:
            self.say(f"{place}: damaged ({damage}): training from the beginning")
            return None
        self.newest = place
        state = read_json(self.newest / "state.json")
        if state["plain_fingerprint"] != self.plain_fingerprint:
            self.say(f"{self.newest}: other settings or data: training from the beginning")
            self.newest = None
            return None
        return state

    def restore(self, model: nn.Module, optimizer: torch.optim.Optimizer, rank: int) -> None:
        assert self.newest is not None
        model.load_state_dict(checkpoint.load_tensors(self.newest / "model.safetensors"))
        moments = checkpoint.load_tensors(self.newest / "optimizer.safetensors")
        checkpoint.set_optimizer_state(model, optimizer, moments)
        checkpoint.set_random_state(
            checkpoint.load_tensors(self.newest / f"random-{rank}.safetensors")
        )

    def save(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        random_states: list[dict[str, Tensor]],
        progress: dict[str, Any],
        stream: dict[str, Any],
        *,
        branch: bool = False,
    ) -> None:
        """Save the newest checkpoint or, with `branch`, one that stays for other runs."""
        if self.folder is None or not self.main:
            return
        folder = self.folder / BRANCH if branch else self.folder
        state = {
            "format": checkpoint.STATE_FORMAT,
            "fingerprint": self.fingerprint,
            "plain_fingerprint": self.plain_fingerprint,
            "threads": torch.get_num_threads(),
            "progress": progress,
            "stream": stream,
            # Once heads have begun to specialize there is no best yet, even if the file exists.
            "best": self.best_file if progress["best_step"] >= 0 else None,
            "logged": 0 if self.log_path is None else len(read_lines(self.log_path)),
        }
        keep = None if branch else self.keep
        written = checkpoint.save_checkpoint(
            folder, progress["step"], model, optimizer, random_states, state, keep=keep
        )
        if branch:
            return
        self.newest = written
        # Remove older best weights only now: the previous checkpoint referred to them.
        needed = {checkpoint.best_name(progress["best_step"])}
        for path in checkpoint.checkpoint_folders(self.folder):
            with contextlib.suppress(InputError, KeyError, TypeError):  # a damaged one needs none
                best = read_json(path / "state.json")["progress"]["best_step"]
                needed.add(checkpoint.best_name(best))
        for old in self.folder.glob("best-*.safetensors"):
            if old.name not in needed:
                old.unlink()

    def save_best(self, model: nn.Module, step: int) -> None:
        if self.folder is None:
            self.best = {k: v.detach().cpu().clone() for k, v in model.state_dict().items()}
        elif self.main:
            path = self.folder / checkpoint.best_name(step)
            self.best_file = {"step": step, "checksum": checkpoint.save_weights(path, model)}

    def load_best(self, model: nn.Module, step: int) -> None:
        if self.folder is None:
            assert self.best is not None
            model.load_state_dict(self.best)
        else:
            path = self.folder / checkpoint.best_name(step)
            if not path.is_file():
                raise InputError(f"{path}: missing: run again, from the last whole checkpoint")
            if self.best_file is not None and checksum(path) != self.best_file["checksum"]:
                raise InputError(
                    f"{path}: does not match its checksum: run again, from the last whole "
                    "checkpoint"
                )
            model.load_state_dict(checkpoint.load_tensors(path))

    def log(self, entry: dict[str, Any]) -> None:
        if self.log_path is not None and self.main:
            append_lines(self.log_path, [entry])

    def cut_log(self, state: dict[str, Any] | None) -> None:
        """Drop log lines written after this state's checkpoint (all of them without a state).

        Those steps are repeated. Half-written lines are dropped, too; the times of stages stay.
        """
        if self.log_path is None or not self.main or not self.log_path.is_file():
            return
        entries = read_lines(self.log_path)
        logged = 0 if state is None else state["logged"]
        kept = entries[:logged] + [entry for entry in entries[logged:] if "stage" in entry]
        write_text(self.log_path, "".join(json.dumps(entry) + "\n" for entry in kept))
