"""Estimates without data or weights: counts against real models; every recipe at both scales."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from brodmann.config import load_config
from brodmann.data.description import TaskDescription
from brodmann.data.loading import load_tasks
from brodmann.models.backbone.load import load_backbone
from brodmann.models.backbone.sizes import KNOWN, Shape, encoder_counts
from brodmann.models.encoders import ARCHITECTURES
from brodmann.models.multitask import MultiTaskModel
from brodmann.papers.paper_plans import estimate_recipes, recipes_named
from brodmann.papers.recipes import find, recipes
from brodmann.papers.reproduce import configured
from brodmann.studies.cells import cells_of
from brodmann.studies.plan.estimate import estimate_run, sized

Command = Callable[..., tuple[int, str, str]]


def quiet(event: str, facts: object) -> None:
    return None


def test_operations_of_a_forward_pass_are_those_that_torch_counts() -> None:
    model = load_backbone("builtin:tiny", attention="eager").model.eval()
    shape, rows, length = Shape.of("builtin:tiny"), 3, 20
    tokens = torch.randint(5, 50, (rows, length))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(tokens)
    pooler = 2 * rows * shape.width**2
    ours = rows * length * (2 * shape.matrices + 4 * shape.layers * length * shape.width)
    assert counter.get_total_flops() == pytest.approx(ours + pooler, rel=1e-6)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_parameters_are_those_of_the_built_model(architecture: str) -> None:
    parameters = {"pals": {"size": 16}, "adapters": {"size": 8}}.get(architecture, {})
    limit = {"train": 8, "validation": 4, "test": 4}
    names = ("sentiment", "entailment", "topic")
    tasks = load_tasks([{"use": f"builtin/{name}", "limit": limit} for name in names])
    model = MultiTaskModel.from_pretrained(
        "builtin:tiny", tasks, architecture=architecture, parameters=parameters, max_length=64
    )
    counts = model.parameter_counts()
    specs = [task.spec for task in tasks]
    shape = Shape.of("builtin:tiny")
    total, active, _ = encoder_counts(shape, architecture, parameters, specs, 64)
    assert total == counts["encoder"]
    assert active == counts.get("activated", active) and active <= total


def test_the_papers_backbones_have_their_sizes() -> None:
    """As their authors count them, with poolers where they have one."""
    task = sized("glue/sst2", 128)
    for name, size in (("bert-base-uncased", 109.48), ("bert-large-uncased", 335.14),
                       ("roberta-large", 355.36), ("microsoft/deberta-v3-base", 183.83),
                       ("huawei-noah/TinyBERT_General_6L_768D", 66.96),
                       ("openai-community/openai-gpt", 116.53),
                       ("openai-community/gpt2-medium", 354.82)):  # fmt: skip
        assert name in KNOWN
        total, active, _ = encoder_counts(Shape.of(name), "shared", {}, [task], 128)
        assert total / 1e6 == pytest.approx(size, abs=0.01) and active == total


def test_steps_and_tokens_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(
        'name = "run"\ntasks = ["glue/sst2", { use = "glue/rte", limit = 400 }]\n'
        '[model]\nbackbone = "bert-base-uncased"\n[training]\nepochs = 3\nbatch_size = 32\n',
        encoding="utf-8",
    )
    config = load_config(path)[0]
    found = estimate_run("run", config, heads=True)
    first, second = (sized(task, 128) for task in config.tasks)
    assert (first.train, second.train, second.validation) == (67349, 400, 277)
    assert found.steps == 3 * -(-(67349 + 400) // 32)
    assert set(found.operations) == {"training", "evaluation", "map of heads", "dissociation"}
    expected = found.steps * 32 * (67349 * first.tokens + 400 * second.tokens) / (67349 + 400)
    assert found.tokens == pytest.approx(expected)
    half = estimate_run("run", config, heads=True, share=0.1)
    assert half.operations["training"] == pytest.approx(0.1 * found.operations["training"])
    assert half.first_steps == pytest.approx(0.9 * found.operations["training"])


LARGE = ("all_tasks", "pairs_models", "hmnet_relevance")  # many encoders at the paper's scale


@pytest.mark.parametrize(
    ("recipe", "scale"),
    [
        pytest.param(
            recipe,
            scale,
            id=f"{recipe.name}-{scale}",
            marks=[pytest.mark.slow] * (scale == "paper" and recipe.name in LARGE),
        )
        for recipe in recipes()
        for scale in ("mini", "paper")
    ],
)
def test_every_recipe_can_be_planned(recipe, scale: str) -> None:  # type: ignore[no-untyped-def]
    found = estimate_recipes([recipe], quiet, scale=scale, speed=1e14)
    (row,) = found["recipes"]
    if recipe.statistics:
        assert (row["runs"], row["operations"]) == (0, 0)
        return
    assert row["runs"] > 0 and 0 < row["operations"] <= row["operations_alone"]
    assert row["hours"] == pytest.approx(row["operations"] / 1e14 / 3600)


def test_new_tasks_count_what_adapt_does() -> None:
    """In every cell no map of heads; every start scored; a training for every share."""
    (recipe,) = [recipe for recipe in recipes() if recipe.name == "new_tasks"]
    (row,) = estimate_recipes([recipe], quiet, scale="mini", speed=None)["recipes"]
    config = configured(recipe, "mini", Path("runs"), [])[0]
    start = configured(find("ca_mtl_trained")[0], "mini", Path("runs"), [])[0]
    expected = 0.0
    for cell in cells_of(config):
        cell.config.model = start.model
        run = estimate_run("one", cell.config, heads=False)
        # Six starts (four known tasks, random, xavier) are scored, and then the trained model.
        expected += 1.1 * run.operations["training"] + 7 * run.operations["evaluation"]
    assert len(start.tasks) == 4 and row["operations"] == pytest.approx(expected)
    assert row["runs"] == 6 * 2  # two tasks, three seeds, two shares


def test_a_table_is_planned_as_far_as_it_takes_its_recipe() -> None:
    (words,) = recipes_named("hmnet-table2")
    (row,) = estimate_recipes([words], quiet, scale="paper", speed=1e14)["recipes"]
    assert (row["runs"], row["operations"]) == (0, 0)  # from the data alone
    (pairs,) = recipes_named("hmnet-table3")
    (row,) = estimate_recipes([pairs], quiet, scale="paper", speed=1e14)["recipes"]
    assert row["runs"] == 13 + 13 * 12 // 2


def test_what_has_no_validation_split_is_divided() -> None:
    """As loading does it: IMDB's test set is not its validation set, unless somebody says so."""
    imdb = sized("imdb", 64)
    assert (imdb.train, imdb.validation) == (25000, 2500)
    given = TaskDescription.model_validate({"use": "imdb", "splits": {"validation": "test"}})
    assert sized(given, 64).validation == 25000


