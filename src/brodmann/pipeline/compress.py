"""Make the fastest model in which no task loses more than what is allowed → `compressed/`.

`compression.json` holds what was promised and measured. Trials are kept in
`compression-trials.jsonl` until the model is written, so that an interrupted search goes on.
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from brodmann.config import Config
from brodmann.data.tasks import Example, Task
from brodmann.errors import InputError, did_you_mean
from brodmann.files import digest, write_json, write_text
from brodmann.measuring.block_times import BlockTimes, as_document, times_of
from brodmann.measuring.points_lost import Loss
from brodmann.pipeline.run import one_process
from brodmann.pipeline.run_folder import opened, trained
from brodmann.pipeline.smaller_search import Search, Trial, blocker, provable, trial_of
from brodmann.pipeline.smaller_trials import EXAMPLES, Judge, Studied, judge, studied
from brodmann.pipeline.train import tasks_of
from brodmann.training.events import Report

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel

FILE = "compression.json"
TRIALS = "compression-trials.jsonl"
STEPS = "compression-recovery-"  # folders
TOKENS = 128  # of the text that is timed
SHAPES = ((1, TOKENS), (32, TOKENS))  # texts and tokens of the reported speeds
DEEPER = 0.8  # share of its time that each step with recovery keeps
TOP_HEADS = 5  # of a blocking task, by importance
CHECKED = 200  # texts per task that both tokenizers must read alike
RECOVERY_RATE = 1e-4


def compress(
    config: Config,
    base: Path,
    report: Report,
    *,
    wishes: Mapping[str, Any],
    to: Path | None = None,
) -> dict[str, Any]:
    """Compress a run's model; return what was found, and write the model if the promise holds."""
    one_process("compress")
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.pipeline.prune import checked_target

    trained(config)
    tasks = tasks_of(config, base)
    kept = kept_tasks(tasks, wishes["drop"])
    with opened(config, tasks, keep=True) as folder:
        target = checked_target(to or folder / "compressed")
        small, found = compress_model(
            MultiTaskModel.from_pretrained(folder / "model", device=config.device),
            kept,
            report,
            wishes=wishes,
            batch_size=config.training.evaluation_batch_size,
            precision=config.training.precision,
            seed=config.seed,
            work=folder,
            calibration=config.calibrate.model_dump(),
        )
        write_model(small, found, target)
        if small is not None:
            forget_work(folder)
        write_json(folder / FILE, found)
    tell(report, found)
    return found


def compress_in_memory(
    model: "MultiTaskModel",
    tasks: Sequence[Task],
    report: Report,
    *,
    wishes: Mapping[str, Any],
    to: Path,
    seed: int,
) -> dict[str, Any]:
    """The same for a model and tasks that are loaded; the model is left as it is."""
    from brodmann.models.model_settings import EVALUATION_BATCH
    from brodmann.pipeline.prune import checked_target

    target, chosen = checked_target(to), kept_tasks(tasks, wishes["drop"])
    if missing := set(model.specs) - {task.name for task in tasks}:
        raise InputError(f"tasks: the model's task '{min(missing)}' is missing: pass it or drop it")
    small, found = compress_model(
        model,
        chosen,
        report,
        wishes=wishes,
        batch_size=EVALUATION_BATCH,
        precision="auto",
        seed=seed,
        work=None,
    )
    write_model(small, found, target)
    tell(report, found)
    return found


def write_model(small: "MultiTaskModel | None", found: dict[str, Any], target: Path) -> None:
    if small is not None:
        small.save_pretrained(target, scores=found["scores"])
        found["folder"] = str(target)


def tell(report: Report, found: dict[str, Any]) -> None:
    place = f"model: {found['folder']}" if "folder" in found else "no model was written"
    report("compressed", {"result": found, "place": place})


def forget_work(folder: Path) -> None:
    """Remove what an unfinished search keeps."""
    (folder / TRIALS).unlink(missing_ok=True)
    for step in folder.glob(f"{STEPS}*"):
        shutil.rmtree(step)


