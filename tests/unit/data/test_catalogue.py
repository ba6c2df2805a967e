"""The catalogue: every entry from a small folder with the hub's fields to a score."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.hub_rows import hub_rows, write_dataset, write_split

import brodmann as bm
from brodmann.data import catalogue
from brodmann.data.kinds import KINDS, every_score
from brodmann.data.sources.dataset_shapes import SHAPES
from brodmann.errors import InputError

PUBLIC = [entry for entry in catalogue.entries().values() if not entry.generated]
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("entry", PUBLIC, ids=lambda entry: entry.name)
def test_every_entry_goes_from_the_hubs_fields_to_a_score(
    entry: catalogue.Entry, tmp_path: Path
) -> None:
    write_dataset(tmp_path, entry)
    task = bm.load_tasks([entry.name], base=tmp_path)[0]
    assert task.spec.kind == entry.kind and task.spec.metric == entry.metrics[0]
    assert set(task.splits) >= {"train", "validation"} and "test" not in task.splits
    assert not any("read from" in note for note in task.notes)
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", [task])
    scores = bm.evaluate(model, [task])[task.name].scores
    assert set(entry.metrics) <= set(scores)
    assert all(-1 <= scores[metric] <= 1 for metric in entry.metrics)
    assert bm.fit(model, [task], epochs=1, learning_rate=1e-3).step > 0


@pytest.mark.parametrize("entry", PUBLIC, ids=lambda entry: entry.name)
def test_every_entry_is_complete(entry: catalogue.Entry) -> None:
    kind = KINDS[entry.kind]
    assert set(entry.metrics) <= set(kind.METRICS) and entry.metrics
    assert set(entry.columns) <= {*kind.REQUIRED, *kind.OPTIONAL}
    assert entry.shape is None or entry.shape in SHAPES
    assert (entry.labels is None) == (entry.kind in ("regression", "choice", "span"))
    assert entry.hub is not None or entry.name == "wikigold"
    assert entry.licence and not entry.tried
    assert re.search(rf"@\w+{{{entry.citation},", (ROOT / "docs/references.bib").read_text("utf-8"))
    assert entry.train_size(entry.languages[0]) or entry.name == "wikigold"
    for other in (entry.instead, entry.train_of):
        assert other is None or other in catalogue.entries()
    if len(entry.languages) > 1:
        assert "{language}" in entry.folder and "{language}" in (entry.hub_config or "")


def test_the_groups_have_what_they_should() -> None:
    names = [entry.name for entry in PUBLIC]
    assert sum(name.startswith("glue/") for name in names) == 9
    assert sum(name.startswith("superglue/") for name in names) == 8
    assert sum(name.startswith("mrqa/") for name in names) == 6
    languages = {entry.name: len(entry.languages) for entry in PUBLIC}
    expected = {"xnli": 15, "paws-x": 7, "xquad": 11, "mlqa": 7, "panx": 40}
    assert {name: languages[f"xtreme/{name}"] for name in expected} == expected


def test_mnli_is_judged_on_both_validation_sets(tmp_path: Path) -> None:
    entry = catalogue.entries()["glue/mnli"]
    folder = write_dataset(tmp_path, entry)
    write_split(folder, "validation_mismatched", hub_rows(entry, 7))
    named = {"use": "glue/mnli", "limit": {"validation": 5}}
    task = bm.load_tasks([named], base=tmp_path)[0]
    assert task.sizes == {"train": 12, "validation": 5, "validation_mismatched": 5}
    assert (
        "mnli: fewer rows than the official set: train 12 of 392,702, validation 12 of 9,815, "
        "validation_mismatched 7 of 9,832" in task.notes
    )
    assert (
        "mnli: splits not used: test (labels not public), test_mismatched (labels not public)"
        in (task.notes)
    )


def test_names_languages_and_what_to_do_about_wrong_ones(tmp_path: Path) -> None:
    for wrong, message in (
        ("sst2", "unknown task 'sst2'; did you mean 'glue/sst2'?"),
        ("rte", "did you mean 'glue/rte' or 'superglue/rte'?"),
        ("glue/colla", "did you mean 'glue/cola'?"),
        ("xtreme/xnli:xx", "'xtreme/xnli' has no language 'xx'; known: en, ar"),
        ("xtreme/xnli:es+es", "a language occurs twice"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            bm.load_tasks([wrong], base=tmp_path)
    with pytest.raises(InputError) as caught:
        bm.load_tasks(["glue/cola"], base=tmp_path)
    text = str(caught.value)
    assert text.startswith(
        f"task 'cola': {tmp_path / 'cola'}: no such folder (set data_dir to the folder of "
        "datasets), and hub:"
    )
    assert "`brodmann tasks --fetch NAME --out DIR`" in text
    with pytest.raises(InputError, match="no copy on the hub is known: put <split>"):
        bm.load_tasks(["wikigold"], base=tmp_path)


def test_a_named_task_can_be_overridden(tmp_path: Path) -> None:
    rows = [{"sentence": f"text {i}", "label": i % 2} for i in range(20)]
    own = {"use": "glue/cola", "name": "mine", "train": rows, "metric": "accuracy"}
    task = bm.load_tasks([own])[0]
    assert task.name == "mine" and task.spec.labels == ("unacceptable", "acceptable")
    assert task.spec.metric == "accuracy" and task.spec.metrics == ("accuracy",)


def test_what_stands_in_for_what(tmp_path: Path) -> None:
    entries = catalogue.entries()
    write_dataset(tmp_path, entries["glue/rte"])
    write_dataset(tmp_path, entries["squad"])
    task = bm.load_tasks(["superglue/rte"], base=tmp_path)[0]
    assert task.spec.named == "superglue/rte" and task.spec.columns["text"] == "sentence1"
    assert "rte: read from glue/rte instead" in task.notes
    assert bm.load_tasks(["mrqa/squad"], base=tmp_path)[0].spec.shape == ""
    write_split(tmp_path / "xquad_en", "validation", hub_rows(entries["xtreme/xquad"], 5))
    english = bm.load_tasks(["xtreme/xquad"], base=tmp_path)[0]
    assert english.sizes == {"train": 12, "validation": 5}
    assert "xquad: its training split is that of squad" in english.notes
    write_split(tmp_path / "xquad_es", "validation", hub_rows(entries["xtreme/xquad"], 30))
    spanish = bm.load_tasks(["xtreme/xquad:es"], base=tmp_path)[0]
    assert spanish.sizes == {"train": 26, "validation": 4} and spanish.spec.language == "es"
    assert "`brodmann tasks --fetch xtreme/xquad:es --out DIR`" in spanish.notes[0]


def test_rows_of_one_subset_and_rows_without_a_label(tmp_path: Path) -> None:
    entry = catalogue.entries()["mrqa/newsqa"]
    rows = hub_rows(entry)
    for row in rows[5:]:
        row["subset"] = "SQuAD"
    write_split(tmp_path / "mrqa_newsqa", "train", rows)
    write_split(tmp_path / "mrqa_newsqa", "validation", rows)
    assert bm.load_tasks(["mrqa/newsqa"], base=tmp_path)[0].sizes == {"train": 5, "validation": 5}
    snli = catalogue.entries()["snli"]
    rows = hub_rows(snli)
    rows[0]["label"] = -1
    write_split(tmp_path / "snli", "train", rows)
    write_split(tmp_path / "snli", "validation", rows)
    assert bm.load_tasks(["snli"], base=tmp_path)[0].sizes == {"train": 11, "validation": 11}
    write_split(tmp_path / "cola", "train", rows)
    with pytest.raises(InputError, match="the label is empty"):
        bm.load_tasks([{"use": "snli", "skip_unlabelled": False}], base=tmp_path)


def test_a_union_of_languages(tmp_path: Path) -> None:
    entry = catalogue.entries()["xtreme/xquad"]
    for language in ("en", "es", "de"):
        write_dataset(tmp_path, entry, language)
    task = bm.load_tasks([{"use": "xtreme/xquad:en+es+de", "limit": 10}], base=tmp_path)[0]
    assert task.name == "xquad:en-es-de" and task.spec.language == "en+es+de"
    assert task.sizes == {
        "train": 10,
        "validation": 36,
        **{f"validation_{language}": 12 for language in ("en", "es", "de")},
    }
    counts = [sum(e["language"] == code for e in task.splits["train"]) for code in ("en", "es")]
    assert counts == [4, 3]
    assert task.sizes["train"] == 10
    answers = [{"answer": f"la {e['answers'][0][0]}"} for e in task.splits["validation"]]
    exact = every_score(answers, task.splits["validation"], task.spec)["exact_match"]
    assert exact == pytest.approx(1 / 3)  # an article in Spanish alone
    values = bm.load_tasks(
        [{"use": "builtin/similarity:en+es", "limit": {"train": 20, "validation": 8, "test": 8}}]
    )[0]
    scale = [example["label"] for example in values.splits["train"]]
    assert values.spec.target_mean == pytest.approx(sum(scale) / len(scale), abs=0.3)
    assert values.sizes["train"] == 20


def test_multirc_questions_are_drawn_and_held_out_whole(tmp_path: Path) -> None:
    entry = catalogue.entries()["superglue/multirc"]
    write_split(tmp_path / "multirc", "train", hub_rows(entry, 60))
    task = bm.load_tasks([{"use": "superglue/multirc", "limit": 25}], base=tmp_path)[0]
    sets = [{e["set"] for e in task.splits[split]} for split in ("train", "validation")]
    assert not sets[0] & sets[1]
    for split in ("train", "validation"):
        counts = [e["set"] for e in task.splits[split]]
        assert {counts.count(name) for name in counts} == {3}
    assert task.sizes["train"] == 24


def test_limits_keep_the_shares_of_the_classes() -> None:
    rows = [{"text": f"t{i}", "label": "rare" if i % 10 == 0 else "common"} for i in range(200)]
    for seed in range(3):
        task = bm.load_task(
            "t", kind="classification", train=rows, validation=rows, limit=50, seed=seed
        )
        assert sum(e["label"] == 1 for e in task.splits["train"]) == 5
    again = bm.load_task("t", kind="classification", train=rows, validation=rows, limit=50, seed=2)
    assert again.splits == task.splits


@pytest.fixture
def hub_cache(tmp_path: Path) -> dict[str, str]:
    """A hub cache as the hub's client leaves it, with two datasets in Parquet."""
    import pandas as pd

    home = tmp_path / "hf"
    for name, folder in (("glue/cola", "datasets--nyu-mll--glue"), ("squad", None)):
        entry = catalogue.entries()[name]
        folder = folder or "datasets--rajpurkar--squad"
        config = entry.hub_config or "plain_text"
        snapshot = home / "hub" / folder / "snapshots" / ("a" * 40)
        (snapshot / config).mkdir(parents=True)
        for split, labelled in (("train", True), ("validation", True), ("test", False)):
            rows = hub_rows(entry, 12 if labelled else 6, labelled=labelled)
            frame = pd.DataFrame(rows)
            frame.to_parquet(snapshot / config / f"{split}-00000-of-00001.parquet")
        files = "".join(
            f"  - split: {s}\n    path: {config}/{s}-*\n" for s in ("train", "validation", "test")
        )
        (snapshot / "README.md").write_text(
            f"---\nconfigs:\n- config_name: {config}\n  data_files:\n{files}---\n", "utf-8"
        )
        (home / "hub" / folder / "refs").mkdir()
        (home / "hub" / folder / "refs" / "main").write_text("a" * 40, "utf-8")
    return {**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1"}


def test_the_hubs_cache_and_fetching_into_a_folder(
    hub_cache: dict[str, str], tmp_path: Path
) -> None:
    """A second process, since the hub's client reads its environment when it is imported."""
    code = (
        "import sys, brodmann as bm\n"
        "from brodmann.cli import main\n"
        "def fingerprints(base):\n"
        "    return [t.fingerprint() for t in bm.load_tasks(['glue/cola', 'squad'], base=base)]\n"
        "empty, data = sys.argv[1:]\n"
        "cached = fingerprints(empty)\n"
        "fetch = ['--fetch', 'glue/cola', '--fetch', 'squad']\n"
        "sys.argv = ['brodmann', 'tasks', '--out', data, *fetch]\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as stop:\n"
        "    assert not stop.code, stop.code\n"
        "print('same' if fingerprints(data) == cached else 'other')\n"
    )
    (tmp_path / "empty").mkdir()
    data = tmp_path / "data"
    words = [sys.executable, "-c", code, str(tmp_path / "empty"), str(data)]
    done = subprocess.run(words, env=hub_cache, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "glue/cola (research use)" in done.stdout
    assert f"wrote {data / 'cola' / 'test.jsonl.gz'} (6 rows)" in done.stdout
    assert done.stdout.endswith("same\n")


def test_a_folder_of_save_to_disk_in_the_data_folder(tmp_path: Path) -> None:
    import datasets

    entry = catalogue.entries()["glue/cola"]
    saved = datasets.DatasetDict(
        {split: datasets.Dataset.from_list(hub_rows(entry)) for split in ("train", "validation")}
    )
    saved.save_to_disk(str(tmp_path / "cola"))
    assert bm.load_tasks(["glue/cola"], base=tmp_path)[0].sizes == {"train": 12, "validation": 12}


def test_predicting_takes_rows_with_the_datasets_own_fields(tmp_path: Path) -> None:
    for name in ("superglue/wic", "superglue/record"):
        entry = catalogue.entries()[name]
        write_dataset(tmp_path, entry)
        task = bm.load_tasks([name], base=tmp_path)[0]
        model = bm.MultiTaskModel.from_pretrained("builtin:tiny", [task])
        rows = hub_rows(entry, 3, labelled=False)
        answers: list[dict[str, Any]] = model.predict(task.name, rows)
        assert len(answers) == 3
        if entry.shape == "record":
            assert answers[0]["text"] in rows[0]["entities"]


def test_sizes_are_those_of_the_papers() -> None:
    """Table 1 of Li et al. 2023, and what Table 4 of the hierarchical network's paper rounds."""
    trained = {
        "ag_news": 120_000, "glue/cola": 8551, "glue/mnli": 392_702, "glue/qqp": 363_846,
        "glue/mrpc": 3668, "glue/qnli": 104_743, "glue/sst2": 67_349, "glue/rte": 2490,
        "glue/stsb": 5749, "scitail": 23_596, "imdb": 25_000,
    }  # fmt: skip
    entries = catalogue.entries()
    assert {name: entries[name].sizes["train"] for name in trained} == trained
    validated = {
        "glue/wnli": 71, "glue/sst2": 872, "glue/stsb": 1500, "glue/mrpc": 408,
    }  # fmt: skip
    assert {name: entries[name].sizes["validation"] for name in validated} == validated
    rounded = {"snli": 9_800, "glue/qqp": 40_000, "superglue/boolq": 3_300}
    for name, about in rounded.items():
        assert entries[name].sizes["validation"] == pytest.approx(about, rel=0.02), name


def test_every_shape_is_applied_to_raw_rows_when_predicting(tmp_path: Path) -> None:
    """Also where a raw field has the name of one of ours (WSC's text, HotpotQA's context)."""
    from brodmann.data.answering.inputs import read_inputs

    for entry in PUBLIC:
        if entry.shape is None or entry.benchmark == "mrqa":
            continue
        write_dataset(tmp_path, entry)
        spec = bm.load_tasks([entry.name], base=tmp_path)[0].spec
        raw = hub_rows(entry, 3)
        examples = read_inputs(spec, raw)
        if entry.shape == "wsc":
            assert examples[0]["text"].startswith("* Ann Lee, * told Bo that # she #")
            with pytest.raises(InputError, match="input 1: task 'wsc': span1_text: 'Zed' is not"):
                read_inputs(spec, [{**raw[0], "span1_text": "Zed"}])
            assert read_inputs(spec, [{"text": "* Ann * said # she # came"}])
        if entry.shape == "hotpot":
            assert examples[0]["context"].startswith("Dogs: A red dog.")
        if entry.shape == "wic":
            with pytest.raises(InputError, match="the shape 'wic' needs the field 'sentence1'"):
                read_inputs(spec, [{"word": "red"}])


def test_tasks_over_one_file_hold_out_the_same_rows_whatever_their_shape(tmp_path: Path) -> None:
    entry = catalogue.entries()["superglue/copa"]
    write_split(tmp_path / "copa", "train", hub_rows(entry, 60))
    file = "copa/train.jsonl.gz"
    first, second = bm.load_tasks(
        [
            {"name": "a", "kind": "choice", "shape": "copa", "train": file},
            {"name": "b", "kind": "classification", "train": file, "text": "premise",
             "label": "question"},
        ],
        base=tmp_path,
    )  # fmt: skip
    judged = [
        {e["text"].partition(" What")[0] for e in t.splits["validation"]} for t in (first, second)
    ]
    assert judged[0] == judged[1] and len(judged[0]) > 3


def test_wrong_splits_are_named(tmp_path: Path) -> None:
    write_dataset(tmp_path, catalogue.entries()["glue/cola"])
    for splits, message in (
        (
            {"validation": "dev"},
            "splits: validation = 'dev': no such split, found test",
        ),
        ({"train": "train", "validation": "train"}, "one split cannot be used twice"),
        ({"dev": "validation"}, "'dev' is not a split"),
    ):
        with pytest.raises(InputError, match=message):
            bm.load_tasks([{"use": "glue/cola", "splits": splits}], base=tmp_path)
    with pytest.raises(InputError, match=r"limit\.dev"):
        bm.load_tasks([{"use": "glue/cola", "limit": {"dev": 3}}], base=tmp_path)
    with pytest.raises(InputError, match="pair_of and splits cannot be combined"):
        bm.load_tasks([{"pair_of": "builtin/topic", "splits": {"train": "train"}}])


def test_translations_of_judged_rows_are_never_trained_on(tmp_path: Path) -> None:
    """A language with evaluation data alone is only judged, or holds out the same rows."""
    entry = catalogue.entries()["xtreme/xquad"]
    for language in ("en", "es"):
        write_split(tmp_path / f"xquad_{language}", "validation", hub_rows(entry, 30))
    both = bm.load_tasks(["xtreme/xquad:en+es"], base=tmp_path)[0]
    places = [{(e["question"]) for e in both.splits[split]} for split in ("train", "validation")]
    assert not places[0] & places[1] and both.sizes["validation"] == 8
    write_dataset(tmp_path, catalogue.entries()["squad"])
    both = bm.load_tasks(["xtreme/xquad:en+es"], base=tmp_path)[0]
    assert {e["language"] for e in both.splits["train"]} == {"en"}
    assert both.sizes["validation"] == 60 and both.sizes["validation_es"] == 30
    assert "xquad:en-es: no training split in es: only evaluated there" in both.notes
    with pytest.raises(InputError, match="a union of languages takes no 'data'"):
        bm.load_tasks([{"use": "xtreme/xquad:en+es", "data": "xquad_en"}], base=tmp_path)


def test_files_of_a_dataset_folder(tmp_path: Path) -> None:
    entry = catalogue.entries()["glue/cola"]
    folder = write_dataset(tmp_path, entry)
    (folder / "notes.csv").write_text("nothing to see", "utf-8")
    (folder / "._train.jsonl.gz").write_bytes(b"junk")
    (folder / "validation.jsonl.gz").rename(folder / "Validation.JSONL.gz")
    assert bm.load_tasks(["glue/cola"], base=tmp_path)[0].sizes == {"train": 12, "validation": 12}
    (folder / "train.csv").write_text("sentence,label\nx,0\n", "utf-8")
    with pytest.raises(InputError, match="are both the split 'train': remove one"):
        bm.load_tasks(["glue/cola"], base=tmp_path)
    (tmp_path / "sst2").mkdir()
    (tmp_path / "sst2" / "dataset_dict.json").write_text("{", "utf-8")
    with pytest.raises(InputError, match="damaged: not what datasets' save_to_disk wrote"):
        bm.load_tasks(["glue/sst2"], base=tmp_path)


def test_hub_keys_beside_a_name_replace_the_entrys(tmp_path: Path) -> None:
    write_dataset(tmp_path, catalogue.entries()["glue/cola"])
    for given, asked in (
        ({"hub": "me/mine"}, "hub:me/mine/cola could not"),
        ({"hub_config": "other"}, "hub:nyu-mll/glue/other could not"),
        ({"hub_revision": "x"}, "hub:nyu-mll/glue/cola could not"),
    ):
        with pytest.raises(InputError, match=asked):
            bm.load_tasks([{"use": "glue/cola", **given}], base=tmp_path)


def test_evaluation_data_alone_and_tests_without_labels(tmp_path: Path) -> None:
    entry = catalogue.entries()["xtreme/xnli"]
    for split in ("validation", "test"):
        write_split(tmp_path / "xnli_es", split, hub_rows(entry, 30))
    assert bm.load_tasks(["xtreme/xnli:es"], base=tmp_path)[0].sizes == {
        "train": 27, "test": 30, "validation": 3,
    }  # fmt: skip
    bare = [{k: v for k, v in row.items() if k != "label"} for row in hub_rows(entry, 6)]
    write_split(tmp_path / "xnli_es", "test", bare)
    task = bm.load_tasks(["xtreme/xnli:es"], base=tmp_path)[0]
    assert "test" not in task.splits
    assert "xnli:es: splits not used: test (labels not public)" in task.notes


def test_what_does_not_fit_together_is_said_before_anything_is_read(tmp_path: Path) -> None:
    write_dataset(tmp_path, catalogue.entries()["wnut17"])
    plain = ["O", *"abcdefghijkl"]
    for wrong, message in (
        ([{"use": "wnut17", "labels": plain}], "entities need tags such as B-PER and I-PER"),
        (
            [{"use": "glue/sst2", "tag_scheme": "bio"}],
            "tag_scheme: is allowed only for the kind 'tokens'",
        ),
        (
            [{"use": "wnut17", "answer_rules": "squad"}],
            "answer_rules: is allowed only for the kind 'span'",
        ),
        (["glue/sst2", "glue/nope"], r"tasks\[1\]: unknown task 'glue/nope'"),
        ([{"use": ""}], "use = '': expected the name of a task"),
        ([{"use": "wnut17", "name": "/tmp/x"}], "name = '/tmp/x': expected letters"),
    ):
        with pytest.raises(InputError, match=message):
            bm.load_tasks(wrong, base=tmp_path)


def test_a_shape_brings_its_columns_along(tmp_path: Path) -> None:
    entry = catalogue.entries()["superglue/multirc"]
    rows = hub_rows(entry, 12)
    own = {"kind": "classification", "shape": "multirc", "train": rows, "validation": rows}
    task = bm.load_task("own", metric="exact_match", **own)
    assert set(task.spec.columns) == {"text", "label", "text_pair", "set"}
