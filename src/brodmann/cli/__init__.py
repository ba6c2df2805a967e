"""The `brodmann` command. Heavy imports are inside the commands, so that --help is quick."""

import codecs
import io
import os
import sys

import typer

# Importing a module adds its commands, in the order that --help shows them.
# isort: off
from brodmann.cli import datasets as data  # noqa: F401
from brodmann.cli import advising_command  # noqa: F401
from brodmann.cli import runs  # noqa: F401
from brodmann.cli import heads  # noqa: F401
from brodmann.cli import smaller  # noqa: F401
from brodmann.cli import models  # noqa: F401
from brodmann.cli import studies  # noqa: F401
# isort: on

from brodmann.cli.options import app, complain
from brodmann.errors import BrodmannError, disk_error

__all__ = ["app", "main"]
STAND_INS = {  # for what a stream that is not UTF-8 cannot show; anything else becomes \\uXXXX
    **dict.fromkeys("–—−─━╌", "-"),
    **dict.fromkeys("“”„", '"'),
    **dict.fromkeys("‘’", "'"),
    **dict.fromkeys("│┃", "|"),
    **dict.fromkeys("╭╮╰╯┌┐└┘", "+"),
    **dict(zip("░▒▓█", ".:+#", strict=True)),
    **dict(zip("▁▂▃▄▅▆▇", "_.,-=+*", strict=True)),
    "…": "...",
    "→": "->",
    "•": "*",
    "·": "-",
    "×": "x",
    "±": "+-",
    "≤": "<=",
    "≥": ">=",
    "α": "alpha",
    "δ": "delta",
}
RENAMED = {"--to": "--out"}  # options of earlier versions
STOPPED = "stopped: finished work is kept; run the same command again to resume"


def stand_ins(error: UnicodeError) -> tuple[str | bytes, int]:
    """Handle what a stream's encoding lacks: ASCII that can be read, or an escape."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    first = error.object[error.start]
    if first not in STAND_INS:
        error.end = error.start + 1
        return codecs.backslashreplace_errors(error)
    return STAND_INS[first], error.start + 1


codecs.register_error("stand-ins", stand_ins)


def main() -> None:
    """Run the command; an error that the user can fix is one line on stderr, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal or pipe that is not UTF-8 shows -> for an arrow, and the run continues.
            stream.reconfigure(errors="stand-ins")
    try:
        code = app(standalone_mode=False)  # typer's own messages are several lines in a box
        sys.stdout.flush()
    except BrodmannError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        complain(STOPPED)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output is gone: not our failure
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:  # e.g. a file where a folder is needed
        if error.filename is None:
            raise
        known = disk_error(error, error.filename)
        complain(str(known or f"{error.filename}: {error.strerror}"))
        sys.exit(2)
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer's usage errors have it
            raise
        if type(error).__name__ == "NoArgsIsHelpError":  # the help is printed when it is raised
            print(error.format_message(), end="")
            sys.exit(0)
        context = getattr(error, "ctx", None)
        command = f" {context.info_name}" if context is not None and context.parent else ""
        text = error.format_message()
        if (renamed := RENAMED.get(getattr(error, "option_name", ""))) is not None:
            text = f"{error.option_name} is called {renamed} now"  # type: ignore[attr-defined]
        complain(f"{text} (see `brodmann{command} --help`)")
        sys.exit(2)
    if code == 130:  # typer's own answer to Ctrl-C
        complain(STOPPED)
    sys.exit(code if isinstance(code, int) else 0)
