"""Write the tables of docs/semantics.md from the marks of tests/hostile.

python tools/semantics_tables.py           # rewrites the tables
python tools/semantics_tables.py --check   # exits with 1 where the page is out of date

Collects the tests with pytest and runs none of them. Their marks are described in tests/hostile/conftest.py.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_tables import update

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "semantics.md"
TESTS = ROOT / "tests" / "hostile"

#: The marks that make rows: the head of the table, and the arguments of the mark, a column each.
TABLES = {
    "holder": (
        "| what holds it | by `Wrap`, `when_call` | by plain `Replace` |",
        ("kind", "wrapped", "replaced"),
    ),
    "limit": ("| limit | where you are told |", ("what", "told")),
}

_TABLE = re.compile(r"(<!-- (holder|limit) rows -->\n).*?(<!-- end -->)", re.DOTALL)


class _Collector:
    """A pytest plugin that keeps the marks of the collected tests."""

    def __init__(self) -> None:
        self.marks: list[pytest.Mark] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Keep the marks, in order of the tests."""
        self.marks.extend(mark for item in session.items for mark in item.iter_markers() if mark.name in TABLES)


def marks() -> list[pytest.Mark]:
    """Return the marks of all hostile tests, in order of files and tests.

    Raises:
        RuntimeError: a module of the tests cannot be collected.
    """
    collector = _Collector()
    options = ["--collect-only", "--quiet", "--override-ini=addopts=", "-p", "no:cacheprovider", "-p", "no:xdist"]
    with contextlib.redirect_stdout(io.StringIO()) as output:
        code = pytest.main([*options, f"--rootdir={ROOT}", str(TESTS)], plugins=[collector])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise RuntimeError(f"the tests of {TESTS} cannot be collected:\n{output.getvalue()}")
    return collector.marks


def rendered(page: str, found: list[pytest.Mark]) -> str:
    """Return the text of the page with its tables made anew from marks."""
    return _TABLE.sub(lambda match: match[1] + "\n" + table(match[2], found) + "\n" + match[3], page)


def table(name: str, found: list[pytest.Mark]) -> str:
    """Return the table of one kind of mark: each row once, whichever number of tests has it."""
    head, columns = TABLES[name]
    return "\n".join([head, "|---" * len(columns) + "|", *dict.fromkeys(_rows(name, columns, found))]) + "\n"


def _rows(name: str, columns: tuple[str, ...], found: list[pytest.Mark]) -> Iterator[str]:
    for mark in found:
        if mark.name == name:
            given = {**dict(zip(columns, mark.args)), **mark.kwargs}
            yield "| " + " | ".join(given[column].replace("|", "\\|") for column in columns) + " |"


def main() -> int:
    """Rewrite the page, or say whether it is up to date."""
    return update(PAGE, rendered(PAGE.read_text(encoding="utf-8"), marks()))


if __name__ == "__main__":
    sys.exit(main())