def kept_tasks(tasks: Sequence[Task], drop: Sequence[str]) -> list[Task]:
    names = [task.name for task in tasks]
    for name in drop:
        if name not in names:
            raise InputError(f"the run has no task '{name}'{did_you_mean(name, names)}")
    if set(drop) >= set(names):
        raise InputError("drop: no task would be left")
    return [task for task in tasks if task.name not in drop]


def checked_wishes(
    *,
    lose: float,
    latency: float | None,
    size: float | None,
    recover: int,
    vocabulary: str,
    drop: Sequence[str],
) -> dict[str, Any]:
    """What is asked for; InputError if it is impossible."""
    if not 0 < lose < 100:
        raise InputError(f"lose = {lose:g}: expected points between 0 and 100, for example 1")
    if latency is not None and size is not None:
        raise InputError("latency and size: give one of them")
    for name, share in (("latency", latency), ("size", size)):
        if share is not None and not 0 < share < 1:
            raise InputError(f"{name} = {share:g}: expected a share between 0 and 1")
    if recover < 0:
        raise InputError(f"recover = {recover}: expected a number of epochs")
    if vocabulary not in ("keep", "data") and not Path(vocabulary).is_file():
        raise InputError(f"vocabulary = '{vocabulary}': expected keep, data or a text file")
    found: dict[str, Any] = {"lose": lose, "latency": latency, "size": size, "recover": recover}
    return found | {"vocabulary": vocabulary, "drop": sorted(drop)}


def compress_model(
    model: "MultiTaskModel",
    tasks: Sequence[Task],
    report: Report,
    *,
    wishes: Mapping[str, Any],
    batch_size: int,
    precision: str,
    seed: int,
    work: Path | None,
    calibration: Mapping[str, Any] | None = None,
) -> tuple["MultiTaskModel | None", dict[str, Any]]:
    """Search for the smaller model; None if nothing is within what is allowed."""
    from brodmann.measuring.fitting_rules import fit_rules
    from brodmann.models.derived import without_tasks
    from brodmann.models.saving import weights_digest

    searched, confirming = held_out(tasks, seed)
    if dropped := set(model.specs) - {task.name for task in tasks}:
        model = without_tasks(model, dropped)
    whole = model.merged()
    parameters = whole.parameter_counts()["total"]
    large, words = cut_unused(whole, tasks, wishes["vocabulary"])
    count = sum(len(examples) for examples in searched.values())

    def reading(what: str, examples: int) -> Callable[[int], None]:
        report("measuring starts", {"what": what, "examples": examples})
        return lambda items: report("measuring goes on", {"items": items})

    options: dict[str, Any] = {"batch_size": batch_size, "precision": precision}
    ours = judge(
        large, tasks, searched, **options, progress=reading("scoring the whole model", count)
    )
    report("stage", {"text": "timing blocks of every size, and measuring what each unit does"})
    each = min(EXAMPLES, max(len(task.splits["train"]) for task in tasks))
    stored = Stored(work, [dict(wishes), seed, weights_digest(large.state_dict())])
    known = studied(
        large,
        tasks,
        tokens=TOKENS,
        seed=seed,
        times=stored.times,
        **options,
        progress=reading("measuring units", each * len(tasks)),
    )
    stored.keep_times(known.times)
    unit = "latency" if wishes["size"] is None else "size"
    search = Search(known, ours, unit, wishes["lose"], told(stored, report))
    target = wishes["latency"] or wishes["size"]
    if unit == "size" and target is not None:
        target *= parameters / known.parameters  # after the vocabulary
    if target is None:
        best = search.fastest()
    else:
        best = search.at(min(target, 1.0))
        if best is None:
            raise InputError(
                f"{unit} = {wishes[unit]:g}: the parts that are never cut already take more: ask "
                "for a larger share" + (" or cut the vocabulary" if unit == "size" else "")
            )
    result: dict[str, Any] = {"wishes": dict(wishes), "vocabulary": words}
    result |= {"parameters": [parameters, parameters], "verdict": "nothing holds"}
    small = None
    if best is not None and (best.holds or wishes["recover"]):
        small = known.made(best.choice)
    if wishes["recover"]:
        start = best if best is not None and best.holds else None
        small, recovered = recover(small, search, start, wishes, report, options, seed, work)
        result["recovered"] = recovered
    blocking = blocker(search.trials, wishes["lose"])
    result["blocking"] = (
        None if blocking is None else blocking_task(search, blocking, best, len(tasks))
    )
    result["trials"] = [trial_document(known, trial) for trial in search.trials]
    result["blocks"] = [
        {"kind": block.kind, "layer": block.layer, "units": block.units, "width": block.width}
        for block in known.blocks
    ]
    result["unprovable"] = unprovable(ours, wishes["lose"])
    if small is None or (best is not None and not best.holds and not wishes["recover"]):
        return None, result
    result |= measured(whole, small, parameters)
    report("stage", {"text": "confirming on examples that the search never saw"})
    final = confirm(whole, small, tasks, confirming, wishes["lose"], options)
    result |= final | {"chosen": None if best is None else trial_document(known, best)}
    result["left"] = left_units(small, known)
    result["scores"] = {
        task: {entry["metric"]: entry["after"]} for task, entry in final["confirmed"].items()
    }
    if model.rules:  # those of the whole model ended with the cut
        report("stage", {"text": "calibrating the smaller model"})
        fit_rules(small, list(tasks), **(calibration or {}), **options)
    return small, result


