"""`advise` on two sets that were not made for it, from raw files to a served model.

    pip download --no-deps --no-binary :all: vaderSentiment==3.3.2 -d packages
    pip download --no-deps home-assistant-intents==2026.10.27 -d packages
    python benchmarks/advise_outside.py packages vader --budget 12m
    python benchmarks/advise_outside.py packages intents --budget 12m

`vader` is four files of texts rated by people (tweets, film reviews, product reviews, editorials),
as they are in the source package. `intents` is what people say to a smart home in four languages:
templates, of which every alternative is filled in at random until there are 600 rows per language.
One line per set goes to benchmarks/results/advise_outside.jsonl.
"""

import argparse
import io
import json
import random
import re
import subprocess
import sys
import tarfile
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from brodmann.provenance import provenance

RESULTS = Path(__file__).parent / "results" / "advise_outside.jsonl"
LANGUAGES = ("en", "de", "es", "nl")
ROWS = 600
DEEPEST = 8  # expansion rules inside expansion rules
PORT = 8765


def vader(packages: Path, folder: Path) -> list[Path]:
    """The four files of ratings, as they are."""
    found = []
    with tarfile.open(next(packages.glob("vader*.tar.gz"))) as outer:
        name = next(n for n in outer.getnames() if n.endswith("hutto_ICWSM_2014.tar.gz"))
        inner = outer.extractfile(name)
        assert inner is not None
        with tarfile.open(fileobj=io.BytesIO(inner.read())) as archive:
            for member in archive.getmembers():
                if member.name.endswith("GroundTruth.txt"):
                    content = archive.extractfile(member)
                    assert content is not None
                    path = folder / Path(member.name).name
                    path.write_bytes(content.read())
                    found.append(path)
    return sorted(found)


def intents(packages: Path, folder: Path) -> list[Path]:
    """Sentences drawn from templates, with the intent of each."""
    found = []
    with zipfile.ZipFile(next(packages.glob("home_assistant_intents*.whl"))) as archive:
        for language in LANGUAGES:
            data = json.loads(archive.read(f"home_assistant_intents/data/{language}.json"))
            draw = random.Random(0)
            templates = [
                (intent, sentence)
                for intent, own in data["intents"].items()
                for block in own["data"]
                for sentence in block["sentences"]
            ]
            rows: dict[str, str] = {}
            for _ in range(20 * ROWS):
                intent, template = draw.choice(templates)
                rows.setdefault(filled(template, data, draw), intent)
                if len(rows) == ROWS:
                    break
            path = folder / f"home_{language}.csv"
            lines = [f'"{text}",{intent}' for text, intent in rows.items()]
            path.write_text("say,what\n" + "\n".join(lines) + "\n", encoding="utf-8")
            found.append(path)
    return found


def filled(template: str, data: dict[str, Any], draw: random.Random) -> str:
    """One sentence of a template: alternatives, optional words, rules and slots."""
    for _ in range(DEEPEST):
        template = re.sub(
            r"<([^<>]+)>", lambda m: f"({data['expansion_rules'].get(m[1], '')})", template
        )
    while match := re.search(r"\[([^\[\]()]*)\]|\(([^\[\]()]*)\)", template):
        inside = match[1] if match[1] is not None else match[2]
        options = inside.split("|") + ([""] if match[1] is not None else [])
        template = template[: match.start()] + draw.choice(options) + template[match.end() :]
    text = re.sub(r"\{([^{}]+)\}", lambda m: slot(m[1].split(":")[0], data, draw), template)
    return " ".join(text.replace('"', " ").replace(";", " ").split())


def slot(name: str, data: dict[str, Any], draw: random.Random) -> str:
    """A value that the list of a slot names, or the slot's name."""
    listed = data["lists"].get(name, {})
    if "values" in listed:
        value = draw.choice(listed["values"])
        text = value["in"] if isinstance(value, dict) else value
        return re.sub(r"[\[\]()<>{}|]", " ", str(text))
    if "range" in listed:
        return str(draw.randint(int(listed["range"]["from"]), int(listed["range"]["to"])))
    return name.replace("_", " ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", type=Path)
    parser.add_argument("which", choices=["vader", "intents"])
    parser.add_argument("--budget", default="12m")
    parser.add_argument("--work", type=Path, default=Path("outside"))
    asked = parser.parse_args()
    folder = asked.work / asked.which
    (folder / "files").mkdir(parents=True, exist_ok=True)
    steps: dict[str, float] = {}
    with timed(steps, "files"):
        make = {"vader": vader, "intents": intents}[asked.which]
        files = make(asked.packages, folder / "files")
    to = str(folder / "advice")
    with timed(steps, "look"):
        print(brodmann("advise", *map(str, files), "--to", to))
    with timed(steps, "advise"):
        print(brodmann("advise", "--to", to, "--budget", asked.budget, "--yes"))
    document = json.loads((folder / "advice" / "advice.json").read_text(encoding="utf-8"))
    with timed(steps, "serve and ask"):
        answer = served(document["models"][0])
    found = {
        "set": asked.which,
        "budget": asked.budget,
        "files": {path.name: len(path.read_text("utf-8").splitlines()) for path in files},
        "minutes": {step: round(seconds / 60, 2) for step, seconds in steps.items()},
        "total_minutes": round(sum(steps.values()) / 60, 1),
        "plan": document["plan"],
        "kinds": {name: one["kind"] for name, one in document["looked"]["tasks"].items()},
        "choice": document["choice"],
        "apart": document["apart"],
        "without_signal": document["without_signal"],
        "scores": document["scores"],
        "gains": document["verdict"]["gains"],
        "served": [
            {task: {k: one[k] for k in ("label", "value") if k in one} for task, one in own.items()}
            for own in answer["answers"]
        ],
        "machine": machine(),
    }
    with open(RESULTS, "a", encoding="utf-8") as file:
        file.write(json.dumps(found) + "\n")
    print(json.dumps(found, indent=1))


@contextmanager
def timed(steps: dict[str, float], name: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    steps[name] = time.monotonic() - began


def brodmann(*words: str) -> str:
    command = [sys.executable, "-m", "brodmann", *words]
    found = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if found.returncode:
        raise SystemExit(found.stderr)
    return found.stdout


def served(model: dict[str, Any]) -> Any:
    """The answer of a running server to one text."""
    command = [sys.executable, "-m", "brodmann", "serve", model["folder"], "--port", str(PORT)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    body = json.dumps({"inputs": ["Turn on the lamp, it is a wonderful evening!"]}).encode()
    try:
        for _ in range(120):
            request = urllib.request.Request(
                f"http://127.0.0.1:{PORT}/predict",
                body,
                {"Content-Type": "application/json"},
            )
            try:
                with urllib.request.urlopen(request, timeout=30) as response:
                    return json.load(response)
            except OSError:
                time.sleep(0.5)
        raise SystemExit("the server did not answer")
    finally:
        server.terminate()
        server.wait()


def machine() -> dict[str, Any]:
    """Versions and hardware, without the places of this machine."""
    return {key: value for key, value in provenance().items() if key != "command"}


if __name__ == "__main__":
    main()
