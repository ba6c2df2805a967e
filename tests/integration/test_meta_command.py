"""`brodmann meta`: unseen pairs against every start, resumed after a kill, shown in the report;
the rows of MESH's Table I; heads by task and by language."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from tests.checkers import assert_keeps_bits, assert_same_bits
from tests.conftest import in_process

from brodmann.training.meta.unseen import Adapter, DivergedError

pytestmark = pytest.mark.long  # all of them, or the shared run would be made twice
Command = Callable[..., tuple[int, str, str]]
PAIRS = """
name = "meta"
output = "{folder}/runs"
threads = 1
tasks = [
  {{ use = "builtin/team:en", name = "team-en", head = "team", limit = {limit} }},
  {{ use = "builtin/team:es", name = "team-es", head = "team", limit = {limit} }},
  {{ use = "builtin/topic:en", name = "topic-en", head = "topic", limit = {limit} }},
  {{ use = "builtin/topic:es", name = "topic-es", head = "topic", limit = {limit} }},
  {{ use = "builtin/sentiment:es", name = "sentiment-es", limit = {limit} }},
  {{ use = "builtin/opinion:es", name = "opinion-es", limit = {limit} }},
]
[model]
backbone = "builtin:tiny"
gates = "trained"
[training]
learning_rate = 1e-3
precision = "float32"
[meta]
unseen = ["topic-es", "sentiment-es"]
tuning = "opinion-es"
steps = 3
pairs = 2
support = 4
query = 4
inner_steps = 1
seeds = 2
draws = 2
shots = [4, 8]
curve = [0, 2]
rates = [0.05, 0.2]
off = 0.25
"""
SMALL = "{ train = 32, validation = 16, test = 8 }"


def written(folder: Path, text: str = PAIRS) -> Path:
    path = folder / "meta.toml"
    path.write_text(text.format(folder=folder, limit=SMALL), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a finished study, and what the command showed."""
    folder = tmp_path_factory.mktemp("finished")
    code, out, err = in_process("meta", written(folder))
    assert code == 0, err
    return folder, out


def copied(finished: tuple[Path, str], folder: Path) -> Path:
    """The study in another folder, where it may be changed; its configuration."""
    shutil.copytree(finished[0] / "runs", folder / "runs", dirs_exist_ok=True)
    return written(folder)


