"""Every Python example in README, docs and docstrings is true, and all that they name exists."""

import doctest
import importlib
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    if not blocks:
        return
    script = tmp_path / "example.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")


def modules_with_examples() -> list[str]:
    source = ROOT / "src"
    return sorted(
        ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        for path in (source / "brodmann").rglob("*.py")
        if ">>>" in path.read_text(encoding="utf-8")
    )


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_in_docstrings_are_true(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.failed == 0 and found.attempted > 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_named_files_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / link).exists(), link
    for name in re.findall(
        r"`((?:cli|papers|terminal|studies|pipeline|config|training|reporting|measuring|models"
        r"|analysis|data)/[a-z_/]+\.(?:py|toml|html))`",
        text,
    ):
        assert (ROOT / "src" / "brodmann" / name).exists(), name
    for name in re.findall(
        r"`?((?:tests|benchmarks|examples)/[a-z_/]+\.(?:py|jsonl|json|toml))", text
    ):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_of_the_documents_exist(page: Path) -> None:
    from typer.main import get_group

    from brodmann.cli import app

    options = {
        name: {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)}
        | {"--help"}
        for name, command in get_group(app).commands.items()
    }
    text = page.read_text(encoding="utf-8")
    lines = [
        line
        for block in re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
        for line in block.split("\n")
    ]
    lines += [" ".join(words.split()) for words in re.findall(r"`(brodmann [^`]+)`", text)]
    for line in lines:
        called = re.search(r"(?:^|[|&] ?|-m )brodmann ([a-z]+)\b([^#|&]*)", line)
        if called is not None:
            name, rest = called.groups()
            assert name in options, line
            assert set(re.findall(r"(?<!\S)--[a-z][a-z0-9-]*", rest)) <= options[name], line


def test_the_readme_counts_the_tables_and_views_of_the_papers() -> None:
    from brodmann.papers.recipes import index, recipes

    views = {view.name for recipe in recipes() for view in recipe.views}
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"all {len(index())} tables and figures" in text
    assert f"(and {len(views - set(index()))} further views:" in text


def test_the_page_on_the_report_lists_every_section() -> None:
    sections = (ROOT / "src" / "brodmann" / "reporting" / "sections").glob("*.py")
    source = "\n".join(path.read_text(encoding="utf-8") for path in sections)
    titles = set(re.findall(r'\bSection\(\s*"[a-z-]+",\s*"([^"]+)"', source))
    text = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    assert len(titles) > 12
    assert [title for title in sorted(titles) if f"\n| {title} |" not in text] == []


def test_contributing_names_only_what_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    source = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("src", "tests")
        for path in (ROOT / folder).rglob("*.py")
    )
    suites = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert set(re.findall(r"`(test_\w+\.py)`", text)) <= suites
    names = re.findall(
        r"`(_?[A-Z][A-Z_]{3,}|[a-z_]+_[a-z_]+|[A-Z][a-z]+[A-Z]\w+)(?:\([^`]*\))?`", text
    )
    assert len(names) > 40
    assert [name for name in names if not re.search(rf"\b{name}\b", source)] == []


def test_contributing_lists_the_modules_that_compare_kinds() -> None:
    from brodmann.data.kinds import KINDS

    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    words = "|".join(KINDS)
    compares = re.compile(rf'\bkind (?:[!=]=|(?:not )?in) \(?"(?:{words})"')
    root = ROOT / "src" / "brodmann"
    found = [
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if compares.search(path.read_text(encoding="utf-8"))
    ]
    assert [path for path in found if f"`{path}`" not in text] == []


def test_configurations_in_the_documents_and_examples_are_valid(tmp_path: Path) -> None:
    from brodmann.config import load_config
    from brodmann.pipeline.init import STARTER

    texts = [
        STARTER,
        *((path.read_text(encoding="utf-8")) for path in (ROOT / "examples").glob("*.toml")),
        *(
            path.read_text(encoding="utf-8")
            for path in (ROOT / "src" / "brodmann" / "papers" / "recipes").glob("*.toml")
            if path.name != "index.toml"
        ),
    ]
    for page in PAGES:
        blocks = re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        texts += blocks
    assert len(texts) >= 4
    for text in texts:
        path = tmp_path / "c.toml"
        path.write_text(text, encoding="utf-8")
        config = load_config(path)[0]
        if config.meta is not None:
            seen = len(config.tasks) - len(config.meta.unseen) - (config.meta.tuning is not None)
            assert config.meta.pairs <= seen


def test_the_catalogue_page_lists_every_dataset() -> None:
    from brodmann.data.catalogue import entries

    page = (ROOT / "docs" / "catalogue.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([^`]+)`(?: \(\d+ languages\))? \| (\w+) \|", page, re.MULTILINE)
    public = [entry for entry in entries().values() if not entry.generated]
    assert listed == [(entry.name, entry.kind) for entry in public]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"lists all {len(public)} with their metrics" in readme
