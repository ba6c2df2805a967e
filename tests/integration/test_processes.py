"""Real processes: a real SIGKILL and resume, a real Ctrl-C, and two processes that match one."""

import io
import json
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file
from tests.checkers import assert_same_bits, weights
from tests.processes import finish, start, wait_for_line, write

Command = Callable[..., tuple[int, str, str]]
KEEP = ("--set", "keep_checkpoints=true")
STOPPED = 'batch_size = 8\nmax_steps = 70\nprecision = "float32"'  # here and in the process


@pytest.mark.slow
def test_a_killed_run_resumed_gives_the_same_bits(tmp_path: Path, command: Command) -> None:
    training = 'batch_size = 8\nprecision = "bf16"\ncheckpoint_every = 7\nsampling = "annealed"'
    training += "\nmax_steps = 50"
    straight = write(tmp_path, "straight", training=training)
    assert command("train", straight)[0] == 0
    killed = write(tmp_path, "killed", training=training)
    process = start("-m", "brodmann", "train", killed)
    wait_for_line(tmp_path / "runs" / "killed" / "log.jsonl", 10, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "runs" / "killed" / "model").exists()
    code, out, err = command("train", killed)
    assert code == 0, err
    assert "resuming from step" in out
    assert_same_bits(tmp_path / "runs" / "straight", tmp_path / "runs" / "killed")
    logs = [
        [
            {k: v for k, v in json.loads(line).items() if k not in ("seconds", "memory")}
            for line in (tmp_path / "runs" / name / "log.jsonl").read_text().splitlines()
        ]
        for name in ("straight", "killed")
    ]
    assert logs[0] == logs[1]


@pytest.mark.long
def test_ctrl_c_saves_and_the_same_command_goes_on(tmp_path: Path, command: Command) -> None:
    config = write(tmp_path, "stopped", training=STOPPED)
    process = start("-m", "brodmann", "train", config)
    wait_for_line(tmp_path / "runs" / "stopped" / "log.jsonl", 10, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.startswith("brodmann: stopped at step ")
    assert err.endswith("saved; run the same command again to resume\n") and err.count("\n") == 1
    assert command("train", config)[0] == 0
    assert (tmp_path / "runs" / "stopped" / "model").is_dir()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampling", "architecture"),
    [
        ("sqrt", "shared"),
        ("proportional", "hmnet"),
        ("uncertainty", "ca_mtl"),
        ("uncertainty", "task_lora"),
    ],
)
def test_two_processes_match_one_with_the_doubled_batch(
    tmp_path: Path, command: Command, sampling: str, architecture: str
) -> None:
    # 9 does not divide the sizes: the last batches leave one process with fewer items or none.
    options = f'sampling = "{sampling}"\nmax_steps = 20\nkeep = "last"\nprecision = "float32"\n'
    model = f'dropout = 0.0\narchitecture = "{architecture}"'
    one = write(tmp_path, "one", model=model, training=options + "batch_size = 18")
    two = write(tmp_path, "two", model=model, training=options + "batch_size = 9")
    assert command("train", one)[0] == 0
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    code, out, err = finish(*launch, "-m", "brodmann", "train", two, *KEEP)
    assert code == 0, err
    assert "2 processes" in out  # two ranks really ran
    state = sorted((tmp_path / "runs" / "two" / "checkpoints").glob("step-*"))[-1]
    assert {path.name for path in state.glob("random-*")} == {
        "random-0.safetensors", "random-1.safetensors",
    }  # fmt: skip
    ours, theirs = (weights(tmp_path / "runs" / name) for name in ("one", "two"))
    for name in ours:
        assert (ours[name] - theirs[name]).abs().max() < 2e-3, name  # 20 Adam steps of 1e-3
    close = sum((ours[n] - theirs[n]).abs().sum() for n in ours) / sum(
        v.numel() for v in ours.values()
    )
    assert close < 2e-5
    scores = [
        [
            entry["mean"]
            for entry in map(
                json.loads, (tmp_path / "runs" / name / "log.jsonl").read_text().splitlines()
            )
            if "mean" in entry
        ][-1]
        for name in ("one", "two")
    ]
    assert scores[0] == pytest.approx(scores[1], abs=0.03)


