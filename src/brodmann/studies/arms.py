"""Compare baselines in one command: run every way of training of `[compare]` over its seeds.

Arms: `single` (one encoder per task), `multi` (plain multi-task training), `iat` and its variants
`random`, `ticket_share` and `prune`; and those of MESH's Table I: `random_only` (random heads
train, from the first step), `off_least` and `off_random` (`multi` with heads switched off),
`off_least_tuned` (then trained once more), `off_least_ticket_share` (from the pretrained weights,
the least important off, the most important trained). Every arm is an ordinary run in
`output/name/<arm>-seed<seed>`; finished ones are skipped, interrupted ones resume. Arms that are
plain training until the switch continue from `multi`'s checkpoint there, to the same bits.
"""

from pathlib import Path
from typing import Any

from brodmann.config import Config
from brodmann.data.schema import checked
from brodmann.data.task_cache import TaskCache
from brodmann.errors import InputError
from brodmann.files import read_json
from brodmann.pipeline.run import one_process, run
from brodmann.pipeline.train import check_methods
from brodmann.studies import Study
from brodmann.studies.compare import compare_runs
from brodmann.studies.plan.counting import Counted, Run, count_runs
from brodmann.studies.plan.many import plan_many
from brodmann.training.events import Report
from brodmann.training.method_settings import IAT

VARIANTS = {"iat": "important", "random": "random", "prune": "prune"}  # like multi until the switch
FROM_THE_START = {
    "ticket_share": "ticket_share",
    "off_least_ticket_share": "ticket_share",
    "random_only": "random",
}
OFF: dict[str, dict[str, Any]] = {  # chosen by `multi`'s map of heads
    "off_least": {"order": "least", "train": False},
    "off_random": {"order": "random", "train": False},
    "off_least_tuned": {"order": "least"},
    "off_least_ticket_share": {"order": "least", "start": False},
}


def run_arms(
    config: Config,
    base: Path,
    report: Report,
    *,
    baseline: str | None = None,
    to: Path | None = None,
    cache: TaskCache | None = None,
) -> dict[str, Any]:
    """Train and measure what is missing, then compare with `multi` (or the first arm).

    All arms have the same tasks, which are read once.
    """
    from brodmann.training.checkpoints.checkpoint import clear_branches

    if config.compare is None:
        raise InputError('no [compare] table: add one, for example arms = ["multi", "iat"]')
    one_process("compare", trains=True)
    arms = config.compare.arms
    if baseline is not None and baseline not in arms:
        raise InputError(f"no arm '{baseline}': expected one of {', '.join(arms)}")
    for arm in arms:
        if arm in OFF and "multi" not in arms:
            raise InputError(f"[compare]: '{arm}' switches off heads of 'multi': add that arm")
    seeds = config.compare.seeds or [config.seed]
    for arm in arms:  # find errors in all arms before the first one trains
        check_methods(arm_config(config, arm, seeds[0]))
    folders: dict[str, list[Path]] = {arm: [] for arm in arms}
    special = config.specialize or IAT()
    cache = cache or TaskCache()
    for seed in seeds:
        shared = None
        for arm in sorted(arms, key=lambda arm: arm != "multi"):  # the others branch from it
            settings = arm_config(config, arm, seed)
            report("arm", {"arm": arm, "seed": seed})
            run(
                settings,
                base,
                report,
                branch_at=[special.delta] if arm == "multi" else (),
                branch_from=shared if arm in VARIANTS else None,
                rules=False,
                heads=arm != "single"
                and arm not in OFF,  # no shared heads to separate, or none left to choose
                cache=cache,
            )
            if arm == "multi":
                shared = settings.folder
            folders[arm].append(settings.folder)
    if not config.keep_checkpoints:  # every arm is trained: no run needs them any more
        for folder in folders.get("multi", []):
            clear_branches(folder)
    usual = "multi" if "multi" in arms else arms[0]
    return compare_runs(folders, report, baseline=baseline or usual, to=to or config.folder)


def arm_config(config: Config, arm: str, seed: int) -> Config:
    """The configuration of one run of one arm."""
    values = config.resolved()
    values.pop("compare", None)
    values.pop("grid", None)
    special = values.pop("specialize", {})
    values["report"] = {**values["report"], "mistakes": False}
    values["tasks"] = config.given_tasks()
    if arm == "single":  # every encoder sees its data as often as in its own run
        values["model"] |= {"architecture": "single", "parameters": {}}  # none of the other's
        values["training"] |= {"sampling": "proportional", "sampling_parameters": {}}
    variant = (VARIANTS | FROM_THE_START).get(arm)
    if variant is not None:
        values["specialize"] = {**special, "variant": variant}
    if arm == "random_only":
        values["specialize"]["delta"] = 1.0
    if arm in OFF:
        alpha = special.get("alpha", IAT().alpha)
        values["off"] = {"by": str(config.folder / f"multi-seed{seed}"), "alpha": alpha, **OFF[arm]}
    values |= {"seed": seed, "output": str(config.folder), "name": f"{arm}-seed{seed}"}
    return checked(Config, values, f"[compare] {arm}")


def planned_arms(config: Config) -> list[Run]:
    """Every arm and seed, with the share of a whole training that it does itself."""
    assert config.compare is not None
    special = config.specialize or IAT()
    found = []
    for seed in config.compare.seeds or [config.seed]:
        for arm in config.compare.arms:
            shared = arm in VARIANTS and "multi" in config.compare.arms
            only_off = arm in OFF and arm not in FROM_THE_START and not OFF[arm].get("train", True)
            share = special.delta if shared else 0.0 if only_off else 1.0
            settings = arm_config(config, arm, seed)
            settings = settings.model_copy(update={"off": None, "specialize": None})
            heads = arm != "single" and arm not in OFF
            found.append((f"{arm}, seed {seed}", settings, heads, share))
    return found


class Compare(Study):
    command = "compare"

    def run(self, config: Config, base: Path, report: Report, **options: Any) -> dict[str, Any]:
        return run_arms(config, base, report, **options)

    def runs(self, config: Config) -> dict[str, Config]:
        assert config.compare is not None
        return {
            f"{arm}, seed {seed}": arm_config(config, arm, seed)
            for arm in config.compare.arms
            for seed in config.compare.seeds or [config.seed]
        }

    def read_more(self, config: Config, result: dict[str, Any]) -> dict[str, Any]:
        folder = config.folder
        return {
            "folder": folder,
            "splits": {
                arm: [read_json(folder / run / "metrics.json")["splits"] for run in one["runs"]]
                for arm, one in result["arms"].items()
            },
        }

    def plan(
        self, config: Config, base: Path, report: Report, *, speed: float | None, heads: bool
    ) -> dict[str, Any]:
        assert config.compare is not None
        arms, seeds = config.compare.arms, config.compare.seeds or [config.seed]
        going_on = "multi" in arms and set(VARIANTS) & set(arms)
        return plan_many(
            config,
            base,
            report,
            planned_arms(config),
            [arm_config(config, arm, seed) for seed in seeds for arm in arms],
            speed=speed,
            branches=len(seeds) if going_on else 0,
        )

    def count(self, config: Config, start: Config | None) -> Counted:
        return count_runs(config, planned_arms(config))


STUDY = Compare()
