"""Fail when docstrings and comments of a package have too many nominal clauses, and print the worst files.

python tools/words.py            patchcore/ and each plugin
python tools/words.py FOLDER...

The count is of the word "what". Nearly every one stands in a clause that replaces a noun ("what it puts in places" for
"the objects that it writes"), and a reader has to guess that noun. The bound is for a whole package: a few that read
well may stay.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
#: The most that are accepted, per 1,000 words.
BOUND = 4
#: The number of files that are printed.
WORST = 10

WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")


class Count(NamedTuple):
    """The words of the docstrings and comments of a file or a folder.

    Args:
        words: how many there are.
        whats: how many of them are "what".
    """

    words: int
    whats: int

    @property
    def rate(self) -> float:
        """Occurrences of "what" per 1,000 words."""
        return 1000 * self.whats / self.words if self.words else 0.0


def prose(source: str) -> Iterator[str]:
    """Yield the docstrings and the comments of a module; a docstring may also describe an attribute."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def count(source: str) -> Count:
    """Return the count of a module's source text."""
    words = [word.lower() for text in prose(source) for word in WORD.findall(text)]
    return Count(len(words), words.count("what"))


def main(arguments: list[str] | None = None) -> int:
    """Print the rate of each folder and of its worst files; return 1 when a folder is above the bound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    packages = [ROOT / "patchcore", *sorted(ROOT.glob("plugins/*/"))]
    parser.add_argument("folders", nargs="*", type=Path, default=packages, metavar="FOLDER")
    return max(map(_check, parser.parse_args(arguments).folders))


def _check(folder: Path) -> int:
    counts = {path: count(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.py"))}
    total = Count(sum(each.words for each in counts.values()), sum(each.whats for each in counts.values()))
    print(f'"what": {total.rate:.1f} per 1,000 words of docstrings and comments in {folder.name}/, at most {BOUND}')
    for path, each in sorted(counts.items(), key=lambda item: -item[1].whats)[:WORST]:
        if each.whats:
            print(f"{each.whats:5}  {each.rate:5.1f} per 1,000  {path.relative_to(folder).as_posix()}")
    return int(total.rate > BOUND)


if __name__ == "__main__":
    sys.exit(main())