class Stored:
    """Trials of an unfinished search with the same wishes and weights."""

    def __init__(self, folder: Path | None, identity: Any) -> None:
        self.file = None if folder is None else folder / TRIALS
        self.identity = digest(json.dumps(identity, sort_keys=True).encode())
        self.times: BlockTimes | None = None
        self.lines: list[dict[str, Any]] = []
        if self.file is not None and self.file.is_file():
            lines = self.file.read_text(encoding="utf-8").splitlines()
            found = [json.loads(line) for line in lines if line.endswith("}")]
            self.lines = [line for line in found if line["search"] == self.identity]
        for line in self.lines:
            if "times" in line:
                self.times = times_of(line["times"])

    def keep_times(self, times: BlockTimes) -> None:
        """Another measurement would lead to other candidates."""
        if self.times is None:
            self._append({"times": as_document(times)})

    def __call__(self, key: str, make: Callable[[], Trial]) -> Trial:
        for line in self.lines:
            if line.get("key") == key:
                return trial_of(line["trial"])
        trial = make()
        self._append({"key": key, "trial": asdict(trial)})
        return trial

    def _append(self, line: dict[str, Any]) -> None:
        self.lines.append(json.loads(json.dumps({"search": self.identity} | line)))
        if self.file is not None:
            write_text(self.file, "".join(json.dumps(one) + "\n" for one in self.lines))


def told(stored: Stored, report: Report) -> Callable[[str, Callable[[], Trial]], Trial]:
    """Tell of every trial."""

    def remember(key: str, make: Callable[[], Trial]) -> Trial:
        trial = stored(key, make)
        worst = max(trial.losses.values(), key=lambda loss: loss.bound)
        name = next(task for task, loss in trial.losses.items() if loss is worst)
        report(
            "stage",
            {
                "text": f"at {100 * trial.share:.0f} % of the cost: "
                f"{'holds' if trial.holds else 'does not hold'}, worst {name} loses "
                f"{worst.points:.1f}, at most {worst.bound:.1f}"
            },
        )
        return trial

    return remember


def held_out(
    tasks: Sequence[Task], seed: int
) -> tuple[dict[str, list[Example]], dict[str, list[Example]]]:
    """Examples to search on, and others to confirm on: the test split, or half of validation."""
    searched, confirming = {}, {}
    for task in tasks:
        known = list(task.splits.get("validation", []))
        if not known:
            raise InputError(f"task '{task.name}': has no validation examples to search on")
        other = list(task.splits.get("test", []))
        if not other:
            order = np.random.default_rng(seed).permutation(len(known))
            half = len(known) // 2
            other = [known[place] for place in sorted(order[:half])]
            known = [known[place] for place in sorted(order[half:])]
        searched[task.name], confirming[task.name] = known, other
    return searched, confirming