def test_unseen_pairs_are_learnt_from_every_start(
    tmp_path: Path, command: Command, finished: tuple[Path, str]
) -> None:
    copied(finished, tmp_path)
    out = finished[1]
    assert "topic-es (accuracy, %), never trained on, with the output head it shares" in out
    assert "sentiment-es (accuracy, %), never trained on, with a new output head" in out
    folder = tmp_path / "runs" / "meta"
    result = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    assert result["trained_on"] == ["team-en", "team-es", "topic-en"]
    assert result["settings_tried"] == 2
    assert set(result["rates"]["meta"]["tried"]) == {"0.05", "0.2"}
    rows = [json.loads(line) for line in (folder / "meta.jsonl").read_text().splitlines()]
    assert len(rows) == 2 * 3 * 2 * 2 * 2 * 2  # pairs, starts, seeds, shots, draws, steps
    assert result["draws"] == 2
    for entry in result["pairs"]["topic-es"]["table"]:
        for start, found in entry["starts"].items():
            own = [
                [r["score"] for r in rows if (r["pair"], r["start"], r["seed"], r["shots"],
                 r["steps"]) == ("topic-es", start, seed, entry["shots"], entry["steps"])]
                for seed in (0, 1)
            ]  # fmt: skip
            assert found["scores"] == pytest.approx([sum(scores) / 2 for scores in own])
    for name, new in (("topic-es", False), ("sentiment-es", True)):
        pair = result["pairs"][name]
        assert pair["new_head"] is new and len(pair["table"]) == 4
        for entry in pair["table"]:
            scores = {start: found["scores"] for start, found in entry["starts"].items()}
            assert set(scores) == {"pretrained", "multitask", "meta"}
            difference = entry["differences"]["pretrained"]
            by_hand = [a - b for a, b in zip(scores["meta"], scores["pretrained"], strict=True)]
            assert difference["mean"] == pytest.approx(sum(by_hand) / 2)
            if by_hand[0] == pytest.approx(by_hand[1], abs=1e-12):  # no spread, no interval
                assert difference["low"] is None and difference["high"] is None
            else:
                assert difference["low"] <= difference["mean"] <= difference["high"]
    gates = result["gates"]
    assert sum(value == 0 for row in gates for value in row) == 3  # a quarter of 12 heads
    assert all(0 <= value <= 1 for row in gates for value in row)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Unseen pairs of task and language" in page and "the gate of every head" in page
    off = "3 of 12 heads are closed or switched off"
    assert f"saved with the model (seed 0, the first of 2 seeds); {off}" in page
    assert (
        "topic-es: adapting on 8 examples, mean ± sd over 2 seeds, each the mean over 2 draws of "
        "the examples." in page
    )
    assert "topic-es: after 2 steps, by number of examples" in page
    assert "chosen on opinion-es among 2 with the first seed, for all seeds" in page

    # The run folder holds a model of all pairs, for every other command.
    (tmp_path / "texts.txt").write_text("Un gol.\n", encoding="utf-8")
    assert command("predict", folder, tmp_path / "texts.txt", "--task", "topic-es")[0] == 0
    assert command("evaluate", folder)[0] == 0
    code, _, err = command("dissociate", folder, "--set", "dissociation.draws=0")
    assert code == 0, err

    before = (folder / "meta.jsonl").read_bytes()
    code, out, err = command("meta", tmp_path / "meta.toml")  # nothing is done twice
    assert code == 0 and (folder / "meta.jsonl").read_bytes() == before


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_numbers(tmp_path: Path, command: Command) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    text = PAIRS.replace("steps = 3", "steps = 40").replace("seeds = 2", "seeds = 1")
    assert command("meta", written(whole, text))[0] == 0
    killed = written(tmp_path, text)
    words = [sys.executable, "-m", "brodmann", "meta", str(killed)]
    log = tmp_path / "runs" / "meta" / "seed-0" / "meta" / "log.jsonl"
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(1200):
        if log.is_file() and len(log.read_text().splitlines()) >= 27:  # a checkpoint is at 25
            break
        if process.poll() is not None:
            break
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "runs" / "meta" / "meta.json").is_file()
    assert command("meta", killed)[0] == 0
    assert_same_bits(whole / "runs/meta", tmp_path / "runs/meta")
    rows = [(folder / "runs" / "meta" / "meta.jsonl").read_text() for folder in (whole, tmp_path)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('unseen = ["topic-es", "sentiment-es"]', 'unseen = ["topik-es"]', "no task 'topik-es'"),
        ('tuning = "opinion-es"', 'tuning = "topic-es"', "name a task twice"),
        ('tuning = "opinion-es"', "", "several rates: name a task that chooses among them"),
        ("pairs = 2", "pairs = 9", "pairs = 9 per step, but only 3 are trained on"),
        ("support = 4", "support = 40", "32 different training examples are too few"),
        ("curve = [0, 2]", "curve = [2, 0]", "curve = [2, 0]: expected numbers of steps, rising"),
        ("inner_steps = 1", "inner_rate = 0.01", "outer_rate = 0.03: expected below inner_rate"),
        ('gates = "trained"', 'gates = "on"', "model.gates"),
        ("[training]", "[training]\ngradient_checkpointing = true", "gradient_checkpointing"),
        ("[training]", '[training]\nsampling = "unifrom"', "unifrom"),
        ("off = 0.25", "off = 0.01", "off = 0.01 of 12 heads is less than one"),
        ('head = "topic"', 'head = "topic.v1"', "head = 'topic.v1': expected letters"),
        ("[meta]", '[off]\nby = "x"\n[meta]', "[off]: cannot be combined with `brodmann meta`"),
        ("[meta]", "[metta]", "metta"),
    ],
)
def test_wrong_settings_are_one_line(
    tmp_path: Path, command: Command, old: str, new: str, message: str
) -> None:
    text = PAIRS.replace(old, new)
    assert text != PAIRS
    code, _, err = command("meta", written(tmp_path, text))
    assert code == 2 and message in err and "Traceback" not in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists()  # nothing was begun


