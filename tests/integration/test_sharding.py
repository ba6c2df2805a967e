"""Sharded training over two real processes: the same weights as data parallel, half in each,
checkpoints that go on after a SIGKILL, and an ordinary model at the end."""

import json
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.checkers import assert_same_bits, weights
from tests.processes import finish, start, wait_for_line, write

LAUNCH = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
TRAINING = 'batch_size = 5\nkeep = "last"\ncheckpoint_every = 4\naccumulation = 2\nmax_steps = 16\n'
TRAINING += 'precision = "float32"\n'
SHARDED = TRAINING + 'sharding = "full"\n'


def difference(folder: Path, one: str, other: str) -> float:
    ours, theirs = (weights(folder / "runs" / name) for name in (one, other))
    assert ours.keys() == theirs.keys()
    return max(float((ours[name] - theirs[name]).abs().max()) for name in ours)


@pytest.mark.slow
def test_sharded_equals_data_parallel_and_survives_a_kill(tmp_path: Path) -> None:
    model = "dropout = 0.0"
    plain = write(tmp_path, "plain", model=model, training=TRAINING)
    assert finish(*LAUNCH, "-m", "brodmann", "train", plain)[0] == 0
    sharded = write(tmp_path, "sharded", model=model, training=SHARDED)
    keep = ("--set", "keep_checkpoints=true")
    code, out, err = finish(*LAUNCH, "-m", "brodmann", "train", sharded, *keep)
    assert code == 0, err
    assert "2 processes, sharded" in out
    assert difference(tmp_path, "plain", "sharded") < 1e-5
    state = sorted((tmp_path / "runs" / "sharded" / "checkpoints").glob("step-*"))[-1]
    assert len(list(state.glob("random-*"))) == 2

    killed = write(tmp_path, "killed", model=model, training=SHARDED)
    process = start(*LAUNCH, "-m", "brodmann", "train", killed)
    wait_for_line(tmp_path / "runs" / "killed" / "log.jsonl", 10, process)
    for worker in psutil.Process(process.pid).children():
        worker.kill()
    process.communicate()
    assert not (tmp_path / "runs" / "killed" / "model").exists()
    code, out, err = finish(*LAUNCH, "-m", "brodmann", "train", killed)
    assert code == 0, err
    assert "resuming from step" in out
    assert_same_bits(tmp_path / "runs" / "sharded", tmp_path / "runs" / "killed")
    assert not (tmp_path / "runs" / "killed" / "checkpoints").exists()  # it is finished
    # What was saved is an ordinary model: one process evaluates it.
    code, out, err = finish("-m", "brodmann", "evaluate", killed, "--json")
    assert code == 0, err
    scores = json.loads(out)["splits"]["validation"]
    assert set(scores) == {"sentiment", "similarity", "entities"}


SHARES = """
import json, os, sys
import torch
import brodmann as bm
from brodmann.training.loop import Loop
from brodmann.training.settings import checked_options
from brodmann.training.processes import together
torch.set_num_threads(1)
with together():
    limit = {"train": 16, "validation": 8, "test": 8}
    tasks = bm.load_tasks([{"use": f"builtin/{n}", "limit": limit} for n in ("topic", "question")])
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks)
    total = sum(p.numel() for p in model.parameters())
    loop = Loop(model, tasks, checked_options({"sharding": "full"}), None, {})
    mine = sum(p.to_local().numel() for p in loop.trained.parameters())
    left = sum(p.numel() for p in model.parameters())  # of the ordinary model, while it trains
    with open(f"{sys.argv[1]}/{os.environ['RANK']}.json", "w") as file:
        json.dump({"total": total, "mine": mine, "left": left, "world": loop.world}, file)
"""


@pytest.mark.slow
def test_each_process_holds_its_half(tmp_path: Path) -> None:
    script = tmp_path / "shares.py"
    script.write_text(SHARES, encoding="utf-8")
    code, _, err = finish(*LAUNCH, script, tmp_path)
    assert code == 0, err
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    assert [entry["world"] for entry in found] == [2, 2]
    assert sum(entry["mine"] for entry in found) == found[0]["total"]
    assert all(abs(entry["mine"] / entry["total"] - 0.5) < 0.05 for entry in found)
    assert all(entry["left"] == 0 for entry in found)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"training.sharding": "full"}, "sharding needs several processes"),
        ({"training.sharding": "full", "model.architecture": "ca_mtl"}, 'architecture = "ca_mtl"'),
        ({"training.sharding": "full", "specialize": "{}"}, "cannot be combined with specialize"),
        ({"training.sharding": "full", "training.sampling": "uncertainty"}, "uncertainty"),
        (
            {"training.sharding": "full", "training.gradient_checkpointing": "true"},
            "cannot be combined with gradient_checkpointing",
        ),
        ({"training.sharding": "half"}, "input should be 'full'"),
    ],
)
def test_what_cannot_be_sharded_is_one_line(
    tmp_path: Path, command: Any, changes: dict[str, str], what: str
) -> None:
    config = write(tmp_path, "wrong")
    words = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    code, _, err = command("train", config, *words)
    assert code == 2 and what in err and err.count("\n") == 1, err
    assert not (tmp_path / "runs" / "wrong").exists()
