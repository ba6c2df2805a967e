"""Every Python example in README, docs and docstrings is true, and all that they name exists."""

import ast
import doctest
import importlib
import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

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
    rooms = "|".join(path.parent.name for path in (ROOT / "src" / "brodmann").glob("*/__init__.py"))
    for name in re.findall(rf"`((?:{rooms})/[a-z_/]+\.(?:py|toml|html))`", text):
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
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    begin = text.index("Some modules outside the contract compare kinds")
    listed = re.findall(r"`([\w/]+\.py)`", text[begin : text.index("\n3. ", begin)])
    root = ROOT / "src" / "brodmann"
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if compares_kinds(path.read_text(encoding="utf-8"))
    }
    assert sorted(listed) == sorted(found)


def compares_kinds(source: str) -> bool:
    """Whether `kind`, or the `kind` of something, is compared with the name of a kind."""
    from brodmann.data.kinds import KINDS

    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            parts = [part for side in (node.left, *node.comparators) for part in ast.walk(side)]
            named = any(isinstance(part, ast.Constant) and part.value in KINDS for part in parts)
            kinds = {getattr(part, "id", getattr(part, "attr", "")) for part in parts}
            if named and "kind" in kinds:
                return True
    return False


def test_addresses_and_versions_agree() -> None:
    """Of the repository, in every file that names it; and the version in the citation."""
    import brodmann

    home = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Homepage"]
    files = [
        *ROOT.glob("*.*"),
        *(ROOT / ".github").rglob("*.*"),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "src").rglob("*.py"),
        *(ROOT / "src").rglob("*.html"),
    ]
    named = {
        address
        for file in files
        if file.suffix in (".md", ".toml", ".yml", ".cff", ".py", ".html")
        for address in re.findall(
            r"https://(?:www\.)?github\.com/[\w-]*brodmann[\w-]*/[\w-]+", file.read_text()
        )
    }
    assert named == {home}
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nrepository-code: {home}\n" in citation
    assert f"\nversion: {brodmann.__version__}\n" in citation
    assert f"\nrepo_url: {home}\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


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


@pytest.mark.slow
def test_the_trainers_lines_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The block that `coming_from.md` compares with, on a small model in place of BERT."""
    import dataclasses

    import datasets
    import transformers

    import brodmann as bm

    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "coming_from.md").read_text(encoding="utf-8")
    first = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    lines = re.search(r"## The transformers Trainer.*?```text\n(.*?)```(.*?)\n## ", page, re.DOTALL)
    assert first is not None and lines is not None
    names: dict[str, Any] = {}
    exec(first[1], names)
    bm.export(names["model"], "topic", out="bert-base-uncased")
    assert transformers.pipeline("text-classification", "bert-base-uncased")("a goal")
    names |= {name: getattr(transformers, name) for name in re.findall(r"\b[A-Z]\w+", lines[1])
              if hasattr(transformers, name)}  # fmt: skip
    names["Dataset"] = datasets.Dataset
    names["tokenizer"] = transformers.AutoTokenizer.from_pretrained("bert-base-uncased")
    names["accuracy"] = lambda found: {"accuracy": (found[0].argmax(-1) == found[1]).mean()}
    exec(lines[1], names)
    assert names["model"].num_labels == 2
    fields = {field.name for field in dataclasses.fields(transformers.TrainingArguments)}
    named = re.findall(r"^\| (`[a-z].*?) \|", lines[2], re.MULTILINE)
    options = {word for cell in named for word in re.findall(r"`([a-z]\w+_\w+)`", cell)}
    assert options and options - {"resume_from_checkpoint"} <= fields
