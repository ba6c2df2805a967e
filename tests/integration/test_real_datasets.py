"""Real datasets by name: BRODMANN_DATA names a folder of <dataset>/<split>.jsonl.gz."""

import json
import os
from pathlib import Path

import pytest

import brodmann as bm
from brodmann.data import catalogue

# Splits that hold every official row, as loaded; the papers' tables are one off for RTE, WNLI, CB.
WHOLE = {
    "glue/cola": {"train": 8551, "validation": 1043},
    "glue/sst2": {"validation": 872},
    "glue/mrpc": {"train": 3668, "validation": 408, "test": 1725},
    "glue/stsb": {"train": 5749, "validation": 1500},
    "glue/rte": {"train": 2490, "validation": 277},
    "glue/wnli": {"train": 635, "validation": 71},
    "superglue/cb": {"train": 250, "validation": 56},
    "superglue/copa": {"train": 400, "validation": 100},
    "superglue/wic": {"train": 5428, "validation": 638},
    "superglue/wsc": {"train": 554, "validation": 104},
    "superglue/multirc": {"validation": 4848},
    "superglue/boolq": {"validation": 3270},
    "scitail": {"test": 2126},
    "wnut17": {"train": 3394, "validation": 1009, "test": 1287},
    "conll2002": {"train": 8323, "validation": 1915, "test": 1517},
    "xtreme/xnli": {"validation": 2490},
    "xtreme/paws-x": {"validation": 2000},
    "xtreme/xquad": {"validation": 1190},
    "xtreme/mlqa": {"validation": 1148},
}


@pytest.fixture(scope="module")
def data() -> Path:
    folder = os.environ.get("BRODMANN_DATA")
    assert folder, "BRODMANN_DATA names the folder of datasets"
    return Path(folder)


@pytest.mark.realdata
def test_every_dataset_of_the_folder_has_a_name(data: Path) -> None:
    listed = json.loads((data / "manifest.json").read_text("utf-8"))["datasets"]
    assert len(listed) == 33
    loaded = {}
    for entry in catalogue.entries().values():
        for language in entry.languages:
            folder = entry.folder.format(language=language)
            if entry.generated or folder not in listed:
                continue
            task = bm.load_tasks([entry.named(language)], base=data)[0]
            loaded[folder] = task
            names = listed[folder]["label_names"]
            if names is not None and entry.kind in ("classification", "tokens"):
                assert list(task.spec.label_list) == names, folder
            for split, count in WHOLE.get(entry.named(language), {}).items():
                assert task.sizes[split] == count, (entry.name, split)
                official = (
                    entry.train_size(language) if split == "train" else entry.sizes.get(split)
                )
                assert official in (count, None), (entry.name, split)
    assert set(loaded) == set(listed)
    questions = {example["set"] for example in loaded["multirc"].splits["validation"]}
    assert len(questions) == 953  # HMNet's Table 4 counts questions
    assert bm.load_tasks(["superglue/rte"], base=data)[0].sizes == {
        "train": 2490,
        "validation": 277,
    }


@pytest.mark.realdata
def test_a_pair_task_and_a_union_from_real_text(data: Path) -> None:
    pairs = bm.load_tasks([{"pair_of": "ag_news"}], base=data)[0]
    assert pairs.name == "ag_news_pair"
    for split, examples in pairs.splits.items():
        same = sum(example["label"] for example in examples)
        assert 2 * same == len(examples), split
    both = bm.load_tasks(["xtreme/paws-x:en+es"], base=data)[0]
    assert both.sizes["validation"] == sum(
        both.sizes[f"validation_{code}"] for code in ("en", "es")
    )