@pytest.mark.slow
def test_two_processes_specialize_like_one(tmp_path: Path) -> None:
    """The same heads on both, and what nobody chose does not move from the switch on."""
    options = 'max_steps = 20\nkeep = "last"\nweight_decay = 0.1\ncheckpoint_every = 10\n'
    options += 'precision = "float32"\n'
    special = "\n[specialize]\ndelta = 0.5\nalpha = 0.2\nexamples = 16\n"
    one = write(tmp_path, "one", model="dropout = 0.0",
                training=options + "batch_size = 18\ncheckpoints = 9" + special)  # fmt: skip
    two = write(tmp_path, "two", model="dropout = 0.0",
                training=options + "batch_size = 9\ncheckpoints = 9" + special)  # fmt: skip
    assert finish("-m", "brodmann", "train", one)[0] == 0
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    code, out, err = finish(*launch, "-m", "brodmann", "train", two, *KEEP)
    assert code == 0 and "2 processes" in out, err
    chosen = []
    for name in ("one", "two"):
        lines = (tmp_path / "runs" / name / "log.jsonl").read_text(encoding="utf-8").splitlines()
        chosen.append(next(e for e in map(json.loads, lines) if "heads" in e))
    assert chosen[0] == chosen[1] and chosen[0]["step"] == 10
    ours, theirs = (weights(tmp_path / "runs" / name) for name in ("one", "two"))
    assert max((ours[n] - theirs[n]).abs().max() for n in ours) < 2e-3
    folder = tmp_path / "runs" / "two" / "checkpoints" / "step-00000010"
    before = load_file(folder / "model.safetensors")
    moments = load_file(folder / "optimizer.safetensors")
    later = folder.with_name("step-00000020")
    after = load_file(later / "model.safetensors")
    later_moments = load_file(later / "optimizer.safetensors")
    anyone = {tuple(head) for heads in chosen[0]["heads"].values() for head in heads}
    still = [(layer, h) for layer in range(3) for h in range(4) if (layer, h) not in anyone]
    assert len(still) >= 4
    for layer, head in still:
        rows = slice(16 * head, 16 * head + 16)
        for part in ("query", "key", "value"):
            name = f"encoder.backbone.encoder.layer.{layer}.attention.self.{part}.weight"
            assert before[name][rows].equal(after[name][rows])
            for moment in ("exp_avg", "exp_avg_sq"):
                key = f"{name}/{moment}"
                assert moments[key][rows].equal(later_moments[key][rows])
        name = f"encoder.backbone.encoder.layer.{layer}.attention.output.dense.weight"
        assert before[name][:, rows].equal(after[name][:, rows])


@pytest.mark.slow
def test_processes_that_do_not_find_each_other_are_refused(tmp_path: Path) -> None:
    config = write(tmp_path, "alone")
    code, _, err = finish(
        "-m", "brodmann", "train", config, WORLD_SIZE="2", RANK="0", LOCAL_RANK="-1"
    )
    assert code == 2, err
    assert "brodmann: 2 processes were asked for, but Tried to launch on distributed" in err


