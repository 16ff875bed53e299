"""Add up the JUnit files of a run and print the closing line: ``N passed, N failed, N skipped``.

    python3 .ci/totals.py FOLDER

Before it stand the tests that failed, with the ends of the first errors, and why tests were skipped for which a tool of
this repository fetches what they need. Exits with 1 when a test failed or none passed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree import ElementTree

MOST_ERRORS = 6  # shown with the ends of their tracebacks: whoever sees only the end of a log sees these
MOST_FAILURES = 40
LINES_OF_AN_ERROR = 8


def main(folder: str) -> int:
    """Print the sum over the JUnit files in this folder; return the exit code."""
    passed = failed = skipped = 0
    reasons: dict[str, None] = {}
    failures: list[tuple[str, list[str]]] = []
    for file in sorted(Path(folder).glob("*.xml")):
        suites = list(ElementTree.parse(file).iter("testsuite"))
        reasons.update(dict.fromkeys(reasons_of(suites)))
        failures.extend(failures_of(file.stem, suites))
        total, failing, errors, skips = (
            sum(int(suite.get(count, "0")) for suite in suites) for count in ("tests", "failures", "errors", "skipped")
        )
        passed += total - failing - errors - skips
        failed += failing + errors
        skipped += skips
    for number, (test, error) in enumerate(failures[:MOST_FAILURES]):
        print(f"failed: {test}")
        for line in error if number < MOST_ERRORS else ():
            print(f"    {line}")
    if len(failures) > MOST_FAILURES:
        print(f"{len(failures) - MOST_FAILURES} more failures, in {folder}")
    for reason in reasons:
        print(f"skipped: {reason}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


def failures_of(results: str, suites: Iterable[ElementTree.Element]) -> Iterator[tuple[str, list[str]]]:
    """Yield each test that failed, with the name of the file of results, and the last lines of its error."""
    for suite in suites:
        for case in suite.iter("testcase"):
            for failure in (*case.findall("failure"), *case.findall("error")):
                lines = (failure.text or failure.get("message") or "").strip().splitlines()
                test = f"{case.get('classname')}::{case.get('name')} ({results})"
                yield test, [line[:200] for line in lines[-LINES_OF_AN_ERROR:]]


def reasons_of(suites: Iterable[ElementTree.Element]) -> Iterator[str]:
    """Yield the reasons of skipped tests that name a tool of this repository."""
    for suite in suites:
        for skip in suite.iter("skipped"):
            found = re.search(r"needs [^'\"]*tools/[^'\"]*", f"{skip.get('message')} {skip.text}")
            if found is not None:
                yield found[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
