"""Files around the source: the workflow, issue forms, Dockerfile and the site's pages."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def workflow() -> dict[str, Any]:
    path = ROOT / ".github" / "workflows" / "ci.yml"
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def targets() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE))


def test_every_command_of_the_workflow_exists() -> None:
    steps = [step for job in workflow()["jobs"].values() for step in job["steps"]]
    commands = [shlex.split(step["run"]) for step in steps if "run" in step]
    made = {words[1] for words in commands if words[0] == "make"}
    assert made == {"check", "test", "wheel-check"} and made <= targets()
    others = [words for words in commands if words[0] != "make"]
    needed = PROJECT["optional-dependencies"]["docs"]
    assert others == [["pip", "install", *needed], ["mkdocs", "build", "--site-dir", "site"]]
    for step in steps:  # every action has a version, and every setup an interpreter
        if "uses" in step:
            assert re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"])
        if "setup-python" in step.get("uses", ""):
            assert step["with"]["python-version"]
        if "upload-artifact" in step.get("uses", ""):
            assert f"--outdir {step['with']['path'].rstrip('/')}" in (ROOT / "Makefile").read_text()


def test_the_workflow_tests_every_python_that_is_promised() -> None:
    prefix = "Programming Language :: Python :: "
    promised = [one.removeprefix(prefix) for one in PROJECT["classifiers"] if prefix in one]
    assert workflow()["jobs"]["test"]["strategy"]["matrix"]["python"] == promised
    assert PROJECT["requires-python"] == f">={promised[0]}"


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_issue_forms_have_what_the_site_requires(form: Path) -> None:
    found = yaml.safe_load(form.read_text(encoding="utf-8"))
    if form.name == "config.yml":
        assert all({"name", "url", "about"} == set(link) for link in found["contact_links"])
        return
    assert found["name"] and found["description"]
    identities = [part["id"] for part in found["body"] if part["type"] != "markdown"]
    assert len(identities) == len(set(identities)) > 0
    for part in found["body"]:
        assert part["type"] in ("input", "textarea", "dropdown", "checkboxes", "markdown")
        assert part["type"] == "markdown" or part["attributes"]["label"]
        if part["type"] in ("dropdown", "checkboxes"):
            assert part["attributes"]["options"]


def test_the_form_for_methods_offers_what_can_be_added() -> None:
    found = yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE/new_method.yml").read_text())
    sort = next(part for part in found["body"] if part["id"] == "sort")
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| an? ([a-z ]+) \|", text, re.MULTILINE)
    added = {row for row in rows if row not in ("file format", "section of the page", "recipe")}
    assert set(sort["attributes"]["options"]) == added | {"backbone", "something else"}


def test_the_dockerfile_copies_what_is_there_and_runs_the_demo() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copied = [line.split()[1:-1] for line in text.splitlines() if line.startswith("COPY")]
    assert all((ROOT / name).exists() for names in copied for name in names)
    assert text.rstrip().endswith('CMD ["make", "demo"]') and "demo" in targets()
    # Without its stamp, make would install the tools of developers.
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "touch .venv/.installed" in text and "STAMP := .venv/.installed" in makefile


def test_the_site_lists_every_page() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = [page for entry in settings["nav"] for page in entry.values()]
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))
    assert settings["strict"] is True