@pytest.mark.slow
def test_machines_that_do_not_share_the_run_folder_are_refused(tmp_path: Path) -> None:
    """Each would go on from what it sees: two models whose gradients are averaged."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    nodes = []
    for rank in (0, 1):
        place = tmp_path / f"node{rank}"
        place.mkdir()
        config = write(place, "apart", training="max_steps = 4")
        text = config.read_text().replace(f'output = "{place}/runs"', 'output = "runs"')
        config.write_text(text, encoding="utf-8")
        launch = (
            "-m",
            "torch.distributed.run",
            "--nnodes",
            "2",
            "--node_rank",
            rank,
            "--nproc_per_node",
            "1",
            "--master_addr",
            "127.0.0.1",
            "--master_port",
            port,
        )
        nodes.append(start(*launch, "-m", "brodmann", "train", config.name, cwd=place))  # fmt: skip
    for node in nodes:
        out, err = node.communicate(timeout=200)
        assert node.returncode != 0
        assert "brodmann: runs/apart: is not the same folder for all 2 processes: set" in err, err
        assert "loss" not in out  # no step was taken


def test_studies_of_many_runs_are_for_one_process(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write(tmp_path, "many")
    arms = write(tmp_path, "arms")
    config.write_text(config.read_text() + "[grid]\nvary = { seed = [0, 1] }\n")
    arms.write_text(arms.read_text() + '[compare]\narms = ["multi", "iat"]\n')
    monkeypatch.setenv("WORLD_SIZE", "2")
    for words in (("grid", config), ("compare", arms), ("reproduce", "spec-table3"),
                  ("relate", config)):  # fmt: skip
        code, _, err = command(*words)
        assert code == 2 and f"{words[0]} runs in one process only" in err and err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_accelerate_launch_gives_two_processes(tmp_path: Path) -> None:
    """Not with its --cpu, which starts one without a word: by the launcher for several devices."""
    config = write(tmp_path, "launched", training="max_steps = 4")
    launch = ("-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2")
    launch += ("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no")
    code, out, err = finish(*launch, "-m", "brodmann", "train", config)
    assert code == 0, err
    assert "2 processes" in out and (tmp_path / "runs" / "launched" / "model").is_dir()


@pytest.mark.long
def test_the_first_commands_of_the_readme_from_an_empty_folder(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative paths, a real shell's stdin, a closed pipe, and bytes that are no text."""
    program = Path(sys.executable).with_name("brodmann")

    def shell(line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            line.replace("brodmann ", f"{program} "), shell=True, cwd=tmp_path, text=True,
            capture_output=True, check=False,
        )  # fmt: skip

    assert shell("brodmann init mine").returncode == 0
    small = "--set model.backbone=builtin:tiny --set training.max_steps=2"
    small += " --set training.precision=float32"
    small += " --set map.examples=20 --set dissociation.draws=1"
    done = shell(f"brodmann run mine/brodmann.toml {small} | head -1")
    assert done.stderr == ""
    assert (tmp_path / "runs" / "first" / "metrics.json").is_file()  # the run went on unseen
    monkeypatch.chdir(tmp_path)
    assert command("run", "runs/first/config.toml")[0] == 0
    done = shell('echo "A fine film." | brodmann predict runs/first')
    assert set(json.loads(done.stdout)) == {"input", "mood", "subject", "names"}
    for given, expected in (
        (b"caf\351\n", (2, "stdin: not UTF-8 text (invalid continuation byte, byte 3)")),
        (b"", (0, "no input: nothing to answer")),
    ):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        code, _, err = command("predict", "runs/first")
        assert (code, err) == (expected[0], f"brodmann: {expected[1]}\n")


def test_ctrl_c_before_training_is_one_line(tmp_path: Path) -> None:
    process = start("-m", "brodmann", "train", write(tmp_path, "early"))
    assert process.stdout is not None and process.stdout.readline() == "reading tasks …\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (
        process.returncode == 130 and err.count("\n") == 1 and err.startswith("brodmann: stopped")
    )


MEASURE = """
import json, os, sys
import torch
import brodmann as bm
torch.set_num_threads(1)
if "RANK" in os.environ:
    torch.distributed.init_process_group("gloo")
limit = {"train": 30, "validation": 20, "test": 5}
tasks = bm.load_tasks(
    [{"use": f"builtin/{name}", "limit": limit} for name in ("sentiment", "question", "entities")]
)
model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks)
mapped, judged, evaluated = [], [], []  # how many examples this process has read
bm.evaluate(model, tasks, batch_size=4, progress=evaluated.append)
scores = bm.head_importance(model, tasks, examples=21, batch_size=4, progress=mapped.append)
token = bm.head_importance(model, tasks, examples=21, batch_size=4, granularity="token")
slow = bm.head_importance(model, tasks, examples=5, batch_size=2, estimator="leave_one_out")
result = bm.dissociation(
    model, tasks, scores, alpha=0.25, draws=2, batch_size=8, resamples=20, progress=judged.append
)
hooks = sum(len(module._forward_pre_hooks) for module in model.modules())
values = [s.values.tolist() for s in (scores, token, slow)]
rank = os.environ.get("RANK", "alone")
with open(f"{sys.argv[1]}/{rank}.json", "w") as file:
    world = torch.distributed.get_world_size() if "RANK" in os.environ else 1
    json.dump({"scores": values, "performance": result.performance, "base": result.base,
               "hooks": hooks, "world": world,
               "read": [sum(evaluated), sum(mapped), sum(judged)]}, file)
if "RANK" in os.environ:
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
"""


