"""Exceptions, notes and message helpers: every user error is one line that says what to do."""

import difflib
import errno
import logging
import re
from collections.abc import Iterable

from brodmann.text import listed


class BrodmannError(Exception):
    """Base of the errors that the command line prints as one line, without a traceback."""

    exit_code = 1


class InputError(BrodmannError, ValueError):
    """The data, the configuration or the call is wrong: exit code 2, nothing was written."""

    exit_code = 2


class HeadsNotFoundError(InputError):
    """The attention heads of a model cannot be located; the model may still train and predict."""


class FolderBusyError(InputError):
    """Another process is writing to the folder."""


class RunError(BrodmannError, RuntimeError):
    """The run itself failed, for example with a loss that is not a number: exit code 1."""


class Interrupted(BrodmannError):  # noqa: N818 (nothing went wrong)
    """Stopped by Ctrl-C or SIGTERM after saving: the same command resumes the work."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number  # the shell's own convention: 130 and 143

    def __reduce__(self) -> tuple[type, tuple[str, int]]:
        return Interrupted, (str(self), self.exit_code - 128)  # may come from another process


def note(text: str) -> None:
    """Tell the user something that does not stop the run.

    Logs to the logger "brodmann": the command line shows the record among the notes of a run, and
    Python prints it as one line on stderr unless logging is configured otherwise.
    """
    logging.getLogger("brodmann").warning(text)


# Control characters except tab and line break, and those that change the writing direction.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Replace control characters with JSON escapes: no name from a file may steer a terminal."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


MOST_SHOWN = 50  # the most words that a message lists


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for a near miss, else the known words, else an empty string."""
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if near:
        return f"; did you mean '{near[0]}'?"
    return f"; known: {listed(known, MOST_SHOWN)}" if known else ""


def disk_error(error: OSError, path: object) -> BrodmannError | None:
    """Turn a full, limited or read-only disk into a one-line error; None for any other error."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return InputError(f"no disk space left to write {path}: free some and run again")
    if error.errno == errno.EFBIG:
        return InputError(
            f"{path}: would become larger than this shell allows (ulimit -f): raise the limit and "
            "run again"
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return InputError(f"no permission to write {path}: choose another folder with 'output'")
    return None
