"""Commands to start with: a starter configuration, the catalogue, the environment."""

import json
from pathlib import Path
from typing import Annotated

import typer

from brodmann.cli.options import START, Json, app, print_blocks
from brodmann.errors import InputError


@app.command(rich_help_panel=START)
def init(
    folder: Annotated[Path, typer.Argument(help="where to write")] = Path(),
) -> None:
    """Write a commented starter configuration and sample files.

    Example: brodmann init mine && brodmann run mine/brodmann.toml
    """
    from brodmann.pipeline.init import write_starter

    for path in write_starter(folder):
        print(f"wrote {path}")
    print(f"next: brodmann run {folder / 'brodmann.toml'}")


@app.command(rich_help_panel=START)
def tasks(
    name: Annotated[
        str | None, typer.Argument(help="show this task in full", show_default=False)
    ] = None,
    group: Annotated[str | None, typer.Option(help="only this group, e.g. glue, sentiment")] = None,
    kind: Annotated[str | None, typer.Option(help="only this kind")] = None,
    language: Annotated[str | None, typer.Option(help="only with this language")] = None,
    fetch: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="write this dataset's files (repeatable)"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="folder for --fetch, usable as data_dir")] = None,
    as_json: Json = False,
) -> None:
    """List the named tasks, or fetch their data.

    Fetching writes files for machines without access to the hub.

    Example: brodmann tasks --group glue; brodmann tasks --fetch glue/sst2 --out data
    """
    from brodmann.data import catalogue

    if fetch:
        if name is not None:
            raise InputError(f"tasks {name}: to fetch it, write --fetch {name}")
        _fetch(fetch, out, as_json)
        return
    if out is not None:
        raise InputError("--out needs --fetch: name the dataset to fetch")
    if name is not None:
        entry, _ = catalogue.find(name)
        facts = catalogue.facts(entry)
        if as_json:
            print(json.dumps(facts))
            return
        from brodmann.reporting.task_tables import one_entry

        print_blocks(one_entry(facts))
        return
    chosen = catalogue.chosen(group, kind, language)
    if as_json:
        print(json.dumps([catalogue.facts(entry) for entry in chosen]))
        return
    from brodmann.reporting.task_tables import catalogue as catalogue_table

    print_blocks(catalogue_table(chosen))


def _fetch(names: list[str], out: Path | None, as_json: bool) -> None:
    from brodmann.data import catalogue
    from brodmann.data.sources.hub import fetch

    if out is None:
        raise InputError("--fetch needs --out DIR, the folder to write into")
    wanted = [(catalogue.find(name), name) for name in names]  # check all names before fetching any
    say = (lambda text: None) if as_json else print
    written: dict[str, int] = {}

    def wrote(path: Path, rows: int) -> None:
        written[str(path)] = rows
        say(f"  wrote {path} ({rows:,} rows)")

    for (entry, languages), _ in wanted:
        for language in languages:
            say(f"{entry.named(language)} ({entry.licence or 'licence not stated'})")
            fetch(entry, language, out, wrote)
    if as_json:
        print(json.dumps(written))


@app.command(rich_help_panel=START)
def doctor(as_json: Json = False) -> None:
    """Show the environment: versions, device, what is missing.

    Example: brodmann doctor
    """
    from brodmann.pipeline.doctor import examine

    facts = examine()
    if as_json:
        print(json.dumps(facts))
        return
    from brodmann.reporting.blocks import Table

    rows = [
        ("ok" if check["ok"] else "–", check["name"], check["text"]) for check in facts["checks"]
    ]
    print_blocks([Table(("", "", ""), rows)])


@app.command(rich_help_panel=START)
def schema(
    out: Annotated[Path | None, typer.Option(help="file to write; default: print it")] = None,
) -> None:
    """Print the JSON schema of configurations, for editors.

    Editors complete and check a TOML file with it.

    Example: brodmann schema --out brodmann.schema.json
    """
    from brodmann.config.json_schema import config_schema
    from brodmann.files import write_text

    text = json.dumps(config_schema(), indent=2) + "\n"
    if out is None:
        print(text, end="")
        return
    if out.is_dir():
        raise InputError(f"{out}: is a folder, expected the name of a file")
    write_text(out, text)
    print(f"wrote {out}; name it in a configuration's first line: #:schema {out}")