def cut_unused(
    model: "MultiTaskModel", tasks: Sequence[Task], vocabulary: str
) -> tuple["MultiTaskModel", dict[str, Any] | None]:
    """A copy with the pieces that training and validation texts use, or the model itself."""
    import copy

    from brodmann.models.smaller.vocabulary import cut_vocabulary, pieces_to_keep

    if vocabulary == "keep":
        return model, None
    used: set[int] = set()
    for task in tasks:
        for split in ("train", "validation"):
            used |= set(np.unique(model.encode(task.spec, task.splits.get(split, [])).ids).tolist())
    texts = list(dict.fromkeys(text for task in tasks for text in some_texts(task)))
    if vocabulary != "data":
        lines = [
            line
            for line in Path(vocabulary).read_text(encoding="utf-8").splitlines()
            if line.strip()
        ]
        for start in range(0, len(lines), 1000):
            for ids in model.tokenizer(lines[start : start + 1000])["input_ids"]:
                used |= set(ids)
        texts += lines[:CHECKED]
    kept = pieces_to_keep(model.tokenizer, used)
    small = copy.deepcopy(model)
    cut_vocabulary(small, kept, texts)
    return small, {"from": vocabulary, "before": model.config.vocab_size, "after": len(kept)}


def some_texts(task: Task) -> list[str]:
    """Texts of a task that both tokenizers must read alike."""
    rows = task.splits["train"][:CHECKED]
    return [value for row in rows for value in row.values() if isinstance(value, str)]


def recover(
    small: "MultiTaskModel | None",
    search: Search,
    start: Trial | None,
    wishes: Mapping[str, Any],
    report: Report,
    options: Mapping[str, Any],
    seed: int,
    work: Path | None,
) -> tuple["MultiTaskModel | None", list[dict[str, Any]]]:
    """Go on in steps, each cut from what the last one recovered, until one does not hold.

    A student learns the hidden states and answers of the whole model on the training texts.
    """
    from brodmann.models.smaller.units import blocks_of
    from brodmann.training.fit import fit
    from brodmann.training.methods.distillation import RECOVERY, Distillation

    teacher, tasks = search.known.model, search.judge.tasks
    target = wishes["latency"] or wishes["size"]
    share = 1.0 if start is None else start.share
    base = best = small if start is not None else None
    steps: list[dict[str, Any]] = []
    known = search.known
    while True:
        share = target if target is not None and start is None and not steps else share * DEEPER
        if target is not None and share < target * 0.999:
            break
        if base is not None:
            if not blocks_of(base):
                break
            known = studied(base, tasks, tokens=TOKENS, seed=seed, **options)
        now = known_share(known, search)
        choice = known.chosen(search.unit, share / now, np.ones(len(tasks)))
        if choice is None:
            break
        student = known.made(choice)
        number = len(steps) + 1
        report("stage", {"text": f"recovery {number}: at {100 * share:.0f} % of the cost"})
        place = None if work is None else work / f"{STEPS}{number}"
        with Distillation(teacher, student, RECOVERY, seed=seed) as objective:
            fit(
                student,
                list(tasks),
                methods=[objective],
                folder=place,
                epochs=wishes["recover"],
                learning_rate=RECOVERY_RATE,
                batch_size=options["batch_size"],
                precision=options["precision"],
                evaluate_every=10**9,
                keep="last",
                seed=seed,
            )
        losses = search.judge.losses(search.judge.outcomes(student))
        holds = search.holds(losses)
        steps.append({"share": share, "losses": documents(losses), "holds": holds})
        if not holds:
            break
        base = best = student
    return best, steps


def known_share(known: Studied, search: Search) -> float:
    """What a partly cut model takes of the whole one's cost."""
    totals = []
    for one in (known, search.known):
        costs, rest = one.costs(search.unit)
        totals.append(sum(float(of_block[0]) for of_block in costs) + rest)
    return totals[0] / totals[1]