def test_rows_that_were_half_written_are_done_again(
    tmp_path: Path, command: Command, finished: tuple[Path, str]
) -> None:
    copied(finished, tmp_path)
    rows = tmp_path / "runs" / "meta" / "meta.jsonl"
    whole = rows.read_text(encoding="utf-8")
    rows.write_text(whole[: int(len(whole) * 0.7)], encoding="utf-8")
    result = (tmp_path / "runs" / "meta" / "meta.json").read_bytes()
    assert command("meta", tmp_path / "meta.toml")[0] == 0
    assert rows.read_text(encoding="utf-8") == whole
    assert (tmp_path / "runs" / "meta" / "meta.json").read_bytes() == result


def test_a_rate_that_diverges_is_never_chosen(tmp_path: Path, command: Command) -> None:
    text = PAIRS.replace("rates = [0.05, 0.2]", "rates = [0.05, 1e30]").replace(
        "seeds = 2", "seeds = 1"
    )
    code, out, err = command("meta", written(tmp_path, text))
    assert code == 0, err
    assert "diverged within 2 steps" in out.replace("\n", " ")
    result = json.loads((tmp_path / "runs" / "meta" / "meta.json").read_text(encoding="utf-8"))
    assert {entry["chosen"] for entry in result["rates"].values()} == {0.05}
    (tmp_path / "more").mkdir()
    text = text.replace("rates = [0.05, 1e30]", "rates = [1e30]").replace('"opinion-es"', '"x"')
    text = text.replace('tuning = "x"\n', "")
    code, _, err = command("meta", written(tmp_path / "more", text))
    assert code == 2 and "adapting at a rate of 1e+30 diverged" in err and "Traceback" not in err