def test_transfer_is_counted_on_the_model_it_starts_from() -> None:
    """BERT-base has eight times the multiplications of MiniLM; more seeds and starts besides."""
    (small,), (large,) = (
        estimate_recipes([find("transfer")[0]], quiet, scale=scale, speed=None)["recipes"]
        for scale in ("mini", "paper")
    )
    a_training = [row["operations"] / row["runs"] for row in (small, large)]
    assert a_training[1] > 7 * a_training[0]
    assert (small["backbone"], large["backbone"]) == ("builtin:minilm", "bert-base-uncased")


def test_a_limit_that_is_a_number_is_about_training() -> None:
    task = TaskDescription.model_validate({"use": "glue/sst2", "limit": 100})
    assert (sized(task, 128).train, sized(task, 128).validation) == (100, 872)
    imdb = TaskDescription.model_validate({"use": "imdb"})
    assert sized(imdb, 64).tokens == 64 and sized(imdb, 128).tokens > 64  # texts are cut


def test_overrides_stay_with_the_call_that_gave_them() -> None:
    recipe = find("samplers")[0]
    before = configured(recipe, "paper", Path("runs"), [])[0].fingerprint()
    changed = configured(recipe, "paper", Path("runs"), ["tasks.0.limit=7", "grid.vary.seed=[5]"])
    assert changed[0].fingerprint() != before
    assert configured(recipe, "paper", Path("runs"), [])[0].fingerprint() == before


def test_iat_saves_the_steps_it_shares() -> None:
    (recipe,) = [recipe for recipe in recipes() if recipe.name == "iat_delta"]
    found = estimate_recipes([recipe], quiet, scale="paper", speed=None)
    assert found["hours"] is None
    assert found["operations"] < 0.8 * found["operations_alone"]


def test_the_command(command: Command, tmp_path: Path) -> None:
    code, out, err = command("plan", "spec-table3", "--speed", "1e14", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [row["recipe"] for row in found["recipes"]] == ["five_tasks"]
    code, out, err = command("plan", "hmnet")
    assert code == 0 and "hmnet_relevance" in out and "operations" in out
    code, _, err = command("plan", "hmnett")
    assert code == 2 and "no such file, recipe or paper; did you mean" in err
    assert command("plan", "nowhere-at-all") == (
        2,
        "",
        "brodmann: nowhere-at-all: no such file, recipe or paper; `brodmann init` writes a file "
        "to start from, `brodmann reproduce` lists the rest\n",
    )
    code, _, err = command("plan", "spec", "--speed", "-1")
    assert code == 2 and "above 0" in err
    code, _, err = command("plan", "spec", "--scale", "huge")
    assert code == 2 and "--scale huge" in err
    code, _, err = command("plan", "spec", "--set", "seed=1")
    assert code == 2 and "--set needs a measured plan" in err
    code, _, err = command("plan", "spec", "--data-dir", tmp_path)
    assert code == 2 and "--data-dir measures one recipe, but spec names 1" in err
