"""Find runs of lines that the source holds twice: `python tools/find_duplicates.py [FOLDER]`.

Blank lines, comments, docstrings, imports, signatures and constants do not count. Exits with 1 if
two places share `RUN` lines or more.
"""

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

RUN = 6  # lines
MARKS = set("()[]{},:")
CONSTANTS = r"[A-Z_]+(: .*)? = |@property"  # the same words in every module of a contract


def main() -> int:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "src")
    starts: dict[tuple[str, ...], list[tuple[Path, int]]] = defaultdict(list)
    for path in sorted(folder.rglob("*.py")):
        lines = code_lines(path.read_text(encoding="utf-8"))
        for place in range(len(lines) - RUN + 1):
            run = tuple(text for _, text in lines[place : place + RUN])
            starts[run].append((path, lines[place][0]))
    twice = [places for places in starts.values() if len(places) > 1]
    for places in twice:
        print(" = ".join(f"{path}:{line}" for path, line in places))
    return 1 if twice else 0


def code_lines(source: str) -> list[tuple[int, str]]:
    """(line number, text) of the lines that count."""
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, ast.FunctionDef):
            left_out.update(range(node.lineno, node.body[0].lineno))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    found = []
    for number, line in enumerate(source.splitlines(), 1):
        text = line.split("#")[0].strip()
        if number not in left_out and set(text) - MARKS and not re.match(CONSTANTS, text):
            found.append((number, text))
    return found


if __name__ == "__main__":
    sys.exit(main())
