"""Add up the JUnit files of a run and print the closing line: ``N passed, N failed, N skipped``.

    python3 .ci/totals.py FOLDER

Before it stands why tests were skipped for which a tool of this repository fetches what they need.
Exits with 1 when a test failed or none passed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree import ElementTree


def main(folder: str) -> int:
    """Print the sum over the JUnit files in this folder; return the exit code."""
    passed = failed = skipped = 0
    reasons: dict[str, None] = {}
    for file in sorted(Path(folder).glob("*.xml")):
        suites = list(ElementTree.parse(file).iter("testsuite"))
        reasons.update(dict.fromkeys(reasons_of(suites)))
        total, failures, errors, skips = (
            sum(int(suite.get(count, "0")) for suite in suites) for count in ("tests", "failures", "errors", "skipped")
        )
        passed += total - failures - errors - skips
        failed += failures + errors
        skipped += skips
    for reason in reasons:
        print(f"skipped: {reason}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


def reasons_of(suites: Iterable[ElementTree.Element]) -> Iterator[str]:
    """Yield the reasons of skipped tests that name a tool of this repository."""
    for suite in suites:
        for skip in suite.iter("skipped"):
            found = re.search(r"needs [^'\"]*tools/[^'\"]*", f"{skip.get('message')} {skip.text}")
            if found is not None:
                yield found[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
