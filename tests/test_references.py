"""docs/references.bib lists every paper that the project cites, and no other.

A citation names its entry by the first author's surname and the year: `Li et al. 2023`,
`Stickland & Murray 2019`, `Wilson 1927`, with or without brackets around the year.

A paragraph of a docstring that starts with `Reference:` (`References:`, `Reference for X:`) also
quotes the title, or part of it, right after the year: `Zamir et al. 2018, "Taskonomy", §3.4`. That
part must occur in the title of the entry; case, punctuation and LaTeX markup do not count. An
undated work is cited without a year: `Gupta et al., "MESH"`. Single authors count only in these
paragraphs, because elsewhere `October 2018` would look like one.

Datasets are cited by the key of their entry, in `data/catalogue.toml`.
"""

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import pytest

from brodmann.data.catalogue import entries as catalogue_entries

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src" / "brodmann").rglob("*.py"))
TEXTS = [
    *SOURCES,
    *sorted((ROOT / "src" / "brodmann").rglob("*.toml")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "examples").glob("*.toml")),
    ROOT / "README.md",
]
NAME = r"(?P<name>(?:[A-Z][\w'-]+ )*[A-Z][\w'-]+)"
YEAR = r"(?:,? \(?(?P<year>(?:19|20)\d\d)\b)"
TITLE = r'(?:,? "(?P<title>[^"]+)")'
SEVERAL = re.compile(rf"{NAME} (?:et al\.|& [A-Z][\w'-]+){YEAR}")
IN_PARAGRAPH = re.compile(
    rf"{NAME}(?: et al\.| & [A-Z][\w'-]+)?(?=,? (?:\(?(?:19|20)\d\d\b|\")){YEAR}?{TITLE}?"
)
PARAGRAPH = re.compile(r'^[ ]*References?(?: for [^:\n]+)?:(.*?)(?=\n\s*\n|""")', re.M | re.S)


@dataclass(frozen=True)
class Entry:
    key: str
    surname: str  # of the first author
    year: str | None
    title: str


def plain(text: str) -> str:
    """Letters without accents and digits, in lower case."""
    letters = unicodedata.normalize("NFKD", text.replace("\\&", "and").replace("&", "and"))
    return re.sub(r"[^a-z0-9]", "", letters.lower())


def bibliography() -> list[Entry]:
    text = (ROOT / "docs" / "references.bib").read_text(encoding="utf-8")
    found = []
    for block in re.split(r"^@\w+\{", text, flags=re.MULTILINE)[1:]:
        fields = dict(re.findall(r"^  (\w+) = \{(.*)\},$", block, re.MULTILINE))
        surname = plain(fields["author"].partition(",")[0])
        found.append(Entry(block.partition(",")[0], surname, fields.get("year"), fields["title"]))
    return found


ENTRIES = bibliography()


def one_line(text: str) -> str:
    """The text without line breaks, nor the `#` that starts the next line of a comment."""
    return re.sub(r"\s*\n\s*(?:# ?)?", " ", text)


def cited(match: re.Match[str]) -> list[Entry]:
    """Entries that a citation can mean: any end of the capitalised words before it is a surname."""
    words = match["name"].split()
    ends = {plain("".join(words[start:])) for start in range(len(words))}
    title = plain(match.groupdict().get("title") or "")
    return [
        entry
        for entry in ENTRIES
        if entry.surname in ends and entry.year == match["year"] and title in plain(entry.title)
    ]


def paragraphs(path: Path) -> list[str]:
    """The papers of every `Reference:` paragraph, without the departures that may follow them."""
    text = path.read_text(encoding="utf-8")
    return [re.split(r"\bDepartures?:", one_line(found))[0] for found in PARAGRAPH.findall(text)]


def text_of(path: Path) -> str:
    return one_line(path.read_text(encoding="utf-8"))


WITH_REFERENCES = [path for path in SOURCES if paragraphs(path)]


def test_keys_are_unique() -> None:
    assert len({entry.key for entry in ENTRIES}) == len(ENTRIES)


@pytest.mark.parametrize("path", WITH_REFERENCES, ids=lambda path: path.stem)
def test_every_reference_of_a_method_is_in_the_bibliography(path: Path) -> None:
    for paragraph in paragraphs(path):
        matches = list(IN_PARAGRAPH.finditer(paragraph))
        assert matches, f"no citation in: {paragraph}"
        for match in matches:
            assert match["title"], f"{match[0]}: no title"
            assert len(cited(match)) == 1, f"{match[0]}: {cited(match)}"
        quoted = re.findall(r'"([^"]+)"', paragraph)
        assert quoted == [match["title"] for match in matches], "a title without author and year"


def test_every_citation_names_one_entry_of_the_bibliography() -> None:
    wrong = [
        (path.relative_to(ROOT), match[0], [entry.key for entry in cited(match)])
        for path in TEXTS
        for match in SEVERAL.finditer(text_of(path))
        if len(cited(match)) != 1
    ]
    assert wrong == []


def test_every_entry_of_the_bibliography_is_cited() -> None:
    used = {found.citation for found in catalogue_entries().values()}
    for path in TEXTS:
        used |= {entry.key for match in SEVERAL.finditer(text_of(path)) for entry in cited(match)}
    for path in WITH_REFERENCES:
        for paragraph in paragraphs(path):
            for match in IN_PARAGRAPH.finditer(paragraph):
                used |= {entry.key for entry in cited(match)}
    assert [entry.key for entry in ENTRIES if entry.key not in used] == []


def test_a_wrong_year_a_wrong_title_and_an_unknown_author_are_noticed() -> None:
    def first(text: str) -> list[str]:
        match = IN_PARAGRAPH.search(text)
        assert match is not None
        return [entry.key for entry in cited(match)]

    assert first('Fei et al. 2022, "Coarse-to-fine", §3.3') == ["fei-etal-2022-coarse"]
    assert first('Fei et al. 2021, "Coarse-to-Fine"') == []
    assert first('Fei et al. 2022, "Hierarchical Multi-task Learning with Task Relevance"') == []
    assert first('Nobody et al. 2022, "Coarse-to-Fine"') == []
    assert first('Gupta et al., "MESH"') == ["gupta-etal-mesh"]