# The command, and when it is over what threads of a group are left to abort the exit.
LEAVE = """
import atexit, os, sys
from pathlib import Path
from brodmann.cli import main

def left():
    for thread in Path("/proc/self/task").glob("*/comm"):
        if "gloo" in thread.read_text():
            sys.stderr.write(f"left: {thread.read_text()}")

if __name__ == "__main__":
    atexit.register(left)
    main()
"""


@pytest.mark.slow
def test_the_whole_chain_over_two_processes(tmp_path: Path) -> None:
    """What is measured of one trained model is the same; and the chain runs to its report."""
    import numpy as np

    extra = "max_steps = 12\n[map]\nexamples = 20\n[dissociation]\ndraws = 2\nresamples = 20\n"
    one = write(tmp_path, "one", training=extra)
    assert finish("-m", "brodmann", "run", one)[0] == 0
    folder, copy = tmp_path / "runs" / "one", tmp_path / "runs" / "two"
    shutil.copytree(folder, copy)
    for name in ("metrics.json", "importance.json", "dissociation.json", "evaluated.npz"):
        (copy / name).unlink()
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    script = tmp_path / "leave.py"
    script.write_text(LEAVE, encoding="utf-8")
    for command in ("evaluate", "map", "dissociate"):
        code, _, err = finish(*launch, script, command, copy)
        assert code == 0 and "left: " not in err, err
    ours, theirs = (
        {
            name: json.loads((path / f"{name}.json").read_text(encoding="utf-8"))
            for name in ("metrics", "importance", "dissociation")
        }
        for path in (folder, copy)
    )
    for split, results in ours["metrics"]["splits"].items():
        for task, entry in results.items():
            found = theirs["metrics"]["splits"][split][task]
            assert found["score"] == pytest.approx(entry["score"], abs=1e-9)
    np.testing.assert_allclose(
        theirs["importance"]["scores"], ours["importance"]["scores"], rtol=1e-4, atol=1e-8
    )
    for key in ("base", "performance"):
        np.testing.assert_allclose(
            theirs["dissociation"][key], ours["dissociation"][key], atol=1e-9
        )
    chain = write(tmp_path, "chain", training=extra)
    code, out, err = finish(*launch, "-m", "brodmann", "run", chain)
    assert code == 0, err
    assert "2 processes" in out and out.count("report:") == 1  # said once
    assert (tmp_path / "runs" / "chain" / "report.html").is_file()


@pytest.mark.slow
def test_two_processes_measure_what_one_does(tmp_path: Path) -> None:
    import numpy as np

    script = tmp_path / "measure.py"
    script.write_text(MEASURE, encoding="utf-8")
    assert finish(script, tmp_path)[0] == 0
    code, _, err = finish(
        "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", 2, script,
        tmp_path,
    )  # fmt: skip
    assert code == 0, err
    alone = json.loads((tmp_path / "alone.json").read_text(encoding="utf-8"))
    each = [json.loads((tmp_path / f"{rank}.json").read_text("utf-8")) for rank in (0, 1)]
    # The work is divided: together they read what one reads alone, and neither reads most of it.
    for whole, *shares in zip(alone["read"], *(one["read"] for one in each), strict=True):
        assert sum(shares) == whole and max(shares) < 0.7 * whole, (whole, shares)
    for found in each:
        assert found["world"] == 2 and found["hooks"] == 0
        for one, other in zip(found["scores"], alone["scores"], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-9)
        np.testing.assert_allclose(found["performance"], alone["performance"], atol=1e-9)
        assert found["base"] == alone["base"]
