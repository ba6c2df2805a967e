"""The text of a file: unpacked, decoded, and with a note if its encoding is not the stated one."""

import gzip
import io
import zlib
from pathlib import Path

from brodmann.errors import InputError

UNPACKED, PACKED_TIMES = 100_000_000, 200  # bytes; texts are packed about 3 to 10 times
# The longer mark comes first: UTF-32's begins with UTF-16's.
MARKS = (
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
SAMPLE = 1000  # bytes that show whether every second one is zero


def read_text(path: Path, encoding: str) -> tuple[str, tuple[str, ...]]:
    """The text without a byte order mark, and notes; `.gz` files are unpacked."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    if path.name.lower().endswith(".gz"):
        content = _unpacked(content, path)
    if encoding.lower() not in ("utf-8", "utf8"):
        return _decoded(content, encoding, path), ()
    found = _wide_encoding(content)
    if found is None:
        return _decoded(content, "utf-8-sig", path), ()
    text = _decoded(content, found, path).removeprefix("\ufeff")
    return text, (f"{path}: read as {found.upper()}",)


def _wide_encoding(content: bytes) -> str | None:
    """UTF-16 or UTF-32, which Excel and PowerShell write; None for everything else."""
    marked = next((name for mark, name in MARKS if content.startswith(mark)), None)
    if marked is not None:
        return marked
    sample = content[:SAMPLE]
    for first, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        zeros, others = sample[first::2], sample[1 - first :: 2]
        if len(zeros) > 1 and zeros.count(0) > 0.8 * len(zeros) and 0 not in others:
            return name
    return None


def _decoded(content: bytes, encoding: str, path: Path) -> str:
    name = encoding.removesuffix("-sig")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path} line {line}: not {name} text (byte 0x{content[error.start]:02x}): "
            "save the file as UTF-8 or set 'encoding'"
        ) from None
    except UnicodeError as error:  # codecs that are not text encodings
        raise InputError(
            f"{path}: cannot be read as {name} ({error}): save the file as UTF-8 or set 'encoding'"
        ) from None
    except (LookupError, ValueError):
        raise InputError(f"{path}: unknown encoding '{encoding:.40}'") from None


def _unpacked(content: bytes, path: Path) -> bytes:
    """Unpack a gzip file; one that would fill the memory from next to nothing is rejected."""
    found = bytearray()
    try:
        with gzip.open(io.BytesIO(content)) as file:
            while piece := file.read(2**20):
                found += piece
                if len(found) > max(UNPACKED, PACKED_TIMES * len(content)):
                    raise InputError(
                        f"{path}: unpacks to more than {PACKED_TIMES} times its size: not a table "
                        "of texts"
                    )
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: not a complete gzip file ({error})") from None
    return bytes(found)
