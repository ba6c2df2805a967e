"""From a recipe's results to the rows and columns of a table or figure, in the paper's units."""

from collections.abc import Callable
from typing import Any

from brodmann.papers.readers.links import link_ahp, link_cnm, link_cra, link_dse
from brodmann.papers.readers.of_heads import (
    dual_task,
    dual_task_by_model,
    dual_task_scores,
    heads_of_tasks,
    heads_per_layer,
    overlapping_heads,
    pair_dissociation,
    pair_dissociation_by_model,
    pairwise_dissociation,
    paradigm_averages,
    pruned_scores,
)
from brodmann.papers.readers.of_relations import (
    attention_of_harmful,
    attention_of_helpful,
    influence,
    relevance_pairs,
    relevance_words,
)
from brodmann.papers.readers.of_runs import (
    adapted,
    by_task_or_language,
    covsim_and_gain,
    covsim_and_score,
    few_shot,
    unseen_pairs,
    zero_shot_starts,
)
from brodmann.papers.readers.of_scores import (
    arm_averages,
    arm_dissociation,
    arm_scores,
    case_ablation,
    case_averages,
    case_dissociation,
    case_scores,
    case_scores_and_millions,
    case_scores_and_sizes,
    growing,
    largest_group,
)
from brodmann.papers.readers.of_statistics import dataset_statistics, model_statistics
from brodmann.papers.readers.of_training import (
    entropy_over_training,
    examples_over_training,
    scores_over_training,
    two_tasks_over_training,
)
from brodmann.papers.recipes import Numbers

Reader = Callable[[dict[str, Any]], Numbers]

# Readers whose numbers are D, or means of it: their tables note where it is undefined.
SHOW_DISSOCIATION = {
    "pair_dissociation",
    "pair_dissociation_by_model",
    "paradigm_averages",
    "dual_task",
    "dual_task_by_model",
    "dual_task_scores",
    "pruned_scores",
    "pairwise_dissociation",
    "case_dissociation",
    "arm_dissociation",
    "link_dse",
    "link_cra",
    "link_ahp",
    "link_cnm",
    "by_task_or_language",
}

READERS: dict[str, Reader] = {
    reader.__name__: reader
    for reader in (
        pair_dissociation,
        pair_dissociation_by_model,
        dual_task,
        dual_task_by_model,
        dual_task_scores,
        pruned_scores,
        pairwise_dissociation,
        overlapping_heads,
        heads_per_layer,
        heads_of_tasks,
        paradigm_averages,
        case_averages,
        case_ablation,
        case_scores,
        case_scores_and_sizes,
        case_scores_and_millions,
        case_dissociation,
        arm_averages,
        arm_scores,
        arm_dissociation,
        few_shot,
        relevance_words,
        relevance_pairs,
        influence,
        link_dse,
        link_cra,
        link_ahp,
        scores_over_training,
        two_tasks_over_training,
        examples_over_training,
        entropy_over_training,
        dataset_statistics,
        model_statistics,
        link_cnm,
        covsim_and_score,
        covsim_and_gain,
        zero_shot_starts,
        adapted,
        growing,
        largest_group,
        attention_of_helpful,
        attention_of_harmful,
        by_task_or_language,
        unseen_pairs,
    )
}
