"""What a training run leaves on disk while it goes: checkpoints, the best weights, the log.

Without a folder the best weights stay in memory and nothing is written.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from brodmann.artifacts import read_json, read_lines, sweep_leftovers, write_text
from brodmann.errors import InputError
from brodmann.training import checkpoint
from brodmann.training.checkpoint import BRANCH


class Keeper:
    """Only the main process writes; every process reads."""

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
        self.newest: Path | None = None
        if self.folder is not None and main:
            self.folder.mkdir(parents=True, exist_ok=True)
            sweep_leftovers(self.folder)

    def check_space(self, model: nn.Module) -> None:
        """Say now, not in an hour, that the disk cannot hold the checkpoints."""
        if self.folder is None or not self.main:
            return
        needed = checkpoint.disk_space(model, self.keep).peak
        held = sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())
        free = shutil.disk_usage(self.folder).free + held
        if free < needed:
            raise InputError(
                f"{self.folder}: the run needs about {needed / 1e6:,.0f} MB for checkpoints and "
                f"the model, {free / 1e6:,.0f} MB are free: free some, or set another 'output'"
            )

    def find(self) -> dict[str, Any] | None:
        """The newest whole checkpoint's state, if it belongs to this very run."""
        if self.folder is None:
            return None
        self.newest = checkpoint.newest_checkpoint(self.folder, self.say)
        if self.newest is None:
            return None
        state = read_json(self.newest / "state.json")
        if state["fingerprint"] != self.fingerprint:
            raise InputError(
                f"{self.newest}: was written with other settings, data, start or number of "
                "processes: use another folder or name, or remove it"
            )
        if state["threads"] != torch.get_num_threads():
            self.say(
                f"the checkpoint was written with {state['threads']} threads, now there are "
                f"{torch.get_num_threads()}: results can differ in the last bits"
            )
        return state

    def find_branch(self, folder: Path, step: int) -> dict[str, Any] | None:
        """Another run's checkpoint at that step, if its steps so far are this run's own."""
        place = folder / "checkpoints" / BRANCH / checkpoint.folder_name(step)
        self.newest = place if checkpoint.is_whole(place, self.say) else None
        if self.newest is None:
            self.say(f"{folder}: no branch at step {step}: training from the beginning")
            return None
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
        """The newest checkpoint, or (`branch`) one that stays, for other runs to go on from."""
        if self.folder is None or not self.main:
            return
        folder = self.folder / BRANCH if branch else self.folder
        state = {
            "fingerprint": self.fingerprint,
            "plain_fingerprint": self.plain_fingerprint,
            "threads": torch.get_num_threads(),
            "progress": progress,
            "stream": stream,
        }
        keep = None if branch else self.keep
        written = checkpoint.save_checkpoint(
            folder, progress["step"], model, optimizer, random_states, state, keep=keep
        )
        if branch:
            return
        self.newest = written
        # Only now may older best weights go: the checkpoint before this one named them.
        needed = {f"best-{progress['best_step']:08d}.safetensors"}
        for path in checkpoint.checkpoint_folders(self.folder):
            best = read_json(path / "state.json")["progress"]["best_step"]
            needed.add(f"best-{best:08d}.safetensors")
        for old in self.folder.glob("best-*.safetensors"):
            if old.name not in needed:
                old.unlink()

    def save_best(self, model: nn.Module, step: int) -> None:
        if self.folder is None:
            self.best = {k: v.detach().cpu().clone() for k, v in model.state_dict().items()}
        elif self.main:
            checkpoint.save_weights(self.folder / f"best-{step:08d}.safetensors", model)

    def load_best(self, model: nn.Module, step: int) -> None:
        if self.folder is None:
            assert self.best is not None
            model.load_state_dict(self.best)
        else:
            path = self.folder / f"best-{step:08d}.safetensors"
            if not path.is_file():
                raise InputError(f"{path}: missing: remove the run folder and train again")
            model.load_state_dict(checkpoint.load_tensors(path))

    def log(self, entry: dict[str, Any]) -> None:
        if self.log_path is not None and self.main:
            with open(self.log_path, "a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")

    def cut_log(self, step: int) -> None:
        """Drop what was logged after the checkpoint (it is done again), and a half-written line.

        What whole stages took stays.
        """
        if self.log_path is None or not self.main or not self.log_path.is_file():
            return
        entries = read_lines(self.log_path)
        kept = [e for e in entries if "stage" in e or ("step" in e and e["step"] <= step)]
        write_text(self.log_path, "".join(json.dumps(entry) + "\n" for entry in kept))
