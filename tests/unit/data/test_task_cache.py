"""What a command has read is not read again, and no run changes it for the next."""

import pickle
from pathlib import Path
from typing import Any

import pytest

import brodmann as bm
from brodmann.data.sources import store
from brodmann.data.task_cache import TaskCache

OWN: dict[str, Any] = {"name": "own", "kind": "classification", "data": "own.csv"}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    lines = [f"text {i} of many,title {i},{'yes' if i % 2 else 'no'}\n" for i in range(60)]
    (tmp_path / "own.csv").write_text("text,title,label\n" + "".join(lines), encoding="utf-8")
    named = 'name = "named"\nkind = "classification"\ndata = "own.csv"\n'
    (tmp_path / "named.toml").write_text(named, encoding="utf-8")
    return tmp_path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that are read, in order."""
    found: list[str] = []
    inner = store.read_file

    def counted(path: Path, encoding: str = "utf-8") -> Any:
        found.append(path.name)
        return inner(path, encoding)

    monkeypatch.setattr(store, "read_file", counted)
    return found


def assert_same_task(one: Any, other: Any) -> None:
    assert one.fingerprint() == other.fingerprint() and one.notes == other.notes


@pytest.mark.parametrize(
    "entry",
    [
        OWN,
        {**OWN, "limit": {"train": 10, "validation": 4}},
        {**OWN, "data": ["own.csv"]},
        {**OWN, "data": "own*.csv"},
        "named.toml",
        {"pair_of": OWN, "limit": 20},
        {"pair_of": "named.toml"},
        {"use": "builtin/topic", "limit": {"train": 10, "validation": 4, "test": 4}},
    ],
)
def test_the_second_time_is_a_copy_of_the_first_and_reads_nothing(
    base: Path, reads: list[str], entry: Any
) -> None:
    cache = TaskCache()
    first = cache.load([entry], base=base, seed=3)[0]
    count = len(reads)
    second = cache.load([entry], base=base, seed=3)[0]
    assert_same_task(first, second)
    assert len(reads) == count <= 1
    assert_same_task(first, bm.load_tasks([entry], base=base, seed=3)[0])


def test_what_one_run_does_to_its_tasks_the_next_does_not_see(base: Path) -> None:
    cache = TaskCache()
    first = cache.load([OWN], base=base, seed=0)[0]
    before, notes = first.fingerprint(), list(first.notes)
    first.splits["train"][0]["text"] = "another"
    first.splits["validation"].pop()
    first.notes.append("mine")
    del first.splits["train"][1:]
    second = cache.load([OWN], base=base, seed=0)[0]
    assert second.fingerprint() == before and second.notes == notes


def test_only_the_same_description_base_and_seed_share(base: Path, reads: list[str]) -> None:
    cache = TaskCache()
    written_out = {**OWN, "validation_share": 0.1, "text": "text"}  # text is looked for anyway
    for entry, seed, count in (
        (OWN, 0, 1),
        ({**OWN, "encoding": "utf-8"}, 0, 1),  # the default, written out
        (OWN, 1, 2),
        ({**OWN, "limit": 20}, 0, 3),
        ({**OWN, "validation_share": 0.2}, 0, 4),
        (written_out, 0, 5),
    ):
        found = cache.load([entry], base=base, seed=seed)[0]
        assert len(reads) == count
        assert_same_task(found, bm.load_tasks([entry], base=base, seed=seed)[0])
        reads.pop()
    elsewhere = base / "elsewhere"
    elsewhere.mkdir()
    lines = "".join(f"new {i},{'yes' if i % 3 else 'no'}\n" for i in range(30))
    (elsewhere / "own.csv").write_text(f"text,label\n{lines}", encoding="utf-8")
    assert cache.load([OWN], base=elsewhere, seed=0)[0].sizes == {"train": 27, "validation": 3}


def test_other_tasks_over_a_file_share_its_rows_while_tables_are_kept(
    base: Path, reads: list[str]
) -> None:
    cache = TaskCache()
    with cache.keeping_tables():
        for place in range(3):
            cache.load([{**OWN, "limit": 10 + place}], base=base, seed=0)
        cache.load([OWN, {**OWN, "name": "titles", "text": "title"}], base=base, seed=0)
    assert reads == ["own.csv"]
    cache.load([{**OWN, "limit": 9}], base=base, seed=0)
    assert reads == ["own.csv"] * 2


def test_rows_in_memory_are_read_every_time() -> None:
    rows = [{"text": f"text {i}", "label": i % 2} for i in range(30)]
    cache, entry = TaskCache(), {"name": "t", "kind": "classification", "data": rows}
    first = cache.load([entry], base=".", seed=0)[0]
    rows.append({"text": "another", "label": 1})
    second = cache.load([entry], base=".", seed=0)[0]
    assert sum(second.sizes.values()) == sum(first.sizes.values()) + 1


@pytest.mark.parametrize("together", [False, True])
def test_two_shares_of_one_file_are_refused_only_in_one_list(base: Path, together: bool) -> None:
    cache = TaskCache()
    half = {**OWN, "name": "half", "validation_share": 0.5}
    if together:
        with cache.keeping_tables():
            cache.load([OWN], base=base, seed=0)
            cache.load([half], base=base, seed=0)
    else:
        cache.load([OWN], base=base, seed=0)
        cache.load([half], base=base, seed=0)
    with pytest.raises(bm.InputError) as cached:
        cache.load([OWN, half], base=base, seed=0)
    with pytest.raises(bm.InputError) as plain:
        bm.load_tasks([OWN, half], base=base, seed=0)
    assert str(cached.value) == str(plain.value)


def test_errors_are_those_of_load_tasks(base: Path) -> None:
    cache = TaskCache()
    cache.load([OWN], base=base, seed=0)
    wrong: list[Any] = [
        [OWN, OWN],
        [],
        [3],
        [{**OWN, "lable": "x"}],
        [{"pair_of": {**OWN, "kind": "clasification"}}],
        [{"pair_of": "builtin/tpoic"}],
        ["none.toml"],
        OWN,
    ]
    for tasks in wrong:
        with pytest.raises(bm.InputError) as cached:
            cache.load(tasks, base=base, seed=0)
        with pytest.raises(bm.InputError) as plain:
            bm.load_tasks(tasks, base=base, seed=0)
        assert str(cached.value) == str(plain.value)


def test_another_process_gets_an_empty_one(base: Path, reads: list[str]) -> None:
    cache = TaskCache()
    cache.load([OWN], base=base, seed=0)
    sent = pickle.dumps(cache)
    assert len(sent) < 200
    pickle.loads(sent).load([OWN], base=base, seed=0)
    assert reads == ["own.csv"] * 2