def test_a_later_seed_that_diverges_is_a_row_without_a_score(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Adapter.curve

    def diverges(self: Adapter, examples: Any, *, at: Any, seed: int, **options: Any) -> Any:
        if seed == 1 and self.task.name == "topic-es":
            yield from whole(self, examples, at=at[:1], seed=seed, **options)
            raise DivergedError("topic-es: adapting diverged")
        yield from whole(self, examples, at=at, seed=seed, **options)

    monkeypatch.setattr(Adapter, "curve", diverges)
    text = PAIRS.replace('head = "topic", ', "").replace("shots = [4, 8]", "shots = [4]")
    text = text.replace("draws = 2", "draws = 1")
    code, out, err = command("meta", written(tmp_path, text.replace("off = 0.25", "")))
    assert code == 0, err
    said = " ".join(out.split())
    assert "meta, seed 1: topic-es: adapting diverged" in said
    assert (
        "topic-es: a new output head, though topic-en is the same task: with "
        'head = "topic" on both it starts from the trained one' in said
    )
    assert "sentiment-es: a new output head" not in said  # nobody was trained on that task
    folder = tmp_path / "runs" / "meta"
    rows = [json.loads(line) for line in (folder / "meta.jsonl").read_text().splitlines()]
    lost = [row for row in rows if row["score"] is None]
    assert {(row["pair"], row["seed"], row["steps"]) for row in lost} == {("topic-es", 1, 2)}
    result = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    first, last = result["pairs"]["topic-es"]["table"]
    assert "diverged" not in first["starts"]["meta"]
    assert last["starts"]["meta"]["diverged"] == 1 and last["starts"]["meta"]["scores"][1] is None
    ours, theirs = (last["starts"][start]["scores"][0] for start in ("meta", "pretrained"))
    assert last["differences"]["pretrained"] == {"mean": ours - theirs, "low": None, "high": None}
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "(1 diverged)" in page
    before = (folder / "meta.jsonl").read_bytes()
    assert command("meta", tmp_path / "meta.toml")[0] == 0  # and nothing is done twice
    assert (folder / "meta.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    "architecture",
    ["ca_mtl", *(pytest.param(name, marks=pytest.mark.slow) for name in ("hmnet", "single"))],
)
def test_other_encoders_learn_new_pairs_too(
    tmp_path: Path, command: Command, architecture: str
) -> None:
    text = PAIRS.replace('gates = "trained"', f'architecture = "{architecture}"')
    text = text.replace("seeds = 2", "seeds = 1").replace("off = 0.25", "")
    code, _, err = command("meta", written(tmp_path, text))
    assert code == 0, err


def test_a_plan_and_then_what_it_took(
    tmp_path: Path, command: Command, finished: tuple[Path, str]
) -> None:
    config = written(tmp_path)
    code, out, err = command("plan", config, "--json")
    assert (code, err) == (0, "")
    plan = json.loads(out)
    assert not (tmp_path / "runs" / "meta").exists() and plan["trainings"] == 4
    assert set(plan["seconds"]) == {"meta-training", "plain training", "unseen pairs"}
    assert all(value > 0 for value in (*plan["seconds"].values(), *plan["operations"].values()))
    examples = 2 * 2 * 3 * 2 * (4 + 4)  # learners, seeds, steps, pairs, support and query
    adapted = (2 * 3 * 2 * (4 + 8) + 3 * 2 * 8) * 2  # the same steps on unseen pairs and tuning
    assert 5 < plan["tokens"]["training"] / (examples + adapted) < 40  # words of a sentence
    assert copied(finished, tmp_path) == config
    code, out, _ = command("plan", config)
    assert code == 0 and "off by" in out and "it reached" in out and "4 trainings" in out


def test_a_configuration_for_another_command(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = command("run", written(tmp_path))
    assert code == 2 and "this configuration is for `brodmann meta`" in err
    monkeypatch.setenv("WORLD_SIZE", "2")
    code, _, err = command("meta", written(tmp_path))
    assert code == 2 and err.strip().endswith(
        "meta runs in one process only: start it without torchrun"
    )
    monkeypatch.delenv("WORLD_SIZE")
    plain = PAIRS[: PAIRS.index("[meta]")]
    code, _, err = command("meta", written(tmp_path, plain))
    assert code == 2 and "no [meta] table" in err


def test_heads_by_task_and_by_language(tmp_path: Path, command: Command) -> None:
    text = PAIRS[: PAIRS.index("[meta]")].replace("[training]", "[training]\nepochs = 1")
    text += "[dissociation]\ndraws = 1\nresamples = 50\n"
    code, _, err = command("run", written(tmp_path, text))
    assert code == 0, err
    page = (tmp_path / "runs" / "meta" / "report.html").read_text(encoding="utf-8")
    assert "By task or by language?" in page
    assert "same task, other language" in page and "same language, other task" in page


@pytest.mark.slow
def test_the_rows_of_table_1_in_one_command(tmp_path: Path, command: Command) -> None:
    arms = ["multi", "off_least", "off_random", "random_only", "ticket_share"]
    arms += ["off_least_ticket_share", "off_least_tuned"]
    text = PAIRS[: PAIRS.index("[training]")].replace('gates = "trained"\n', "")
    text += "[training]\nepochs = 1\nlearning_rate = 1e-3\n[specialize]\nalpha = 0.25\n"
    text += f"[dissociation]\ndraws = 1\nresamples = 50\n[compare]\narms = {json.dumps(arms)}\n"
    code, _, err = command("compare", written(tmp_path, text))
    assert code == 0, err
    folder = tmp_path / "runs" / "meta"
    result: dict[str, Any] = json.loads((folder / "comparison.json").read_text(encoding="utf-8"))
    assert list(result["arms"]) == arms
    multi, off = (load_file(folder / f"{arm}-seed0/model/model.safetensors") for arm in arms[:2])
    mask = off.pop("gates.mask")
    assert int((mask == 0).sum()) == 3
    assert_keeps_bits(off, multi)  # only switched off
    tuned = load_file(folder / "off_least_tuned-seed0/model/model.safetensors")
    assert (tuned["gates.mask"] == mask).all()
    assert any((multi[name] != tuned[name]).any() for name in multi)
    both = load_file(folder / "off_least_ticket_share-seed0/model/model.safetensors")
    assert (both["gates.mask"] == mask).all()
    text = text.replace('"multi", ', "")
    code, _, err = command("compare", written(tmp_path, text))
    assert code == 2 and "'off_least' switches off heads of 'multi': add that arm" in err