def blocking_task(search: Search, task: str, best: Trial | None, count: int) -> dict[str, Any]:
    """What the task that blocks needs, and how far the others get without it."""
    known, place = search.known, [one.name for one in search.judge.tasks].index(task)
    gradients = np.abs(search.known.sensitivity.gradients[task]).mean(axis=0)
    starts = np.cumsum([0, *[block.units for block in known.blocks]])
    heads: list[tuple[float, int, list[int]]] = []
    neurons: dict[int, float] = {}
    for block, start in zip(known.blocks, starts, strict=False):
        values = gradients[start : start + block.units]
        for unit, several in enumerate(block.heads):
            heads.append((float(values[unit]), block.layer, list(several)))
        if not block.heads:
            neurons[block.layer] = float(values.sum())
    heads.sort(key=lambda entry: -entry[0])
    total = sum(neurons.values()) or 1.0
    found: dict[str, Any] = {
        "task": task,
        "heads": [[layer, head] for _, layer, several in heads[:TOP_HEADS] for head in several],
        "neurons": {str(layer): value / total for layer, value in sorted(neurons.items())},
        "lost_by_block": [
            float(path.losses[place, -1] * known.matters[place]) for path in known.paths
        ],
    }
    if count > 1:
        slower = best if best is not None and best.holds else None
        further = search.fastest(without=task, slower=slower)
        found["without"] = None if further is None else further.share
    return found


def trial_document(known: Studied, trial: Trial) -> dict[str, Any]:
    return {
        "share": trial.share,
        "speed": 1.0 / known.predicted(trial.choice),
        "units": trial.units,
        "losses": documents(trial.losses),
        "holds": trial.holds,
        "without": trial.without,
    }


def documents(losses: Mapping[str, Loss]) -> dict[str, Any]:
    return {task: asdict(loss) for task, loss in losses.items()}


def unprovable(judge: Judge, lose: float) -> list[str]:
    """Tasks with too few examples to show that so little is lost, even if nothing were."""
    nothing = judge.losses(judge.before)
    return [task for task, loss in nothing.items() if not provable(loss, lose)]


def measured(whole: Any, small: Any, parameters: int) -> dict[str, Any]:
    """Speeds of both models in turn, at one text and at a batch, and their parameters."""
    from brodmann.measuring.block_times import speed_ratio

    return {
        "speed": {
            f"{texts} x {tokens}": speed_ratio(whole, small, texts, tokens)
            for texts, tokens in SHAPES
        },
        "parameters": [parameters, small.parameter_counts()["total"]],
    }


def confirm(
    whole: "MultiTaskModel",
    small: "MultiTaskModel",
    tasks: Sequence[Task],
    examples: Mapping[str, Sequence[Example]],
    lose: float,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Points lost on examples that no choice was made on, and what that says of the promise."""
    final = judge(whole, tasks, examples, **options)
    losses = final.losses(final.outcomes(small, anew=small.tokenizer is not whole.tokenizer))
    if all(loss.bound <= lose for loss in losses.values()):
        verdict = "confirmed"  # the bound holds here, too
    elif all(loss.points <= lose for loss in losses.values()):
        verdict = "consistent"  # no task lost more; too few examples to be sure
    else:
        verdict = "refuted"
    entries = {
        task.name: {"metric": task.spec.metric, **asdict(losses[task.name])} for task in tasks
    }
    split = {task.name: "test" if "test" in task.splits else "half of validation" for task in tasks}
    return {"confirmed": entries, "confirmed_on": split, "verdict": verdict}


def left_units(small: "MultiTaskModel", known: Studied) -> list[int]:
    """Units left in each block of the written model."""
    from brodmann.models.backbone.anatomy import bare_models, kept_heads
    from brodmann.models.backbone.feed_forward import neurons_left

    bare = bare_models(small)[0]
    heads, neurons = kept_heads(bare), neurons_left(bare)
    return [
        len(heads[block.layer]) // len(block.heads[0]) if block.heads else neurons[block.output]
        for block in known.blocks
    ]
